"""
Who can't write makes those wait whose messages he would write (design rule 6).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from twisted.python.failure import Failure

from acp_twisted.interfaces import IMessageTransport
from acp_twisted.jsonrpc.peer import Peer


class PressedPeer(Peer):
    """
    A peer that is read no further while the output of others is full, and has others read no further while its own is.

    @ivar feeders: those that are read no further while more than C{Limits.high_water_bytes} wait here.
    @ivar floods: those that are read no further while more than C{Limits.pause_reading_bytes} do.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.feeders: list[PressedPeer] = []
        self.floods: list[PressedPeer] = []
        self._holds: set[Hashable] = set()

    def connection_made(self, transport: IMessageTransport) -> None:
        """
        See L{IMessageReceiver<acp_twisted.interfaces.IMessageReceiver>}.
        """
        super().connection_made(transport)
        if self._holds:
            transport.pauseProducing()

    def writing_paused(self) -> None:
        """
        See L{IMessageReceiver<acp_twisted.interfaces.IMessageReceiver>}.
        """
        super().writing_paused()
        for feeder in self.feeders:
            feeder.pause_for(self)

    def writing_resumed(self) -> None:
        """
        See L{IMessageReceiver<acp_twisted.interfaces.IMessageReceiver>}.
        """
        super().writing_resumed()
        self._let_feed()

    def lane_writing_paused(self, key: Hashable) -> None:
        """
        See L{ILaneReceiver<acp_twisted.interfaces.ILaneReceiver>}.  Messages here are of no lane, so all of them wait.
        """
        super().lane_writing_paused(key)
        for feeder in self.feeders:
            feeder.pause_for((self, key))

    def lane_writing_resumed(self, key: Hashable) -> None:
        """
        See L{ILaneReceiver<acp_twisted.interfaces.ILaneReceiver>}.
        """
        super().lane_writing_resumed(key)
        for feeder in self.feeders:
            if key in self._full_lanes:
                return  # by what the one before has fed
            feeder.resume_for((self, key))

    def _let_feed(self) -> None:
        for feeder in (*self.feeders, *self.floods):
            if self._full and self._lost is None:
                return  # by what the one before has fed
            feeder.resume_for(self)

    def _send(self, message: bytes) -> None:
        super()._send(message)
        if self._full and self._transport is not None and self._transport.unsent > self.limits.pause_reading_bytes:
            for feeder in self.floods:
                feeder.pause_for(self)

    def pause_for(self, why: Hashable) -> None:
        """
        Read no more until every C{why} was released.
        """
        first = not self._holds
        self._holds.add(why)
        if first:
            super()._pause_reading()

    def resume_for(self, why: Hashable) -> None:
        """
        See L{pause_for}.
        """
        if why in self._holds:
            self._holds.discard(why)
            if not self._holds:
                super()._resume_reading()

    def _pause_reading(self) -> None:
        self.pause_for("lanes")

    def _resume_reading(self) -> None:
        self.resume_for("lanes")

    def connection_lost(self, reason: Failure) -> None:
        """
        See L{IMessageReceiver<acp_twisted.interfaces.IMessageReceiver>}.
        """
        full = list(self._full_lanes)
        super().connection_lost(reason)
        for key in full:
            self.lane_writing_resumed(key)
        self._let_feed()
