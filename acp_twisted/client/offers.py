"""
What the agent offers to set in a session: its modes and its options.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from acp_twisted.errors import AcpCapabilityError
from acp_twisted.schema import v1

_MOST: Final = 10_000
"""So many values are remembered; of an agent that offers more, everything is allowed."""


class Offers:
    """
    What an agent has said of one session.  Before it has answered the request that opened it, nothing is known, and
    anything may be tried.  What was offered once may be tried later too: an agent may tell of some options alone,
    though it should tell all (1.95).
    """

    def __init__(self) -> None:
        self._known = False
        self._modes: set[str] | None = None
        self._values: dict[str, set[str | bool]] | None = None
        self._free: set[str] = set()
        self._count = 0

    def opened(self, modes: v1.SessionModeState | None, options: Sequence[v1.SessionConfigOption] | None) -> None:
        """
        The session is open, with these.
        """
        self._known = True
        if modes is not None:
            self._modes = {each.id for each in modes.available_modes}
        if options is not None:
            self.options_are(options)

    def options_are(self, options: Sequence[v1.SessionConfigOption]) -> None:
        """
        The agent has told its options.
        """
        values = self._values = {} if self._values is None else self._values
        for option in options:
            if isinstance(option, v1.SessionConfigSelect):
                offered: set[str | bool] = set(_values(option))
            elif isinstance(option, v1.SessionConfigBoolean):
                offered = {True, False}
            else:
                self._any(option.raw.get("id"))
                continue
            known = values.setdefault(option.id, set())
            self._count += 1 + len(offered - known)
            known |= offered
        if self._count > _MOST:
            self._known = False
            values.clear()

    def _any(self, config_id: object) -> None:
        # Nobody here knows what values such an option has.
        if isinstance(config_id, str):
            self._free.add(config_id)
            self._count += 1

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
        if mode_id not in self._modes:
            raise ValueError("the session has no mode of this id (MODES-SET-MODE-ID-LISTED)")

    def _check_option(self, config_id: str, value: str | bool) -> None:
        if self._values is None:
            raise AcpCapabilityError("configOptions")
        if config_id in self._free:
            return
        if config_id not in self._values:
            raise ValueError("the session has no option of this id (CONFIG-SET-VALUE-VALID)")
        if value not in self._values[config_id]:
            raise ValueError("the option has no such value (CONFIG-SET-VALUE-VALID)")


def _values(option: v1.SessionConfigSelect) -> Iterator[str]:
    for each in option.options:
        if isinstance(each, v1.SessionConfigSelectGroup):
            yield from (one.value for one in each.options)
        else:
            yield each.value
