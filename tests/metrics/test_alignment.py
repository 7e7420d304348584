"""Alignment error rate, precision, recall and F1 are those of their definitions."""

from __future__ import annotations

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import Gold, as_links
from stickbreak.metrics import alignment_error_rate, alignment_scores


def test_scores_on_a_case_made_by_hand():
    # A = 4 links, of which 2 are sure and 1 more possible; S = 3
    gold = Gold(as_links(["0-0 1-1", "0-0"]), as_links(["0-0 1-1 1-2", "0-0"]), np.array([0, 2]))
    found = alignment_scores(["0-0 1-2 2-2", "5-5", "0-0"], gold)
    assert found.precision == 3 / 4
    assert found.recall == 2 / 3
    assert found.aer == 1 - (2 + 3) / (4 + 3)
    assert found.f1 == pytest.approx(2 * (3 / 4) * (2 / 3) / (3 / 4 + 2 / 3), rel=1e-15)


def test_without_possible_links_the_error_is_one_minus_f1():
    rng = np.random.default_rng(0)
    draw = lambda: [rng.integers(0, 4, (6, 2)).tolist() for _ in range(20)]
    found = alignment_scores(draw(), draw())
    assert found.aer == pytest.approx(1 - found.f1, rel=1e-14)


def test_perfect_and_empty_links():
    gold = ["0-0 1-1", ""]
    assert alignment_scores(gold, gold) == (0.0, 1.0, 1.0, 1.0)
    assert alignment_scores([[], []], gold) == (1.0, 0.0, 0.0, 0.0)
    assert alignment_error_rate(gold, gold) == 0.0


def test_gold_must_fit(tmp_path):
    path = tmp_path / "gold.txt"
    path.write_text("3 1 1 S\n")
    with pytest.raises(ValueError, match=r"gold has links of pair 2 \(from 0\) but there are .* 2"):
        alignment_scores([[], []], sb.read_gold(path))
    with pytest.raises(ValueError, match="the gold has no sure links"):
        alignment_scores([[]], [[]])
