"""
The words of one version of the protocol: its number, its types, and its methods.  A connection speaks one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Final

from acp_twisted.schema import methods, v1
from acp_twisted.schema.methods import Kind, Method
from acp_twisted.schema.values import Model


class Vocabulary:
    """
    One version of the protocol.

    @ivar version: its number, as C{initialize} has it.
    @ivar types: the module of its classes, such as L{v1}.
    @ivar methods: all of its methods.
    """

    def __init__(self, version: int, types: ModuleType, table: Iterable[Method]) -> None:
        self.version = version
        self.types = types
        self.methods = tuple(table)
        self._by_name: dict[tuple[str, Kind | None], Method] = {}
        for each in self.methods:
            self._by_name[each.name, each.kind] = each
            self._by_name.setdefault((each.name, None), each)
        self._by_params_name = {each.params_name: each for each in self.methods}
        self._by_params: dict[type, Method | None] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.version}>"

    def get(self, name: str, kind: Kind | None = None) -> Method | None:
        """
        The method of that name, if the protocol has it.

        @param kind: for the two names that are both a request and a notification, C{mcp/message} and
            C{proxy/successor}; without it these are the request.
        """
        return self._by_name.get((name, kind))

    def require(self, name: str, kind: Kind | None = None) -> Method:
        """
        The method of that name.

        @raise KeyError: when the protocol does not have it.
        """
        return self._by_name[name, kind]

    def for_params(self, cls: type) -> Method | None:
        """
        The method whose params are of this class, or of one it inherits from.  The classes of another version are
        none of this one's.
        """
        try:
            return self._by_params[cls]
        except KeyError:
            found = self._by_params[cls] = self._find(cls)
            return found

    def _find(self, cls: type) -> Method | None:
        # What is unstable is in a module of its own, which is not loaded for this.
        ours = (self.types.__name__, f"{self.types.__name__}_unstable")
        for base in cls.__mro__:
            if issubclass(base, Model) and base.__name__ in self._by_params_name and base.__module__ in ours:
                return self._by_params_name[base.__name__]
        return None


V1: Final = Vocabulary(1, v1, methods.METHODS)

VERSIONS: Final = (1, 2)
"""All that there are."""

_MODULES: Final = {f"v{version}": version for version in VERSIONS}


@cache
def vocabulary(version: int) -> Vocabulary:
    """
    The words of a version, which are loaded when they are first asked for.

    @raise ValueError: for a version that there is none of.
    """
    if version == 1:
        return V1
    if version == 2:
        from acp_twisted.schema import methods_v2, v2  # noqa: PLC0415

        return Vocabulary(2, v2, methods_v2.METHODS)
    raise ValueError(f"there is no protocol version {version}")


def vocabulary_of(cls: type) -> Vocabulary | None:
    """
    The words that a class of the schema is one of; L{None} for any other class.
    """
    for base in cls.__mro__:
        package, _, name = base.__module__.rpartition(".")
        version = name.removesuffix("_unstable")
        if package == __package__ and version in _MODULES:
            return vocabulary(_MODULES[version])
    return None
