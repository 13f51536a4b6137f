"""
A client for the tests of an agent: it answers what the test says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from acp_twisted.client.client import AcpClient
from acp_twisted.client.connection import ClientConnection
from acp_twisted.errors import ResourceNotFound
from acp_twisted.interfaces import IMessageReceiver, IMessageReceiverFactory
from acp_twisted.limits import Limits
from acp_twisted.schema import v1
from acp_twisted.schema.converter import unstructure
from acp_twisted.testing._versions import Versions
from acp_twisted.testing.half import ScriptedHalf
from acp_twisted.testing.script import Expectation, Matching, Script, by_text
from acp_twisted.testing.transcript import spoken

# Version 2 takes the words of version 1 for these.
CANCELLED = v1.RequestPermissionResponse(outcome=v1.CancelledPermissionOutcome())


class PermissionExpectation(Expectation):
    """
    A permission request that is to come, and what the user says.  If nothing is said, he picks no option.
    """

    def __init__(self, script: Script, description: str, matches: Callable[[Any], bool]) -> None:
        super().__init__("session/request_permission", description, matches)
        self._script = script
        self.cancels()

    def selects(self, option: str) -> PermissionExpectation:
        """
        Pick an option, by its id, or the first of a kind.

        @param option: an id such as C{"yes"}, or a kind such as C{"allow_once"}.
        """

        def select(request: Any) -> v1.RequestPermissionResponse:
            for offered in request.options:
                if option in (offered.option_id, offered.kind):
                    outcome = v1.SelectedPermissionOutcome(option_id=offered.option_id)
                    return v1.RequestPermissionResponse(outcome=outcome)
            offers = ", ".join(f"{each.option_id} ({each.kind})" for each in request.options) or "nothing"
            raise self._script.fault(f"expected the option {option!r} to be offered; what was offered is {offers}")

        return self.answers(select)

    def cancels(self) -> PermissionExpectation:
        """
        Pick none.
        """
        return self.answers(CANCELLED)


@implementer(IMessageReceiverFactory)
class ScriptedClient(ScriptedHalf):
    """
    A client whose answers are scripted.  It goes wherever an L{AcpClient} goes.

    A request that is not expected is answered -32603, with the words of what was expected and what came.

    @ivar files: what is in its files, by path, when it has any.
    @ivar updates: the updates that came, in the words of their version, as the permission requests.
    @ivar permissions: the permission requests that came.
    @ivar reads: the files that were read, by the requests.
    @ivar writes: those that were written.
    """

    def __init__(
        self,
        configure: Callable[[Any], object] | None = None,
        *,
        files: Mapping[str, str] | None = None,
        permission: str | None = None,
        protocol_versions: Versions = 1,
    ) -> None:
        """
        @param configure: does more with the builder: handlers, capabilities, timeouts.
        @param files: let files be read and written, and begin with these; what is not among them can't be read.
            Version 2 has no files.
        @param permission: the option that is picked where no expectation says otherwise, by its id or its kind.
        @param protocol_versions: the version of the protocol that it speaks, or several; see
            L{AcpClientBuilder.protocol_versions<acp_twisted.client.client.AcpClientBuilder.protocol_versions>}.
        """
        super().__init__("the client", configure, protocol_versions)
        self.files = dict(files or {})
        self.updates: list[Any] = []
        self.permissions: list[Any] = []
        self.reads: list[v1.ReadTextFileRequest] = []
        self.writes: list[v1.WriteTextFileRequest] = []
        self._client: AcpClient | None = None
        words = self._words[0]
        self._handled(words.version, words.require("session/request_permission"))
        if files is not None:
            self.allow(v1.ReadTextFileRequest).answers(self._read)
            self.allow(v1.WriteTextFileRequest).answers(self._write)
        if permission is not None:
            self.allow_permission().selects(permission)

    def expect_permission(self, matching: Matching = None) -> PermissionExpectation:
        """
        Expect a permission request, behind those that are expected already.

        @param matching: the title of its tool call, which in version 2 is its own; an expression that is found in it,
            or a function of the request.
        """
        return self.script.add(self._permission(matching), allowed=False)

    def allow_permission(self, matching: Matching = None) -> PermissionExpectation:
        """
        Let a permission request come any number of times, or never.  What is expected is looked at first.
        """
        return self.script.add(self._permission(matching), allowed=True)

    def _permission(self, matching: Matching) -> PermissionExpectation:
        words, matches = by_text(matching, _title_of)
        return PermissionExpectation(self.script, f"a permission request{words}", matches)

    def expect_read(self, path: str, content: str) -> Expectation:
        """
        Version 1.  Expect a file to be read, which holds C{content}.
        """
        return self.expect(v1.ReadTextFileRequest, path=path).answers(v1.ReadTextFileResponse(content=content))

    def expect_write(self, path: str, content: str) -> Expectation:
        """
        Version 1.  Expect a file to be written, with exactly C{content}.
        """
        return self.expect(v1.WriteTextFileRequest, path=path, content=content).answers(v1.WriteTextFileResponse())

    @property
    def said(self) -> str:
        """
        The texts of all the agent's messages so far, put together.
        """
        return spoken(map(unstructure, self.updates))

    def when_updated(self, count: int = 1) -> Deferred[None]:
        """
        Fires when so many updates have come.
        """
        return self._when(self.updates, count)

    # ---- being a client

    @property
    def client(self) -> AcpClient:
        """
        The client itself, built when it is first asked for; of several versions, what C{protocol_versions} makes.
        """
        if self._client is None:
            builder: Any = self._of_versions(AcpClient.builder(unstable=self._unstable))
            self._install(builder)
            builder.session_update_handler(lambda update: self._note(self.updates, update))
            self._client = builder.build()
        return self._client

    @property
    def limits(self) -> Limits:
        """
        See L{IMessageReceiverFactory}.
        """
        return self.client.limits

    def build_receiver(self, clock: IReactorTime) -> IMessageReceiver:
        """
        See L{IMessageReceiverFactory}.
        """
        return self.connection(clock).peer

    def connection(self, clock: IReactorTime) -> ClientConnection:
        """
        The client's side of a new connection; see L{AcpClient.connection}.
        """
        link = self.client.connection(clock)
        self._links.append(link)
        return link

    def _playing(self, method: str) -> Callable[[Any, Any], Any]:
        play = super()._playing(method)
        noting: dict[str, list[Any]] = {
            "session/request_permission": self.permissions,
            "fs/read_text_file": self.reads,
            "fs/write_text_file": self.writes,
        }
        seen = noting.get(method)

        def noted(request: Any, subject: Any) -> Any:
            if seen is not None:
                self._note(seen, request)
            return play(request, subject)

        return noted

    def _read(self, request: v1.ReadTextFileRequest) -> v1.ReadTextFileResponse:
        if request.path not in self.files:
            raise ResourceNotFound(data={"path": request.path})
        lines = self.files[request.path].splitlines(keepends=True)
        first = max((request.line or 1) - 1, 0)
        last = None if request.limit is None else first + request.limit
        return v1.ReadTextFileResponse(content="".join(lines[first:last]))

    def _write(self, request: v1.WriteTextFileRequest) -> v1.WriteTextFileResponse:
        self.files[request.path] = request.content
        return v1.WriteTextFileResponse()


def _title_of(request: Any) -> str:
    asked = getattr(request, "tool_call", request)
    return asked.title or ""
