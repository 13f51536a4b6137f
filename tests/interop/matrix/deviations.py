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
}
"""
By agent: step to the reason.
"""


def known(cell: Cell) -> dict[str, str]:
    """
    The steps of a cell that are expected to fail, and why.
    """
    return {**CLIENTS.get(cell.client, {}), **AGENTS.get(cell.agent, {})}
