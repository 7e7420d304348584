"""Stochastic collapsed inference of blocks of long sequences, which see each other's edges."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from collapsed_chains import MODELS, K, dictionary, words

import stickbreak as sb
from stickbreak.data import Sequences
from stickbreak.inference import (
    IncludeOwn,
    LogMean,
    StochasticCollapsedVB,
    read_checkpoint,
    run,
    workers,
)
from stickbreak.inference.guarded import GuardedLogMean
from stickbreak.initialize import from_blocks, from_local
from stickbreak.stats import SERIAL

KINDS = ("hmm", "sticky", "hdp")


def engine_of(**settings: Any) -> StochasticCollapsedVB:
    usual = {"granularity": "subsequence", "subchain_length": 3, "batch_size": 4, "tol": 0.0}
    return StochasticCollapsedVB(**{**usual, "kappa": 0.5, "delay": 1.0, **settings})


def paths_of(start, transition, evidence, end) -> tuple[np.ndarray, np.ndarray]:
    """Posteriors (T, K), and expected steps (K, K), by all paths; start, end : factors."""
    T, total = len(evidence), 0.0
    rows, steps = np.zeros((T, K)), np.zeros((K, K))
    for path in product(range(K), repeat=T):
        weight = start[path[0]] * end[path[-1]] * np.prod([evidence[t, path[t]] for t in range(T)])
        for a, b in pairwise(path):
            weight *= transition[a, b]
        total += weight
        rows[range(T), path] += weight
        for a, b in pairwise(path):
            steps[a, b] += weight
    return rows / total, steps / total


def plain_fit(model, engine, data: Sequences, start, n_laps: int):
    """Blocks one by one, all paths of each; edges as `begin` has them, then those found."""
    params, counts, rho = start.params, start.seed, 0
    edges = np.array(engine.rule().begin(model, data, start, SERIAL).warm["edges"], dtype=float)
    total = {n: a.copy() for n, a in counts.arrays.items()}
    n_pairs = data.n_rows - data.n_spans
    for lap in range(n_laps):
        for batch in engine.plan(data).lap(0, lap):
            rho += 1
            rate = (1.0 + rho) ** -0.5
            now = replace(counts, arrays=total)
            tables = model.potentials(now, params, LogMean())
            theta, first = np.exp(tables["transition"]), np.exp(tables["start"])
            evidence = np.exp(tables.scores.evidence(batch.rows))
            new, found, sizes = {n: np.zeros_like(a) for n, a in total.items()}, [], 0.0
            for u, block in enumerate(batch.windows.number):
                lo, hi = batch.offsets[u], batch.offsets[u + 1]
                left, right = first, np.ones(K)
                if not batch.windows.is_first[u]:
                    weights = edges[block - 1, 1]
                    if engine.guards == "counts":
                        weights = weights * model.prior.row_totals(now, params)
                    left = weights @ theta
                if not batch.windows.is_last[u]:
                    right = theta @ edges[block + 1, 0]
                rows, steps = paths_of(left, theta, evidence[lo:hi], right)
                found.append((block, rows[0], rows[-1]))
                sizes += batch.windows.is_first[u]
                new["start"] += batch.windows.is_first[u] * rows[0]
                new["transition"] += steps
                tables.scores.collect(batch.rows[lo:hi], rows, new)
            for block, a, b in found:
                edges[block] = np.array([a, b], dtype=np.float32)
            n_blocks = batch.windows.n_windows
            factor = n_blocks / batch.n_spans
            scale = dict.fromkeys(total, factor)
            scale["start"] = data.n_spans / max(sizes, 1)
            scale["transition"] = factor * n_pairs / (data.n_rows - n_blocks)
            for name in total:
                kept = 1.0 if name == "start" and not sizes else 1.0 - rate
                total[name] = kept * total[name] + rate * scale[name] * new[name]
    return total


@pytest.mark.parametrize("guards", ["messages", "counts"])
@pytest.mark.parametrize(("kind", "length"), [("hmm", 2), ("sticky", 3), ("hmm", 4)])
def test_a_fit_equals_the_plain_loop_over_all_paths(kind: str, length: int, guards: str) -> None:
    """Starts, ends, blocks of unequal lengths, counts and edges of two laps of random batches."""
    model, data = MODELS[kind](), words(9, seed=3)
    start = from_local(model, data, K, np.random.default_rng(1))
    engine = engine_of(subchain_length=length, guards=guards, max_iter=2)
    found = run(model, engine, data, start)
    expected = plain_fit(model, engine, data, start, 2)
    for name in expected:  # edges are kept in float32
        np.testing.assert_allclose(found.counts[name], expected[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("guards", ["messages", "counts", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_whole_sequences_are_sequences(kind: str, guards: str) -> None:
    model, data = MODELS[kind](), words(12, seed=2)
    start = from_local(model, data, K, np.random.default_rng(1))
    settings = {"batch_size": 12, "max_iter": 3, "tol": 0.0}
    blocks = run(model, engine_of(subchain_length=9, guards=guards, **settings), data, start)
    whole = StochasticCollapsedVB(kappa=0.5, delay=1.0, **settings)
    assert isinstance(whole.rule(), IncludeOwn)
    wanted = run(model, whole, data, start)
    for name in wanted.counts:
        np.testing.assert_allclose(blocks.counts[name], wanted.counts[name], rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_killed_and_threaded_fits_are_the_same_bits(kind: str, tmp_path: Any) -> None:
    data, model = words(40, seed=5), MODELS[kind]()
    start = from_local(model, data, K, np.random.default_rng(1))
    engine = engine_of(max_iter=6)
    whole = run(model, engine, data, start)
    with workers(2) as pool:
        threaded = run(model, engine, data, start, pool=pool)

    class Stop(sb.Callback):
        def on_lap(self, record: Any) -> None:
            if record.lap == 3:
                raise StopIteration

    path = tmp_path / "fit.checkpoint"
    saving = replace(engine, checkpoint=path, checkpoint_every=0.0)
    run(model, replace(saving, callbacks=(Stop(),)), data, start)
    resumed = run(model, engine, data, read_checkpoint(path)[1])
    for other in (threaded, resumed):
        for name in whole.counts:
            np.testing.assert_array_equal(other.counts[name], whole.counts[name])


def test_edges_begin_with_those_of_chains_or_unknown() -> None:
    model, data = MODELS["hmm"](), words(6, seed=1, gaps=True)
    rule, rng = GuardedLogMean(2), np.random.default_rng(0)
    start = from_local(model, data, K, rng)
    begun = rule.begin(model, data, start, SERIAL)
    assert start.warm is not None
    assert begun.warm is not None
    blocks = data.whole().in_blocks(2)
    assert blocks.offsets is not None
    is_used = blocks.repeats_or_ones()[blocks.offsets[:-1]] > 0
    last = start.warm["rows"][blocks.offsets[1:] - 1]
    np.testing.assert_allclose(begun.warm["edges"][is_used, 1], last[is_used], rtol=1e-6)
    np.testing.assert_allclose(begun.warm["edges"][~is_used], 1 / K, rtol=1e-6)  # count nothing
    cold = rule.begin(model, data, from_blocks(model, data, K, rng, length=2), SERIAL)
    assert cold.warm is not None
    np.testing.assert_allclose(cold.warm["edges"], 1 / K, rtol=1e-6)


def test_legal_states_gaps_and_weights_take_part() -> None:
    model, (data, legal) = MODELS["hmm"](), dictionary(words(30, seed=4, gaps=True))
    start = from_local(model, data, K, np.random.default_rng(1), legal=legal)
    found = run(model, engine_of(max_iter=3), data, start)
    emission = found.counts["emission"]
    assert np.isfinite(emission).all()
    assert emission[0, 1:].max() < 1e-9  # symbol 0 may only have the first state
    assert emission[0, 0] > 1.0


@pytest.mark.filterwarnings("ignore:stopped at max_iter")
@pytest.mark.parametrize("guards", ["messages", "counts", "none"])
def test_states_of_one_long_sequence_are_found(guards: str) -> None:
    """Three symbols in turn: each has a state of its own, and blocks of two rows know the order."""
    rng = np.random.default_rng(0)
    chain = (np.cumsum(rng.random(3000) < 0.9) % 3)[:, None]
    engine = engine_of(subchain_length=2, guards=guards, batch_size=100, max_iter=8)
    model = sb.HMM(3, family="categorical", inference=engine, random_state=0, init="k-means++")
    model.fit(chain)
    frequencies = np.bincount(chain[:, 0]) / len(chain)
    alone = float(np.log(frequencies[chain[:, 0]]).mean())
    assert model.score(chain) > alone + 0.5  # 0.9 and 0.1: entropy 0.33 of 1.1


@pytest.mark.filterwarnings("ignore:stopped at max_iter")
def test_rows_of_other_kinds_and_streams() -> None:
    """Gaussian rows in blocks; a stream has whole sequences."""
    rng = np.random.default_rng(0)
    path = np.repeat([-4.0, 4.0, -4.0, 4.0], 50)[:, None]
    X = [path + rng.normal(size=path.shape) for _ in range(4)]
    engine = engine_of(subchain_length=10, batch_size=20)
    model = sb.HMM(2, inference=engine, random_state=0, max_iter=20).fit(X)
    np.testing.assert_allclose(np.sort(model.means_.ravel()), [-4, 4], atol=0.3)
    streams = [
        sb.HMM(2, inference=inference, random_state=0)
        for inference in (engine, StochasticCollapsedVB())
    ]
    for part in X:
        for stream in streams:
            stream.partial_fit([part], total_samples=4)
    np.testing.assert_array_equal(streams[0].means_, streams[1].means_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"granularity": "token"}, "'token'"),
        ({"granularity": "subsequence", "guards": "both"}, "'both'"),
        ({"granularity": "subsequence", "subchain_length": 1}, "at least 2"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    engine = StochasticCollapsedVB(**settings)
    with pytest.raises(ValueError, match=message):
        sb.HMM(2, family="categorical", inference=engine).fit([list("abab"), list("baba")])


def test_rows_without_order_have_no_blocks() -> None:
    engine = StochasticCollapsedVB(granularity="subsequence")
    with pytest.raises(ValueError, match="these data have none"):
        sb.Mixture(2, inference=engine).fit(np.random.default_rng(0).normal(size=(20, 2)))
    with pytest.raises(ValueError, match="these data have none"):
        sb.LatentDirichletAllocation(2, inference=engine).fit([["a", "b"], ["c", "a"]])


def test_impossible_steps_are_refused() -> None:
    """What the neighbors were might then leave a block without a path."""
    engine = engine_of(subchain_length=2, batch_size=1)
    with pytest.raises(ValueError, match="impossible steps"):
        sb.HMM(
            2, family="categorical", inference=engine, start_prior=np.ones(2),
            transition_prior=np.array([[1.0, 1.0], [0.0, 1.0]]),
        ).fit([list("abab"), list("baba")])  # fmt: skip


@pytest.mark.slow
def test_steps_on_more_than_there_are_say_so() -> None:
    for granularity, units in (("auto", "2 sequences"), ("subsequence", "4 blocks")):
        engine = StochasticCollapsedVB(
            granularity=granularity, subchain_length=2, batch_size=9, max_iter=2, tol=9.0
        )
        with (
            pytest.warns(sb.DataWarning, match=f"there are {units}"),
            pytest.warns(sb.ConvergenceWarning),
        ):
            sb.HMM(2, family="categorical", inference=engine).fit([list("abab"), list("baba")])
