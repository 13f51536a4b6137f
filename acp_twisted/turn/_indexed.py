"""
State machines that find their transitions at once.
"""

from __future__ import annotations

from typing import TypeVar

from automat import TypeMachine

_Inputs = TypeVar("_Inputs")
_Core = TypeVar("_Core")


def indexed(machine: TypeMachine[_Inputs, _Core]) -> TypeMachine[_Inputs, _Core]:
    """
    The machine with its transitions in a dictionary.

    Automat looks a transition up by going through all of them, which here takes longer than everything else that a
    turn does.  The name of the automaton within the machine is Automat's own affair: should it change, this does
    nothing, and a test says so.
    """
    automaton = getattr(machine, "__automat_automaton__", None)
    if automaton is not None:
        found = {(state.name, event): (after, outputs) for state, event, after, outputs in automaton.allTransitions()}
        automaton.outputForInput = lambda state, event: found[state.name, event]
    return machine
