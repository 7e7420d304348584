"""Expected table counts beyond sweeps of whole sequences: blocks of long ones, and noisy steps."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from collapsed_chains import FAMILY, K, words

import stickbreak as sb
from stickbreak.data import Sequences
from stickbreak.inference import ExcludeOwn, LogMean
from stickbreak.initialize import from_local
from stickbreak.models import hdp_hmm
from stickbreak.priors.tables import EXISTENCE
from stickbreak.stats import SERIAL

LOGS = ("log_absent", "log_absent_row", "log_absent_start")
pytestmark = pytest.mark.slow  # kernels of their own: half a minute


def swept(model, data, rule, n=2):
    """Counts and own counts after some sweeps from random chains."""
    start = rule.begin(model, data, from_local(model, data, K, np.random.default_rng(1)), SERIAL)
    batch, counts, own = rule.units(data.whole()), start.seed, start.warm
    for _ in range(n):
        counts, own = rule.visit(model, counts, start.params, batch, own, (), SERIAL)
    return counts, own


def test_blocks_of_one_row_miss_what_independent_states_miss():
    model, data = hdp_hmm(FAMILY, root="tables"), words()
    counts, own = swept(model, data, ExcludeOwn("subsequence", subchain_length=1))
    rows, steps = np.asarray(own["rows"], dtype=float), np.zeros((K, K))
    goes_on = np.setdiff1d(np.arange(1, data.n_rows), data.offsets)
    for t in goes_on:
        steps += np.log1p(-np.outer(rows[t - 1], rows[t]))
    np.testing.assert_allclose(counts["log_absent"], steps, rtol=1e-6)
    np.testing.assert_allclose(
        counts["log_absent_row"], np.log1p(-rows[goes_on - 1]).sum(0), rtol=1e-6
    )
    np.testing.assert_allclose(
        counts["log_absent_start"], np.log1p(-rows[data.offsets[:-1]]).sum(0), rtol=1e-6
    )


@pytest.mark.parametrize("existence", EXISTENCE)
def test_blocks_of_whole_sequences_are_sequences(existence):
    model, data = hdp_hmm(FAMILY, root=sb.TableRoot(existence)), words(gaps=True)
    start, found = from_local(model, data, K, np.random.default_rng(1)), []
    for rule in (ExcludeOwn(), ExcludeOwn("subsequence", subchain_length=6)):
        counts, own = start.seed, start.warm
        for _ in range(2):
            batch = rule.units(data.whole())
            counts, own = rule.visit(model, counts, start.params, batch, own, (), SERIAL)
        found.append(counts)
    for name in (*LOGS, "transition"):
        np.testing.assert_allclose(found[1][name], found[0][name], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("guards", ["messages", "none"])
def test_noisy_blocks_miss_what_their_paths_miss(guards):
    """The first step of a fit, every block by all its paths."""
    model, data = hdp_hmm(FAMILY, root="tables"), words()
    engine = sb.StochasticCollapsedVB(
        granularity="subsequence", subchain_length=3, batch_size=4, guards=guards
    )
    rule, start = engine.rule(), from_local(model, data, K, np.random.default_rng(0))
    begun = rule.begin(model, data, start, SERIAL)
    batch = next(iter(engine.plan(data).lap(0, 0)))
    tables = model.potentials(begun.seed, begun.params, LogMean())
    theta, first = np.exp(tables["transition"]), np.exp(tables["start"])
    evidence = np.exp(tables.scores.evidence(batch.rows))
    steps, rows, starts = np.zeros((K, K)), np.zeros(K), np.zeros(K)
    for u, block in enumerate(batch.windows.number):
        some, left, right = evidence[batch.offsets[u] : batch.offsets[u + 1]], first, np.ones(K)
        if not batch.windows.is_first[u]:
            left = begun.warm["edges"][block - 1, 1] @ theta if guards == "messages" else None
        if left is None:
            left = np.exp(rule.potentials(model, begun.seed, begun.params)["window_start"])
        if guards == "messages" and not batch.windows.is_last[u]:
            right = theta @ begun.warm["edges"][block + 1, 0]
        shares, pairs, total = np.zeros((len(some), K)), np.zeros((len(some), K, K)), 0.0
        for path in product(range(K), repeat=len(some)):
            weight = left[path[0]] * right[path[-1]] * np.prod(some[range(len(some)), path])
            for t in range(1, len(some)):
                weight *= theta[path[t - 1], path[t]]
            total += weight
            shares[range(len(some)), path] += weight
            for t in range(1, len(some)):
                pairs[t, path[t - 1], path[t]] += weight
        steps += np.log1p(-pairs[1:] / total).sum(0)
        rows += np.log1p(-shares[:-1] / total).sum(0)
        starts += batch.windows.is_first[u] * np.log1p(-shares[0] / total)
    found = rule.visit(model, begun.seed, begun.params, batch, begun.warm, (), SERIAL)[0]
    for name, wanted in zip(LOGS, (steps, rows, starts), strict=True):
        np.testing.assert_allclose(found[name], wanted, rtol=1e-6, atol=1e-9)


def fit(X, inference, **given):
    """Ten states where four are needed, concentrations of one that stay."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        return sb.HDPHMM(
            10, family=sb.Categorical(1.0), root=sb.TableRoot(learns=False), concentration=1.0,
            top_concentration=1.0, inference=inference, random_state=0, **given,
        ).fit(X)  # fmt: skip


