"""Rows with missing entries far from the centre: moments about anchors, and clusters a million
standard deviations apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fitting import MODELS, assert_never_drops, fit, random_start
from oracles import conjugate
from oracles.missing import Columns, nw_partial
from registers import INCOMPLETE, collect, random_shares

from stickbreak import families
from stickbreak.data import Table, measure
from stickbreak.inference import BatchVB
from stickbreak.stats import Field, Reanchor, Summary, shift_moments

RULES = ("mean_log", "log_mean", "mode")
K = 3


def test_shifted_moments_of_columns_with_missing_entries() -> None:
    """Three columns: as many squares and missing entries as a packed triangle has products."""
    rng = np.random.default_rng(13)
    z, seen, shift = rng.normal(size=(40, 3)), rng.random((40, 3)) < 0.6, rng.normal(size=(1, 3))

    def moments(about: np.ndarray) -> np.ndarray:
        away = (z - about) * seen
        return np.concatenate([[40.0], away.sum(0), (away**2).sum(0)])[None]

    missing = (~seen).sum(0)[None].astype(float)
    np.testing.assert_allclose(
        shift_moments(moments(0 * shift), shift, missing), moments(shift), rtol=1e-12, atol=1e-12
    )
    layout = {
        "moments": Field(("component", None), about="anchor", missing="missing"),
        "anchor": Field(("component", None), additive=False, merge="keep"),
        "missing": Field(("component", None)),
    }
    arrays = {"moments": moments(0 * shift), "anchor": 0 * shift, "missing": missing}
    two = Summary(
        layout,
        {
            n: np.concatenate([a, b])
            for (n, a), b in zip(arrays.items(), (moments(shift), shift, missing), strict=True)
        },
    )
    np.testing.assert_allclose(
        two.merge("component", 0, 1)["moments"], 2 * moments(0 * shift), rtol=1e-12, atol=1e-12
    )
    moved = Reanchor("anchor", np.concatenate([shift, 0 * shift]))(two)
    np.testing.assert_allclose(
        moved["moments"],
        np.concatenate([moments(shift), moments(0 * shift)]),
        rtol=1e-12,
        atol=1e-12,
    )


@pytest.mark.parametrize("name", ["diagonal", "fixed_variance"])
def test_moved_anchors_keep_everything(name: str) -> None:
    case = INCOMPLETE[name]
    total = Summary(
        case.family.fields("component"), collect(case.family, case.rows, random_shares(25, K, 14))
    )
    moved = Reanchor("anchor", np.random.default_rng(15).normal(size=(K, 3)))(total)
    prepared = case.family.prepare(case.rows)
    np.testing.assert_allclose(
        case.family.log_marginal(moved), case.family.log_marginal(total), rtol=1e-10
    )
    for rule in RULES:
        a, b = (getattr(case.family, rule)(counts) for counts in (total, moved))
        np.testing.assert_allclose(a.evidence(prepared), b.evidence(prepared), rtol=1e-9, atol=1e-9)
    found = case.family.mean_log(moved)
    out, shares = (
        {n: np.zeros_like(v) if n != "anchor" else v for n, v in moved.arrays.items()},
        random_shares(25, K, 14),
    )
    found.collect(prepared, np.asfortranarray(shares), out)
    np.testing.assert_allclose(out["moments"], moved["moments"], rtol=1e-9, atol=1e-9)
    assert found.pair(out) == pytest.approx(
        float((shares * found.evidence(prepared)).sum()), rel=1e-9
    )


FAR_LABELS = np.repeat(np.arange(3), 12)


def far_rows() -> np.ndarray:
    """Three correlated clusters a million standard deviations apart, far from the origin."""
    rng = np.random.default_rng(16)
    apart = 1e6 * np.array([[0.0, 0.0, 0.0], [1.0, -0.4, 0.7], [-0.6, 1.0, 0.2]]) + 1e6
    mixing = np.array([[1.0, 0.0, 0.0], [0.5, 0.9, 0.0], [-0.3, 0.4, 0.8]])
    return (rng.normal(size=(36, 3)) @ mixing.T + apart[FAR_LABELS]) * np.array([1.0, 0.3, 20.0])


def after_a_lap(family: Any, rows: np.ndarray) -> Summary:
    """Hard counts about the anchors that the first lap's upkeep moves to."""
    total = Summary(family.fields("component"), family.zeros(3))
    for _ in range(2):
        out = {n: a.copy() for n, a in total.empty().arrays.items()}
        family.mean_log(total).collect(
            family.prepare(rows), np.asfortranarray(np.eye(3)[FAR_LABELS]), out
        )
        total = Summary(total.layout, out)
        edit = family.refine(total)
        if edit is None:
            break
        total = edit(total.empty())
    out = {n: a.copy() for n, a in total.empty().arrays.items()}
    family.mean_log(total).collect(
        family.prepare(rows), np.asfortranarray(np.eye(3)[FAR_LABELS]), out
    )
    return Summary(total.layout, out)


