// An agent on the TypeScript SDK that speaks version 2, version 1, or both, for our client to drive.
//
//     node ts_v2_agent.mjs SDK_FOLDER VERSIONS stable|unstable
//
// VERSIONS is "1", "2" or "1,2".  The first word of a prompt says what the foreground work does; see `directives` below.
// Prompts that come while it works are held, and inserted in order when it is idle.

import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [, , folder, versions, stability] = process.argv;
const find = (name) => import(pathToFileURL(createRequire(folder + "/").resolve(`@agentclientprotocol/sdk${name}`)));
const v1 = await find("");
const acp = await find(stability === "unstable" ? "/experimental/v2/unstable" : "/experimental/v2");
const { agent: toAgent, client: toClient } = acp.methods;

const sessions = new Map();
const text = (value) => ({ type: "text", text: value });
const options = [
  { optionId: "yes", name: "Allow", kind: "allow_once" },
  { optionId: "no", name: "Reject", kind: "reject_once" },
];

class Session {
  constructor(id, client) {
    this.id = id;
    this.client = client;
    this.history = [];
    this.held = [];
    this.work = undefined;
    this.background = undefined;
    this.names = 0;
  }

  name(kind) {
    return `${kind}${++this.names}`;
  }

  async update(update, remember = true) {
    if (remember) this.history.push(update);
    await this.client.notify(toClient.session.update, { sessionId: this.id, update });
  }

  state(state, members) {
    const background = this.background === undefined ? {} : { background: this.background };
    return this.update({ sessionUpdate: "state_update", state, ...background, ...members }, false);
  }

  say(messageId, value) {
    return this.update({ sessionUpdate: "agent_message_chunk", messageId, content: text(value) });
  }

  // Waits until the prompt's turn has come.  It can be withdrawn until then.
  async hold(signal) {
    if (!this.work && this.held.length === 0) return;
    await new Promise((resolve, reject) => {
      const entry = { resolve, reject };
      this.held.push(entry);
      signal.addEventListener("abort", () => {
        this.held = this.held.filter((each) => each !== entry);
        reject(acp.RequestError.requestCancelled());
      });
    });
  }

  cancel() {
    for (const entry of this.held.splice(0)) entry.reject(acp.RequestError.requestCancelled());
    this.work?.abort();
  }

  async insert(content) {
    const stop = (this.work = new AbortController());
    const messageId = this.name("user");
    const [first, ...rest] = content
      .map((block) => block.text ?? "")
      .join("")
      .split(" ");
    const report = () => this.update({ sessionUpdate: "user_message", messageId, content });
    if (first === "eager") await this.state("running");
    if (first !== "afterwards") await report();
    const done = this.run(stop.signal, first, rest);
    if (first === "whole") await done;
    if (first === "afterwards") setTimeout(report, 30);
    done.catch((error) => process.stderr.write(`${error.stack}\n`));
    return { messageId };
  }

  async run(signal, first, rest) {
    if (first !== "eager") await this.state("running");
    let stopReason = "end_turn";
    let members = {};
    try {
      const directive = directives[first] ?? ((session, signal, ...words) => session.say(session.name("agent"), [first, ...words].join(" ")));
      members = (await directive(this, signal, ...rest)) ?? {};
      if (signal.aborted) stopReason = "cancelled";
    } catch (error) {
      if (signal.aborted) stopReason = "cancelled";
      else [stopReason, members] = ["error", { error: { code: -32603, message: error.message } }];
    }
    this.work = undefined;
    await this.state("idle", { stopReason, ...members });
    this.held.shift()?.resolve();
  }
}

