"""
What the agent offers to set in a session: its modes and its options.
"""

from __future__ import annotations

from collections.abc import Sequence

from acp_twisted.errors import AcpCapabilityError
from acp_twisted.schema import v1
from acp_twisted.schema.values import UnknownVariant


class Offers:
    """
    What an agent has said of one session.  Before it has answered the request that opened it, nothing is known, and
    anything may be tried.
    """

    def __init__(self) -> None:
        self._known = False
        self._modes: v1.SessionModeState | None = None
        self._options: Sequence[v1.SessionConfigOption] | None = None

    def opened(self, modes: v1.SessionModeState | None, options: Sequence[v1.SessionConfigOption] | None) -> None:
        """
        The session is open, with these.
        """
        self._known = True
        self._modes = modes
        self._options = options

    def options_are(self, options: Sequence[v1.SessionConfigOption]) -> None:
        """
        The agent has told all options anew (1.95).
        """
        self._options = options

    def check(self, request: object) -> None:
        """
        Hold a request to what the agent offers.

        @raise AcpCapabilityError: when there are no modes, or no options, in this session.
        @raise ValueError: when the mode, the option or its value is none of those that there are.
        """
        if not self._known:
            return
        if isinstance(request, v1.SetSessionModeRequest):
            self._check_mode(request.mode_id)
        elif isinstance(request, v1.SetSessionConfigOptionRequest):
            self._check_option(request.config_id, request.value)

    def _check_mode(self, mode_id: str) -> None:
        if self._modes is None:
            raise AcpCapabilityError("modes")
        if all(each.id != mode_id for each in self._modes.available_modes):
            raise ValueError("the session has no mode of this id (MODES-SET-MODE-ID-LISTED)")

    def _check_option(self, config_id: str, value: str | bool) -> None:
        if self._options is None:
            raise AcpCapabilityError("configOptions")
        option = next((each for each in self._options if getattr(each, "id", None) == config_id), None)
        if option is None and not any(isinstance(each, UnknownVariant) for each in self._options):
            raise ValueError("the session has no option of this id (CONFIG-SET-VALUE-VALID)")
        fits = True
        if isinstance(option, v1.SessionConfigSelect):
            fits = value in _values(option)
        elif isinstance(option, v1.SessionConfigBoolean):
            fits = isinstance(value, bool)
        if not fits:
            raise ValueError("the option has no such value (CONFIG-SET-VALUE-VALID)")


def _values(option: v1.SessionConfigSelect) -> set[str]:
    values: set[str] = set()
    for each in option.options:
        if isinstance(each, v1.SessionConfigSelectGroup):
            values |= {one.value for one in each.options}
        else:
            values.add(each.value)
    return values
