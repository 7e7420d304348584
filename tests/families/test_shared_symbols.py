"""Symbols with a learned base: laws, tables of known labels, sweeps, fits."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import digamma

import stickbreak as sb
from stickbreak.data import Sequences
from stickbreak.families.shared_symbols import SharedCategorical
from stickbreak.inference import ExcludeOwn, IncludeOwn, run
from stickbreak.initialize import from_local
from stickbreak.models import hdp_hmm
from stickbreak.stats import SERIAL

K, V = 3, 4
BASE = np.array([0.4, 0.3, 0.1, 0.05])  # the rest is nobody's
FAMILY = SharedCategorical(0.5, (V,), 1.7, BASE)


def counts_of(labels, symbols):
    """Counts of rows with known labels."""
    shares = np.eye(K)[labels]
    out = FAMILY.zeros(K)
    FAMILY.log_mean(out).collect(np.asarray(symbols)[:, None], shares, out)
    return out


def test_potentials_are_differences_and_derivatives_of_the_marginal():
    counts = counts_of([0, 0, 1, 2, 2, 2], [0, 1, 1, 3, 3, 0])
    rows = np.arange(V)[:, None]
    mean, difference = (
        FAMILY.mean_log(counts).evidence(rows),
        FAMILY.log_mean(counts).evidence(rows),
    )
    for v in range(V):
        for step, wanted in ((1e-6, mean[v]), (1.0, difference[v])):
            more = {n: np.array(a) for n, a in counts.items()}
            more["emission"][v] += step
            more["emission_total"] += step
            rise = (FAMILY.log_marginal(more) - FAMILY.log_marginal(counts)) / step
            # a difference of lgammas over 1e-6 has nine digits
            np.testing.assert_allclose(rise, wanted, rtol=1e-5 if step < 1 else 1e-12)
    assert (np.exp(difference).sum(0) < 1).all()


def test_what_is_learned_of_known_labels_is_exact():
    labels, symbols = [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 2]
    counts = counts_of(labels, symbols)
    found = FAMILY.learn(counts)
    weights, tables = FAMILY.weights, np.zeros(V)
    for k in range(K):
        for v in range(V):
            n = sum(a == k and b == v for a, b in zip(labels, symbols, strict=True))
            # a customer sits at a new table with probability x / (x + those before)
            tables[v] += sum(weights[v] / (weights[v] + i) for i in range(n))
    wanted = digamma(1 + tables) - digamma((1 + tables).sum())
    np.testing.assert_allclose(np.log(found.base), wanted, rtol=1e-9)
    # the strength is at its fixed point, if not at its limit, after some more steps
    free = replace(FAMILY, concentration=1e3)
    many = counts_of(labels * 20, symbols * 20)
    for _ in range(300):
        free = replace(free.learn(many), base=BASE)
    sizes, b = many["emission_total"][0], free.strength
    tables = sum(
        free.weights[v]
        * (digamma(free.weights[v] + many["emission"][v]) - digamma(free.weights[v]))
        for v in range(V)
    ).sum()
    np.testing.assert_allclose(b, tables / (digamma(b + sizes) - digamma(b)).sum(), rtol=1e-6)
    assert replace(free, concentration=0.01).learn(many).strength == pytest.approx(0.01 * V)


@pytest.mark.slow  # half a minute to compile
def test_sweeps_score_symbols_by_the_base_and_count_what_they_lack():
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 7, size=8)
    data = Sequences(rng.integers(V, size=(lengths.sum(), 1)), offsets=np.r_[0, lengths.cumsum()])
    model = replace(hdp_hmm(sb.Categorical(0.5, (V,)), root="tables", learns=True), family=FAMILY)
    start, rule = from_local(model, data, K, rng), ExcludeOwn()
    assert "log_absent_symbol" in start.seed
    swept, own = rule.visit(model, start.seed, start.params, data.whole(), None, (), SERIAL)
    found, _ = model.local_step(rule.potentials(model, start.seed, start.params), data.whole())
    for name in ("emission", "transition", "log_absent_symbol"):
        np.testing.assert_allclose(swept[name], found[name], rtol=2e-5, atol=1e-6)  # float32
    plain = np.zeros((V, K))
    np.add.at(plain, data.rows[:, 0], np.log1p(-own["rows"].astype(float)))
    np.testing.assert_allclose(swept["log_absent_symbol"], plain, rtol=1e-12)


def sequences():
    """Two states of six symbols, each common in one of them, rare in both, or never seen."""
    rng = np.random.default_rng(0)
    tables = np.array([[0.05, 0.9, 0.05, 0, 0, 0], [0.05, 0.05, 0.9, 0, 0, 0]])
    path = np.repeat(rng.integers(2, size=(40, 6)), 5, axis=1)
    return [np.array([rng.choice(6, p=tables[z]) for z in p])[:, None] for p in path]


CUT = {"granularity": "subsequence", "subchain_length": 10}
ENGINES = {
    "sequences": (sb.CollapsedVB(max_iter=150), 1),
    "one chain in blocks": (sb.CollapsedVB(max_iter=150, **CUT), 40),
    "noisy steps": (sb.StochasticCollapsedVB(batch_size=10, max_iter=30), 1),
    "noisy steps of blocks": (sb.StochasticCollapsedVB(batch_size=30, max_iter=30, **CUT), 40),
}


def learned(engine, n_joined, **settings):
    """A fit from random chains; n_joined : sequences that are one chain."""
    joined = np.concatenate(sequences()).reshape(40 // n_joined, -1, 1)
    model = sb.HDPHMM(
        4, family=sb.Categorical(1.0, 6), root="tables", learn_prior=True, init="local",
        inference=engine, random_state=0, **settings,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        return model.fit(list(joined)), list(joined)


@pytest.mark.slow  # half a minute to compile
@pytest.mark.parametrize("name", ENGINES)
def test_a_fit_learns_which_symbols_are_common(name, tmp_path):
    model, data = learned(*ENGINES[name])
    family = model.family_
    assert family.base[:3].min() > 2 * family.base[3:].max()
    assert family.base.sum() < 1
    assert 0 < family.strength <= 6.0
    assert np.isfinite(model.lower_bound_)
    model.save(tmp_path / "model.safetensors")
    loaded = sb.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.family_.base, family.base)
    assert loaded.score(data) == model.score(data)


@pytest.mark.slow
@pytest.mark.parametrize("guards", ["messages", "counts"])
def test_blocks_of_one_chain_lack_what_their_rows_lack(guards):
    """After three laps in two batches: the counts of absences are those of the rows' posteriors."""
    rows = np.concatenate(sequences())[:200]
    data, family = Sequences(rows, offsets=np.array([0, 200])), sb.Categorical(1.0, (6,))
    model = hdp_hmm(family, root="tables", learns=True)
    model = replace(model, family=SharedCategorical.of(family))
    start = from_local(model, data, K, np.random.default_rng(1))
    engine = sb.CollapsedVB(max_iter=3, tol=0.0, n_batches=2, guards=guards, reorder=False, **CUT)
    found = run(model, engine, data, start)
    plain = np.zeros((6, K))
    np.add.at(plain, rows[:, 0], np.log1p(-found.warm()["rows"].astype(float)))
    np.testing.assert_allclose(found.counts["log_absent_symbol"], plain, rtol=1e-9, atol=1e-9)
    assert not np.allclose(found.model.family.base, 1 / 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one chain in blocks", "noisy steps", "noisy steps of blocks"])
def test_killed_and_threaded_fits_that_learn_a_base_are_the_same_bits(name, tmp_path):
    class Stop(sb.Callback):
        def on_lap(self, record):
            if record.lap == 3:
                raise KeyboardInterrupt

    engine, n_joined = ENGINES[name]
    engine = replace(engine, max_iter=8, tol=0.0)
    whole, data = learned(engine, n_joined)
    threaded, _ = learned(engine, n_joined, n_jobs=2)
    path = tmp_path / "fit.checkpoint"
    saving = replace(engine, checkpoint=path, checkpoint_every=0.0, callbacks=(Stop(),))
    with pytest.raises(KeyboardInterrupt):
        learned(saving, n_joined)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        resumed = sb.resume(path, data)
    assert not np.allclose(whole.family_.base, 1 / 6)
    for other in (threaded, resumed):
        np.testing.assert_array_equal(other.family_.base, whole.family_.base)
        np.testing.assert_array_equal(other.transmat_, whole.transmat_)


@pytest.mark.slow
def test_a_noisy_step_of_rate_one_learns_as_plain_counts_do():
    """All sequences in one step: the base of the local step's counts, those of absences too."""
    rows = np.concatenate(sequences())
    data = Sequences(rows, offsets=np.arange(0, len(rows) + 1, 30))
    family = SharedCategorical.of(sb.Categorical(1.0, (6,)))
    model = replace(hdp_hmm(sb.Categorical(1.0, (6,)), root="tables", learns=True), family=family)
    start = from_local(model, data, K, np.random.default_rng(1))
    engine = sb.StochasticCollapsedVB(batch_size=40, kappa=0.0, delay=0.0, max_iter=1, tol=0)
    found = run(model, engine, data, start)
    potentials = model.potentials(start.seed, start.params, IncludeOwn())
    counts, _ = model.local_step(potentials, data.whole())
    np.testing.assert_allclose(
        found.counts["log_absent_symbol"], counts["log_absent_symbol"], rtol=1e-9
    )
    wanted = family.learn(counts.arrays)
    np.testing.assert_allclose(found.model.family.base, wanted.base, rtol=1e-9)
    assert found.model.family.strength == pytest.approx(wanted.strength, rel=1e-9)


@pytest.mark.parametrize(
    ("family", "words"),
    [("gaussian", "learn_prior=True needs a variational"), ("categorical", "base of 2 columns")],
)
def test_other_bases_are_refused(family, words):
    rows = [np.zeros((4, 2), dtype=int), np.ones((4, 2), dtype=int)]
    with pytest.raises(ValueError, match=words):
        sb.HDPHMM(2, family=family, root="tables", learn_prior=True).fit(rows)