const directives = {
  async stream(session, signal, count) {
    const messageId = session.name("agent");
    for (let n = 1; n <= Number(count); n++) await session.say(messageId, String(n));
  },

  async whole(session, signal, ...words) {
    await session.say(session.name("agent"), words.join(" "));
  },

  async eager(session, signal, ...words) {
    await session.say(session.name("agent"), words.join(" "));
  },

  async afterwards(session, signal, ...words) {
    await pause(60);
    await session.say(session.name("agent"), words.join(" "));
  },

  async replace(session) {
    const messageId = session.name("agent");
    await session.say(messageId, "A");
    await session.say(messageId, "B");
    await session.update({ sessionUpdate: "agent_message", messageId, content: [text("C")], _meta: { a: 1, b: 2 } });
    await session.update({ sessionUpdate: "agent_message", messageId, _meta: { a: null, c: 3 } });
    await session.say(messageId, "D");
  },

  async tool(session) {
    const toolCallId = session.name("call");
    const terminalId = session.name("terminal");
    await session.update({ sessionUpdate: "tool_call_update", toolCallId, title: "Look", kind: "search" });
    await session.update({ sessionUpdate: "terminal_update", terminalId, command: "ls", cwd: "/" });
    for (const data of ["4oI=", "rA=="]) await session.update({ sessionUpdate: "terminal_output_chunk", terminalId, data });
    await session.update({ sessionUpdate: "terminal_update", terminalId, exitStatus: { exitCode: 0 } });
    const found = { type: "content", content: text("found") };
    for (const content of [found, { type: "terminal", terminalId }]) {
      await session.update({ sessionUpdate: "tool_call_content_chunk", toolCallId, content });
    }
    await session.update({ sessionUpdate: "tool_call_update", toolCallId, status: "completed", title: null });
    const entries = [{ content: "look", priority: "high", status: "completed" }];
    await session.update({ sessionUpdate: "plan_update", plan: { type: "items", planId: "p", entries } });
    await session.update({ sessionUpdate: "usage_update", used: 10, size: 1000, cost: { amount: 1, currency: "EUR" } });
    await session.update({ sessionUpdate: "session_info_update", title: "Looking" });
    await session.update({ sessionUpdate: "_vendor_update", anything: [1] });
  },

  async permission(session, signal) {
    await session.state("requires_action");
    const { outcome } = await session.client.request(
      toClient.session.requestPermission,
      { sessionId: session.id, title: "Change a file", options },
      { cancellationSignal: signal },
    );
    if (!signal.aborted) await session.state("running");
    await session.say(session.name("agent"), JSON.stringify(outcome));
  },

  // Cancels its own question, and goes on.
  async "withdrawn-permission"(session) {
    const stop = new AbortController();
    const asked = session.client.request(
      toClient.session.requestPermission,
      { sessionId: session.id, title: "Change a file", options },
      { cancellationSignal: stop.signal },
    );
    await pause(50);
    stop.abort();
    const answer = await asked.then((result) => result.outcome, (error) => error.code);
    await session.say(session.name("agent"), JSON.stringify(answer));
  },

  async elicit(session) {
    const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    const answer = await session.client.request(toClient.elicitation.create, {
      sessionId: session.id,
      mode: "form",
      message: "Who?",
      requestedSchema,
    });
    await session.say(session.name("agent"), JSON.stringify(answer));
  },

  async slow(session, signal) {
    const messageId = session.name("agent");
    for (let n = 1; !signal.aborted; n++) {
      await session.say(messageId, `tick ${n}`);
      await pause(20);
    }
  },

  async cancellable(session, signal) {
    const toolCallId = session.name("call");
    session.stoppable = new AbortController();
    await session.update({
      sessionUpdate: "tool_call_update",
      toolCallId,
      title: "Long",
      status: "in_progress",
      capabilities: { cancel: {} },
    });
    const { signal: stopped } = session.stoppable;
    if (!stopped.aborted) await new Promise((resolve) => stopped.addEventListener("abort", resolve));
    await session.update({ sessionUpdate: "tool_call_update", toolCallId, status: "cancelled", capabilities: null });
  },

  // Leaves a terminal behind that asks for something of its own while the session is idle.
  async background(session) {
    const terminalId = session.name("terminal");
    await session.update({ sessionUpdate: "terminal_update", terminalId, command: "make", cwd: "/" });
    session.background = [{ type: "terminal", terminalId }];
    const subject = { type: "command", command: "make install", cwd: "/", terminalId };
    session.client
      .request(toClient.session.requestPermission, { sessionId: session.id, title: "Install?", subject, options })
      .then(async ({ outcome }) => {
        await session.say(session.name("agent"), `background ${JSON.stringify(outcome)}`);
        await session.update({ sessionUpdate: "terminal_update", terminalId, exitStatus: { exitCode: 0 } });
        session.background = [];
        await session.state(session.work ? "running" : "idle");
      });
  },

  async fail() {
    throw new Error("asked to fail");
  },
};

