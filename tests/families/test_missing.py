"""Rows with missing entries: 30 % of the entries removed from the rows of every family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fitting import MODELS, assert_never_drops, evidence, fit, random_start, slack
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.missing import Integrated, condition
from registers import FAMILIES, INCOMPLETE, FamilyCase, collect, random_shares
from scipy import stats

from stickbreak import families
from stickbreak.checks import check_family, check_model
from stickbreak.data import Table, measure
from stickbreak.inference import EM, BatchVB, HardEM, MemoizedVB
from stickbreak.initialize import from_plusplus, from_random

every_family = pytest.mark.parametrize("name", INCOMPLETE)
both = pytest.mark.parametrize("allocation", list(MODELS))
EXACT = [name for name, case in INCOMPLETE.items() if case.family.missing in ("exact", "rows")]
COMPLETED = [name for name, case in INCOMPLETE.items() if case.family.missing == "completed"]
RULES = ("mean_log", "log_mean", "mode")
LAW = settings(max_examples=8, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
K = 3

# Sums of a hundred terms of size up to 1e3 in two orders: a few 1e-12.
ROUNDING = 1e-10


def counts_of(case: FamilyCase, seed: int) -> dict[str, np.ndarray]:
    return collect(case.family, case.rows, random_shares(len(case.rows), K, seed))


def add(a: Any, b: Any, factor: float = 1.0) -> dict[str, np.ndarray]:
    return {name: a[name] if name == "anchor" else a[name] + factor * b[name] for name in a}


def test_every_family_says_what_missing_means() -> None:
    said = {
        name: case.family.missing
        for name, case in FAMILIES.items()
        if type(case.family).__name__ in families.__all__
    }
    whole = ("multinomial", "multinomial_sparse", "autoregressive")
    assert {said.pop(name) for name in whole} == {"rows"}
    assert {said.pop("gaussian"), said.pop("zero_mean")} == {"completed"}
    assert said.pop("product") == "mixed"
    assert set(said.values()) == {"exact"}


# ---- exact: entries that do not count ------------------------------------------------------------
@pytest.mark.parametrize("name", EXACT)
@given(seed=seeds)
@LAW
def test_marginal_and_evidence_equal_the_product_over_what_is_there(name: str, seed: int) -> None:
    """Brute force: for each column the closed-form marginal of its own observed values."""
    case = INCOMPLETE[name]
    shares = random_shares(len(case.rows), K, seed)
    counts, prepared = collect(case.family, case.rows, shares), case.family.prepare(case.rows)
    exact = [case.oracle.log_marginal(case.rows, shares[:, k]) for k in range(K)]
    np.testing.assert_allclose(case.family.log_marginal(counts), exact, rtol=ROUNDING)
    for rule, method in {
        "mean_log": "expected_log_likelihood",
        "log_mean": "log_predictive",
    }.items():
        found, judge = (
            getattr(case.family, rule)(counts).evidence(prepared),
            getattr(case.oracle, method),
        )
        for i in (0, 2, 7, 11):
            expected = [judge(case.rows[i], case.rows, shares[:, k]) for k in range(K)]
            np.testing.assert_allclose(found[i], expected, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("name", EXACT)
@given(seed=seeds, row=st.integers(0, 24))
@LAW
def test_the_laws_hold_for_rows_that_lack_entries(name: str, seed: int, row: int) -> None:
    case, step = INCOMPLETE[name], 1e-3
    counts, one = (
        counts_of(case, seed),
        collect(case.family, case.rows[row : row + 1], np.ones((1, K))),
    )
    prepared = case.family.prepare(case.rows[row : row + 1])
    for value, rule in (("log_marginal", "mean_log"), ("log_mode", "mode")):
        f = getattr(case.family, value)
        rise = [
            (f(add(counts, one, h)) - f(add(counts, one, -h))) / (2 * h) for h in (step / 2, step)
        ]
        found = getattr(case.family, rule)(counts).evidence(prepared)[0]
        # Extrapolated differences: truncation step**4 times a fifth derivative, rounding 1e-13 /
        # step.
        np.testing.assert_allclose((4 * rise[0] - rise[1]) / 3, found, rtol=1e-7, atol=1e-7)
    difference = case.family.log_marginal(add(counts, one)) - case.family.log_marginal(counts)
    found = case.family.log_mean(counts).evidence(prepared)[0]
    np.testing.assert_allclose(difference, found, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("name", EXACT)
def test_a_model_of_one_component_has_the_exact_evidence(name: str) -> None:
    case = INCOMPLETE[name]
    found = fit(MODELS["finite"](case.family, 1.0), BatchVB(max_iter=3, tol=0.0), case.rows, 1)
    assert found.bound == pytest.approx(
        case.oracle.log_marginal(case.rows, np.ones(len(case.rows))), rel=ROUNDING
    )


@pytest.mark.covering
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(("allocation", "n_components"), [("finite", 2), ("dp", 2), ("dp", 4)])
def test_bound_never_above_the_evidence(name: str, allocation: str, n_components: int) -> None:
    """Five rows: 2^5 labelings, or Bell(5) = 52 partitions."""
    case = INCOMPLETE[name]
    table, model = Table(case.rows[:5]), MODELS[allocation](case.family, 1.0)
    exact = evidence(case.oracle, table.rows, allocation, n_components)
    for seed in range(3):
        found = fit(
            model,
            BatchVB(max_iter=15, tol=0.0),
            table,
            random_start(model, table, n_components, seed),
        )
        assert found.trace.bound.max() <= exact + slack(exact)
    assert exact - found.bound < 40.0  # of about 50 nats


def test_nan_and_minus_one_are_the_same_symbol() -> None:
    family, rows = INCOMPLETE["categorical"].family, INCOMPLETE["categorical"].rows
    coded = np.where(np.isnan(rows), -1, rows).astype(np.int64)
    np.testing.assert_array_equal(family.prepare(rows), family.prepare(coded))
    np.testing.assert_array_equal(family.has_values(rows), family.has_values(coded))


def test_an_empty_document_counts_and_a_missing_one_does_not() -> None:
    family = families.Multinomial().resolve(measure(Table(np.ones((2, 3)))))
    rows = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [np.nan] * 3])
    counts = collect(family, rows, np.ones((3, 1)))
    assert counts["rows"] == [2.0]
    assert counts["emission_total"] == [3.0]


# ---- completed: a factor over what is missing ----------------------------------------------------
@pytest.mark.covering
@pytest.mark.parametrize("name", COMPLETED)
@pytest.mark.parametrize("holes", [[0], [2], [0, 2], [1, 2]])
def test_evidence_is_the_integral_over_what_is_missing(name: str, holes: list[int]) -> None:
    case = FAMILIES[name]
    counts, row = counts_of(case, 5), case.rows[4].copy()
    row[holes] = np.nan
    filled, log_step = Integrated(
        None, case.rows.mean(0), 2.0 * case.rows.std(0), n_points=250
    ).grid(row[None])
    for rule in RULES:
        scores = getattr(case.family, rule)(counts)
        exact = np.logaddexp.reduce(
            scores.evidence(case.family.prepare(filled[:, 0])) + log_step[:, None], axis=0
        )
        # 250 points for each entry of a smooth density, a tenth as wide across its ridge as along
        # it
        np.testing.assert_allclose(
            scores.evidence(case.family.prepare(row[None]))[0], exact, atol=1e-6
        )


@pytest.mark.parametrize("name", COMPLETED)
def test_predictive_is_the_marginal_student_t(name: str) -> None:
    case = INCOMPLETE[name]
    shares = random_shares(len(case.rows), K, 6)
    found = case.family.log_mean(collect(case.family, FAMILIES[name].rows, shares)).evidence(
        case.family.prepare(case.rows)
    )
    for k in range(K):
        q = case.oracle.posterior(FAMILIES[name].rows, shares[:, k])
        m, strength, n, B = q if name == "gaussian" else (np.zeros(3), np.inf, *q)
        dof = n - 3 + 1
        shape = B / dof * (1.0 if np.isinf(strength) else (strength + 1) / strength)
        for i, row in enumerate(case.rows):
            o = np.flatnonzero(~np.isnan(row))
            expected = (
                stats.multivariate_t.logpdf(row[o], m[o], shape[np.ix_(o, o)], dof)
                if len(o)
                else 0.0
            )
            assert found[i, k] == pytest.approx(expected, rel=ROUNDING, abs=ROUNDING)


@pytest.mark.parametrize("name", COMPLETED)
@pytest.mark.parametrize("rule", ["mean_log", "mode"])
def test_statistics_are_those_of_the_conditional_gaussian(name: str, rule: str) -> None:
    """Row by row from the precision matrix, in the user's units; local bound = the entropies of
    both factors.
    """
    case, shares = INCOMPLETE[name], random_shares(25, K, 7)
    scores = getattr(case.family, rule)(counts_of(case, 8))
    out = case.family.zeros(K)
    scores.collect(case.family.prepare(case.rows), np.asfortranarray(shares), out)
    z = (case.rows - getattr(case.family, "center", 0.0)) / case.family.scale
    entropy = 0.0
    for k in range(K):
        expected = np.zeros((4, 4))
        for i in np.flatnonzero(~np.isnan(z).all(1)):
            full, spread = z[i], np.zeros((3, 3))
            if np.isnan(z[i]).any():
                _, log_det, away, spread = condition(
                    scores.form.precision[k], z[i] - scores.form.mean[k]
                )
                full = away + scores.form.mean[k]
                lost = np.isnan(z[i])
                volume = lost.sum() * np.log(2 * np.pi * np.e) - log_det
                entropy += shares[i, k] * (0.5 * volume + np.log(case.family.scale[lost]).sum())
            one = np.concatenate([[1.0], full])
            expected += shares[i, k] * (np.outer(one, one) + np.pad(spread, (1, 0)))
        packed = np.concatenate([expected[0], expected[1:, 1:][np.triu_indices(3)]])
        np.testing.assert_allclose(out["moments"][k], packed, rtol=1e-9, atol=1e-9)
    total = (shares * scores.evidence(case.family.prepare(case.rows))).sum()
    assert total - scores.pair(out) == pytest.approx(entropy, rel=1e-9)


@pytest.mark.covering
@pytest.mark.parametrize("name", COMPLETED)
@both
def test_augmented_bound_never_above_the_evidence(name: str, allocation: str) -> None:
    """Four rows, two of which lack one entry: labelings or partitions, each with its integral."""
    case = FAMILIES[name]
    rows = case.rows[:4].copy()
    rows[1, 0] = rows[2, 2] = np.nan
    oracle = Integrated(case.oracle, case.rows.mean(0), 2.0 * case.rows.std(0), n_points=16)
    exact = evidence(oracle, rows, allocation, 2)
    model = MODELS[allocation](case.family, 1.0)
    for seed in range(3):
        found = fit(
            model,
            BatchVB(max_iter=25, tol=0.0),
            Table(rows),
            random_start(model, Table(rows), 2, seed),
        )
        assert found.trace.bound.max() <= exact
    assert exact - found.bound < 15.0  # of about 30 nats: the bound is below, not far below


# ---- every family --------------------------------------------------------------------------------
@pytest.mark.covering
@every_family
@both
@pytest.mark.parametrize("n_batches", [1, 3])
def test_bound_never_drops(name: str, allocation: str, n_batches: int) -> None:
    """At any visit, once every batch has been seen."""
    case = INCOMPLETE[name]
    engine = MemoizedVB(n_batches=n_batches, max_iter=12, tol=0.0, trace_visits=True)
    trace = fit(MODELS[allocation](case.family, 1.0), engine, case.rows, 4, seed=3).trace
    assert len(trace.visits) == 11 * n_batches + 1
    assert_never_drops(trace.visits)
    assert_never_drops(trace.bound)


@pytest.mark.covering
@every_family
@both
@pytest.mark.parametrize(
    "engine", [EM(max_iter=20, tol=0.0), HardEM(max_iter=20, tol=0.0)], ids=["em", "hard-em"]
)
def test_em_objective_never_drops(name: str, allocation: str, engine: Any) -> None:
    case = INCOMPLETE[name]
    assert_never_drops(fit(MODELS[allocation](case.family, 1.0), engine, case.rows, 3).trace.bound)


@pytest.mark.few(2)
@every_family
def test_models_pass_their_battery(name: str) -> None:
    """Also: the same bits with one and two threads, and when resumed."""
    case = INCOMPLETE[name]
    model, table = MODELS["dp"](case.family, 1.0), Table(case.rows)
    start = from_plusplus(model, table, 3, np.random.default_rng(1))
    check_model(model, table, start, n_batches=3, max_iter=4)
    assert start.seed.n_units > 0


@every_family
def test_a_missing_row_says_nothing(name: str) -> None:
    case = INCOMPLETE[name]
    nothing = np.full((3, case.rows.shape[1]), np.nan)
    counts = counts_of(case, 9)
    for rule in RULES:
        found = getattr(case.family, rule)(counts).evidence(case.family.prepare(nothing))
        np.testing.assert_allclose(found, 0.0, atol=1e-12)
    more = add(counts, collect(case.family, nothing, np.ones((3, K))))
    np.testing.assert_allclose(
        case.family.log_marginal(more), case.family.log_marginal(counts), rtol=1e-14
    )
    np.testing.assert_array_equal(
        case.family.has_values(np.concatenate([nothing, FAMILIES[name].dense])), np.arange(28) >= 3
    )


@every_family
@pytest.mark.parametrize("layout", [np.asfortranarray, np.ascontiguousarray])
def test_blocks_of_any_mix_add_up(name: str, layout: Any) -> None:
    """Complete, partly missing and missing rows together or apart; evidence is contiguous by
    component.
    """
    case = INCOMPLETE[name]
    counts, shares = counts_of(case, 10), layout(random_shares(len(case.rows), K, 11))
    for rule in RULES:
        scores, whole, parts = (
            getattr(case.family, rule)(counts),
            case.family.zeros(K),
            case.family.zeros(K),
        )
        table = scores.evidence(case.family.prepare(case.rows))
        assert table.shape == (len(case.rows), K)
        assert table.T.flags.c_contiguous
        scores.collect(case.family.prepare(case.rows), shares, whole)
        for i in range(len(case.rows)):
            row = case.family.prepare(case.rows[i : i + 1])
            np.testing.assert_allclose(
                scores.evidence(row)[0], table[i], rtol=ROUNDING, atol=ROUNDING
            )
            scores.collect(row, shares[i : i + 1], parts)
        for field, value in parts.items():
            np.testing.assert_allclose(
                value, whole[field], rtol=ROUNDING, atol=ROUNDING, err_msg=field
            )


@every_family
def test_weight_two_equals_two_rows(name: str) -> None:
    case = INCOMPLETE[name]
    often = np.where(np.arange(25) % 3 == 0, 2, 1)
    shares = random_shares(25, K, 12)
    weighted = collect(case.family, case.rows, shares * often[:, None])
    at = np.repeat(np.arange(25), often)
    repeated = collect(case.family, case.rows[at], shares[at])
    for field, value in weighted.items():
        np.testing.assert_allclose(
            value, repeated[field], rtol=ROUNDING, atol=ROUNDING, err_msg=field
        )


# ---- scale, starts -------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["float64", "float32", "memmap"])
@pytest.mark.parametrize("is_weighted", [False, True], ids=["plain", "weighted"])
def test_measure_leaves_missing_entries_out(
    kind: str, is_weighted: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stickbreak.data.scale.SCAN_VALUES", 64)  # several pieces, some complete
    rng = np.random.default_rng(19)
    X = rng.normal(5.0, 2.0, (57, 4)).astype(np.float32).astype(float)
    X[20:, :][rng.random((37, 4)) < 0.4] = np.nan
    rows: Any = X.astype(np.float32) if kind == "float32" else X
    if kind == "memmap":
        np.save(tmp_path / "x.npy", X)
        rows = np.load(tmp_path / "x.npy", mmap_mode="r")
    w = rng.integers(0, 4, 57).astype(float) if is_weighted else np.ones(57)
    scale = measure(Table(rows, repeats=w if is_weighted else None), allow_missing=True)
    for d in range(4):
        there = ~np.isnan(X[:, d])
        x, v = X[there, d], w[there]
        expected = [v.sum(), np.average(x, weights=v), np.average(x**2, weights=v), x.max()]
        np.testing.assert_allclose(
            [scale.seen[d], scale.mean[d], scale.square[d], scale.largest[d]], expected, rtol=1e-12
        )
        assert scale.variance[d] == pytest.approx(
            np.average((x - expected[1]) ** 2, weights=v), rel=1e-12
        )
    assert scale.n_units == w.sum()


def test_measure_refuses_infinity_among_missing_entries() -> None:
    X = np.full((10, 2), np.nan)
    X[7, 1] = -np.inf
    with pytest.raises(ValueError, match="row 7, column 1 is -inf; values must be finite"):
        measure(Table(X), allow_missing=True)
    with pytest.raises(ValueError, match="row 0, column 0 is nan"):
        measure(Table(X[:7]))


def test_a_column_without_values_is_warned_about_once() -> None:
    X = np.random.default_rng(20).normal(size=(20, 3))
    X[:, 1] = np.nan
    with pytest.warns(Warning, match="column 1: no value in any row") as caught:
        family = families.Gaussian().resolve(measure(Table(X), allow_missing=True))
    assert len(caught) == 1
    assert (family.mean[1], family.scale[1]) == (0.0, 1.0)


@pytest.mark.parametrize("start", [from_plusplus, from_random])
def test_rows_without_entries_start_no_component(start: Any) -> None:
    rows = np.full((40, 2), np.nan)
    rows[[5, 17, 31]] = [[0.0, 0.0], [5.0, np.nan], [np.nan, 9.0]]
    family = families.DiagonalGaussian(mean=0.0, variance=1.0).resolve(
        measure(Table(rows), allow_missing=True)
    )
    for seed in range(5):
        found = start(
            MODELS["finite"](family, 1.0), Table(rows), 3, np.random.default_rng(seed)
        ).seed
        seen = found["moments"][:, 0][:, None] - found["missing"]
        assert (seen.sum(1) > 0.5).all()  # all three components have an entry


@pytest.mark.parametrize("name", [n for n in INCOMPLETE if n not in ("multinomial", "product")])
def test_seeding_reads_incomplete_rows(name: str) -> None:
    """Divergences are finite, zero from a row to itself, and those of the complete rows where
    nothing is missing.
    """
    case, whole = INCOMPLETE[name], FAMILIES[name].rows
    prepared, complete = case.family.prepare_seeding(case.rows), case.family.prepare_seeding(whole)
    full = np.flatnonzero((np.asarray(case.rows) == whole).all(1))
    assert len(full) >= 3
    for index in full[:3]:
        found = case.family.divergence(prepared, int(index))
        assert np.isfinite(found).all()
        assert (found >= 0).all()
        assert found[index] == pytest.approx(0.0, abs=1e-12)
        np.testing.assert_allclose(
            found[full], case.family.divergence(complete, int(index))[full], rtol=1e-9, atol=1e-12
        )


# ---- the battery notices -------------------------------------------------------------------------
class CountsMissing(families.Bernoulli):
    """Reads a missing entry as a zero."""

    def prepare(self, rows: Any) -> Any:
        return super().prepare(np.nan_to_num(rows))


class FillsIn(families.Gaussian):
    """Puts the centre where an entry is missing."""

    def prepare(self, rows: Any) -> Any:
        return super().prepare(
            np.where(
                np.isnan(rows).any() & np.isnan(rows) & ~np.isnan(rows).all(), self.center, rows
            )
        )


def test_the_battery_catches_families_that_do_other_than_they_say() -> None:
    with pytest.raises(AssertionError, match="missing row must have no mean_log evidence"):
        check_family(CountsMissing(), FAMILIES["bernoulli"].rows)
    with pytest.raises(AssertionError, match="a missing entry must be integrated over"):
        check_family(FillsIn(), FAMILIES["gaussian"].rows)
