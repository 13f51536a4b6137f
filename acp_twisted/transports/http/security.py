"""
Who may talk to the server: the origin of a web page, the name that the server was called by, and who the caller is.

All of it is looked at before anything is made of a request.  What a caller presents (a token, a password, a cookie) is
compared and forgotten: it is in no log, no error and no answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final
from urllib.parse import urlsplit

from twisted.cred.credentials import Anonymous
from twisted.cred.error import LoginFailed, UnauthorizedLogin
from twisted.cred.portal import IRealm, Portal
from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.logger import Logger
from zope.interface import Attribute, Interface, implementer

_log = Logger()

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
BEARER_SUBPROTOCOL: Final = "bearer."


class OriginPolicy:
    """
    Which web pages may use the server.  A request without an C{Origin} is no page's, and always passes.
    """

    def __init__(self, origins: Iterable[str]) -> None:
        """
        @param origins: any of C{"none"}, C{"loopback"} (pages of this machine, on any port), C{"*"} (all of them), and
            origins such as C{"https://example.com"}.
        @raise ValueError: for what is none of these.
        """
        listed = set()
        self._loopback = self._any = False
        for each in origins:
            if each == "loopback":
                self._loopback = True
            elif each == "*":
                self._any = True
            elif each != "none":
                listed.add(_parts(each))
        self._listed = frozenset(listed)

    def allows(self, origin: str) -> bool:
        """
        Whether a page of this origin may.
        """
        if self._any:
            return True
        if not (origin.isascii() and origin.isprintable()):
            return False  # urlsplit would pass over some of it
        try:
            parts = _parts(origin)
        except ValueError:
            return False
        return parts in self._listed or (self._loopback and parts[1] in LOOPBACK)


def _parts(origin: str) -> tuple[str, str, int]:
    """
    An origin's scheme, host and port.

    @raise ValueError: when it is none.
    """
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query or parts.fragment:
        raise ValueError(f"{origin!r} is no origin: say https://host or https://host:port")
    if parts.username is not None:
        raise ValueError("an origin has no user")
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def host_is_allowed(request: Any, hosts: Collection[str] | None) -> bool:
    """
    Whether the server was called by one of its names, which a page that had its own name point here does not know.

    @param hosts: the names, without ports, in lower case; L{None} is any.
    """
    if hosts is None:
        return True
    values = request.requestHeaders.getRawHeaders(b"host") or []
    if len(values) != 1:
        return False
    try:
        name = urlsplit("//" + values[0].decode("ascii")).hostname
    except ValueError:
        return False
    return name in hosts


class IAuthentication(Interface):
    """
    Finds out who sends a request.
    """

    challenges: Sequence[bytes] = Attribute("The WWW-Authenticate headers for who is refused.")

    def authenticate(request: Any) -> object:  # noqa: N805 - a zope interface
        """
        The caller's identity, or a L{Deferred} of it: anything that is equal to itself the next time, for a connection
        is only served to who made it.

        @raise UnauthorizedLogin: or any L{LoginFailed} or C{Unauthorized}, for who is nobody.
        """


@implementer(IAuthentication)
class BearerTokens:
    """
    Secrets that the callers know.  One comes in C{Authorization: Bearer …}; or, because a browser's WebSocket can send
    no such header, as the subprotocol C{bearer.…} beside C{acp}.
    """

    challenges = (b'Bearer realm="acp"',)

    def __init__(self, tokens: Mapping[str, object] | Iterable[str]) -> None:
        """
        @param tokens: the secrets, each with the identity of who knows it; or secrets alone, with one identity for all,
            C{"bearer"}.
        @raise ValueError: when there is none, or an empty one.
        """
        pairs = tokens.items() if isinstance(tokens, Mapping) else [(each, "bearer") for each in tokens]
        if not pairs or not all(token for token, _ in pairs):
            raise ValueError("BearerTokens needs at least one token, and none may be empty")
        self._known = [(_digest(token.encode("utf-8")), identity) for token, identity in pairs]

    def authenticate(self, request: Any) -> object:
        """
        See L{IAuthentication}.  Takes the same time whichever token it is, and how much of it is right.
        """
        given = _digest(_bearer(request))
        found: list[object] = []
        for known, identity in self._known:
            if compare_digest(known, given):
                found.append(identity)
        if not found:
            raise UnauthorizedLogin("no token, or not the right one")
        return found[0]


def _digest(token: bytes) -> bytes:
    return sha256(token).digest()


def _bearer(request: Any) -> bytes:
    values = request.requestHeaders.getRawHeaders(b"authorization") or []
    if len(values) == 1:
        scheme, _, token = values[0].partition(b" ")
        if scheme.lower() == b"bearer":
            return bytes(token.strip())
    for value in request.requestHeaders.getRawHeaders(b"sec-websocket-protocol") or []:
        for each in value.split(b","):
            if each.strip().startswith(BEARER_SUBPROTOCOL.encode("ascii")):
                return bytes(each.strip().removeprefix(BEARER_SUBPROTOCOL.encode("ascii")))
    return b""


@implementer(IAuthentication)
class CredAuthentication:
    """
    Any L{twisted.cred} portal in front: what the caller presents is decoded as L{twisted.web.guard} does it, and the
    avatar is the identity.  The portal's logout is called when the request is over.
    """

    def __init__(self, portal: Portal, factories: Sequence[Any], interface: Any) -> None:
        """
        @param factories: providers of L{twisted.web.iweb.ICredentialFactory}, such as L{twisted.web.guard}'s.
        @param interface: which avatar is asked of the portal.
        """
        self._portal = portal
        self._factories = list(factories)
        self._interface = interface

    @property
    def challenges(self) -> Sequence[bytes]:
        """
        See L{IAuthentication}.  Challenges that depend on the request (Digest's) are made for it, by L{challenge}.
        """
        return ()

    def challenge(self, request: Any) -> Sequence[bytes]:
        """
        The challenges for one request.
        """
        return [_challenge(factory.scheme, factory.getChallenge(request)) for factory in self._factories]

    def authenticate(self, request: Any) -> Deferred[object]:
        """
        See L{IAuthentication}.
        """
        values = request.requestHeaders.getRawHeaders(b"authorization") or []
        if not values:
            return self._login(Anonymous(), request)
        scheme, _, response = values[0].partition(b" ")
        for factory in self._factories:
            if factory.scheme == scheme.lower() and len(values) == 1:
                try:
                    credentials = factory.decode(response, request)
                except LoginFailed:
                    return fail(UnauthorizedLogin())
                except Exception:
                    _log.warn("credentials could not be decoded")  # without the failure: it may quote them
                    return fail(UnauthorizedLogin())
                return self._login(credentials, request)
        return fail(UnauthorizedLogin())

    def _login(self, credentials: Any, request: Any) -> Deferred[object]:
        return maybeDeferred(self._portal.login, credentials, None, self._interface).addCallback(self._enter, request)

    def _enter(self, result: Any, request: Any) -> object:
        _, avatar, logout = result

        def leave(_: object) -> None:
            logout()

        if getattr(request, "channel", self) is None:
            logout()  # the caller has gone meanwhile, and nobody would tell
        else:
            request.notifyFinish().addBoth(leave)
        return avatar


def _challenge(scheme: bytes, challenge: Mapping[str, Any]) -> bytes:
    parts = []
    for name, value in challenge.items():
        raw = value if isinstance(value, bytes) else str(value).encode("utf-8")
        quoted = raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        parts.append(name.encode("ascii") + b'="' + quoted + b'"')
    return scheme + b" " + b", ".join(parts)


class IIdentity(Interface):
    """
    What L{checked_by} asks a portal for.
    """


@implementer(IRealm)
class _NameRealm:
    """
    Makes the avatar's id the avatar.
    """

    def requestAvatar(self, avatarId: Any, mind: object, *interfaces: Any) -> tuple[Any, object, Any]:
        return IIdentity, avatarId, _nothing


def _nothing() -> None:
    return None


def checked_by(checkers: Iterable[Any], factories: Sequence[Any]) -> CredAuthentication:
    """
    An authentication by L{twisted.cred} checkers alone.  The identity is the avatar id, usually the user's name, in
    bytes.

    @param checkers: providers of L{twisted.cred.checkers.ICredentialsChecker}.
    @param factories: see L{CredAuthentication}.
    """
    return CredAuthentication(Portal(_NameRealm(), list(checkers)), factories, IIdentity)
