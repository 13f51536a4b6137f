// The agent of the cross-SDK suite (interop.matrix.steps) on the TypeScript SDK.
//
//     node matrix_agent.mjs SDK_FOLDER

import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const sdk = createRequire(process.argv[2] + "/").resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(sdk));
const { agent: toAgent, client: toClient } = acp.methods;
const raw = (params) => params;

const sessions = new Map();
let clientCapabilities = {};
let note = null;

const modes = { currentModeId: "ask", availableModes: [{ id: "ask", name: "Ask" }, { id: "code", name: "Code" }] };
const text = (words) => ({ type: "text", text: words });

const updates = {
  agent_message_chunk: { content: text("matrix") },
  user_message_chunk: { content: text("matrix") },
  agent_thought_chunk: { content: text("matrix") },
  tool_call: { toolCallId: "t1", title: "matrix", kind: "search", status: "in_progress" },
  tool_call_update: { toolCallId: "t1", status: "completed" },
  plan: { entries: [{ content: "matrix", priority: "high", status: "pending" }] },
  available_commands_update: { availableCommands: [{ name: "matrix", description: "A command" }] },
  current_mode_update: { currentModeId: "code" },
  config_option_update: { configOptions: [] },
  session_info_update: { title: "matrix" },
  usage_update: { used: 10, size: 1000 },
};

const odd = {
  tool_call: {
    sessionUpdate: "tool_call",
    toolCallId: "t2",
    title: "odd",
    kind: "matrix_odd",
    status: "matrix_odd",
  },
  plan: { sessionUpdate: "plan", entries: [{ content: "odd", priority: "matrix_odd", status: "matrix_odd" }] },
  audience: {
    sessionUpdate: "agent_message_chunk",
    content: { ...text("odd"), annotations: { audience: ["matrix_odd", "user"] } },
  },
};

function options(values) {
  const choices = ["small", "large"].map((value) => ({ value, name: value }));
  const found = [{ id: "model", name: "Model", type: "select", currentValue: values.model, options: choices }];
  if (clientCapabilities.session?.configOptions?.boolean)
    found.push({ id: "brave", name: "Brave", type: "boolean", currentValue: values.brave });
  return found;
}

function open(sessionId) {
  const session = { values: { model: "small", brave: false }, cancelled: new AbortController() };
  sessions.set(sessionId, session);
  return { modes, configOptions: options(session.values) };
}

class Turn {
  constructor(ctx) {
    this.client = ctx.client;
    this.signal = ctx.signal;
    this.sessionId = ctx.params.sessionId;
    this.meta = ctx.params._meta;
    this.session = sessions.get(this.sessionId);
    this.session.cancelled = new AbortController();
  }

  update(update) {
    return this.client.notify(toClient.session.update, { sessionId: this.sessionId, update });
  }

  say(words) {
    return this.update({ sessionUpdate: "agent_message_chunk", content: text(words) });
  }

  ask(method, params, options) {
    return this.client.request(method, { sessionId: this.sessionId, ...params }, options);
  }

  async elicit(mode) {
    const answer = await this.ask(toClient.elicitation.create, { message: "Who are you?", ...mode });
    await this.say(JSON.stringify(answer));
  }
}

