"""
The words behind a directive.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import NoReturn

from acp_twisted.errors import InvalidParams


def is_seconds(value: float) -> bool:
    """
    Whether a number can be a time to wait.
    """
    return isfinite(value) and value >= 0


class Arguments:
    """
    What is left of a directive's text, taken from the front.

    @ivar directive: its first word.
    """

    def __init__(self, directive: str, rest: str, usage: str) -> None:
        self.directive = directive
        self._rest = rest
        self._usage = usage

    def refuse(self) -> NoReturn:
        """
        The arguments are no good.

        @raise InvalidParams: always.
        """
        raise InvalidParams(f"usage: {self._usage}", {"directive": self.directive})

    @property
    def empty(self) -> bool:
        """
        Whether nothing but white space is left.
        """
        return not self._rest.strip()

    def word(self) -> str:
        """
        The next word.  One white space behind it goes with it.
        """
        words = self._rest.split(None, 1)
        if not words:
            self.refuse()
        self._rest = self._rest.lstrip()[len(words[0]) + 1 :]
        return words[0]

    def count(self) -> int:
        """
        A whole number that is not negative.
        """
        word = self.word()
        if not (word.isascii() and word.isdigit() and len(word) < 19):
            self.refuse()
        return int(word)

    def integer(self) -> int:
        """
        A whole number.
        """
        word = self.word()
        digits = word[1:] if word.startswith("-") else word
        if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
            self.refuse()
        return int(word)

    def seconds(self) -> float:
        """
        A time to wait.
        """
        try:
            value = float(self.word())
        except ValueError:
            self.refuse()
        if not is_seconds(value):
            self.refuse()
        return value

    def last_seconds(self) -> float:
        """
        A time to wait, which is the last word.
        """
        front, _, word = self._rest.rstrip().rpartition(" ")
        last = Arguments(self.directive, word, self._usage).seconds()
        self._rest = front
        return last

    def rest(self) -> str:
        """
        Everything that is left, as it is.
        """
        rest, self._rest = self._rest, ""
        return rest

    def phrase(self) -> str:
        """
        Everything that is left, without white space around it; not nothing.
        """
        phrase = self.rest().strip()
        if not phrase:
            self.refuse()
        return phrase

    def json(self) -> object:
        """
        Everything that is left, as JSON.
        """
        try:
            value: object = json.loads(self.phrase(), parse_constant=self._constant)
        except (ValueError, RecursionError):
            self.refuse()
        return value

    def _constant(self, name: str) -> NoReturn:
        raise ValueError(name)

    def end(self) -> None:
        """
        Nothing may be left.
        """
        if not self.empty:
            self.refuse()
