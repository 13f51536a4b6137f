"""
The steps, and the two ends that they need.

B{What a client does}: it starts the agent, or connects to it, and follows the plan, a JSON file::

    {"agent": ARGV | null, "connect": "127.0.0.1:PORT" | null, "cwd": DIR, "capabilities": {…},
     "steps": [{"id": ID, "ops": [OP, …]}, …]}

An OP is one of these; after each one the client waits for its answer, and a moment for what came with it::

    ["call", METHOD, PARAMS]              a request; its answer is printed
    ["open", NAME, METHOD, PARAMS]        the same, and NAME is the session that the answer or the params name
    ["notify", METHOD, PARAMS]            a notification
    ["prompt", NAME, TEXT, OPTIONS]       a prompt in that session
    ["settle"]                            wait for the prompts that were left running
    ["close"]                             close the agent's input, and wait for its end

A string C{"$NAME"} in PARAMS is the id of that session, and C{"$CWD/…"} a path below the folder.  OPTIONS of a prompt:
C{pad} appends so many characters, C{meta} is its C{_meta}, C{cancel} sends C{session} (C{session/cancel}) or
C{request} (C{$/cancel_request} for the prompt) once the first update or permission request is there,
C{background} does not wait for its answer.

It prints one JSON line for each event, with the C{step} that runs: C{result} (C{result}), C{error} (C{code}),
C{timeout} (an op took more than three minutes), C{failed} (its SDK refused, C{error}), C{update} (C{sessionId},
C{update}), C{permission} (C{title}, C{meta}), C{read} (C{path}), C{elicitation} (C{mode}), C{elicitation_complete}
(C{elicitationId}), C{ext_request} and C{ext_notification} (C{params}), C{exited} (C{code}), C{closed}.

It answers what the agent asks: a permission with the first option that allows, except one whose title is C{hold},
which it leaves alone; files and terminals for real, except that a file named C{never} is not read before the request is
cancelled, then with -32800; an elicitation with C{accept} (a form with C{name} C{matrix}); C{_matrix/echo} with its own
params, and anything else with -32601.

B{What an agent does}: the first word of a prompt says what; L{DIRECTIVES} has all of them.  Anything else is -32602.
It answers C{_matrix/echo} with its own params, and remembers the params of the last C{_matrix/note}.  The session
C{stored} is loaded with one update (C{earlier}), and resumed without any.  It lists it, closes and deletes sessions,
whatever their ids.  It has two modes, C{ask} and C{code}, and two options: C{model}, C{small} or C{large}, and, for
clients that can take it, the boolean C{brave}.  Its ways to authenticate are C{matrix-login} and, for clients that can
run it, C{matrix-terminal}.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from interop.matrix.view import Json, Op, Step, View, has, same, wants

DIRECTIVES = {
    "permission": "ask for a permission (its title is the second word); say the outcome as JSON",
    "fs-read": "read a file (path, line, limit); say its content, or `error CODE`",
    "fs-write": "write a file (path, content); say `written`",
    "fs-slow": "read the file, and cancel the request by itself 0.1 s later; say `error CODE`",
    "emit": "one update of a kind; `unknown` is a kind that nobody knows",
    "enum": "an update or content with values that nobody knows: `tool_call`, `plan`, `audience`",
    "stop": "answer with that stop reason",
    "slow": "say `tick` every 20 ms, 200 times; answer `cancelled` once the turn is cancelled",
    "hang": "say `hanging`, and never answer, cancelled or not",
    "term-run": "run `/bin/sh -c` with the rest; say {output, exitCode}",
    "term-kill": "run `sleep 60`, kill it, release it; say `killed`",
    "elicit-form": "ask for a name by a form; say the answer as JSON",
    "elicit-url": "show an address, then say that it is done by elicitation/complete; say the answer as JSON",
    "ext-request": "ask the client `_matrix/echo` {x: 1}; say the answer as JSON",
    "ext-notify": "tell the client `_matrix/note` {y: 2}",
    "ext-last": "say the params of the last `_matrix/note` as JSON",
    "meta": "say the prompt's _meta as JSON, and answer with the same _meta",
    "echo-caps": "say the client's capabilities as JSON",
    "len": "say how many characters the prompt has",
    "big": "say so many characters at once",
    "say": "say the rest",
}
"""
What the first word of a prompt asks of an agent.
"""

CAPABILITIES: Json = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "session": {"configOptions": {"boolean": {}}},
    "elicitation": {"form": {}, "url": {}},
}
"""
What the clients advertise.
"""

ENDED: Json = {"stopReason": "end_turn"}


def call(method: str, **params: Any) -> Op:
    return ["call", method, params]


def prompt(text: str, session: str = "main", **options: Any) -> Op:
    return ["prompt", session, text, options]


def says(text: str) -> Callable[[View], None]:
    """
    The turn ended by itself, and the agent said that.
    """

    def check(view: View) -> None:
        has(view.result, ENDED)
        same(view.said(), text)

    return check


def says_json(expected: Any) -> Callable[[View], None]:
    def check(view: View) -> None:
        has(view.result, ENDED)
        got = json.loads(view.said() or "null")
        if isinstance(expected, dict):
            has(got, expected)
        else:
            same(got, expected)

    return check


def answers(expected: Json) -> Callable[[View], None]:
    return lambda view: has(view.result, expected)


def stops(reason: str) -> Callable[[View], None]:
    return lambda view: same(view.result.get("stopReason"), reason)


def empty(view: View) -> None:
    """
    The answer has nothing in it; L{None} is as good.
    """
    same(view.result or {}, {})


def refused(view: View, code: int | None = None) -> None:
    """
    The last thing asked was answered with an error.
    """
    errors = view.of("error")
    wants(len(errors) == 1, "errors:", errors)
    if code is not None:
        same(errors[0]["code"], code)


def emitted(kind: str, /, **members: Any) -> Step:
    def check(view: View) -> None:
        has(view.result, ENDED)
        has(view.kind(kind), members)

    return Step(f"update.{kind}", [prompt(f"emit {kind}")], check)


def options_of(result: Json) -> dict[str, Json]:
    return {each["id"]: each for each in result.get("configOptions") or ()}


# ---- what the checks of more than one line are


def _auth_methods(view: View) -> None:
    methods = {each["id"]: each for each in view.result.get("authMethods", ())}
    wants("matrix-login" in methods, methods)


def _auth_terminal(view: View) -> None:
    methods = {each["id"]: each for each in view.result.get("authMethods", ())}
    wants("matrix-terminal" in methods, methods)
    same(methods["matrix-terminal"].get("type"), "terminal")


def _replayed(view: View) -> None:
    wants(view.results, "no answer")
    same(view.said("stored"), "earlier")


def _resumed(view: View) -> None:
    wants(view.results, "no answer")
    same(view.updates, [])


def _listed(view: View) -> None:
    wants("stored" in [each["sessionId"] for each in view.result["sessions"]], view.result)


def _closed(view: View) -> None:
    """
    The prompt that was running is over, and one that is sent afterwards is refused.
    """
    wants(not view.of("timeout"), "took too long")
    stop_reasons = [each["result"].get("stopReason") for each in view.of("result")]
    wants("cancelled" in stop_reasons or any(each["code"] == -32800 for each in view.of("error")), view.events)
    wants(view.events[-1]["event"] == "error", "a prompt in a closed session:", view.events[-1])


def _apart(view: View) -> None:
    results = view.results
    same([each.get("stopReason") for each in results if "stopReason" in each], ["end_turn"] * 2)
    spoken: dict[str, str] = {}
    for each in view.of("update"):
        text = each["update"].get("content", {}).get("text", "")
        spoken[each["sessionId"]] = spoken.get(each["sessionId"], "") + text
    same(sorted(spoken.values()), ["one", "two"])


def _survived(view: View) -> None:
    has(view.result, ENDED)


def _unknown_update(view: View) -> None:
    _survived(view)
    found = [each for each in view.updates if each.get("sessionUpdate") == "matrix_unknown"]
    wants(len(found) == 1 and found[0].get("payload") == {"kept": 1}, view.updates)


def _options_on_new(view: View) -> None:
    options = options_of(view.result)
    same(options["model"]["currentValue"], "small")


def _boolean_option(view: View) -> None:
    wants("brave" in options_of(view.result), view.result)


def _selected(view: View) -> None:
    options = options_of(view.result)
    same(options["model"]["currentValue"], "large")
    wants("brave" in options, "not the full list:", sorted(options))


def _braved(view: View) -> None:
    same(options_of(view.result)["brave"]["currentValue"], True)


def _permitted(view: View) -> None:
    same([each["title"] for each in view.of("permission")], ["change"])
    says_json({"outcome": "selected", "optionId": "allow"})(view)


def _permission_cancelled(view: View) -> None:
    same(view.result.get("stopReason"), "cancelled")
    same(len(view.of("permission")), 1)


def _permission_meta(view: View) -> None:
    has(view.of("permission")[0].get("meta"), {"matrix": True})


def _request_cancelled(view: View) -> None:
    wants(not view.of("timeout"), "took too long")
    errors = [each["code"] for each in view.of("error")]
    results = [each["result"].get("stopReason") for each in view.of("result")]
    wants(errors == [-32800] or results == ["cancelled"], errors, results)


def _graced(view: View) -> None:
    """
    A handler that does not end is answered for when the grace period is over; until then its session is busy.
    """
    same([each["code"] for each in view.of("error")], [-32600])
    same([each["result"].get("stopReason") for each in view.of("result")], ["cancelled"])


def _completed(view: View) -> None:
    has(view.result, ENDED)
    asked = [each["mode"] for each in view.of("elicitation")]
    same(asked, ["url"])
    done = [each["elicitationId"] for each in view.of("elicitation_complete")]
    same(len(done), 1)


def _noted(view: View) -> None:
    has(view.result, ENDED)
    same([each["params"] for each in view.of("ext_notification")], [{"y": 2}])


def _met(view: View) -> None:
    result = view.result
    has(result, ENDED)
    has(result.get("_meta"), {"matrix": {"n": 1}})
    has(json.loads(view.said()), {"matrix": {"n": 1}})


def _not_found(view: View) -> None:
    refused(view, -32601)
    has(view.of("result")[-1]["result"], ENDED)


def _odd_tool_call(view: View) -> None:
    _survived(view)
    has(view.kind("tool_call"), {"status": "matrix_odd", "kind": "matrix_odd"})


def _odd_plan(view: View) -> None:
    _survived(view)
    entries = view.kind("plan").get("entries") or [{}]
    has(entries[0], {"priority": "matrix_odd", "status": "matrix_odd"})


def _odd_audience(view: View) -> None:
    _survived(view)
    chunk = view.kind("agent_message_chunk")
    same((chunk["content"].get("annotations") or {}).get("audience"), ["matrix_odd", "user"])


def _one_line(view: View) -> None:
    same(view.said().strip(), "second line")


def _exited(view: View) -> None:
    same([each["code"] for each in view.of("exited")], [0])


def _said_length(length: int) -> Callable[[View], None]:
    def check(view: View) -> None:
        has(view.result, ENDED)
        same(len(view.said()), length)

    return check


MIB = 1024 * 1024

STEPS: Sequence[Step] = (
    Step("init.initialize", [], answers({"protocolVersion": 1})),
    Step(
        "init.agent-capabilities",
        [],
        answers(
            {
                "agentCapabilities": {
                    "loadSession": True,
                    "promptCapabilities": {"image": True, "embeddedContext": True},
                    "mcpCapabilities": {"http": True},
                    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
                }
            }
        ),
    ),
    Step("init.auth-methods", [], _auth_methods),
    Step("init.agent-info", [], answers({"agentInfo": {"name": "matrix", "version": "1"}})),
    Step("auth.logout-capability", [], answers({"agentCapabilities": {"auth": {"logout": {}}}})),
    Step("auth.terminal", [], _auth_terminal),
    Step("auth.authenticate", [call("authenticate", methodId="matrix-login")], empty),
    Step(
        "session.new",
        [["open", "main", "session/new", {"cwd": "$CWD/", "mcpServers": []}]],
        lambda view: wants(isinstance(view.result["sessionId"], str), view.result),
    ),
    Step(
        "config.on-new",
        [["open", "second", "session/new", {"cwd": "$CWD/", "mcpServers": []}]],
        _options_on_new,
    ),
    Step("init.client-capabilities", [prompt("echo-caps")], says_json({"fs": CAPABILITIES["fs"], "terminal": True})),
    Step(
        "init.config-boolean",
        [prompt("echo-caps")],
        says_json({"session": {"configOptions": {"boolean": {}}}}),
    ),
    Step(
        "session.load-replay",
        [["open", "stored", "session/load", {"sessionId": "stored", "cwd": "$CWD/", "mcpServers": []}]],
        _replayed,
    ),
    Step(
        "session.load",
        [prompt("say loaded", "stored")],
        says("loaded"),
    ),
    Step(
        "session.resume",
        [["open", "stored", "session/resume", {"sessionId": "stored", "cwd": "$CWD/", "mcpServers": []}]],
        _resumed,
    ),
    Step("session.list", [call("session/list")], _listed),
    Step(
        "session.multi",
        [prompt("say one", "main", background=True), prompt("say two", "second", background=True), ["settle"]],
        _apart,
    ),
    Step(
        "session.delete",
        [call("session/delete", sessionId="nobody-knows-this")],
        empty,
    ),
    emitted("agent_message_chunk", content={"type": "text", "text": "matrix"}),
    emitted("user_message_chunk", content={"type": "text", "text": "matrix"}),
    emitted("agent_thought_chunk", content={"type": "text", "text": "matrix"}),
    emitted("tool_call", toolCallId="t1", title="matrix", kind="search", status="in_progress"),
    emitted("tool_call_update", toolCallId="t1", status="completed"),
    emitted("plan", entries=[{"content": "matrix", "priority": "high", "status": "pending"}]),
    emitted("available_commands_update", availableCommands=[{"name": "matrix", "description": "A command"}]),
    emitted("current_mode_update", currentModeId="code"),
    emitted("config_option_update"),
    emitted("session_info_update", title="matrix"),
    emitted("usage_update", used=10, size=1000),
    Step("update.unknown", [prompt("emit unknown")], _unknown_update),
    Step("stop.max_tokens", [prompt("stop max_tokens")], stops("max_tokens")),
    Step("stop.refusal", [prompt("stop refusal")], stops("refusal")),
    Step("stop.max_turn_requests", [prompt("stop max_turn_requests")], stops("max_turn_requests")),
    Step(
        "mode.set",
        [call("session/set_mode", sessionId="$main", modeId="code")],
        empty,
    ),
    Step(
        "config.select",
        [call("session/set_config_option", sessionId="$main", configId="model", value="large")],
        _selected,
    ),
    Step(
        "config.boolean",
        [call("session/set_config_option", sessionId="$main", configId="brave", type="boolean", value=True)],
        _braved,
    ),
    Step("perm.selected", [prompt("permission change")], _permitted),
    Step("perm.cancelled", [prompt("permission hold", cancel="session")], _permission_cancelled),
    Step("fs.write", [prompt("fs-write $CWD/made.txt one two")], says("written")),
    Step("fs.read", [prompt("fs-read $CWD/made.txt")], says("one two")),
    Step("fs.read-range", [prompt("fs-read $CWD/notes.txt 2 1")], _one_line),
    Step("fs.read-missing", [prompt("fs-read $CWD/missing.txt")], says("error -32002")),
    Step("term.run", [prompt("term-run echo hello; exit 3")], says_json({"output": "hello\n", "exitCode": 3})),
    Step("term.kill", [prompt("term-kill")], says("killed")),
    Step("elicit.form", [prompt("elicit-form")], says_json({"action": "accept", "content": {"name": "matrix"}})),
    Step("elicit.complete", [prompt("elicit-url")], _completed),
    Step("cancel.prompt", [prompt("slow", cancel="session")], stops("cancelled")),
    Step("cancel-request.client", [prompt("slow", cancel="request")], _request_cancelled),
    Step("cancel-request.agent", [prompt("fs-slow $CWD/never")], says("error -32800")),
    Step(
        "cancel-request.unknown",
        [["notify", "$/cancel_request", {"requestId": 999_999}], prompt("say still here")],
        says("still here"),
    ),
    Step(
        "cancel.grace",
        [prompt("hang", cancel="session", background=True), prompt("say too early"), ["settle"]],
        _graced,
        only="twisted",
    ),
    Step("ext.agent-request", [call("_matrix/echo", a=[1, None])], lambda view: same(view.result, {"a": [1, None]})),
    Step("ext.agent-notification", [["notify", "_matrix/note", {"z": 3}], prompt("ext-last")], says_json({"z": 3})),
    Step("ext.client-request", [prompt("ext-request")], says_json({"x": 1})),
    Step("ext.client-notification", [prompt("ext-notify")], _noted),
    Step("meta.prompt", [prompt("meta", meta={"matrix": {"n": 1}})], _met),
    Step("meta.permission", [prompt("permission meta")], _permission_meta),
    Step("error.method-not-found", [call("matrix/nothing"), prompt("say still here")], _not_found),
    Step("error.unknown-directive", [prompt("matrix-nothing")], lambda view: refused(view, -32602)),
    Step("enum.tool_call", [prompt("enum tool_call")], _odd_tool_call),
    Step("enum.plan", [prompt("enum plan")], _odd_plan),
    Step("enum.stop", [prompt("stop matrix_odd")], stops("matrix_odd")),
    Step("enum.audience", [prompt("enum audience")], _odd_audience),
    Step("big.prompt-1m", [prompt("len ", pad=MIB)], says(str(MIB + 4))),
    Step("big.prompt-8m", [prompt("len ", pad=8 * MIB)], says(str(8 * MIB + 4))),
    Step("big.update-1m", [prompt(f"big {MIB}")], _said_length(MIB)),
    Step("big.update-8m", [prompt(f"big {8 * MIB}")], _said_length(8 * MIB)),
    Step(
        "session.close",
        [
            prompt("slow", "second", background=True),
            call("session/close", sessionId="$second"),
            ["settle"],
            prompt("say no", "second"),
        ],
        _closed,
    ),
    Step("auth.logout", [call("logout")], empty),
    Step("conn.close", [["close"]], _exited),
)
"""
All of them, in the order in which they are run.  Those of the beginning look at the answer to C{initialize}, which a
client sends by itself before the first one.
"""

PLAIN: Sequence[Step] = (
    Step(
        "plain.auth-terminal",
        [],
        lambda view: same([each["id"] for each in view.result.get("authMethods", ())], ["matrix-login"]),
    ),
    Step(
        "plain.config-boolean",
        [["open", "main", "session/new", {"cwd": "$CWD/", "mcpServers": []}]],
        lambda view: same(sorted(options_of(view.result)), ["model"]),
    ),
    Step("plain.close", [["close"]], _exited),
)
"""
What an agent keeps from a client that advertises nothing.
"""
