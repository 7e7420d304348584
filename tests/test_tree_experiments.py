"""The pieces of the experiments on trees, on a few sentences."""

from __future__ import annotations

import numpy as np
import pytest

import stickbreak as sb
from experiments.dependencies import baseline
from experiments.grammar_sizes import LONGEST, draw
from experiments.latent_annotations import f1_of, interval
from experiments.treebanks import Parsed, branching, drop, shorter, split_further
from stickbreak.data import parse_brackets

pytestmark = pytest.mark.slow  # what experiments print, not what the library does


def test_children_of_dropped_words_go_up() -> None:
    tags, heads = ["NN", ",", "VB", "."], [2, 3, 0, 3]
    assert drop(tags, heads, (",", ".").__contains__) == Parsed(["NN", "VB"], [2, 0])
    assert shorter([Parsed(["a"] * 3, [0, 1, 1]), Parsed(["a"], [0])], 2) == [Parsed(["a"], [0])]


def test_baselines_of_heads() -> None:
    sentences = [Parsed(["a", "b", "c"], [2, 3, 0])]
    assert baseline(sentences, 1) == 100.0
    assert baseline(sentences, -1) == 0.0


def test_baselines_of_spans() -> None:
    tree = parse_brackets("(S (A a) (X (B b) (C c)))")[0]
    rng = np.random.default_rng(0)
    assert sb.metrics.span_scores([tree], [branching(tree, "right", rng)]).f1 == 1.0
    assert sb.metrics.span_scores([tree], [branching(tree, "left", rng)]).f1 == 0.5
    assert branching(tree, "random", rng).words == ["a", "b", "c"]
    flat = parse_brackets("(S (A a) (B b) (C c))")[0]
    assert str(split_further(flat)) == "(S (A a) (S (B b) (C c)))"
    assert sb.metrics.span_scores([flat], [split_further(flat)]).f1 == pytest.approx(2 / 3)


def test_generated_sentences_are_short_and_begin_with_a_noun_phrase() -> None:
    rng = np.random.default_rng(0)
    found = [draw(rng) for _ in range(50)]
    assert max(len(s.words) for s in found) <= LONGEST
    assert min(len(s.words) for s in found) >= 2
    assert all(len(s.nodes) == 2 * len(s.words) - 1 for s in found)


def test_differences_of_equal_parsers_are_nothing() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 5, (20, 1)) + np.array([0, 1, 2])
    assert interval(counts, counts, rng) == (0.0, 0.0)
    assert f1_of(np.array([3, 4, 6])) == 60.0
    worse = counts - np.array([1, 0, 0])
    low, high = interval(counts, worse, rng)
    assert 0 < low < high