const directives = {
  say: (turn, rest) => turn.say(rest),
  len: (turn, rest) => turn.say(String("len ".length + rest.length)),
  big: (turn, rest) => turn.say("x".repeat(Number(rest))),
  stop: async (_, rest) => ({ stopReason: rest }),
  "echo-caps": (turn) => turn.say(JSON.stringify(clientCapabilities)),

  async meta(turn) {
    await turn.say(JSON.stringify(turn.meta));
    return { stopReason: "end_turn", _meta: turn.meta };
  },

  async slow(turn) {
    for (let n = 1; n <= 200; n++) {
      if (turn.session.cancelled.signal.aborted) return { stopReason: "cancelled" };
      await turn.say(`tick ${n} `);
      await pause(20, undefined, { signal: turn.signal });
    }
  },

  async permission(turn, rest) {
    const { outcome } = await turn.ask(toClient.session.requestPermission, {
      toolCall: { toolCallId: "t1", title: rest, kind: "edit", status: "pending" },
      options: [
        { optionId: "allow", name: "Allow", kind: "allow_once" },
        { optionId: "reject", name: "Reject", kind: "reject_once" },
      ],
      _meta: { matrix: true },
    });
    await turn.say(JSON.stringify(outcome));
    if (outcome.outcome === "cancelled") return { stopReason: "cancelled" };
  },

  async "fs-read"(turn, rest) {
    const [path, line, limit] = rest.split(" ");
    const range = line ? { line: Number(line), limit: Number(limit) } : {};
    try {
      await turn.say((await turn.ask(toClient.fs.readTextFile, { path, ...range })).content);
    } catch (error) {
      await turn.say(`error ${error.code}`);
    }
  },

  async "fs-slow"(turn, path) {
    const stop = new AbortController();
    const reading = turn.ask(toClient.fs.readTextFile, { path }, { cancellationSignal: stop.signal });
    setTimeout(() => stop.abort(), 100);
    try {
      await turn.say((await reading).content);
    } catch (error) {
      await turn.say(`error ${error.code}`);
    }
  },

  async "fs-write"(turn, rest) {
    const [path, ...words] = rest.split(" ");
    await turn.ask(toClient.fs.writeTextFile, { path, content: words.join(" ") });
    await turn.say("written");
  },

  async "term-run"(turn, rest) {
    const { terminalId } = await turn.ask(toClient.terminal.create, { command: "/bin/sh", args: ["-c", rest] });
    const { exitCode } = await turn.ask(toClient.terminal.waitForExit, { terminalId });
    const { output } = await turn.ask(toClient.terminal.output, { terminalId });
    await turn.ask(toClient.terminal.release, { terminalId });
    await turn.say(JSON.stringify({ output, exitCode }));
  },

  async "term-kill"(turn) {
    const { terminalId } = await turn.ask(toClient.terminal.create, { command: "sleep", args: ["60"] });
    await turn.ask(toClient.terminal.kill, { terminalId });
    await turn.ask(toClient.terminal.waitForExit, { terminalId });
    await turn.ask(toClient.terminal.release, { terminalId });
    await turn.say("killed");
  },

  async "elicit-form"(turn) {
    const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    await turn.elicit({ mode: "form", requestedSchema });
  },

  async "elicit-url"(turn) {
    await turn.elicit({ mode: "url", elicitationId: "matrix-1", url: "http://127.0.0.1/matrix" });
    await turn.client.notify(toClient.elicitation.complete, { elicitationId: "matrix-1" });
  },

  async "ext-request"(turn) {
    await turn.say(JSON.stringify(await turn.client.request("_matrix/echo", { x: 1 })));
  },

  "ext-notify": (turn) => turn.client.notify("_matrix/note", { y: 2 }),
  "ext-last": (turn) => turn.say(JSON.stringify(note)),

  emit(turn, kind) {
    const unknown = { sessionUpdate: "matrix_unknown", payload: { kept: 1 } };
    return turn.update(kind === "unknown" ? unknown : { sessionUpdate: kind, ...updates[kind] });
  },

  enum: (turn, what) => turn.update(odd[what]),
};

const app = acp
  .agent({ name: "matrix" })
  .onRequest(toAgent.initialize, (ctx) => {
    clientCapabilities = ctx.params.clientCapabilities ?? {};
    const authMethods = [{ id: "matrix-login", name: "Log in" }];
    if (clientCapabilities.auth?.terminal)
      authMethods.push({ id: "matrix-terminal", name: "Log in by a terminal", type: "terminal", args: ["login"] });
    return {
      protocolVersion: 1,
      agentInfo: { name: "matrix", version: "1" },
      authMethods,
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, embeddedContext: true },
        mcpCapabilities: { http: true },
        sessionCapabilities: { list: {}, delete: {}, resume: {}, close: {} },
        auth: { logout: {} },
      },
    };
  })
  .onRequest(toAgent.authenticate, () => ({}))
  .onRequest(toAgent.logout, () => ({}))
  .onRequest(toAgent.session.new, () => {
    const sessionId = `matrix-${sessions.size}`;
    return { sessionId, ...open(sessionId) };
  })
  .onRequest(toAgent.session.load, async (ctx) => {
    const { sessionId } = ctx.params;
    const opened = open(sessionId);
    const update = { sessionUpdate: "agent_message_chunk", content: text("earlier") };
    await ctx.client.notify(toClient.session.update, { sessionId, update });
    return opened;
  })
  .onRequest(toAgent.session.resume, (ctx) => open(ctx.params.sessionId))
  .onRequest(toAgent.session.list, () => ({ sessions: [{ sessionId: "stored", cwd: "/" }] }))
  .onRequest(toAgent.session.close, (ctx) => {
    sessions.get(ctx.params.sessionId)?.cancelled.abort();
    sessions.delete(ctx.params.sessionId);
    return {};
  })
  .onRequest(toAgent.session.delete, (ctx) => {
    sessions.delete(ctx.params.sessionId);
    return {};
  })
  .onRequest(toAgent.session.setMode, () => ({}))
  .onRequest(toAgent.session.setConfigOption, (ctx) => {
    const { values } = sessions.get(ctx.params.sessionId);
    values[ctx.params.configId] = ctx.params.value;
    return { configOptions: options(values) };
  })
  .onRequest("_matrix/echo", raw, (ctx) => ctx.params)
  .onNotification("_matrix/note", raw, (ctx) => void (note = ctx.params))
  .onRequest(toAgent.session.prompt, async (ctx) => {
    if (!sessions.has(ctx.params.sessionId)) throw acp.RequestError.invalidParams({ session: "unknown" });
    const [first, ...rest] = ctx.params.prompt
      .map((block) => block.text ?? "")
      .join("")
      .split(" ");
    const directive = directives[first];
    if (!directive) throw acp.RequestError.invalidParams({ directive: first.slice(0, 40) });
    return (await directive(new Turn(ctx), rest.join(" "))) ?? { stopReason: "end_turn" };
  })
  .onNotification(toAgent.session.cancel, (ctx) => sessions.get(ctx.params.sessionId)?.cancelled.abort());

await app.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin))).closed;
