"""What the protocol has not settled yet, for scripts, in both versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import pytest_twisted
from sync_agent import Kept
from sync_parts import Memory, run, thread

from acp_twisted import AcpAgent, AcpClient
from acp_twisted.client.sync import AcpSyncClient as FirstClient
from acp_twisted.schema import v1, v2

CALLS: dict[str, Callable[[Any], Any]] = {
    "auth_status": lambda calls: calls.auth_status(),
    "list_providers": lambda calls: calls.list_providers(),
    "set_provider": lambda calls: calls.set_provider("p", "openai", "https://example.org/", {"X": "y"}),
    "disable_provider": lambda calls: calls.disable_provider("p"),
    "archive_session": lambda calls: calls.archive_session("s1"),
    "unarchive_session": lambda calls: calls.unarchive_session("s1"),
    "session_status": lambda calls: calls.session_status("s1"),
    "set_session_title": lambda calls: calls.set_session_title("s1", "T"),
}
ANSWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "auth_status": ("AuthStatusResponse", {"state": "unauthenticated"}),
    "list_providers": ("ListProvidersResponse", {"providers": []}),
    "set_provider": ("SetProviderResponse", {}),
    "disable_provider": ("DisableProviderResponse", {}),
    "fork_session": ("ForkSessionResponse", {"session_id": "s2"}),
    "archive_session": ("ArchiveSessionResponse", {}),
    "unarchive_session": ("UnarchiveSessionResponse", {}),
    "session_status": ("SessionStatusResponse", {"status": "open"}),
    "set_session_title": ("SetSessionTitleResponse", {"title": "T"}),
}


def agent(heard: list[str]) -> Any:
    """One of both versions that has everything."""
    kept = Kept()
    builder = (
        AcpAgent.builder(unstable=True)
        .prompt_handler(kept.prompt)
        .new_session_handler(kept.new)
        .list_sessions_handler(kept.list)
        .close_session_handler(kept.close)
    )

    def handler(name: str) -> Callable[[Any, Any], Any]:
        def handle(request: Any, connection: Any) -> Any:
            kind, members = ANSWERS[name]
            heard.append(name)
            return getattr(connection.schema, kind)(**members)

        return handle

    for name in ANSWERS:
        getattr(builder, f"{name}_handler")(handler(name))
    builder.mcp_message_handler(lambda request: heard.append(request.method))
    return builder.protocol_versions(1, 2).build()


@pytest.mark.parametrize("version", [1, 2])
@pytest_twisted.ensureDeferred
async def test_every_call(version: int) -> None:
    """Each sends its request, waits, and gives the answer in the words of the version."""
    heard: list[str] = []
    # This agent says of itself only what follows from its handlers, which is not that it takes MCP over ACP.
    built = AcpClient.builder(unstable=True).capability_gates(False).protocol_versions(version).build()
    types: Any = {1: v1, 2: v2}[version]

    def script() -> None:
        with FirstClient.connect(built, Memory(agent(heard)), thread=thread(), cwd="/") as client:
            calls: Any = client.unstable
            session = client.new_session()
            for name, call in CALLS.items():
                assert type(call(calls)) is getattr(types, ANSWERS[name][0])
            forked = calls.fork_session("s1", "/")
            assert type(forked) is type(session)
            assert forked.session_id == "s2"
            assert forked.prompt("stream 1").stop_reason == "end_turn"
            listed = calls.list_sessions(archived="only")
            assert [each.session_id for each in listed.sessions] == ["s1"]
            assert calls.send_mcp_message("m", "1", "notifications/progress", {}) is None
            client.list_sessions()  # behind it

    await run(script)
    assert heard == [*CALLS, "fork_session", "notifications/progress"]


@pytest.mark.parametrize("version", [1, 2])
@pytest_twisted.ensureDeferred
async def test_nobody_meets_it_by_accident(version: int) -> None:
    """A client that was not built for it has none of it."""
    built = AcpClient.builder().protocol_versions(version).build()

    def script() -> None:
        client = FirstClient.connect(built, Memory(agent([])), thread=thread())
        with client, pytest.raises(ValueError, match="unstable=True"):
            client.unstable.auth_status()

    await run(script)
