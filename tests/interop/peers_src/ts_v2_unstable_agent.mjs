// An agent on the TypeScript SDK's unstable entry point of version 2, with all that is not settled yet.
//
//     node ts_v2_unstable_agent.mjs SDK_FOLDER
//
// A prompt sends every unstable update, asks an MCP server of the client's, and says how it answered.

import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [, , folder] = process.argv;
const find = (name) => import(pathToFileURL(createRequire(folder + "/").resolve(`@agentclientprotocol/sdk${name}`)));
const acp = await find("/experimental/v2/unstable");
const { agent: toAgent, client: toClient } = acp.methods;

const sessions = new Map();
const heard = [];
const known = ({ sessionId }) => {
  if (!sessions.has(sessionId)) throw acp.RequestError.sessionNotFound(sessionId);
  return sessions.get(sessionId);
};
const open = (sessionId) => {
  sessions.set(sessionId, { title: null, archived: false, open: true });
  return { sessionId };
};

async function show(client, sessionId) {
  const tell = (update, about = sessionId) => client.notify(toClient.session.update, { sessionId: about, update });
  await tell({ sessionUpdate: "state_update", state: "running" });
  await tell({ sessionUpdate: "plan_update", plan: { type: "markdown", planId: "p", content: "# Look" } });
  await tell({ sessionUpdate: "plan_update", plan: { type: "file", planId: "q", uri: "file:///plan.md" } });
  await tell({ sessionUpdate: "plan_removed", planId: "q" });
  await tell({ sessionUpdate: "subagent_update", sessionId: "child", title: "Reads", capabilities: { cancel: {} } });
  await tell({ sessionUpdate: "session_message", messageId: "m", senderSessionId: "child" });
  const content = { type: "text", text: "done" };
  await tell({ sessionUpdate: "session_message_chunk", messageId: "m", content });
  await tell({ sessionUpdate: "state_update", state: "unknown" }, "child");
  await client.notify(toClient.auth.statusUpdate, { state: "authenticated", accounts: [{ label: "me" }] });
  const asked = { serverId: "srv", requestId: "r1", method: "tools/list", params: { cursor: "c" } };
  const answer = await client.request(toClient.mcp.message, asked);
  while (heard.length === 0) await pause(5); // the SDK need not have told of it before the answer
  const text = JSON.stringify([answer.result, heard]);
  await tell({ sessionUpdate: "agent_message", messageId: "a", content: [{ type: "text", text }] });
  await tell({ sessionUpdate: "state_update", state: "idle", stopReason: "end_turn" });
}

const marker = {};
const second = acp
  .agent({ name: "ts-v2-unstable-agent" })
  .onRequest(toAgent.initialize, () => ({
    protocolVersion: 2,
    info: { name: "ts-v2-unstable-agent", version: "1" },
    capabilities: {
      auth: { status: marker },
      providers: marker,
      session: { mcp: { acp: marker }, fork: marker, archive: marker, status: marker, title: marker, systemPrompt: marker },
    },
  }))
  .onRequest(toAgent.session.new, ({ params }) => ({ ...open("theirs"), _meta: { system: params.systemPrompt ?? null } }))
  .onRequest(toAgent.session.list, ({ params }) => {
    const wanted = { include: [false, true], only: [true] }[params.archived] ?? [false];
    const found = [...sessions].filter(([, each]) => wanted.includes(each.archived));
    return { sessions: found.map(([sessionId, { title, archived }]) => ({ sessionId, cwd: "/", title, archived })) };
  })
  .onRequest(toAgent.session.prompt, ({ params, client }) => {
    known(params);
    setImmediate(() => show(client, params.sessionId));
    return { messageId: "u" };
  })
  .onRequest(toAgent.auth.status, () => ({ state: "unauthenticated" }))
  .onRequest(toAgent.providers.list, () => ({
    providers: [{ providerId: "main", supported: ["openai"], required: true, current: null }],
  }))
  .onRequest(toAgent.providers.set, ({ params }) => ({ _meta: { set: params.providerId } }))
  .onRequest(toAgent.providers.disable, () => ({}))
  .onRequest(toAgent.session.fork, ({ params }) => {
    known(params);
    return open(`${params.sessionId}-fork`);
  })
  .onRequest(toAgent.session.archive, ({ params }) => {
    Object.assign(known(params), { archived: true, open: false });
    return {};
  })
  .onRequest(toAgent.session.unarchive, ({ params }) => {
    known(params).archived = false;
    return {};
  })
  .onRequest(toAgent.session.status, ({ params }) =>
    known(params).open ? { status: "open", state: { state: "idle" } } : { status: "saved" },
  )
  .onRequest(toAgent.session.setTitle, ({ params }) => {
    known(params).title = params.title;
    return { title: params.title };
  })
  .onNotification(toAgent.mcp.message, ({ params }) => void heard.push(`${params.requestId} ${params.method}`));

const router = acp.agentProtocolRouter().withV2(second);
await router.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin))).closed;
