"""Collapsed Gibbs sampling: exact posteriors of tiny chains by enumeration, temperatures,
repeatability, and what it refuses. Documents: see test_gibbs_documents.py.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from enumeration import assert_average, log_dirichlet_multinomial
from scipy.special import logsumexp

import stickbreak as sb
from stickbreak.data import Sequences, Table, measure
from stickbreak.families import Categorical
from stickbreak.families.names import make_family
from stickbreak.inference import DrawOwn, Start, read_checkpoint, run, step, workers
from stickbreak.initialize import counts as initialize
from stickbreak.initialize import from_local
from stickbreak.kernels.chain.gibbs import (
    StateCounts,
    move_step,
    move_symbol,
    sweep_states,
    weigh_states,
)
from stickbreak.models import dp_mixture, finite_hmm, finite_mixture, hdp_hmm
from stickbreak.stats import SERIAL

Array = np.ndarray
K, V, BASE = 2, 3, 0.4
WORDS, OFFSETS = np.array([0, 1, 1, -1, 2, 0, 0, 2]), np.array([0, 4, 7, 8])
FIRST, ROWS = np.array([0.7, 1.5]), np.array([[1.0, 0.4], [0.3, 2.0]])
LABELINGS = np.array(list(product(range(K), repeat=len(WORDS))))


def count(labels: Array) -> tuple[Array, Array, Array]:
    """start (K,), transition (K, K), emission (V, K) of a labeling; word -1 is missing."""
    start, transition, emission = np.zeros(K), np.zeros((K, K)), np.zeros((V, K))
    for t, z in enumerate(labels):
        if WORDS[t] >= 0:
            emission[WORDS[t], z] += 1
        if t in OFFSETS:
            start[z] += 1
        else:
            transition[labels[t - 1], z] += 1
    return start, transition, emission


COUNTED = [count(labels) for labels in LABELINGS]
START, TRANSITION, EMITTED = (np.array([counted[i] for counted in COUNTED]) for i in range(3))


def log_joint(first: Array, rows: Array) -> Array:
    """(256,) log probability of every labeling with the words."""
    words = log_dirichlet_multinomial(EMITTED.transpose(0, 2, 1), np.full((K, V), BASE)).sum(-1)
    steps = log_dirichlet_multinomial(TRANSITION, rows).sum(-1)
    return log_dirichlet_multinomial(START, first) + steps + words


def live(states: Array) -> StateCounts:
    start, transition, emission = count(states)
    arrays = (
        start + FIRST, transition + ROWS, (transition + ROWS).T, (transition + ROWS).sum(1),
        emission + BASE, emission.sum(0) + V * BASE,
    )  # fmt: skip
    return StateCounts(*(np.ascontiguousarray(a) for a in arrays))


NO_SETS = np.zeros(0, dtype=np.int64), np.ones((1, K))
ALL = np.ones(len(OFFSETS) - 1, dtype=np.bool_)


def index_of(states: Array) -> int:
    return int(np.ravel_multi_index(tuple(states), (K,) * len(states)))


@pytest.mark.parametrize("t", range(len(WORDS)))
def test_weights_of_a_state_are_ratios_of_joints(t: int) -> None:
    """First, last and single rows, and a missing symbol; every labeling of all others."""
    joint, s = log_joint(FIRST, ROWS), int(np.searchsorted(OFFSETS, t, side="right")) - 1
    weights = np.empty(K)
    for states in LABELINGS[::3]:
        counts, before, after = live(states), -1, -1
        if t + 1 < OFFSETS[s + 1]:
            after = states[t + 1]
            move_step(counts, states[t], after, -1.0)
        if t > OFFSETS[s]:
            before = states[t - 1]
        move_step(counts, before, states[t], -1.0)
        move_symbol(counts, WORDS[t], states[t], -1.0)
        total, _ = weigh_states(counts, before, after, WORDS[t], *NO_SETS, t, weights)
        each = [joint[index_of(np.r_[states[:t], k, states[t + 1 :]])] for k in range(K)]
        # sums of eight or fewer numbers: rounding is some units of the last place
        np.testing.assert_allclose(weights / total, np.exp(each - logsumexp(each)), rtol=1e-12)


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_long_runs_of_sweeps_have_the_posterior_of_all_paths(power: float) -> None:
    """At a temperature, the posterior to the power of one over it, normalized."""
    joint, rng = power * log_joint(FIRST, ROWS), np.random.default_rng(0)
    chance, states = np.exp(joint - logsumexp(joint)), rng.integers(0, K, len(WORDS))
    counts, seen = live(states), []
    for _ in range(6000):
        seeds = rng.integers(0, 1 << 64, len(WORDS), dtype=np.uint64)
        sweep_states(counts, WORDS, OFFSETS, ALL, *NO_SETS, states, True, seeds, power)
        seen.append(index_of(states))
    for kept, fresh in zip(counts, live(states), strict=True):
        np.testing.assert_allclose(kept, fresh, rtol=1e-9)  # sums of 6000 steps of +1 and -1
    for exact in (START, TRANSITION, EMITTED):
        flat = exact.reshape(len(exact), -1)
        assert_average(flat[seen[100:]] ** 2, chance @ flat**2)
    assert_average(joint[seen[100:]], chance @ joint)


def test_a_long_run_has_the_golden_marginals() -> None:
    """Six sequences of three words with a dictionary: 0 is of the first state, 2 of the second."""
    texts = np.array([[int(c) for c in t] for t in ("012", "102", "112", "011", "210", "021")])
    words, ends = texts.ravel(), np.arange(0, 19, 3)
    legal = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    states, tables = np.array([0, 0, 1])[words], [np.full(s, 0.5) for s in (2, (2, 2), (3, 2))]
    np.add.at(tables[0], states[::3], 1)
    inner = np.arange(18) % 3 > 0
    np.add.at(tables[1], (states[:-1][inner[1:]], states[inner]), 1)
    np.add.at(tables[2], (words, states), 1)
    start, steps, emitted = tables
    counts = StateCounts(start, steps, steps.T.copy(), steps.sum(1), emitted, emitted.sum(0))
    rng, seen, n = np.random.default_rng(0), [], 20_000
    seeds = rng.integers(0, 1 << 64, (n, 18), dtype=np.uint64)
    used = np.ones(6, dtype=np.bool_)
    for i in range(n):
        sweep_states(counts, words, ends, used, words, legal, states, True, seeds[i], 1.0)
        seen.append(states[words == 1] == 0)
    exact = [0.368445, 0.441587, 0.510293, 0.425892, 0.308138, 0.410951, 0.368445, 0.431273]
    assert_average(seen, exact)  # a run of 30,000 has a standard deviation of 0.006


# ---- fits ----------------------------------------------------------------------------------------
def tiny_model(kind: str) -> Any:
    family = replace(Categorical(BASE), n_symbols=(V,))
    if kind == "finite":
        return finite_hmm(family, start_prior=FIRST, transition_prior=ROWS)
    return hdp_hmm(family, concentration=1.2, start_concentration=2.0, top_concentration=3.0)


def long_run(kind: str, legal: Array | None, sets: Array | None, n: int) -> list[dict[str, Array]]:
    """Counts, root and log joint after each sweep, the first 50 left out."""
    data, engine = Sequences(WORDS[:, None], offsets=OFFSETS, sets=sets), sb.CollapsedGibbs()
    model, accumulator = engine.adapt(tiny_model(kind)), engine.accumulator(None)
    begun = initialize.count_labels(model, data.whole(), np.arange(len(WORDS)) % K, K)
    state = accumulator.begin(Start(begun, model.start_params(K, legal)), tuple(range(K)), 1)
    (batch,), found = engine.plan(data).lap(0, 0), []
    for i in range(n):
        step(model, DrawOwn().at(0, i), accumulator, state, batch)
        total = state.total.snapshot()
        joint = model.bound(total, state.params)
        found.append({**total.arrays, **state.params.arrays, "log joint": joint})
    return found[50:]


LENGTHS = pytest.mark.parametrize("n_sweeps", [450, pytest.param(2050, marks=pytest.mark.slow)])


@pytest.mark.few(1)
@LENGTHS
@pytest.mark.parametrize("is_labeled", [False, True])
def test_long_run_of_a_fit_has_the_posterior_of_all_legal_paths(
    is_labeled: bool, n_sweeps: int
) -> None:
    joint, sets, legal = log_joint(FIRST, ROWS), None, None
    if is_labeled:  # the second row is in state 0
        legal, sets = np.array([[1.0, 1.0], [1.0, 0.0]]), np.eye(len(WORDS), dtype=np.int64)[1]
        joint = np.where(LABELINGS[:, 1] == 0, joint, -np.inf)
    chance = np.exp(joint - logsumexp(joint))
    seen = long_run("finite", legal, sets, n_sweeps)
    for name, exact in (("start", START), ("transition", TRANSITION), ("emission", EMITTED)):
        flat = exact.reshape(len(exact), -1)
        assert_average([s[name].ravel() ** 2 for s in seen], chance @ flat**2)
    assert_average([s["log joint"] for s in seen], chance @ np.where(chance > 0, joint, 0.0))


@pytest.mark.slow
@LENGTHS
def test_long_run_of_an_hdp_has_the_posterior_of_all_paths_and_roots(n_sweeps: int) -> None:
    """Two states: the root has one number, over which a fine grid integrates."""
    grid = (np.arange(400) + 0.5) / 400
    roots = np.column_stack([grid, 1 - grid])
    joint = np.array([log_joint(2.0 * b, np.tile(1.2 * b, (K, 1))) for b in roots])
    joint += 0.5 * np.log(roots).sum(1)[:, None]  # Dirichlet(1.5, 1.5), a constant apart
    chance = np.exp(joint - logsumexp(joint))
    seen = long_run("hdp", None, None, n_sweeps)
    assert_average([s["root"][0] for s in seen], chance.sum(1) @ grid)
    assert_average([s["root"][0] ** 2 for s in seen], chance.sum(1) @ grid**2)
    exact = np.trace(TRANSITION, axis1=1, axis2=2)
    assert_average([np.trace(s["transition"]) for s in seen], chance.sum(0) @ exact)


def chains(n: int = 40, seed: int = 0) -> list[Array]:
    """Two states that stay, each with symbols of its own."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        states = np.cumsum(rng.random(rng.integers(5, 30)) < 0.1) % 2
        found.append(3 * states + rng.integers(0, 3, len(states)))
    return found


