"""`Layout.holds`: every element is some thread's, and its place among the accumulators is the reference's."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from test_emulated import layouts

from iree_reduce_plugin import compile
from iree_reduce_plugin.layout import Layout
from iree_reduce_plugin.loops import K
from iree_reduce_plugin.tuning import Tuning

CASES = [(case.values[0], case.values[1]) for case in layouts("gfx942", 64, 24, 9)]


@pytest.mark.parametrize(("problem", "tuning"), CASES, ids=range(len(CASES)))
def test_every_element_is_held(problem, tuning):
    """Once, but for rows that overlap their neighbours'."""
    layout = Layout.of(problem, Tuning.parse(tuning))
    names = [name for name, _ in layout.tiles]
    seen = np.zeros([tile.extent for _, tile in layout.tiles], int)
    for workgroup in itertools.product(*map(range, layout.workgroups)):
        for thread in range(layout.workgroup_size):
            held = layout.holds(workgroup, thread)
            columns = held[K][held[K] >= 0]
            seen[np.ix_(*(held[name] for name in names if name != K), columns)] += 1
    assert seen.min() >= 1
    if not any(tile.remainder for tile in layout.kept.values()):
        assert seen.max() == 1


@pytest.mark.parametrize(("problem", "tuning"), CASES[:8], ids=range(8))
def test_a_column_is_where_the_reference_has_it(problem, tuning):
    layout = Layout.of(problem, Tuning.parse(tuning))
    tile, rng = layout.columns, random.Random(0)
    counts, mapping = layout.subgroup_basis
    for thread in rng.sample(range(layout.workgroup_size), 20):
        columns = layout.holds((0,) * len(layout.kept), thread)[K]
        place = columns[0, 0] % tile.size if columns[0, 0] >= 0 else None
        own = np.unravel_index(thread // layout.subgroup_size, counts)[mapping[-1]]
        assert place is None or place // (tile.lanes * tile.elements) == own
        assert columns.shape == (layout.steps, tile.elements)


def test_of_a_plan():
    plan = compile("4x4096xf32", target="cpu")
    assert plan.layout == Layout.of(plan.problem, plan.tuning) and compile("4x1xf32", target="cpu").layout is None
    with pytest.raises(ValueError, match="along rows there are"):
        plan.layout.holds((4096,), 0)
    with pytest.raises(ValueError):
        plan.layout.holds((0,), plan.layout.workgroup_size)
