"""
What a connection knows of its elicitations: those that send the user to a web page and are not over yet, and whether
what was filled in fits its form.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from acp_twisted.errors import InternalError, InvalidParams, InvalidResponse
from acp_twisted.schema.converter import structure
from acp_twisted.schema.values import Problem, SchemaError

_log = Logger()


class Elicitations:
    """
    Their ids.  One lasts from C{elicitation/create} on: to its answer, if the user does not go there, and otherwise to
    C{elicitation/complete}, which need not come (ELIC-AGENT-COMPLETE-MAY).  So only so many are remembered, and more
    push out the oldest.

    @param most: how many.
    @param longest: the characters that one may have; it is kept as long as the connection lasts.
    """

    def __init__(self, most: int, longest: int) -> None:
        self._most = most
        self._longest = longest
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, elicitation_id: object) -> bool:
        return elicitation_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def begin(self, elicitation_id: str) -> None:
        """
        It is asked for.

        @raise InvalidParams: when its id is too long.
        """
        if len(elicitation_id) > self._longest:
            raise InvalidParams("Elicitation id too long", {"maxIdLength": self._longest})
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


def answered_form(result: Any, params: dict[str, Any], kind: Any) -> Any:
    """
    The answer of a client's handler to a form, which is not sent when it is none that the form allows
    (ELIC-ACCEPT-CONTENT-SCHEMA).

    @param result: the answer as JSON, or a Deferred of it.
    @param params: those of the request, as JSON.
    @param kind: the class of forms.
    @raise InternalError: then; its data says where and why, never what was filled in.
    """
    if isinstance(result, Deferred):
        return result.addCallback(answered_form, params, kind)
    if not isinstance(result, dict) or result.get("action") != "accept" or params.get("mode") != "form":
        return result
    # Most conversations have no forms.
    from acp_twisted.schema.forms import problems_of  # noqa: PLC0415

    try:
        form = structure(params.get("requestedSchema"), kind)
    except SchemaError:
        return result  # who takes a request as it came is given forms that are none
    wrong = _described(problems_of(form, result.get("content")))
    if wrong:
        _log.error("the elicitation handler's answer does not fit the form: {problems}", problems=wrong)
        raise InternalError("The answer does not fit the form", wrong)
    return result


def filled_in(response: Any, form: Any) -> Any:
    """
    What the client says that the user has filled in, which an agent looks at again (ELIC-AGENT-REVALIDATE).

    @raise InvalidResponse: when he accepted the form with what it does not allow.
    """
    if response.action == "accept":
        from acp_twisted.schema.forms import problems_of  # noqa: PLC0415

        wrong = _described(problems_of(form, response.content, patterns=True))
        if wrong:
            raise InvalidResponse("the answer to elicitation/create does not fit its form", wrong)
    return response


def _described(problems: Sequence[Problem]) -> list[dict[str, str]]:
    return [{"path": path, "reason": reason} for path, reason in problems]
