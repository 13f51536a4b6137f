"""
What the others are known to do otherwise: the steps that fail beside them, and why.

One that begins to pass fails the run, and its entry goes.  None is ours: a step that fails between our two halves is a
fault.
"""

from __future__ import annotations

from interop.matrix.cells import Cell

NO_CANCEL_REQUEST = "$/cancel_request is neither sent nor read: only the name of the method is there"
DROPS_UPDATE = "an update that it does not know is dropped before its user sees it"
DROPS_VALUES = "values that it does not know become the default, or go, and a plan entry with them goes whole"
CLOSED_STOP_REASON = "a stop reason that it does not know is an error"

OLD = "version 0.14, the newest that can be had, does not know it"
CLOSED = "version 0.14 refuses values and kinds that it does not know, and the message with them"

_JAVA = {
    "auth.logout-capability": OLD,
    "auth.terminal": OLD,
    "init.config-boolean": OLD,
    "config.on-new": OLD,
    "config.select": "the boolean option is not offered, for the client's word for it is not read",
    "config.boolean": OLD,
    "plain.config-boolean": OLD,
    "update.session_info_update": CLOSED,
    "update.unknown": CLOSED,
    "cancel-request.client": NO_CANCEL_REQUEST,
    "cancel-request.agent": NO_CANCEL_REQUEST,
    "ext.agent-request": OLD,
    "ext.agent-notification": OLD,
    "meta.permission": OLD,
    "enum.tool_call": CLOSED,
    "enum.plan": CLOSED,
    "enum.stop": CLOSED,
    "enum.audience": CLOSED,
}

CLIENTS: dict[str, dict[str, str]] = {
    "python": {
        "update.unknown": DROPS_UPDATE,
        "cancel-request.client": NO_CANCEL_REQUEST,
        "cancel-request.agent": NO_CANCEL_REQUEST,
        "enum.tool_call": DROPS_VALUES,
        "enum.plan": DROPS_VALUES,
        "enum.stop": CLOSED_STOP_REASON,
    },
    "typescript": {
        "update.unknown": DROPS_UPDATE,
        "enum.tool_call": DROPS_VALUES,
        "enum.plan": DROPS_VALUES,
        "enum.audience": DROPS_VALUES,
    },
    "rust": {
        "update.unknown": DROPS_UPDATE,
        "enum.tool_call": DROPS_VALUES,
        "enum.plan": DROPS_VALUES,
        "enum.stop": CLOSED_STOP_REASON,
        "enum.audience": DROPS_VALUES,
    },
    "java": {
        **_JAVA,
        "cancel-request.unknown": NO_CANCEL_REQUEST,
        "error.method-not-found": "it has no way to send a method by its name",
    },
}
"""
By client: step to the reason.
"""

AGENTS: dict[str, dict[str, str]] = {
    "python": {
        "session.delete": "session/delete has no route, and nobody can add one",
        "auth.logout": "logout has no route, and nobody can add one",
        "cancel-request.client": NO_CANCEL_REQUEST,
        "cancel-request.agent": NO_CANCEL_REQUEST,
        "enum.tool_call": DROPS_VALUES,
        "enum.plan": DROPS_VALUES,
        "enum.stop": CLOSED_STOP_REASON,
    },
    "rust": {
        "enum.tool_call": DROPS_VALUES,
        "enum.plan": DROPS_VALUES,
        "enum.stop": CLOSED_STOP_REASON,
        "enum.audience": DROPS_VALUES,
    },
    "java": {
        **_JAVA,
        "ext.client-request": OLD,
        "ext.client-notification": OLD,
        "auth.logout": "our client does not send what the agent does not advertise",
    },
}
"""
By agent: step to the reason.
"""


def known(cell: Cell) -> dict[str, str]:
    """
    The steps of a cell that are expected to fail, and why.
    """
    return {**CLIENTS.get(cell.client, {}), **AGENTS.get(cell.agent, {})}
