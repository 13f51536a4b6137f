"""
Who can't write makes others wait: what is read on, and when.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.task import Clock

from acp_twisted import Limits
from acp_twisted.proxy.pressure import PressedPeer


class Read:
    """
    A link whose other end has something to say whenever it is read.

    @ivar paused: whether it is not read.
    @ivar on_resume: what is said.
    """

    unsent = 0

    def __init__(self) -> None:
        self.paused = False
        self.on_resume: Callable[[], object] = lambda: None

    def pauseProducing(self) -> None:
        self.paused = True

    def resumeProducing(self) -> None:
        self.paused = False
        self.on_resume()


class Pressed:
    """
    A peer with two others that feed it.
    """

    def __init__(self) -> None:
        router: Any = None
        self.links = [Read(), Read(), Read()]
        self.peers = [PressedPeer(router, Clock(), Limits()) for _ in self.links]
        for peer, link in zip(self.peers, self.links, strict=True):
            transport: Any = link
            peer.connection_made(transport)
        self.peer = self.peers[0]
        self.peer.feeders = self.peers[1:]

    @property
    def paused(self) -> list[bool]:
        """Which of the two are not read."""
        return [each.paused for each in self.links[1:]]


@pytest.mark.parametrize("lane", [False, True])
def test_a_feeder_that_fills_it_again_holds_the_other(lane: bool) -> None:
    """Rule 6: the second is not read on when what the first one says at once has filled the output anew."""
    pressed = Pressed()
    fill = (lambda: pressed.peer.lane_writing_paused("s")) if lane else pressed.peer.writing_paused
    drain = (lambda: pressed.peer.lane_writing_resumed("s")) if lane else pressed.peer.writing_resumed
    fill()
    assert pressed.paused == [True, True]
    pressed.links[1].on_resume = fill
    drain()
    assert pressed.paused == [True, True]
    pressed.links[1].on_resume = lambda: None
    drain()
    assert pressed.paused == [False, False]
