"""
What a transport is told of a message, and output that one session has no room for.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transport_fakes import SocketTransport
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from acp_twisted.errors import AcpConnectionError
from acp_twisted.interfaces import ILaneReceiver
from acp_twisted.jsonrpc.peer import Peer
from acp_twisted.jsonrpc.routing import Envelope, read_envelope
from acp_twisted.limits import Limits


@pytest.mark.parametrize(
    ("message", "envelope"),
    [
        (
            b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s"}}',
            Envelope("request", 1, "session/prompt", "s"),
        ),
        (b'{"jsonrpc":"2.0","id":null,"method":"m","params":[{"sessionId":"s"}]}', Envelope("request", None, "m")),
        (b'{"jsonrpc":"2.0","method":"m","params":{"sessionId":7}}', Envelope("notification", None, "m")),
        (
            b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"a"}}',
            Envelope("notification", None, "$/cancel_request", cancels="a"),
        ),
        (
            b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":{}}}',
            Envelope("notification", None, "$/cancel_request"),
        ),
        (b'{"jsonrpc":"2.0","method":"m","params":{"requestId":3}}', Envelope("notification", None, "m")),
        (
            b'{"jsonrpc":"2.0","id":"x","result":{"sessionId":"n"}}',
            Envelope("response", "x", result_session_id="n", succeeded=True),
        ),
        (b'{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}', Envelope("response", "x")),
        (b'{"jsonrpc":"2.0","id":3,"method":7}', Envelope("invalid", 3)),
        (b'{"hello":"world"}', Envelope("invalid")),
        (b' [{"jsonrpc":"2.0","id":1,"method":"m"}]', Envelope("batch")),
        (b"5", Envelope("no object")),
        (b"{", Envelope("no JSON")),
        (b"\xff", Envelope("no JSON")),
        (b"", Envelope("no JSON")),
    ],
)
def test_the_outside_of_a_message(message: bytes, envelope: Envelope) -> None:
    """Kind, id, method and session of a message, and what a cancellation names, where they are what they must be."""
    assert read_envelope(message) == envelope


@given(st.binary(max_size=60))
def test_any_bytes_have_an_outside(message: bytes) -> None:
    """Whatever a peer sends, it is one of the kinds (B34)."""
    assert read_envelope(message).kind


class _Router:
    """Lanes by session, as agents and clients have them."""

    def lane_of(self, method: str, params: object) -> object:
        return params.get("sessionId") if isinstance(params, dict) else None

    def connection_lost(self, reason: AcpConnectionError) -> None:
        pass


class _Transport(SocketTransport):
    """Takes messages."""

    def send(self, message: bytes) -> None:
        pass


def _peer() -> Peer:
    peer = Peer(_Router(), Clock(), Limits())  # type: ignore[arg-type]
    verifyObject(ILaneReceiver, peer)
    peer.connection_made(_Transport())  # type: ignore[arg-type]
    return peer


def _fired(waiting: Deferred[None]) -> bool:
    return waiting.called


def test_one_session_waits_for_room_and_the_others_do_not() -> None:
    """B33: a reader that is slow with one session holds up that session's handlers alone."""
    peer = _peer()
    peer.lane_writing_paused("a")
    slow = peer.notify("m", {"sessionId": "a"})
    assert not _fired(slow)
    assert _fired(peer.notify("m", {"sessionId": "b"}))
    assert _fired(peer.notify("m"))
    peer.lane_writing_resumed("a")
    assert _fired(slow)
    assert _fired(peer.notify("m", {"sessionId": "a"}))
    peer.lane_writing_resumed("never paused")


def test_who_waits_for_room_learns_of_the_end() -> None:
    """A lost connection ends the waiting with its reason."""
    peer = _peer()
    peer.lane_writing_paused("a")
    slow = peer.notify("m", {"sessionId": "a"})
    peer.connection_lost(Failure(AcpConnectionError("gone")))
    errors: list[Failure] = []
    slow.addErrback(errors.append)
    assert [str(each.value) for each in errors] == ["gone"]
