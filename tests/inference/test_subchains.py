"""Stochastic variational Bayes over sequences and over windows of long ones."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from fitting import assert_same_fit, slack

from stickbreak import families
from stickbreak.data import Sequences, Table, measure
from stickbreak.inference import (
    BatchVB,
    MeanLog,
    Start,
    Stochastic,
    StochasticVB,
    SubchainVB,
    WindowMeanLog,
    run,
    workers,
)
from stickbreak.inference.schedules import PowerDecay
from stickbreak.initialize import count_labels, from_blocks
from stickbreak.models import dp_mixture, finite_hmm, hdp_hmm
from stickbreak.priors import HDPRows
from stickbreak.priors.transitions import stationary
from stickbreak.stats import Tally

Array = np.ndarray
PRIORS: dict[str, Any] = {
    "finite": lambda family: finite_hmm(family),
    "hdp": lambda family: hdp_hmm(family, stickiness=5.0),
}
every_prior = pytest.mark.parametrize("prior", PRIORS)


def chains(lengths: list[int], seed: int = 0, stay: float = 0.9, spread: float = 2.0) -> Sequences:
    """Three states on a line that overlap."""
    rng, n = np.random.default_rng(seed), sum(lengths)
    labels = np.cumsum(rng.random(n) > stay) % 3
    rows = spread * (labels[:, None] - 1.0) + rng.normal(size=(n, 1))
    return Sequences(rows, offsets=np.r_[0, np.cumsum(lengths)])


def start_of(
    data: Sequences, prior: str = "finite", n_components: int = 3, seed: int = 0
) -> tuple[Any, Any]:
    model = PRIORS[prior](families.DiagonalGaussian().resolve(measure(data)))
    return model, from_blocks(model, data, n_components, np.random.default_rng(seed), length=10)


def windows_of(
    data: Sequences, length: int, buffer: int, shift: int, edge_tol: float | None = None
) -> Any:
    """All windows of one cut: every sequence after `shift` rows, and then every `length`."""

    class Shift:
        def integers(self, low: int, high: int, size: int) -> Array:
            assert (low, high) == (1, length + 1)
            return np.full(size, shift)

    bounds = data.cut_windows(length, Shift())  # type: ignore[arg-type]
    return data.take_windows(
        bounds, buffer, n_windows=len(bounds), pair_share=1.0 - 1.0 / length, edge_tol=edge_tol
    ), bounds


# ---- whole sequences of unequal lengths ----------------------------------------------------------
@every_prior
def test_minibatches_of_sequences_average_to_the_statistics_of_all(prior: str) -> None:
    """Over all pairs of five sequences, scaled by their number and not by their rows."""
    data = chains([3, 17, 1, 40, 8])
    model, start = start_of(data, prior)
    potentials = model.potentials(start.seed, start.params, MeanLog())
    full, _ = model.local_step(potentials, data.whole())
    mean, pairs = Tally(model.zeros(3)), list(combinations(range(5), 2))
    for pair in pairs:
        batch = data.take(np.array(pair))
        # rate 1: the total is the scaled batch
        accumulator = Stochastic(data.n_spans, data.n_units, PowerDecay(0.0, 0.0))
        state = accumulator.begin(start, (0, 1, 2), 1)
        accumulator.combine(state, batch, None, model.local_step(potentials, batch)[0], None)
        mean.add(state.total.view().scale(1.0 / len(pairs)))
    for name, array in full.arrays.items():
        np.testing.assert_allclose(mean.view()[name], array, rtol=1e-10, atol=1e-10, err_msg=name)
    assert mean.view()["start"].sum() == pytest.approx(5.0, rel=1e-12)


@every_prior
@pytest.mark.parametrize("engine", ["sequences", "windows"])
def test_rate_one_on_all_data_is_a_step_of_variational_bayes(prior: str, engine: str) -> None:
    data = chains([30, 7, 63, 1])
    model, start = start_of(data, prior)
    labels = np.random.default_rng(1).integers(0, 3, data.n_rows)
    # of all rows: nothing is scaled to begin with
    start = Start(count_labels(model, data.whole(), labels, 3), start.params)
    settings: dict[str, Any] = {"kappa": 0.0, "delay": 0.0, "max_iter": 3, "tol": 0.0}
    made = {
        "sequences": StochasticVB(batch_size=4, **settings),
        "windows": SubchainVB(subchain_length=63, n_subchains=4, **settings),
    }
    stochastic = run(model, made[engine], data, start)
    batch = run(model, BatchVB(max_iter=3, tol=0.0), data, start)
    for name, array in batch.counts.arrays.items():
        np.testing.assert_allclose(
            stochastic.counts[name], array, rtol=1e-9, atol=1e-9, err_msg=name
        )
    np.testing.assert_allclose(stochastic.trace.log_z, batch.trace.log_z, rtol=1e-10)
    following = run(model, BatchVB(max_iter=4, tol=0.0), data, start).bound
    assert batch.bound - slack(batch.bound) <= stochastic.bound <= following + slack(batch.bound)


# ---- windows -------------------------------------------------------------------------------------
def test_cuts_hold_every_row_once_and_every_pair_equally_often() -> None:
    data, length = chains([23, 5, 1, 14]), 6
    counted = np.zeros(data.n_rows)
    for shift in range(1, length + 1):
        batch, bounds = windows_of(data, length, 3, shift)
        assert (np.diff(bounds) <= length).all()
        seen = np.concatenate([np.arange(a, b) for a, b in bounds])
        np.testing.assert_array_equal(seen, np.arange(data.n_rows))
        for a, b in bounds:
            counted[a + 1 : b] += 1
        assert batch.n_observations == data.n_rows
        assert batch.windows.has_start.sum() == data.n_spans
    inside = np.ones(data.n_rows, dtype=bool)
    inside[data.offsets[:-1]] = False
    np.testing.assert_array_equal(counted[inside], length - 1)
    np.testing.assert_array_equal(counted[~inside], 0)


@every_prior
def test_scaled_windows_average_to_the_statistics_of_all(prior: str) -> None:
    """Buffers longer than the sequences: over all cuts and all windows of each, exactly."""
    data, length = chains([23, 5, 1, 14]), 6
    model, start = start_of(data, prior)
    full, _ = model.local_step(model.potentials(start.seed, start.params, MeanLog()), data.whole())
    potentials = WindowMeanLog().potentials(model, start.seed, start.params)
    engine = SubchainVB(subchain_length=length, kappa=0.0, delay=0.0)
    mean, starts = Tally(model.zeros(3)), []
    for shift in range(1, length + 1):
        _, bounds = windows_of(data, length, 50, shift)
        for one in bounds:
            of_all = {"n_windows": len(bounds), "pair_share": 1.0 - 1.0 / length}
            batch = data.take_windows(one[None], 50, **of_all)
            accumulator = engine.accumulator(data)
            state = accumulator.begin(start, (0, 1, 2), 1)
            accumulator.combine(state, batch, None, model.local_step(potentials, batch)[0], None)
            found = state.total.view()
            mean.add(found.scale(1.0 / (length * len(bounds))))
            if batch.windows.has_start[0]:
                starts.append(found["start"].copy())
            else:
                np.testing.assert_array_equal(
                    found["start"], accumulator.begin(start, (0, 1, 2), 1).total.view()["start"]
                )
    for name, array in full.arrays.items():
        if name != "start":
            np.testing.assert_allclose(mean.view()[name], array, rtol=1e-9, atol=1e-9, err_msg=name)
    assert len(starts) == length * data.n_spans
    # given that a start is seen
    np.testing.assert_allclose(np.mean(starts, axis=0), full["start"], rtol=1e-9)


def edge_errors(
    data: Sequences,
    model: Any,
    start: Any,
    exact: Array,
    buffer: int,
    edge_tol: float | None = None,
) -> Array:
    """(windows,) sum of absolute differences of the posterior in the first and last row of each
    window.
    """
    potentials = WindowMeanLog().potentials(model, start.seed, start.params)
    batch, bounds = windows_of(data, 12, buffer, 5, edge_tol)
    shares = np.zeros((batch.n_rows, 3))
    block = batch.with_rows(model.family.prepare(batch.rows))
    shares = np.asarray(
        model.structure.infer(potentials, block, None, dict(model.zeros(3).arrays)).shares
    )
    lead = batch.offsets[:-1] + batch.windows.lead
    first, last = lead, batch.offsets[1:] - batch.windows.trail - 1
    inner = batch.repeats > 0
    assert (shares[~inner] == 0).all()
    np.testing.assert_allclose(shares[inner].sum(1), 1.0, rtol=1e-9)
    return np.abs(shares[first] - exact[bounds[:, 0]]).sum(1) + np.abs(
        shares[last] - exact[bounds[:, 1] - 1]
    ).sum(1)


@pytest.fixture(scope="module")
def long_chain() -> tuple[Sequences, Any, Any, Array]:
    data = chains([600], seed=4, stay=0.95, spread=1.0)
    model, start = start_of(data)
    fitted = run(model, BatchVB(max_iter=20, tol=0.0), data, start)
    begin = Start(fitted.counts, fitted.params)
    exact = model.shares(model.potentials(fitted.counts, fitted.params, MeanLog()), data.whole())
    return data, model, begin, exact


def test_buffers_as_long_as_the_sequence_give_exact_posteriors(long_chain: Any) -> None:
    data, model, start, exact = long_chain
    assert edge_errors(data, model, start, exact, 600).max() < 1e-9


def test_longer_buffers_are_better_on_average(long_chain: Any) -> None:
    errors = [edge_errors(*long_chain, buffer).mean() for buffer in (0, 2, 5, 10, 20, 40)]
    assert all(later < earlier for earlier, later in pairwise(errors))
    assert errors[0] > 0.05
    assert errors[-1] < 0.01 * errors[0]


def test_adaptive_buffers_grow_until_the_edges_have_settled(long_chain: Any) -> None:
    """The last change of an edge was below the tolerance, and changes shrink, so that errors are of
    its size.
    """
    loose, tight = (edge_errors(*long_chain, 128, tol) for tol in (0.3, 1e-4))
    assert tight.max() < 1e-3
    assert tight.mean() < loose.mean() < edge_errors(*long_chain, 8).mean() + 1e-12
    assert loose.max() < 1.0


@pytest.mark.slow
def test_windows_of_a_long_chain_find_what_batch_finds() -> None:
    data = chains([12_000], seed=5, stay=0.97, spread=3.0)
    model, start = start_of(data, seed=1)
    batch = run(model, BatchVB(max_iter=40, tol=1e-7), data, start)
    engine = SubchainVB(
        subchain_length=100, n_subchains=5, buffer=20, kappa=0.8, max_iter=12, tol=0.0
    )
    found = run(model, engine, data, start, seed=1)
    assert found.bound <= batch.bound + slack(batch.bound)
    assert found.bound >= batch.bound - 2e-4 * data.n_rows  # 0.3 nats of 18,614 were seen
    mine, theirs = (
        np.sort(model.family.describe(r.counts)["mean"].ravel()) for r in (found, batch)
    )
    np.testing.assert_allclose(mine, theirs, atol=0.1)
    assert found.counts["transition"].sum() == pytest.approx(data.n_rows - 1, rel=0.05)
    assert 0.0 < found.counts["start"].sum() <= 1.0  # seen once a lap


@pytest.mark.parametrize("buffer", [0, 7, "adaptive"])
def test_same_seed_same_result_for_any_number_of_workers(buffer: Any) -> None:
    data = chains([400, 150, 3])
    model, start = start_of(data, "hdp")
    engine = SubchainVB(subchain_length=20, n_subchains=6, buffer=buffer, max_iter=2, tol=0.0)
    first = run(model, engine, data, start, seed=3)
    with workers(2) as pool:
        assert_same_fit(first, run(model, engine, data, start, seed=3, pool=pool))
    assert np.isfinite(first.bound)
    assert (
        run(model, engine, data, start, seed=4).counts["transition"] != first.counts["transition"]
    ).any()


def test_sequences_without_weight_do_not_count() -> None:
    data = chains([40, 60])
    weighted = Sequences(data.rows, np.repeat([0.0, 2.0], [40, 60]), offsets=data.offsets)
    batch, _ = windows_of(weighted, 10, 4, 3)
    assert batch.n_observations == 120
    model, start = start_of(data)
    found, _ = model.local_step(WindowMeanLog().potentials(model, start.seed, start.params), batch)
    assert found["start"].sum() == pytest.approx(2.0, rel=1e-10)
    assert found["transition"].sum() == pytest.approx(2.0 * (60 - 1 - 6), rel=1e-10)


def test_stationary_distributions() -> None:
    rows = np.random.default_rng(0).dirichlet(np.full(5, 0.5), 5)
    share = stationary(rows)
    np.testing.assert_allclose(share @ rows, share, atol=1e-6)
    assert share.sum() == pytest.approx(1.0, rel=1e-12)
    parts = stationary(np.eye(3))  # no state leads to another
    np.testing.assert_allclose(parts, 1 / 3, rtol=1e-6)
    ends = stationary(np.array([[0.5, 0.5], [0.0, 1.0]]))
    assert ends[1] > 0.999
    assert (ends > 0).all()


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"subchain_length": 1}, "subchain_length must be at least 2"),
        ({"n_subchains": 0}, "n_subchains"),
        ({"buffer": -1}, "buffer must be"),
        ({"buffer": "long"}, "buffer must be"),
        ({"kappa": 2.0}, "kappa"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], match: str) -> None:
    data = chains([40])
    model, start = start_of(data)
    with pytest.raises(ValueError, match=match):
        run(model, SubchainVB(**settings), data, start)


def test_tables_have_no_windows() -> None:
    data = chains([40])
    model, start = start_of(data)
    with pytest.raises(ValueError, match="use StochasticVB"):
        run(model, SubchainVB(), Table(data.rows), start)
    mixture = dp_mixture(model.family, 1.0)
    with pytest.raises(ValueError, match="SubchainVB is for hidden Markov models"):
        mixture.window_potentials(mixture.zeros(2), mixture.start_params(2), MeanLog())
    assert HDPRows().window_tables(start.seed, HDPRows().start(3, "component"))[
        "window_start"
    ].shape == (3,)
