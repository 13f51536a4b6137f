"""
What an agent can ask of a client within one session: one method for each of the protocol's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from attrs import frozen
from twisted.internet.defer import Deferred

from acp_twisted.jsonrpc.calls import Call
from acp_twisted.schema import v1

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from acp_twisted.agent.connection import AgentConnection


class ClientCalls:
    """
    The requests to the client, for a session.  Each sends one message, and gives back what the client answers; the
    options of L{Connection.call<acp_twisted.connection.Connection.call>} are good for all of them.

    What the client did not advertise raises L{AcpCapabilityError<acp_twisted.errors.AcpCapabilityError>}.
    """

    connection: AgentConnection

    @property
    def session_id(self) -> str:
        """
        The session.
        """
        raise NotImplementedError

    def call(self, request: object, **options: Any) -> Call[Any]:
        """
        Send any request of the protocol to the client; see
        L{Connection.call<acp_twisted.connection.Connection.call>}.
        """
        raise NotImplementedError

    def request_permission(
        self, tool_call: v1.ToolCallUpdate, options: Sequence[v1.PermissionOption], **call_options: Any
    ) -> Call[v1.RequestPermissionResponse]:
        """
        Ask the user.
        """
        request = v1.RequestPermissionRequest(session_id=self.session_id, tool_call=tool_call, options=list(options))
        return self.call(request, **call_options)

    def read_text_file(
        self, path: str, line: int | None = None, limit: int | None = None, **call_options: Any
    ) -> Call[v1.ReadTextFileResponse]:
        """
        Read a file as the editor has it.

        @param path: absolute.
        @param line: the first line wanted, counted from 1.
        @param limit: how many lines at most.
        """
        request = v1.ReadTextFileRequest(session_id=self.session_id, path=path, line=line, limit=limit)
        return self.call(request, **call_options)

    def write_text_file(self, path: str, content: str, **call_options: Any) -> Call[v1.WriteTextFileResponse]:
        """
        Write a file through the editor.

        @param path: absolute.
        """
        return self.call(
            v1.WriteTextFileRequest(session_id=self.session_id, path=path, content=content), **call_options
        )

    def create_terminal(
        self,
        command: str,
        args: Sequence[str] = (),
        env: Sequence[v1.EnvVariable] = (),
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **call_options: Any,
    ) -> Call[v1.CreateTerminalResponse]:
        """
        Start a command in a terminal of the client's.

        @param cwd: absolute.
        """
        request = v1.CreateTerminalRequest(
            session_id=self.session_id,
            command=command,
            args=list(args),
            env=list(env),
            cwd=cwd,
            output_byte_limit=output_byte_limit,
        )
        return self.call(request, **call_options)

    def terminal_output(self, terminal_id: str, **call_options: Any) -> Call[v1.TerminalOutputResponse]:
        """
        What the terminal shows so far.
        """
        request = v1.TerminalOutputRequest(session_id=self.session_id, terminal_id=terminal_id)
        return self.call(request, **call_options)

    def wait_for_terminal_exit(self, terminal_id: str, **call_options: Any) -> Call[v1.WaitForTerminalExitResponse]:
        """
        Wait until the command has ended.  It may take its time: name a C{timeout} if the default is too short.
        """
        request = v1.WaitForTerminalExitRequest(session_id=self.session_id, terminal_id=terminal_id)
        return self.call(request, **call_options)

    def kill_terminal(self, terminal_id: str, **call_options: Any) -> Call[v1.KillTerminalResponse]:
        """
        End the command; the terminal stays.
        """
        return self.call(v1.KillTerminalRequest(session_id=self.session_id, terminal_id=terminal_id), **call_options)

    def release_terminal(self, terminal_id: str, **call_options: Any) -> Call[v1.ReleaseTerminalResponse]:
        """
        Give the terminal back; its command is ended if it still runs (1.143).
        """
        return self.call(v1.ReleaseTerminalRequest(session_id=self.session_id, terminal_id=terminal_id), **call_options)

    def create_elicitation(
        self, request: v1.CreateElicitationRequest, **call_options: Any
    ) -> Call[v1.CreateElicitationResponse]:
        """
        Ask the user something; L{elicit_form} and L{elicit_url} are what most code wants.
        """
        return self.call(request, **call_options)

    def elicit_form(
        self, message: str, schema: v1.ElicitationSchema, *, tool_call_id: str | None = None, **call_options: Any
    ) -> Call[v1.CreateElicitationResponse]:
        """
        Ask the user to fill in a form.  Never ask for secrets so (ELIC-FORM-NO-SECRETS).

        @param schema: its fields.
        @param tool_call_id: the tool call that needs to know.
        @return: what he did, and what the form holds.  The values are the user's: check them (ELIC-AGENT-REVALIDATE).
        """
        request = self.connection.schema.ElicitationFormMode(
            message=message, requested_schema=schema, session_id=self.session_id, tool_call_id=tool_call_id
        )
        return self.create_elicitation(request, **call_options)

    def elicit_url(
        self, message: str, url: str, *, tool_call_id: str | None = None, **call_options: Any
    ) -> UrlElicitation:
        """
        Send the user to a web page, for what is not for the client's eyes.

        @return: the elicitation, with an id of its own; await it for what the user said, and call its C{complete} when
            he is done there.
        """
        request = self.connection.schema.ElicitationUrlMode(
            message=message,
            url=url,
            elicitation_id=str(uuid4()),
            session_id=self.session_id,
            tool_call_id=tool_call_id,
        )
        response = self.create_elicitation(request, **call_options)
        return UrlElicitation(request.elicitation_id, response, self.complete_elicitation)

    def complete_elicitation(self, elicitation_id: str) -> Deferred[None]:
        """
        Tell the client that the user is done at a web page.

        @raise ValueError: when no elicitation of that id is open on this connection (ELIC-AGENT-COMPLETE-SAME-CLIENT).
        """
        complete = self.connection.schema.CompleteElicitationNotification(elicitation_id=elicitation_id)
        return self.connection.notify(complete)


@frozen(eq=False)
class UrlElicitation:
    """
    A user was sent to a web page.  Awaiting this is awaiting its C{response}.

    @ivar elicitation_id: its id, unique on the connection.
    @ivar response: what the user said to it: an C{action} of C{accept} only means that he goes there
        (ELIC-AGENT-NO-ASSUME-SUCCESS).
    """

    elicitation_id: str
    response: Call[v1.CreateElicitationResponse]
    _complete: Callable[[str], Deferred[None]]

    def complete(self) -> Deferred[None]:
        """
        Tell the client that the user is done there.

        @raise ValueError: when he never went there, or the client was told already.
        """
        return self._complete(self.elicitation_id)

    def __await__(self) -> Generator[Deferred[v1.CreateElicitationResponse], Any, v1.CreateElicitationResponse]:
        return self.response.__await__()


class SessionClient(ClientCalls):
    """
    The client as one session of the agent sees it.

    @ivar connection: the connection that the session lives on.
    """

    def __init__(
        self, connection: AgentConnection, session_id: str, call: Callable[..., Call[Any]] | None = None
    ) -> None:
        self.connection = connection
        self._session_id = session_id
        self._call = connection.call if call is None else call

    @property
    def session_id(self) -> str:
        """
        The session.
        """
        return self._session_id

    @property
    def capabilities(self) -> v1.ClientCapabilities:
        """
        What the client can do.
        """
        return self.connection.client_capabilities

    def call(self, request: object, **options: Any) -> Call[Any]:
        """
        Send any request of the protocol to the client; see
        L{Connection.call<acp_twisted.connection.Connection.call>}.
        """
        return self._call(request, **options)

    def send_update(self, update: v1.SessionUpdate) -> Deferred[None]:
        """
        Send C{session/update}, at any time, also when no turn is running.
        """
        return self.connection.send_update(self.session_id, update)
