"""What tests of fits share: small data, starts from given responsibilities, runs, and slow bounds
to compare with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from oracles import mixture
from scipy import sparse
from scipy.special import xlogy

from stickbreak import families
from stickbreak.data import Batch, Table, measure
from stickbreak.inference import Callback, Engine, MeanLog, Result, Start, run, workers
from stickbreak.models import Model, dp_mixture, finite_mixture
from stickbreak.stats import Summary

Array = np.ndarray

# Inputs of the golden numbers: one column, K = 4, r[n, k] proportional to ((n+1)(k+2) mod 7) + 1.
GOLDEN_X = np.array([-2.0, -1.9, -1.0, 0.0, 0.3, 1.5, 1.6, 4.0])[:, None]
GOLDEN_GAMMA = 1.5
MODELS = {"finite": finite_mixture, "dp": dp_mixture}


class StoppedError(Exception):
    """What stands in for the end of a process."""


class StopAt(Callback):
    """Dies after some visit, before its checkpoint is written: the last one is of the
    visit before.
    """

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, info: Any) -> None:
        if info.step == self.step:
            raise StoppedError


def golden_shares() -> Array:
    """(8, 4) responsibilities that the golden traces begin with."""
    r = np.array([[((n + 1) * (k + 2)) % 7 + 1 for k in range(4)] for n in range(8)], dtype=float)
    return r / r.sum(axis=1, keepdims=True)


def golden_model(allocation: str) -> Model:
    """Known variance 0.5, prior mean 0 worth 0.2 rows, concentration 1.5."""
    family = families.FixedVarianceGaussian(variance=0.5, mean=0.0, mean_strength=0.2)
    return MODELS[allocation](family.resolve(measure(Table(GOLDEN_X))), GOLDEN_GAMMA)


def blobs(n: int, seed: int, n_features: int = 2, spread: float = 4.0) -> Array:
    """(n, D) rows of three overlapping clusters."""
    rng = np.random.default_rng(seed)
    centers = spread * rng.normal(size=(3, n_features))
    return centers[rng.integers(0, 3, n)] + rng.normal(size=(n, n_features))


def blob_model(rows: Array, allocation: str = "dp", family: Any = None) -> Model:
    """A mixture whose open priors come from these rows."""
    return MODELS[allocation]((family or families.Gaussian()).resolve(measure(Table(rows))), 1.0)


def count_shares(model: Model, batch: Batch, shares: Array) -> Summary:
    """Summary of a batch under responsibilities (n, K): statistics, and the entropy as the local
    part of the bound.
    """
    empty = model.zeros(shares.shape[1]).restrict(batch.symbols).empty()
    weighted = np.asfortranarray(shares * batch.repeats_or_ones()[:, None])
    out = dict(empty.arrays)
    model.family.mean_log(empty).collect(model.family.prepare(batch.rows), weighted, out)
    out["share"] += weighted.sum(0)
    entropy = -float(batch.repeats_or_ones() @ xlogy(shares, shares).sum(1))
    return Summary(empty.layout, out, local_bound=entropy, n_units=batch.n_units, index=empty.index)


def start_from(model: Model, table: Table, shares: Array, legal: Array | None = None) -> Start:
    """A start whose seed counts these responsibilities."""
    seed = model.zeros(shares.shape[1]) + count_shares(model, table.whole(), shares)
    return Start(seed, model.start_params(shares.shape[1], legal))


def random_start(
    model: Model, table: Table, n_components: int, seed: int = 0, legal: Array | None = None
) -> Start:
    """A start from random responsibilities."""
    shares = np.random.default_rng(seed).dirichlet(np.full(n_components, 0.5), table.n_rows)
    return start_from(model, table, shares, legal)


def fit(
    model: Model, engine: Engine, data: Any, start: Start | int, *, seed: int = 0, n_jobs: int = 1
) -> Result:
    """Run an engine on rows or a table, from a start or from K random components."""
    table = data if isinstance(data, Table) else Table(data)
    begin = random_start(model, table, start) if isinstance(start, int) else start
    with workers(n_jobs) as pool:
        return run(model, engine, table, begin, seed=seed, pool=pool)


def final_shares(model: Model, result: Result, table: Table) -> Array:
    """(n, K) responsibilities under the fitted globals."""
    return model.shares(model.potentials(result.counts, result.params, MeanLog()), table.whole())


def dense(rows: Any) -> Array:
    """Rows as an array, for oracles."""
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)


def evidence(
    oracle: Any, rows: Any, allocation: str, n_components: int, concentration: float = 1.0
) -> float:
    """Exact log evidence by enumeration of labelings (finite) or set partitions (dp)."""
    X = dense(rows)
    subset = lambda chosen: oracle.log_marginal(X[chosen], np.ones(len(chosen)))
    if allocation == "dp":
        return mixture.dp_log_evidence(subset, len(X), concentration)
    return mixture.finite_log_evidence(subset, len(X), n_components, concentration)


def slack(bounds: Any) -> float:
    """How far "the bound never drops" may be off: rounding of sums of the size of the bound."""
    return 1e-10 * max(1.0, float(np.abs(bounds).max()))


def assert_never_drops(bounds: Any) -> None:
    """Each value at least the one before it, up to rounding."""
    values = np.asarray(bounds, dtype=float)
    assert len(values) >= 2
    assert np.isfinite(values).all()
    assert np.diff(values).min() >= -slack(values)


def assert_same_fit(a: Result, b: Result) -> None:
    """Bit for bit the same result: counts, ids, trace and bound; only the clock may differ."""
    assert a.ids == b.ids
    assert set(a.counts.arrays) == set(b.counts.arrays)
    for name, array in a.counts.arrays.items():
        np.testing.assert_array_equal(array, b.counts[name], err_msg=name)
    for name in ("local_bound", "log_z", "n_units"):
        assert getattr(a.counts, name) == getattr(b.counts, name), name
    assert a.n_steps == b.n_steps
    assert a.trace.visits == b.trace.visits
    history = lambda trace: [(r.lap, r.bound, r.log_z, r.n_components) for r in trace]
    assert history(a.trace) == history(b.trace)
    np.testing.assert_array_equal(a.bound, b.bound)  # NaN equals NaN
    assert (a.is_converged, a.is_interrupted) == (b.is_converged, b.is_interrupted)
