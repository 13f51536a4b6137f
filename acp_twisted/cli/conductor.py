"""
C{acp-twisted conductor}: a chain of proxies and an agent on standard input and output.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from twisted.internet import task
from twisted.internet.defer import Deferred
from zope.interface import implementer

from acp_twisted.cli.status import Status
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory
from acp_twisted.proxy.chain import Chain
from acp_twisted.proxy.conductor import Conductor
from acp_twisted.proxy.loading import component
from acp_twisted.transports.stdio import StdioAgentTransport

_EPILOG = """\
Each COMPONENT is one argument: the command line of a program, or package.module:name for something that runs in this
process. The last one is the agent, unless --as-proxy says that there is none:

  acp-twisted conductor -- "my-proxy --option" package.module:proxy "my-agent"

What the programs write to standard error goes to standard error, with their names.

exit status:
  0  the client has ended the conversation      5  a component could not be started, or was lost
  2  usage error
"""


@implementer(IMessageReceiverFactory)
class _One:
    """
    A chain that exists already, for one conversation.
    """

    def __init__(self, chain: Chain, conductor: Conductor) -> None:
        self._chain = chain
        self.limits = conductor.limits

    def build_receiver(self, clock: Any) -> IMessageReceiver:
        return self._chain.client


def parse(words: Sequence[str]) -> Conductor:
    """
    The conductor that a command line asks for.

    @raise SystemExit: with status 2 and a message on standard error when it makes no sense.
    """
    parser = ArgumentParser(
        prog="acp-twisted conductor",
        usage="acp-twisted conductor [options] -- COMPONENT...",
        description="Run client -> proxies -> agent, and be the agent to whoever started this.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--as-proxy", action="store_true", help="be a proxy, to the conductor that started this")
    parser.add_argument(
        "--older-spelling", action="store_true", help="speak _proxy/successor to proxies, as conductors of old did"
    )
    parser.add_argument("components", nargs="*", metavar="COMPONENT", help="from the client's side to the agent")
    found = parser.parse_args(list(words))
    if not found.components:
        parser.error("name the components behind --, the agent last")
    builder = Conductor.builder().name("acp-twisted conductor").older_spelling(found.older_spelling)
    for number, text in enumerate(found.components, 1):
        try:
            name, what = component(text, _printer(text))
        except ValueError as error:
            parser.error(str(error))
        last = number == len(found.components) and not found.as_proxy
        (builder.agent if last else builder.proxy)(what, f"{'agent' if last else f'proxy {number}'} ({name})")
    return builder.build()


def _printer(text: str) -> Callable[[str], None]:
    name = text.split(maxsplit=1)[0].rpartition("/")[2] if text.split() else text

    def show(line: str) -> None:
        sys.stderr.write(f"{name}: {line}\n")

    return show


def run(words: Sequence[str]) -> NoReturn:
    """
    The program.

    @raise SystemExit: always.
    """
    conductor = parse(words)

    def main(reactor: Any) -> Deferred[None]:
        chain = conductor.chain(reactor)
        transport = StdioAgentTransport.start(_One(chain, conductor), reactor)
        reactor.addSystemEventTrigger("before", "shutdown", chain.shutdown)
        return transport.done.addCallback(lambda _: chain.when_gone()).addCallback(_finish, chain)

    task.react(main)
    raise AssertionError("react does not return")


def _finish(_: object, chain: Chain) -> None:
    if chain.failure is not None:
        sys.stderr.write(f"acp-twisted: {chain.failure.message}\n")
        raise SystemExit(Status.LOST)
