"""Fits with moves: the bound never drops, moves are recorded, and the true components are found.

The last from a start with one component.
"""

from __future__ import annotations

import numpy as np
import pytest
from estimator_cases import CASES, NAMES
from fitting import (
    MODELS,
    assert_never_drops,
    assert_same_fit,
    blob_model,
    blobs,
    fit,
    random_start,
)
from moving import CASES as FAMILY_CASES
from moving import make_twin
from sklearn.metrics import adjusted_rand_score

import stickbreak as sb
from stickbreak.data import Table, measure
from stickbreak.families.names import make_family
from stickbreak.inference import BatchVB, Callback, MemoizedVB, Scene, run
from stickbreak.inference.attempts import Attempts
from stickbreak.models import dp_mixture
from stickbreak.moves import Birth, Delete, Merge
from stickbreak.moves.little_fits import Goal
from stickbreak.priors import GammaPrior

QUICK = (Birth(n_newborn=4, n_passes=10), Merge(), Delete(n_passes=10))
BATCHES = (1, 3, 10)


def check_history(result, n_batches: int) -> None:
    """The bound rises at every visit and every lap; gains are what the bound gained; ids follow
    from the records.
    """
    trace = result.trace
    assert_never_drops(trace.visits)
    assert_never_drops(trace.bound)
    last = trace.visits[::n_batches]  # the bound before each lap's decision
    for record, before in zip(trace, last, strict=True):
        gained = sum(m.gain for m in trace.moves if m.lap == record.lap and m.is_accepted)
        # the order and learned priors may add to it
        assert record.bound >= before + gained - 1e-9 * abs(before)
        # components without a row go at the price of rounding
        assert gained >= -1e-10 * max(1.0, abs(before))
    alive = set(range(result.next_id)) & set(result.ids)
    assert alive == set(result.ids)
    born = [i for m in trace.moves if m.is_accepted and m.kind == "birth" for i in m.children]
    assert len(born) == len(set(born))
    for m in trace.moves:
        assert 2 <= m.lap <= len(trace) + m.on_sample  # at the end, for a lap that is not made
        assert np.isfinite([m.expected, m.gain]).all()
        rounding = 1e-10 * max(1.0, abs(trace[-1].bound))
        assert m.gain > -rounding if m.is_accepted else m.gain < 10 * rounding


@pytest.mark.few(7)
@pytest.mark.parametrize(("n_batches", "n_components"), [(1, 6), (3, 1), (10, 6)])
@pytest.mark.parametrize("name", FAMILY_CASES)
def test_bound_never_drops_with_moves(name, n_batches, n_components):
    """From one component, which births must split, and from six, which merges and deletes must
    join.
    """
    case = FAMILY_CASES[name]
    model, table = MODELS["dp"](case.family, 1.0), Table(case.rows)
    engine = MemoizedVB(n_batches=n_batches, moves=QUICK, trace_visits=True, max_iter=5)
    check_history(
        run(model, engine, table, random_start(model, table, n_components), seed=1), n_batches
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["gaussian", "multinomial_wide", "poisson"])
def test_bound_never_drops_while_priors_are_learned(name):
    case = FAMILY_CASES[name]
    model, table = MODELS["dp"](case.family, GammaPrior(), learns=True), Table(case.rows)
    engine = MemoizedVB(n_batches=3, moves=QUICK, trace_visits=True, max_iter=12)
    check_history(run(model, engine, table, random_start(model, table, 6), seed=1), 3)


def test_bound_never_drops_for_a_finite_mixture():
    """concentration / K changes with K, for all components; moves are judged with that."""
    rows = blobs(150, 3, spread=8.0)
    model, table = blob_model(rows, "finite"), Table(rows)
    result = run(
        model,
        MemoizedVB(n_batches=3, moves=QUICK, trace_visits=True),
        table,
        random_start(model, table, 6),
    )
    check_history(result, 3)
    assert any(m.is_accepted for m in result.trace.moves)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_batches", BATCHES)
