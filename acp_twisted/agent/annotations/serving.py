"""
Which versions of the protocol a decorated method serves: those whose classes it names, and all of the agent's if it
names none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from acp_twisted.agent.annotations.arguments import Found
from acp_twisted.agent.annotations.model import HandlerMethod


def served(
    handlers: Sequence[HandlerMethod], look: Callable[[HandlerMethod], Found]
) -> tuple[dict[int, Found], list[str]]:
    """
    How a method is called in each version that it serves, and what stands against it.

    @param handlers: the method as it may serve each version.
    @param look: finds that for one of them.
    @return: the second is empty when nothing does.
    """
    found = {each.version: look(each) for each in handlers}
    serving = {version: each for version, each in found.items() if not each.foreign}
    if serving:  # what is wrong in one version is wrong in the other in other words
        return serving, next((each.faults for each in serving.values() if each.faults), [])
    if len(found) > 1:
        mixed = _foreign_everywhere(list(found.values())) or [
            f"{handlers[0]}: it names classes of one version here and of another one there; name those of both, as in "
            "v1.NewSessionRequest | v2.NewSessionRequest, or write a method for each version"
        ]
        return {}, mixed
    return {}, [text for each in found.values() for text in _told(each)]


def _told(found: Found) -> list[str]:
    return [f"{where}: {fault}" for where, fault in found.foreign] + found.faults


def _foreign_everywhere(found: Sequence[Found]) -> list[str]:
    """
    What is of no version at all, such as a member that no request has.
    """
    first, *others = ({where: fault for where, fault in each.foreign if not fault.by_class} for each in found)
    return [f"{where}: {fault}" for where, fault in first.items() if all(where in each for each in others)]
