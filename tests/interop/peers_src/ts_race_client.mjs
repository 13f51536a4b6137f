// A client on the TypeScript SDK that follows a plan of race_plans.py and prints one JSON line per answer.
//
//     node ts_race_client.mjs SDK_FOLDER PLAN_FILE tcp PORT
//     node ts_race_client.mjs SDK_FOLDER PLAN_FILE spawn AGENT [ARGUMENT...]

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { connect } from "node:net";
import { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [folder, planFile, how, ...where] = process.argv.slice(2);
const acp = await import(pathToFileURL(createRequire(folder + "/").resolve("@agentclientprotocol/sdk")));
const { agent: toAgent, client: toClient } = acp.methods;
const plan = readFileSync(planFile, "utf8").split("\n").filter(Boolean);

const report = (members) => process.stdout.write(JSON.stringify(members) + "\n");

let child, exited, output, input;
if (how === "tcp") {
  output = input = connect(Number(where[0]), "127.0.0.1");
  output.setNoDelay(true);
  await once(output, "connect");
} else {
  child = spawn(where[0], where.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  exited = once(child, "exit");
  output = child.stdin;
  input = child.stdout;
}
output.on("error", () => {}); // a plan may end with a cut

// The id of each prompt, taken from what is written, for cancellations by hand.
const ids = [];
const raw = Writable.toWeb(output).getWriter();
const outgoing = new WritableStream({
  async write(chunk) {
    for (const line of Buffer.from(chunk).toString().split("\n").filter(Boolean)) {
      const message = JSON.parse(line);
      if (message.method === "session/prompt") ids.push(message.id);
    }
    await raw.ready;
    raw.write(chunk).catch(() => {});
  },
});

const held = [];
function permission({ params, signal }) {
  return new Promise((resolve, reject) => {
    held.push({ session: params.sessionId, options: params.options, resolve });
    signal.addEventListener("abort", () => reject(acp.RequestError.requestCancelled()));
  });
}

function settle(session, outcome) {
  for (const each of held) if (each.session === session) each.resolve({ outcome: outcome(each) });
}

const app = acp
  .client({ name: "ts-race-client" })
  .onRequest(toClient.session.requestPermission, permission)
  .onNotification(toClient.session.update, () => {});

async function follow(context) {
  await context.request(toAgent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  const sessions = [];
  for (let n = 0; n < 2; n++) {
    sessions.push((await context.request(toAgent.session.new, { cwd: process.cwd(), mcpServers: [] })).sessionId);
  }
  const answers = [];
  const stops = [];
  const steps = {
    prompt(ref, session, ...words) {
      stops[ref] = new AbortController();
      answers[ref] = context
        .request(
          toAgent.session.prompt,
          { sessionId: sessions[session], prompt: [{ type: "text", text: words.join(" ") }] },
          { cancellationSignal: stops[ref].signal },
        )
        .then(
          (result) => report({ ref: Number(ref), outcome: result.stopReason }),
          (error) => report({ ref: Number(ref), outcome: error.code }),
        );
    },
    cancel(session) {
      const sent = context.notify(toAgent.session.cancel, { sessionId: sessions[session] });
      settle(sessions[session], () => ({ outcome: "cancelled" }));
      return sent;
    },
    "give-up": (ref) => stops[ref].abort(),
    async stray(ref) {
      await pause(1); // so that what the SDK still has in hand is written, and its id known
      if (ref < ids.length) await context.notify("$/cancel_request", { requestId: ids[ref] });
    },
    permit: (session) =>
      settle(sessions[session], ({ options }) => ({ outcome: "selected", optionId: options[0].optionId })),
    pause: (milliseconds) => pause(Number(milliseconds)),
    await: (ref) => answers[ref],
    cork: () => output.cork(),
    async uncork() {
      await pause(1);
      output.uncork();
    },
  };
  for (const line of plan) {
    const [word, ...rest] = line.split(" ");
    if (word === "drop") {
      if (child) process.kill(child.pid, "SIGKILL");
      // The end of the stream would be a half-close, behind which answers are still due.
      else output.resetAndDestroy();
      process.exit(0);
    }
    const step = steps[word](...rest);
    // While corked, nothing that waits for a write would ever go on.
    if (output.writableCorked && word !== "uncork") Promise.resolve(step).catch(() => {});
    else await step;
  }
  report({ finished: true });
}

await app.connectWith(acp.ndJsonStream(outgoing, Readable.toWeb(input)), follow);
output.end();
if (child) await exited;
process.exit(0);
