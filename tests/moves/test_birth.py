"""Births: mass, entropy, gains and lazily replayed memory equal brute force on dense shares."""

from __future__ import annotations

import numpy as np
import pytest
from fitting import MODELS, assert_never_drops, blob_model, blobs, fit, random_start
from moving import (
    ACCUMULATOR,
    CASES,
    RULE,
    SEVERAL,
    accepting,
    apply_all,
    assert_exact,
    birth_proposal,
    delete_proposal,
    gains,
    lap,
    make_twin,
    moved,
    upkeep,
    watched_lap,
)
from oracles import moves as brute
from registers import FamilyCase
from scipy.special import xlogy

from stickbreak.data import Table
from stickbreak.inference import BatchVB, MemoizedVB, Sample, Scene
from stickbreak.inference.attempts import Attempts
from stickbreak.moves import Birth, Delete, Merge
from stickbreak.moves.little_fits import rows_of
from stickbreak.moves.redistribute import RedistributionProposal
from stickbreak.stats import Insert

priors = pytest.mark.parametrize("allocation", MODELS)
several = pytest.mark.parametrize("name", SEVERAL)


def proposals(twin, *targets, n_newborn=3, seed=0):
    """One birth for each group of targets, and how each deals mass out."""
    rng = np.random.default_rng(seed)
    made = [birth_proposal(twin, taken, n_newborn, rng) for taken in targets]
    return [p for p, _ in made], {p.watch.name: deal for p, deal in made}


@several
def test_mass_is_conserved(name):
    twin = make_twin(name)
    (proposal,), deals = proposals(twin, (1,))
    mover = watched_lap(twin, [proposal])
    N, side = twin.total["share"].copy(), twin.total.sides[proposal.watch.name]
    assert side["share"].sum() == pytest.approx(0.0, abs=1e-10)
    assert -side["share"][0] <= N[1] + 1e-10  # crumbs are not dealt out
    r = moved(twin, twin.shares, twin.ids, proposal, twin.ids, deals[proposal.watch.name])
    np.testing.assert_allclose(r.sum(1), 1.0, atol=1e-12)
    apply_all(twin, mover, deals)
    after = twin.total["share"]
    assert after[3:].sum() == pytest.approx(N[1], abs=1e-10)
    np.testing.assert_allclose(after[:3], N[[0, 2, 3]], rtol=1e-12)
    assert_exact(twin)


@pytest.mark.covering
@several
@priors
def test_gains_equal_the_difference_of_brute_force_bounds(name, allocation):
    """Of one target, and of several whose rows are dealt out together."""
    twin = make_twin(name, allocation, n_components=5)
    made, deals = proposals(twin, (1,), (0, 3), (4, 2, 1))
    found = gains(twin, made)
    before = twin.brute_bound()
    for proposal, gain in zip(made, found, strict=True):
        r = moved(twin, twin.shares, twin.ids, proposal, twin.ids, deals[proposal.watch.name])
        assert gain == pytest.approx(twin.brute_bound(r) - before, abs=1e-9 * max(1.0, abs(before)))
    assert_exact(twin)


@pytest.mark.covering
@pytest.mark.parametrize("n_batches", [1, 2, 5])
@pytest.mark.parametrize("name", ["gaussian", "multinomial_wide"])
def test_gains_hold_for_any_batches_and_repeats(name, n_batches):
    n = CASES[name].rows.shape[0]
    repeats = np.random.default_rng(2).integers(0, 4, n).astype(float)
    twin = make_twin(name, n_batches=n_batches, repeats=repeats)
    made, deals = proposals(twin, (2,), (0, 1))
    found = gains(twin, made)
    for proposal, gain in zip(made, found, strict=True):
        r = moved(twin, twin.shares, twin.ids, proposal, twin.ids, deals[proposal.watch.name])
        assert gain == pytest.approx(
            twin.brute_bound(r) - twin.brute_bound(), abs=1e-9 * abs(twin.bound)
        )


@several
def test_entropy_rises_by_that_of_the_dealing(name):
    """sum_j H_j = H_t + sum_n r_nt H(p_n), so a birth from one target always raises the
    local part.
    """
    twin = make_twin(name)
    (proposal,), deals = proposals(twin, (2,))
    watched_lap(twin, [proposal])
    p = deals[proposal.watch.name]
    r = twin.shares[:, 2]
    worth = r > brute.NEXT_TO_NOTHING
    expected = float((r * -xlogy(p, p).sum(1))[worth].sum())
    assert twin.total.sides[proposal.watch.name].local_bound == pytest.approx(
        expected, abs=1e-9 * abs(twin.bound)
    )
    assert expected >= 0