def hmm(**more: Any) -> sb.HMM:
    return sb.HMM(2, family="categorical", random_state=0, **more)


def test_states_are_found_and_a_falling_temperature_ends_near_a_mode() -> None:
    cool = hmm(inference=sb.CollapsedGibbs(max_iter=30, temperature=(2.0, 0.08))).fit(chains())
    hot = hmm(inference="collapsed-gibbs", max_iter=30).fit(chains())
    found = cool.posterior_["probability"][:, 0, :3].sum(1)  # the first state's own symbols
    np.testing.assert_allclose(np.sort(found), [0.0, 1.0], atol=0.05)  # 0.5 a symbol, of 6
    assert cool.lower_bound_ >= hot.trace_.bound.max() - 1e-9
    assert cool.converged_
    assert cool.trace_.n_used[-1] == 2


def test_temperatures_fall_in_geometric_steps() -> None:
    rule = sb.CollapsedGibbs(max_iter=5, temperature=(2.0, 0.125)).rule()
    powers = [rule.at(0, i).power for i in range(7)]
    np.testing.assert_allclose(1 / np.array(powers), [2, 1, 0.5, 0.25, 0.125, 0.125, 0.125])
    assert sb.CollapsedGibbs().rule().at(0, 3).power == 1.0
    for bad in (0.0, -1.0, np.inf, np.nan, "hot", (1.0,), (1.0, 0.0), True):
        with pytest.raises(ValueError, match="temperature must be a positive number, or a pair"):
            hmm(inference=sb.CollapsedGibbs(temperature=bad)).fit(chains(3))


