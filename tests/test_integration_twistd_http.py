"""
C{twistd acp --listen-http} as a program: what it serves, whom it refuses, and what it does when it is told to stop.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_integration_twistd import SECONDS, Program

SITE = re.compile(rb"AcpSite starting on (\d+)\n")
TOKEN = "tok3n-of-alice"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """A twistd with an agent on HTTP, for whoever knows the token."""
    (tmp_path / "tokens").write_text(f"{TOKEN} alice\n")
    options = ["--listen-http", "tcp:0", "--http-token-file", "tokens", "--http-path", "/agent"]
    running = Program(["twistd", "-n", "acp", "--agent", "twistd_agents:agent", *options], tmp_path)
    yield running
    running.clean_up()


class Caller:
    """
    A client by the standard library.
    """

    def __init__(self, port: int, token: str | None = TOKEN) -> None:
        self.port = port
        self.open: list[Any] = []
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def send(self, method: str, message: Any = None, **headers: str) -> http.client.HTTPResponse:
        """A request; C{_} in the names of headers is C{-}."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        body = None if message is None else json.dumps(message)
        given = {**self.headers, **names, **({} if body is None else {"Content-Type": "application/json"})}
        self.open.append(connection)
        connection.request(method, "/agent", body, given)
        response = connection.getresponse()
        self.open.append(response)
        return response

    def call(self, id: int, method: str, params: Any, **headers: str) -> http.client.HTTPResponse:
        """A request of the protocol in a POST."""
        return self.send("POST", {"jsonrpc": "2.0", "id": id, "method": method, "params": params}, **headers)

    def close(self) -> None:
        """Hang up."""
        for each in self.open:
            each.close()


def event(stream: http.client.HTTPResponse) -> Any:
    """The next message of an event stream."""
    while not (line := stream.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
    return json.loads(line[6:])


def test_a_program_that_serves_http(program: Program) -> None:
    """
    A conversation with the token, 401 without; SIGTERM answers the turn that runs before the program ends; and
    its log has neither a token nor the id of the connection nor what was said (rule 9, B64).
    """
    found = program.until(lambda: SITE.search(bytes(program.out) + bytes(program.err)))
    port = int(found[1])
    initialize = {"protocolVersion": 1}
    nobody, stranger, caller = Caller(port, None), Caller(port, "wr0ng"), Caller(port)
    for refused in (nobody, stranger):
        assert refused.call(1, "initialize", initialize).status == 401
    begun = caller.call(1, "initialize", initialize)
    assert json.loads(begun.read())["result"]["agentInfo"]["name"] == "twistd"
    ids = {"Acp_Connection_Id": begun.headers["Acp-Connection-Id"]}
    connection = caller.send("GET", Accept="text/event-stream", **ids)
    caller.call(2, "session/new", {"cwd": "/", "mcpServers": []}, **ids)
    session_id = event(connection)["result"]["sessionId"]
    ids["Acp_Session_Id"] = session_id
    session = caller.send("GET", Accept="text/event-stream", **ids)
    prompt = {"sessionId": session_id, "prompt": [{"type": "text", "text": "wait"}]}
    assert caller.call(3, "session/prompt", prompt, **ids).status == 202
    assert event(session)["params"]["update"]["content"]["text"] == "waiting"
    program.process.send_signal(signal.SIGTERM)
    answer = event(session)
    assert (answer["id"], answer["error"]["code"]) == (3, -32800)
    assert session.read().strip() == b""
    assert program.ended() == -signal.SIGTERM  # as twistd has it, once all is done
    log = bytes(program.out + program.err)
    for secret in (TOKEN, "wr0ng", begun.headers["Acp-Connection-Id"], "waiting"):
        assert secret.encode() not in log
    for each in (nobody, stranger, caller):
        each.close()
