"""Scores of trees, on trees whose scores are counted by hand."""

from __future__ import annotations

import pytest

from stickbreak.data import parse_brackets
from stickbreak.metrics import attachment, span_scores

TRUE, FOUND = parse_brackets(
    "(ROOT (S (NP (D the) (N cat)) (VP (V sees) (NP (D a) (N dog))) (. .)))"
    "(ROOT (S (NP (D the) (N cat)) (X (V sees) (D a)) (N dog) (. .)))"
)


def test_attachment_counts_heads_and_arcs() -> None:
    found = attachment([[2, 0, 2], [0]], [[0, 1, 2], [0]])
    assert found.directed == pytest.approx(2 / 4)
    assert found.undirected == pytest.approx(3 / 4)
    with pytest.raises(ValueError, match="sentence 0"):
        attachment([[0]], [[0, 1]])
    with pytest.raises(ValueError, match="1 true trees and 0"):
        attachment([[0]], [])


def test_unlabelled_spans_are_sets() -> None:
    found = span_scores([TRUE], [FOUND])
    # true: 0-6, 0-2, 2-5, 3-5; found: 0-6, 0-2, 2-4
    assert found.precision == pytest.approx(2 / 3)
    assert found.recall == pytest.approx(2 / 4)
    assert found.f1 == pytest.approx(4 / 7)
    assert found.exact == 0.0


def test_labelled_spans_leave_out_punctuation_and_the_outer_bracket() -> None:
    found = span_scores([TRUE, TRUE], [FOUND, TRUE], labelled=True)
    # true: S, NP, VP, NP, twice; found: S, NP, X, and S, NP, VP, NP
    assert found.precision == pytest.approx(6 / 7)
    assert found.recall == pytest.approx(6 / 8)
    assert found.exact == 0.5
    assert span_scores([TRUE], [None], labelled=True).f1 == 0.0
