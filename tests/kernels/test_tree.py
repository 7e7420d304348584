"""Trees of grammars against enumeration of all binary trees with categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles import tree

from stickbreak.kernels.tree.charts import Grammar
from stickbreak.kernels.tree.sentences import (
    LogGrammar,
    best_spans,
    count_nodes,
    infer_sentences,
    pick_sentences,
    sum_sentences,
)

Array = np.ndarray


def random_tables(K: int, seed: int) -> dict[str, Array]:
    """Logs of weights that do not sum to one, as those of variational Bayes."""
    rng = np.random.default_rng(seed)
    shapes = {"root": (K,), "kind": (K, 2), "binary_rule": (K, K, K)}
    return {name: rng.normal(-2.0, 1.0, shape) for name, shape in shapes.items()}


def grammars(tables: dict[str, Array]) -> tuple[Grammar, LogGrammar]:
    K = len(tables["root"])
    rule = (tables["binary_rule"] + tables["kind"][:, 1, None, None]).reshape(K, K * K)
    weights = np.exp(rule)
    is_lossy = bool(((weights == 0) & np.isfinite(rule)).any())
    return Grammar(np.exp(tables["root"]), weights, is_lossy), LogGrammar(tables["root"], rule)


def infer(
    tables: dict[str, Array], evidence: Array, brackets: Any = (), *, is_linear: bool = True
) -> tuple[float, dict[str, Array], Array]:
    """log_z, counts and posteriors of spans of one sentence; is_linear : or only in logarithms."""
    n, K = evidence.shape
    linear, logs = grammars(tables)
    if not is_linear:
        linear = linear._replace(rule=np.zeros_like(linear.rule), is_lossy=True)
    gather, counts, root = np.zeros((K, K * K)), np.zeros((K, K * K)), np.zeros(K)
    rows, spans, log_z = np.zeros((n, K)), np.zeros((n * (n + 1) // 2, K)), np.zeros(1)
    known = np.array(brackets, dtype=np.int64).reshape(-1, 2)
    infer_sentences(
        linear, logs, evidence + tables["kind"][:, 0], np.array([0, n]), known,
        np.array([0, len(known)]), np.ones(1), gather, counts, root, rows, spans, log_z,
    )  # fmt: skip
    rule = (counts + gather * linear.rule).reshape(K, K, K)
    kind = np.column_stack([rows.sum(0), rule.sum((1, 2))])
    found = {"root": root, "kind": kind, "binary_rule": rule, "rows": rows}
    return float(log_z[0]), found, spans


@pytest.mark.parametrize("is_linear", [True, False])
@pytest.mark.parametrize(("n", "K"), [(1, 3), (2, 3), (3, 2), (4, 2), (5, 1), (3, 3)])
def test_sums_counts_and_spans_equal_enumeration(n: int, K: int, is_linear: bool) -> None:
    _compare(n, K, is_linear)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "K"), [(4, 3), (5, 2), (5, 3)])
def test_larger_sentences_equal_enumeration_too(n: int, K: int) -> None:
    _compare(n, K, True)


def _compare(n: int, K: int, is_linear: bool) -> None:
    tables, evidence = random_tables(K, n), np.random.default_rng(n).normal(-1.0, 2.0, (n, K))
    log_z, counts, spans = infer(tables, evidence, is_linear=is_linear)
    expected = tree.infer(tables, evidence)
    assert log_z == pytest.approx(expected[0], abs=1e-12)
    for name, table in counts.items():
        np.testing.assert_allclose(table, expected[1][name], atol=1e-12)
    at = 0
    for w in range(1, n + 1):
        for i in range(n - w + 1):
            np.testing.assert_allclose(spans[at], expected[2][i, i + w], atol=1e-12)
            at += 1
    linear, logs = grammars(tables)
    alone, nodes = np.zeros(1), np.zeros((2 * n - 1, 4), dtype=np.int64)
    given = evidence + tables["kind"][:, 0], np.array([0, n]), np.zeros((0, 2), dtype=np.int64)
    sum_sentences(linear, logs, *given, np.zeros(2, dtype=np.int64), alone)
    assert alone[0] == pytest.approx(expected[0], abs=1e-12)
    pick_sentences(logs, *given, np.zeros(2, dtype=np.int64), np.zeros(0), nodes, alone)
    assert alone[0] == pytest.approx(expected[4], abs=1e-12)
    # trees of other shapes may use the same rules, and have the same weight
    used = tree.counts_of(nodes, K)
    weight = sum(float((table * used[name]).sum()) for name, table in tables.items())
    weight += float((evidence * used["rows"]).sum())
    assert weight == pytest.approx(expected[4], abs=1e-12)
    own = {name: np.zeros_like(tables[name]) for name in tables}
    count_nodes(nodes, np.array([0, 2 * n - 1]), np.ones(1), *own.values())
    for name, table in own.items():
        np.testing.assert_array_equal(table, tree.counts_of(nodes, K)[name])


def test_drawn_trees_have_their_shares() -> None:
    n_draws, n, K = 10_000, 3, 2
    tables, evidence = random_tables(K, 3), np.random.default_rng(0).normal(size=(n, K))
    logs = grammars(tables)[1]
    many, ends = np.tile(evidence + tables["kind"][:, 0], (n_draws, 1)), n * np.arange(n_draws + 1)
    nodes, log_z = np.zeros((n_draws * 5, 4), dtype=np.int64), np.zeros(n_draws)
    none, nobody = np.zeros((0, 2), dtype=np.int64), np.zeros(n_draws + 1, dtype=np.int64)
    uniforms = np.random.default_rng(1).random(len(many))
    pick_sentences(logs, many, ends, none, nobody, uniforms, nodes, log_z)
    expected = tree.infer(tables, evidence)
    np.testing.assert_allclose(log_z, expected[0], rtol=1e-12)
    counts = {name: np.zeros_like(tables[name]) for name in tables}
    count_nodes(nodes, 5 * np.arange(n_draws + 1), np.ones(n_draws), *counts.values())
    for name, table in counts.items():
        # four standard errors of a count of at most two
        np.testing.assert_allclose(table / n_draws, expected[1][name], atol=4 / np.sqrt(n_draws))


def test_derivatives_of_the_log_sum_are_the_counts() -> None:
    tables, evidence = random_tables(2, 5), np.random.default_rng(2).normal(size=(6, 2))
    counts, step = infer(tables, evidence)[1], 1e-5
    for name, table in tables.items():
        for at in np.ndindex(*table.shape):
            values = []
            for sign in (step, -step):
                moved = {**tables, name: table.copy()}
                moved[name][at] += sign
                values.append(infer(moved, evidence)[0])
            slope = (values[0] - values[1]) / (2 * step)
            assert slope == pytest.approx(counts[name][at], abs=1e-8)


def test_no_span_crosses_a_known_bracket() -> None:
    tables, evidence = random_tables(2, 6), np.random.default_rng(3).normal(size=(5, 2))
    for is_linear in (True, False):
        log_z, counts, spans = infer(tables, evidence, [(1, 4)], is_linear=is_linear)
        assert log_z < infer(tables, evidence)[0]
        starts = {(i, i + w): spans[(w - 1) * 5 - (w - 1) * (w - 2) // 2 + i].sum()
                  for w in range(1, 6) for i in range(6 - w)}  # fmt: skip
        assert starts[1, 4] == pytest.approx(1.0)
        assert starts[0, 2] == starts[3, 5] == starts[2, 5] == 0.0
        assert counts["binary_rule"].sum() == pytest.approx(4.0)


def test_impossible_rules_have_no_weight() -> None:
    tables, evidence = random_tables(2, 7), np.zeros((4, 2))
    tables["binary_rule"][:, 0, :] = -np.inf
    expected = tree.infer(tables, evidence)
    log_z, counts, _ = infer(tables, evidence)
    assert log_z == pytest.approx(expected[0], abs=1e-12)
    np.testing.assert_allclose(counts["binary_rule"], expected[1]["binary_rule"], atol=1e-12)
    tables["binary_rule"][:] = -np.inf
    assert infer(tables, evidence)[0] == -np.inf


def test_long_sentences_and_wide_gaps_do_not_underflow() -> None:
    rng = np.random.default_rng(0)
    tables, evidence = random_tables(3, 2), rng.normal(-40.0, 5.0, (60, 3))
    low = {**tables, "binary_rule": tables["binary_rule"] - 50.0}
    log_z, counts, _ = infer(tables, evidence)
    assert infer(low, evidence)[0] == pytest.approx(log_z - 50.0 * 59, rel=1e-12)
    assert counts["kind"].sum(0) == pytest.approx([60.0, 59.0], rel=1e-9)
    evidence = rng.normal(size=(8, 2))
    evidence[3] = [0.0, -900.0]  # only the second category may be a child
    tables = random_tables(2, 4)
    tables["binary_rule"][:, 0, :] = tables["binary_rule"][:, :, 0] = -np.inf
    tables["root"][1] = -np.inf
    gap, counts, _ = infer(tables, evidence)
    shifted = evidence.copy()
    shifted[3] = [-np.inf, 0.0]
    assert gap == pytest.approx(infer(tables, shifted)[0] - 900.0, rel=1e-12)
    assert counts["rows"][3] == pytest.approx([0.0, 1.0])


def test_the_tree_of_the_most_expected_spans() -> None:
    nodes, shares = np.zeros((5, 4), dtype=np.int64), np.array([1.0, 1, 1, 0.2, 0.8, 1])
    best_spans(shares, 3, nodes)
    assert nodes[:, :3].tolist() == [[0, 3, 1], [0, 1, -1], [1, 3, 2], [1, 2, -1], [2, 3, -1]]
    assert nodes[:, 3].tolist() == [5, 0, 4, 1, 2]
