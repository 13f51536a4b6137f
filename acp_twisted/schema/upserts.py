"""
How updates of version 2 change what is known: an update of something that has an id carries only what is different.

What is absent (C{UNSET}) stays, what is null (L{None}) is cleared, a value replaces the whole value before it, and
C{_meta} alone is merged, key by key.  C{CompactionUpdate}, C{SubagentUpdate} and C{SessionMessage} of version 1 work in
the same way.
"""

from __future__ import annotations

from typing import Any, TypeVar

from attrs import evolve

from acp_twisted.schema.values import UNSET, Model, Unset

_T = TypeVar("_T", bound=Model)


def merged_meta(known: dict[str, Any] | Unset | None, patch: dict[str, Any] | Unset | None) -> dict[str, Any] | None:
    """
    Stored C{_meta} with a patch applied: a key that is null is removed, any other replaces what was under it, and what
    is not named stays.  Nothing is merged deeper than that.

    @param patch: L{None} clears all of it, C{UNSET} nothing.
    """
    before = known if isinstance(known, dict) else None
    if isinstance(patch, Unset):
        return before
    if patch is None:
        return None
    after = {**(before or {}), **patch}
    return {key: value for key, value in after.items() if value is not None}


def upsert(known: _T | None, update: _T) -> _T:
    """
    What is known after an update.  Neither of the two is changed.

    @param known: what was known, an object of the update's own class; L{None} when its id is new.
    @return: an object of the same class in which C{UNSET} means that nothing was ever said of a member.
    @raise TypeError: when the two are of different classes.
    """
    if known is None:
        known = type(update)(**{name: getattr(update, name) for name in update.WIRE if name != "meta"})
    elif type(known) is not type(update):
        raise TypeError(f"a {type(update).__name__} is no update of a {type(known).__name__}")
    changes: dict[str, Any] = {}
    for name in update.WIRE:
        value = getattr(update, name)
        if name != "meta" and value is not UNSET:
            changes[name] = value
    if "meta" in update.WIRE:
        patch = getattr(update, "meta")  # noqa: B009  (not every class has it)
        if patch is not UNSET:
            changes["meta"] = merged_meta(getattr(known, "meta", None), patch)
    return evolve(known, **changes)
