// An agent on the TypeScript SDK, served over HTTP/1.1 and WebSocket on one port of the loopback; the port is printed.

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

export async function serve(app, folder) {
  const require = createRequire(folder + "/");
  const load = (name) => import(pathToFileURL(require.resolve(name)));
  const { AcpServer } = await load("@agentclientprotocol/sdk/experimental/server");
  const { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } = await load(
    "@agentclientprotocol/sdk/experimental/node",
  );
  const { WebSocketServer } = require("ws");
  const server = new AcpServer({ agent: app });
  const http = createServer(createNodeHttpHandler(server));
  http.on("upgrade", createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
  http.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ port: http.address().port })));
}
