"""
The steps of the cross-SDK suite (java-sdk 8.2), between our two halves and between each of them and each other SDK.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.matrix.cells import CELLS, Cell, run
from interop.matrix.deviations import known
from interop.programs import Programs


@pytest.mark.parametrize("cell", CELLS, ids=str)
async def test_every_step(cell: Cell, programs: Programs, tmp_path: Path) -> None:
    """Each step passes, but for those that the other side is known to fail; one of those that passes is an error."""
    verdicts = await run(cell, programs, tmp_path)
    expected = known(cell)
    surprises = {step: fault for step, fault in verdicts.faults.items() if step not in expected}
    assert surprises == {}, verdicts.outcome.explain()
    assert sorted(set(expected) - set(verdicts.faults)) == [], "these pass now: take them out of the list"
