"""Missing entries through the estimators: what is accepted, what is refused, and what is put in
their place.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimator_cases import CASES
from registers import remove_entries
from scipy import sparse, stats
from sklearn.utils import get_tags

import stickbreak as sb
from stickbreak.families.base import BaseFamily

# which leaves rows out, and warns: its own tests
NAMES = [name for name in CASES if name != "autoregressive"]


def incomplete(name: str, share: float = 0.3, seed: int = 0) -> np.ndarray:
    """The rows of a case with NaN in 30 % of the entries; in 30 % of the rows for counts."""
    return remove_entries(CASES[name].rows, share, seed, whole_rows=name == "multinomial")


# ---- fitting -------------------------------------------------------------------------------------
@pytest.mark.few(4)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cls", [sb.Mixture, sb.DPMixture])
def test_every_family_is_fitted_and_its_bound_never_drops(cls, name):
    rows = incomplete(name)
    model = cls(3, family=name, random_state=0).fit(rows)
    bound = model.trace_.bound
    assert np.diff(bound).min() >= -1e-10 * np.abs(bound).max()
    assert model.counts_.sum() == pytest.approx(len(rows), rel=1e-12)
    np.testing.assert_array_equal(model.labels_, model.predict(rows))
    np.testing.assert_allclose(model.predict_proba(rows).sum(1), 1.0, rtol=1e-12)
    assert np.isfinite(model.score(rows))
    # nothing is there, nothing to pay
    assert model.score_samples(rows)[2] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_clear_groups_are_found_with_a_third_of_the_entries_gone(name):
    case, rows = CASES[name], incomplete(name)
    model = sb.Mixture(3, family=name, random_state=0, n_init=3).fit(rows)
    says = ~np.isnan(rows).all(1)
    agree = np.zeros((3, 3))
    np.add.at(agree, (case.groups[says], model.labels_[says]), 1)
    # two columns: one may be all
    assert agree.max(1).sum() / says.sum() > (0.6 if name in ("zero-mean", "poisson") else 0.75)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_complete_rows_reads_incomplete_ones(name):
    model, rows = sb.Mixture(3, family=name, random_state=0).fit(CASES[name].rows), incomplete(name)
    whole = ~np.isnan(rows).any(1)
    assert whole.any()
    np.testing.assert_array_equal(
        model.predict(rows)[whole], model.predict(CASES[name].rows)[whole]
    )
    found, expected = model.score_samples(rows), model.score_samples(CASES[name].rows)
    np.testing.assert_allclose(found[whole], expected[whole], rtol=1e-10)
    # probabilities: less said, more likely
    if name in ("categorical", "bernoulli", "poisson", "multinomial"):
        assert (found >= expected - 1e-12).all()
    before = model.counts_.sum()
    assert model.partial_fit(rows).counts_.sum() == pytest.approx(before + len(rows), rel=1e-12)
    assert np.isfinite(model.score(rows))


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_threads_changes_nothing(name):
    rows = np.concatenate(
        [incomplete(name, seed=s) for s in range(1 + 20_000 // len(CASES[name].rows))]
    )
    assert len(rows) > 2 * 8192  # two lanes
    one, two = (
        sb.Mixture(
            2, family=name, random_state=0, n_jobs=n, inference=sb.BatchVB(max_iter=2, tol=10.0)
        ).fit(rows)
        for n in (1, 2)
    )
    assert one.lower_bound_ == two.lower_bound_
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.impute(rows), two.impute(rows))


@pytest.mark.parametrize("name", ["gaussian", "diagonal", "poisson"])
def test_data_on_disk_give_what_data_in_memory_give(name, tmp_path):
    rows = incomplete(name)
    np.save(tmp_path / "rows.npy", rows)
    engine = sb.MemoizedVB(n_batches=3)
    mapped, held = (
        sb.Mixture(3, family=name, inference=engine, random_state=0).fit(X)
        for X in (tmp_path / "rows.npy", rows)
    )
    assert mapped.lower_bound_ == held.lower_bound_
    np.testing.assert_array_equal(mapped.predict(tmp_path / "rows.npy"), held.labels_)
    np.testing.assert_array_equal(mapped.impute(str(tmp_path / "rows.npy")), held.impute(rows))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_data_frames_with_gaps_are_read(make):
    rows = incomplete("gaussian")
    columns = [[None if np.isnan(v) else v for v in rows[:, d]] for d in range(2)]
    frame = make({"height": columns[0], "width": columns[1]})
    model = sb.Mixture(3, random_state=0).fit(frame)
    np.testing.assert_array_equal(model.labels_, sb.Mixture(3, random_state=0).fit(rows).labels_)
    assert not np.isnan(model.impute(frame)).any()


def test_weights_and_labels_go_with_missing_entries():
    rows = incomplete("gaussian")
    often = np.where(np.arange(len(rows)) % 3 == 0, 2, 1)
    labels = np.where(np.arange(len(rows)) < 5, 1, -1)
    engine = sb.BatchVB(tol=1e-13)  # one component: one optimum, from whatever row the fit begins
    weighted = sb.Mixture(1, inference=engine).fit(rows, sample_weight=often)
    repeated = sb.Mixture(1, inference=engine).fit(np.repeat(rows, often, axis=0))
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_, rel=1e-9)
    guided = sb.Mixture(3, random_state=0).fit(rows, labels=labels)
    # row 2 has no entry at all
    assert (guided.component_ids_[guided.predict_proba(rows[:5]).argmax(1)] == 1).all()


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_model_answers_with_the_same_bits(name, tmp_path):
    rows = incomplete(name)
    still = sb.MemoizedVB(moves=None)
    model = sb.DPMixture(3, family=name, inference=still, random_state=0).fit(rows)
    model.save(tmp_path / "m.stickbreak")
    loaded = sb.load(tmp_path / "m.stickbreak")
    for method in ("score_samples", "predict_proba", "impute"):
        np.testing.assert_array_equal(getattr(loaded, method)(rows), getattr(model, method)(rows))


@pytest.mark.slow  # `test_sklearn.py` has it for arrays without gaps
def test_an_array_with_gaps_leaves_sklearn_alone():
    code = (
        "import sys, numpy as np, stickbreak as sb\n"
        "X = np.random.default_rng(0).normal(size=(50, 2))\n"
        "X[::3, 0] = np.nan\n"
        "model = sb.Mixture(1, random_state=0).fit(X)\n"
        "model.predict(X), model.score(X), model.impute(X)\n"
        "sys.exit('sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- refused, warned about -----------------------------------------------------------------------
class Strict(sb.Gaussian):
    """A family that knows no missing entries."""

    missing = BaseFamily.missing


@pytest.mark.parametrize("use", ["fit", "predict", "score", "partial_fit", "impute"])
def test_a_family_that_knows_none_refuses_missing_entries(use, tmp_path):
    rows = incomplete("gaussian")
    model = sb.Mixture(2, family=Strict(), random_state=0)
    if use != "fit":
        model.fit(CASES["gaussian"].rows)
        np.testing.assert_array_equal(model.impute(CASES["gaussian"].rows), CASES["gaussian"].rows)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        getattr(model, use)(rows)
    np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(ValueError, match=r"row \d+, column \d is nan; values must be finite"):
        getattr(model, use)(tmp_path / "rows.npy")
    assert not get_tags(model).input_tags.allow_nan
    assert get_tags(sb.Mixture()).input_tags.allow_nan
    assert get_tags(sb.DPMixture(family=sb.Poisson())).input_tags.allow_nan


@pytest.mark.parametrize("use", ["fit", "predict", "impute"])
def test_infinity_among_missing_entries_is_refused(use):
    rows = incomplete("gaussian")
    rows[7, 1] = np.inf
    model = sb.Mixture(2, random_state=0)
    if use != "fit":
        model.fit(CASES["gaussian"].rows)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        getattr(model, use)(rows)


def test_a_part_of_a_row_of_counts_is_refused():
    rows = CASES["multinomial"].rows.astype(float)
    rows[7, 1] = np.nan
    message = (
        "row 7, column 1 is missing, but a row of counts has a total only if all are known; "
        ".*'poisson'"
    )
    with pytest.raises(ValueError, match=message):
        sb.Mixture(2, family="multinomial").fit(rows)
    with pytest.raises(ValueError, match=message):
        sb.Mixture(2, family="multinomial", random_state=0).fit(CASES["multinomial"].rows).predict(
            rows
        )
    with pytest.raises(ValueError, match=r"NaN|nan"):
        sb.Mixture(2, family="multinomial").fit(sparse.csr_array(rows))


@pytest.mark.parametrize("name", [n for n in NAMES if n != "multinomial"])
def test_a_column_without_values_is_warned_about_and_fitted(name):
    rows = np.column_stack([CASES[name].rows, np.full(len(CASES[name].rows), np.nan)])
    with pytest.warns(sb.DataWarning, match=f"column {rows.shape[1] - 1}: no value in any row"):
        model = sb.Mixture(3, family=name, random_state=0).fit(rows)
    assert np.isfinite(model.lower_bound_)
    assert np.isfinite(model.impute(rows)).all()


def test_a_table_without_values_is_warned_about_and_fitted():
    with pytest.warns(sb.DataWarning, match="columns 0, 1: no value"):
        model = sb.Mixture(2, random_state=0).fit(np.full((5, 2), np.nan))
    assert np.isfinite(model.lower_bound_)


# ---- imputation ----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_imputed_rows_are_complete_and_keep_what_was_there(name):
    rows = incomplete(name)
    if name == "categorical":
        rows[np.isnan(rows)] = -1
    model = sb.Mixture(3, family=name, random_state=0).fit(rows)
    found, there = model.impute(rows), rows >= 0 if name == "categorical" else ~np.isnan(rows)
    np.testing.assert_array_equal(found[there], rows[there])
    assert np.isfinite(found).all()
    shares = model.predict_proba(rows)
    if name in ("diagonal", "fixed-variance", "bernoulli", "poisson"):
        expected = (
            shares
            @ model.posterior_[{"bernoulli": "probability", "poisson": "rate"}.get(name, "mean")]
        )
        np.testing.assert_allclose(found[~there], expected[~there], rtol=1e-12)
    elif name == "categorical":
        best = np.einsum("nk,kdv->ndv", shares, model.posterior_["probability"]).argmax(2)
        np.testing.assert_array_equal(found[~there], best[~there])
    elif name == "multinomial":
        # every row has 30 tokens
        np.testing.assert_allclose(found[~there.all(1)].sum(1), 30.0, rtol=1e-9)
    complete = CASES[name].rows.astype(float)
    np.testing.assert_array_equal(model.impute(complete), complete)


def test_imputation_of_sparse_counts_changes_nothing():
    rows = sparse.csr_array(CASES["multinomial"].rows.astype(float))
    model = sb.Mixture(2, family="multinomial", random_state=0).fit(rows)
    assert (model.impute(rows) != rows).nnz == 0


def test_one_full_gaussian_imputes_by_regression():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 3)) + [5.0, -3.0, 1e3]
    model = sb.Mixture(1).fit(X)
    m, C = model.means_[0], model.covariances_[0]
    found = model.impute([[np.nan, -2.0, 1001.0], [4.0, np.nan, np.nan], [np.nan] * 3])
    assert found[0, 0] == pytest.approx(
        m[0] + C[0, 1:] @ np.linalg.solve(C[1:, 1:], [-2.0 - m[1], 1001.0 - m[2]]), rel=1e-9
    )
    np.testing.assert_allclose(found[1, 1:], m[1:] + C[1:, 0] / C[0, 0] * (4.0 - m[0]), rtol=1e-9)
    np.testing.assert_allclose(found[2], m, rtol=1e-12)


# Two clusters like those of the Old Faithful geyser: length of an eruption, and wait for the next,
# in minutes.
SHARE = np.array([0.36, 0.64])
MEANS = np.array([[2.04, 54.5], [4.29, 80.0]])
COVARIANCES = np.array([[[0.069, 0.44], [0.44, 33.7]], [[0.170, 0.94], [0.94, 36.0]]])


def true_imputation(rows: np.ndarray) -> np.ndarray:
    """Conditional means of the missing entries under the model that made the rows."""
    filled = rows.copy()
    for i in np.flatnonzero(np.isnan(rows).any(1)):
        o, m = (np.flatnonzero(at) for at in (~np.isnan(rows[i]), np.isnan(rows[i])))
        log_weight, means = np.log(SHARE), MEANS[:, m].copy()
        for k in range(2) if len(o) else ():
            block = COVARIANCES[k][np.ix_(o, o)]
            log_weight[k] += stats.multivariate_normal.logpdf(rows[i, o], MEANS[k, o], block)
            means[k] += COVARIANCES[k][np.ix_(m, o)] @ np.linalg.solve(
                block, rows[i, o] - MEANS[k, o]
            )
        filled[i, m] = np.exp(log_weight - np.logaddexp.reduce(log_weight)) @ means
    return filled


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "make",
    [lambda: sb.Mixture(2, random_state=0), lambda: sb.DPMixture(6, random_state=0)],
    ids=["finite", "dp"],
)
def test_imputation_error_is_near_that_of_the_true_model(make: Any, seed: int):
    """272 rows, 30 % of the entries gone: within 5 % of the conditional mean under the truth (0.5 %
    measured on average).
    """
    rng = np.random.default_rng(seed)
    groups = rng.choice(2, 272, p=SHARE)
    whole = np.array([rng.multivariate_normal(MEANS[k], COVARIANCES[k]) for k in groups])
    holes = rng.random(whole.shape) < 0.3
    rows = np.where(holes, np.nan, whole)
    error = [
        np.sqrt((((f(rows) - whole) / whole.std(0))[holes] ** 2).mean())
        for f in (make().fit(rows).impute, true_imputation)
    ]
    assert error[0] <= 1.05 * error[1]
