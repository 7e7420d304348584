"""Collapsed sweeps of mixtures, row by row: equal to the plain loop, for every family and prior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import xlogy

import stickbreak as sb
from docs.skeletons.family import Exponential
from stickbreak.data import Batch, Table, measure
from stickbreak.families.names import make_family
from stickbreak.inference import CollapsedVB, ExcludeOwn, count_own, run
from stickbreak.initialize import from_local, from_plusplus
from stickbreak.models import Model, dp_mixture, finite_mixture
from stickbreak.stats import SERIAL

K = 4
PRIORS = {
    "finite": lambda family: finite_mixture(family, 1.3),
    "dp": lambda family: dp_mixture(family, 0.7),
    "finite-learned": lambda family: finite_mixture(family, sb.GammaPrior(0.5)),
    "dp-learned": lambda family: dp_mixture(family, sb.GammaPrior(2.0)),
}
RULE = ExcludeOwn()


def rows_of(name: str, n: int = 24, seed: int = 0) -> np.ndarray:
    """Rows for a family, groups that overlap; some entries missing where it allows them."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 3, n)
    if name in ("gaussian", "zero-mean"):
        X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + 2.0 * groups[:, None]
        X[5] = np.nan  # a row without any entry
        return X
    X = {
        "rounded": lambda: np.round(3 * rng.normal(size=(n, 3)) + 3.0 * groups[:, None]),
        "diagonal": lambda: rng.normal(size=(n, 3)) + 2.0 * groups[:, None],
        "fixed-variance": lambda: rng.normal(size=(n, 3)) + 2.0 * groups[:, None],
        "categorical": lambda: rng.integers(0, 3, (n, 10)),
        "symbols": lambda: rng.integers(0, 5, (n, 1)),
        "bernoulli": lambda: rng.random((n, 11)) < 0.2 + 0.3 * groups[:, None],
        "poisson": lambda: rng.poisson(1.0 + 8.0 * groups[:, None] * [1, 0, 1, 0]),
        "multinomial": lambda: rng.poisson(0.7 + 3.0 * groups[:, None], (n, 6)),
    }[name]().astype(float)
    if name == "multinomial":
        X[5] = np.nan
    elif n > 20:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X


KINDS = (
    "gaussian", "zero-mean", "diagonal", "rounded", "fixed-variance", "categorical", "symbols",
    "bernoulli", "poisson", "multinomial",
)  # fmt: skip
NAMES = {"rounded": "diagonal", "symbols": "categorical"}
QUICK = {"gaussian", "categorical", "bernoulli"}
# each of the others takes seconds to compile; `kernels/test_live.py` has every family
every_kind = pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=() if k in QUICK else pytest.mark.slow) for k in KINDS]
)


def family_of(kind: str, table: Table):
    family = make_family(NAMES.get(kind, kind)).locate(None, table.rows.shape[1])
    return family.resolve(measure(table, family.check_rows, allow_missing=True))


def begun(kind: str, prior: str = "finite", *, repeats: np.ndarray | None = None, n: int = 24):
    """Table, model, parameters, random own shares and their counts."""
    table = Table(rows_of(kind, n), repeats)
    model = PRIORS[prior](family_of(kind, table))
    params, batch = model.start_params(K), table.whole()
    own = model.structure.random_own(batch, K, model.axis, np.random.default_rng(1))
    return model, params, batch, own, count_own(model, params, batch, own, SERIAL)


def counted(model: Model, counts, params, batch: Batch, shares):
    """Counts of rows with shares (n, K), by the family's own `collect`."""
    out = dict(counts.empty().arrays)
    shares = np.asfortranarray(shares, dtype=float)
    scores = model.potentials(counts, params, RULE).scores
    scores.collect(model.family.prepare(batch.rows), shares, out)
    out["share"] += shares.sum(0)
    return replace(counts.empty(), arrays=out)


