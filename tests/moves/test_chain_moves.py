"""Moves of chains: merges are exact; trials keep what raises the bound and leave the rest alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from chains import (
    PRIORS,
    gaussian_model,
    measure,
    random_labels_start,
    segments,
    symbol_model,
    symbols,
)
from fitting import assert_never_drops
from oracles import chain as oracle

from stickbreak.data import Sequences
from stickbreak.errors import NumericalError
from stickbreak.families import Gaussian, Poisson
from stickbreak.inference import BatchVB, MeanLog, MemoizedVB, Start, run
from stickbreak.inference.attempts import Attempts
from stickbreak.inference.scene import Scene
from stickbreak.initialize import count_labels, from_blocks
from stickbreak.models import finite_hmm, hdp_hmm
from stickbreak.moves import Birth, Delete, Merge
from stickbreak.moves.birth import MAKERS
from stickbreak.moves.blocks import count_rows, newborns_from_blocks, worth_of_blocks
from stickbreak.moves.merge import MergeWatch
from stickbreak.moves.newborns import newborns_from_rows
from stickbreak.moves.trials import join, split
from stickbreak.stats import Merge as MergeEdit
from stickbreak.structures.chain import structure as chain_module

PAIRS = np.array([(0, 2), (1, 3)])


def watched(prior: str, data: Sequences, make=symbol_model):
    model = make(prior, data)
    start = random_labels_start(model, data, 4)
    params = model.global_step(start.seed, start.params)
    potentials = model.potentials(start.seed, params, MeanLog())
    return (
        model,
        params,
        potentials,
        model.local_step(potentials, data.whole(), watches=[MergeWatch(PAIRS)])[0],
    )


def merged_entropy(model, data: Sequences, potentials, merged) -> float:
    """Of the paths of all sequences, by enumeration."""
    evidence, weights = (
        potentials.scores.evidence(model.family.prepare(data.rows)),
        data.whole().repeats_or_ones(),
    )
    total = 0.0
    for s in range(data.n_spans):
        rows = slice(data.offsets[s], data.offsets[s + 1])
        _, shares, pairs = oracle.smooth(
            evidence[rows], potentials["start"], potentials["transition"]
        )
        total += weights[rows.start] * oracle.markov_entropy(
            shares, pairs, np.asarray(merged).reshape(-1, 2)
        )
    return total


@pytest.mark.parametrize("prior", PRIORS)
def test_a_merge_is_what_the_watch_said(prior):
    """Counts, local bound and bound after the edit equal those of the merged posterior, one pair
    and then both.
    """
    data = symbols(0, lengths=(5, 1, 4), weights=np.array([1.0, 2.0, 1.5]))
    model, params, potentials, found = watched(prior, data)
    assert found.local_bound == pytest.approx(
        merged_entropy(model, data, potentials, []), abs=1e-10
    )
    once = MergeEdit(model.axis, 0, 2, 0, ())(found)
    assert once.local_bound == pytest.approx(
        merged_entropy(model, data, potentials, [(0, 2)]), abs=1e-10
    )
    kept = found["transition"].copy()
    kept[0] += kept[2]
    kept[:, 0] += kept[:, 2]
    np.testing.assert_allclose(once["transition"], np.delete(np.delete(kept, 2, 0), 2, 1))
    twice = MergeEdit(model.axis, 1, 2, 1, (0,))(once)  # what was 3 is now 2
    assert twice.local_bound == pytest.approx(
        merged_entropy(model, data, potentials, PAIRS), abs=1e-10
    )
    assert np.isfinite(
        model.bound(
            twice,
            model.global_step(
                twice, MergeEdit(model.axis, 1, 2)(MergeEdit(model.axis, 0, 2)(params))
            ),
        )
    )


def test_two_merges_need_their_crossing_term():
    """Without the cross term the two gains alone are not the joint one: the term is needed, and is
    not zero.
    """
    data = symbols(0, lengths=(5, 1, 4))
    model, _, potentials, found = watched("finite", data)
    side = found.sides["merge"]
    both = merged_entropy(model, data, potentials, PAIRS) - found.local_bound
    assert side["gain"].sum() + side["cross"][0, 1] == pytest.approx(both, abs=1e-10)
    assert abs(side["cross"][0, 1]) > 1e-3


def test_merge_terms_of_pieces_are_those_of_the_whole(monkeypatch):
    data, _ = segments(0, n_states=4, n_sequences=1, length=500)
    *_, whole = watched("sticky", data, gaussian_model)
    monkeypatch.setattr(chain_module, "BLOCK_NUMBERS", 1)
    *_, pieces = watched("sticky", data, gaussian_model)
    for name in ("gain", "cross"):
        np.testing.assert_allclose(
            pieces.sides["merge"][name], whole.sides["merge"][name], rtol=1e-9, atol=1e-9
        )


def scene_of(model, data: Sequences, n_components: int) -> Scene:
    start = random_labels_start(model, data, n_components)
    result = run(model, MemoizedVB(n_batches=1, max_iter=30), data, start)
    return Scene(
        model,
        result.counts,
        result.params,
        result.ids,
        data,
        Attempts(),
        np.random.default_rng(0),
        9,
        True,
        next_id=7,
    )


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("make", [newborns_from_rows, newborns_from_blocks])
def test_a_split_shares_out_what_the_target_had(prior, make):
    data, _ = segments(1, n_states=3, n_sequences=6)
    scene = scene_of(gaussian_model(prior, data), data, 2)
    newborns = make(scene, 0, 3, 20)
    counts, params = split(scene, 0, newborns)
    J = len(newborns.sizes)
    assert counts.size("component") == 1 + J
    np.testing.assert_allclose(counts["start"].sum(), scene.total["start"].sum())
    np.testing.assert_allclose(counts["transition"].sum(), scene.total["transition"].sum())
    inner = counts["transition"][1:, 1:]
    np.testing.assert_allclose(inner.sum(), scene.total["transition"][0, 0])
    np.testing.assert_allclose(inner.sum(1) / inner.sum(), newborns.sizes / newborns.sizes.sum())
    assert (np.trace(inner) > 0.9 * inner.sum()) & (inner > 0.0).all()  # most stay, some go
    if "root" in params:
        np.testing.assert_allclose(params["root"].sum(), scene.params["root"].sum())


@pytest.mark.parametrize("stickiness", [0.0, 10.0, 50.0])
def test_a_short_chain_is_split(stickiness):
    """104 counts around 15 and 25, stays of 13: from one state births find both."""
    rng = np.random.default_rng(0)
    rows = rng.poisson(np.repeat([15.0, 25.0] * 4, 13))[:, None].astype(float)
    data = Sequences(rows, offsets=np.array([0, len(rows)]))
    family = Poisson(shape=1.0, rate=0.05).locate(None, 1).resolve(measure(data))
    model = hdp_hmm(family, concentration=0.5, start_concentration=10.0, stickiness=stickiness)
    one = from_blocks(model, data, 1, rng)
    alone = run(model, BatchVB(max_iter=50), data, one)
    found = run(model, BatchVB(max_iter=200, moves=(Birth(), Merge(), Delete())), data, one, seed=0)
    assert len(found.ids) == 2
    assert found.bound > alone.bound + 25.0


@pytest.mark.slow
def test_states_that_are_left_at_once_are_found():
    """Six states with stays of two rows or so, of which a mixture of rows sees five: what follows
    what tells the others apart.
    """
    rng = np.random.default_rng(7)
    steps = rng.dirichlet(np.full(6, 0.5), 6) * 0.7 + 0.3 * np.diag(rng.random(6))
    steps /= steps.sum(1, keepdims=True)
    states = [0]
    for _ in range(1999):
        states.append(int(rng.choice(6, p=steps[states[-1]])))
    rows = rng.normal(size=(2000, 3)) + rng.normal(0.0, 3.0, (6, 3))[states]
    data = Sequences(rows, offsets=np.array([0, 1000, 2000]))
    model = gaussian_model("hdp", data)
    found = run(
        model,
        BatchVB(max_iter=100, moves=(Birth(), Merge(), Delete())),
        data,
        from_blocks(model, data, 1, rng),
        seed=0,
    )
    truth = run(
        model,
        BatchVB(max_iter=100),
        data,
        Start(count_labels(model, data.whole(), np.array(states), 6), model.start_params(6)),
    )
    assert found.bound > truth.bound - 1.0  # five states lie 228 below
    assert len(found.ids) == 6


def test_one_cluster_is_halved():
    data, _ = segments(1, n_states=1, n_sequences=4)
    scene = scene_of(gaussian_model("hdp", data), data, 1)
    newborns = newborns_from_rows(scene, 0, 8, 20)
    assert len(newborns.sizes) == 2
    np.testing.assert_allclose(newborns.sizes.sum(), data.n_rows)


def test_the_worth_of_a_block_is_that_of_counting_anew():
    """What a block gains as a component: rows counted with it and without it, block by block."""
    data, _ = segments(6, n_states=3, n_sequences=3)
    model = gaussian_model("hdp", data)
    scene = scene_of(model, data, 3)
    owners, batch = scene.sample.shares.argmax(1), scene.sample.batch
    blocks = [(0, 20), (35, 75), (batch.n_rows - 20, batch.n_rows)]

    def marginal(labels):
        return model.family.log_marginal(count_labels(model, batch, labels, 4)).sum()

    for (begin, end), worth in zip(blocks, worth_of_blocks(scene, owners, 0, blocks), strict=True):
        labels = owners.copy()
        labels[begin:end] = 3
        assert worth == pytest.approx(marginal(labels) - marginal(owners), abs=1e-7)


def test_a_stretch_that_two_states_share_becomes_a_state():
    """Rows of a wide state that lie on two narrow ones: no part of either, but a stretch, tells
    that they belong together.
    """
    rng = np.random.default_rng(0)
    states = np.repeat([0, 1, 0, 2, 1, 0, 1], 60)
    rows = np.array([-1.5, 1.5, 0.0])[states] + np.array([0.4, 0.4, 2.0])[
        states
    ] * rng.standard_normal(len(states))
    data = Sequences(rows[:, None], offsets=np.array([0, len(rows)]))
    model = gaussian_model("sticky", data)
    two = Start(
        count_labels(model, data.whole(), np.where(rows > 0, 1, 0), 2), model.start_params(2)
    )
    result = run(model, BatchVB(max_iter=100), data, two)
    scene = Scene(
        model, result.counts, result.params, (0, 1), data, Attempts(), rng, 9, True, next_id=2
    )
    outcome = Birth().try_out(scene, (0,)) or Birth().try_out(scene, (1,))
    assert outcome.bound > scene.bound + 20.0
    assert {0, 1, 2} <= set(outcome.ids)  # nobody is replaced
    potentials = model.potentials(outcome.counts, outcome.params, MeanLog())
    is_new = np.array(outcome.ids)[model.decode(potentials, data.whole())] >= 2
    assert np.mean(is_new == (states == 2)) > 0.97


def test_nothing_is_worth_a_state_where_rows_are_alike():
    data, _ = segments(1, n_states=1, n_sequences=4)
    assert newborns_from_blocks(scene_of(gaussian_model("hdp", data), data, 1), 0, 4, 20) is None


def test_gaps_are_completed_by_those_who_have_the_rows():
    """Half the entries are missing: counted anew, clear components are what they were, not what the
    prior would fill in.
    """
    rng = np.random.default_rng(0)
    states = np.repeat([0, 1, 0, 1], 60)
    rows = np.array([[20.0, -40.0], [44.0, 20.0]])[states] + rng.standard_normal((len(states), 2))
    rows[np.arange(len(rows)), rng.integers(2, size=len(rows))] = np.nan
    data = Sequences(rows, offsets=np.array([0, len(rows)]))
    family = Gaussian().locate(None, 2)
    model = hdp_hmm(
        family.resolve(measure(data, family.check_rows, allow_missing=True)), stickiness=10.0
    )
    start = Start(count_labels(model, data.whole(), states, 2), model.start_params(2))
    result = run(model, BatchVB(max_iter=100, tol=1e-9), data, start)
    scene = Scene(
        model, result.counts, result.params, (0, 1), data, Attempts(), rng, 9, True, next_id=2
    )
    again = count_rows(scene, scene.sample.shares.argmax(1), range(2))
    np.testing.assert_allclose(again["share"], scene.sizes, atol=1e-6)
    for name, values in model.family.smoothed_mean(again).items():
        np.testing.assert_allclose(
            values, model.family.smoothed_mean(result.counts)[name], rtol=1e-3, atol=1e-3
        )


def test_counts_that_take_much_room_are_of_one_block_at_a_time(monkeypatch):
    monkeypatch.setattr("stickbreak.moves.blocks.NUMBERS", 1)
    data, _ = segments(6, n_states=3, n_sequences=3)
    newborns = newborns_from_blocks(scene_of(gaussian_model("hdp", data), data, 1), 0, 8, 20)
    assert len(newborns.sizes) <= 4  # the target, and one of each length


def test_rows_with_a_label_stay_where_they_are():
    data, _ = segments(6, n_states=3, n_sequences=3)
    model = gaussian_model("hdp", data)
    scene = scene_of(model, data, 1)
    sets = np.where(np.arange(scene.sample.batch.n_rows) % 2, 1, 0)
    labelled = replace(scene, ids=scene.ids)
    labelled.sample = replace(scene.sample, batch=replace(scene.sample.batch, sets=sets))
    newborns = newborns_from_blocks(labelled, 0, 3, 20)
    assert newborns.sizes[1:].sum() <= (sets == 0).sum()
    assert np.all(newborns.sizes[1:] <= 40)  # half of the longest block


def test_a_start_that_cannot_be_computed_is_a_trial_that_failed(monkeypatch):
    data, _ = segments(2, n_states=2)
    scene = scene_of(gaussian_model("hdp", data), data, 2)

    def fail(*_):
        raise NumericalError("a component's scatter matrix is not positive definite")

    monkeypatch.setitem(MAKERS, "blocks", fail)
    assert Birth().try_out(scene, (0,)) is None


@pytest.mark.parametrize("prior", PRIORS)
def test_components_joined_for_a_birth_are_counted_as_one(prior):
    data, _ = segments(2, n_states=4, n_sequences=4)
    model = gaussian_model(prior, data)
    labels = np.random.default_rng(1).integers(4, size=data.n_rows)
    counts = count_labels(model, data.whole(), labels, 4)
    params = model.global_step(counts, model.start_params(4))
    scene = Scene(
        model,
        counts,
        params,
        (3, 5, 6, 9),
        data,
        Attempts(),
        np.random.default_rng(0),
        9,
        True,
        next_id=10,
    )
    joined, at = join(scene, (2, 0))
    expected = count_labels(model, data.whole(), np.array([0, 1, 0, 2])[labels], 3)
    assert at == 0
    assert len(joined.ids) == 3
    for name in ("start", "transition"):
        np.testing.assert_allclose(joined.total[name], expected[name])
    np.testing.assert_allclose(
        model.family.log_marginal(joined.total), model.family.log_marginal(expected), rtol=1e-9
    )
    np.testing.assert_allclose(joined.sample.shares[:, 0], scene.sample.shares[:, [0, 2]].sum(1))
    np.testing.assert_allclose(joined.sample.shares[:, 1:], scene.sample.shares[:, [1, 3]])


def test_a_trial_that_fails_leaves_everything_alone():
    data, _ = segments(2, n_states=2)
    scene = scene_of(gaussian_model("hdp", data), data, 2)
    before = {name: scene.total[name].copy() for name in scene.total}
    assert Delete().try_out(scene, (0,)) is None  # two far states: neither can go
    for name, values in before.items():
        np.testing.assert_array_equal(scene.total[name], values)


def test_deleting_a_state_without_rows_raises_the_bound():
    data, _ = segments(3, n_states=2)
    scene = scene_of(gaussian_model("hdp", data), data, 5)
    idle = [
        ids
        for ids in Delete().targets(scene)
        if all(scene.sizes[scene.ids.index(i)] < 1 for i in ids)
    ]
    if not idle:
        pytest.fail("this start leaves no state empty; choose another")
    outcome = Delete().try_out(scene, tuple(scene.ids.index(i) for i in idle[0]))
    assert outcome is not None
    assert outcome.bound > scene.bound
    assert set(outcome.ids) == set(scene.ids) - set(idle[0])


def test_records_tell_who_became_whom():
    data, _ = segments(4, n_states=4, n_sequences=8, length=120)
    model = gaussian_model("sticky", data)
    engine = MemoizedVB(n_batches=2, max_iter=60, moves=(Birth(), Merge(), Delete()))
    result = run(model, engine, data, from_blocks(model, data, 1, np.random.default_rng(0)), seed=0)
    assert_never_drops(result.trace.bound)
    alive = {0}
    for record in result.trace.moves:
        if not record.is_accepted:
            continue
        assert record.gain > 0
        assert set(record.parents) <= alive
        gone = set(record.parents) - set(record.children)
        alive = (alive - gone) | set(record.children)
    assert alive == set(result.ids)


def test_user_tables_refuse_moves():
    data, _ = segments(5)
    model = finite_hmm(
        gaussian_model("finite", data).family,
        start_prior=np.ones(3),
        transition_prior=np.ones((3, 3)),
    )
    with pytest.raises(ValueError, match="are for 3 states"):
        run(
            model,
            MemoizedVB(moves=(Birth(), Delete()), max_iter=50),
            data,
            random_labels_start(model, data, 3),
        )
