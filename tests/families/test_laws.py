"""Laws that every family obeys, run on every record of the register."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from registers import FAMILIES, FamilyCase, collect, random_shares
from scipy import sparse

from stickbreak import families
from stickbreak.data import Batch, Table, compact, measure
from stickbreak.stats import Summary

every_family = pytest.mark.parametrize("case", FAMILIES.values(), ids=FAMILIES.keys())
TEXTBOOK = [name for name, case in FAMILIES.items() if case.textbook is not None]
LAW = settings(max_examples=8, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
K = 3
RULES = ("mean_log", "log_mean", "mode")

# Sums of a hundred terms of size up to 1e3 in two orders: a few 1e-12.
ROUNDING = 1e-10


def random_counts(case: FamilyCase, seed: int) -> dict[str, np.ndarray]:
    return collect(case.family, case.rows, random_shares(case.rows.shape[0], K, seed))


def add(a: Any, b: Any, factor: float = 1.0) -> dict[str, np.ndarray]:
    """a + factor * b; what describes the others (anchors) stays."""
    return {name: a[name] if name.endswith("anchor") else a[name] + factor * b[name] for name in a}


def one_row(case: FamilyCase, row: int) -> dict[str, np.ndarray]:
    """Statistics of one row, counted once in every component."""
    return collect(case.family, case.rows[row : row + 1], np.ones((1, K)))


def evidence(case: FamilyCase, rule: str, counts: Any, row: int) -> np.ndarray:
    return getattr(case.family, rule)(counts).evidence(
        case.family.prepare(case.rows[row : row + 1])
    )[0]


def assert_counts(a: Any, b: Any, tolerance: float = ROUNDING) -> None:
    assert set(a) == set(b)
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=tolerance, atol=tolerance, err_msg=name)


# ---- the three laws ------------------------------------------------------------------------------
@every_family
@pytest.mark.parametrize(("value", "rule"), [("log_marginal", "mean_log"), ("log_mode", "mode")])
@given(seed=seeds, row=st.integers(0, 24))
@LAW
def test_derivative_along_a_row_is_its_evidence(
    case: FamilyCase, value: str, rule: str, seed: int, row: int
) -> None:
    counts, step, f = random_counts(case, seed), 1e-3, getattr(case.family, value)

    def rise(h: float) -> np.ndarray:
        return (f(add(counts, one_row(case, row), h)) - f(add(counts, one_row(case, row), -h))) / (
            2 * h
        )

    slope = (4 * rise(step / 2) - rise(step)) / 3
    # Extrapolated differences: truncation step**4 times a fifth derivative, rounding 1e-13 / step.
    np.testing.assert_allclose(slope, evidence(case, rule, counts, row), rtol=1e-7, atol=1e-7)


@every_family
@given(seed=seeds, row=st.integers(0, 24))
@LAW
def test_difference_along_a_row_is_its_predictive(case: FamilyCase, seed: int, row: int) -> None:
    counts, f = random_counts(case, seed), case.family.log_marginal
    rise = f(add(counts, one_row(case, row))) - f(counts)
    np.testing.assert_allclose(
        rise, evidence(case, "log_mean", counts, row), rtol=ROUNDING, atol=ROUNDING
    )


@every_family
def test_product_of_predictives_is_the_marginal(case: FamilyCase) -> None:
    n = case.rows.shape[0]
    for order in (np.arange(n), np.random.default_rng(1).permutation(n)):
        counts, total = case.family.zeros(K), np.zeros(K)
        for row in order:
            total += evidence(case, "log_mean", counts, row)
            counts = add(counts, one_row(case, row))
        np.testing.assert_allclose(total, case.family.log_marginal(counts), rtol=ROUNDING)


# ---- counts --------------------------------------------------------------------------------------
@every_family
@given(seed=seeds)
@LAW
def test_counts_add_over_parts_in_any_order(case: FamilyCase, seed: int) -> None:
    n = case.rows.shape[0]
    shares, order = random_shares(n, K, seed), np.random.default_rng(seed).permutation(n)
    whole = collect(case.family, case.rows, shares)
    first, second = (
        collect(case.family, case.rows[at], shares[at]) for at in (order[:9], order[9:])
    )
    assert_counts(add(first, second), whole)
    assert_counts(add(second, first), whole)


@every_family
def test_every_rule_collects_the_same_counts(case: FamilyCase) -> None:
    counts, shares = random_counts(case, 3), random_shares(case.rows.shape[0], K, 4)
    rows, expected = case.family.prepare(case.rows), collect(case.family, case.rows, shares)
    for rule in RULES:
        for layout in (np.asfortranarray, np.ascontiguousarray):
            out = case.family.zeros(K)
            getattr(case.family, rule)(counts).collect(rows, layout(shares), out)
            assert_counts(out, expected)


@every_family
def test_weighted_rows_are_repeated_rows(case: FamilyCase) -> None:
    n = case.rows.shape[0]
    repeats, shares = np.random.default_rng(2).integers(0, 4, n), random_shares(n, K, 5)
    at = np.repeat(np.arange(n), repeats)
    assert_counts(
        collect(case.family, case.rows, shares * repeats[:, None]),
        collect(case.family, case.rows[at], shares[at]),
    )


@every_family
@pytest.mark.parametrize("n_components", [1, 4])
def test_transpose_of_evidence_is_contiguous(case: FamilyCase, n_components: int) -> None:
    n = case.rows.shape[0]
    counts, rows = (
        collect(case.family, case.rows, random_shares(n, n_components, 6)),
        case.family.prepare(case.rows),
    )
    for rule in RULES:
        table = getattr(case.family, rule)(counts).evidence(rows)
        assert table.shape == (n, n_components)
        assert table.dtype == np.float64
        assert table.T.flags.c_contiguous


@every_family
@given(seed=seeds)
@LAW
def test_pairing_is_the_sum_of_shares_times_evidence(case: FamilyCase, seed: int) -> None:
    counts, shares = random_counts(case, seed), random_shares(case.rows.shape[0], K, seed + 1)
    rows, collected = case.family.prepare(case.rows), collect(case.family, case.rows, shares)
    for rule in RULES:
        scores = getattr(case.family, rule)(counts)
        paired = scores.pair(collected)
        if np.isnan(paired):
            # the only rule whose evidence need not be linear in the counts
            assert rule == "log_mean"
        else:
            expected = (shares * scores.evidence(rows)).sum()
            np.testing.assert_allclose(paired, expected, rtol=ROUNDING, atol=ROUNDING)


@every_family
@given(seed=seeds, keep=st.integers(0, 1))
@LAW
def test_merged_counts_are_counts_of_merged_shares(case: FamilyCase, seed: int, keep: int) -> None:
    shares = random_shares(case.rows.shape[0], K, seed)
    whole = Summary(case.family.fields("component"), collect(case.family, case.rows, shares))
    merged = np.delete(shares, 2, axis=1)
    merged[:, keep] += shares[:, 2]
    assert_counts(
        dict(whole.merge("component", keep, 2).arrays), collect(case.family, case.rows, merged)
    )


@pytest.mark.parametrize("name", ["gaussian", "diagonal", "fixed_variance"])
def test_merge_of_components_with_different_anchors_keeps_the_marginal(name: str) -> None:
    family, rows = FAMILIES[name].family, FAMILIES[name].rows
    layout, shares = family.fields("component"), np.eye(2)[np.arange(len(rows)) % 2]
    start = Summary(
        layout, {**family.zeros(2), "anchor": np.array([[0.0, 0.0, 0.0], [1.0, -1.0, 0.5]])}
    )
    out = {field: array.copy() for field, array in start.arrays.items()}
    family.mean_log(start).collect(family.prepare(rows), np.asfortranarray(shares), out)
    merged = Summary(layout, out).merge("component", 0, 1)
    expected = family.log_marginal(collect(family, rows, np.ones((len(rows), 1))))
    np.testing.assert_allclose(family.log_marginal(merged), expected, rtol=ROUNDING)


# ---- divergences ---------------------------------------------------------------------------------
@every_family
@given(seed=seeds)
@LAW
def test_bregman_is_positive_and_zero_only_for_equals(case: FamilyCase, seed: int) -> None:
    means = case.family.smoothed_mean(random_counts(case, seed))
    table = case.family.bregman(means, means)
    assert table.shape == (K, K)
    # a difference of terms of size up to 1e3
    np.testing.assert_allclose(np.diag(table), 0.0, atol=1e-9)
    # random shares: means that differ by about a tenth
    assert (table[~np.eye(K, dtype=bool)] > 1e-6).all()


@every_family
def test_divergence_is_the_bregman_divergence_of_single_rows(case: FamilyCase) -> None:
    n, rows = case.rows.shape[0], case.family.prepare(case.rows)
    means = case.family.smoothed_mean(collect(case.family, case.rows, np.eye(n)))
    table = case.family.bregman(means, means)
    for index in range(n):
        # Both are differences of terms of size up to 1e2.
        np.testing.assert_allclose(
            case.family.divergence(rows, index), table[:, index], rtol=1e-9, atol=1e-9
        )


# ---- symbols -------------------------------------------------------------------------------------
def test_missing_symbols_add_no_evidence_and_no_counts() -> None:
    case = FAMILIES["categorical"]
    holes = np.random.default_rng(7).random(case.rows.shape) < 0.4
    holes[0] = True
    rows, shares = np.where(holes, -1, case.rows), random_shares(len(case.rows), K, 8)
    counts, expected = collect(case.family, rows, shares), case.family.zeros(K)
    for d, at in [(0, 0), (1, 4)]:
        for row in np.flatnonzero(~holes[:, d]):
            expected["emission"][at + rows[row, d]] += shares[row]
            expected["emission_total"][d] += shares[row]
    assert_counts(counts, expected)
    for rule in RULES:
        scores = getattr(case.family, rule)(counts)
        table, full = scores.log_table, scores.evidence(case.family.prepare(rows))
        terms = [
            np.where(holes[:, [d]], 0.0, table[at + case.rows[:, d]]) for d, at in [(0, 0), (1, 4)]
        ]
        np.testing.assert_allclose(full, sum(terms), rtol=ROUNDING)
        assert (full[0] == 0.0).all()


def test_sparse_rows_give_what_dense_rows_give() -> None:
    dense, csr = FAMILIES["multinomial"], FAMILIES["multinomial_sparse"]
    counts = random_counts(dense, 9)
    assert_counts(random_counts(csr, 9), counts)
    for rule in RULES:
        scores = getattr(dense.family, rule)(counts)
        a, b = (scores.evidence(dense.family.prepare(case.rows)) for case in (dense, csr))
        np.testing.assert_allclose(a, b, rtol=ROUNDING, atol=ROUNDING)


@given(seed=seeds)
@LAW
def test_symbols_of_a_batch_give_the_same_evidence_and_counts(seed: int) -> None:
    rng, V = np.random.default_rng(seed), 60
    rows = sparse.csr_array(rng.poisson(0.15, (20, V)) * (np.arange(V) % 3 > 0))
    family = families.Multinomial(concentration=0.2).resolve(measure(Table(rows)))
    total = Summary(family.fields("topic"), collect(family, rows, random_shares(20, K, seed)))
    batch, shares = compact(Batch(0, rows[:4])), random_shares(4, K, seed)
    assert batch.symbols is not None
    own, small = total.restrict(batch.symbols), family.prepare(batch.rows)
    for rule in RULES:
        expected = getattr(family, rule)(total).evidence(family.prepare(rows[:4]))
        np.testing.assert_allclose(
            getattr(family, rule)(own).evidence(small), expected, rtol=ROUNDING, atol=ROUNDING
        )
    out = dict(own.empty().arrays)
    family.mean_log(own).collect(small, shares, out)
    grown = total + Summary(own.layout, out, index=batch.symbols)
    assert_counts(dict(grown.arrays), add(dict(total.arrays), collect(family, rows[:4], shares)))
    means = family.smoothed_mean(collect(family, rows[:4], np.eye(4)))
    np.testing.assert_allclose(
        family.divergence(small, 1), family.bregman(means, means)[:, 1], rtol=1e-9, atol=1e-9
    )


def test_one_column_of_symbols_may_be_restricted_too() -> None:
    rows = np.random.default_rng(10).integers(0, 30, (50, 1))
    family = families.Categorical(concentration=0.2, n_symbols=30).resolve(measure(Table(rows)))
    total = Summary(family.fields("state"), collect(family, rows, random_shares(50, K, 11)))
    symbols, renamed = np.unique(rows[:6], return_inverse=True)
    for rule in RULES:
        expected = getattr(family, rule)(total).evidence(family.prepare(rows[:6]))
        own = getattr(family, rule)(total.restrict(symbols)).evidence(
            family.prepare(renamed.reshape(-1, 1))
        )
        np.testing.assert_allclose(own, expected, rtol=ROUNDING)


# ---- for readers ---------------------------------------------------------------------------------
def expected_means(name: str, case: FamilyCase, w: np.ndarray) -> dict[str, Any]:
    """Posterior means of one component by name, from the oracle's posterior."""
    q, D = case.oracle.posterior(case.dense, w), case.rows.shape[1]
    if name == "gaussian":
        return {"mean": q[0], "covariance": q[3] / (q[2] - D - 1)}
    if name == "diagonal":
        return {"mean": q[0], "variance": q[3] / (q[2] - 2)}
    if name == "zero_mean":
        return {"covariance": q[1] / (q[0] - D - 1)}
    if name == "fixed_variance":
        return {"mean": q[0], "variance": case.oracle.v}
    if name == "categorical":
        return {"probability": np.array([np.append(q[0] / q[0].sum(), 0.0), q[1] / q[1].sum()])}
    if name == "bernoulli":
        return {"probability": q[0] / (q[0] + q[1])}
    if name == "product":
        gaussian, bernoulli, categorical, poisson = q
        return {
            "mean of columns 4, 0": gaussian[0],
            "covariance of columns 4, 0": gaussian[3] / (gaussian[2] - 3),
            "probability of columns 1, 3, 6": bernoulli[0] / (bernoulli[0] + bernoulli[1]),
            "probability of column 2": (categorical[0] / categorical[0].sum())[None],
            "rate of column 5": poisson[0] / poisson[1],
        }
    if name == "autoregressive":
        E = D - len(q[3])
        n, p = w.sum() + case.family.offset_strength, case.dense[:, -E:]
        average = (w @ p + case.family.offset_strength * case.family.context_mean) / n
        # V holds the raw squares; about the average and over all rows it is the contexts'
        # covariance
        covariance = (q[1][:E, :E] - n * np.outer(average, average)) / (
            w.sum() + case.family.mean_strength
        )
        return {
            "coefficients": q[0][:, :E],
            "intercept": q[0][:, E],
            "covariance": q[3] / (q[2] - len(q[3]) - 1),
            "context_mean": average,
            "context_covariance": covariance,
        }
    return {"rate": q[0] / q[1]} if name == "poisson" else {"probability": q / q.sum()}


