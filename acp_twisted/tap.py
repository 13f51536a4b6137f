"""
C{twistd acp}, and C{twist acp}: the options, and the service that they ask for.

Under C{--stdio} two things of twistd's own have to be dealt with before it gets to them.  It logs to standard output,
which is the wire: so a L{StdioGuard<acp_twisted.transports.stdio.StdioGuard>} is installed before any other option is
looked at, and stays until the process ends.  Whatever twistd prints (a usage error too) goes to standard error.  And it
keeps C{twistd.pid} in the current directory, where an editor may start the same agent twice: so there is no such file
unless C{--pidfile} names another.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from inspect import iscoroutine
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure
from twisted.python.reflect import namedModule
from twisted.python.usage import Options as UsageOptions
from twisted.python.usage import UsageError

from acp_twisted.agent.agent import AcpAgent, AcpAgentBuilder
from acp_twisted.errors import AcpConnectionError
from acp_twisted.interfaces import IMessageReceiverFactory
from acp_twisted.service import AgentService, HttpAgentService, StdioAgentService, on_loopback, server_endpoint
from acp_twisted.transports.stdio import StdioGuard

__all__ = ["Options", "load_agent", "makeService"]

_STDIO = "--stdio"


class Options(UsageOptions):
    """
    The command line behind C{twistd acp}.

    After parsing, C{agent} is the agent itself, C{listen} and C{listen-http} are lists of endpoints, and
    C{http-service} is the service of the latter, or L{None}.

    @ivar guard: what keeps standard output for the protocol, under C{--stdio}.
    @cvar make_guard: makes it.
    """

    synopsis = "[options]"
    longdesc = (
        "Serves an agent of the Agent Client Protocol: on sockets, to any number of clients, or on standard input and "
        "output, as an editor starts it: twistd -n acp --agent package.module:name --stdio"
    )
    optParameters = [  # noqa: N815 - Twisted's name
        [
            "agent",
            "a",
            None,
            "What to serve, as package.module:name. It is an AcpAgent, a builder of one, or a function without "
            "arguments that returns one. The current directory is searched first.",
        ],
    ]

    make_guard: Callable[[], StdioGuard] = staticmethod(partial(StdioGuard, permanent=True))

    def __init__(self) -> None:
        UsageOptions.__init__(self)
        self["listen"] = []
        self["proxy"] = []
        self["listen-http"] = []
        self["http-path"] = "/acp"
        self["http-origin"] = []
        self["http-host"] = []
        self["http-tokens"] = None
        self["stdio"] = False
        self.guard: StdioGuard | None = None

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """
        Guard standard output first, for the rest may print.
        """
        arguments = sys.argv[1:] if options is None else options
        # Long options may be abbreviated.
        if any(len(each) > 2 and _STDIO.startswith(each) for each in arguments):
            try:
                self.guard = self.make_guard().install()
            except AcpConnectionError as error:
                raise UsageError(f"{_STDIO}: {error}") from error
        UsageOptions.parseOptions(self, arguments)

    def opt_proxy(self, component: str) -> None:
        """
        A proxy between the clients and the agent: package.module:name, or the command line of a program; may be given
        several times, from the clients' side on. Then --agent may be a command line too.
        """
        self["proxy"].append(component)

    def opt_listen(self, endpoint: str) -> None:
        """
        Where to listen, as an endpoint string such as tcp:8123:interface=127.0.0.1 or unix:/run/agent.sock; may be
        given several times.
        """
        self["listen"].append(endpoint)

    def opt_listen_http(self, endpoint: str) -> None:
        """
        Where to serve HTTP and WebSocket, as an endpoint string such as tcp:8080 or
        ssl:8443:privateKey=key.pem:certKey=cert.pem:interface=0.0.0.0; without an interface it is the loopback one. May
        be given several times.
        """
        self["listen-http"].append(endpoint)

    def opt_http_path(self, path: str) -> None:
        """
        The path of the agent over HTTP. [default: /acp]
        """
        self["http-path"] = path

    def opt_http_origin(self, origin: str) -> None:
        """
        Which web pages may use the agent over HTTP: an origin such as https://example.com, loopback (pages of this
        machine), none, or * for all; may be given several times. [default: loopback]
        """
        self["http-origin"].append(origin)

    def opt_http_host(self, host: str) -> None:
        """
        A name that the server may be called by over HTTP, without a port; may be given several times. [default: any]
        """
        self["http-host"].append(host)

    def opt_http_token_file(self, path: str) -> None:
        """
        A file of bearer tokens, one of which every HTTP request must bring: one a line, each with the caller's name
        behind it if he is to have one.
        """
        self["http-tokens"] = read_tokens(path)

    def opt_stdio(self) -> None:
        """
        Serve one client on standard input and output, and exit when it hangs up. twistd needs -n for that.
        """
        if self["stdio"]:
            raise UsageError(f"{_STDIO} is given twice, and there is one standard input")
        self["stdio"] = True

    def postOptions(self) -> None:
        """
        Check everything that can be checked before the application starts.

        @raise UsageError: says what is wrong with which option.
        """
        if self["agent"] is None:
            raise UsageError("which agent? Say --agent package.module:name")
        if not (self["listen"] or self["listen-http"] or self["stdio"]):
            raise UsageError(f"where? Say --listen ENDPOINT, once or more, or {_STDIO}, or --listen-http ENDPOINT")
        if self["stdio"]:
            self._prepare_twistd()
        reactor = _installed_reactor()
        try:
            self["listen"] = [server_endpoint(reactor, each) for each in self["listen"]]
        except ValueError as error:
            raise UsageError(f"--listen: {error}") from error
        try:
            self["listen-http"] = [server_endpoint(reactor, on_loopback(each)) for each in self["listen-http"]]
        except ValueError as error:
            raise UsageError(f"--listen-http: {error}") from error
        self["agent"] = load_chain(self["proxy"], self["agent"]) if self["proxy"] else load_agent(self["agent"])
        self["http-service"] = self._http_service(reactor)

    def _http_service(self, reactor: Any) -> Service | None:
        """
        The service of C{--listen-http}, made here because much may be wrong with its options.
        """
        if not self["listen-http"]:
            return None
        try:
            return make_http_service(self, reactor)
        except ImportError as error:
            raise UsageError(f"--listen-http: install acp_twisted[http] ({error})") from error
        except ValueError as error:
            raise UsageError(f"--http-path, --http-origin: {error}") from error

    def _prepare_twistd(self) -> None:
        """
        See the module's docstring.  C{twist} never daemonizes, and has neither option.
        """
        twistd: Any = self.parent
        if twistd is None or "nodaemon" not in twistd:
            return
        if not (twistd["nodaemon"] or twistd.get("debug")):
            raise UsageError(f"{_STDIO}: a daemon has no standard input and output; say twistd -n acp ... {_STDIO}")
        if twistd.get("pidfile") == twistd.defaults.get("pidfile"):
            twistd["pidfile"] = ""


def makeService(options: Options) -> IService:
    """
    The service that the options ask for.  An endpoint that can't be opened stops the application.
    """
    reactor = _installed_reactor()
    agent = options["agent"]
    services: list[Service] = []
    if options["listen"]:
        sockets = AgentService(agent, options["listen"], reactor)
        sockets.when_listening().addErrback(_give_up, reactor)
        services.append(sockets)
    if options["http-service"] is not None:
        http: HttpAgentService = options["http-service"]
        http.when_listening().addErrback(_give_up, reactor)
        services.append(http)
    if options["stdio"]:
        services.append(StdioAgentService(agent, reactor, options.guard))
    application = MultiService()
    for each in services:
        each.setServiceParent(application)
    return application


def make_http_service(options: Options, reactor: Any) -> HttpAgentService:
    """
    The service that the C{--http} options ask for.

    @raise ImportError: when what C{acp_twisted[http]} installs is not there.
    @raise ValueError: says what is wrong with an origin or the path.
    """
    from acp_twisted.transports.http.security import BearerTokens  # noqa: PLC0415 - only who serves HTTP pays for it

    tokens = options["http-tokens"]
    return HttpAgentService(
        options["agent"],
        options["listen-http"],
        reactor,
        path=options["http-path"],
        origins=options["http-origin"] or ("loopback",),
        hosts=options["http-host"] or None,
        authentication=None if tokens is None else BearerTokens(tokens),
    )


def read_tokens(path: str) -> dict[str, object]:
    """
    The tokens in a file, each with the name of who knows it.  Empty lines and those that begin with C{#} are none.

    @raise UsageError: when the file can't be read, or there is none in it.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--http-token-file: can't read {path}: {type(error).__name__}") from None
    tokens: dict[str, object] = {}
    for line in text.splitlines():
        token, _, name = line.strip().partition(" ")
        if token and not token.startswith("#"):
            tokens[token] = name.strip() or "bearer"
    if not tokens:
        raise UsageError(f"--http-token-file: there is no token in {path}")
    return tokens


def _give_up(failure: Failure, reactor: Any) -> None:
    if failure.check(CancelledError) is None:  # the service has logged it, or raised it
        reactor.callWhenRunning(reactor.stop)


def _installed_reactor() -> Any:
    """
    The reactor that twistd has chosen by now; or Twisted chooses one, as it would at the first import anywhere.
    """
    return namedModule("twisted.internet.reactor")


def load_chain(proxies: Sequence[str], agent: str) -> IMessageReceiverFactory:
    """
    The conductor of such proxies and such an agent.

    @raise UsageError: says what is wrong with them.
    """
    from acp_twisted.proxy.conductor import Conductor  # noqa: PLC0415 - only who has proxies pays for it
    from acp_twisted.proxy.loading import component  # noqa: PLC0415 - as above

    builder = Conductor.builder().name("twistd acp")
    option = "--proxy"
    try:
        for number, text in enumerate(proxies, 1):
            name, what = component(text)
            builder.proxy(what, f"proxy {number} ({name})")
        option = "--agent"
        name, what = component(agent)
        builder.agent(what, f"agent ({name})")
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
    return builder.build()


def load_agent(name: str) -> AcpAgent:
    """
    The agent that users name as C{package.module:name}.

    @raise UsageError: says what is wrong with it.
    """
    module_name, _, attributes = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *attributes.split("."))):
        raise UsageError(f"--agent: {name!r} is not of the form package.module:name")
    _search_current_directory()
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:
        raise UsageError(f"--agent: can't import {module_name}: {_describe(error)}") from error
    try:
        found = _look_up(module, attributes)
    except AttributeError as error:
        raise UsageError(f"--agent: {module_name} has no {attributes}{_agents_of(module)}") from error
    try:
        made = found() if callable(found) else found
        agent = made.build() if isinstance(made, AcpAgentBuilder) else made
    except Exception as error:
        raise UsageError(f"--agent: {name} could not make an agent: {_describe(error)}") from error
    if not isinstance(agent, AcpAgent):
        if iscoroutine(agent):
            agent.close()
        returned = f"{name} returned" if callable(found) else f"{name} is"
        raise UsageError(f"--agent: {returned} a {type(agent).__name__}, not an AcpAgent")
    return agent


def _search_current_directory() -> None:
    """
    As C{python -m} does, and as twistd's own program does not.
    """
    with suppress(FileNotFoundError):  # it was removed; then there is nothing in it
        here = os.getcwd()
        if here not in sys.path:
            sys.path.insert(0, here)


def _look_up(module: ModuleType, attributes: str) -> Any:
    found: Any = module
    for attribute in attributes.split("."):
        found = getattr(found, attribute)
    return found


def _agents_of(module: ModuleType) -> str:
    names = sorted(name for name, value in vars(module).items() if isinstance(value, AcpAgent))
    return f"; agents in it: {', '.join(names)}" if names else ""


def _describe(error: BaseException) -> str:
    """
    One line for people: the error, and where in their code it was raised.
    """
    last = extract_tb(error.__traceback__)[-1]
    ours = last.filename == __file__ or last.filename.startswith("<frozen ")
    place = "" if ours or isinstance(error, SyntaxError) else f" ({last.filename}, line {last.lineno})"
    return f"{type(error).__name__}: {error}{place}"
