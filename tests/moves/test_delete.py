"""Deletes: mass, gains and relation to merges by brute force; a state that only deletes leave."""

from __future__ import annotations

import numpy as np
import pytest
from fitting import MODELS, assert_never_drops
from moving import (
    ACCUMULATOR,
    CASES,
    SEVERAL,
    apply_all,
    assert_exact,
    delete_proposal,
    gains,
    lap,
    make_twin,
    moved,
    pair_proposals,
    upkeep,
    watched_lap,
)

from stickbreak.data import Table, measure
from stickbreak.families import Gaussian
from stickbreak.inference import BatchVB, Scene, Start, run
from stickbreak.inference.attempts import Attempts
from stickbreak.initialize import from_random
from stickbreak.initialize.counts import count_labels
from stickbreak.models import dp_mixture
from stickbreak.moves import Delete, Merge
from stickbreak.moves.redistribute import RedistributionProposal

priors = pytest.mark.parametrize("allocation", MODELS)
several = pytest.mark.parametrize("name", SEVERAL)
every = pytest.mark.parametrize("name", CASES)


@several
def test_mass_is_conserved(name):
    twin = make_twin(name, n_components=5)
    proposal, deal = delete_proposal(twin, 3, (4, 0), np.random.default_rng(0))
    mover = watched_lap(twin, [proposal])
    N, side = twin.total["share"].copy(), twin.total.sides[proposal.watch.name]
    assert side["share"].sum() == pytest.approx(0.0, abs=1e-10)
    r = moved(twin, twin.shares, twin.ids, proposal, twin.ids, deal)
    np.testing.assert_allclose(r.sum(1), 1.0, atol=1e-12)
    apply_all(twin, mover, {proposal.watch.name: deal})
    after = dict(zip(twin.ids, twin.total["share"], strict=True))
    assert after[4] + after[0] == pytest.approx(N[3] + N[4] + N[0], rel=1e-10)
    assert (after[1], after[2]) == (pytest.approx(N[1], rel=1e-12), pytest.approx(N[2], rel=1e-12))
    assert_exact(twin)


@pytest.mark.few(7)
@every
@priors
def test_gains_equal_the_difference_of_brute_force_bounds(name, allocation):
    """With one, two and all others as absorbers, before and after the target."""
    twin = make_twin(name, allocation, n_components=5)
    upkeep(twin)  # absorbers have reference points of their own where a family needs them
    rng = np.random.default_rng(0)
    made = [
        delete_proposal(twin, *slots, rng)
        for slots in ((1, (3,)), (4, (0, 2)), (0, (4, 2, 1, 3)), (2, (1,)))
    ]
    found = gains(twin, [p for p, _ in made])
    before = twin.brute_bound()
    for (proposal, deal), gain in zip(made, found, strict=True):
        r = moved(twin, twin.shares, twin.ids, proposal, twin.ids, deal)
        assert gain == pytest.approx(twin.brute_bound(r) - before, abs=1e-9 * max(1.0, abs(before)))
    assert_exact(twin)


@several
def test_accepted_deletes_are_replayed_exactly(name):
    n = CASES[name].rows.shape[0]
    twin = make_twin(
        name, n_components=6, repeats=np.random.default_rng(3).integers(1, 4, n).astype(float)
    )
    rng = np.random.default_rng(1)
    made = [delete_proposal(twin, 1, (5, 0), rng), delete_proposal(twin, 2, (4,), rng)]
    mover = watched_lap(twin, [p for p, _ in made])
    records = apply_all(twin, mover, {p.watch.name: deal for p, deal in made})
    assert len(records) == 2
    assert_exact(twin)
    upkeep(twin)
    lap(twin)
    ACCUMULATOR.end_lap(twin.state)
    assert_exact(twin)


@pytest.mark.covering
@several
@priors
def test_one_absorber_before_the_target_is_a_merge(name, allocation):
    twin = make_twin(name, allocation)
    proposal, _ = delete_proposal(twin, 3, (1,), np.random.default_rng(0))
    by_delete, by_merge = gains(twin, [proposal, *pair_proposals([(1, 3)])])
    assert by_delete == pytest.approx(by_merge, abs=1e-9 * max(1.0, abs(twin.bound)))


def test_deletes_that_share_a_component_exclude_each_other():
    twin = make_twin("gaussian", n_components=6)
    rng = np.random.default_rng(0)
    made = [delete_proposal(twin, t, a, rng) for t, a in ((0, (1, 2)), (3, (2, 4)), (5, (0,)))]
    records = apply_all(
        twin, watched_lap(twin, [p for p, _ in made]), {p.watch.name: deal for p, deal in made}
    )
    assert 1 <= len(records) <= 2
    ids = [i for r in records for i in r.parents]
    assert len(ids) == len(set(ids))
    assert_exact(twin)