def ring(n=60, length=60):
    """Four states in turn (0.99), three of eight symbols each."""
    rng = np.random.default_rng(0)
    symbols = np.array([[0, 6, 7], [0, 1, 2], [2, 3, 4], [4, 5, 6]])
    z = (rng.integers(4, size=(n, 1)) + (rng.random((n, length)) < 0.99).cumsum(1)) % 4
    return list(symbols[z, rng.integers(3, size=z.shape)])


def test_whole_steps_with_rate_one_are_the_same_in_blocks_of_whole_sequences():
    steps = {"batch_size": 60, "first_rate": 1.0, "max_iter": 3, "tol": 0.0}
    whole = fit(ring(), sb.StochasticCollapsedVB(**steps))
    blocks = fit(
        ring(),
        sb.StochasticCollapsedVB(granularity="subsequence", subchain_length=60, **steps),
    )
    np.testing.assert_allclose(blocks.transmat_, whole.transmat_, rtol=1e-6)
    assert blocks.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-9)


STEPS = {"batch_size": 15, "kappa": 0.5, "delay": 1.0}
BLOCKS = {"granularity": "subsequence", "subchain_length": 60}


def test_states_that_are_not_needed_die_out_on_one_long_chain():
    model = fit([np.concatenate(ring())], sb.CollapsedVB(**BLOCKS), init="collapsed")
    assert model.n_covering(0.99) in (4, 5)


def test_states_die_out_in_noisy_steps():
    """Slowly: nobody's own counts leave."""
    whole = fit(ring(), sb.StochasticCollapsedVB(**STEPS))
    blocks = fit([np.concatenate(ring())], sb.StochasticCollapsedVB(**STEPS, **BLOCKS))
    for model in (whole, blocks):
        assert 4 <= model.n_covering(0.99) < 10
        assert model.lower_bound_ > -3_600 * np.log(6)  # above chance, eight symbols


def test_blocks_of_a_stream_of_two_sequences_keep_apart():
    """The last row of a sequence leads nowhere: a step between sequences is not one."""
    data = Sequences(np.array([[0], [1], [0], [1]]), offsets=np.array([0, 2, 4]))
    model = hdp_hmm(replace(FAMILY, n_symbols=(2,)), root="tables")
    counts, own = swept(model, data, ExcludeOwn("subsequence", subchain_length=1))
    rows = np.asarray(own["rows"], dtype=float)
    wanted = sum(np.log1p(-np.outer(rows[t], rows[t + 1])) for t in (0, 2))
    np.testing.assert_allclose(counts["log_absent"], wanted, rtol=1e-6)
