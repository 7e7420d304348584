"""What pages hold of the data: names of groups, states of rows, how many rows."""

from __future__ import annotations

import numpy as np
import pytest
from report.test_estimators import SEQUENCES, block, fitted
from report.test_pages import parse

import stickbreak as sb
from stickbreak.estimators.reports import make_subject

PRIVATE = ({"data": "none"}, {"texts": False})


def groups_of(html):
    """Lines of the table of groups: name, then shares."""
    table = next(t for t in parse(html).iter("table") if "by group" in "".join(t[0].itertext()))
    return [["".join(cell.itertext()) for cell in row] for row in table.find("tbody")]


@pytest.mark.parametrize("name", ["mixture", "hmm", "lda", "hdp-mixture"])
def test_names_of_groups_are_in_no_private_page(name):
    """`by=` may name documents: then each group is one."""
    model, data = fitted(name)
    called = [f"unit-{i}.txt" for i in range(len(data))]
    assert "unit-0.txt" in model.report(data, by=called).html
    for how in PRIVATE:
        assert b"unit-" not in model.report(data, by=called, **how).html.encode()


def test_private_groups_are_numbered_and_none_is_of_a_few_rows():
    model, X = fitted("mixture")
    by = ["few"] * 9 + ["enough"] * 11 + ["many"] * 80
    named = groups_of(model.report(X, by=by).html)
    assert [row[0] for row in named] == ["many", "enough", "few"]
    numbered = groups_of(model.report(X, by=by, texts=False).html)
    assert numbered == [[f"group {i}", *row[1:]] for i, row in enumerate(named, 1)]
    assert groups_of(model.report(X, by=by, data="none").html) == numbered[:2]


def test_short_sequences_are_in_no_table_of_a_private_page():
    model, _ = fitted("hmm")
    parts = [SEQUENCES[0], SEQUENCES[1][:9], SEQUENCES[2][:10]]

    def lengths(html):
        tables = parse(html).iter("table")
        own = next(t for t in tables if "states by sequence" in "".join(t[0].itertext()))
        return [int(row[1].text) for row in own.find("tbody")]

    assert lengths(model.report(parts).html) == [45, 9, 10]
    assert lengths(model.report(parts, data="none").html) == [45, 10]


@pytest.mark.parametrize("n_columns", [1, 2, 6])
def test_courses_are_of_at_most_2000_rows_with_those_explained_worst(n_columns):
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(700, n_columns)) for _ in range(22)]
    model = sb.HMM(2, max_iter=2, random_state=0)
    with pytest.warns(sb.ConvergenceWarning):
        model.fit(sequences)
    subject = make_subject(model, sequences)
    n_rows = sum(map(len, subject.more["courses"][1][0])) + len(subject.observed.worst)
    assert 1000 < n_rows <= 2000


def test_points_are_of_at_most_2000_rows_with_those_explained_worst():
    X = np.random.default_rng(0).normal(size=(3000, 2))
    model = sb.Mixture(1, random_state=0).fit(X)
    subject = make_subject(model, X)
    n_rows = len(block(model.report(X).html)["scatter"]["rows"]) + len(subject.observed.worst)
    assert n_rows == 2000