@pytest.mark.parametrize("name", NAMES)
def test_bound_never_drops_for_many_fits(name, n_batches, seed):
    table = Table(CASES[name].rows)
    family = make_family(name).resolve(measure(table))
    for n_components in (1, 8):
        model = dp_mixture(family, 1.0)
        engine = MemoizedVB(
            n_batches=n_batches, moves=(Birth(), Merge(), Delete()), trace_visits=True
        )
        check_history(
            run(model, engine, table, random_start(model, table, n_components, seed), seed=seed),
            n_batches,
        )


# ---- the same answer -----------------------------------------------------------------------------
def test_one_batch_of_memoized_equals_batch():
    rows = blobs(200, 2, spread=8.0)
    model, table = blob_model(rows), Table(rows)
    start = random_start(model, table, 1)
    one, two = (run(model, e(moves=QUICK), table, start, seed=3) for e in (BatchVB, MemoizedVB))
    assert_same_fit(one, two)
    assert one.trace.moves == two.trace.moves


@pytest.mark.slow
def test_two_jobs_give_the_same_bits_as_one():
    """Several lanes, and births."""
    rng = np.random.default_rng(0)
    rows = 8.0 * rng.normal(size=(6, 2))[np.arange(20_000) % 6] + rng.normal(size=(20_000, 2))
    model = blob_model(rows)
    engine = MemoizedVB(n_batches=1, max_iter=3, tol=0.0, moves=(Birth(), Merge(), Delete()))
    one, two = (fit(model, engine, rows, 1, seed=4, n_jobs=n) for n in (1, 2))
    assert_same_fit(one, two)
    assert one.trace.moves == two.trace.moves
    assert any(m.is_accepted for m in one.trace.moves)


def test_the_same_seed_gives_the_same_moves_and_another_may_not():
    rows = blobs(200, 5, spread=3.0)
    runs = [
        fit(blob_model(rows), MemoizedVB(n_batches=3, moves=QUICK), rows, 1, seed=s)
        for s in (1, 1, 2)
    ]
    assert_same_fit(runs[0], runs[1])
    assert runs[0].trace.moves == runs[1].trace.moves
    assert [m.expected for m in runs[0].trace.moves] != [m.expected for m in runs[2].trace.moves]


@pytest.mark.parametrize("n_components", [1, 5])
def test_repeats_are_rows(n_components):
    """A fit to rows with repeats keeps totals and bound of the repeated rows, moves included."""
    rows = blobs(120, 4, spread=8.0)
    repeats = np.random.default_rng(1).integers(0, 4, 120).astype(float)
    model, table = blob_model(rows), Table(rows, repeats)
    engine = MemoizedVB(n_batches=3, moves=QUICK, trace_visits=True)
    result = run(model, engine, table, random_start(model, table, n_components), seed=1)
    check_history(result, 3)
    assert result.counts["share"].sum() == pytest.approx(repeats.sum(), rel=1e-12)
    repeated = Table(np.repeat(rows, repeats.astype(int), axis=0))
    again = run(
        model, BatchVB(max_iter=1), repeated, sb.inference.Start(result.counts, result.params)
    )
    # converged: one more pass over the rows adds next to nothing
    assert again.bound == pytest.approx(result.bound, abs=1e-3)
    assert again.bound >= result.bound - 1e-9 * abs(result.bound)


