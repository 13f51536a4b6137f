// An agent on the TypeScript SDK for plans of race_plans.py: it has their directives, and one turn per session.
//
//     node ts_race_agent.mjs SDK_FOLDER [listen]
//
// With "listen" it serves one connection on a port of 127.0.0.1, which it names on stdout.

import { once } from "node:events";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const acp = await import(pathToFileURL(createRequire(process.argv[2] + "/").resolve("@agentclientprotocol/sdk")));
const { agent: toAgent, client: toClient } = acp.methods;

const turns = new Map();
let sessions = 0;

// Resolves when the turn is cancelled; throws when its request is.
function cancelled(turn) {
  return new Promise((resolve, reject) => {
    if (turn.stop.signal.aborted) resolve();
    if (turn.signal.aborted) reject(acp.RequestError.requestCancelled());
    turn.stop.signal.addEventListener("abort", resolve);
    turn.signal.addEventListener("abort", () => reject(acp.RequestError.requestCancelled()));
  });
}

const directives = {
  async stream(turn, count, delay) {
    for (let n = 1; n <= Number(count) && !turn.stop.signal.aborted; n++) {
      await turn.say(String(n));
      if (delay) await pause(Number(delay) * 1000, undefined, { signal: turn.signal });
    }
  },
  polite: cancelled,
  hang: cancelled,
  async "fail-on-cancel"(turn) {
    await cancelled(turn);
  },
  async fail(turn, code) {
    throw new acp.RequestError(Number(code), "asked to fail", { asked: true });
  },
  async len(turn) {
    await turn.say("0");
  },
  // Its requests are cancelled with the prompt's, each once.
  async permission(turn, count) {
    const ask = () =>
      turn.client.request(
        toClient.session.requestPermission,
        {
          sessionId: turn.sessionId,
          toolCall: { toolCallId: "t1", title: "Change a file", kind: "edit", status: "pending" },
          options: [
            { optionId: "allow", name: "Allow", kind: "allow_once" },
            { optionId: "deny", name: "Reject", kind: "reject_once" },
          ],
        },
        { cancellationSignal: turn.signal },
      );
    const answers = await Promise.all(Array.from({ length: Number(count) }, ask));
    await turn.say(JSON.stringify(answers.map(({ outcome }) => outcome.optionId ?? outcome.outcome)));
  },
};

async function prompt(ctx) {
  const { sessionId } = ctx.params;
  if (turns.has(sessionId)) throw new acp.RequestError(-32600, "busy", { sessionId });
  const turn = {
    sessionId,
    client: ctx.client,
    signal: ctx.signal,
    stop: new AbortController(),
    say: (text) =>
      ctx.client.notify(toClient.session.update, {
        sessionId,
        update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
      }),
  };
  turns.set(sessionId, turn);
  const [word, ...rest] = ctx.params.prompt
    .map((block) => block.text)
    .join("")
    .split(" ");
  try {
    await directives[word](turn, ...rest);
  } finally {
    turns.delete(sessionId);
  }
  return { stopReason: turn.stop.signal.aborted ? "cancelled" : "end_turn" };
}

const app = acp
  .agent({ name: "ts-race-agent" })
  .onRequest(toAgent.initialize, () => ({ protocolVersion: 1, agentInfo: { name: "ts-race-agent", version: "1" } }))
  .onRequest(toAgent.session.new, () => ({ sessionId: `race-${++sessions}` }))
  .onRequest(toAgent.session.prompt, prompt)
  .onNotification(toAgent.session.cancel, (ctx) => turns.get(ctx.params.sessionId)?.stop.abort());

let [output, input] = [process.stdout, process.stdin];
if (process.argv[3] === "listen") {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  process.stdout.write(`listening ${server.address().port}\n`);
  const [socket] = await once(server, "connection");
  server.close();
  socket.setNoDelay(true);
  socket.on("error", () => process.exit(0));
  output = input = socket;
}
await app.connect(acp.ndJsonStream(Writable.toWeb(output), Readable.toWeb(input))).closed;
process.exit(0);