def test_killed_fits_and_threads_draw_the_same(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("stickbreak.inference.collapsed.SWEEP_ROWS", 100)  # several lanes
    X = np.concatenate(chains())
    ends = np.r_[0, np.cumsum([len(x) for x in chains()])]
    data, model = Sequences(X[:, None], offsets=ends), finite_hmm(Categorical(0.5, (6,)))
    start = from_local(model, data, 2, np.random.default_rng(0))
    engine = sb.CollapsedGibbs(max_iter=6)
    whole = run(model, engine, data, start, seed=3)
    with workers(2) as pool:
        threaded = run(model, engine, data, start, seed=3, pool=pool)
    saving = replace(engine, max_iter=3, checkpoint=tmp_path / "c", checkpoint_every=0.0)
    run(model, saving, data, start, seed=3)
    resumed = run(model, engine, data, read_checkpoint(tmp_path / "c")[1], seed=3)
    for other in (threaded, resumed):
        assert [lap.bound for lap in other.trace] == [lap.bound for lap in whole.trace]
        np.testing.assert_array_equal(other.counts["transition"], whole.counts["transition"])
    assert run(model, engine, data, start, seed=4).bound != whole.bound
    np.testing.assert_array_equal(whole.counts["transition"] % 1, 0.0)
    assert whole.counts["emission"].sum() == len(X)


def test_what_cannot_be_swept_is_refused() -> None:
    engine, X = sb.CollapsedGibbs(max_iter=2), chains(4)
    rows = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match="no sweeps for Chain with Gaussian; use Gibbs"):
        sb.HMM(2, inference=engine).fit([rows])
    with pytest.raises(ValueError, match=r"cannot pass steps that the prior forbids.*use Gibbs"):
        hmm(inference=engine, transition_prior=np.array([[1.0, 0.0], [1.0, 1.0]])).fit(X)
    with pytest.raises(ValueError, match="weights must be 0 or 1; got 2"):
        hmm(inference=engine).fit(X, sample_weight=np.full(4, 2.0))
    with pytest.raises(ValueError, match="tol must be 0"):
        hmm(inference=replace(engine, tol=0.1)).fit(X)
    with pytest.raises(ValueError, match="reorder must be False"):
        hmm(inference=replace(engine, reorder=True)).fit(X)
    with pytest.raises(ValueError, match="visits units again and again"):
        hmm(inference=engine).partial_fit(X)
    found = hmm(inference=engine).fit(X, sample_weight=np.array([1.0, 0.0, 1.0, 1.0]))
    assert found.counts_.sum() == sum(len(X[i]) for i in (0, 2, 3))