def test_ctrl_c_in_the_middle_of_a_lap_leaves_a_consistent_fit():
    class Interrupt(Callback):
        def __init__(self, step: int) -> None:
            self.step = step

        def on_step(self, info) -> None:
            if info.step == self.step:
                raise KeyboardInterrupt

    rows = blobs(150, 3, spread=8.0)
    model, table = blob_model(rows), Table(rows)
    start = random_start(model, table, 1)
    for step in (5, 6, 8, 9, 12):
        engine = MemoizedVB(
            n_batches=3, tol=0.0, max_iter=8, moves=QUICK, callbacks=(Interrupt(step),)
        )
        result = run(model, engine, table, start, seed=7)
        assert result.is_interrupted
        assert dict(result.counts.sides) == {}
        assert result.counts["share"].sum() == pytest.approx(150, rel=1e-12)
        assert len(result.ids) == result.counts.size(model.axis)
        assert result.bound == pytest.approx(model.bound(result.counts, result.params), rel=1e-12)


# ---- books ---------------------------------------------------------------------------------------
def test_a_failed_candidate_rests_and_is_tried_again_when_it_has_changed():
    books = Attempts({"birth": 2})
    assert books.may_try("birth", (3,), [100.0], 5, False)
    books.fail("birth", (3,), [100.0], 5)
    assert [books.may_try("birth", (3,), [100.0], lap, False) for lap in (6, 7)] == [False, True]
    assert books.may_try("birth", (3,), [100.0], 6, True)  # the fit has settled: nobody rests
    assert books.may_try("birth", (3,), [111.0], 6, False)  # it has changed
    assert not books.may_try("birth", (3,), [109.0], 6, False)
    books.fail("birth", (3,), [100.0], 7)
    assert books.failures("birth", (3,)) == 2
    assert not any(
        books.may_try("birth", (3,), [100.0], lap, settled)
        for lap in (8, 50)
        for settled in (False, True)
    )
    books.fail("birth", (3,), [150.0], 9)  # changed since: counted anew
    assert books.failures("birth", (3,)) == 1
    assert books.may_try("merge", (3, 4), [1.0, 2.0], 9, False)
    copy = Attempts()
    copy.load(books.to_list())
    assert copy.failed == books.failed
    books.forget([4])
    assert books.failed == {}


def test_what_was_hopeless_waits_until_a_size_has_changed_by_half():
    books = Attempts()
    books.fail("delete", (3,), [100.0], 5, hopeless=True)
    books.fail("delete", (4,), [100.0], 5)
    books.fail("birth", (3,), [100.0], 5, hopeless=True)  # the next one begins elsewhere
    for size, expected in ((109.0, False), (120.0, False), (49.0, True), (151.0, True)):
        assert books.may_try("delete", (3,), [size], 9, True) == expected
    assert books.may_try("delete", (4,), [120.0], 9, True)
    assert books.may_try("birth", (3,), [120.0], 6, False)
    copy = Attempts()
    copy.load(books.to_list())
    assert copy.failed == books.failed
    older = [saved[:5] for saved in books.to_list()]  # as files had it that do not say how hopeless
    copy.load(older)
    assert copy.may_try("delete", (3,), [120.0], 9, True)
    for change in (0.0, 1.5, np.nan):
        with pytest.raises(ValueError, match="waits for a change"):
            copy.load([["delete", [3], 1, 5, [100.0], change]])


def test_a_goal_ends_a_fit_whose_second_pass_closes_too_little():
    for second, is_over in ((-41.0, False), (-59.0, True), (5.0, False)):
        goal = Goal(0.0, patience=3.0, least_closed=0.5)
        goal.max_iter = 40
        assert not goal.is_hopeless(1, -100.0, 3)
        assert goal.is_hopeless(2, second, 3) == is_over
    patient = Goal(0.0, patience=3.0)
    patient.max_iter = 40
    assert not patient.is_hopeless(1, -100.0, 3)
    assert not patient.is_hopeless(2, -99.0, 3)


def test_a_fit_that_has_nothing_left_to_try_ends():
    """One component, one cluster: a few proposals fail, and that is all."""
    rows = np.random.default_rng(0).normal(size=(300, 2))
    result = fit(
        blob_model(rows), MemoizedVB(moves=(Birth(), Merge(), Delete()), max_iter=200), rows, 1
    )
    assert len(result.ids) == 1
    assert result.is_converged
    assert len(result.trace) < 20


