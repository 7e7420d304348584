"""Fits of hidden Markov models whose rows use a few states: the bound is one, engines and moves
agree, nothing is remembered.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chains import PRIORS, gaussian_model, random_labels_start, segments, symbol_model, symbols
from fitting import StopAt, StoppedError, assert_never_drops, assert_same_fit, fit
from registers import FAMILIES, FamilyCase

from stickbreak.data import Sequences
from stickbreak.inference import BatchVB, MeanLog, MemoizedVB, StochasticVB, read_checkpoint, run
from stickbreak.initialize import from_blocks
from stickbreak.models import finite_hmm
from stickbreak.moves import Birth, Delete, Merge
from stickbreak.structures import Chain
from stickbreak.structures.chain import structure as chain_module

LIMITED = {
    "batch": BatchVB(max_iter=4, tol=0.0, max_active=2, trace_visits=True),
    "memoized": MemoizedVB(n_batches=3, max_iter=4, tol=0.0, max_active=3, trace_visits=True),
    "stochastic": StochasticVB(batch_size=2, max_iter=3, tol=0.0, max_active=2),
    "moves": MemoizedVB(
        n_batches=2,
        max_iter=6,
        tol=1e-3,
        max_active=2,
        moves=(Birth(n_passes=3), Merge(), Delete(n_passes=3)),
    ),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("n_batches", [1, 3])
def test_bound_never_drops_where_a_few_states_are_enough(prior, n_batches):
    """Supports are chosen afresh, so this is no theorem; with four states of eight a row misses
    next to nothing.
    """
    data, _ = segments(0, n_states=6)
    model = gaussian_model(prior, data)
    engine = MemoizedVB(n_batches=n_batches, max_iter=15, tol=0.0, trace_visits=True, max_active=4)
    result = run(model, engine, data, random_labels_start(model, data, 8))
    assert_never_drops(result.trace.bound)
    assert_never_drops(result.trace.visits)


@pytest.mark.parametrize("prior", PRIORS)
def test_at_the_same_globals_fewer_states_never_give_a_higher_bound(prior):
    data, _ = segments(1, n_states=5, spread=2.0)
    model = gaussian_model(prior, data)
    found = run(model, BatchVB(max_iter=5, tol=0.0), data, random_labels_start(model, data, 6))
    potentials = model.potentials(found.counts, found.params, MeanLog())
    bounds = [
        model.bound_at(
            found.counts,
            found.params,
            potentials,
            model.sparse(L).local_step(potentials, data.whole())[0],
        )
        for L in (1, 2, 3, 4, 5, 6, None)
    ]
    assert max(bounds[:-1]) <= bounds[-1]
    assert bounds[0] < bounds[2] < bounds[5] == bounds[-1]


@pytest.mark.parametrize("prior", PRIORS)
def test_all_states_are_the_plain_fit(prior):
    data = symbols(2)
    model = symbol_model(prior, data)
    start = random_labels_start(model, data, 3)
    for L in (3, 7):
        assert_same_fit(
            run(model, BatchVB(max_iter=5, max_active=L), data, start),
            run(model, BatchVB(max_iter=5), data, start),
        )


@pytest.mark.parametrize("case", FAMILIES.values(), ids=FAMILIES.keys())
def test_every_family(case: FamilyCase) -> None:
    """Rows of every family in two sequences; those with entries missing where the family knows
    such.
    """
    rows = case.rows
    data = Sequences(rows, offsets=np.array([0, 10, rows.shape[0]]))
    model = finite_hmm(case.family)
    found = run(
        model, BatchVB(max_iter=4, tol=0.0, max_active=2), data, random_labels_start(model, data, 4)
    )
    assert np.isfinite(found.trace.bound).all()
    assert found.counts["transition"].sum() == pytest.approx(data.n_rows - 2)
    potentials = model.potentials(found.counts, found.params, MeanLog())
    shares = model.sparse(2).shares(potentials, data.whole())
    assert np.count_nonzero(shares, axis=1).max() == 2
    np.testing.assert_allclose(shares.sum(1), 1.0, rtol=1e-12)


def test_weights_are_repeats():
    data = symbols(4, lengths=(5, 3, 6))
    twice = Sequences(
        np.concatenate([data.rows[:5], data.rows[:5], data.rows[5:]]),
        offsets=np.array([0, 5, 10, 13, 19]),
    )
    weighted = symbols(4, lengths=(5, 3, 6), weights=np.array([2.0, 1.0, 1.0]))
    model = symbol_model("hdp", data)
    start = random_labels_start(model, twice, 4)
    one, two = (
        run(model, BatchVB(max_iter=8, tol=0.0, max_active=2), d, start) for d in (weighted, twice)
    )
    assert one.bound == pytest.approx(two.bound, rel=1e-10)


def test_the_fitted_model_knows_no_limit():
    data = symbols(0)
    model = symbol_model("finite", data)
    found = run(model, BatchVB(max_iter=2, max_active=1), data, random_labels_start(model, data, 3))
    assert found.model.structure == Chain()


# ---- what is lost --------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["batch", "memoized", "stochastic"])
def test_a_fit_says_what_it_misses(name, monkeypatch):
    """Rows that fewer states than they need may use: the part of their mass that lies outside,
    every lap.
    """
    monkeypatch.setattr("stickbreak.inference.sparsity.CHECKED", 1.0)
    near, far = (segments(0, n_states=5, n_sequences=6, length=60, spread=s)[0] for s in (0.5, 8.0))
    much, little = (
        run(
            model, LIMITED[name], data, from_blocks(model, data, 5, np.random.default_rng(0))
        ).trace.disagreement
        for data, model in ((data, gaussian_model("finite", data)) for data in (near, far))
    )
    assert 0.1 < much[0] < 1.0  # nobody knows the states in the first lap
    assert much[-1] > 1e-4
    assert little[-1] < 1e-6  # states that lie apart


def test_all_lanes_and_batches_are_checked(monkeypatch):
    monkeypatch.setattr("stickbreak.data.batches.ORDERED_ROWS", 60)
    monkeypatch.setattr("stickbreak.data.batches.LANE_UNITS", 1)
    monkeypatch.setattr("stickbreak.inference.sparsity.CHECKED", 1.0)
    data, _ = segments(0, n_states=4, n_sequences=6, length=60)
    model = gaussian_model("finite", data)
    start = random_labels_start(model, data, 5)
    engine = LIMITED["batch"]
    potentials = model.potentials(start.seed, start.params, MeanLog())
    watches = [watch.at(model, start.seed, data.whole(), MeanLog()) for watch in engine.watches()]
    found, _ = engine.adapt(model).local_step(potentials, data.whole(), watches=watches)
    assert len(data.whole().lanes()) == 6
    # of each lane, as many rows as its few are worth
    assert found.sides["candidates"]["checked"] == 6 * 16


# ---- moves ---------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("prior", ["hdp", "sticky"])
@pytest.mark.parametrize("n_components", [1, 12])
def test_moves_find_the_states(prior, n_components):
    """Births from one state, merges and deletes from twelve, when rows use at most three."""
    data, truth = segments(3, n_states=4, n_sequences=8, length=150)
    model = gaussian_model(prior, data)
    engine = MemoizedVB(n_batches=2, max_iter=60, moves=(Birth(), Merge(), Delete()), max_active=3)
    result = run(
        model,
        engine,
        data,
        from_blocks(model, data, n_components, np.random.default_rng(0)),
        seed=0,
    )
    assert len(result.ids) == 4
    assert {record.kind for record in result.trace.moves if record.is_accepted} & {
        "birth",
        "merge",
        "delete",
    }
    labels = model.decode(model.potentials(result.counts, result.params, MeanLog()), data.whole())
    table = np.zeros((4, 4))
    np.add.at(table, (truth, labels), 1)
    assert table.max(1).sum() == len(truth)
    assert_never_drops(result.trace.bound)


@pytest.mark.slow  # seconds to compile
def test_a_merge_gains_what_it_promised():
    """The bound that the books expect after a merge is that of the merged counts: the next lap
    begins there.
    """
    data, _ = segments(5, n_states=3)
    model = gaussian_model("sticky", data)
    engine = MemoizedVB(n_batches=2, max_iter=30, moves=(Merge(),), max_active=2)
    result = run(model, engine, data, random_labels_start(model, data, 8), seed=1)
    accepted = [record for record in result.trace.moves if record.is_accepted]
    assert accepted
    assert all(record.gain > 0 or record.kind == "merge" for record in accepted)
    assert_never_drops(result.trace.bound)


# ---- the same bits -------------------------------------------------------------------------------
@pytest.mark.parametrize("name", LIMITED)
def test_any_number_of_workers_gives_the_same_bits(name, monkeypatch):
    monkeypatch.setattr("stickbreak.data.batches.ORDERED_ROWS", 60)
    monkeypatch.setattr("stickbreak.data.batches.LANE_UNITS", 1)
    data, _ = segments(2, n_states=5, n_sequences=9, length=50, spread=2.0)
    model = gaussian_model("sticky", data)
    start = random_labels_start(model, data, 6)
    one, three = (fit(model, LIMITED[name], data, start, n_jobs=n) for n in (1, 3))
    assert_same_fit(one, three)


def test_one_long_chain_in_pieces(monkeypatch):
    """Every engine's local step meets it: a fit by pieces ends near the fit of the whole."""
    data, _ = segments(4, n_states=4, n_sequences=1, length=600)
    model = gaussian_model("sticky", data)
    start = random_labels_start(model, data, 6)
    engine = BatchVB(max_iter=10, tol=0.0, max_active=3)
    whole = run(model, engine, data, start)
    monkeypatch.setattr(chain_module, "BLOCK_NUMBERS", 1)
    pieces = run(model, engine, data, start)
    # nine rows are chosen without the rows after them
    assert pieces.bound == pytest.approx(whole.bound, abs=1.0)
    assert 0 < pieces.trace.disagreement[-1] < 1e-6


