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
from stickbreak.inference import ExcludeOwn
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


@pytest.mark.slow  # half a minute to compile
def test_a_fit_learns_which_symbols_are_common(tmp_path):
    rng = np.random.default_rng(0)
    tables = np.array([[0.05, 0.9, 0.05, 0, 0, 0], [0.05, 0.05, 0.9, 0, 0, 0]])
    path = np.repeat(rng.integers(2, size=(40, 6)), 5, axis=1)
    sequences = [np.array([rng.choice(6, p=tables[z]) for z in p])[:, None] for p in path]
    model = sb.HDPHMM(
        4, family=sb.Categorical(1.0, 6), root="tables", learn_prior=True, init="local",
        max_iter=150, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        model.fit(sequences)
    family = model.family_
    assert family.base[:3].min() > 2 * family.base[3:].max()
    assert 0 < family.strength <= 6.0
    assert np.isfinite(model.lower_bound_)
    model.save(tmp_path / "model.safetensors")
    loaded = sb.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.family_.base, family.base)
    assert loaded.score(sequences) == model.score(sequences)


@pytest.mark.parametrize(
    ("family", "words"),
    [("gaussian", "learn_prior=True needs a variational"), ("categorical", "base of 2 columns")],
)
def test_other_bases_are_refused(family, words):
    rows = [np.zeros((4, 2), dtype=int), np.ones((4, 2), dtype=int)]
    with pytest.raises(ValueError, match=words):
        sb.HDPHMM(2, family=family, root="tables", learn_prior=True).fit(rows)
