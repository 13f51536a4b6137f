"""
The blocking clients' tests: scripts that run in a thread beside the tests' reactor, or as programs of their own.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from raw_programs import STRICT_PYTHON
from twisted.internet.defer import Deferred, succeed
from twisted.internet.threads import deferToThread
from zope.interface import implementer

from acp_twisted import AcpClient, AgentCommand, Limits
from acp_twisted.client.reactor_thread import ReactorThread
from acp_twisted.client.sync import AcpSyncClient as FirstClient
from acp_twisted.client.v2.client import VersionedClientBuilder
from acp_twisted.client.v2.sync import AcpSyncClient
from acp_twisted.interfaces import IMessageEndpoint, IMessageReceiver, IMessageTransport
from acp_twisted.transports.memory import MemoryLink

AGENT = Path(__file__).with_name("sync_agent.py")
SECONDS = 120
"""What a program may take, on the busiest machine."""


def thread() -> ReactorThread:
    """The reactor of the tests, which runs."""
    from twisted.internet import reactor

    made = ReactorThread(reactor)
    made.start()
    return made


async def run(script: Callable[[], Any]) -> Any:
    """Run a script in a thread."""
    return await deferToThread(script)


@implementer(IMessageEndpoint)
class Memory:
    """
    An agent in this process, as something to connect to.

    @ivar links: each link there was.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.links: list[MemoryLink] = []

    def connect_receiver(self, reactor: Any, receiver: IMessageReceiver, limits: Limits) -> Deferred[IMessageTransport]:
        """See L{IMessageEndpoint}."""
        link = MemoryLink(receiver, self.agent.build_receiver(reactor), reactor)
        self.links.append(link)
        return succeed(link.a)


def versions(*offered: int) -> VersionedClientBuilder:
    """A builder of a client."""
    return AcpClient.builder().protocol_versions(*offered)


def second(agent: Any, client: Any = None, **options: Any) -> AcpSyncClient:
    """A client of version 2, of an agent in memory; from any thread but the reactor's."""
    made = FirstClient.connect(client or versions(2).build(), Memory(agent), thread=thread(), **options)
    assert isinstance(made, AcpSyncClient)
    return made


def program(*offered: int) -> AgentCommand:
    """The agent as a program of its own: what it sends comes later, as on every real link."""
    return AgentCommand([sys.executable, str(AGENT), *map(str, offered)])


def texts(updates: Any) -> list[str]:
    """The agent's words among some updates, of either version."""
    return [each.content.text for each in updates if type(each).__name__ == "AgentMessageChunk"]


SCRIPT = """
import os, signal, sys, threading, time
from acp_twisted import AcpClient, AgentCommand
from acp_twisted.client import sync_turn
from acp_twisted.client.sync import AcpSyncClient
command = AgentCommand([sys.executable, {agent!r}, "2"])
client = AcpSyncClient.connect(AcpClient.builder().protocol_versions(2, 1).build(), command)
session = client.new_session("/")

def waits(names):
    # Whether the main thread waits, with a function of each of these names on its stack.
    frame, stack = sys._current_frames()[threading.main_thread().ident], []
    while frame is not None:
        stack.append(frame.f_code.co_name)
        frame = frame.f_back
    return stack[0] == "wait" and set(names) <= set(stack)

def interrupt(*names):
    # Control-C, as soon as the main thread waits there.
    def watch():
        while not waits(names):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=watch, daemon=True).start()

{body}
"""


def ran(body: str) -> list[str]:
    """The lines that a script printed, which has a reactor and an agent of its own; it has no complaints."""
    words = [*STRICT_PYTHON, "-c", SCRIPT.format(body=body, agent=str(AGENT))]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout.splitlines()
