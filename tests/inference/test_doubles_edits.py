"""Edits by axis name act on totals, remembered batches, warm starts and parameters of every double
alike.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from doubles import brute, document
from doubles.cases import CASES
from doubles.data import begin, random_seed
from doubles.watch import MergeWatch
from scipy.special import digamma

from stickbreak.inference import MeanLog, Memoized, Snapshot, Trace, workers
from stickbreak.inference.checkpoints import Checkpointer, read_checkpoint
from stickbreak.inference.loop import step
from stickbreak.stats import EditLog, Forget, Insert, Merge, Permute, Remove, Tally

RULE, ACCUMULATOR = MeanLog(), Memoized()
WATCHED = [name for name, case in CASES.items() if "merge" in case.model.structure.tracks]


@pytest.fixture(autouse=True)
def one_blas_thread():
    """Tables are tiny: threads of BLAS would only wait for each other."""
    with workers(1):
        yield


def fit(name, n_batches=3, n_laps=3, watch=None, model=None):
    """A memoized state after some laps, the last one watched; model and batches."""
    case = CASES[name]
    model, batches = model or case.model, case.data.batches(n_batches)
    state = begin(model, batches, case.n_components)
    for lap in range(n_laps):
        watches = (watch,) if watch is not None and lap == n_laps - 1 else ()
        for batch in batches:
            step(model, RULE, ACCUMULATOR, state, batch, watches)
        ACCUMULATOR.end_lap(state)
    return state, model, batches


def bound_of(model, state):
    return model.bound(state.total.view(), state.params)


def sum_of_memory(model, state):
    """What the remembered batches add up to after replay."""
    total = Tally(model.zeros(state.n_components))
    for batch_id in state.memory:
        total.add(state.memory.recall(batch_id).catch_up(state.log).summary)
    return total.summary()


def assert_close(first, second, rtol=1e-9):
    for name in first.arrays:
        assert first[name].shape == second[name].shape, name
        np.testing.assert_allclose(first[name], second[name], rtol=rtol, atol=1e-9, err_msg=name)
    for name in ("local_bound", "n_units"):
        assert getattr(first, name) == pytest.approx(getattr(second, name), rel=rtol, abs=1e-9), (
            name
        )


def assert_never_drops_from_here(model, state, batches, before, n_laps=3):
    """Visits after an edit: each may only raise the bound, in whatever order batches catch up."""
    for _ in range(n_laps):
        for batch in batches:
            step(model, RULE, ACCUMULATOR, state, batch)
            after = bound_of(model, state)
            assert after >= before - 1e-10 * max(1.0, abs(before))
            before = after
        ACCUMULATOR.end_lap(state)


# ------------------------------------------------------------------------------------------- merges


def entropy_by_hand(local, offsets, pairs):
    """Entropy of a chain's posterior after relabelling, from conditionals of each step."""
    total = 0.0
    for (first, steps), (lo, hi) in zip(local.memo, pairwise(offsets), strict=True):
        to = np.arange(len(first))
        for a, b in pairs:
            to[b] = a
        start, cells = np.zeros(len(first)), np.zeros((hi - lo - 1, len(first), len(first)))
        np.add.at(start, to, first)
        for i, j in np.ndindex(steps.shape[1:]):
            cells[:, to[i], to[j]] += steps[:, i, j]
        total -= sum(p * np.log(p) for p in start if p > 0)
        for cell in cells:
            total -= sum(p * np.log(p / row.sum()) for row in cell for p in row if p > 0)
    return total


@pytest.mark.parametrize("name", ["chain", "chain-gaussian"])
def test_merge_tracks_the_entropy_of_a_chain_exactly(name):
    """One and two merges in one lap: gain and cross give the entropy of the relabelled
    posterior.
    """
    pairs = ((0, 2), (1, 3))
    state, model, batches = fit(name, n_batches=1)
    potentials = model.potentials(state.counts, state.params, RULE)
    local, _ = brute.infer(model, potentials, batches[0])
    total, _ = model.local_step(potentials, batches[0], None, [MergeWatch(pairs)])
    assert total.local_bound == pytest.approx(
        entropy_by_hand(local, batches[0].offsets, ()), abs=1e-8
    )
    total = Merge("state", 0, 2, 0)(total)
    assert total.local_bound == pytest.approx(
        entropy_by_hand(local, batches[0].offsets, pairs[:1]), abs=1e-8
    )
    total = Merge("state", 1, 2, 1, (0,))(total)
    assert total.local_bound == pytest.approx(
        entropy_by_hand(local, batches[0].offsets, pairs), abs=1e-8
    )
    assert abs(total.sides["merge"]["cross"][0, 1]) > 1e-3  # the correction matters