@pytest.mark.parametrize("name", LIMITED)
def test_resuming_continues_bit_for_bit(name: str, tmp_path: Path) -> None:
    data, _ = segments(2, n_states=4, n_sequences=6, length=40, spread=2.0)
    model, engine, path = gaussian_model("hdp", data), LIMITED[name], tmp_path / "fit.checkpoint"
    start = random_labels_start(model, data, 5)
    whole = run(model, engine, data, start, seed=7)
    saved = type(engine)(
        **{**engine.get_params(deep=False), "checkpoint": path, "checkpoint_every": 0.0}
    )
    dying = type(engine)(**{**saved.get_params(deep=False), "callbacks": (StopAt(3),)})
    with pytest.raises(StoppedError):
        run(model, dying, data, start, seed=7)
    resumed = run(model, saved, data, read_checkpoint(path)[1], seed=7)
    assert_same_fit(resumed, whole)
    np.testing.assert_array_equal(resumed.trace.disagreement, whole.trace.disagreement)


# ---- stochastic ----------------------------------------------------------------------------------
def test_a_stochastic_step_at_rate_one_is_a_step_of_vb():
    data = symbols(5)
    model = symbol_model("hdp", data)
    start = random_labels_start(model, data, 4)
    shared = {"max_iter": 2, "tol": 0.0, "reorder": False, "max_active": 2}
    batch = run(model, BatchVB(**shared), data, start)
    stochastic = run(model, StochasticVB(batch_size=data.n_spans, kappa=0.0, **shared), data, start)
    for name, array in batch.counts.arrays.items():
        np.testing.assert_allclose(
            stochastic.counts[name], array, rtol=1e-9, atol=1e-9, err_msg=name
        )
