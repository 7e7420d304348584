"""The online filter takes rows as a data frame has them, words and all."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import stickbreak as sb

GROUPS = np.repeat([0, 1, 0, 1], 25)
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({
    "height": np.array([1.0, 9.0])[GROUPS] + RNG.normal(0, 0.3, 100),
    "color": np.array(["red", "blue"])[GROUPS],
    "old": GROUPS == 1,
})  # fmt: skip
FAMILY = sb.Product({"gaussian": ["height"], "categorical": "color", "bernoulli": "old"})


@pytest.fixture(scope="module")
def model():
    return sb.HMM(2, family=FAMILY, random_state=0).fit(FRAME)


ROWS = {
    "tuples": lambda: list(FRAME.itertuples(index=False)),
    "lists": lambda: FRAME.to_numpy(dtype=object).tolist(),
    "arrays": lambda: list(FRAME.to_numpy(dtype=object)),
    "Series": lambda: [row for _, row in FRAME.iterrows()],
    "dicts": lambda: FRAME.to_dict("records"),
    "frames": lambda: [FRAME.iloc[i : i + 1] for i in range(len(FRAME))],
    "polars tuples": lambda: pl.DataFrame(FRAME.to_dict("list")).rows(),
    "polars dicts": lambda: pl.DataFrame(FRAME.to_dict("list")).rows(named=True),
    "polars frames": lambda: [pl.DataFrame(FRAME.to_dict("list"))[i] for i in range(len(FRAME))],
    "numbers of categories": lambda: list(
        np.column_stack([FRAME["height"], FRAME["color"] == "red", FRAME["old"]]).astype(float)
    ),
    "other order": lambda: FRAME[["old", "color", "height"]].to_dict("records"),
}


@pytest.mark.parametrize("kind", ROWS)
def test_rows_of_a_frame_are_taken_as_they_are(kind, model):
    now = model.online_filter()
    found = np.array([now.update(row).probabilities for row in ROWS[kind]()])
    np.testing.assert_allclose(found, model.filter_proba(FRAME), atol=1e-12)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_words_tell_nothing(missing, model):
    gaps = FRAME.assign(color=None)
    now = model.online_filter()
    rows = [(h, missing, o) for h, _, o in FRAME.itertuples(index=False)]
    found = np.array([now.update(row).probabilities for row in rows])
    np.testing.assert_allclose(found, model.filter_proba(gaps), atol=1e-12)


def test_words_alone():
    words = np.array(["a", "b", "c"])[RNG.integers(3, size=60)]
    model = sb.HMM(2, family="categorical", random_state=0).fit([words])
    now = model.online_filter()
    found = np.array([now.update(str(word)).probabilities for word in words])
    np.testing.assert_allclose(found, model.filter_proba([words])[0], atol=1e-12)


BAD = {
    "another word": ((1.0, "green", True), "column 'color' is 'green'; the model knows .*'blue'"),
    "a word for a number": (("tall", "red", True), "column 'height' is 'tall', which is not a"),
    "too few": ((1.0, "red"), "the row has 2 values, but the model expects 3"),
    "a name too few": ({"height": 1.0, "old": True}, "the row lacks 'color'"),
    "a name too many": ({"height": 1.0, "color": "red", "old": True, "x": 1}, "the row has 'x'"),
    "two rows": (FRAME.iloc[:2], "expected one row; the data frame has 2"),
    "infinite": ((np.inf, "red", True), "holds inf"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_refused_and_change_nothing(case, model):
    now = model.online_filter()
    before = now.update(FRAME.iloc[0]).probabilities
    row, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        now.update(row)
    np.testing.assert_array_equal(now.probabilities, before)