@pytest.mark.parametrize("name", TEXTBOOK)
def test_describe_gives_posterior_means(name: str) -> None:
    case = FAMILIES[name]
    shares = random_shares(case.rows.shape[0], K, 12)
    found = case.family.describe(collect(case.family, case.rows, shares))
    for k in range(K):
        expected = expected_means(name, case, shares[:, k])
        assert set(found) == set(expected)
        for key, value in expected.items():
            assert found[key].shape == (K, *np.shape(value))
            np.testing.assert_allclose(found[key][k], value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", TEXTBOOK)
def test_samples_have_the_predictive_mean(name: str) -> None:
    case, n = FAMILIES[name], 4000
    shares = random_shares(case.rows.shape[0], K, 13)
    counts = collect(case.family, case.rows, shares)
    labels = np.random.default_rng(14).integers(0, K, n)
    drawn = case.family.sample(counts, labels, np.random.default_rng(15))
    assert drawn.shape == (n, case.rows.shape[1])
    for k in range(K):
        rows, means = drawn[labels == k].astype(float), expected_means(name, case, shares[:, k])
        if name == "categorical":
            rows = (rows[:, :, None] == np.arange(5)).reshape(len(rows), -1)
        elif name == "product":  # columns of the members, the symbol as indicators
            rows = np.column_stack(
                [rows[:, [4, 0, 1, 3, 6]], rows[:, [2]] == np.arange(5), rows[:, 5]]
            )
        elif name.startswith("multinomial"):
            rows = rows / rows.sum(1, keepdims=True)
        elif name == "autoregressive":  # values less what is expected after their contexts
            D = len(means["covariance"])
            means["mean"] = np.zeros(D)
            rows = rows[:, :D] - rows[:, D:] @ means["coefficients"].T - means["intercept"]
        expected = (
            np.zeros(3)
            if name == "zero_mean"
            else means.get("mean", means.get("probability", means.get("rate")))
        )
        if name == "product":
            expected = np.concatenate(
                [
                    np.ravel(value)
                    for key, value in means.items()
                    if not key.startswith("covariance")
                ]
            )
        error = rows.std(0) / np.sqrt(len(rows))
        # 5 sigma; 1e-12 for constants
        assert (np.abs(rows.mean(0) - np.ravel(expected)) <= 5 * error + 1e-12).all()
