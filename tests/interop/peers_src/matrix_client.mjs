// The client of the cross-SDK suite (interop.matrix.steps) on the TypeScript SDK.
//
//     node matrix_client.mjs SDK_FOLDER PLAN_FILE

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const sdk = createRequire(process.argv[2] + "/").resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(sdk));
const { agent: toAgent, client: toClient } = acp.methods;
const plan = JSON.parse(readFileSync(process.argv[3], "utf8"));
const raw = (params) => params;

let step = "init.initialize";
let held = [];
let toCancel = [];
const names = new Map();
const terminals = new Map();
let running = [];

const report = (event, members) => process.stdout.write(JSON.stringify({ step, event, ...members }) + "\n");

function cancelNow() {
  const waiting = toCancel;
  toCancel = [];
  for (const cancel of waiting) setTimeout(cancel, 0);
}

function permission({ params }) {
  report("permission", { title: params.toolCall.title, meta: params._meta });
  cancelNow();
  if (params.toolCall.title === "hold")
    return new Promise((resolve) => held.push(() => resolve({ outcome: { outcome: "cancelled" } })));
  const chosen = params.options.find((option) => option.kind.startsWith("allow"));
  return { outcome: { outcome: "selected", optionId: chosen.optionId } };
}

async function read({ params, signal }) {
  report("read", { path: params.path });
  if (params.path.endsWith("/never")) {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    throw acp.RequestError.requestCancelled();
  }
  try {
    const lines = (await readFile(params.path, "utf8")).split(/(?<=\n)/);
    const first = (params.line ?? 1) - 1;
    return { content: lines.slice(first, params.limit ? first + params.limit : undefined).join("") };
  } catch {
    throw acp.RequestError.resourceNotFound(params.path);
  }
}

function createTerminal({ params }) {
  const child = spawn(params.command, params.args ?? [], { cwd: params.cwd ?? plan.cwd });
  const terminal = { child, output: "", exit: once(child, "close") };
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (terminal.output += data));
  const terminalId = `terminal-${terminals.size}`;
  terminals.set(terminalId, terminal);
  return { terminalId };
}

async function waitForExit({ params }) {
  const [exitCode, signal] = await terminals.get(params.terminalId).exit;
  return { exitCode, signal };
}

function elicit({ params }) {
  report("elicitation", { mode: params.mode });
  return params.mode === "form" ? { action: "accept", content: { name: "matrix" } } : { action: "accept" };
}

function filled(value) {
  if (typeof value === "string") {
    if (value.includes("$CWD/")) return value.replace("$CWD/", plan.cwd + "/");
    return value.startsWith("$") ? names.get(value.slice(1)) : value;
  }
  if (value && typeof value === "object" && !Array.isArray(value))
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, filled(each)]));
  return value;
}

async function answered(promise) {
  const timeout = Symbol();
  try {
    const result = await Promise.race([promise, pause(180_000, timeout, { ref: false })]);
    // The SDK starts notification handlers in order and does not wait for them before it hands out an answer.
    await pause(10);
    if (result === timeout) report("timeout", {});
    else report("result", { result: result ?? null });
  } catch (error) {
    await pause(10);
    if (typeof error.code === "number") report("error", { code: error.code, message: error.message });
    else report("failed", { error: String(error).slice(0, 300) });
  }
}

async function open(context, name, method, params) {
  params = filled(params);
  const answer = await context.request(method, params);
  names.set(name, params.sessionId ?? answer.sessionId);
  return answer;
}

async function prompt(context, name, words, options) {
  const sessionId = names.get(name);
  const stop = new AbortController();
  const content = filled(words) + "x".repeat(options.pad ?? 0);
  const params = { sessionId, prompt: [{ type: "text", text: content }] };
  if (options.meta) params._meta = options.meta;
  if (options.cancel === "session")
    toCancel.push(async () => {
      await context.notify(toAgent.session.cancel, { sessionId });
      for (const answer of held.splice(0)) answer();
    });
  if (options.cancel === "request") toCancel.push(() => stop.abort());
  const turn = answered(context.request(toAgent.session.prompt, params, { cancellationSignal: stop.signal }));
  if (options.background) running.push(turn);
  else await turn;
}

async function run(context, op) {
  const [kind, ...rest] = op;
  if (kind === "call") await answered(context.request(rest[0], filled(rest[1])));
  else if (kind === "open") await answered(open(context, ...rest));
  else if (kind === "notify") await context.notify(rest[0], filled(rest[1]));
  else if (kind === "prompt") await prompt(context, ...rest);
  else if (kind === "settle") await Promise.all(running.splice(0));
  // "close" is the last op, and done below: closing the input inside of the conversation would fail it.
}

const child = spawn(plan.agent[0], plan.agent.slice(1), { stdio: ["pipe", "pipe", "inherit"], cwd: plan.cwd });
const exited = once(child, "exit");

const app = acp
  .client({ name: "matrix-client" })
  .onRequest(toClient.session.requestPermission, permission)
  .onRequest(toClient.fs.readTextFile, read)
  .onRequest(toClient.fs.writeTextFile, ({ params }) => writeFile(params.path, params.content).then(() => ({})))
  .onRequest(toClient.terminal.create, createTerminal)
  .onRequest(toClient.terminal.waitForExit, waitForExit)
  .onRequest(toClient.terminal.output, ({ params }) => ({
    output: terminals.get(params.terminalId).output,
    truncated: false,
  }))
  .onRequest(toClient.terminal.kill, ({ params }) => void terminals.get(params.terminalId).child.kill())
  .onRequest(toClient.terminal.release, () => ({}))
  .onRequest(toClient.elicitation.create, elicit)
  .onNotification(toClient.elicitation.complete, ({ params }) =>
    report("elicitation_complete", { elicitationId: params.elicitationId }),
  )
  .onRequest("_matrix/echo", raw, ({ params }) => params)
  .onNotification("_matrix/note", raw, ({ params }) => report("ext_notification", { params }))
  .onNotification(toClient.session.update, ({ params }) => {
    report("update", { sessionId: params.sessionId, update: params.update });
    cancelNow();
  });

await app.connectWith(
  acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)),
  async (context) => {
    const hello = await context.request(toAgent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: plan.capabilities,
      clientInfo: { name: "matrix-client", version: "1" },
    });
    report("result", { result: hello });
    for (const each of plan.steps) {
      step = each.id;
      for (const op of each.ops) {
        await run(context, op);
        await pause(30);
      }
    }
  },
);
child.stdin.end();
const [code] = await exited;
report("exited", { code });
