"""Columns against draws, and why rows are improbable: numbers, counts, categories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from report.subjects import make_rows
from report.test_pages import parse, text_of

import stickbreak as sb
from stickbreak.report import write_page
from stickbreak.report.columns import _bars
from stickbreak.report.replicas import largest_gap

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def mixed():
    """Two groups of old smokers and young others; row 7 is a child that smokes."""
    z = RNG.integers(0, 2, 200)
    table = pd.DataFrame({
        "age": 20 + 40 * z + 3 * RNG.normal(size=200),
        "visits": RNG.poisson(np.array([2, 9])[z]),
        "color": np.array(["blue", "red"])[np.where(RNG.random(200) < 0.9, z, 1 - z)],
        "smokes": RNG.random(200) < np.array([0.05, 0.9])[z],
    })  # fmt: skip
    table.loc[7] = [3.0, 15, "red", True]
    family = sb.Product([(sb.Gaussian(), ["age"]), (sb.Poisson(), ["visits"]),
                         (sb.Categorical(), ["color"]), (sb.Bernoulli(), ["smokes"])])  # fmt: skip
    return sb.Mixture(2, family=family, random_state=0).fit(table), table


def test_rows_explained_worst_name_columns_of_all_kinds(mixed):
    model, table = mixed
    tree = parse(model.report(table).html)
    worst = next(t for t in tree.iter("table") if "because of" in "".join(t.itertext()))
    row, _, why = ("".join(cell.itertext()) for cell in worst.find("tbody")[0])
    assert row == "7"
    k = model.predict(table)[7]
    assert "visits 15 (+" in why
    assert why.endswith(f" from {k}")
    assert len(why.split(", ")) == 3
    assert "because of" not in text_of(parse(model.report(table, data="none").html))


def test_rows_of_sequences_are_told_with_their_place_and_columns():
    rows = np.repeat([[0.0, 0.0], [9.0, 5.0]], 20, axis=0) + RNG.normal(size=(40, 2))
    rows[11] = [0.0, 30.0]
    model = sb.HMM(2, random_state=0).fit([rows, rows[:10]])
    html = model.report([rows, rows[:10]], sequence_names=["Ann", "Ben"]).html
    assert "sequence Ann, row 11: x1 30 (+" in text_of(parse(html))


def test_categories_are_drawn_by_name_with_their_shares(mixed):
    model, table = mixed
    tree = parse(model.report(table).html)
    shares = next(t for t in tree.iter("table") if t.find("caption").text == "Shares of categories")
    told = {(row[0].text, row[1].text): float(row[2].get("data-v")) for row in shares.find("tbody")}
    assert told["color", "red"] == pytest.approx((table["color"] == "red").mean(), abs=1e-6)
    assert told["smokes", "True"] == pytest.approx(table["smokes"].mean(), abs=1e-6)
    images = [e for e in tree.iter("{http://www.w3.org/2000/svg}svg") if e.get("aria-label")]
    figures = {e.get("aria-label").split(":")[0]: [t.text for t in e] for e in images}
    assert {"blue", "red"} <= set(figures["color"])
    assert {"False", "True"} <= set(figures["smokes"])


def test_whole_numbers_have_a_bar_each_and_many_categories_are_lumped():
    counts = np.array([0.0, 1, 1, 3, 7])
    bars = _bars(counts, counts, None)
    assert bars.edges.tolist() == [i - 0.5 for i in range(9)]
    assert bars.seen.tolist() == [0.2, 0.4, 0, 0.2, 0, 0, 0, 0.2]
    wide = _bars(np.arange(1000.0), np.arange(1000.0), None)
    assert len(wide.seen) <= 60
    assert wide.seen.sum() == pytest.approx(1)
    codes = np.repeat(np.arange(30.0), np.arange(30, 0, -1))
    lumped = _bars(codes, codes, [f"c{i}" for i in range(30)])
    assert lumped.labels == [*(f"c{i}" for i in range(9)), "others"]
    assert lumped.seen.sum() == pytest.approx(1)


def test_gap_of_ties_is_that_of_their_distributions():
    assert largest_gap(np.array([0.0, 0, 1, 1]), np.array([0.0, 0, 0, 1])) == pytest.approx(0.25)
    assert largest_gap(np.array([1.0, 1.0]), np.array([1.0] * 5)) == 0


def test_constant_columns_and_one_row_are_drawn():
    subject = make_rows()
    one = replace(subject.replica, rows=np.ones((1, 2)), labels=np.zeros(1, int))
    parse(write_page(replace(subject, replica=one)).html)
    same = replace(subject.replica, rows=np.full((100, 2), 0.5))
    parse(write_page(replace(subject, replica=same, replicas=[same] * 12)).html)


def test_private_pages_tell_no_extremes_and_no_averages_of_few_rows():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(500, 1)), [[60.0]]])
    drawn = rng.normal(size=(5000, 1))
    assert _bars(X[:, 0], drawn[:, 0], None).edges[-1] >= 60
    private = _bars(X[:, 0], drawn[:, 0], None, is_private=True)
    assert private.edges[-1] < 10
    assert private.seen.sum() == pytest.approx(1)
    model = sb.Mixture(1, random_state=0).fit(X)
    assert "Columns are not compared: sums of fewer than 10 rows" in text_of(
        parse(model.report(X[:9], data="none").html)
    )
    assert "Columns are not compared" not in model.report(X, data="none").html
