// A client on the TypeScript SDK that follows a plan and prints one JSON line per event.
//
//     node ts_client.mjs SDK_FOLDER PLAN
//
// PLAN is JSON: {"agent": [argv], "cwd": DIR, "permit": "allow" | "deny" | "hold", "steps": [STEP]}.
// In place of "agent" there may be "url": an agent over http or ws.
// "hold" answers no permission request before the turn is cancelled; a file named "never" is not read before that.
// STEP is {"prompt": TEXT (where $SID is the session's id), "cancel": "session" | "request", "after": UPDATES} or {"request": METHOD, "params": {}}.
// With "held": COUNT in place of "after" it is cancelled once so many permission requests are held.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const sdk = createRequire(process.argv[2] + "/").resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(sdk));
const { agent: toAgent, client: toClient } = acp.methods;
const plan = JSON.parse(process.argv[3]);

const report = (event, members) => process.stdout.write(JSON.stringify({ event, ...members }) + "\n");
// The SDK starts notification handlers in order and does not wait for them before it hands out an answer.
const settled = () => new Promise((resolve) => setTimeout(resolve, 20));
const terminals = new Map();
const held = [];
let onUpdate = () => {};
let onHeld = () => {};

async function permission({ params, signal }) {
  report("permission", { title: params.toolCall.title, options: params.options.map((option) => option.kind) });
  if (plan.permit === "hold") {
    return new Promise((resolve, reject) => {
      held.push(() => resolve({ outcome: { outcome: "cancelled" } }));
      const cancelled = () => {
        report("permission_cancelled", {});
        reject(acp.RequestError.requestCancelled());
      };
      if (signal.aborted) cancelled();
      else signal.addEventListener("abort", cancelled);
      onHeld();
    });
  }
  const chosen = params.options.find((option) => option.kind.startsWith(plan.permit === "deny" ? "reject" : "allow"));
  return { outcome: { outcome: "selected", optionId: chosen.optionId } };
}

async function read({ params, signal }) {
  report("read", { path: params.path });
  if (params.path.endsWith("/never")) {
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
    report("read_cancelled", {});
    throw acp.RequestError.requestCancelled();
  }
  try {
    return { content: await readFile(params.path, "utf8") };
  } catch {
    throw acp.RequestError.resourceNotFound(params.path);
  }
}

async function write({ params }) {
  report("write", { path: params.path });
  await writeFile(params.path, params.content);
}

async function createTerminal({ params }) {
  const env = { ...process.env, ...Object.fromEntries((params.env ?? []).map(({ name, value }) => [name, value])) };
  const child = spawn(params.command, params.args ?? [], { cwd: params.cwd ?? plan.cwd, env });
  const terminal = { child, output: "", exit: once(child, "close") };
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (terminal.output += data));
  const terminalId = `terminal-${terminals.size}`;
  terminals.set(terminalId, terminal);
  report("terminal", { command: params.command, args: params.args });
  return { terminalId };
}

async function waitForExit({ params }) {
  const [exitCode, signal] = await terminals.get(params.terminalId).exit;
  return { exitCode, signal };
}

function release({ params }) {
  terminals.get(params.terminalId).child.kill();
  report("released", {});
}

async function prompt(context, sessionId, step) {
  const stop = new AbortController();
  let seen = 0;
  const cancel = async () => {
    if (step.cancel === "request") return stop.abort();
    await context.notify(toAgent.session.cancel, { sessionId });
    for (const answer of held.splice(0)) answer();
  };
  onUpdate = async (update) => {
    report("update", { update });
    seen += 1;
    if (step.cancel && !step.held && seen === (step.after ?? 1)) await cancel();
  };
  held.length = 0;
  onHeld = () => {
    if (held.length === step.held) setTimeout(cancel, 0);
  };
  const answer = context.request(
    toAgent.session.prompt,
    { sessionId, prompt: [{ type: "text", text: step.prompt.replace("$SID", sessionId) }] },
    { cancellationSignal: stop.signal },
  );
  if (step.cancel && step.after === 0) setTimeout(cancel, 200);
  return answer;
}

async function remote(url) {
  const { resolve } = createRequire(process.argv[2] + "/");
  const load = (name) => import(pathToFileURL(resolve(`@agentclientprotocol/sdk/experimental/${name}`)));
  if (url.startsWith("ws")) return (await load("ws-client")).createWebSocketStream(url);
  return (await load("http-client")).createHttpStream(url);
}

const child =
  plan.url === undefined
    ? spawn(plan.agent[0], plan.agent.slice(1), { stdio: ["pipe", "pipe", "inherit"], cwd: plan.cwd })
    : undefined;
const exited = child === undefined ? [0, null] : once(child, "exit");
const stream =
  child === undefined
    ? await remote(plan.url)
    : acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));

const app = acp
  .client({ name: "ts-client" })
  .onRequest(toClient.session.requestPermission, permission)
  .onRequest(toClient.fs.readTextFile, read)
  .onRequest(toClient.fs.writeTextFile, write)
  .onRequest(toClient.terminal.create, createTerminal)
  .onRequest(toClient.terminal.waitForExit, waitForExit)
  .onRequest(toClient.terminal.output, ({ params }) => ({
    output: terminals.get(params.terminalId).output,
    truncated: false,
  }))
  .onRequest(toClient.terminal.kill, ({ params }) => void terminals.get(params.terminalId).child.kill())
  .onRequest(toClient.terminal.release, release)
  .onNotification(toClient.session.update, ({ params }) => onUpdate(params.update));

await app.connectWith(
  stream,
  async (context) => {
    const hello = await context.request(toAgent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
      clientInfo: { name: "ts-client", version: "1" },
    });
    report("initialized", { version: hello.protocolVersion, agent: hello.agentInfo?.name });
    const { sessionId } = await context.request(toAgent.session.new, { cwd: plan.cwd, mcpServers: [] });
    report("session", { sessionId });
    for (const step of plan.steps) {
      try {
        const result = step.prompt
          ? await prompt(context, sessionId, step)
          : await context.request(step.request, { sessionId, ...step.params });
        await settled();
        report("result", { result });
      } catch (error) {
        await settled();
        report("error", { code: error.code, message: error.message, data: error.data });
      }
    }
  },
);
child?.stdin.end();
const [code, signal] = await exited;
report("exited", { code, signal });