@several
def test_empty_newborns_change_nothing_under_a_dirichlet_process(name):
    twin = make_twin(name)
    before = twin.bound
    twin.state.edit(Insert(twin.model.axis, 3))
    assert twin.bound == pytest.approx(before, abs=1e-10 * abs(before))
    twin.shares = np.hstack([twin.shares, np.zeros((len(twin.shares), 3))])
    twin.ids, twin.next_id = (*twin.ids, 4, 5, 6), 7
    assert_exact(twin)


@pytest.mark.few(4)
@several
def test_memory_replayed_late_equals_memory_updated_at_once(name):
    twin = make_twin(name, n_components=5, n_batches=4)
    for round_ in range(2):
        made, deals = proposals(twin, (1,), (0, 3), seed=round_)
        mover = watched_lap(twin, made, order=np.random.default_rng(round_).permutation(4))
        early = {b.id: twin.state.recall(b) for b in twin.batches}
        apply_all(twin, mover, deals)
        assert_exact(twin)
        # edits of the decision, at once
        early = {i: visit.catch_up(twin.state.log) for i, visit in early.items()}
        upkeep(twin)
        early = {i: visit.catch_up(twin.state.log) for i, visit in early.items()}
        for batch in twin.batches:
            late = twin.memory(batch)
            for field in late.arrays:
                np.testing.assert_array_equal(early[batch.id].summary[field], late[field])
            assert early[batch.id].summary.local_bound == late.local_bound
        assert_exact(twin)
    lap(twin)
    ACCUMULATOR.end_lap(twin.state)
    assert_exact(twin)


@pytest.mark.few(1)
@pytest.mark.parametrize("n_batches", [1, 3, 10])
@pytest.mark.parametrize("seed", range(2))
def test_accepted_births_raise_the_bound_by_what_they_say(n_batches, seed):
    rows = blobs(300, seed, spread=8.0)
    model = blob_model(rows)
    engine = MemoizedVB(n_batches=n_batches, moves=(Birth(),), reorder=False, trace_visits=True)
    result = fit(model, engine, rows, 1, seed=seed)
    assert_never_drops(result.trace.bound[1:] if n_batches > 1 else result.trace.bound)
    accepted = [m for m in result.trace.moves if m.is_accepted]
    assert accepted
    # the bound before each lap's decision: the first lap has one at its end only
    last = result.trace.visits[::n_batches]
    for record, before in zip(result.trace, last, strict=True):
        gained = sum(m.gain for m in accepted if m.lap == record.lap)
        assert record.bound == pytest.approx(before + gained, abs=1e-8 * abs(before))
        assert gained >= 0


def test_several_births_in_one_lap_do_not_disturb_each_other():
    twin = make_twin("gaussian", n_components=6, n_batches=3)
    made, deals = proposals(twin, (5,), (0, 1), (3,))
    records = apply_all(twin, watched_lap(twin, made), deals)
    assert len(records) == 3
    assert len(twin.ids) == 2 + 9
    assert_exact(twin)


def test_births_that_share_a_target_exclude_each_other():
    twin = make_twin("gaussian", n_components=5)
    made, deals = proposals(twin, (1, 0), (0, 2), (4,))
    records = apply_all(twin, watched_lap(twin, made), deals)
    assert len(records) == 2
    assert_exact(twin)


@pytest.mark.parametrize("name", ["gaussian_far", "multinomial_wide", "product"])
def test_a_proposal_survives_a_checkpoint(name):
    """Packed and unpacked in the middle of a lap: the same edit of the same total."""
    twin = make_twin(name)
    (proposal,), deals = proposals(twin, (1, 2))
    arrays = {}
    saved = proposal.pack("p", arrays)
    again = RedistributionProposal.unpack("birth", saved, "p", arrays)
    mover = watched_lap(twin, [again])
    apply_all(twin, mover, deals)
    assert_exact(twin)


def test_crumbs_of_a_target_go_to_the_first_newborn():
    """Rows of which the target holds next to nothing are not dealt out, and nothing is lost."""
    rows = np.concatenate(
        [
            np.random.default_rng(0).normal(size=(12, 3)),
            40 + np.random.default_rng(1).normal(size=(13, 3)),
        ]
    )
    case = CASES["gaussian"]
    twin = make_twin(FamilyCase(case.family, rows, case.oracle), n_components=3, n_laps=6)
    target = int(np.argmax(twin.total["share"]))
    assert (twin.shares[:, target] < brute.NEXT_TO_NOTHING).sum() > 5
    made, deals = proposals(twin, (target,))
    apply_all(twin, watched_lap(twin, made), deals)
    assert_exact(twin)


