// A client on the TypeScript SDK that speaks version 2, follows a plan and prints one JSON line per event.
//
//     node ts_v2_client.mjs SDK_FOLDER PLAN stable|unstable
//
// PLAN is JSON: {"agent": [argv], "cwd": DIR, "permit": "allow" | "deny" | "hold", "steps": [STEP]}.
// "hold" answers no permission request before it is cancelled, with session/cancel or $/cancel_request.
// STEP is one of
//   {"prompt": TEXT, "cancel": "session" | "request", "after": UPDATES}: waits for the answer and for idle,
//   {"prompts": [TEXT, ...], "cancel": "session", "withdraw": [INDEX]}: sends them all at once, and waits for all answers,
//   {"request": METHOD, "params": {}}, {"notify": METHOD, "params": {}},
//   {"cancelTool": true}: cancels the next tool call that says it can be cancelled, within the next prompt.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [, , folder, planText, stability] = process.argv;
const find = (name) => import(pathToFileURL(createRequire(folder + "/").resolve(`@agentclientprotocol/sdk${name}`)));
const acp = await find(stability === "unstable" ? "/experimental/v2/unstable" : "/experimental/v2");
const { agent: toAgent, client: toClient } = acp.methods;
const plan = JSON.parse(planText);

const report = (event, members) => process.stdout.write(JSON.stringify({ event, ...members }) + "\n");
const settled = () => new Promise((resolve) => setTimeout(resolve, 20));
const failure = (error) => ({ code: error.code, message: error.message, data: error.data });
const cancelled = { outcome: { outcome: "cancelled" } };
const held = [];
let busy = false;
let onIdle = () => {};
let onUpdate = () => {};
let cancelTool = false;

function permission({ params, signal }) {
  report("permission", { title: params.title, subject: params.subject });
  if (plan.permit === "hold") {
    return new Promise((resolve) => {
      held.push(() => resolve(cancelled));
      const withdrawn = () => {
        report("permission_cancelled", {});
        resolve(cancelled);
      };
      if (signal.aborted) withdrawn();
      else signal.addEventListener("abort", withdrawn);
    });
  }
  const chosen = params.options.find((option) => option.kind.startsWith(plan.permit === "deny" ? "reject" : "allow"));
  return { outcome: { outcome: "selected", optionId: chosen.optionId } };
}

function updated({ params, agent }) {
  const { update, sessionId } = params;
  report("update", { update });
  if (cancelTool && update.sessionUpdate === "tool_call_update" && update.capabilities?.cancel) {
    cancelTool = false;
    agent.request(toAgent.toolCall.cancel, { sessionId, toolCallId: update.toolCallId }).then(
      () => report("tool_cancelled", {}),
      (error) => report("error", failure(error)),
    );
  }
  if (update.sessionUpdate === "state_update") {
    const wasBusy = busy;
    busy = update.state !== "idle";
    if (wasBusy && !busy) onIdle(update.stopReason ?? null);
  }
  onUpdate(update);
}

async function cancel(context, sessionId) {
  await context.notify(toAgent.session.cancel, { sessionId });
  for (const answer of held.splice(0)) answer();
}

async function prompt(context, sessionId, step) {
  const stop = new AbortController();
  let seen = 0;
  let idle;
  const ended = new Promise((resolve) => (onIdle = (reason) => resolve((idle = reason))));
  const halt = () => (step.cancel === "request" ? stop.abort() : cancel(context, sessionId));
  onUpdate = () => {
    seen += 1;
    if (step.cancel && seen === step.after) halt();
  };
  const { messageId } = await context.request(
    toAgent.session.prompt,
    { sessionId, prompt: [{ type: "text", text: step.prompt }] },
    { cancellationSignal: stop.signal },
  );
  report("accepted", { messageId });
  if (step.cancel && !step.after) setTimeout(halt, 200);
  await ended;
  await settled();
  report("idle", { stopReason: idle });
}

async function several(context, sessionId, step) {
  const ended = new Promise((resolve) => (onIdle = resolve));
  const stops = step.prompts.map(() => new AbortController());
  const answers = step.prompts.map((text, index) =>
    context
      .request(
        toAgent.session.prompt,
        { sessionId, prompt: [{ type: "text", text }] },
        { cancellationSignal: stops[index].signal },
      )
      .then(
        ({ messageId }) => report("accepted", { index, messageId }),
        (error) => report("refused", { index, ...failure(error) }),
      ),
  );
  setTimeout(() => {
    for (const index of step.withdraw ?? []) stops[index].abort();
    if (step.cancel) cancel(context, sessionId);
  }, 200);
  await Promise.all(answers);
  await ended;
  while (busy) await settled();
  await settled();
  report("idle", {});
}

const child = spawn(plan.agent[0], plan.agent.slice(1), { stdio: ["pipe", "pipe", "inherit"], cwd: plan.cwd });
const exited = once(child, "exit");

const app = acp
  .client({ name: "ts-v2-client" })
  .onRequest(toClient.session.requestPermission, permission)
  .onRequest(toClient.elicitation.create, ({ params }) => {
    report("elicitation", { mode: params.mode });
    return { action: "accept", content: { name: "Ada" } };
  })
  .onNotification(toClient.session.update, updated);

const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
try {
  await app.connectWith(stream, async (context) => {
    const hello = await context.request(toAgent.initialize, {
      protocolVersion: 2,
      capabilities: { elicitation: { form: {} } },
      info: { name: "ts-v2-client", version: "1" },
    });
    report("initialized", { version: hello.protocolVersion, agent: hello.info?.name });
    const { sessionId } = await context.request(toAgent.session.new, { cwd: plan.cwd });
    report("session", { sessionId });
    for (const step of plan.steps) {
      try {
        if (step.cancelTool) cancelTool = true;
        else if (step.prompt !== undefined) await prompt(context, sessionId, step);
        else if (step.prompts) await several(context, sessionId, step);
        else if (step.notify) await context.notify(step.notify, { sessionId, ...step.params });
        else {
          const result = await context.request(step.request, { sessionId, ...step.params });
          await settled();
          report("result", { result });
        }
      } catch (error) {
        await settled();
        report("error", failure(error));
      }
    }
  });
} catch (error) {
  report("failed", failure(error));
}
child.stdin.end();
const [code, signal] = await exited;
report("exited", { code, signal });
