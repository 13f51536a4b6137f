// A client on the TypeScript SDK that serves MCP tools over ACP, for our agent to use.
//
//     node ts_mcp_client.mjs SDK_FOLDER PLAN
//
// PLAN is JSON: {"agent": [argv], "prompts": [TEXT]}.  It prints what its tools noticed and what the agent said.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const sdk = createRequire(process.argv[2] + "/").resolve("@agentclientprotocol/sdk/unstable");
const acp = await import(pathToFileURL(sdk));
const { agent: toAgent, client: toClient } = acp.methods;
const plan = JSON.parse(process.argv[3]);
const report = (event, members) => process.stdout.write(JSON.stringify({ event, ...members }) + "\n");
const text = (value) => ({ result: { resultType: "complete", content: [{ type: "text", text: value }] } });

async function serve({ method, params, signal, notify, clientInfo }) {
  if (method === "server/discover") {
    report("discover", { clientInfo });
    return { result: { resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: { tools: {} } } };
  }
  if (method === "tools/list") {
    return { result: { resultType: "complete", tools: [{ name: "echo", inputSchema: { type: "object" } }] } };
  }
  if (method !== "tools/call") throw new acp.McpProtocolError(-32601, "Method not found");
  if (params.name === "steps") {
    const { progressToken } = params._meta;
    await notify("notifications/progress", { progressToken, progress: 1, total: 2 });
    await notify("notifications/progress", { progressToken, progress: 2, total: 2 });
    return text("done");
  }
  if (params.name === "hang") {
    report("hanging", {});
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
    report("aborted", {});
    throw new Error("aborted");
  }
  return text(JSON.stringify(params.arguments));
}

const mcp = new acp.McpOverAcpProvider();
const agent = spawn(plan.agent[0], plan.agent.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const app = acp
  .client({ name: "ts-mcp-client" })
  .onRequest(toClient.mcp.message, mcp.handleRequest)
  .onNotification(toClient.session.update, ({ params }) => report("said", { text: params.update.content?.text }));
const connection = app.connect(acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)));
const tools = mcp.registerServer(connection.agent, { name: "tools", handler: serve });
const initialized = await connection.agent.request(toAgent.initialize, { protocolVersion: 1, clientCapabilities: {} });
report("initialized", { mcp: initialized.agentCapabilities.mcpCapabilities });
const opening = { cwd: "/", mcpServers: [tools.declaration] };
const { sessionId } = await connection.agent.request(toAgent.session.new, opening);
for (const prompt of plan.prompts) {
  const { stopReason } = await connection.agent.request(toAgent.session.prompt, {
    sessionId,
    prompt: [{ type: "text", text: prompt }],
  });
  await new Promise((resolve) => setTimeout(resolve, 50));
  report("end", { stopReason });
}
agent.stdin.end();
await new Promise((resolve) => agent.on("close", resolve));