def test_what_a_birth_expects_is_what_it_gains_when_the_sample_is_all_data():
    """expected is the gain on the sample, newborns optimal for it; judged on the same rows it must
    be near.
    """
    rows = blobs(200, 1, spread=8.0)
    result = fit(blob_model(rows), BatchVB(moves=(Birth(),)), rows, 1)
    first = result.trace.moves[0]
    assert first.is_accepted
    assert first.gain == pytest.approx(first.expected, rel=0.05)


def test_rejected_births_leave_no_trace_in_the_counts():
    twin = make_twin("poisson", n_components=3)
    made, _ = proposals(twin, (1,), (2, 0))
    mover = watched_lap(twin, made)
    with accepting(False):
        records = mover.decide(twin.model, twin.state)
    assert [r.is_accepted for r in records] == [False, False]
    assert all(set(r.children).isdisjoint(r.parents) for r in records)
    assert twin.state.next_id == 3  # fresh ids are not used up
    assert_exact(twin)


def test_the_sample_of_a_wide_table_keeps_its_symbols():
    """Rows that planning takes from a sample with a vocabulary of its own are rows of the table
    again.
    """
    case = CASES["multinomial_wide"]
    twin = make_twin("multinomial_wide", n_components=3)
    batch = twin.table.take(np.arange(4, 7))  # of one group: few symbols
    assert batch.symbols is not None
    shares = twin.model.shares(
        twin.model.potentials(twin.total.restrict(batch.symbols), twin.state.params, RULE), batch
    )
    found = rows_of(twin.model, Sample(batch, shares, 8.0), (0, 1, 2))
    np.testing.assert_array_equal(found.rows.toarray(), case.dense[4:7])
    np.testing.assert_allclose(found.repeats, 8.0)
    assert isinstance(found, Table)


def test_newborns_come_in_the_order_that_costs_least():
    """Largest first, as the sticks like it: a small newborn before a large one would cost log(large
    / small) nats.
    """
    rows = np.concatenate(
        [
            np.random.default_rng(0).normal(c, 1.0, (n, 2))
            for c, n in ((-15.0, 10), (0.0, 150), (15.0, 40))
        ]
    )
    table, model = Table(rows), blob_model(rows)
    total = fit(model, BatchVB(), rows, 1).counts
    scene = Scene(
        model,
        total,
        model.start_params(1),
        (0,),
        table,
        Attempts(),
        np.random.default_rng(0),
        2,
        False,
    )
    (proposal,) = Birth().plan(scene)
    sizes = proposal.watch.counts["share"]
    assert len(sizes) == 3
    assert (np.diff(sizes) < 0).all()


@pytest.mark.parametrize("name", ["gaussian", "multinomial_wide"])
def test_rows_with_labels_stay_where_they_are(name):
    """Labels name components 0 and 1; births, deletes and merges of the others are exact, and
    labelled rows have no newborns.
    """
    labels = np.full(CASES[name].rows.shape[0], -1)
    labels[2:8] = [0, 0, 0, 1, 1, 1]
    twin = make_twin(name, n_components=6, labels=labels)
    rng = np.random.default_rng(0)
    born, dealt = birth_proposal(twin, (2,), 3, rng)
    gone, shared = delete_proposal(twin, 3, (4, 5), rng)
    mover = watched_lap(twin, [born, gone])
    apply_all(twin, mover, {born.watch.name: dealt, gone.watch.name: shared})
    assert_exact(twin)
    legal = dict(zip(twin.ids, twin.state.params["legal"].T, strict=True))
    assert legal[0].tolist() == [1, 1, 0]
    assert legal[1].tolist() == [1, 0, 1]
    assert all(legal[i].tolist() == [1, 0, 0] for i in twin.ids if i > 1)
    lap(twin)
    ACCUMULATOR.end_lap(twin.state)
    assert_exact(twin)
    for label in (0, 1):
        np.testing.assert_allclose(twin.shares[labels == label, twin.ids.index(label)], 1.0)


def test_labels_of_the_only_component_are_kept():
    """With one component every set allows all there is: a set with a label is still not free."""
    rows = blobs(100, 1, spread=8.0)
    labels = np.where(np.arange(100) < 10, 0, -1)
    table, model = Table(rows, sets=labels + 1), blob_model(rows)
    result = fit(
        model,
        MemoizedVB(n_batches=2, moves=(Birth(), Merge(), Delete())),
        table,
        random_start(model, table, 1, 0, np.ones((2, 1))),
    )
    assert 0 in result.ids
    assert result.params["legal"][1].tolist() == [float(i == 0) for i in result.ids]
