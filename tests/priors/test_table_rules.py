"""Expected table counts of rules: pairs of children, enumeration, and what updates raise."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma

from stickbreak.priors import TableRoot, TableRules
from stickbreak.priors.tables import StickPosteriors
from stickbreak.stats import Summary, log_gamma_rise
from tests.priors.test_tables import slopes, stirling

Array = np.ndarray
K = 3


def counts_of(seed: int, scale: float = 20.0) -> Summary:
    """Uses from certain to next to impossible."""
    rng = np.random.default_rng(seed)
    rules, roots = scale * rng.gamma(0.2, size=(K, K, K)), scale * rng.gamma(0.2, size=K)
    kinds = np.column_stack([scale * rng.gamma(1.0, size=K), rules.sum((1, 2))])
    absent = -rules * rng.uniform(0.5, 1.0, size=rules.shape)  # q(C > 0) <= E[C]
    arrays = {
        "root": roots, "kind": kinds, "binary_rule": rules, "log_absent": absent,
        "log_absent_row": absent.sum((1, 2)), "log_absent_root": -0.8 * roots,
    }  # fmt: skip
    return Summary(TableRules().fields("category"), arrays)


def test_shares_of_pairs_are_products_of_shares() -> None:
    """E[log b_a b_b] by draws, for pairs of one category too."""
    sticks = StickPosteriors(np.array([2.0, 1.5, 4.0]), np.array([3.0, 2.0, 1.0]))
    rng = np.random.default_rng(0)
    u = rng.beta(sticks.ones, sticks.zeros, (200_000, K))
    b = u * np.cumprod(np.column_stack([np.ones(len(u)), 1 - u[:, :-1]]), 1)
    logs = np.log(b)[:, :, None] + np.log(b)[:, None, :]
    # five standard errors
    error = 5.0 * logs.std(0).max() / np.sqrt(len(u))
    wanted = sticks.log_shares()
    np.testing.assert_allclose(logs.mean(0), wanted[:, None] + wanted, atol=error)
    params = TableRules(concentration=0.7).start(K, "category")
    params = type(params)(params.layout, {**params.arrays, "root": np.exp(wanted)})
    table = TableRules(concentration=0.7).tables(params, K)["binary_rule"]
    np.testing.assert_allclose(table.pseudo[1], 0.7 * np.exp(wanted[:, None] + wanted))
    assert table.pseudo[1].sum() + np.asarray(table.rest)[1] == pytest.approx(0.7)


def test_tables_of_known_trees_are_counted_at_both_children() -> None:
    """By Stirling numbers, rule by rule; a table of the pair (k, k) is two of k."""
    rng = np.random.default_rng(1)
    rules = rng.integers(0, 4, (K, K, K)).astype(float)
    roots = rng.integers(0, 4, K).astype(float)
    with np.errstate(divide="ignore"):
        absent = np.where(rules > 0, -40.0, 0.0)
    total = Summary(
        TableRules().fields("category"),
        {
            "root": roots, "kind": np.ones((K, 2)), "binary_rule": rules, "log_absent": absent,
            "log_absent_row": np.where(rules.sum((1, 2)) > 0, -40.0, 0.0),
            "log_absent_root": np.where(roots > 0, -40.0, 0.0),
        },
    )  # fmt: skip
    prior = TableRules(0.9, 1.3, root=TableRoot(learns=False))
    params = prior.start(K, "category")
    found, wanted = prior.update(total, params), np.zeros(K)
    of = prior.tables(params, K)

    def tables_of(x: float, n: float) -> float:
        weights = stirling(int(n)) * x ** np.arange(n + 1)
        return float(weights @ np.arange(n + 1) / weights.sum())

    for k in range(K):
        wanted[k] += tables_of(of["root"].pseudo[k], roots[k])
    for z, a, b in product(range(K), repeat=3):
        tables = tables_of(of["binary_rule"].pseudo[z, a, b], rules[z, a, b])
        wanted[a] += tables
        wanted[b] += tables
    np.testing.assert_allclose(found["tables"], wanted, rtol=1e-10)
    sticks = StickPosteriors(1.0 + wanted, 1.0 + np.r_[wanted[1:].sum(), wanted[2:].sum(), 0.0])
    stop = digamma(sticks.ones) - digamma(sticks.ones + sticks.zeros)
    go_on = digamma(sticks.zeros) - digamma(sticks.ones + sticks.zeros)
    shares = np.exp(stop + np.r_[0.0, go_on.cumsum()[:-1]])
    np.testing.assert_allclose(found["root"], shares, rtol=1e-10)


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_updates_never_lower_the_surrogate(seed: int, learns: bool) -> None:
    total, prior = counts_of(seed), TableRules(5.0, 5.0, root=TableRoot(learns=learns))
    params, values = prior.update(total, prior.start(K, "category")), []
    for _ in range(30):
        values.append(prior.surrogate(total, params))
        params = prior.update(total, params)
    assert np.diff(values).min() > -1e-9
    numbers = [float(params[n]) for n in ("concentration", "root_concentration", "top")]
    assert (numbers == [5.0, 5.0, 1.0]) is not learns


@pytest.mark.parametrize("seed", range(3))
def test_updates_end_where_the_surrogate_is_flat(seed: int) -> None:
    total, prior = counts_of(seed), TableRules(50.0, 50.0)
    params = prior.start(K, "category")
    for _ in range(1500):
        params = prior.update(total, params)
    names = ("concentration", "root_concentration", "top")
    at = np.array([float(params[name]) for name in names])

    def value(numbers: Array) -> float:
        arrays = {**params.arrays, **dict(zip(names, map(np.array, numbers), strict=True))}
        return prior.surrogate(total, type(params)(params.layout, arrays))

    # relative slopes of a function of size 100, by differences of 1e-6: rounding leaves 1e-7
    slope = slopes(value, at)[:2] * at[:2]
    is_inside = (at[:2] > 2e-6) & (at[:2] < 49.9)
    assert is_inside[0]
    np.testing.assert_allclose(slope[is_inside], 0.0, atol=1e-4)


@pytest.mark.parametrize("c", [0.6, 3.0])
def test_bound_is_below_what_all_trees_give(c: float) -> None:
    """For any posterior of trees: below its expected log probability given the same sticks."""
    rng = np.random.default_rng(2)
    prior = TableRules(c, 1.2, root=TableRoot(learns=False))
    drawn = rng.poisson(rng.gamma(0.5, 2.0, (5, K + K**3))).astype(float)
    chance = rng.dirichlet(np.full(5, 0.5))
    mean, present = chance @ drawn, chance @ (drawn > 0)
    rules = drawn[:, K:].reshape(5, K, K, K)
    with np.errstate(divide="ignore"):
        log_absent = np.log1p(-np.minimum(present, 1 - 1e-17))
        rows = np.log1p(-np.minimum(chance @ (rules.sum((2, 3)) > 0), 1 - 1e-17))
    # every posterior has as many roots
    drawn[:, 0] += drawn[:, :K].sum(1).max() - drawn[:, :K].sum(1)
    mean[:K] = chance @ drawn[:, :K]
    kind = np.column_stack([np.ones(K), mean[K:].reshape(K, -1).sum(1)])
    arrays: dict[str, Any] = {
        "root": mean[:K], "binary_rule": mean[K:].reshape(K, K, K), "kind": kind,
        "log_absent_root": log_absent[:K], "log_absent": log_absent[K:].reshape(K, K, K),
        "log_absent_row": rows,
    }  # fmt: skip
    total = Summary(prior.fields("category"), arrays)
    params = prior.start(K, "category")
    for _ in range(50):
        params = prior.update(total, params)
    of = prior.tables(params, K)
    sticks = StickPosteriors.of_tables(params["tables"], 1.2)
    value = sticks.bound(1.2) + prior._kinds(total)
    for p, n in zip(chance, drawn, strict=True):
        rule = log_gamma_rise(of["binary_rule"].pseudo, n[K:].reshape(K, K, K)).sum()
        rule -= log_gamma_rise(np.full(K, c), n[K:].reshape(K, -1).sum(1)).sum()
        root = log_gamma_rise(of["root"].pseudo, n[:K]).sum()
        value += p * (rule + root - float(log_gamma_rise(np.array(1.0), n[:K].sum())))
    assert prior.bound(total, params) <= value + 1e-9


def test_merged_categories_have_the_sum_of_their_shares_and_tables() -> None:
    prior, total = TableRules(), counts_of(0)
    params = prior.update(total, prior.start(K, "category"))
    merged = params.merge("category", 0, 2)
    for name in ("root", "tables"):
        assert merged[name][0] == pytest.approx(params[name][[0, 2]].sum())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"root": TableRoot(existence="exact")}, "grammars have existence='independent' only"),
        ({"concentration": 0.0}, "concentration"),
        ({"top_concentration": -1.0}, "top_concentration"),
        ({"kind_concentration": -1.0}, "kind_concentration"),
    ],
)
def test_bad_settings_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TableRules(**given)
