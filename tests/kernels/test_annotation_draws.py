"""Drawn subtypes and trees are as frequent as enumeration says."""

from __future__ import annotations

import numpy as np
import pytest
from kernels.test_annotation import (
    GIVEN,
    LISTING,
    TREES,
    Block,
    anchored,
    potentials_of,
    random_tables,
)
from oracles import annotation
from scipy.special import logsumexp

from stickbreak.kernels.annotation.draws import draw_skeletons
from stickbreak.kernels.annotation.skeletons import AnnotatedTables
from stickbreak.structures.annotation import Annotation

N = 4000
WITHIN = 4.0  # standard errors: below, one in 16,000 would be beyond it


@pytest.mark.parametrize("spread", [1.0, 900.0])
def test_subtypes_of_given_trees(spread: float) -> None:
    tables, rng = random_tables(2, 2, spread), np.random.default_rng(0)
    logs = AnnotatedTables(*tables.values())
    out = AnnotatedTables(*(np.zeros_like(table) for table in logs))
    nodes, offsets, n = GIVEN.rows, GIVEN.offsets, GIVEN.offsets[-1]
    rows, log_z, total = np.zeros((n, 2)), np.empty(len(TREES)), np.zeros((n, 2))
    for _ in range(N // 4):
        rows[:] = 0.0
        draw_skeletons(
            logs, nodes, offsets, np.ones(len(TREES)), rng.random((n, 3)), out, rows, log_z
        )
        np.testing.assert_array_equal(rows.sum(1), 1.0)
        total += rows
    found = [annotation.infer(tables, GIVEN.of(s)) for s in range(len(TREES))]
    np.testing.assert_allclose(log_z, [one[0] for one in found], rtol=1e-12)
    for name, drawn in zip(tables, out, strict=True):
        expected = sum(one[1][name] for one in found)
        # a count of a sum of n places has at most the variance of n coins
        assert np.abs(drawn / (N // 4) - expected).max() < WITHIN * np.sqrt(n / 4 / (N // 4))
    shares = np.concatenate([one[2] for one in found])
    assert np.abs(total / (N // 4) - shares).max() < WITHIN * 0.5 / np.sqrt(N // 4)


def rules_of(nodes: np.ndarray) -> tuple:
    """The rules of a tree with their places, in whatever order its nodes are."""
    return tuple(sorted(anchored(nodes)))


@pytest.mark.parametrize(("H", "spread"), [(1, 1.0), (2, 1.0), (2, 200.0)])
def test_trees_of_charts(H: int, spread: float) -> None:
    tables, numbers = random_tables(H, 7, spread), LISTING.word_numbers
    words = np.array([numbers[word] for word in "bcbcb"])
    trees = annotation.all_trees(words, LISTING)
    logs = np.array([annotation.infer(tables, nodes)[0] for nodes in trees])
    assert len(trees) == 3
    block = Block([words] * N)
    uniforms = np.random.default_rng(1).random((block.n_rows, 3))
    structure = Annotation(LISTING, 0.0)
    drawn, log_z = structure.parse(potentials_of(tables), block, uniforms)
    np.testing.assert_allclose(log_z, logsumexp(logs), rtol=1e-12)
    shares = np.exp(logs - logsumexp(logs))
    at = {rules_of(nodes): t for t, nodes in enumerate(trees)}
    times = np.bincount([at[rules_of(drawn.of(s))] for s in range(N)], minlength=len(trees)) / N
    errors = np.sqrt(shares * (1.0 - shares) / N)
    assert (np.abs(times - shares) <= WITHIN * errors + 1.0 / N).all()


def test_sentences_without_a_tree_have_none_drawn() -> None:
    block = Block([np.array([LISTING.word_numbers["c"]] * 2)])
    assert not annotation.all_trees(block.rows, LISTING)
    drawn, log_z = Annotation(LISTING).parse(
        potentials_of(random_tables(2, 1)), block, np.full((2, 3), 0.5)
    )
    assert log_z[0] == -np.inf
    assert (drawn.rows == -1).all()