@pytest.mark.parametrize("name", ["gaussian_far", "multinomial_wide"])
def test_a_proposal_survives_a_checkpoint(name):
    twin = make_twin(name)
    proposal, deal = delete_proposal(twin, 2, (0, 3), np.random.default_rng(0))
    arrays = {}
    again = RedistributionProposal.unpack("delete", proposal.pack("p", arrays), "p", arrays)
    apply_all(twin, watched_lap(twin, [again]), {proposal.watch.name: deal})
    assert_exact(twin)


# ---- the stuck state -----------------------------------------------------------------------------
def stuck(seed: int, max_iter: int):
    """One Gaussian that five random examples have cut in pieces; merges alone do not get out."""
    rows = np.random.default_rng(seed).normal(size=(25_000, 1))
    table = Table(rows)
    family = Gaussian(mean=0.0, mean_strength=0.01, dof=3.0, covariance=1.0)
    model = dp_mixture(family.resolve(measure(table)), 10.0)
    start = from_random(model, table, 5, np.random.default_rng(seed))
    engine = BatchVB(max_iter=max_iter, tol=0.0, moves=(Merge(),))
    return model, table, run(model, engine, table, start, seed=seed)


def continue_with(delete: Delete, model, table, result, max_iter: int):
    start = Start(result.counts, result.params, result.ids)
    return run(model, BatchVB(max_iter=max_iter, tol=1e-7, moves=(delete,)), table, start)


def check_stuck(seed: int, max_iter: int) -> None:
    model, table, before = stuck(seed, max_iter)
    assert len(before.ids) > 1  # merges have not solved it
    one = model.bound(
        run(model, BatchVB(), table, from_random(model, table, 1, np.random.default_rng(0))).counts,
        before.params,
    )
    assert one > before.bound  # though one component is better
    hasty = continue_with(Delete(n_passes=1), model, table, before, 20)
    assert len(hasty.ids) > 1  # it may remove some, but does not get out
    patient = continue_with(Delete(n_passes=50), model, table, before, 200)
    assert len(patient.ids) == 1
    assert patient.bound == pytest.approx(one, rel=1e-9)
    assert_never_drops(patient.trace.bound)
    assert all(m.gain > 0 for m in patient.trace.moves if m.is_accepted)


@pytest.mark.slow
def test_delete_leaves_the_stuck_state_with_enough_refinement_only():
    check_stuck(0, 60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 6, 7, 8, 9, 10])  # from 4, merges find the way out
def test_delete_leaves_the_stuck_state_of_every_seed(seed):
    check_stuck(seed, 300)


# ---- planning ------------------------------------------------------------------------------------
def test_an_empty_component_does_not_seem_worth_a_delete():
    """It costs nothing where the order of sticks puts it, last; a lap that watches its delete would
    be wasted.
    """
    rows = np.concatenate(
        [np.random.default_rng(0).normal(c, 1.0, (60, 2)) for c in (-20.0, 0.0, 20.0)]
    )
    table = Table(rows)
    model = dp_mixture(Gaussian().resolve(measure(table)), 1.0)
    labels = np.repeat([0, 1, 2], 60)
    total = run(
        model,
        BatchVB(),
        table,
        Start(count_labels(model, table.whole(), labels, 4), model.start_params(4)),
    ).counts
    assert total["share"][3] < 1e-3
    params = model.start_params(4)
    scene = Scene(
        model, total, params, (0, 1, 2, 3), table, Attempts(), np.random.default_rng(0), 3, False
    )
    proposals = Delete(max_targets=4).plan(scene)
    assert max((p.expected for p in proposals), default=0.0) < 1e-6 * abs(
        model.bound(total, params)
    )


@pytest.mark.parametrize("target", range(4))
def test_what_a_delete_expects_does_not_depend_on_the_order_of_components(target):
    """The same four components of one cluster, listed in two orders."""
    rows = np.random.default_rng(0).normal(size=(300, 2))
    table = Table(rows)
    model = dp_mixture(Gaussian().resolve(measure(table)), 1.0)
    start = from_random(model, table, 4, np.random.default_rng(1))
    total = run(model, BatchVB(max_iter=3, tol=0.0), table, start).counts
    expected = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        counts, params = total.permute(model.axis, order), model.start_params(4)
        scene = Scene(
            model,
            counts,
            params,
            (0, 1, 2, 3),
            table,
            Attempts(),
            np.random.default_rng(0),
            3,
            False,
        )
        proposal = Delete()._propose(scene, order.index(target))
        expected.append(proposal.expected if proposal is not None else None)
    assert expected[0] == pytest.approx(expected[1], rel=1e-6)
