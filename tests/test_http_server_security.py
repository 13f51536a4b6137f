"""
Who may use the server, and that what he presents is compared and forgotten.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from http_server_fakes import EVENTS, INITIALIZE, JSON, NEW_SESSION, UPGRADE, Remote, Server
from twisted.cred.checkers import AllowAnonymousAccess, InMemoryUsernamePasswordDatabaseDontUse
from twisted.cred.credentials import Anonymous
from twisted.cred.error import UnauthorizedLogin
from twisted.cred.portal import Portal
from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.web.guard import BasicCredentialFactory, DigestCredentialFactory
from zope.interface import Interface, implementer

from acp_twisted import AcpAgent
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.limits import Limits
from acp_twisted.schema import v1
from acp_twisted.transports.http.security import (
    BearerTokens,
    CredAuthentication,
    IAuthentication,
    OriginPolicy,
    checked_by,
)

TOKEN = "s3cret-token-of-alice"


def basic(user: str, password: str) -> dict[str, str]:
    """Headers with a name and a password."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def bearer(token: str) -> dict[str, str]:
    """Headers with a token."""
    return {"Authorization": f"Bearer {token}"}


def asking_agent(seen: list[object]) -> AcpAgent:
    """An agent that notes who asks."""

    def new_session(request: v1.NewSessionRequest, connection: AgentConnection) -> v1.NewSessionResponse:
        seen.append(connection.identity)
        return v1.NewSessionResponse(session_id="s1")

    builder = AcpAgent.builder().prompt_handler(lambda request: v1.PromptResponse(stop_reason="end_turn"))
    return builder.new_session_handler(new_session).build()


@pytest.mark.parametrize(
    ("policy", "origin", "allowed"),
    [
        ([], "http://localhost", False),
        (["none"], "http://localhost", False),
        (["loopback"], "http://localhost:5173", True),
        (["loopback"], "https://[::1]:1", True),
        (["loopback"], "HTTP://LOCALHOST", True),
        (["loopback"], "http://127.0.0.2", False),
        (["loopback"], "ftp://localhost", False),
        (["loopback"], "http://localhost/path", False),
        (["loopback"], "http://localhost:99999", False),
        (["loopback"], "null", False),
        (["loopback"], "", False),
        (["loopback"], "http://local\thost", False),
        (["loopback"], "http://localhost\xa0", False),
        (["https://a.example"], "https://a.exam\nple", False),
        (["https://a.example"], "https://a.example", True),
        (["https://a.example"], "https://a.example:443", True),
        (["https://a.example"], "http://a.example", False),
        (["https://a.example"], "https://a.example:8443", False),
        (["https://a.example:8443", "loopback"], "https://A.example:8443", True),
        (["*"], "https://evil.example", True),
        (["*"], "null", True),
    ],
)
def test_origins(policy: list[str], origin: str, allowed: bool) -> None:
    """Scheme, host and port all count, the default port is one, and what is no origin is nobody's."""
    assert OriginPolicy(policy).allows(origin) is allowed


@pytest.mark.parametrize("bad", ["example.com", "https://", "https://a.example/", "file:///x", "localhost"])
def test_what_is_no_origin_is_told_when_it_is_configured(bad: str) -> None:
    """A typing error in the configuration is an error at the start, not a hole."""
    with pytest.raises(ValueError, match="origin"):
        OriginPolicy([bad])


def test_pages_that_may_are_told_so() -> None:
    """A browser learns that the page may read the answers and the connection's id, and asks again after 10 minutes."""
    server = Server(origins=["https://a.example"])
    origin = {"Origin": "https://a.example"}
    asked = server.ask("OPTIONS", {**origin, "Access-Control-Request-Method": "POST"})
    assert asked.status == 204
    assert asked.headers["access-control-allow-origin"] == "https://a.example"
    assert "Acp-Session-Id" in asked.headers["access-control-allow-headers"]
    assert "DELETE" in asked.headers["access-control-allow-methods"]
    answer = server.ask("POST", {**JSON, **origin}, INITIALIZE)
    assert answer.headers["access-control-allow-origin"] == "https://a.example"
    assert answer.headers["access-control-expose-headers"] == "Acp-Connection-Id"
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-origin" not in server.ask("POST", JSON, INITIALIZE).headers
    assert server.ask("OPTIONS", {"Origin": "http://localhost"}).status == 403