@pytest.mark.parametrize("name", WATCHED)
def test_merges_replayed_late_add_up_to_the_total(name):
    """Two merges and an order, decided on the total; batches that had not seen them catch
    up later.
    """
    state, model, batches = fit(name, watch=MergeWatch(((0, 2), (1, 3))))
    axis = model.axis
    early = [state.recall(batch) for batch in batches]
    for edit in (Merge(axis, 0, 2, 0), Merge(axis, 1, 2, 1, (0,)), Permute(axis, (1, 0)), Forget()):
        state.edit(edit)
        early = [visit.catch_up(state.log) for visit in early]
    assert state.ids == (1, 0)
    for batch, visit in zip(batches, early, strict=True):
        late = state.recall(batch)
        assert all((late.summary[n] == visit.summary[n]).all() for n in late.summary)
        assert late.summary.local_bound == visit.summary.local_bound
        assert not late.summary.sides
        if visit.warm is not None:
            assert late.warm["counts"].shape[1] == 2
            assert (late.warm["counts"] == visit.warm["counts"]).all()
    assert_close(sum_of_memory(model, state), state.total.view())
    assert_never_drops_from_here(model, state, batches, bound_of(model, state))


@pytest.mark.parametrize("name", ["document", "document-rest"])
def test_merge_of_tracked_shares_equals_documents_relabelled_by_hand(name):
    pairs = [(0, 2)]
    state, model, batches = fit(name, n_batches=1, watch=MergeWatch(((0, 2),)))
    potentials = model.potentials(state.counts, state.params, RULE)
    warm = state.recall(batches[0]).warm
    local, _ = brute.infer(model, potentials, batches[0], warm.copy())
    total, after = model.local_step(potentials, batches[0], warm, [MergeWatch(((0, 2),))])
    edit = Merge("topic", 0, 2)
    merged, params = edit(total), edit(state.params)
    shares, counts = brute.folded(local, pairs)
    np.testing.assert_allclose(edit(after)["counts"], counts, rtol=1e-12)
    pseudo, rest = potentials["pseudo"], potentials["rest"]
    q_prior = np.delete(pseudo + pseudo[2] * (np.arange(4) == 0), 2)
    new_pseudo, new_rest = model.prior.pseudo(params, 3)
    with_rest = lambda a, r: np.r_[a, r] if rest > 0 else a
    expected, log_share = float(model.family.log_marginal(merged).sum()), np.zeros(3)
    for d, (lo, hi) in enumerate(pairwise(batches[0].offsets)):
        q = with_rest(counts[d] + q_prior, rest)
        expected += brute.document_part(
            shares[lo:hi], batches[0].repeats[lo:hi], q, with_rest(new_pseudo, new_rest), 3
        )
        log_share += (digamma(q) - digamma(q.sum()))[:3]
    np.testing.assert_allclose(merged["log_share"], log_share, rtol=1e-10)
    sticks = model.prior.bound(model.zeros(3), params)
    assert model.bound(merged, params) == pytest.approx(expected + sticks, rel=1e-11)


def test_tree_tables_merge_along_all_three_axes():
    state, model, batches = fit("tree")
    before = state.total.snapshot()
    state.edit(Merge("category", 0, 2))
    fold = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    total = state.total.view()
    np.testing.assert_allclose(
        total["binary_rule"],
        np.einsum("abc,ai,bj,ck->ijk", before["binary_rule"], fold, fold, fold),
    )
    np.testing.assert_allclose(total["kind"], fold.T @ before["kind"])
    np.testing.assert_allclose(total["emission"], before["emission"] @ fold)
    assert_close(sum_of_memory(model, state), total)
    state.edit(Insert("category", 1))
    state.edit(Remove("category", 1))
    assert state.ids == (0, 3)
    assert state.total.view()["binary_rule"].shape == (2, 2, 2)
    assert_close(sum_of_memory(model, state), state.total.view())
    assert np.isfinite(bound_of(model, state))
    step(model, RULE, ACCUMULATOR, state, batches[0])


@pytest.mark.parametrize("name", ["chain", "document-rest"])
def test_edits_inside_a_lap_keep_the_lap_total(name):
    """An edit between two visits of a lap: the lap's end must find the same total as the remembered
    batches.
    """
    state, model, batches = fit(name, watch=MergeWatch(((0, 2),)))
    step(model, RULE, ACCUMULATOR, state, batches[0], [MergeWatch(((0, 2),))])
    state.edit(Merge(model.axis, 0, 2))
    state.edit(Forget())
    for batch in batches[1:]:
        step(model, RULE, ACCUMULATOR, state, batch)
    ACCUMULATOR.end_lap(state)
    assert_close(sum_of_memory(model, state), state.total.view())


def test_sides_survive_a_checkpoint(tmp_path):
    state, _, batches = fit("document-rest", watch=MergeWatch(((0, 2),)))
    Checkpointer(tmp_path / "fit", 0.0, {}, -np.inf).save_if_due(Snapshot(state, Trace()))
    _, snapshot = read_checkpoint(tmp_path / "fit")
    for s in (state, snapshot.state):
        s.edit(Merge("topic", 0, 2))
    assert_close(state.total.view(), snapshot.state.total.view(), rtol=0)
    for batch in batches:
        here, there = state.recall(batch), snapshot.state.recall(batch)
        assert_close(here.summary, there.summary, rtol=0)
        np.testing.assert_array_equal(here.warm["counts"], there.warm["counts"])


