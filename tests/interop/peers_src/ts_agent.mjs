// An agent on the TypeScript SDK, for our client to drive.
//
//     node ts_agent.mjs SDK_FOLDER [--serve]
//
// It speaks over its standard streams; with --serve over HTTP and WebSocket, on a port that it prints.
//
// The first word of a prompt says what the turn does; see `directives` below.

import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const sdk = createRequire(process.argv[2] + "/").resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(sdk));
const { agent: toAgent, client: toClient } = acp.methods;

const turns = new Map();
let sessions = 0;

class Turn {
  constructor(ctx) {
    this.client = ctx.client;
    this.signal = ctx.signal;
    this.sessionId = ctx.params.sessionId;
    this.cancelled = new AbortController();
  }

  update(update) {
    return this.client.notify(toClient.session.update, { sessionId: this.sessionId, update });
  }

  say(text) {
    return this.update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
  }

  ask(method, params, options) {
    return this.client.request(method, { sessionId: this.sessionId, ...params }, options);
  }
}

const directives = {
  async stream(turn, count) {
    for (let n = 1; n <= Number(count); n++) await turn.say(String(n));
  },

  async tool(turn) {
    const toolCallId = "t1";
    await turn.update({ sessionUpdate: "tool_call", toolCallId, title: "Look", kind: "search", status: "pending" });
    await turn.update({
      sessionUpdate: "tool_call_update",
      toolCallId,
      status: "completed",
      content: [{ type: "content", content: { type: "text", text: "found" } }],
    });
    await turn.update({
      sessionUpdate: "plan",
      entries: [{ content: "look", priority: "high", status: "completed" }],
    });
    await turn.update({ sessionUpdate: "usage_update", used: 10, size: 1000 });
  },

  async permission(turn) {
    const { outcome } = await turn.ask(toClient.session.requestPermission, {
      toolCall: { toolCallId: "t1", title: "Change a file", kind: "edit", status: "pending" },
      options: [
        { optionId: "yes", name: "Allow", kind: "allow_once" },
        { optionId: "no", name: "Reject", kind: "reject_once" },
      ],
    });
    await turn.say(JSON.stringify(outcome));
  },

  async read(turn, path) {
    const { content } = await turn.ask(toClient.fs.readTextFile, { path });
    await turn.say(content);
  },

  async write(turn, path, ...words) {
    const answer = await turn.ask(toClient.fs.writeTextFile, { path, content: words.join(" ") });
    await turn.say(`written ${JSON.stringify(answer)}`);
  },

  async run(turn, ...words) {
    const terminal = await turn.client.createTerminal({
      sessionId: turn.sessionId,
      command: "/bin/sh",
      args: ["-c", words.join(" ")],
    });
    const { exitCode } = await terminal.waitForExit();
    const { output } = await terminal.currentOutput();
    await terminal.release();
    await turn.say(JSON.stringify({ output, exitCode }));
  },

  // Starts a command and cancels its own wait for it with $/cancel_request.
  async "cancel-wait"(turn, ...words) {
    const { terminalId } = await turn.ask(toClient.terminal.create, {
      command: "/bin/sh",
      args: ["-c", words.join(" ")],
    });
    const stop = new AbortController();
    const waiting = turn.ask(toClient.terminal.waitForExit, { terminalId }, { cancellationSignal: stop.signal });
    await pause(50);
    stop.abort();
    const code = await waiting.then(
      () => "none",
      (error) => error.code,
    );
    await turn.ask(toClient.terminal.kill, { terminalId });
    await turn.ask(toClient.terminal.release, { terminalId });
    await turn.say(`cancelled ${code}`);
  },

  // Streams until the turn is cancelled; $/cancel_request makes it throw, as the SDK wants it.
  async slow(turn) {
    for (let n = 1; !turn.cancelled.signal.aborted; n++) {
      await turn.say(`tick ${n}`);
      await pause(20, undefined, { signal: turn.signal });
    }
    return "cancelled";
  },

  // Asks for a permission, and then waits for the cancellation that answers it.
  async "slow-permission"(turn) {
    await turn.say("asking");
    await directives.permission(turn);
    return turn.cancelled.signal.aborted ? "cancelled" : "end_turn";
  },

  async fail() {
    throw new acp.RequestError(-32055, "asked to fail", { asked: true });
  },
};

const app = acp
  .agent({ name: "ts-agent" })
  .onRequest(toAgent.initialize, () => ({
    protocolVersion: 1,
    agentInfo: { name: "ts-agent", version: "1" },
    agentCapabilities: { sessionCapabilities: { close: {} } },
  }))
  .onRequest(toAgent.session.new, async (ctx) => {
    const sessionId = `ts-${++sessions}`;
    await ctx.client.notify(toClient.session.update, {
      sessionId,
      update: { sessionUpdate: "available_commands_update", availableCommands: [{ name: "a", description: "b" }] },
    });
    return { sessionId, modes: { currentModeId: "m", availableModes: [{ id: "m", name: "Mode" }] } };
  })
  .onRequest(toAgent.session.setMode, () => ({}))
  .onRequest(toAgent.session.close, () => undefined)
  .onRequest(toAgent.session.prompt, async (ctx) => {
    const turn = new Turn(ctx);
    turns.set(turn.sessionId, turn);
    const [first, ...rest] = ctx.params.prompt
      .map((block) => block.text ?? "")
      .join("")
      .split(" ");
    const directive = directives[first];
    const stopReason = directive ? await directive(turn, ...rest) : await turn.say([first, ...rest].join(" "));
    return { stopReason: stopReason ?? "end_turn" };
  })
  .onNotification(toAgent.session.cancel, (ctx) => turns.get(ctx.params.sessionId)?.cancelled.abort());

if (process.argv[3] === "--serve") {
  const { serve } = await import("./ts_serve.mjs");
  await serve(app, process.argv[2]);
} else {
  await app.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin))).closed;
}
