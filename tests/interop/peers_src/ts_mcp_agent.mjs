// An agent on the TypeScript SDK that uses MCP servers over ACP, for our client's tools.
//
//     node ts_mcp_agent.mjs SDK_FOLDER
//
// The first word of a prompt says what it does with the first server of session/new; it says what came of it as JSON.

import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const find = (name) =>
  import(pathToFileURL(createRequire(process.argv[2] + "/").resolve(`@agentclientprotocol/sdk${name}`)));
const acp = await find("/unstable");
const { McpOverAcpHttpBridge } = await find("/experimental/mcp-http");
const { agent: toAgent, client: toClient } = acp.methods;

const clientInfo = { name: "ts", version: "1" };
const mcp = new acp.McpOverAcpCaller({ clientInfo });
const bridge = new McpOverAcpHttpBridge(mcp);
let servers = [];

const directives = {
  async call(client, name, ...rest) {
    const notifications = [];
    const params = { name, arguments: JSON.parse(rest.join(" ") || "{}"), _meta: { progressToken: "p" } };
    const onNotification = (each) => notifications.push(each);
    const outcome = await mcp.request(client, servers[0].serverId, "tools/call", params, { onNotification });
    return { outcome, notifications };
  },

  async ask(client, method) {
    return await mcp.request(client, servers[0].serverId, method, {});
  },

  async cancel(client, name) {
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 300);
    const params = { name, arguments: {} };
    const options = { signal: stop.signal };
    return await mcp.request(client, servers[0].serverId, "tools/call", params, options).then(
      (outcome) => ({ outcome }),
      (error) => ({ code: error.code }),
    );
  },

  async http(client) {
    const [server] = await bridge.adaptServers(client, servers);
    const response = await fetch(server.url, {
      method: "POST",
      headers: {
        ...Object.fromEntries(server.headers.map(({ name, value }) => [name, value])),
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/list",
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "tools/list",
        params: {
          _meta: {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
          },
        },
      }),
    });
    const answer = await response.json();
    return { names: answer.result.tools.map(({ name }) => name) };
  },
};

const app = acp
  .agent({ name: "ts-mcp-agent" })
  .onRequest(toAgent.initialize, () => ({
    protocolVersion: 1,
    agentCapabilities: { mcpCapabilities: { acp: true } },
  }))
  .onNotification(toAgent.mcp.message, mcp.handleNotification)
  .onRequest(toAgent.session.new, ({ params }) => {
    servers = params.mcpServers;
    return { sessionId: "s1" };
  })
  .onRequest(toAgent.session.prompt, async ({ params, client }) => {
    const [first, ...rest] = params.prompt[0].text.split(" ");
    const text = JSON.stringify(await directives[first](client, ...rest));
    const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text } };
    await client.notify(toClient.session.update, { sessionId: params.sessionId, update });
    return { stopReason: "end_turn" };
  });

await app.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin))).closed;
