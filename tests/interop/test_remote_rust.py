"""
The Rust SDK's HTTP and WebSocket crate on the other side of our halves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from peers import peer
from remote_agents import serving

from acp_twisted.transports.http.url import AgentUrl
from interop.editor import Editor, play, texts
from interop.programs import Programs, until
from interop.remote import serve, start

SCHEMES = pytest.mark.parametrize("scheme", ["http", "ws"])


@SCHEMES
async def test_our_client_and_its_server(scheme: str, programs: Programs, editor: Editor, workspace: Path) -> None:
    """Protocol 5.2: sessions side by side, in order; one turn is cancelled (V1C5); a long message goes both ways."""
    _, port = await serve(programs, peer("rust-remote").command("serve"))
    connection = await start(editor, AgentUrl(url=f"{scheme}://127.0.0.1:{port}/acp"))
    sessions = [await connection.new_session(cwd=str(workspace)) for _ in range(3)]
    slow = sessions[0].prompt("slow")

    def cancel_at_third(update: object) -> None:
        if texts([update]) == ["tick 3"]:
            slow.cancel()

    others = [session.prompt("stream 100") for session in sessions[1:]]
    reason, updates = await play(slow, cancel_at_third)
    assert reason == "cancelled"
    assert texts(updates)[:3] == ["tick 1", "tick 2", "tick 3"]
    for other in others:
        reason, updates = await play(other)
        assert (reason, texts(updates)) == ("end_turn", [str(n) for n in range(1, 101)])
    text = "y" * 1_000_000
    reason, updates = await play(sessions[0].prompt(text))
    assert (reason, texts(updates)) == ("end_turn", [text])
    await connection.close()


@SCHEMES
async def test_its_client_and_our_server(scheme: str, real_reactor: Any, programs: Programs, workspace: Path) -> None:
    """Protocol 5.2: its client streams, cancels a turn and goes on; nothing is left of it."""
    prompts = ["stream 100", "slow"]
    async with serving(real_reactor) as remote:
        url = f"{scheme}://127.0.0.1:{remote.port}/acp"
        outcome = await programs.run(peer("rust-remote").command("drive", url, *prompts, "stream 2"))
        assert outcome.code == 0, outcome.explain()
        said = [event["update"]["content"]["text"] for event in outcome.events("update")]
        assert said[:100] == [str(n) for n in range(1, 101)]
        assert said[100:103] == ["tick 1", "tick 2", "tick 3"]
        assert said[-2:] == ["1", "2"]
        reasons = [event["result"]["stopReason"] for event in outcome.events("result")]
        assert reasons == ["end_turn", "cancelled", "end_turn"]
        await until(real_reactor, lambda: len(remote.resource.connections) == 0)
