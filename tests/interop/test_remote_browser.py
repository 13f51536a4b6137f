"""
A browser's own WebSocket and EventSource against our server: headless Chromium on a page of the same site.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from peers import peer
from remote_agents import serving
from twisted.internet.defer import Deferred
from twisted.web.resource import Resource
from twisted.web.server import Site

from acp_twisted.transports.http.resource import AcpResource
from interop.programs import Programs

PAGE = b"""<!doctype html><title>a client</title><link rel="icon" href="data:,"><script>
const report = (value) => fetch("/report", { method: "POST", body: JSON.stringify(value) });
const said = [];
let id = 0;
const request = (method, params) => ({ jsonrpc: "2.0", id: id++, method, params });
const text = (message) => message.params.update.content.text;
const initialize = () => request("initialize", { protocolVersion: 1, clientCapabilities: {} });
const open = () => request("session/new", { cwd: "/", mcpServers: [] });
const prompt = (sessionId) => request("session/prompt", { sessionId, prompt: [{ type: "text", text: "stream 50" }] });

function overWebSocket() {
  const socket = new WebSocket(`ws://${location.host}/acp`);
  const send = (message) => socket.send(JSON.stringify(message));
  const steps = [() => send(open()), (result) => send(prompt(result.sessionId))];
  socket.onopen = () => send(initialize());
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.method) return said.push(text(message));
    const step = steps.shift();
    if (step) return step(message.result);
    socket.onclose = (event) => report({ said, result: message.result, code: event.code });
    socket.close(1000);
  };
  socket.onerror = () => report({ error: "the WebSocket failed" });
}

async function overHttp() {
  const headers = { "Content-Type": "application/json" };
  const post = (message) => fetch("/acp", { method: "POST", headers, body: JSON.stringify(message) });
  const connection = (await post(initialize())).headers.get("Acp-Connection-Id");
  headers["Acp-Connection-Id"] = connection;
  const events = new EventSource(`/acp?acp-connection-id=${connection}`);
  events.onmessage = async ({ data }) => {
    const { sessionId } = JSON.parse(data).result;
    headers["Acp-Session-Id"] = sessionId;
    const session = new EventSource(`/acp?acp-connection-id=${connection}&acp-session-id=${sessionId}`);
    session.onmessage = async ({ data }) => {
      const message = JSON.parse(data);
      if (message.method) return said.push(text(message));
      for (const each of [events, session]) each.close();
      const { status } = await fetch("/acp", { method: "DELETE", headers });
      report({ said, result: message.result, code: status });
    };
    await post(prompt(sessionId));
  };
  await post(open());
}

(location.hash === "#ws" ? overWebSocket() : overHttp().catch((error) => report({ error: String(error) })));
</script>"""
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Page(Resource):
    """
    The page.
    """

    def render_GET(self, request: Any) -> bytes:
        """
        Show it.
        """
        return PAGE


class Report(Resource):
    """
    Where the page tells what it came to.
    """

    isLeaf = True  # noqa: N815 - Twisted's name

    def __init__(self) -> None:
        super().__init__()
        self.told: Deferred[Any] = Deferred()

    def render_POST(self, request: Any) -> bytes:
        """
        Take it.
        """
        self.told.callback(json.loads(request.content.read()))
        return b""


@pytest.mark.parametrize(("way", "code"), [("ws", 1000), ("http", 202)])
async def test_a_browser(way: str, code: int, real_reactor: Any, programs: Programs, tmp_path: Path) -> None:
    """Protocol 5.2 as a browser speaks it, with its Origin header: the updates in order, the answer, a clean end."""
    report = Report()

    def site(resource: AcpResource, reactor: Any) -> Site:
        root = Resource()
        root.putChild(b"", Page())
        root.putChild(b"acp", resource)
        root.putChild(b"report", report)
        return Site(root)

    async with serving(real_reactor, site=site) as remote:
        url = f"http://localhost:{remote.port}/#{way}"
        command = peer("chromium").command(*FLAGS, f"--user-data-dir={tmp_path / 'profile'}", url)
        _, ended = programs.start(command, env={"HOME": str(tmp_path)})
        ended.addCallback(
            lambda outcome: None if report.told.called else report.told.errback(AssertionError(outcome.explain()))
        )
        told = await report.told
        await programs.stop_all()
        assert told == {
            "said": [str(n) for n in range(1, 51)],
            "result": {"stopReason": "end_turn"},
            "code": code,
        }