const known = (params) => {
  const session = sessions.get(params.sessionId);
  if (!session) throw acp.RequestError.sessionNotFound(params.sessionId);
  return session;
};
const configOptions = (currentValue) => [{ type: "boolean", configId: "loud", name: "Loud", currentValue }];

const second = acp
  .agent({ name: "ts-v2-agent" })
  .onRequest(toAgent.initialize, () => ({
    protocolVersion: 2,
    info: { name: "ts-v2-agent", version: "1" },
    capabilities: { session: { delete: {}, prompt: { image: {} } } },
    authMethods: [{ type: "agent", methodId: "token", name: "Token" }],
  }))
  .onRequest(toAgent.auth.login, () => ({}))
  .onRequest(toAgent.auth.logout, () => ({}))
  .onRequest(toAgent.session.new, async (ctx) => {
    const session = new Session(`ts-${sessions.size + 1}`, ctx.client);
    sessions.set(session.id, session);
    const command = { type: "command", name: "go", description: "Go" };
    await session.update({ sessionUpdate: "available_commands_update", availableCommands: [command] });
    return { sessionId: session.id, configOptions: configOptions(false) };
  })
  .onRequest(toAgent.session.resume, async (ctx) => {
    const session = known(ctx.params);
    session.client = ctx.client;
    if (ctx.params.replayFrom) for (const update of session.history) await session.update(update, false);
    await session.state(session.work ? "running" : "idle");
    return { configOptions: configOptions(false) };
  })
  .onRequest(toAgent.session.list, () => ({ sessions: [...sessions.keys()].map((sessionId) => ({ sessionId, cwd: "/" })) }))
  .onRequest(toAgent.session.delete, (ctx) => void sessions.delete(ctx.params.sessionId))
  .onRequest(toAgent.session.setConfigOption, (ctx) => ({ configOptions: configOptions(ctx.params.value) }))
  .onRequest(toAgent.session.prompt, async (ctx) => {
    const session = known(ctx.params);
    await session.hold(ctx.signal);
    return session.insert(ctx.params.prompt);
  })
  .onRequest(toAgent.toolCall.cancel, (ctx) => void known(ctx.params).stoppable.abort())
  .onRequest(toAgent.session.close, async (ctx) => {
    const session = known(ctx.params);
    session.cancel();
    while (session.work) await pause(5);
    sessions.delete(session.id);
  })
  .onNotification(toAgent.session.cancel, (ctx) => sessions.get(ctx.params.sessionId)?.cancel());

const first = v1
  .agent({ name: "ts-v1-agent" })
  .onRequest("initialize", (ctx) => ({
    protocolVersion: 1,
    agentInfo: { name: "ts-v1-agent", version: "1" },
    agentCapabilities: { sessionCapabilities: { close: {} } },
    _meta: { fs: ctx.params.clientCapabilities?.fs ?? null },
  }))
  .onRequest("session/new", () => ({ sessionId: "one" }))
  .onRequest("session/prompt", async (ctx) => {
    const content = text(ctx.params.prompt.map((block) => block.text).join(""));
    const update = { sessionUpdate: "agent_message_chunk", content };
    await ctx.client.notify("session/update", { sessionId: ctx.params.sessionId, update });
    return { stopReason: "end_turn" };
  });

const router = acp.agentProtocolRouter();
if (versions.includes("1")) router.withV1(first);
if (versions.includes("2")) router.withV2(second);
await router.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin))).closed;
