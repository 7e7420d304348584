"""Dependency trees against enumeration of all projective trees."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import dependency

from stickbreak.kernels.dependency.sentences import (
    Tables,
    count_heads,
    infer_sentences,
    pick_sentences,
    sum_sentences,
)

Array = np.ndarray
NOBODY = np.zeros(0, dtype=np.int64)


def random_tables(V: int, seed: int) -> dict[str, Array]:
    """Logs of weights that do not sum to one, as those of variational Bayes."""
    rng = np.random.default_rng(seed)
    shapes = {"root": (V,), "stop": (V, 2, 2, 2), "attach": (V, 2, V)}
    return {name: rng.normal(-2.0, 1.5, shape) for name, shape in shapes.items()}


def infer(
    logs: dict[str, Array], tags: Array, known: Array = NOBODY, *, is_linear: bool = True
) -> tuple[float, dict[str, Array], Array]:
    """log_z, counts and heads of one sentence; is_linear : or only in logarithms."""
    n, tables = len(tags), Tables(*logs.values())
    weights = Tables(*(np.exp(t) if is_linear else np.zeros_like(t) for t in tables))
    out = Tables(*(np.zeros_like(t) for t in tables))
    heads, log_z = np.zeros((n, n + 1)), np.zeros(1)
    infer_sentences(weights, tables, tags, np.array([0, n]), known, np.ones(1), out, heads, log_z)
    return float(log_z[0]), out._asdict(), heads


@pytest.mark.parametrize("is_linear", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_sums_counts_and_heads_equal_enumeration(n: int, is_linear: bool) -> None:
    logs, tags = random_tables(3, n), np.random.default_rng(n).integers(0, 3, n)
    log_z, counts, heads = infer(logs, tags, is_linear=is_linear)
    expected = dependency.infer(logs, tags)
    assert log_z == pytest.approx(expected[0], abs=1e-12)
    np.testing.assert_allclose(heads, expected[2], atol=1e-13)
    for name, table in counts.items():
        np.testing.assert_allclose(table, expected[1][name], atol=1e-12)
    alone = np.zeros(1)
    sum_sentences(Tables(*logs.values()), tags, np.array([0, n]), NOBODY, alone)
    assert alone[0] == pytest.approx(expected[0], abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_best_tree_is_the_best_of_all(n: int) -> None:
    logs, tags = random_tables(3, 10 + n), np.random.default_rng(n).integers(0, 3, n)
    heads, best = np.zeros(n, dtype=np.int64), np.zeros(1)
    tables, ends = Tables(*logs.values()), np.array([0, n])
    pick_sentences(tables, tags, ends, NOBODY, np.zeros((0, 2)), heads, best)
    *_, tree, weight = dependency.infer(logs, tags)
    assert best[0] == pytest.approx(weight, abs=1e-12)
    np.testing.assert_array_equal(heads, tree)


def test_drawn_trees_have_their_shares() -> None:
    logs, tags, n_draws = random_tables(2, 3), np.array([0, 1, 1, 0]), 20_000
    rng, many = np.random.default_rng(0), np.tile(tags, n_draws)
    heads, log_z = np.zeros(len(many), dtype=np.int64), np.zeros(n_draws)
    ends = 4 * np.arange(n_draws + 1)
    tables = Tables(*logs.values())
    pick_sentences(tables, many, ends, NOBODY, rng.random((len(many), 2)), heads, log_z)
    expected = dependency.infer(logs, tags)
    np.testing.assert_allclose(log_z, expected[0], rtol=1e-12)
    found = (heads.reshape(n_draws, 4)[:, :, None] == np.arange(5)).mean(0)
    # four standard errors of a share
    np.testing.assert_allclose(found, expected[2], atol=4 * 0.5 / np.sqrt(n_draws))


def test_derivatives_of_the_log_sum_are_the_counts() -> None:
    logs, tags, step = random_tables(2, 5), np.array([0, 1, 1, 0, 1, 0]), 1e-5
    counts = infer(logs, tags)[1]
    for name, table in logs.items():
        for at in np.ndindex(*table.shape):
            moved = [{**logs, name: table.copy()} for _ in range(2)]
            moved[0][name][at] += step
            moved[1][name][at] -= step
            slope = (infer(moved[0], tags)[0] - infer(moved[1], tags)[0]) / (2 * step)
            assert slope == pytest.approx(counts[name][at], abs=1e-8)


def test_impossible_arcs_and_known_heads_leave_their_trees_out() -> None:
    logs, tags = random_tables(3, 7), np.array([0, 1, 2, 1])
    logs["attach"][0, 1, 1] = -np.inf
    expected = dependency.infer(logs, tags)
    log_z, counts, _ = infer(logs, tags)
    assert log_z == pytest.approx(expected[0], abs=1e-12)
    np.testing.assert_allclose(counts["attach"], expected[1]["attach"], atol=1e-12)
    known = np.array([-1, 1, -1, 3])
    heads = infer(random_tables(3, 8), tags, known)[2]
    assert heads[1, 1] == pytest.approx(1.0)
    assert heads[3, 3] == pytest.approx(1.0)
    logs["attach"][:] = -np.inf
    assert infer(logs, tags)[0] == -np.inf  # one word alone would be possible


def test_a_whole_known_tree_counts_as_it_is() -> None:
    tags, heads = np.array([0, 1, 2, 1]), np.array([2, 0, 4, 2])
    out = Tables(np.zeros(3), np.zeros((3, 2, 2, 2)), np.zeros((3, 2, 3)))
    count_heads(tags, np.array([0, 4]), heads, np.ones(1), out)
    expected = dependency.counts_of(heads, tags, 3)
    counts = infer(random_tables(3, 1), tags, heads)[1]
    for name, table in out._asdict().items():
        np.testing.assert_array_equal(table, expected[name])
        np.testing.assert_allclose(counts[name], table, atol=1e-12)


def test_long_sentences_and_wide_gaps_do_not_underflow() -> None:
    rng = np.random.default_rng(0)
    tags, logs = rng.integers(0, 3, 60), random_tables(3, 2)
    low = {name: table - (30.0 if name == "attach" else 0.0) for name, table in logs.items()}
    apart = infer(logs, tags)[0] - infer(low, tags)[0]
    assert apart == pytest.approx(30.0 * 59, abs=1e-9)
    gap = {**logs, "attach": logs["attach"].copy()}
    gap["attach"][:, 0] -= 900.0  # a tree to the right is possible without such arcs
    gap["root"] = gap["root"] - np.array([0.0, 900.0, 900.0])
    log_z, counts, heads = infer(gap, tags)
    assert np.isfinite(log_z)
    np.testing.assert_allclose(heads.sum(1), 1.0, atol=1e-9)
    in_logs = infer(gap, tags, is_linear=False)
    assert log_z == pytest.approx(in_logs[0], rel=1e-12)
    np.testing.assert_allclose(counts["attach"], in_logs[1]["attach"], atol=1e-9)
