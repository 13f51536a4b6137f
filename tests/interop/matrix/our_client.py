"""
The client of the suite on our client half.

    our_client.py PLAN_FILE
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from twisted.internet import task
from twisted.internet.defer import Deferred, DeferredList, TimeoutError

from acp_twisted import (
    AcpClient,
    AcpError,
    AgentCommand,
    CancellationSignal,
    ClientConnection,
    ResourceNotFound,
)
from acp_twisted.client.files import LocalFiles
from acp_twisted.client.terminals import LocalTerminals
from acp_twisted.schema import v1
from acp_twisted.schema.converter import structure, unstructure
from acp_twisted.schema.vocabulary import V1

SECONDS = 180.0
SETTLE = 0.03


class Suite:
    """
    Follows the plan and prints what it sees.
    """

    def __init__(self, reactor: Any, plan: dict[str, Any]) -> None:
        self.reactor = reactor
        self.plan = plan
        self.step = "init.initialize"
        self.names: dict[str, str] = {}
        self.running: list[Deferred[Any]] = []
        self.to_cancel: list[Callable[[], object]] = []
        self.connection: ClientConnection | None = None

    def report(self, event: str, **members: object) -> None:
        sys.stdout.write(json.dumps({"step": self.step, "event": event, **members}) + "\n")
        sys.stdout.flush()

    # ---- what the agent asks

    def updated(self, notification: v1.SessionNotification) -> None:
        self.report("update", sessionId=notification.session_id, update=unstructure(notification)["update"])
        self.cancel_now()

    def cancel_now(self) -> None:
        waiting, self.to_cancel = self.to_cancel, []
        for each in waiting:
            self.reactor.callLater(0, each)

    def permission(self, request: v1.RequestPermissionRequest) -> object:
        self.report("permission", title=request.tool_call.title, meta=request.meta)
        self.cancel_now()
        if request.tool_call.title == "hold":
            return Deferred()
        chosen = next(each for each in request.options if each.kind.startswith("allow"))
        return v1.RequestPermissionResponse(outcome=v1.SelectedPermissionOutcome(option_id=chosen.option_id))

    def read(self, request: v1.ReadTextFileRequest) -> object:
        self.report("read", path=request.path)
        if request.path.endswith("/never"):
            return Deferred()  # the library cancels it, and answers -32800
        try:
            text = Path(request.path).read_text()
        except FileNotFoundError:
            raise ResourceNotFound(data={"uri": request.path}) from None
        lines = text.splitlines(keepends=True)
        first = (request.line or 1) - 1
        last = len(lines) if request.limit is None else first + request.limit
        return v1.ReadTextFileResponse(content="".join(lines[first:last]))

    def elicitation(self, request: v1.CreateElicitationRequest) -> object:
        mode = "form" if isinstance(request, v1.ElicitationFormMode) else "url"
        self.report("elicitation", mode=mode)
        return v1.CreateElicitationResponse(action="accept", content={"name": "matrix"} if mode == "form" else None)

    def build(self, files: LocalFiles, terminals: LocalTerminals) -> AcpClient:
        builder = AcpClient.builder().client_info("matrix-client", "1")
        return (
            terminals.serve(builder)
            .client_capabilities(structure(self.plan["capabilities"], v1.ClientCapabilities))
            .session_update_handler(self.updated)
            .request_permission_handler(self.permission)
            .read_text_file_handler(self.read)
            .write_text_file_handler(files.write)
            .create_elicitation_handler(self.elicitation)
            .complete_elicitation_handler(
                lambda done: self.report("elicitation_complete", elicitationId=done.elicitation_id)
            )
            .ext_request_handler("_matrix/echo", lambda params: params)
            .ext_notification_handler("_matrix/note", lambda params: self.report("ext_notification", params=params))
            .build()
        )

    # ---- the plan

    def filled(self, value: Any) -> Any:
        if isinstance(value, str):
            if value.startswith("$CWD/") or " $CWD/" in value:
                return value.replace("$CWD/", self.plan["cwd"] + "/")
            return self.names[value[1:]] if value.startswith("$") else value
        if isinstance(value, dict):
            return {name: self.filled(each) for name, each in value.items()}
        return [self.filled(each) for each in value] if isinstance(value, list) else value

    async def call(self, connection: ClientConnection, method: str, params: dict[str, Any]) -> Any:
        params = self.filled(params)
        known = V1.get(method, "request")
        if known is None:
            return await connection.ext_request(method, params)
        return unstructure(await connection.call(structure(params, known.params)))

    async def open(self, connection: ClientConnection, name: str, method: str, params: dict[str, Any]) -> Any:
        params = self.filled(params)
        opening: Any = {
            "session/new": lambda: connection.new_session(params["cwd"]),
            "session/load": lambda: connection.load_session(params["sessionId"], params["cwd"]),
            "session/resume": lambda: connection.resume_session(params["sessionId"], params["cwd"]),
        }[method]
        session = await opening()
        self.names[name] = session.session_id
        return unstructure(session.opened)

    async def prompt(self, connection: ClientConnection, name: str, text: str, options: dict[str, Any]) -> None:
        session = connection.session(self.names[name])
        content = self.filled(text) + "x" * options.get("pad", 0)
        request = v1.PromptRequest(
            session_id=self.names[name], prompt=[v1.TextContent(text=content)], meta=options.get("meta")
        )
        stop = CancellationSignal()
        if session is None or session.turn is not None or options.get("cancel") == "request":
            # The request itself: its own answer is to be seen, and a busy session's handle would not send it.
            turn: Any = connection.call(request, timeout=0, wait=True, wait_timeout=SECONDS)
            cancel: Callable[[], object] = turn.cancel
        else:
            turn = session.prompt(request.prompt, meta=options.get("meta"), stop=stop).response
            cancel = stop.cancel
        if "cancel" in options:
            self.to_cancel.append(cancel)
        running = self.answered(turn)
        if options.get("background"):
            self.running.append(running)
        else:
            await running

    def answered(self, result: Deferred[Any]) -> Deferred[None]:
        async def wait() -> None:
            try:
                answer = await result.addTimeout(SECONDS, self.reactor)
            except AcpError as error:
                self.report("error", code=error.code, message=str(error))
            except TimeoutError:
                self.report("timeout")
            except Exception as error:
                self.report("failed", error=repr(error))
            else:
                self.report("result", result=answer if _is_json(answer) else unstructure(answer))

        return Deferred.fromCoroutine(wait())

    async def do(self, connection: ClientConnection, op: Sequence[Any]) -> None:
        kind, *arguments = op
        if kind == "call":
            await self.answered(Deferred.fromCoroutine(self.call(connection, *arguments)))
        elif kind == "open":
            await self.answered(Deferred.fromCoroutine(self.open(connection, *arguments)))
        elif kind == "notify":
            await connection.ext_notification(arguments[0], self.filled(arguments[1]))
        elif kind == "prompt":
            await self.prompt(connection, *arguments)
        elif kind == "settle":
            running, self.running = self.running, []
            await DeferredList(running)
        elif kind == "close":
            gone = connection.when_closed()
            await connection.close()
            self.report("exited", code=(await gone).exit_code or 0)

    async def run(self) -> None:
        client = self.build(LocalFiles(self.plan["cwd"]), LocalTerminals(self.reactor, self.plan["cwd"]))
        where: Any = (
            AgentCommand(self.plan["agent"], cwd=self.plan["cwd"])
            if self.plan.get("agent")
            else "tcp:{}:{}".format(*self.plan["connect"].split(":"))
        )
        connection = await client.connect(self.reactor, where)
        hello = await connection.initialize()
        self.report("result", result=unstructure(hello))
        for step in self.plan["steps"]:
            self.step = step["id"]
            for op in step["ops"]:
                await self.do(connection, op)
                await task.deferLater(self.reactor, SETTLE)


def _is_json(answer: object) -> bool:
    return answer is None or isinstance(answer, (str, int, float, list, dict))


def main(reactor: Any) -> Deferred[None]:
    plan = json.loads(Path(sys.argv[1]).read_text())
    return Deferred.fromCoroutine(Suite(reactor, plan).run())


if __name__ == "__main__":
    task.react(main)