def plain_sweep(model: Model, counts, params, batch: Batch, shares):
    """Rows in turn: counts less own, potentials, local step, counts. Shares are replaced."""
    repeats, total = batch.repeats_or_ones(), 0.0
    for n in np.flatnonzero(repeats):
        row, c = replace(batch.part(n, n + 1).alone(), repeats=None), repeats[n]
        old = shares[n : n + 1].astype(float)
        left = counts - counted(model, counts, params, row, min(c, 1.0) * old)
        found, _ = model.local_step(RULE.potentials(model, left, params), row)
        shares[n] = found["share"]
        total += c * found.log_z
        counts = counts - counted(model, counts, params, row, c * old)
        counts = counts + counted(model, counts, params, row, c * shares[n : n + 1])
    return total, counts


def assert_swept(model, params, batch, own, counts):
    """One sweep equals the plain loop.

    Shares are float32 in both, so they are equal, or differ where rounding is a tie; sums differ by
    rounding of doubles.
    """
    shares = np.array(own["shares"])
    log_z, after = plain_sweep(model, counts, params, batch, shares)
    found, new = RULE.visit(model, counts, params, batch, own, (), SERIAL)
    np.testing.assert_allclose(new["shares"], shares, rtol=2e-7, atol=1e-12)
    assert found.log_z == pytest.approx(log_z, rel=1e-9)
    for name in counts.arrays:
        np.testing.assert_allclose(found[name], after[name], rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.few(2)  # `test_collapsed_every_cell.py` has them all
@pytest.mark.parametrize("prior", PRIORS)
@every_kind
def test_a_sweep_equals_the_plain_loop(kind, prior):
    rng = np.random.default_rng(2)
    repeats = rng.choice([0.0, 0.5, 1.0, 3.0], 24, p=[0.1, 0.2, 0.5, 0.2])
    assert_swept(*begun(kind, prior, repeats=repeats if prior == "dp" else None))


@every_kind
def test_the_bound_is_the_variational_one_at_the_shares(kind):
    model, params, batch, own, counts = begun(kind, "dp", repeats=np.linspace(0.0, 2.0, 24))
    shares, repeats = np.asarray(own["shares"], dtype=float), batch.repeats_or_ones()[:, None]
    by_hand = counted(model, counts, params, batch, shares * repeats)
    entropy = -(repeats * xlogy(shares, shares)).sum()
    assert counts.local_bound == pytest.approx(entropy, rel=1e-12)
    # summed in another order
    assert model.bound(counts, params) == pytest.approx(
        model.bound(replace(by_hand, local_bound=entropy), params), rel=1e-9
    )
    # the same as what a local step reports where it ends: log_z less the pairing
    found, new = RULE.visit(model, counts, params, batch, own, (), SERIAL)
    q = np.asarray(new["shares"], dtype=float)
    assert found.local_bound == pytest.approx(-(repeats * xlogy(q, q)).sum(), rel=1e-9)
    assert found["share"] == pytest.approx((repeats * q).sum(0), rel=1e-12)


@pytest.mark.slow
def test_rows_keep_to_their_legal_components():
    table = Table(rows_of("diagonal"), sets=np.arange(24) % 3)
    legal = np.array([[1, 1, 1, 1], [0, 1, 0, 0], [1, 0, 1, 0]], dtype=float)
    model = PRIORS["dp"](family_of("diagonal", table))
    params, batch = model.start_params(K, legal), table.whole()
    start = from_local(model, table, K, np.random.default_rng(0), legal=legal)
    shares = np.asarray(start.warm["shares"])
    assert (shares[legal[table.sets] == 0] == 0).all()
    np.testing.assert_allclose(shares.sum(1), 1.0, atol=1e-6)
    assert_swept(model, params, batch, start.warm, start.seed)
    _, new = RULE.visit(model, start.seed, params, batch, start.warm, (), SERIAL)
    assert (new["shares"][legal[table.sets] == 0] == 0).all()


def test_a_far_row_has_its_only_legal_component():
    """The weight of the legal component underflows beside that of the others."""
    X = np.r_[np.random.default_rng(0).normal(size=(30, 2)), [[500.0, 500.0]]]
    labels = np.r_[np.zeros(15), np.ones(15), 0].astype(int)
    model = sb.Mixture(2, inference="collapsed", random_state=0).fit(X, labels=labels)
    assert np.isfinite(model.lower_bound_)
    np.testing.assert_allclose(model.counts_, [16, 15], rtol=1e-6)


@pytest.mark.slow
def test_sparse_and_dense_rows_of_counts_are_swept_alike():
    X = np.nan_to_num(rows_of("multinomial"))
    found = []
    for rows in (X, sparse.csr_array(X)):
        table = Table(rows)
        model = PRIORS["finite"](family_of("multinomial", table))
        start = from_local(model, table, K, np.random.default_rng(0))
        found.append(run(model, CollapsedVB(max_iter=4, tol=0.0), table, start))
    assert found[0].bound == found[1].bound


@pytest.mark.slow
def test_rounded_columns_of_full_covariances_are_close_to_the_plain_loop():
    """Noise of rounding is that of rows at the last refresh, not of rows less one: 1 / n of it."""
    rng = np.random.default_rng(0)
    X = np.round(3 * rng.normal(size=(200, 4)) + 4.0 * rng.integers(0, 3, 200)[:, None])
    X[:, 3] = np.round(0.3 * rng.normal(size=200))  # narrower than a step
    table = Table(X)
    model = PRIORS["finite"](family_of("gaussian", table))
    assert model.family._noise.all()
    start = from_local(model, table, K, np.random.default_rng(0))
    args = model, start.seed, start.params, table.whole()
    shares = np.array(start.warm["shares"])
    log_z, _ = plain_sweep(*args, shares)
    found, new = RULE.visit(*args, start.warm, (), SERIAL)
    assert found.log_z == pytest.approx(log_z, abs=0.02 * 200)
    assert np.abs(new["shares"] - shares).max() < 0.03


@pytest.mark.slow
def test_rows_that_full_covariances_complete_are_inferred_in_batches():
    """What completed a row would have to be kept, to leave with it."""
    X = rows_of("diagonal")
    model = sb.Mixture(2, inference="collapsed", random_state=0).fit(X)
    assert np.isfinite(model.lower_bound_)
    table = Table(X)
    rule = CollapsedVB().rule_for(finite_mixture(family_of("gaussian", table)), table)
    assert rule.granularity == "batch"
    with pytest.raises(ValueError, match=r"rows lack some of their entries.*DiagonalGaussian"):
        sb.Mixture(2, init="local").fit(X)
    with pytest.raises(ValueError, match=r"rows lack some of their entries.*DiagonalGaussian"):
        sb.Mixture(2, inference=CollapsedVB(granularity="row")).fit(X)


def test_a_stream_gives_rows_those_before_them():
    model = sb.Mixture(3, inference="collapsed", random_state=0)
    for part in np.array_split(BLOBS, 4):
        model.partial_fit(part)
    np.testing.assert_allclose(model.counts_, [40, 40, 40], atol=1.0)


# ---- fits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("n_batches", [1, 3])
def test_counts_stay_those_of_the_own_shares(kind, n_batches):
    table = Table(rows_of(kind, 90))
    model = PRIORS["dp"](family_of(kind, table))
    start = from_local(model, table, K, np.random.default_rng(0))
    result = run(model, CollapsedVB(max_iter=5, tol=0.0, n_batches=n_batches), table, start)
    again = count_own(model, result.params, table.whole(), result.warm(), SERIAL)
    for name in result.counts.arrays:
        np.testing.assert_allclose(again[name], result.counts[name], rtol=1e-8, atol=1e-8)
    assert all(np.isfinite([lap.bound, lap.log_z]).all() for lap in result.trace)


def test_sweeps_from_clusters_begin_without_shares():
    table = Table(rows_of("diagonal", 90))
    model = PRIORS["finite"](family_of("diagonal", table))
    start = from_plusplus(model, table, K, np.random.default_rng(0))
    result = run(model, CollapsedVB(max_iter=20), table, start)
    # the first lap is given the seed, of which rows are part already
    assert result.trace[-1].log_z > result.trace[1].log_z
    # the bound is that of the shares: no higher than what variational Bayes makes of them
    later = run(model, sb.BatchVB(max_iter=200), table, replace(start, seed=result.counts))
    assert later.bound >= result.bound - 1e-8 * abs(result.bound)


def test_killed_spilled_and_resumed_fits_are_the_same_bits(tmp_path):
    from stickbreak.inference import read_checkpoint

    table = Table(rows_of("gaussian", 300))
    model = PRIORS["dp"](family_of("gaussian", table))
    start = from_local(model, table, K, np.random.default_rng(0))
    engine = CollapsedVB(max_iter=9, tol=0.0, n_batches=3)
    whole = run(model, engine, table, start)
    spilled = run(model, replace(engine, memory_limit=0), table, start)
    np.testing.assert_array_equal(spilled.counts["moments"], whole.counts["moments"])

    class Stop(sb.Callback):
        def on_lap(self, record):
            if record.lap == 4:
                raise StopIteration

    path = tmp_path / "fit.checkpoint"
    saving = replace(engine, checkpoint=path, checkpoint_every=0.0)
    run(model, replace(saving, callbacks=(Stop(),)), table, start)
    resumed = run(model, engine, table, read_checkpoint(path)[1])
    np.testing.assert_array_equal(resumed.counts["moments"], whole.counts["moments"])
    assert resumed.bound == whole.bound


# ---- as users meet it ----------------------------------------------------------------------------
BLOBS = np.random.default_rng(3).normal(size=(120, 2)) + 8.0 * (np.arange(120) % 3)[:, None]


@pytest.mark.parametrize("init", ["local", "collapsed"])
@pytest.mark.parametrize("engine", [None, "collapsed", "em", "gibbs"])
def test_every_engine_begins_with_shares(init, engine):
    max_iter, tol = (20, None) if engine == "gibbs" else (50, 0.1)
    model = sb.Mixture(3, init=init, inference=engine, max_iter=max_iter, tol=tol, random_state=0)
    model.fit(BLOBS)
    assert np.isfinite(model.lower_bound_)
    assert model.counts_.sum() == pytest.approx(120, rel=1e-5)


def test_moves_go_on_from_a_collapsed_start():
    model = sb.DPMixture(5, init="collapsed", random_state=0).fit(BLOBS)
    assert model.n_components_ == 3


@pytest.mark.parametrize("kind", ["gaussian", "bernoulli"])
def test_threads_do_not_change_a_bit(kind, monkeypatch):
    import stickbreak.inference.collapsed as collapsed

    monkeypatch.setattr(collapsed, "SWEEP_ROWS", 40)  # several lanes of few rows
    X = np.nan_to_num(rows_of(kind, 160))
    settings = {"family": kind, "inference": "collapsed", "init": "local", "max_iter": 6}
    one, two = (
        sb.DPMixture(4, n_jobs=n, random_state=0, tol=10.0, **settings).fit(X) for n in (1, 2)
    )
    assert one.lower_bound_ == two.lower_bound_
    np.testing.assert_array_equal(one.counts_, two.counts_)


def test_families_without_live_counts_have_no_such_start():
    with pytest.raises(ValueError, match=r'init="local" is not for Exponential.*init="k-means'):
        sb.Mixture(2, family=Exponential(), init="local").fit(np.exp(BLOBS[:, :1]))


@pytest.mark.slow
def test_documents_begin_locally_with_every_engine():
    words = [["cat", "dog", "cat", "fur"], ["salt", "soup", "salt", "pan"]] * 20
    model = sb.LatentDirichletAllocation(2, init="local", random_state=0).fit(words)
    assert np.isfinite(model.lower_bound_)


def test_weights_are_repeated_rows():
    """A row that counts twice has the posterior of two: the same shares at a fixed point."""
    X = BLOBS[:30] + 0.0
    engine = CollapsedVB(max_iter=60, tol=0.0)
    once = sb.Mixture(3, inference=engine, random_state=0)
    weighted = sb.Mixture(3, inference=engine, random_state=0).fit(
        X, sample_weight=np.full(30, 2.0)
    )
    once.fit(np.repeat(X, 2, axis=0))
    # groups are far apart, so that both find them
    np.testing.assert_allclose(np.sort(weighted.counts_), np.sort(once.counts_), rtol=1e-4)
    assert weighted.lower_bound_ == pytest.approx(once.lower_bound_, rel=1e-3)
