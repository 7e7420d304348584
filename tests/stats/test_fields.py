"""Edits of one axis act on every dimension that carries it, in every field."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from registers import LAYOUT, assert_same, make_summary, merge_side, with_sides

from stickbreak.stats import Field, Fields, Insert, LinearFiller, Merge, join

LAW = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
# Counts are multiples of 1/4 (see `quarters`): every comparison in this file is exact.


@st.composite
def summaries(draw: st.DrawFn, least: int = 2) -> object:
    return make_summary(
        draw(seeds), n_states=draw(st.integers(least, 6)), n_symbols=draw(st.integers(1, 5))
    )


def fold(size: int, keep: int, drop: int) -> np.ndarray:
    """(K, K - 1) matrix that sends slot `drop` to slot `keep`."""
    matrix = np.eye(size)
    matrix[drop, keep] = 1.0
    return np.delete(matrix, drop, axis=1)


@given(a=summaries(), data=st.data())
@LAW
def test_merge_folds_every_dimension(a: Fields, data: st.DataObject) -> None:
    K = a.size("state")
    drop = data.draw(st.integers(1, K - 1))
    keep = data.draw(st.integers(0, drop - 1))
    merged, P = a.merge("state", keep, drop), fold(K, keep, drop)
    np.testing.assert_array_equal(merged["share"], a["share"] @ P)
    np.testing.assert_array_equal(merged["transition"], P.T @ a["transition"] @ P)
    np.testing.assert_array_equal(merged["emission"], a["emission"] @ P)
    np.testing.assert_array_equal(merged["moments"], P.T @ a["moments"])
    for name in ("anchor", "entropy"):  # kept, and tracked without a watch: the kept slot's value
        np.testing.assert_array_equal(merged[name], np.delete(a[name], drop, axis=0))
    np.testing.assert_array_equal(merged["log_rest"], a["log_rest"])
    for name in ("share", "transition", "emission", "moments"):
        assert merged[name].sum() == a[name].sum()
    assert (merged.local_bound, merged.n_units) == (a.local_bound, a.n_units)


@given(a=summaries(), data=st.data())
@LAW
def test_remove_deletes_every_dimension(a: Fields, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, a.size("state") - 1))
    removed = a.remove("state", at)
    assert removed.size("state") == a.size("state") - 1
    np.testing.assert_array_equal(
        removed["transition"], np.delete(np.delete(a["transition"], at, 0), at, 1)
    )
    np.testing.assert_array_equal(removed["emission"], np.delete(a["emission"], at, 1))
    for name in ("share", "moments", "anchor", "entropy"):
        np.testing.assert_array_equal(removed[name], np.delete(a[name], at, 0))


@given(a=summaries(), count=st.integers(0, 3))
@LAW
def test_insert_pads_every_dimension_and_remove_takes_it_back(a: Fields, count: int) -> None:
    K = a.size("state")
    grown = a.insert("state", count)
    np.testing.assert_array_equal(grown["transition"], np.pad(a["transition"], (0, count)))
    np.testing.assert_array_equal(grown["emission"], np.pad(a["emission"], ((0, 0), (0, count))))
    back = grown
    for _ in range(count):
        back = back.remove("state", K)
    assert_same(back, a)


@given(a=summaries(), seed=seeds)
@LAW
def test_permute_orders_every_dimension_and_its_inverse_takes_it_back(a: Fields, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(a.size("state"))
    moved = a.permute("state", order)
    np.testing.assert_array_equal(moved["transition"], a["transition"][np.ix_(order, order)])
    np.testing.assert_array_equal(moved["emission"], a["emission"][:, order])
    np.testing.assert_array_equal(moved["anchor"], a["anchor"][order])
    assert_same(moved.permute("state", np.argsort(order)), a)


@given(seed=seeds)
@LAW
def test_edits_leave_their_argument_alone(seed: int) -> None:
    a, before = make_summary(seed), make_summary(seed)
    for edited in (
        a.merge("state", 0, 2),
        a.remove("state", 1),
        a.insert("state", 2),
        a.permute("state", [1, 0, 3, 2]),
    ):
        for name in a:
            assert np.shares_memory(edited[name], a[name]) == ("state" not in LAYOUT[name].axes)
    assert_same(a, before)


def test_other_axes_are_edited_by_their_own_name() -> None:
    a = make_summary(1)
    grown = a.insert("symbol", 2).remove("symbol", 0)
    assert grown["emission"].shape == (6, 4)
    np.testing.assert_array_equal(grown["emission"][:4], a["emission"][1:])
    np.testing.assert_array_equal(grown["transition"], a["transition"])


def test_size_of_an_unknown_axis_is_an_error_that_names_it() -> None:
    with pytest.raises(KeyError, match="topic"):
        make_summary(1).size("topic")


def test_legal_sets_merge_to_their_union_and_new_slots_take_the_declared_value() -> None:
    layout = {"legal": Field((None, "state"), merge="max"), "step": Field(("state",), insert=1.5)}
    fields = Fields(
        layout, {"legal": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), "step": np.arange(3.0)}
    )
    np.testing.assert_array_equal(fields.merge("state", 0, 2)["legal"], [[1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(fields.insert("state", 2)["step"], [0.0, 1.0, 2.0, 1.5, 1.5])


def test_plain_fields_have_no_sides() -> None:
    fields = Fields({"legal": Field((None, "state"))}, {"legal": np.ones((2, 3))})
    assert fields.add_side("state", [0], "birth") is fields
    assert fields.take_merge_terms(0, 0, ()) is fields
    assert fields.forget() is fields


@given(seed=seeds, cuts=st.lists(st.integers(1, 8), max_size=3, unique=True))
@LAW
def test_join_of_cuts_is_the_whole(seed: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    warm = Fields({"own": Field(("row", "state"))}, {"own": rng.normal(size=(9, 3))})
    edges = [0, *sorted(cuts), 9]
    parts = [warm.cut(row=slice(lo, hi), unit=slice(0, 1)) for lo, hi in pairwise(edges)]
    assert all(np.shares_memory(part["own"], warm["own"]) for part in parts)
    assert_same(join(parts), warm)


def test_copy_owns_its_arrays() -> None:
    a = make_summary(2)
    b = a.copy()
    assert_same(a, b)
    assert not any(np.shares_memory(a[name], b[name]) for name in a)


# ---- tracked fields ------------------------------------------------------------------------------
@given(
    seed=seeds, pair=st.integers(0, 2), earlier=st.lists(st.integers(0, 2), max_size=2, unique=True)
)
@LAW
def test_merge_takes_tracked_values_and_the_gain_from_its_side(
    seed: int, pair: int, earlier: list[int]
) -> None:
    side = merge_side(seed, 3)
    a = with_sides(make_summary(seed), merge=side)
    merged = Merge("state", 1, 3, pair, tuple(earlier))(a)
    expected = np.delete(a["entropy"], 3)
    expected[1] = side["entropy"][pair]
    np.testing.assert_array_equal(merged["entropy"], expected)
    gain = side["gain"][pair] + sum(side["cross"][pair, q] for q in earlier)
    assert merged.local_bound == a.local_bound + gain
    np.testing.assert_array_equal(merged["share"], a["share"] @ fold(4, 1, 3))


@given(parts=st.lists(seeds, min_size=1, max_size=4), count=st.integers(1, 3))
@LAW
def test_fillers_of_batches_add_up_to_the_filler_of_the_total(parts: list[int], count: int) -> None:
    batches = [make_summary(seed) for seed in parts]
    total = batches[0]
    for batch in batches[1:]:
        total = total + batch
    fill = {
        "entropy": LinearFiller(0.25, {"log_rest": 2.0}),
        "log_rest": LinearFiller(-0.5, {"log_rest": 1.0}),
    }
    edit = Insert("state", count, fill)
    summed = edit(batches[0])
    for batch in batches[1:]:
        summed = summed + edit(batch)
    assert_same(summed, edit(total))
    np.testing.assert_array_equal(
        edit(total)["entropy"][4:], 0.25 * total.n_units + 2.0 * total["log_rest"]
    )


def test_filler_of_a_field_without_the_axis_replaces_it_after_all_were_evaluated() -> None:
    a = replace(make_summary(3), n_units=8.0)
    fill = {
        "log_rest": LinearFiller(0.5, {"log_rest": 3.0}),
        "entropy": LinearFiller(of={"log_rest": 1.0}),
    }
    grown = Insert("state", 2, fill)(a)
    assert grown["log_rest"].shape == ()
    assert grown["log_rest"] == 4.0 + 3.0 * a["log_rest"]
    # of the old remainder, not the new one
    np.testing.assert_array_equal(grown["entropy"][4:], a["log_rest"])


def test_fillers_of_fields_that_are_not_there_are_left_out() -> None:
    fields = Fields({"legal": Field((None, "state"), insert=1.0)}, {"legal": np.zeros((1, 2))})
    grown = Insert("state", 1, {"entropy": LinearFiller(0.5, {"log_rest": 1.0})})(fields)
    np.testing.assert_array_equal(grown["legal"], [[0.0, 0.0, 1.0]])
