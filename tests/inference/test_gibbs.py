"""Gibbs sampling: exact posteriors of tiny models by enumeration, repeatability, and what it finds
and refuses.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from enumeration import assert_average, log_dirichlet_multinomial
from fitting import assert_same_fit, blob_model, blobs, fit, random_start
from scipy.special import gammaln, logsumexp

from stickbreak import families
from stickbreak.data import Sequences, Table, measure
from stickbreak.inference import Draw, Gibbs, Start, read_checkpoint, run, step, workers
from stickbreak.initialize import counts as initialize
from stickbreak.initialize import from_blocks
from stickbreak.models import dp_mixture, finite_hmm, finite_mixture, hdp_hmm
from stickbreak.priors import GammaPrior, HDPRows, WeakLimitRows
from stickbreak.stats import Summary, draw_tables

Array = np.ndarray
SYMBOLS = np.array([0, 1, 1, 2, 0, 0, 2])[:, None]
OFFSETS = np.array([0, 4, 7])
EMISSION = 0.4  # prior count of each of three symbols
LENGTHS = pytest.mark.parametrize("n_sweeps", [450, pytest.param(1250, marks=pytest.mark.slow)])


# ---- oracles: all labelings of a tiny model ------------------------------------------------------
def count_labels(labels: Array) -> tuple[Array, Array, Array]:
    """start (2,), transition (2, 2), emission (2, 3) of a labeling (7,)."""
    start, transition, emission = np.zeros(2), np.zeros((2, 2)), np.zeros((2, 3))
    for t, z in enumerate(labels):
        emission[z, SYMBOLS[t, 0]] += 1
        if t in OFFSETS:
            start[z] += 1
        else:
            transition[labels[t - 1], z] += 1
    return start, transition, emission


LABELINGS = np.array(list(product(range(2), repeat=len(SYMBOLS))))
COUNTED = [count_labels(labels) for labels in LABELINGS]
START, TRANSITION, EMITTED = (np.array([counted[i] for counted in COUNTED]) for i in range(3))
LOG_DATA = log_dirichlet_multinomial(EMITTED, np.full((2, 3), EMISSION)).sum(-1)


def log_labels(start_prior: Array, transition_prior: Array) -> Array:
    """(128,) log prior probability of every labeling."""
    rows = log_dirichlet_multinomial(TRANSITION, transition_prior).sum(-1)
    return log_dirichlet_multinomial(START, start_prior) + rows


# ---- long runs -----------------------------------------------------------------------------------
def sweeps(
    model: Any,
    data: Any,
    n_sweeps: int,
    seed: int = 0,
    n_components: int = 2,
    slices: bool = False,
) -> list[dict[str, Array]]:
    """Counts, parameters and log joint after each sweep, the first 50 left out."""
    engine = Gibbs(max_iter=n_sweeps, slices=slices)
    model = engine.adapt(model)
    accumulator, plan = engine.accumulator(data), engine.plan(data)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_components, data.n_rows)
    start = from_labels(model, data, labels, n_components)
    state = accumulator.begin(start, tuple(range(n_components)), 1)
    found = []
    for i in range(n_sweeps):
        (batch,) = plan.lap(seed, i)
        step(model, Draw().at(seed, i), accumulator, state, batch)
        total = state.total.snapshot()
        found.append(
            {**total.arrays, **state.params.arrays, "log joint": model.bound(total, state.params)}
        )
    return found[50:]


def from_labels(model: Any, data: Any, labels: Array, n_components: int) -> Any:
    return Start(
        initialize.count_labels(model, data.whole(), labels, n_components),
        model.start_params(n_components),
    )


def tiny_family() -> Any:
    return families.Categorical(concentration=EMISSION, n_symbols=3).resolve(
        measure(Table(SYMBOLS))
    )


@pytest.mark.slow
@LENGTHS
@pytest.mark.parametrize("slices", [False, True])
def test_long_run_of_a_hidden_markov_model_has_the_posterior_of_all_paths(
    n_sweeps: int, slices: bool
) -> None:
    first, rows = np.array([0.7, 1.5]), np.array([[1.0, 0.4], [0.3, 2.0]])
    model = finite_hmm(tiny_family(), start_prior=first, transition_prior=rows)
    data = Sequences(SYMBOLS, offsets=OFFSETS)
    joint = log_labels(first, rows) + LOG_DATA
    chance = np.exp(joint - logsumexp(joint))
    seen = sweeps(model, data, n_sweeps, slices=slices)
    for name, exact in (
        ("start", START),
        ("transition", TRANSITION),
        ("emission", EMITTED.transpose(0, 2, 1)),
    ):
        flat = exact.reshape(len(exact), -1)
        assert_average([s[name].ravel() for s in seen], chance @ flat)
        assert_average([s[name].ravel() ** 2 for s in seen], chance @ flat**2)
    assert_average([s["log joint"] for s in seen], chance @ joint)


@pytest.mark.slow
@LENGTHS
@pytest.mark.parametrize("slices", [False, True])
@pytest.mark.parametrize("stickiness", [pytest.param(0.0, marks=pytest.mark.slow), 1.5])
def test_long_run_of_an_hdp_has_the_posterior_of_all_paths_and_roots(
    stickiness: float, slices: bool, n_sweeps: int
) -> None:
    """Two states: the root has one number, over which a fine grid integrates."""
    numbers = {
        "concentration": 1.2,
        "start_concentration": 2.0,
        "top_concentration": 3.0,
        "stickiness": stickiness,
    }
    model, data = hdp_hmm(tiny_family(), **numbers), Sequences(SYMBOLS, offsets=OFFSETS)
    grid = (np.arange(400) + 0.5) / 400
    joint = []
    for u in grid:
        b = np.array([u, 1 - u])
        own = 0.5 * np.log(b).sum()  # Dirichlet(1.5, 1.5), a constant apart
        joint.append(own + log_labels(2.0 * b, 1.2 * b + stickiness * np.eye(2)) + LOG_DATA)
    joint = np.array(joint)
    chance = np.exp(joint - logsumexp(joint))
    seen = sweeps(model, data, n_sweeps, slices=slices)
    assert_average([s["root"][0] for s in seen], chance.sum(1) @ grid)
    assert_average([s["root"][0] ** 2 for s in seen], chance.sum(1) @ grid**2)
    assert_average(
        [np.trace(s["transition"]) for s in seen],
        chance.sum(0) @ np.trace(TRANSITION, axis1=1, axis2=2),
    )
    assert_average([s["transition"].max() for s in seen], chance.sum(0) @ TRANSITION.max((1, 2)))
    exact = float((chance * (joint + gammaln(3.0) - 2 * gammaln(1.5))).sum())
    assert_average([s["log joint"] for s in seen], exact)


@pytest.mark.slow
@pytest.mark.parametrize("allocation", ["finite", "dp"])
def test_long_run_of_a_mixture_has_the_posterior_of_all_labelings(allocation: str) -> None:
    """Labels of a Dirichlet process are held to its first two components."""
    model = {"finite": finite_mixture, "dp": dp_mixture}[allocation](tiny_family(), 1.5)
    held = np.array([[(labels == k).sum() for k in range(2)] for labels in LABELINGS])
    if allocation == "finite":
        prior = log_dirichlet_multinomial(held, np.full(2, 0.75))
    else:
        beta = lambda a, b: gammaln(a) + gammaln(b) - gammaln(a + b) - (gammaln(1.5) - gammaln(2.5))
        prior = beta(1.0 + held[:, 0], 1.5 + held[:, 1]) + beta(1.0 + held[:, 1], 1.5)
    joint = prior + LOG_DATA
    chance = np.exp(joint - logsumexp(joint))
    seen = sweeps(model, Table(SYMBOLS), 1050)
    assert_average([s["share"] for s in seen], chance @ held)
    assert_average(
        [s["emission"].T.ravel() ** 2 for s in seen], chance @ EMITTED.reshape(128, -1) ** 2
    )
    assert_average([s["log joint"] for s in seen], chance @ joint)


# ---- the root ------------------------------------------------------------------------------------
def test_numbers_of_tables_have_their_exact_mean_and_variance() -> None:
    """sum_i c / (c + i), and sum_i c i / (c + i)**2."""
    counts, c = np.array([0.0, 1.0, 7.0, 300.0]), np.array([2.0, 0.01, 0.8, 5.0])
    rng = np.random.default_rng(0)
    found = np.array([draw_tables(counts, c, rng) for _ in range(3000)])
    means = [(x / (x + np.arange(n))).sum() for x, n in zip(c, counts, strict=True)]
    variances = [
        (x * np.arange(n) / (x + np.arange(n)) ** 2).sum() for x, n in zip(c, counts, strict=True)
    ]
    assert_average(found, means)
    assert_average((found - means) ** 2, variances)
    assert (found[:, 0] == 0).all()
    assert (found[:, 1] == 1).all()


def test_tables_drawn_in_chunks_are_those_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, c = np.array([[5.0, 0.0], [40.0, 13.0]]), np.array([[0.5, 1.0], [2.0, 3.0]])
    whole = draw_tables(counts, c, np.random.default_rng(1))
    monkeypatch.setattr("stickbreak.stats.draws.CHUNK", 7)
    np.testing.assert_array_equal(draw_tables(counts, c, np.random.default_rng(1)), whole)


@pytest.mark.slow
@pytest.mark.parametrize("stickiness", [0.0, 4.0])
def test_roots_drawn_in_turn_have_their_posterior_given_the_counts(stickiness: float) -> None:
    prior = WeakLimitRows(0.8, 1.5, 2.0, stickiness)
    counts = {"start": np.array([1.0, 3.0]), "transition": np.array([[9.0, 2.0], [1.0, 4.0]])}
    fields = finite_hmm(tiny_family()).prior.fields("component")
    total, params = Summary(fields, counts), prior.start(2, "component")
    grid = (np.arange(2000) + 0.5) / 2000
    log_density = []
    for u in grid:
        at = prior.start(2, "component")
        at.arrays["root"][:] = u, 1 - u
        log_density.append(prior.bound(total, at))
    chance = np.exp(log_density - logsumexp(log_density))
    rng, seen = np.random.default_rng(2), []
    for _ in range(2000):
        params = prior.redraw(total, params, rng)
        seen.append(params["root"][0])
    assert_average(seen, chance @ grid)
    assert_average(np.square(seen), chance @ grid**2)


# ---- fits ----------------------------------------------------------------------------------------
def toy(n_sequences: int = 6, length: int = 150, seed: int = 0) -> tuple[Sequences, Array]:
    """Four states in a plane that go round, well apart."""
    rng = np.random.default_rng(seed)
    states = (
        np.cumsum(rng.random((n_sequences, length)) < 0.04, axis=1)
        + np.arange(n_sequences)[:, None]
    ) % 4
    centers = np.array([[0.0, 8.0], [8.0, 0.0], [0.0, -8.0], [-8.0, 0.0]])
    labels = states.ravel()
    rows = centers[labels] + rng.normal(size=(len(labels), 2))
    return Sequences(rows, offsets=np.arange(0, len(labels) + 1, length)), labels


def toy_model(data: Sequences, stickiness: float = 20.0) -> Any:
    return hdp_hmm(families.Gaussian().resolve(measure(data)), stickiness=stickiness)


def toy_fit(engine: Gibbs, n_jobs: int = 1, seed: int = 1) -> Any:
    data, _ = toy()
    model = toy_model(data)
    with workers(n_jobs) as pool:
        return run(
            model,
            engine,
            data,
            from_blocks(model, data, 10, np.random.default_rng(3)),
            seed=seed,
            pool=pool,
        )


def test_states_of_a_sticky_hdp_are_found() -> None:
    data, labels = toy()
    found = toy_fit(Gibbs(max_iter=60))
    assert found.trace.n_used[-1] <= 6
    assert (found.trace.n_components == 10).all()
    best = found.model.decode(
        found.model.potentials(found.counts, found.params, Gibbs().rule()), data.whole()
    )
    table = np.array([[((best == k) & (labels == j)).sum() for j in range(4)] for k in range(10)])
    assert table.max(1).sum() > 0.99 * len(labels)
    assert np.isfinite(found.trace.bound).all()
    assert found.trace.bound[-20:].mean() > found.trace.bound[:3].mean()
    assert found.is_converged
    assert found.bound == found.trace.bound[-1]
    assert isinstance(found.model.prior, WeakLimitRows)
    assert found.params["root"].sum() == pytest.approx(1.0, rel=1e-12)


def test_counts_are_those_of_one_labeling() -> None:
    found = toy_fit(Gibbs(max_iter=3))
    for name in ("start", "transition"):
        np.testing.assert_array_equal(found.counts[name], np.rint(found.counts[name]))
    assert found.counts["start"].sum() == 6
    assert found.counts["transition"].sum() == 6 * 149
    assert (
        found.trace.n_used[-1]
        == ((found.counts["start"] + found.counts["transition"].sum(0)) > 0).sum()
    )


def test_same_seed_same_result_and_another_seed_another_one(tmp_path: Any) -> None:
    engine = Gibbs(max_iter=4)
    first = toy_fit(engine)
    assert_same_fit(first, toy_fit(engine))
    assert_same_fit(first, toy_fit(engine, n_jobs=2))
    assert (toy_fit(engine, seed=2).counts["transition"] != first.counts["transition"]).any()
    data, _ = toy()
    model = toy_model(data)
    half = Gibbs(max_iter=2, checkpoint=tmp_path / "c", checkpoint_every=0.0)
    run(model, half, data, from_blocks(model, data, 10, np.random.default_rng(3)), seed=1)
    assert_same_fit(first, run(model, engine, data, read_checkpoint(tmp_path / "c")[1], seed=1))


def test_lanes_draw_the_same_for_any_number_of_workers() -> None:
    rows = blobs(20_000, 3)
    model, table = blob_model(rows, "finite"), Table(rows)
    start = random_start(model, table, 3)
    one, two = (fit(model, Gibbs(max_iter=2), table, start, n_jobs=n) for n in (1, 2))
    assert_same_fit(one, two)
    assert one.counts["share"].sum() == 20_000


def test_what_cannot_be_sampled_is_refused() -> None:
    rows = blobs(30, 1)
    model = blob_model(rows)
    with pytest.raises(ValueError, match=r"weights must be 0 or 1; got 2\.5"):
        fit(model, Gibbs(max_iter=1), Table(rows, repeats=np.full(30, 2.5)), 2)
    for settings, match in (
        ({"tol": 0.1}, "tol must be 0"),
        ({"reorder": True}, "reorder must be False"),
        ({"max_iter": 0}, "max_iter"),
    ):
        with pytest.raises(ValueError, match=match):
            fit(model, Gibbs(**settings), rows, 2)
    for name in ("stickiness", "top_concentration"):
        with pytest.raises(ValueError, match=f"Gibbs draws no {name}"):
            HDPRows(**{name: GammaPrior()}).for_draws()


def test_rows_without_weight_do_not_count() -> None:
    rows, weights = blobs(40, 1), np.where(np.arange(40) % 2, 0.0, 1.0)
    found = fit(blob_model(rows), Gibbs(max_iter=5), Table(rows, repeats=weights), 3)
    assert found.counts["share"].sum() == 20