# ---- mixtures ------------------------------------------------------------------------------------
POINTS = np.array([[0.3, -1.0], [0.1, 0.4], [2.0, 1.0], [1.5, 2.0], [0.0, 0.9], [1.0, 0.0]])
FAMILY_ROWS = {
    "gaussian": POINTS,
    "diagonal": POINTS,
    "poisson": np.rint(np.abs(2 * POINTS)),
    "categorical": np.rint(np.abs(POINTS)),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["finite", "dp"])
@pytest.mark.parametrize(
    "name",  # each of the others takes seconds to compile
    [
        pytest.param(n, marks=() if n in ("gaussian", "categorical") else pytest.mark.slow)
        for n in FAMILY_ROWS
    ],
)
def test_long_run_of_a_mixture_has_the_posterior_of_all_labelings(name: str, kind: str) -> None:
    """The log joint of a labeling is that of its counts, parameters integrated out."""
    table, make = Table(FAMILY_ROWS[name]), {"finite": finite_mixture, "dp": dp_mixture}[kind]
    family = make_family(name).locate(None, table.rows.shape[1])
    model = make(family.resolve(measure(table, family.check_rows)), 1.5)
    labelings, params = np.array(list(product(range(K), repeat=6))), model.start_params(K)
    counted = [initialize.count_labels(model, table.whole(), z, K) for z in labelings]
    joint = np.array([model.bound(counts, params) for counts in counted])
    chance = np.exp(joint - logsumexp(joint))
    engine, (batch,) = sb.CollapsedGibbs(), table.batches(1)
    model, counts, own, seen = engine.adapt(model), counted[0], None, []
    for i in range(850):
        rule = DrawOwn().at(0, i)
        counts, own = rule.visit(model, counts, params, batch, own, (), SERIAL)
        seen.append(own["state"] - 1)
    joints = joint[[int("".join(map(str, z)), K) for z in seen]]
    assert counts["share"].sum() == 6
    assert model.bound(counts, params) == pytest.approx(joints[-1], rel=1e-9)
    assert_average(joints[50:], chance @ joint)
    same = lambda z: z[:, :1] == z[:, 1:]
    assert_average(same(np.array(seen[50:])), chance @ same(labelings))
