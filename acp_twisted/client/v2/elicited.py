"""
What a client is asked to have filled in, or to send its user to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from acp_twisted.elicitations import Elicitations, answered_form
from acp_twisted.schema import v2


class Elicited:
    """
    The elicitations of one connection.

    @param most: how many that are not over are remembered.
    @param longest: the characters that an id may have.
    """

    def __init__(self, most: int, longest: int) -> None:
        self._open = Elicitations(most, longest)

    def handle(self, params: Any, go: Callable[[], object]) -> object:
        """
        The agent asks.  Where that sends the user to a web page, its id is known from now on; where it is a form, what
        he accepts must fit it.

        @param params: as JSON.
        @param go: calls the handler; it returns the answer as JSON, or a Deferred of it.
        """
        known = params if isinstance(params, dict) else {}
        if known.get("mode") == "form":
            return answered_form(go(), known, v2.ElicitationSchema)
        name = known.get("elicitationId")
        if known.get("mode") != "url" or not isinstance(name, str):
            return go()
        self._open.begin(name)

        def answered(result: Any) -> Any:
            self._open.answered(name, isinstance(result, dict) and result.get("action") == "accept")
            return result

        try:
            result = go()
        except BaseException:
            self._open.answered(name, False)
            raise
        return result.addBoth(answered) if isinstance(result, Deferred) else answered(result)

    def complete(self, params: Any) -> bool:
        """
        The agent says that one is over.

        @return: whether there was such a one (1.184).
        """
        name = params.get("elicitationId") if isinstance(params, dict) else None
        return isinstance(name, str) and self._open.complete(name)