def test_the_name_the_server_is_called_by() -> None:
    """With a list of hosts, any other name is 403: a page that points its own name here gets nowhere."""
    server = Server(hosts=["agent.example", "LOCALHOST", "::1"])
    for host, status in [
        ("agent.example", 200),
        ("agent.example:8443", 200),
        ("Localhost:80", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("agent.example.evil.example", 403),
        ("", 403),
        ("a b", 403),
        ("[", 403),
    ]:
        assert server.ask("POST", {**JSON, "Host": host}, INITIALIZE).status == status, host
    twice = [*JSON.items(), ("Host", "localhost"), ("Host", "evil.example")]
    assert server.ask("POST", twice, INITIALIZE).status in (400, 403)


def test_bearer_tokens() -> None:
    """The right token is served, with its identity for the handlers; none, another or two is 401 with a challenge."""
    seen: list[object] = []
    server = Server(served=asking_agent(seen), authentication=BearerTokens({TOKEN: "alice", "other": "bob"}))
    for headers in ({}, bearer("wrong"), bearer(""), {"Authorization": TOKEN}, basic("alice", TOKEN)):
        refused = server.ask("POST", {**JSON, **headers}, INITIALIZE)
        assert (refused.status, refused.headers["www-authenticate"]) == (401, 'Bearer realm="acp"')
    assert server.ask("POST", [*JSON.items(), *(bearer(TOKEN).items()), *(bearer(TOKEN).items())], "").status == 401
    assert server.ask("GET", UPGRADE).status == 401
    assert len(server.resource.connections) == 0
    remote = server.initialize(**bearer(TOKEN))
    remote.new_session()
    assert seen == ["alice"]
    assert server.initialize(Authorization="bearer  other").id


def test_a_connection_is_its_makers() -> None:
    """Somebody else's id is 404 for whoever guesses or steals it without the token it was made with."""
    server = Server(authentication=BearerTokens({TOKEN: "alice", "other": "bob"}))
    remote = server.initialize(**bearer(TOKEN))
    thief = Remote(server, remote.id, bearer("other"))
    assert thief.post(NEW_SESSION).status == 404
    assert thief.open().answer().status == 404
    assert thief.delete().status == 404
    assert Remote(server, remote.id, {}).post(NEW_SESSION).status == 401
    assert remote.post(NEW_SESSION).status == 202


def test_a_browsers_socket_brings_its_token_as_a_subprotocol() -> None:
    """A page can't set headers on a WebSocket; the token is not repeated in the answer."""
    server = Server(authentication=BearerTokens([TOKEN]))
    wire = server.connect()
    wire.request("GET", headers={**UPGRADE, "Sec-WebSocket-Protocol": f"acp, bearer.{TOKEN}"})
    assert wire.socket.value().startswith(b"HTTP/1.1 101 ")
    assert TOKEN.encode() not in wire.socket.value()
    assert server.ask("GET", {**UPGRADE, "Sec-WebSocket-Protocol": "acp, bearer.x"}).status == 401


@pytest.mark.parametrize("tokens", [[], {}, [""], {"": "nobody"}])
def test_tokens_that_let_anybody_in_are_an_error(tokens: Any) -> None:
    """No token at all, or an empty one, is a mistake of the configuration."""
    with pytest.raises(ValueError, match="token"):
        BearerTokens(tokens)


def test_cred_checkers() -> None:
    """Any twisted.cred checker with twisted.web's credentials: Basic here, and Digest's challenge."""
    seen: list[object] = []
    users = InMemoryUsernamePasswordDatabaseDontUse(alice=b"pw")
    factories = [BasicCredentialFactory(b"acp"), DigestCredentialFactory(b"md5", b"acp")]
    server = Server(served=asking_agent(seen), authentication=checked_by([users], factories))
    refused = server.ask("POST", JSON, INITIALIZE)
    challenges = [value for name, value in refused.every if name == "www-authenticate"]
    assert refused.status == 401
    assert challenges[0] == 'basic realm="acp"'
    assert challenges[1].startswith('digest nonce="')
    for headers in (
        basic("alice", "wrong"),
        basic("bob", "pw"),
        {"Authorization": "Basic !"},
        {"Authorization": "X y"},
    ):
        assert server.ask("POST", {**JSON, **headers}, INITIALIZE).status == 401
    server.initialize(**basic("alice", "pw")).new_session()
    assert seen == [b"alice"]


class IUser(Interface):
    """What the test's realm makes."""


@implementer(IUser)
class User:
    """One of the realm's users."""


class Realm:
    """Makes users, and counts who left."""

    def __init__(self) -> None:
        self.user = User()
        self.left = 0

    def requestAvatar(self, avatarId: object, mind: object, *interfaces: Any) -> Any:
        assert interfaces == (IUser,)
        return IUser, self.user, self.leave

    def leave(self) -> None:
        """Somebody logged out."""
        self.left += 1


def test_a_cred_portal() -> None:
    """A portal's avatar is the identity, anonymous where a checker allows it, and logs out when the request is over."""
    seen: list[object] = []
    realm = Realm()
    portal = Portal(realm, [AllowAnonymousAccess()])  # type: ignore[arg-type]
    server = Server(served=asking_agent(seen), authentication=CredAuthentication(portal, [], IUser))
    server.initialize().new_session()
    assert seen == [realm.user]
    assert realm.left == 2


def test_a_portal_is_told_when_a_caller_leaves_during_his_login() -> None:
    """The avatar that was made for nobody is logged out as any other, or its realm keeps it for ever."""
    realm = Realm()
    waiting: Deferred[Any] = Deferred()
    portal: Any = Portal(realm, [AllowAnonymousAccess()])  # type: ignore[arg-type]
    login, portal.login = portal.login, lambda *rest: waiting
    server = Server(authentication=CredAuthentication(portal, [], IUser))
    wire = server.connect()
    wire.request("POST", headers=JSON, body=INITIALIZE)
    wire.lose()
    assert realm.left == 0
    login(Anonymous(), None, IUser).chainDeferred(waiting)
    assert realm.left == 1
    assert not len(server.resource.connections)


def test_a_method_of_the_callers_own_is_not_logged() -> None:
    """What stands where a method should may be long, or a secret in the wrong place (rule 9)."""
    seen: list[str] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        seen.append(f"{formatEvent(event)} {event!r}")

    globalLogPublisher.addObserver(observe)
    try:
        assert Server().ask(TOKEN, JSON).status == 405
    finally:
        globalLogPublisher.removeObserver(observe)
    assert any("another method answered 405" in each for each in seen)
    assert not any(TOKEN in each for each in seen)


@implementer(IAuthentication)
class Slow:
    """An authentication that answers when the test says so."""

    challenges = (b"Slow",)

    def __init__(self) -> None:
        self.asked: list[Deferred[object]] = []

    def authenticate(self, request: Any) -> Deferred[object]:
        self.asked.append(Deferred())
        return self.asked[-1]


def slow_remote() -> tuple[Server, Slow, Remote]:
    """A connection whose later requests wait for their authentication."""
    slow = Slow()
    server = Server(authentication=slow)
    wire = server.connect()
    wire.request("POST", headers=JSON, body=INITIALIZE)
    assert wire.answers() == []
    slow.asked[0].callback("me")
    return server, slow, Remote(server, wire.answer().headers["acp-connection-id"], {})


def test_posts_keep_their_order_while_they_are_authenticated() -> None:
    """A POST that was authenticated sooner does not overtake one that came before it; one that is refused goes."""
    server, slow, remote = slow_remote()
    wires = []
    for number in range(4):
        wire = server.connect()
        message = {"jsonrpc": "2.0", "id": number, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}
        wire.request("POST", headers={**JSON, **remote.headers}, body=json.dumps(message))
        wires.append(wire)
    slow.asked[3].callback("me")
    slow.asked[4].callback("me")
    assert [len(wire.answers()) for wire in wires] == [0, 0, 0, 0]
    slow.asked[1].errback(UnauthorizedLogin())
    assert [len(wire.answers()) for wire in wires] == [1, 0, 0, 0]
    slow.asked[2].callback("somebody else")
    assert [wire.answer().status for wire in wires] == [401, 404, 202, 202]
    stream = server.connect()
    stream.request("GET", headers={**EVENTS, **remote.headers})
    slow.asked[5].callback("me")
    assert [event["result"]["sessionId"] for event in stream.events()] == ["s1", "s2"]
    assert [event["id"] for event in stream.events()] == [2, 3]


def test_a_caller_who_leaves_while_he_is_authenticated() -> None:
    """Nothing comes of his request."""
    server, slow, remote = slow_remote()
    for method, headers in (("POST", JSON), ("GET", EVENTS)):
        wire = server.connect()
        wire.request(method, headers={**headers, **remote.headers}, body=NEW_SESSION if method == "POST" else None)
        wire.lose()
        slow.asked[-1].callback("me")
    assert len(server.resource.connections) == 1


def test_an_authentication_that_fails(logged_errors: Any) -> None:
    """500, and a log line that does not quote what it may have choked on."""
    server, slow, remote = slow_remote()
    wire = server.connect()
    wire.request("POST", headers={**JSON, **remote.headers}, body=NEW_SESSION)
    slow.asked[-1].errback(RuntimeError(f"can't look up {TOKEN}"))
    assert wire.answer().status == 500
    assert logged_errors == []


def test_a_request_that_finds_no_place_while_it_is_authenticated() -> None:
    """A POST with ids that are none is refused at once, and its authentication is given up."""
    server, slow, remote = slow_remote()
    wire = server.connect()
    wire.request("POST", headers=[*JSON.items(), *remote.headers.items(), ("Acp-Session-Id", "")], body=NEW_SESSION)
    assert wire.answer().status == 400
    assert slow.asked[-1].called
    assert len(wire.answers()) == 1


def test_a_refused_request_after_a_slow_authentication() -> None:
    """What is refused then is answered then, and gives its place up."""
    server, slow, remote = slow_remote()
    wire = server.connect()
    wire.request("POST", headers={**JSON, **remote.headers}, body="[]")
    slow.asked[-1].callback("me")
    assert wire.answer().status == 501
    again = server.connect()
    again.request("POST", headers={**JSON, **remote.headers}, body=NEW_SESSION)
    slow.asked[-1].callback("me")
    assert again.answer().status == 202


def test_nothing_secret_is_logged() -> None:
    """
    Whatever is asked, well or badly: no token, password, cookie, body, query, id of a connection or session is in any
    event of the log, in its text or its fields (rule 9).
    """
    seen: list[str] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        seen.append(f"{formatEvent(event)} {event!r}")

    globalLogPublisher.addObserver(observe)
    try:
        users = InMemoryUsernamePasswordDatabaseDontUse(alice=b"p4ssword")
        authentication = checked_by([users], [BasicCredentialFactory(b"acp")])
        for server, good in (
            (Server(authentication=BearerTokens([TOKEN])), bearer(TOKEN)),
            (Server(Limits(max_request_bytes=200), authentication=authentication), basic("alice", "p4ssword")),
        ):
            remote = server.initialize(**good, Cookie="c00kie=1")
            remote.new_session()
            remote.call(5, "session/prompt", {"sessionId": "s1", "prompt": "b0dy"}, "s1")
            server.ask("POST", {**JSON, **good}, '{"b0dy": ')
            server.ask("POST", {**JSON, **good}, '"' + "b0dy" * 100 + '"')
            server.ask("POST", {**JSON, **bearer("wr0ng")}, INITIALIZE)
            server.ask("POST", {**JSON, "Authorization": "Basic wr0ng"}, INITIALIZE)
            server.ask("GET", {**EVENTS, **good}, path=f"/acp?acp-connection-id={remote.id}&t0ken=1")
            server.ask("GET", {**UPGRADE, **good, "Sec-WebSocket-Protocol": "acp, bearer.wr0ng"})
            server.resource.close_all()
            server.clock.advance(120)
    finally:
        globalLogPublisher.removeObserver(observe)
    text = "\n".join(seen)
    assert "answered" in text
    secret = [
        TOKEN,
        "p4ssword",
        "c00kie",
        "b0dy",
        "wr0ng",
        "t0ken",
        remote.id,
        basic("alice", "p4ssword")["Authorization"],
    ]
    assert [each for each in secret if each in text] == []
