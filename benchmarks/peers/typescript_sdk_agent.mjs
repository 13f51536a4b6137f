// An agent on the TypeScript SDK that does what our scripted agent's `stream K [DELAY]` and `polite` do, for comparison.
//
//     node typescript_sdk_agent.mjs SDK_FOLDER

import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const sdk = createRequire(process.argv[2] + "/").resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(sdk));
const { agent: toAgent, client: toClient } = acp.methods;
const cancelled = new Map();
let sessions = 0;

const app = acp
  .agent({ name: "streaming" })
  .onRequest(toAgent.initialize, () => ({ protocolVersion: 1, agentCapabilities: {} }))
  .onRequest(toAgent.session.new, () => ({ sessionId: `ts-${++sessions}` }))
  .onRequest(toAgent.session.prompt, async (ctx) => {
    const { sessionId, prompt } = ctx.params;
    const [directive, count, delay] = prompt[0].text.split(" ");
    if (directive === "polite") {
      await new Promise((resolve) => cancelled.set(sessionId, resolve));
      return { stopReason: "cancelled" };
    }
    for (let n = 1; n <= Number(count); n++) {
      const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: String(n) } };
      await ctx.client.notify(toClient.session.update, { sessionId, update });
      if (delay) await pause(Number(delay) * 1000);
    }
    return { stopReason: "end_turn" };
  })
  .onNotification(toAgent.session.cancel, (ctx) => cancelled.get(ctx.params.sessionId)?.());

await app.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin))).closed;
