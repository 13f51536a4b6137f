"""
Where a remote agent is, and what is shown to get in.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.cookiejar import CookieJar
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from attrs import field, frozen
from twisted.internet.defer import Deferred
from zope.interface import implementer

from acp_twisted.interfaces import IMessageEndpoint, IMessageReceiver, IMessageTransport
from acp_twisted.limits import Limits

SCHEMES: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_SECURE: Final = ("https", "wss")
_PATH_SAFE: Final = "/%:@!$&'()*+,;=~-._?"
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")


@frozen(kw_only=True)
class TlsOptions:
    """
    How a server proves who it is, and how we do; each as in Twisted's endpoint strings.

    @ivar trust_roots: a PEM file, or a directory of them, with the certificates that may vouch for the server; without
        it those of the system.
    @ivar certificate: a PEM file with our certificate, if the server wants one.
    @ivar private_key: a PEM file with its key; by default it stands in the same file.
    @ivar hostname: the name that the server's certificate must have, if not that of the URL.
    """

    trust_roots: str | None = None
    certificate: str | None = None
    private_key: str | None = None
    hostname: str | None = None


def _checked_url(instance: object, attribute: Any, value: str) -> None:
    parts = urlsplit(value)
    if parts.scheme.lower() not in SCHEMES or not parts.hostname:
        raise ValueError("a remote agent's URL begins with http://, https://, ws:// or wss:// and a host")
    if parts.fragment:
        raise ValueError("a remote agent's URL has no fragment")
    parts.port  # raises for one that is no number  # noqa: B018


def _checked_headers(headers: Mapping[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    result = []
    for name, value in headers.items():
        if not name or not set(name.lower()) <= _TOKEN:
            raise ValueError(f"{name!r} is no name of a header")
        raw = value.encode("utf-8")
        if any((byte < 32 and byte != 9) or byte == 127 for byte in raw):
            raise ValueError(f"the value of the header {name!r} has control characters")
        result.append((name.encode("ascii"), raw.strip()))
    return tuple(result)


@implementer(IMessageEndpoint)
@frozen(kw_only=True, repr=False)
class AgentUrl:
    """
    A remote agent.

    Its C{str} and C{repr} show neither the headers nor what stands in the URL before the host or behind the path.

    @ivar url: C{http}, C{https}, C{ws} or C{wss}.  A user and password in it are sent as basic authentication.
    @ivar headers: sent with every request, the WebSocket's opening one included; never logged.
    @ivar tls: for C{https} and C{wss}.
    @ivar http2: L{None} asks the server in the TLS handshake, and speaks HTTP/1.1 without TLS.  C{True} speaks HTTP/2
        in any case, C{False} never.
    @ivar subprotocols: what a WebSocket offers to speak; the server may choose one of them.
    @ivar cookies: where cookies are kept; by default each connection has a jar of its own for as long as it lives.
    """

    url: str = field(validator=_checked_url)
    headers: tuple[tuple[bytes, bytes], ...] = field(default={}, converter=_checked_headers)
    tls: TlsOptions = TlsOptions()
    http2: bool | None = None
    subprotocols: tuple[str, ...] = field(default=(), converter=tuple)
    cookies: CookieJar | None = field(default=None, eq=False)

    @property
    def scheme(self) -> str:
        """
        In lower case.
        """
        return urlsplit(self.url).scheme.lower()

    @property
    def secure(self) -> bool:
        """
        Whether it is spoken to over TLS.
        """
        return self.scheme in _SECURE

    @property
    def is_websocket(self) -> bool:
        """
        Whether it is spoken to over a WebSocket.
        """
        return self.scheme in ("ws", "wss")

    @property
    def host(self) -> str:
        """
        Its host, a name or an address.
        """
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """
        Its port.
        """
        return urlsplit(self.url).port or SCHEMES[self.scheme]

    @property
    def authority(self) -> bytes:
        """
        What the C{Host} header says.
        """
        host = self.host
        shown = f"[{host}]" if ":" in host else host if host.isascii() else host.encode("idna").decode()
        port = self.port
        return (shown if port == SCHEMES[self.scheme] else f"{shown}:{port}").encode("ascii")

    @property
    def target(self) -> bytes:
        """
        The path and the query, as a request names them.
        """
        parts = urlsplit(self.url)
        path = quote(parts.path or "/", safe=_PATH_SAFE)
        return (path + (f"?{quote(parts.query, safe=_PATH_SAFE + '=&')}" if parts.query else "")).encode("ascii")

    @property
    def http_url(self) -> str:
        """
        The URL as HTTP sees it, without user, password and fragment; C{ws} is C{http} there.
        """
        scheme = "https" if self.secure else "http"
        return f"{scheme}://{self.authority.decode()}{self.target.decode()}"

    @property
    def request_headers(self) -> list[tuple[bytes, bytes]]:
        """
        L{headers}, and what follows from a user and password in the URL.
        """
        headers = list(self.headers)
        parts = urlsplit(self.url)
        if parts.username is not None and not any(name.lower() == b"authorization" for name, _ in headers):
            from base64 import b64encode  # noqa: PLC0415

            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers.append((b"Authorization", b"Basic " + b64encode(pair.encode())))
        return headers

    def connect_receiver(self, reactor: Any, receiver: IMessageReceiver, limits: Limits) -> Deferred[IMessageTransport]:
        """
        See L{IMessageEndpoint}.

        @raise ValueError: when the TLS options can't be used, or what C{acp_twisted[http]} brings is not installed.
        """
        try:
            if self.is_websocket:
                from acp_twisted.transports.websocket_client import open_websocket  # noqa: PLC0415

                return open_websocket(reactor, self, receiver, limits)
            from acp_twisted.transports.http.requests import open_http  # noqa: PLC0415

            return open_http(reactor, self, receiver, limits)
        except ImportError as error:
            raise ValueError(
                f"{self.scheme}:// needs more than is installed: pip install 'acp_twisted[http]' ({error})"
            ) from error

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority.decode()}{urlsplit(self.url).path}"

    def __repr__(self) -> str:
        return f"AgentUrl({str(self)!r})"
