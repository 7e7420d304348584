"""Rules that trees do not use: local steps, sweeps and totals against enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles import tree

import stickbreak as sb
from stickbreak.data import Sequences
from stickbreak.families import Categorical
from stickbreak.inference import ExcludeOwn
from stickbreak.kernels.tree.charts import Grammar
from stickbreak.kernels.tree.sentences import LogGrammar, absent_sentences
from stickbreak.models import hdp_grammar
from stickbreak.stats import SERIAL
from stickbreak.structures.tree.collapsed import known_brackets

Array = np.ndarray
K, V = 2, 3
LOGS = ("log_absent", "log_absent_row", "log_absent_root")


def sentences(n_units: int, seed: int, longest: int = 4) -> Sequences:
    rng = np.random.default_rng(seed)
    ends = np.r_[0, np.cumsum(np.r_[1, rng.integers(1, longest + 1, n_units - 1)])]
    return Sequences(rng.integers(0, V, (ends[-1], 1)), offsets=ends)


MODEL = hdp_grammar(Categorical(0.4, n_symbols=(V,)), root="tables")


def by_enumeration(logs: Any, evidence: Array) -> dict[str, Array]:
    """Products over spans of 1 - q(rule at the span), from all trees of one sentence."""
    n, tables = len(evidence), {name: logs[name] for name in ("root", "kind", "binary_rule")}
    weights, at, roots = [], [], []
    for nodes in tree.all_trees(n, K):
        found = tree.counts_of(nodes, K)
        weights.append(sum((w * found[k]).sum() for k, w in {**tables, "rows": evidence}.items()))
        named = {(i, j): k for i, j, _, k in nodes.tolist()}
        at.append([
            (i, j, k, named[i, m], named[m, j]) for i, j, m, k in nodes.tolist() if m >= 0
        ])  # fmt: skip
        roots.append(nodes[0, 3])
    shares = np.exp(np.array(weights) - np.logaddexp.reduce(weights))
    spans = np.zeros((n + 1, n + 1, K, K, K))
    root = np.zeros(K)
    for p, nodes, k in zip(shares, at, roots, strict=True):
        root[k] += p
        for node in nodes:
            spans[node] += p
    with np.errstate(divide="ignore"):
        return {
            "log_absent": np.log1p(-spans).sum((0, 1)),
            "log_absent_row": np.log1p(-np.minimum(spans.sum((3, 4)), 1.0)).sum((0, 1)),
            "log_absent_root": np.log1p(-root),
        }


def begin(data: Sequences, seed: int = 0) -> Any:
    rng, rule = np.random.default_rng(seed), ExcludeOwn()
    own = MODEL.structure.random_own(data.whole(), K, MODEL.axis, rng)
    params = MODEL.start_params(K)
    counts = rule.count(MODEL, params, data.whole(), own, SERIAL)
    return own, counts, MODEL.global_step(counts, params), rule


def test_local_steps_miss_what_enumeration_misses() -> None:
    data = sentences(5, 1)
    _, counts, params, rule = begin(data)
    potentials = rule.potentials(MODEL, counts, params)
    found, _ = MODEL.local_step(potentials, data.whole())
    evidence = potentials.scores.evidence(data.rows)
    parts = np.split(evidence, data.offsets[1:-1])
    wanted = [by_enumeration(potentials, part) for part in parts]
    for name in LOGS:
        total = sum(np.maximum(part[name], -40.0) for part in wanted)
        np.testing.assert_allclose(found[name], total, rtol=1e-8, atol=1e-10)


def test_sums_in_logarithms_miss_the_same() -> None:
    """Evidence that underflows makes a sentence go through logarithms."""
    data, rng = sentences(6, 2), np.random.default_rng(0)
    logs = LogGrammar(np.log(rng.dirichlet(np.ones(K))), np.log(rng.random((K, K * K))))
    rule = np.exp(logs.rule)
    weights = Grammar(np.exp(logs.root), rule, False)
    brackets, ends = known_brackets(data.whole())
    found = []
    for gap in (-800.0, -np.inf):  # the same sums, but for what double precision cannot tell
        evidence = np.log(rng.random((data.n_rows, K))) if not found else found[0][0].copy()
        evidence[data.offsets[:-1], 0] = gap
        out = np.zeros((K, K * K)), np.zeros(K), np.zeros(K)
        absent_sentences(weights, logs, evidence, data.offsets, brackets, ends, np.ones(6), *out)
        found.append((evidence, *out))
    for first, second in zip(found[0][1:], found[1][1:], strict=True):
        # probabilities: logs of differences near zero are rounding
        np.testing.assert_allclose(np.exp(first), np.exp(second), rtol=1e-8, atol=1e-10)
    assert (found[0][1] < -1e-3).any()


def test_sweeps_and_local_steps_miss_the_same() -> None:
    data = sentences(10, 3, longest=7)
    own, counts, params, rule = begin(data)
    swept, _ = rule.visit(MODEL, counts, params, data.whole(), None, (), SERIAL)
    found, _ = MODEL.local_step(rule.potentials(MODEL, counts, params), data.whole())
    for name in (*LOGS, "root", "binary_rule"):
        # sweeps keep float32
        np.testing.assert_allclose(swept[name], found[name], rtol=2e-5, atol=1e-6)
    counts, own = rule.visit(MODEL, counts, params, data.whole(), own, (), SERIAL)
    np.testing.assert_allclose(counts["log_absent"], own["absent"].sum(0, dtype=float))
    again = rule.count(MODEL, params, data.whole(), own, SERIAL)
    for name in counts:
        np.testing.assert_allclose(again[name], counts[name], rtol=1e-12, atol=1e-12)
    is_used = -np.expm1(counts["log_absent"])
    assert (is_used <= counts["binary_rule"] * (1 + 1e-5) + 1e-6).all()


def two_kinds(n: int = 60) -> list[list[str]]:
    """Sentences a b, a b a b, ...: two kinds of words, a few rules."""
    rng = np.random.default_rng(0)
    return [["a b", "a b a b", "c d a b", "c d"][rng.integers(4)].split() for _ in range(n)]


def test_a_fit_needs_few_categories_and_learns_concentrations() -> None:
    model = sb.HDPPCFG(6, root="tables", random_state=0, max_iter=150).fit(two_kinds())
    assert np.isfinite(model.lower_bound_)
    fitted = model._require_fitted()
    assert float(fitted.params["concentration"]) <= 1.0
    assert fitted.params["root"].sum() < 1.0
    assert model.n_covering(0.99) < 6
    assert model.parse(["a b"])[0].words == ["a", "b"]


@pytest.mark.parametrize("inference", ["batch", "em", "memoized", "collapsed-gibbs"])
def test_other_engines_are_refused(inference: str) -> None:
    with pytest.raises(ValueError, match="root='tables' needs inference='collapsed'"):
        sb.HDPPCFG(3, root="tables", inference=inference).fit(["a b"])


def test_unknown_roots_are_refused() -> None:
    with pytest.raises(ValueError, match="root must be 'beta', 'point' or 'tables'"):
        sb.HDPPCFG(3, root="other").fit(["a b"])
