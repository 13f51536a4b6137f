"""
The command line of the scripted agent, and how it serves endpoints.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from typing import Any, NoReturn

from attrs import field, frozen
from twisted.internet import defer, endpoints, task
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IListeningPort

from acp_twisted import AcpAgent
from acp_twisted.testing._arguments import is_seconds
from acp_twisted.transports.stream import ServerFactory


@frozen
class Options:
    """
    What the command line says.

    @ivar listen: endpoints; none is standard input and output.
    @ivar grace: seconds, or L{None} for the library's default, as the other two.
    @ivar protocol_versions: the versions of the protocol that are spoken.
    """

    listen: Sequence[str] = field(factory=list)
    grace: float | None = None
    max_duration: float | None = None
    request_timeout: float | None = None
    protocol_versions: Sequence[int] = (1,)


def _seconds(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not is_seconds(value):
        raise ArgumentTypeError(f"{word!r} is no number of seconds that is zero or more")
    return value


def parse(words: Sequence[str]) -> Options:
    """
    Read the command line.

    @raise SystemExit: with status 2 and a message when it makes no sense; with 0 after C{--help}.
    """
    parser = ArgumentParser(
        prog="python -m acp_twisted.testing.scripted_agent",
        description="An agent that does what the first word of each prompt says.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--listen",
        metavar="ENDPOINT",
        action="append",
        default=[],
        help="serve this Twisted endpoint, such as tcp:8123:interface=127.0.0.1, instead of stdio; may be repeated",
    )
    for name, text in (
        ("--grace", "how long a cancelled turn may go on before it is ended (60; 0: without end)"),
        ("--max-duration", "how long a turn may take at all (0, without end)"),
        ("--request-timeout", "how long the client may take for each request (60; 0: without end)"),
    ):
        parser.add_argument(name, metavar="SECONDS", type=_seconds, help=text)
    parser.add_argument(
        "--protocol-version",
        metavar="VERSION",
        action="append",
        type=int,
        choices=(1, 2),
        help="the version of the protocol that it speaks, 1 or 2 (1); may be repeated",
    )
    found = parser.parse_args(words)
    for description in found.listen:
        problem = _problem(description)
        if problem is not None:
            parser.error(f"--listen {description}: {problem}")
    versions = tuple(sorted(set(found.protocol_version or (1,))))
    return Options(found.listen, found.grace, found.max_duration, found.request_timeout, versions)


def _problem(description: str) -> str | None:
    """
    What is wrong with an endpoint, if anything.
    """
    from twisted.internet import reactor  # noqa: PLC0415 - a program chooses its reactor when it runs

    if description.partition(":")[0] == "stdio":
        return "leave --listen out to serve standard input and output"
    try:
        endpoints.serverFromString(reactor, description)
    except Exception as error:  # whatever the endpoint's own parser makes of it
        return str(error) or type(error).__name__
    return None


def serve_until_stopped(agent: AcpAgent, listen: Sequence[str]) -> NoReturn:
    """
    Run the reactor, and serve the agent on these endpoints.
    """
    task.react(serve, (agent, listen))


async def serve(reactor: Any, agent: AcpAgent, listen: Sequence[str]) -> None:
    """
    Serve endpoints until the reactor is stopped, and end all conversations in good order then.

    @raise SystemExit: with status 1 when one can't be listened on.
    """
    factory = ServerFactory(agent, reactor)
    ports: list[IListeningPort] = []

    async def stop() -> None:
        for port in ports:
            await defer.maybeDeferred(port.stopListening)
        await factory.close_all()

    reactor.addSystemEventTrigger("before", "shutdown", lambda: Deferred.fromCoroutine(stop()))
    for description in listen:
        try:
            port = await endpoints.serverFromString(reactor, description).listen(factory)
        except Exception as error:  # whatever an endpoint may raise
            print(f"cannot listen on {description}: {error}", file=sys.stderr)  # noqa: T201 - a program's message
            raise SystemExit(1) from None
        ports.append(port)
        print(f"listening on {where(description, port)}", file=sys.stderr, flush=True)  # noqa: T201 - as above
    await Deferred()


def where(description: str, port: IListeningPort) -> str:
    """
    A client endpoint that reaches C{port}: with the real number where C{description} asks for any.
    """
    address = port.getHost()
    if isinstance(address, UNIXAddress):
        name = address.name or b""
        return f"unix:{endpoints.quoteStringArgument(name.decode(errors='surrogateescape'))}"
    if not isinstance(address, (IPv4Address, IPv6Address)):
        return description
    kind = "tls" if description.startswith(("ssl:", "tls:")) else "tcp"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)
    return f"{kind}:{endpoints.quoteStringArgument(host)}:{address.port}"
