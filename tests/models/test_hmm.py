"""Hidden Markov models in fits: the bound is one, never drops, does not care for batches; engines
agree where they must.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from chains import PRIORS, gaussian_model, random_labels_start, segments, symbol_model, symbols
from fitting import assert_never_drops, assert_same_fit
from scipy.special import gammaln, logsumexp

from stickbreak.data import Sequences
from stickbreak.inference import EM, BatchVB, HardEM, MeanLog, MemoizedVB, StochasticVB, run, step
from stickbreak.initialize import from_blocks
from stickbreak.models import finite_hmm, hdp_hmm
from stickbreak.moves import Birth, Delete, Merge


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("n_batches", [1, 3])
def test_bound_never_drops(prior, n_batches):
    """Neither at local nor at global steps."""
    data, _ = segments()
    model = gaussian_model(prior, data)
    engine = MemoizedVB(n_batches=n_batches, max_iter=15, tol=0.0, trace_visits=True)
    result = run(model, engine, data, random_labels_start(model, data, 5))
    assert_never_drops(result.trace.visits)
    assert_never_drops(result.trace.bound)


@pytest.mark.parametrize("prior", PRIORS)
def test_totals_are_sums_of_batches(prior):
    """At fixed potentials, counts and local bounds of batches add up to those of all data."""
    data = symbols(1)
    model = symbol_model(prior, data)
    start = random_labels_start(model, data, 3)
    potentials = model.potentials(
        start.seed, model.global_step(start.seed, start.params), MeanLog()
    )
    whole, _ = model.local_step(potentials, data.whole())
    parts = [model.local_step(potentials, batch)[0] for batch in data.batches(3)]
    total = parts[0] + parts[1] + parts[2]
    assert total.local_bound == pytest.approx(whole.local_bound, abs=1e-10)
    for name in whole:
        np.testing.assert_allclose(total[name], whole[name], atol=1e-11)


@pytest.mark.parametrize("prior", PRIORS)
def test_one_batch_is_batch_vb(prior):
    data = symbols(2)
    model = symbol_model(prior, data)
    start = random_labels_start(model, data, 3)
    assert_same_fit(
        run(model, MemoizedVB(n_batches=1, max_iter=5), data, start),
        run(model, BatchVB(max_iter=5), data, start),
    )


@pytest.mark.parametrize("prior", PRIORS)
def test_bound_is_below_the_evidence(prior):
    """log p(x) of a tiny symbol HMM: all paths, rows of tables integrated out; roots by drawing
    them from their prior.
    """
    data = symbols(3, lengths=(4, 3), n_symbols=2)
    model = symbol_model(prior, data)
    K = 2
    evidence = _log_evidence(model, data, K, prior)
    for max_active in (None, 1):
        engine = BatchVB(max_iter=100, tol=0.0, max_active=max_active)
        assert run(model, engine, data, random_labels_start(model, data, K)).bound < evidence + 1e-9


def _log_evidence(model, data, K: int, prior: str) -> float:
    """Log of the sum over paths of p(path) p(symbols | path)."""
    rows, n = data.rows[:, 0].astype(int), data.n_rows
    rng = np.random.default_rng(0)
    if prior == "finite":
        first, steps, rest = np.full((1, K), 0.9), np.full((1, K, K), 0.7), np.zeros(1)
    # with more states than the truncation the evidence is larger still: paths beyond it are left
    # out here
    else:
        u = rng.beta(1.0, 3.0, (400, K))
        b = u * np.c_[np.ones(len(u)), np.cumprod(1 - u, axis=1)[:, :-1]]
        kappa = 5.0 if prior == "sticky" else 0.0
        first, rest = 2.0 * b, 1 - b.sum(1)
        steps = 0.5 * np.repeat(b[:, None], K, axis=1) + kappa * np.eye(K)
    alpha = 0.6
    log_paths = []
    for path in product(range(K), repeat=n):
        z = np.array(path)
        start, transition, emission = np.zeros(K), np.zeros((K, K)), np.zeros((K, 2))
        for lo, hi in zip(data.offsets[:-1], data.offsets[1:], strict=True):
            start[z[lo]] += 1
            np.add.at(transition, (z[lo : hi - 1], z[lo + 1 : hi]), 1)
        np.add.at(emission, (z, rows), 1)
        data_part = sum(_dirichlet_rise(emission[k], np.full(2, alpha), 0.0) for k in range(K))
        own = _dirichlet_rise(start, first, 2.0 * rest) + sum(
            _dirichlet_rise(transition[k], steps[:, k], 0.5 * rest) for k in range(K)
        )
        log_paths.append(data_part + logsumexp(own) - np.log(len(own)))
    return float(logsumexp(log_paths))


def _dirichlet_rise(counts, prior, rest):
    """For one prior (K,) or many (n, K)."""
    total = prior.sum(-1) + rest
    rise = gammaln(prior + counts) - gammaln(prior)  # zero where nothing is counted
    return gammaln(total) - gammaln(total + counts.sum()) + rise.sum(-1)


@pytest.mark.parametrize("prior", PRIORS)
def test_weights_are_repeats(prior):
    data = symbols(4, lengths=(5, 3, 6))
    twice = Sequences(
        np.concatenate([data.rows[:5], data.rows[:5], data.rows[5:]]),
        offsets=np.array([0, 5, 10, 13, 19]),
    )
    weighted = replace(data, repeats=np.repeat([2.0, 1.0, 1.0], [5, 3, 6]))
    model = symbol_model(prior, data)
    start = random_labels_start(model, twice, 3)
    one, two = (run(model, BatchVB(max_iter=10, tol=0.0), d, start) for d in (weighted, twice))
    assert one.bound == pytest.approx(two.bound, rel=1e-10)


def test_EM_raises_its_objective_and_finds_the_segments():
    data, _ = segments(1)
    model = finite_hmm(gaussian_model("finite", data).family, concentration=0.5)
    for engine in (EM(max_iter=40), HardEM(max_iter=40)):
        start = from_blocks(model, data, 3, np.random.default_rng(3), length=10)
        result = run(model, engine, data, start)
        assert_never_drops(result.trace.bound)
        assert result.counts.size("component") == 3


def test_EM_of_an_HDP_needs_modes():
    data = symbols(0)
    family = symbol_model("hdp", data).family
    model = replace(hdp_hmm(family), prior=hdp_hmm(family).prior.for_modes())
    result = run(model, EM(max_iter=20, tol=0.0), data, random_labels_start(model, data, 3))
    assert_never_drops(result.trace.bound)


@pytest.mark.parametrize("prior", PRIORS)
def test_a_stochastic_step_at_rate_one_is_a_step_of_vb(prior):
    data = symbols(5)
    model = symbol_model(prior, data)
    start = random_labels_start(model, data, 3)
    engine = StochasticVB(batch_size=data.n_spans, kappa=0.0, delay=0.0, max_iter=1)
    accumulator = engine.accumulator(data)
    state = accumulator.begin(start, (0, 1, 2), 1)
    step(model, MeanLog(), accumulator, state, data.take(np.arange(data.n_spans)))
    scaled = start.seed.scale(data.n_units / start.seed.n_units)
    expected, _ = model.local_step(model.potentials(scaled, start.params, MeanLog()), data.whole())
    for name in expected:
        np.testing.assert_allclose(state.total.view()[name], expected[name], atol=1e-10)


def test_scaled_counts_of_batches_are_unbiased():
    """Unequal lengths: the mean over sequences of n_sequences times its counts is the whole."""
    data = symbols(6)
    model = symbol_model("finite", data)
    start = random_labels_start(model, data, 3)
    potentials = model.potentials(start.seed, start.params, MeanLog())
    whole, _ = model.local_step(potentials, data.whole())
    parts = [
        model.local_step(potentials, data.take(np.array([s])))[0].scale(data.n_spans)
        for s in range(data.n_spans)
    ]
    for name in ("start", "transition"):
        np.testing.assert_allclose(
            np.mean([p[name] for p in parts], axis=0), whole[name], atol=1e-11
        )


def test_the_same_bits_for_any_number_of_jobs():
    from fitting import fit

    data, _ = segments(2, n_sequences=40, length=900)
    model = gaussian_model("sticky", data)
    start = random_labels_start(model, data, 4)
    one, two = (
        fit(model, MemoizedVB(n_batches=2, max_iter=3), data, start, n_jobs=n) for n in (1, 2)
    )
    assert_same_fit(one, two)


@pytest.mark.few(1)
@pytest.mark.parametrize("prior", ["hdp", "sticky"])
@pytest.mark.parametrize("n_components", [1, 12])
def test_moves_find_the_states(prior, n_components):
    data, truth = segments(3, n_states=4, n_sequences=8, length=150)
    model = gaussian_model(prior, data)
    engine = MemoizedVB(
        n_batches=2, max_iter=60, moves=(Birth(), Merge(), Delete()), trace_visits=True
    )
    result = run(
        model,
        engine,
        data,
        from_blocks(model, data, n_components, np.random.default_rng(0)),
        seed=0,
    )
    assert_never_drops([b for b in result.trace.bound if b is not None])
    assert len(result.ids) == 4
    labels = model.decode(model.potentials(result.counts, result.params, MeanLog()), data.whole())
    table = np.zeros((4, 4))
    np.add.at(table, (truth, labels), 1)
    assert table.max(1).sum() == len(truth)
    assert len(set(result.ids)) == 4
    assert max(result.ids) < result.next_id
