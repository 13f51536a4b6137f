"""
Every bound of the library and its default, in one place (design rule 6).
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen, validators

_positive: Any = validators.gt(0)

KiB = 1024
MiB = 1024 * KiB


@frozen(kw_only=True)
class Limits:
    """
    What one connection may use.  Bytes are bytes on the wire, times are seconds.

    @ivar max_message_bytes: one message; a longer one is skipped to its end and refused with -32600.
    @ivar max_batch_entries: messages in one JSON-RPC batch, where batches are taken at all; a larger one is refused.
    @ivar high_water_bytes: unsent output above which whoever produces it is asked to wait.
    @ivar low_water_bytes: unsent output below which he may go on.
    @ivar pause_reading_bytes: unsent output above which no more is read from a peer that does not read.
    @ivar max_unsent_bytes: unsent output at which the connection is cut.
    @ivar stall_timeout: how long a peer may take nothing of the waiting output before the connection is cut.
    @ivar max_queued_messages: received messages that wait behind slow handlers before reading pauses.
    @ivar max_queued_bytes: the same, in bytes.
    @ivar max_incoming_requests: requests of the peer in work at once; one more is refused.
    @ivar max_outgoing_requests: our own unanswered requests; one more fails at once.
    @ivar max_id_length: the characters of the peer's request ids, session ids and elicitation ids.
    @ivar max_remembered_ids: cancelled requests whose late answer is still recognised.
    @ivar max_early_updates: updates kept for sessions whose C{session/new} answer has not come, and
        of those outside of turns; also at most C{max_queued_bytes} of them.
    @ivar max_sessions: sessions of one connection.
    @ivar max_elicitations: elicitations by a web page that are not known to be over; more push out the oldest.
    @ivar max_turn_updates: updates of a turn that its reader has not taken before reading pauses; also at most
        C{max_queued_bytes} of them.
    @ivar stderr_tail_bytes: how much of an agent's standard error is remembered.
    @ivar drain_timeout: how long received requests may take once the peer has closed its half.
    @ivar exit_grace: how long an agent may take to exit after its input was closed.
    @ivar terminate_grace: how long after SIGTERM, before SIGKILL.
    @ivar ping_interval: how often a peer on a WebSocket, or a server on HTTP/2, is asked for a sign of life, and a
        comment is sent on an event stream; 0 is never.
    @ivar pong_timeout: how long a peer that was asked may give none before the connection is cut.
    @ivar max_request_bytes: one message to a server over HTTP or a WebSocket; a longer one is answered with status 413,
        or ends the WebSocket with code 1009.
    @ivar arrival_timeout: how long a request to a server over HTTP may take to come whole, head and body, before it is
        answered with status 408 and its connection is ended; and how long a socket may have no request at all.
    @ivar max_kept_bytes: output of one HTTP connection that its clients have not taken, at which it is ended.
    @ivar max_kept_events: messages that wait on one event stream, above which the session's handlers are asked to wait.
    @ivar max_provisional_streams: event streams of one HTTP connection for sessions that it does not know (yet); one
        more is answered with status 429.
    @ivar max_streams: streams that one connection of HTTP/2 may have open at once.
    @ivar max_empty_frames: frames of HTTP/2 that carry nothing (pings, settings, resets, pieces of a few bytes and the
        like) that a client may send at once, and in each minute again; more ends its connection with
        ENHANCE_YOUR_CALM.  A reset counts two, settings count 32; what a client acknowledges answers with is free.
    @ivar initialize_timeout: how long a client has for its first message on a WebSocket (then code 1008), and an agent
        for its answer to C{initialize} over HTTP (then status 500).
    @ivar idle_timeout: how long a connection to a server may carry no message, and no request be in work, before it is
        ended (code 1001).
    @ivar absence_timeout: how long an HTTP connection may have no open event stream, and nothing be posted to it,
        before it is ended.
    @ivar max_connections: connections of one server; one more is answered with status 503.
    @ivar max_connections_per_address: the same from one address, or from one /64 of IPv6; one more is answered with
        status 429.
    @ivar max_idle_sockets_per_address: sockets from one address, counted in the same way, on which no request is in
        work: that are silent, in the handshake of TLS, have not sent a whole request, or are kept for the next one.
        One more is closed at once.
    """

    max_message_bytes: int = field(default=64 * MiB, validator=_positive)
    max_batch_entries: int = field(default=1000, validator=_positive)
    high_water_bytes: int = field(default=256 * KiB, validator=_positive)
    low_water_bytes: int = field(default=64 * KiB, validator=_positive)
    pause_reading_bytes: int = field(default=16 * MiB, validator=_positive)
    max_unsent_bytes: int = field(default=128 * MiB, validator=_positive)
    stall_timeout: float = field(default=60.0, validator=_positive)
    max_queued_messages: int = field(default=1024, validator=_positive)
    max_queued_bytes: int = field(default=16 * MiB, validator=_positive)
    max_incoming_requests: int = field(default=10_000, validator=_positive)
    max_outgoing_requests: int = field(default=10_000, validator=_positive)
    max_id_length: int = field(default=1024, validator=_positive)
    max_remembered_ids: int = field(default=1024, validator=_positive)
    max_early_updates: int = field(default=1024, validator=_positive)
    max_sessions: int = field(default=10_000, validator=_positive)
    max_elicitations: int = field(default=1024, validator=_positive)
    max_turn_updates: int = field(default=1024, validator=_positive)
    stderr_tail_bytes: int = field(default=64 * KiB, validator=_positive)
    drain_timeout: float = field(default=60.0, validator=_positive)
    exit_grace: float = field(default=2.0, validator=_positive)
    terminate_grace: float = field(default=5.0, validator=_positive)
    ping_interval: float = field(default=15.0, validator=validators.ge(0))
    pong_timeout: float = field(default=30.0, validator=_positive)
    max_request_bytes: int = field(default=16 * MiB, validator=_positive)
    arrival_timeout: float = field(default=120.0, validator=_positive)
    max_kept_bytes: int = field(default=64 * MiB, validator=_positive)
    max_kept_events: int = field(default=1024, validator=_positive)
    max_provisional_streams: int = field(default=64, validator=_positive)
    max_streams: int = field(default=2048, validator=validators.ge(100))
    max_empty_frames: int = field(default=4096, validator=validators.ge(100))
    initialize_timeout: float = field(default=30.0, validator=_positive)
    idle_timeout: float = field(default=1800.0, validator=_positive)
    absence_timeout: float = field(default=60.0, validator=_positive)
    max_connections: int = field(default=10_000, validator=_positive)
    max_connections_per_address: int = field(default=1024, validator=_positive)
    max_idle_sockets_per_address: int = field(default=1024, validator=_positive)
