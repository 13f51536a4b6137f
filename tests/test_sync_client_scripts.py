"""The blocking client of version 2 as a script, whose reactor it runs, and which the user interrupts."""

from __future__ import annotations

import subprocess
import sys

import pytest
from raw_programs import STRICT_PYTHON
from sync_parts import AGENT, SECONDS, ran
from test_howto import blocks


@pytest.mark.parametrize("end", ["client.close()", "", "del client, session"])
def test_a_program_ends_whether_it_closes_or_not(end: str) -> None:
    """The reactor's thread holds up no exit; no agent is left."""
    body = (
        "words = [u.content.text for u in session.start('stream 2') if type(u).__name__ == 'AgentMessageChunk']\n"
        "print(words, client.protocol_version)\n"
        "print(session.prompt('stream 1').stop_reason)\n" + end
    )
    assert ran(body) == ["['1', '2'] 2", "end_turn"]


@pytest.mark.parametrize("wait", ["turn.result()", "list(turn)", "session.prompt('polite')"])
def test_control_c_cancels_the_prompt(wait: str) -> None:
    """KeyboardInterrupt: session/cancel, the end, and then the exception; the session goes on."""
    body = f"""
turn = session.start("polite")
turn.accepted()
if "prompt" in {wait!r}:
    turn.cancel()
    turn.result()
interrupt("__iter__" if "list" in {wait!r} else "_waited")
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted", turn.answered, turn.result().stop_reason)
print(session.prompt("stream 1").stop_reason)
"""
    assert ran(body) == ["interrupted True cancelled", "end_turn"]


def test_control_c_withdraws_a_prompt_that_is_held() -> None:
    """V2D5: the interrupted prompt alone is concerned; the work before it goes on."""
    body = """
first = session.start("polite")
first.accepted()
held = session.start("stream 1")
interrupt("accepted")
try:
    held.accepted()
except KeyboardInterrupt:
    print("interrupted", held.inserted, held.result().stop_reason, first.answered)
first.cancel()
print(first.result().stop_reason)
"""
    assert ran(body) == ["interrupted False cancelled False", "cancelled"]


def test_control_c_gives_a_deaf_agent_up() -> None:
    """After so many seconds the program goes on."""
    body = """
sync_turn.INTERRUPT_SECONDS = 0.1
turn = session.start("hang")
interrupt("_waited")
try:
    turn.result()
except KeyboardInterrupt:
    print("interrupted")
try:
    turn.result()
except Exception as error:
    print(type(error).__name__)
print(client.new_session("/").prompt("stream 1").stop_reason)
"""
    assert ran(body) == ["interrupted", "RequestCancelled", "end_turn"]


def test_control_c_cancels_what_is_no_prompt() -> None:
    """By C{$/cancel_request}; the next call is made."""
    body = """
interrupt("when_idle")
try:
    session.when_idle()
except KeyboardInterrupt:
    print("interrupted")
print(session.prompt("stream 1").stop_reason)
"""
    assert ran(body) == ["interrupted", "end_turn"]


def test_nothing_waits_for_a_reactor_that_has_stopped() -> None:
    """What waits ends, and what comes later is refused."""
    body = """
turn = session.start("polite")
def stop():
    while not waits(["accepted"]):
        time.sleep(0.01)
    client._thread.post(client._thread.reactor.stop)
held = session.start("stream 1")
threading.Thread(target=stop, daemon=True).start()
for wait in (held.accepted, held.result, lambda: session.prompt("stream 1"), session.when_idle):
    try:
        wait()
    except Exception as error:
        print(type(error).__name__)
client.close()
"""
    lines = ran(body)
    assert len(lines) == 4
    assert set(lines) <= {"ReactorStopped", "AcpConnectionError"}
    assert lines[-2:] == ["ReactorStopped", "ReactorStopped"]


@pytest.mark.parametrize("version", [1, 2])
def test_the_script_of_the_page_drives_an_agent(version: int) -> None:
    """As shown, with an agent of either version, as a program of its own."""
    page = AGENT.parent.parent / "docs" / "howto" / "v2_client.rst"
    [block] = [block for block in blocks(page) if "AcpSyncClient" in block]
    command = [sys.executable, str(AGENT), str(version)]
    done = subprocess.run(
        [*STRICT_PYTHON, "-c", f"{block}\nmain({command!r})"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    lines = done.stdout.splitlines()
    assert f"{version} end_turn" in lines
    if version == 2:
        assert lines[-1].split()[-1] == "end_turn"
        assert len(lines[-1].split()) == 3
