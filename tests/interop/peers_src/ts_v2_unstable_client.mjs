// A client on the TypeScript SDK's unstable entry point of version 2, which calls all that is not settled yet.
//
//     node ts_v2_unstable_client.mjs SDK_FOLDER PLAN
//
// PLAN is JSON: {"agent": [argv], "cwd": DIR}.  It prints one JSON line for each answer, and for each update.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [, , folder, planText] = process.argv;
const find = (name) => import(pathToFileURL(createRequire(folder + "/").resolve(`@agentclientprotocol/sdk${name}`)));
const acp = await find("/experimental/v2/unstable");
const { agent: toAgent, client: toClient } = acp.methods;
const plan = JSON.parse(planText);
const report = (event, members) => process.stdout.write(JSON.stringify({ event, ...members }) + "\n");

const child = spawn(plan.agent[0], plan.agent.slice(1), { stdio: ["pipe", "pipe", "inherit"], cwd: plan.cwd });
const exited = once(child, "exit");
let onIdle = () => {};

const app = acp
  .client({ name: "ts-v2-unstable-client" })
  .onNotification(toClient.session.update, ({ params }) => {
    report("update", { update: params.update, sessionId: params.sessionId });
    if (params.update.sessionUpdate === "state_update" && params.update.stopReason) onIdle();
  })
  .onNotification(toClient.auth.statusUpdate, ({ params }) => report("auth", { params }))
  .onRequest(toClient.mcp.message, async ({ params, agent }) => {
    const { serverId, requestId } = params;
    const about = { serverId, requestId, method: "notifications/progress", params: { progress: 1 } };
    await agent.notify(toAgent.mcp.message, about);
    return { result: { tools: [params.method, params.params] } };
  });

const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
try {
  await app.connectWith(stream, async (context) => {
    const call = async (method, params) => {
      const [kind, value] = await context.request(method, params).then(
        (result) => ["result", result],
        (error) => ["code", error.code],
      );
      report("answer", { method, [kind]: value });
      return value;
    };
    const info = { name: "ts-v2-unstable-client", version: "1" };
    const hello = await context.request(toAgent.initialize, { protocolVersion: 2, capabilities: {}, info });
    report("initialized", { capabilities: hello.capabilities });
    await call(toAgent.auth.status, {});
    await call(toAgent.providers.list, {});
    const baseUrl = "https://example.org/";
    await call(toAgent.providers.set, { providerId: "main", apiType: "openai", baseUrl, headers: { "X-Key": "k" } });
    await call(toAgent.providers.disable, { providerId: "other" });
    const { sessionId } = await call(toAgent.session.new, { cwd: plan.cwd });
    const { sessionId: fork } = await call(toAgent.session.fork, { sessionId, cwd: plan.cwd });
    await call(toAgent.session.setTitle, { sessionId: fork, title: "Forked" });
    await call(toAgent.session.status, { sessionId: fork });
    const idle = new Promise((resolve) => (onIdle = resolve));
    await call(toAgent.session.prompt, { sessionId: fork, prompt: [{ type: "text", text: "show" }] });
    await idle;
    await call(toAgent.session.archive, { sessionId: fork });
    await call(toAgent.session.status, { sessionId: fork });
    await call(toAgent.session.prompt, { sessionId: fork, prompt: [{ type: "text", text: "more" }] });
    await call(toAgent.session.list, { archived: "only" });
    await call(toAgent.session.unarchive, { sessionId: fork });
    await call(toAgent.session.list, {});
  });
} catch (error) {
  report("failed", { message: error.message });
}
child.stdin.end();
const [code] = await exited;
report("exited", { code });