def test_nothing_is_planned_while_a_seed_stands_in():
    """In the first lap there is no bound to judge by."""
    rows = blobs(100, 1)
    result = fit(blob_model(rows), MemoizedVB(n_batches=4, moves=QUICK, max_iter=1), rows, 3)
    assert result.trace.moves == []


def test_named_components_are_left_alone_by_every_move():
    """Labels name 0 and 1; the others are free. Set 0 is that of rows without a label."""
    twin = make_twin("gaussian", n_components=6)
    legal = np.concatenate([np.ones((1, 6)), np.eye(6)[:2]])
    params = twin.model.start_params(6, legal)
    scene = Scene(
        twin.model,
        twin.total,
        params,
        twin.ids,
        twin.table,
        Attempts(),
        np.random.default_rng(0),
        2,
        False,
    )
    assert scene.protected == {0, 1}
    for move in (Birth(min_rows=1), Merge(max_pairs=15), Delete(max_targets=6)):
        for proposal in move.plan(scene):
            assert scene.protected.isdisjoint(proposal.slots)


# ---- recovery ------------------------------------------------------------------------------------
def asterisk(n: int, seed: int):
    """Eight arms of a star."""
    rng = np.random.default_rng(seed)
    arm = rng.permutation(np.arange(n) % 8)
    angle, along, across = (
        arm * np.pi / 4,
        1.0 + 0.25 * rng.normal(size=n),
        0.05 * rng.normal(size=n),
    )
    x = along * np.cos(angle) - across * np.sin(angle)
    return np.column_stack([x, along * np.sin(angle) + across * np.cos(angle)]), arm


def geyser(n: int, seed: int):
    """Two groups as of the old faithful geyser: minutes that eruptions last, and between them."""
    rng = np.random.default_rng(seed)
    group = (rng.random(n) < 0.36).astype(int)
    means = np.array([[4.29, 79.97], [2.04, 54.48]])
    factors = np.linalg.cholesky(
        np.array([[[0.17, 0.94], [0.94, 36.0]], [[0.069, 0.435], [0.435, 33.7]]])
    )
    return means[group] + np.einsum("nij,nj->ni", factors[group], rng.normal(size=(n, 2))), group


def check_star(seed: int) -> None:
    rows, arm = asterisk(1200, seed)
    model = sb.DPMixture(random_state=seed).fit(rows)
    assert model.n_components_ == 8
    assert adjusted_rand_score(arm, model.labels_) > 0.98


@pytest.mark.slow
def test_the_arms_of_a_star_are_found_from_one_component():
    check_star(0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_the_arms_of_a_star_are_found_for_every_seed(seed):
    check_star(seed)


@pytest.mark.slow
@pytest.mark.parametrize("n_seeds", [3, 10])
def test_two_kinds_of_eruptions_are_found_from_one_component_for_every_seed(n_seeds):
    rows, group = geyser(272, 0)
    models = [sb.DPMixture(random_state=seed).fit(rows) for seed in range(n_seeds)]
    assert [model.n_components_ for model in models] == [2] * n_seeds
    assert min(adjusted_rand_score(group, model.labels_) for model in models) > 0.95
    bounds = [model.lower_bound_ for model in models]
    assert max(bounds) - min(bounds) < 1e-2  # tol is 272e-5 nats a lap


@pytest.mark.slow
def test_a_small_cluster_beside_large_ones_is_found():
    """The birth that splits it off pays only if the order of the sticks is not held against it."""
    rng = np.random.default_rng(7)
    centers = 20 * rng.normal(size=(9, 2))  # so far apart that no two are better taken as one
    rows = np.concatenate(
        [rng.normal(m, 1, (s, 2)) for m, s in zip(centers, [800] * 3 + [20] * 6, strict=True)]
    )
    assert sb.DPMixture(random_state=7).fit(rows).n_components_ == 9
