"""Summaries add, subtract and scale; a Tally does the same in place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from registers import LAYOUT, assert_same, birth_side, make_summary, merge_side, with_sides

from stickbreak.stats import Field, Summary, Tally

LAW = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
ADDITIVE = [name for name, field in LAYOUT.items() if field.additive]
# Counts are multiples of 1/4 (see `quarters`): comparisons are exact unless they say otherwise.


def full_summary(seed: int) -> Summary:
    """A Summary with sides; anchors are the same for all seeds."""
    a = make_summary(seed)
    return with_sides(a, merge=merge_side(seed, 2), birth=birth_side(seed, a, 1, 2))


@given(s=seeds, t=seeds)
@LAW
def test_subtraction_undoes_addition(s: int, t: int) -> None:
    a, b = make_summary(s), make_summary(t)
    assert_same((a + b) - b, a)
    c = with_sides(b, merge=merge_side(t, 2))
    assert_same((a + c) - c, a)


@given(s=seeds, t=seeds, u=seeds)
@LAW
def test_addition_commutes_and_associates(s: int, t: int, u: int) -> None:
    a, b, c = (full_summary(seed) for seed in (s, t, u))
    assert_same(a + b, b + a)
    assert_same((a + b) + c, a + (b + c))
    for name in ADDITIVE:
        np.testing.assert_array_equal((a + b)[name], a[name] + b[name])


@given(s=seeds)
@LAW
def test_empty_is_neutral(s: int) -> None:
    a = full_summary(s)
    assert_same(a + a.empty(), a)
    assert_same(a - a.empty(), a)
    assert not a.empty().sides
    np.testing.assert_array_equal(a.empty()["anchor"], a["anchor"])


@given(
    s=seeds, t=seeds, factor=st.sampled_from([0.0, 0.5, 2.0, 8.0]), own=st.sampled_from([0.25, 4.0])
)
@LAW
def test_scale_distributes_and_a_field_may_take_its_own_factor(
    s: int, t: int, factor: float, own: float
) -> None:
    a, b = full_summary(s), full_summary(t)
    assert_same((a + b).scale(factor), a.scale(factor) + b.scale(factor))
    scaled = a.scale(factor, {"transition": own})
    for name in ADDITIVE:
        np.testing.assert_array_equal(
            scaled[name], a[name] * (own if name == "transition" else factor)
        )
    assert (scaled.local_bound, scaled.log_z) == (factor * a.local_bound, factor * a.log_z)
    assert scaled.n_units == factor * a.n_units
    assert scaled.sides["merge"].arrays["gain"] == pytest.approx(
        factor * a.sides["merge"]["gain"], abs=0
    )


@given(s=seeds, t=seeds, factor=st.floats(0.1, 3.0))
@LAW
def test_values_that_describe_the_others_survive(s: int, t: int, factor: float) -> None:
    a, b = make_summary(s, anchor=np.full((4, 2), 9.0)), make_summary(t)
    for result in (a + b, a - b, a.scale(factor), a.empty()):
        np.testing.assert_array_equal(result["anchor"], 9.0)


@given(s=seeds, t=seeds)
@LAW
def test_only_entries_declared_nonnegative_are_clamped(s: int, t: int) -> None:
    a, b = make_summary(s), make_summary(t)
    difference = a - b
    for name in ADDITIVE:
        exact = a[name] - b[name]
        np.testing.assert_array_equal(
            difference[name], np.maximum(exact, 0.0) if LAYOUT[name].nonnegative else exact
        )
    assert difference.n_units == a.n_units - b.n_units


@given(s=seeds, t=seeds)
@LAW
def test_arithmetic_makes_values_of_its_own(s: int, t: int) -> None:
    a, b = full_summary(s), full_summary(t)
    for result in (a + b, a - b):
        for name in ADDITIVE:
            assert not np.shares_memory(result[name], a[name])
            assert not np.shares_memory(result[name], b[name])
    assert_same(a, full_summary(s))
    assert_same(b, full_summary(t))


# ---- compact summaries ---------------------------------------------------------------------------
@given(s=seeds, t=seeds, symbols=st.lists(st.integers(0, 6), min_size=1, max_size=7, unique=True))
@LAW
def test_compact_summaries_add_like_whole_ones(s: int, t: int, symbols: list[int]) -> None:
    total, part = make_summary(s, n_symbols=7), make_summary(t, n_symbols=7)
    index = np.array(sorted(symbols))
    inside = np.isin(np.arange(7), index)[:, None]
    whole = replace(part, arrays={**part.arrays, "emission": part["emission"] * inside})
    small = whole.restrict(index)
    assert small["emission"].shape == (len(index), 4)
    assert_same(total + small, total + whole)
    assert_same(total - small, total - whole)
    assert (total + small).index is None
    assert_same(small + small, replace(whole.scale(2.0), index=None).restrict(index))
    assert_same(whole.restrict(None), whole)


def test_compact_difference_is_clamped_too() -> None:
    layout = {
        "emission": Field(("symbol", "state")),
        "signed": Field(("symbol",), nonnegative=False),
    }
    total = Summary(layout, {"emission": np.ones((3, 2)), "signed": np.ones(3)})
    part = Summary(
        layout, {"emission": np.full((1, 2), 4.0), "signed": np.array([4.0])}, index=np.array([1])
    )
    np.testing.assert_array_equal((total - part)["emission"], [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_array_equal((total - part)["signed"], [1.0, -3.0, 1.0])


def test_compact_sides_of_two_batches_add_like_whole_ones() -> None:
    total, layout = make_summary(1), {"emission": Field(("symbol", "slot"))}
    batches = []
    for symbols in ([0, 3], [1, 4]):
        side = Summary(layout, {"emission": np.ones((2, 2))}, index=np.array(symbols))
        batches.append(with_sides(make_summary(2).restrict(np.array(symbols)), birth=side))
    side = (total + batches[0] + batches[1]).sides["birth"]
    np.testing.assert_array_equal(
        side["emission"], [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]
    )


# ---- sides ---------------------------------------------------------------------------------------
@given(s=seeds, t=seeds)
@LAW
def test_sides_add_subtract_and_are_forgotten(s: int, t: int) -> None:
    a, b = full_summary(s), full_summary(t)
    for name in ("merge", "birth"):
        assert_same((a + b).sides[name], a.sides[name] + b.sides[name])
        assert_same((a - b).sides[name], a.sides[name] - b.sides[name])
    only = with_sides(a, merge=a.sides["merge"])
    assert_same((only + b).sides["birth"], b.sides["birth"])  # a missing side is zero
    assert not a.forget().sides
    assert_same(a.forget(), make_summary(s))


@given(s=seeds, t=seeds, target=st.integers(0, 3))
@LAW
def test_sides_are_added_at_their_slots(s: int, t: int, target: int) -> None:
    a = make_summary(s)
    side = birth_side(t, a, target, 2)
    slots, other = [target, (target + 1) % 4, (target + 2) % 4], (target + 3) % 4
    added = with_sides(a, birth=side).add_side("state", slots, "birth")
    at = np.ix_(slots, slots)
    np.testing.assert_array_equal(added["transition"][at], a["transition"][at] + side["transition"])
    np.testing.assert_array_equal(added["transition"][other], a["transition"][other])
    np.testing.assert_array_equal(
        added["emission"][:, slots], a["emission"][:, slots] + side["emission"]
    )
    np.testing.assert_array_equal(added["moments"][slots], a["moments"][slots] + side["moments"])
    np.testing.assert_array_equal(added["anchor"], a["anchor"])
    assert added["share"][target] == 0.0
    assert added.local_bound == a.local_bound + side.local_bound
    assert_same(a.add_side("state", slots, "birth"), a)


def test_a_side_that_takes_more_than_there_is_leaves_zero() -> None:
    a = make_summary(4)
    side = birth_side(5, a, 0, 1)
    side.arrays["share"][0] -= 1e-9
    added = with_sides(a, birth=side).add_side("state", [0, 1], "birth")
    assert added["share"][0] == 0.0


# ---- running totals ------------------------------------------------------------------------------
@given(parts=st.lists(seeds, min_size=1, max_size=5), start=seeds)
@LAW
def test_tally_equals_the_algebra_of_values(parts: list[int], start: int) -> None:
    tally, value = Tally(full_summary(start)), full_summary(start)
    for number, seed in enumerate(parts):
        other = full_summary(seed)
        tally = tally.subtract(other) if number % 3 == 2 else tally.add(other)
        value = value - other if number % 3 == 2 else value + other
        assert_same(tally.view(), value)
    assert_same(tally.summary(), value)


@given(s=seeds, t=seeds)
@LAW
def test_tally_adds_in_place_and_leaves_its_start_alone(s: int, t: int) -> None:
    start = full_summary(s)
    tally = Tally(start)
    arrays = {name: tally.view()[name] for name in ADDITIVE}
    snapshot = tally.snapshot()
    tally.add(full_summary(t))
    assert all(tally.view()[name] is array for name, array in arrays.items())
    assert_same(start, full_summary(s))
    assert_same(snapshot, start)
    later = tally.snapshot()
    tally.subtract(full_summary(s))
    assert_same(later, full_summary(s) + full_summary(t))


def test_a_tally_may_take_the_arrays_of_its_start() -> None:
    start, other = full_summary(3), full_summary(4)
    total = Tally.taking(start).add(other).summary()
    assert all(total[name] is start[name] for name in ADDITIVE)
    assert_same(total, full_summary(3) + full_summary(4))


def test_repeated_addition_and_subtraction_drifts_by_rounding_only() -> None:
    rng = np.random.default_rng(6)
    layout = {"share": Field(("state",))}
    parts = [Summary(layout, {"share": rng.gamma(1.0, 10.0, 5)}) for _ in range(20)]
    tally = Tally(parts[0])
    for _ in range(50):
        for part in parts[1:]:
            tally.add(part)
        for part in parts[1:]:
            tally.subtract(part)
    # 2000 operations on numbers up to 500: 2000 * 500 * 1e-16.
    np.testing.assert_allclose(tally.summary()["share"], parts[0]["share"], rtol=0, atol=1e-9)
