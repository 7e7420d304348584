"""Merges: gains, scores and accepted sequences equal brute force on dense shares."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from fitting import GOLDEN_GAMMA, GOLDEN_X, MODELS, golden_model, golden_shares
from moving import (
    ACCUMULATOR,
    GAMMA,
    SEVERAL,
    Twin,
    accepting,
    apply_all,
    assert_exact,
    gains,
    lap,
    make_twin,
    pair_proposals,
    watched_lap,
)
from oracles import conjugate, minimal_gaussian, mixture
from oracles import moves as brute

from stickbreak.data import Table, measure
from stickbreak.families import Gaussian
from stickbreak.inference import Scene
from stickbreak.inference.attempts import Attempts
from stickbreak.initialize.counts import count_labels
from stickbreak.moves.merge import Merge, MergeWatch, pair_scores
from stickbreak.protocols import Local
from stickbreak.stats import Merge as MergeEdit
from stickbreak.stats import Summary

PAIRS = list(combinations(range(4), 2))
priors = pytest.mark.parametrize("allocation", MODELS)
several = pytest.mark.parametrize("name", SEVERAL)


def collected(model, shares, pairs, rows=GOLDEN_X) -> Summary:
    """Counts of given responsibilities, with what a merge watch collects of them."""
    counts = model.zeros(shares.shape[1])
    out, columns = dict(counts.arrays), np.asfortranarray(shares)
    model.family.mean_log(counts).collect(model.family.prepare(rows), columns, out)
    out["share"] += shares.sum(0)
    side = MergeWatch(np.array(pairs)).empty_side(model, None)
    model.structure.merge_terms(
        None, Table(rows).whole(), Local(0.0, columns), np.array(pairs), dict(side.arrays)
    )
    local = brute.entropy(shares, np.ones(len(shares)))
    return Summary(counts.layout, out, local, n_units=float(len(shares)), sides={"merge": side})


# ---- golden numbers ------------------------------------------------------------------------------
GOLDEN = {  # data, entropy, allocation at the golden responsibilities
    (0, 1): (0.8701752, -2.55304823, 3.34727056),
    (0, 2): (0.84065409, -2.62717288, 3.38859487),
    (0, 3): (0.8485636, -2.51801262, 3.44513013),
    (1, 2): (0.84510766, -2.54323632, 3.11073838),
    (1, 3): (0.85316207, -2.70704015, 3.15790642),
    (2, 3): (0.91808641, -2.70853405, 2.72724932),
}


def test_golden_gains_of_every_pair():
    model, pairs = golden_model("dp"), list(GOLDEN)
    total = collected(model, golden_shares(), pairs)
    found, scores = pair_scores(model, total, model.start_params(4))
    assert [tuple(pair) for pair in found] == pairs
    before = model.bound(total, model.start_params(4))
    for at, pair in enumerate(pairs):
        data, entropy, allocation = GOLDEN[pair]
        # two numbers of eight decimals
        assert scores[at] == pytest.approx(data + allocation, abs=2e-8)
        assert total.sides["merge"]["gain"][at] == pytest.approx(entropy, abs=1e-8)
        merged = MergeEdit(model.axis, *pair, at)(total)
        assert model.bound(merged, model.start_params(3)) - before == pytest.approx(
            data + entropy + allocation, abs=3e-8
        )


# ---- gains ---------------------------------------------------------------------------------------
@pytest.mark.covering
@several
@priors
@pytest.mark.parametrize("n_batches", [1, 3])
def test_gains_equal_the_difference_of_brute_force_bounds(name, allocation, n_batches):
    twin = make_twin(name, allocation, n_batches=n_batches)
    found = gains(twin, pair_proposals(PAIRS))
    before = twin.brute_bound()
    for (a, b), gain in zip(PAIRS, found, strict=True):
        expected = twin.brute_bound(brute.merge(twin.shares, a, b)) - before
        assert gain == pytest.approx(expected, abs=1e-9 * max(1.0, abs(before)))
    assert_exact(twin)  # nothing was accepted, nothing has changed, nothing is left


def test_gains_hold_for_repeats():
    twin = make_twin("gaussian", repeats=np.random.default_rng(1).integers(0, 4, 25).astype(float))
    found = gains(twin, pair_proposals(PAIRS))
    for (a, b), gain in zip(PAIRS, found, strict=True):
        expected = twin.brute_bound(brute.merge(twin.shares, a, b)) - twin.brute_bound()
        assert gain == pytest.approx(expected, abs=1e-9 * abs(twin.bound))


@several
def test_entropy_falls_by_no_more_than_log_two_a_row(name):
    twin = make_twin(name)
    watched_lap(twin, pair_proposals(PAIRS))
    changes, N = twin.total.sides["merge"]["gain"], twin.total["share"]
    for (a, b), change in zip(PAIRS, changes, strict=True):
        merged = brute.merge(twin.shares, a, b)
        assert change == pytest.approx(
            brute.entropy(merged, twin.w) - brute.entropy(twin.shares, twin.w), abs=1e-10
        )
        assert -(N[a] + N[b]) * np.log(2) - 1e-12 <= change <= 0.0


@pytest.mark.covering
@several
@priors
def test_the_score_is_an_upper_bound_of_the_gain(name, allocation):
    """Entropy only falls, so a pair whose score is not positive is left out without loss."""
    twin = make_twin(name, allocation)
    found = gains(twin, pair_proposals(PAIRS))
    pairs, scores = pair_scores(twin.model, twin.total, twin.state.params)
    assert [tuple(p) for p in pairs] == PAIRS
    before, N = twin.brute_bound(), twin.total["share"]
    for (a, b), score, gain in zip(PAIRS, scores, found, strict=True):
        r = brute.merge(twin.shares, a, b)
        exact = (
            twin.brute_bound(r)
            - brute.entropy(r, twin.w)
            - before
            + brute.entropy(twin.shares, twin.w)
        )
        assert score == pytest.approx(exact, abs=1e-8 * max(1.0, abs(before)))
        assert score >= gain - 1e-9 * abs(before)
        # certain when this is positive
        assert gain >= score - (N[a] + N[b]) * np.log(2) - 1e-9 * abs(before)


def test_no_pair_is_left_out_that_could_be_accepted():
    """What `plan` does not propose gains nothing."""
    for seed in range(5):
        twin = make_twin("gaussian", n_components=6, seed=seed)
        every = list(combinations(range(6), 2))
        scene = Scene(
            twin.model,
            twin.total,
            twin.state.params,
            twin.ids,
            twin.table,
            Attempts(),
            np.random.default_rng(0),
            2,
            False,
        )
        proposed = {p.slots for p in Merge(max_pairs=15).plan(scene)}
        pairs, scores = pair_scores(twin.model, twin.total, twin.state.params)
        left_out = [tuple(int(k) for k in p) for p, s in zip(pairs, scores, strict=True) if s <= 0]
        assert proposed.isdisjoint(left_out)
        base = twin.brute_bound()
        for a, b in set(every) - proposed:
            if (a, b) in left_out:
                assert twin.brute_bound(brute.merge(twin.shares, a, b)) - base < 1e-9 * abs(base)


def test_two_exact_duplicates():
    """r_a = r_b: the entropy falls by (N_a + N_b) log 2, the data term is that of the doubled
    counts.
    """
    model, family = (
        golden_model("dp"),
        conjugate.FixedVarianceGaussian(np.array([0.5]), np.zeros(1), 0.2),
    )
    r = golden_shares()[:, [0, 1, 2, 1]]
    r[:, [1, 3]] *= 0.5
    r /= r.sum(1, keepdims=True)
    total = collected(model, r, [(1, 3)])
    N = r.sum(0)
    assert total.sides["merge"]["gain"][0] == pytest.approx(-(N[1] + N[3]) * np.log(2), abs=1e-12)
    merged = MergeEdit(model.axis, 1, 3)(total)
    np.testing.assert_allclose(merged["share"], [N[0], 2 * N[1], N[2]], rtol=1e-14)
    np.testing.assert_allclose(merged["moments"][1], 2 * total["moments"][1], rtol=1e-14)
    alone, both = (family.log_marginal(GOLDEN_X, c * r[:, 1]) for c in (1.0, 2.0))
    expected = both - 2 * alone - 2 * N[1] * np.log(2)
    expected += brute.allocation_term(np.array([N[0], 2 * N[1], N[2]]), GOLDEN_GAMMA, "dp")
    expected -= brute.allocation_term(N, GOLDEN_GAMMA, "dp")
    gain = model.bound(merged, model.start_params(3)) - model.bound(total, model.start_params(4))
    assert gain == pytest.approx(expected, abs=1e-10)


# ---- several merges in one lap -------------------------------------------------------------------
@pytest.mark.covering
@several
@priors
def test_several_disjoint_merges_equal_one_after_another(name, allocation):
    twin = make_twin(name, allocation, n_components=7, n_batches=4)
    mover = watched_lap(twin, pair_proposals([(0, 4), (1, 6), (2, 3)]))
    # each gain is compared with brute force there, in the order of acceptance
    records = apply_all(twin, mover, {})
    assert len(records) == 3
    assert len(twin.ids) == 4
    assert_exact(twin)
    lap(twin)
    ACCUMULATOR.end_lap(twin.state)
    assert_exact(twin)


def test_a_pair_that_shares_a_component_with_an_accepted_one_is_skipped():
    twin = make_twin("gaussian", n_components=6)
    pairs = [(0, 1), (1, 2), (2, 3), (0, 3), (4, 5)]
    mover = watched_lap(twin, pair_proposals(pairs))
    records = apply_all(twin, mover, {})
    parents = [record.parents for record in records]
    assert len(set().union(*parents)) == 2 * len(parents)  # disjoint
    for pair in set(pairs) - set(parents):
        assert any(set(pair) & set(done) for done in parents)
    assert mover.attempts.failed == {}  # a pair that was skipped has not failed
    assert_exact(twin)


def test_a_rejected_pair_leaves_its_components_free():
    twin = make_twin("gaussian", n_components=5)
    mover = watched_lap(twin, pair_proposals([(0, 1), (0, 2), (1, 2)]))
    with accepting(False):
        records = mover.decide(twin.model, twin.state)
    assert len(records) == 3
    assert len(mover.attempts.failed) == 3
    assert_exact(twin)


# ---- what the formula needs ----------------------------------------------------------------------
def test_without_the_prior_cumulant_the_gain_is_wrong():
    """cP(a + b) - cP(a) - cP(b) + cP(prior): the last term shifts every decision if it is
    left out.
    """
    family, tau = minimal_gaussian.FixedVarianceGaussian(0.5), np.zeros(1)
    oracle = mixture.MinimalModel(family, tau, 0.2)
    q = [oracle.posterior(GOLDEN_X[:, 0], golden_shares()[:, k]) for k in range(4)]
    for (a, b), (data, _, _) in GOLDEN.items():
        both = family.cP(q[a][0] + q[b][0] - tau, q[a][1] + q[b][1] - 0.2)
        without = both - family.cP(*q[a]) - family.cP(*q[b])
        assert without + family.cP(tau, 0.2) == pytest.approx(data, abs=1e-8)
        assert abs(without - data) > 0.5
    model = golden_model("dp")
    alone = model.family.log_marginal(collected(model, golden_shares(), [(0, 1)]))
    # rises above the prior: the library keeps the term in every component
    assert alone.shape == (4,)


def test_pairs_beyond_forty_components_are_sought_among_the_nearest():
    """Duplicates are each other's nearest: they are found though not every pair is scored."""
    rng = np.random.default_rng(0)
    centers = 10.0 * np.array([(i, j) for i in range(6) for j in range(5)])
    rows = np.repeat(centers, 20, axis=0) + rng.normal(size=(600, 2))
    family = Gaussian(mean=0.0, mean_strength=0.1, dof=5.0, covariance=1.0)
    model = MODELS["dp"](family.resolve(measure(Table(rows))), GAMMA)
    # each group in two halves: 60 components
    labels = 2 * (np.arange(600) // 20) + np.arange(600) % 2
    total = count_labels(model, Table(rows).whole(), labels, 60)
    pairs, scores = pair_scores(model, total, model.start_params(60))
    assert len(pairs) < 60 * 59 // 2
    best = {tuple(int(k) for k in pairs[at]) for at in np.argsort(-scores)[:30]}
    assert best == {(2 * g, 2 * g + 1) for g in range(30)}


def test_the_twin_notices_a_wrong_total():
    """The instrument itself: a count that is off by a millionth does not pass."""
    twin: Twin = make_twin("bernoulli")
    assert_exact(twin)
    twin.total["share"][0] += 1e-6
    with pytest.raises(AssertionError):
        assert_exact(twin)
