"""
The same as C{client_calls} for handlers that block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from acp_twisted.agent.client_calls import ClientCalls, UrlElicitation
from acp_twisted.schema import v1

_T = TypeVar("_T")


class SyncClientCalls:
    """
    The requests to the client, for a session, each of which waits for its answer; see
    L{ClientCalls<acp_twisted.agent.client_calls.ClientCalls>}.
    """

    _calls: ClientCalls

    def _wait(self, function: Callable[[], Deferred[_T]]) -> _T:
        raise NotImplementedError

    def call(self, request: object, **options: Any) -> Any:
        """
        Send any request of the protocol to the client, and wait for its response.
        """
        return self._wait(lambda: self._calls.call(request, **options))

    def request_permission(
        self, tool_call: v1.ToolCallUpdate, options: Sequence[v1.PermissionOption], **call_options: Any
    ) -> v1.RequestPermissionResponse:
        """
        Ask the user.
        """
        return self._wait(lambda: self._calls.request_permission(tool_call, options, **call_options))

    def read_text_file(
        self, path: str, line: int | None = None, limit: int | None = None, **call_options: Any
    ) -> v1.ReadTextFileResponse:
        """
        Read a file as the editor has it.
        """
        return self._wait(lambda: self._calls.read_text_file(path, line, limit, **call_options))

    def write_text_file(self, path: str, content: str, **call_options: Any) -> v1.WriteTextFileResponse:
        """
        Write a file through the editor.
        """
        return self._wait(lambda: self._calls.write_text_file(path, content, **call_options))

    def create_terminal(self, command: str, args: Sequence[str] = (), **options: Any) -> v1.CreateTerminalResponse:
        """
        Start a command in a terminal of the client's; the options are L{PromptContext.create_terminal}'s.
        """
        return self._wait(lambda: self._calls.create_terminal(command, args, **options))

    def terminal_output(self, terminal_id: str, **call_options: Any) -> v1.TerminalOutputResponse:
        """
        What the terminal shows so far.
        """
        return self._wait(lambda: self._calls.terminal_output(terminal_id, **call_options))

    def wait_for_terminal_exit(self, terminal_id: str, **call_options: Any) -> v1.WaitForTerminalExitResponse:
        """
        Wait until the command has ended.
        """
        return self._wait(lambda: self._calls.wait_for_terminal_exit(terminal_id, **call_options))

    def kill_terminal(self, terminal_id: str, **call_options: Any) -> v1.KillTerminalResponse:
        """
        End the command; the terminal stays.
        """
        return self._wait(lambda: self._calls.kill_terminal(terminal_id, **call_options))

    def release_terminal(self, terminal_id: str, **call_options: Any) -> v1.ReleaseTerminalResponse:
        """
        Give the terminal back.
        """
        return self._wait(lambda: self._calls.release_terminal(terminal_id, **call_options))

    def create_elicitation(
        self, request: v1.CreateElicitationRequest, **call_options: Any
    ) -> v1.CreateElicitationResponse:
        """
        Ask the user something.
        """
        return self._wait(lambda: self._calls.create_elicitation(request, **call_options))

    def elicit_form(
        self, message: str, schema: v1.ElicitationSchema, *, tool_call_id: str | None = None, **call_options: Any
    ) -> v1.CreateElicitationResponse:
        """
        Ask the user to fill in a form; see
        L{ClientCalls.elicit_form<acp_twisted.agent.client_calls.ClientCalls.elicit_form>}.
        """
        return self._wait(lambda: self._calls.elicit_form(message, schema, tool_call_id=tool_call_id, **call_options))

    def elicit_url(
        self, message: str, url: str, *, tool_call_id: str | None = None, **call_options: Any
    ) -> tuple[str, v1.CreateElicitationResponse]:
        """
        Send the user to a web page.

        @return: the elicitation's id, for L{complete_elicitation}, and what the user said.
        """
        asked: list[UrlElicitation] = []

        def ask() -> Deferred[v1.CreateElicitationResponse]:
            asked.append(self._calls.elicit_url(message, url, tool_call_id=tool_call_id, **call_options))
            return asked[0].response

        response = self._wait(ask)
        return asked[0].elicitation_id, response

    def complete_elicitation(self, elicitation_id: str) -> None:
        """
        Tell the client that the user is done at a web page.
        """
        self._wait(lambda: self._calls.complete_elicitation(elicitation_id))


class SyncSessionClient(SyncClientCalls):
    """
    A L{SessionClient<acp_twisted.agent.client_calls.SessionClient>} for a blocking handler.
    """

    def __init__(self, calls: ClientCalls, wait: Callable[[Callable[[], Deferred[Any]]], Any]) -> None:
        self._calls = calls
        self._waiter = wait

    def _wait(self, function: Callable[[], Deferred[_T]]) -> _T:
        result: _T = self._waiter(function)
        return result