# ----------------------------------------------------------------------------------- new components


def inserted(prior_type, n_laps):
    """A fit of documents with a remainder, and the edit that cuts two topics from it."""
    case = CASES["document-rest"]
    state, model, batches = fit(
        "document-rest", n_laps=n_laps, model=replace(case.model, prior=prior_type(1.5))
    )
    edit = document.cut_from_rest(
        model.prior, state.params, "topic", 0.3 * (1 - state.params["root"].sum()), 2
    )
    return state, model, batches, edit


@pytest.mark.parametrize("prior_type", [document.FixedRoot, document.RestTopics])
def test_fillers_of_new_topics_add_up_over_batches(prior_type):
    state, model, batches, edit = inserted(prior_type, 3)
    rest = model.prior.pseudo(state.params, 4)[1]
    state.edit(edit)
    assert state.ids == (0, 1, 2, 3, 4, 5)
    assert_close(sum_of_memory(model, state), state.total.view(), rtol=1e-12)
    assert model.prior.pseudo(state.params, 6)[1] == pytest.approx(0.4 * rest, rel=1e-12)
    assert all(state.recall(batch).warm["counts"][:, 4:].max() == 0 for batch in batches)
    assert_never_drops_from_here(model, state, batches, bound_of(model, state))


def test_bound_with_new_topics_equals_brute_force():
    """With the root where it was at the visits, q of each document is the Dirichlet with two more
    entries: recompute it whole.
    """
    state, model, batches, edit = inserted(document.FixedRoot, 3)
    locals_ = []
    for batch in batches:  # all under the same globals, so that shares can be recomputed
        potentials = model.potentials(state.counts, state.params, RULE)
        locals_.append(brute.infer(model, potentials, batch, state.recall(batch).warm.copy())[0])
    visits = [model.local_step(potentials, batch, state.recall(batch).warm) for batch in batches]
    total = Tally(model.zeros(4))
    for summary, _ in visits:
        total.add(summary)
    total, params = edit(total.summary()), edit(state.params)
    pseudo, rest = model.prior.pseudo(params, 6)
    expected, log_share = float(model.family.log_marginal(total).sum()), np.zeros(7)
    for batch, local, (_, warm) in zip(batches, locals_, visits, strict=True):
        warm = edit(warm)
        for d, (lo, hi) in enumerate(pairwise(batch.offsets)):
            q = np.r_[warm["counts"][d] + pseudo, rest]
            shares = np.c_[local.shares[lo:hi], np.zeros((hi - lo, 2))]
            expected += brute.document_part(shares, batch.repeats[lo:hi], q, np.r_[pseudo, rest], 6)
            log_share += digamma(q) - digamma(q.sum())
    np.testing.assert_allclose(np.r_[total["log_share"], total["log_rest"]], log_share, rtol=1e-11)
    sticks = model.prior.bound(model.zeros(6), params)
    assert model.bound(total, params) == pytest.approx(expected + sticks, rel=1e-12)


def test_edits_of_a_log_may_be_replayed_in_any_portions():
    state, _, batches, edit = inserted(document.RestTopics, 2)
    summary = state.recall(batches[1]).summary
    log = EditLog((edit, Permute("topic", (5, 1, 0, 2, 3, 4)), Remove("topic", 0)))
    whole, portions = log.replay(summary, 0), summary
    for at in range(3):
        portions = EditLog(log.edits[: at + 1]).replay(portions, at)
    assert all((whole[n] == portions[n]).all() for n in whole)
    assert whole.local_bound == portions.local_bound


# --------------------------------------------------------------------------------------- legal sets


@pytest.mark.parametrize("name", ["chain", "document", "tree"])
def test_legal_sets_restrict_rows_and_follow_merges(name):
    """Set 0 allows every component, set 1 only the last: a parameter with the component axis,
    edited like the rest.
    """
    case = CASES[name]
    K, model = case.n_components, case.model
    sets = (np.arange(len(case.data.rows)) % 3 == 0).astype(int)
    batch = replace(case.data.whole(), sets=sets)
    seed, legal = random_seed(model, [batch], K), np.vstack([np.ones(K), np.eye(K)[-1]])
    params = model.start_params(K, legal)
    found, _ = model.local_step(model.potentials(seed, params, RULE), batch)
    local, _ = brute.infer(model, model.potentials(seed, params, RULE), batch)
    np.testing.assert_array_equal(local.shares[sets == 1, :-1], 0.0)
    assert np.isfinite(found.local_bound)
    merged = Merge(model.axis, 0, K - 1)(params)
    np.testing.assert_array_equal(merged["legal"], [np.ones(K - 1), np.eye(K - 1)[0]])
