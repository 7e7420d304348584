"""Rows that carry their past, and scales of columns that are made from others."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import Table, measure

SERIES = np.random.default_rng(0).normal(size=(17, 2))
OFFSETS = np.array([0, 6, 10, 17])


@pytest.mark.parametrize("order", [1, 2, 3])
def test_every_row_holds_the_rows_before_it(order: int) -> None:
    rows, offsets = sb.lag_rows(SERIES, OFFSETS, order)
    expected = [
        np.concatenate([SERIES[t - lag] for lag in range(order + 1)])
        for lo, hi in pairwise(OFFSETS)
        for t in range(lo + order, hi)
    ]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(offsets, np.cumsum([0, *(np.diff(OFFSETS) - order)]))


def test_one_sequence_needs_no_offsets_and_a_missing_row_is_missing_wherever_it_occurs() -> None:
    series = SERIES.copy()
    series[4, 1] = np.nan
    rows, offsets = sb.lag_rows(series, order=2)
    np.testing.assert_array_equal(offsets, [0, 15])
    # rows 4, 5 and 6 of the series
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(rows).any(1)), [2, 3, 4])
    np.testing.assert_array_equal(np.argwhere(np.isnan(rows)), [[2, 1], [3, 3], [4, 5]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": 4}, r"sequence 1 has 4 rows, but order=4 needs at least 5"),
        ({"order": 0}, "order must be a whole number of at least 1; got 0"),
        ({"offsets": [0, 6, 10]}, r"rise from 0 to the number of rows \(17\)"),
        ({"offsets": [0, 10, 6, 17]}, "rise from 0"),
        ({"offsets": [0.0, 17.5]}, "whole numbers"),
        ({"rows": SERIES[:, 0]}, r"rows has shape \(17,\); expected \(n, D\)"),
    ],
)
def test_what_cannot_be_lagged_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sb.lag_rows(**{"rows": SERIES, "offsets": OFFSETS, **arguments})


def test_an_empty_sequence_is_too_short() -> None:
    with pytest.raises(ValueError, match="sequence 1 has 0 rows"):
        sb.lag_rows(SERIES, [0, 6, 6, 17])


# ---- scales of made columns ----------------------------------------------------------------------
def difference(rows: Any) -> np.ndarray:
    return rows[:, :1] - rows[:, 1:2]


def test_a_scale_measures_columns_made_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stickbreak.data.scale.SCAN_VALUES", 8)  # several pieces
    weights = np.random.default_rng(1).integers(0, 3, 17).astype(float)
    found = measure(Table(SERIES, repeats=weights)).of(difference)
    expected = measure(Table(difference(SERIES), repeats=weights))
    for name in ("seen", "mean", "variance", "square", "largest"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-14)
    assert (found.n_features, found.n_units) == (1, expected.n_units)


def test_a_scale_of_some_columns_measures_what_is_made_from_those() -> None:
    wide = np.column_stack([SERIES[:, 0], np.ones(17), SERIES[:, 1]])
    found = measure(Table(wide)).take([2, 0]).of(difference)
    assert found.mean[0] == pytest.approx(float((SERIES[:, 1] - SERIES[:, 0]).mean()), rel=1e-12)


def test_a_scale_that_was_not_measured_says_so() -> None:
    with pytest.raises(ValueError, match="not measured from a table"):
        sb.data.Scale(1, 1.0, *np.ones((5, 1))).of(difference)
