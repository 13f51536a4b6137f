"""
The elicitations of one connection that send the user to a web page, and that are not over yet.
"""

from __future__ import annotations

from collections import OrderedDict


class Elicitations:
    """
    Their ids.  One lasts from C{elicitation/create} on: to its answer, if the user does not go there, and otherwise to
    C{elicitation/complete}, which need not come (ELIC-AGENT-COMPLETE-MAY).  So only so many are remembered, and more
    push out the oldest.

    @param most: how many.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, elicitation_id: object) -> bool:
        return elicitation_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def begin(self, elicitation_id: str) -> None:
        """
        It is asked for.
        """
        self._ids[elicitation_id] = None
        if len(self._ids) > self._most:
            self._ids.popitem(last=False)

    def answered(self, elicitation_id: str, accepted: bool) -> None:
        """
        The user has gone there, or not.
        """
        if not accepted:
            self._ids.pop(elicitation_id, None)

    def complete(self, elicitation_id: str) -> bool:
        """
        It is over.

        @return: whether there was one of that id.
        """
        if elicitation_id not in self._ids:
            return False
        del self._ids[elicitation_id]
        return True
