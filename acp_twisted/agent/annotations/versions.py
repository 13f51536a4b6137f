"""
Which version of the protocol a class belongs to.  It is told by the class's module, so that nothing of a version is
loaded that nobody has loaded.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, Final

from acp_twisted.agent.annotations.hints import alternatives
from acp_twisted.agent.connection import AgentConnection
from acp_twisted.agent.context import PromptContext
from acp_twisted.connection import Connection

_MODULES: Final = {
    "acp_twisted.schema.v1": 1,
    "acp_twisted.schema.v1_unstable": 1,
    "acp_twisted.schema.v2": 2,
    "acp_twisted.schema.v2_unstable": 2,
    "acp_twisted.agent.v2.connection": 2,
    "acp_twisted.agent.v2.context": 2,
}

_OF_ALL: Final = (AgentConnection, Connection, PromptContext)
"""What stands for the classes of every version."""

_GENERAL: Final = (Connection, PromptContext)


def version_of(kind: object) -> int | None:
    """
    The version that a class belongs to, or the nearest one that it inherits from; L{None} for what is of no version.
    """
    if not isinstance(kind, type):
        return None
    return next((_MODULES[base.__module__] for base in kind.__mro__ if base.__module__ in _MODULES), None)


def is_kind(kind: object, base: type) -> bool:
    """
    Whether C{kind} is C{base} or a class that inherits from it.
    """
    return isinstance(kind, type) and issubclass(kind, base)


def stands_for(general: object, kind: object) -> bool:
    """
    Whether one class means what another one is in its version: C{PromptContext} is good for that of version 2 too.
    """
    return general in _OF_ALL and any(is_kind(kind, each) and is_kind(general, each) for each in _GENERAL)


def narrowed(annotation: Any, version: int) -> Any:
    """
    What an annotation comes to in one version: a union without its members of other versions; and without those that
    stand for the classes of every version, where this one's own is among them.
    """
    members = alternatives(annotation)
    kept = [each for each in members if version_of(each) in (None, version)]
    own = [each for each in kept if version_of(each) == version]
    kept = [each for each in kept if not any(stands_for(each, one) for one in own)]
    return annotation if len(kept) in (0, len(members)) else reduce(or_, kept)
