"""Sums in one binary tree: grouping and the place of the sum leave the bits alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stickbreak.inference import workers
from stickbreak.stats import SERIAL, Field, Summary, gather


def part(rng: np.random.Generator) -> Summary:
    """Counts whose sum depends on the order of additions, with a side."""
    layout = {"sizes": Field(("component",)), "pairs": Field(("component", "component"))}
    scale = 10.0 ** rng.integers(-8, 8)
    arrays = {"sizes": scale * rng.random(3), "pairs": scale * rng.random((3, 3))}
    side = Summary({"gain": Field(("pair",))}, {"gain": scale * rng.standard_normal(2)})
    numbers = (float(x) for x in scale * rng.standard_normal(3))
    return Summary(layout, arrays, *numbers, sides={"merge": side})


def parts(n: int) -> list[Summary]:
    return [part(np.random.default_rng([7, i])) for i in range(n)]


def same(one: Summary, two: Summary) -> bool:
    numbers = (one.local_bound, one.log_z, one.n_units) == (two.local_bound, two.log_z, two.n_units)
    arrays = all(np.array_equal(one[name], two[name]) for name in one)
    return numbers and arrays and all(same(one.sides[n], two.sides[n]) for n in one.sides)


def by_recursion(found: list[Summary]) -> Summary:
    """The tree as it is described: the left half is the largest power of two below all."""
    if len(found) == 1:
        return found[0]
    half = 1 << (len(found) - 1).bit_length() - 1
    return by_recursion(found[:half]) + by_recursion(found[half:])


@given(st.integers(1, 70), st.integers(0, 5))
@settings(deadline=None, max_examples=60)
def test_aligned_groups_are_subtrees(n: int, g: int) -> None:
    groups = [gather(parts(n)[lo : lo + (1 << g)]) for lo in range(0, n, 1 << g)]
    assert same(gather(groups), gather(parts(n)))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 13, 16, 31])
def test_the_tree_is_that_of_halves(n: int) -> None:
    assert same(gather(parts(n)), by_recursion(parts(n)))


def test_groups_that_are_not_aligned_may_differ() -> None:
    whole = gather(parts(12))
    found = [
        same(gather([gather(parts(12)[:k]), gather(parts(12)[k:])]), whole) for k in range(1, 12)
    ]
    assert found[8 - 1]
    assert not all(found)


def test_a_sum_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to add up"):
        gather([])


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_pools_add_in_the_same_tree(n_jobs: int) -> None:
    def job(i: int) -> tuple[Summary, None]:
        return part(np.random.default_rng([7, i])), None

    with workers(n_jobs) as pool:
        total, kept = pool.total(job, range(11))
    assert kept == []
    assert same(total, gather(parts(11)))
    assert same(total, SERIAL.total(job, range(11))[0])