@pytest.mark.parametrize("strength", [1e-15, 0.01])
@pytest.mark.parametrize("name", ["diagonal", "fixed_variance"])
def test_far_columns_equal_extended_precision(name: str, strength: float) -> None:
    rows = np.where(np.random.default_rng(17).random((36, 3)) < 0.3, np.nan, far_rows())
    mean, variance = np.round(np.nanmean(rows, axis=0)), np.array([1.0, 0.09, 400.0])
    if name == "diagonal":
        family: Any = families.DiagonalGaussian(
            mean=mean, mean_strength=strength, variance=variance
        )
        parts = [
            conjugate.DiagonalGaussian(mean[[d]], strength, 4.0, 2.0 * variance[[d]])
            for d in range(3)
        ]
    else:
        family = families.FixedVarianceGaussian(
            mean=mean, mean_strength=strength, variance=variance
        )
        parts = [
            conjugate.FixedVarianceGaussian(variance[[d]], mean[[d]], strength) for d in range(3)
        ]
    family, oracle = family.resolve(measure(Table(rows), allow_missing=True)), Columns(tuple(parts))
    total = after_a_lap(family, rows)
    assert (total["anchor"] != 0).any()
    groups = [rows[k == FAR_LABELS] for k in range(3)]
    exact = [oracle.log_marginal_mp(group, np.ones(12)) for group in groups]
    np.testing.assert_allclose(family.log_marginal(total), exact, rtol=1e-9, atol=12e-6)
    for rule, method in {
        "mean_log": "expected_log_likelihood_mp",
        "log_mean": "log_predictive_mp",
    }.items():
        found = getattr(family, rule)(total).evidence(family.prepare(rows))
        for i in (0, 5, 13, 20, 27, 33):
            k = FAR_LABELS[i]
            # the promise: 1e-6 nats; a known variance with a strong pull has up to 1e6 nats, of
            # which 1e-12
            assert found[i, k] == pytest.approx(
                getattr(oracle, method)(rows[i], groups[k], np.ones(12)), rel=1e-12, abs=1e-6
            )


@pytest.mark.few(1)
@pytest.mark.parametrize("strength", [1e-15, 0.01])
def test_far_full_covariances_equal_extended_precision(strength: float) -> None:
    """Complete rows are counted, rows that lack entries are judged and completed."""
    rows = far_rows()
    mean, variance = np.round(rows.mean(0)), np.array([1.0, 0.09, 400.0])
    family = families.Gaussian(
        mean=mean, mean_strength=strength, dof=6.0, covariance=variance
    ).resolve(measure(Table(rows)))
    oracle = conjugate.Gaussian(mean, strength, 6.0, 2.0 * np.diag(variance))
    total = after_a_lap(family, rows)
    for holes in ([0], [2], [0, 1], [1, 2]):
        partly = rows[[3, 15, 30]].copy()
        partly[:, holes] = np.nan
        judged = [
            getattr(family, rule)(total).evidence(family.prepare(partly))
            for rule in ("mean_log", "log_mean")
        ]
        filled = family.impute(total, partly, np.eye(3))
        for k in range(3):
            expected, student, conditional = nw_partial(oracle, partly[k], rows[k == FAR_LABELS])
            assert judged[0][k, k] == pytest.approx(float(expected), abs=1e-6)
            assert judged[1][k, k] == pytest.approx(float(student), abs=1e-6)
            # 1e-6 standard deviations of values that the data hold to 1e-10
            away = (filled[k, holes] - [float(v) for v in conditional]) / np.sqrt(variance[holes])
            np.testing.assert_allclose(away, 0.0, atol=1e-6)


@pytest.mark.parametrize(
    "family",
    [families.Gaussian(covariance=1.0), families.DiagonalGaussian(variance=1.0)],
    ids=["full", "diagonal"],
)
def test_a_fit_of_far_clusters_equals_that_of_near_ones(family: Any) -> None:
    """Clusters 40 and a million standard deviations apart, 30 % missing: no row is in doubt, so
    that the bounds agree.
    """
    rng, bounds = np.random.default_rng(18), []
    noise, holes = rng.normal(size=(60, 3)), rng.random((60, 3)) < 0.3
    for offset in (40.0, 1e6):
        rows = np.where(
            holes,
            np.nan,
            noise + offset * np.repeat([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], 30, axis=0),
        )
        mine = replace(family, mean=0.0, mean_strength=1e-20).resolve(
            measure(Table(rows), allow_missing=True)
        )
        model, shares = MODELS["finite"](mine, 1.0), np.repeat(np.eye(2), 30, axis=0)
        from_labels = random_start(model, Table(rows), 2)
        start = replace(
            from_labels,
            seed=Summary(
                from_labels.seed.layout, {**model.zeros(2).arrays, **collect(mine, rows, shares)}
            ),
        )
        found = fit(model, BatchVB(max_iter=40, tol=0.0), Table(rows), start)
        assert_never_drops(found.trace.bound[5:])
        bounds.append(found.bound)
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-6)
