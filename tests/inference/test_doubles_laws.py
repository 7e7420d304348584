"""The doubles are what they say: equal to enumeration on tiny inputs, and below the exact
evidence.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from doubles import brute, document
from doubles.cases import CASES, bitext, lengths_to_offsets, skeletons
from doubles.data import Ragged, random_seed, random_start
from scipy.special import digamma, gammaln, logsumexp

from stickbreak.checks import check_structure
from stickbreak.inference import LogMean, MeanLog, MemoizedVB, Mode, run, workers
from stickbreak.priors import BasePrior
from stickbreak.structures import BaseStructure

LABELLINGS = {
    "chain": brute.paths,
    "chain-gaussian": brute.paths,
    "tree": brute.trees,
    "alignment": brute.alignments,
    "annotation": brute.annotations,
}
SIDED = {"alignment": bitext, "annotation": lambda lengths, K, seed: skeletons(lengths, 6, seed)}


@pytest.fixture(autouse=True)
def one_blas_thread():
    """Tables are tiny: threads of BLAS would only wait for each other."""
    with workers(1):
        yield


def tiny(name: str, lengths: tuple[int, ...], n_components: int, seed: int = 0):
    """A model of the register, a few rows as data, and random counts."""
    case, offsets = CASES[name], lengths_to_offsets(lengths)
    data = Ragged(case.data.rows[3 : 3 + offsets[-1]], offsets)
    if name in SIDED:
        data = SIDED[name](lengths, n_components, 8)
    return case.model, data, random_seed(case.model, [data.whole()], n_components, seed)


def enumerate_units(name, model, potentials, batch, n_components):
    """For each unit: rows, labellings, and their log weights."""
    evidence = potentials.scores.evidence(model.family.prepare(batch.rows))
    for u, (lo, hi) in enumerate(pairwise(batch.offsets)):
        found = list(LABELLINGS[name](batch.part(u, u + 1), n_components))
        yield slice(lo, hi), found, brute.log_weights(potentials, evidence[lo:hi], found)


def test_doubles_are_parts_of_the_contract():
    for case in CASES.values():
        assert isinstance(case.model.structure, BaseStructure)
        assert isinstance(case.model.prior, BasePrior)


@pytest.mark.covering
@pytest.mark.parametrize("rule", [MeanLog(), LogMean(), Mode()], ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("name", LABELLINGS)
def test_log_z_and_counts_equal_enumeration(name, rule):
    model, data, counts = tiny(name, (4, 1, 3), 3)
    batch = data.whole()
    potentials = model.potentials(counts, model.start_params(3), rule)
    local, out = brute.infer(model, potentials, batch)
    log_z, shares, expected = 0.0, np.zeros((batch.n_rows, 3)), model.prior.zeros(3)
    for rows, found, weights in enumerate_units(name, model, potentials, batch, 3):
        log_z += logsumexp(weights)
        for labelling, p in zip(found, np.exp(weights - logsumexp(weights)), strict=True):
            shares[rows][np.arange(len(labelling.labels)), labelling.labels] += p
            for field, array in labelling.counts.items():
                expected[field] += p * array
    assert local.log_z == pytest.approx(log_z, rel=1e-12)
    np.testing.assert_allclose(local.shares, shares, atol=1e-12)
    for field in expected:
        np.testing.assert_allclose(out[field], expected[field], atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", LABELLINGS)
def test_best_labelling_equals_enumeration(name):
    model, data, counts = tiny(name, (4, 1, 3), 3)
    batch = data.whole()
    potentials = model.potentials(counts, model.start_params(3), MeanLog())
    local, out = brute.infer(model.best_only(), potentials, batch)
    value, labels, expected = 0.0, [], model.prior.zeros(3)
    for _, found, weights in enumerate_units(name, model, potentials, batch, 3):
        best = int(weights.argmax())
        value += weights[best]
        labels += found[best].labels
        for field, array in found[best].counts.items():
            expected[field] += array
    assert local.log_z == pytest.approx(value, rel=1e-12)
    np.testing.assert_array_equal(model.best_only().decode(potentials, batch), labels)
    np.testing.assert_array_equal(local.shares, np.eye(3)[labels])
    for field in expected:
        np.testing.assert_array_equal(out[field], expected[field])


@pytest.mark.slow
@pytest.mark.parametrize("name", LABELLINGS)
def test_samples_have_the_posterior_shares(name):
    model, data, counts = tiny(name, (4, 1, 3), 3)
    batch = data.whole()
    potentials = model.potentials(counts, model.start_params(3), MeanLog())
    local, _ = brute.infer(model, potentials, batch)
    rng, block = np.random.default_rng(0), brute.prepared(model, batch)
    seen = np.mean(
        [np.eye(3)[model.structure.sample(potentials, block, rng)] for _ in range(600)], axis=0
    )
    # five standard deviations of a mean of 600 draws
    np.testing.assert_allclose(seen, local.shares, atol=0.1)


@pytest.mark.parametrize("name", LABELLINGS)
def test_derivative_of_log_z_is_the_count(name):
    model, data, counts = tiny(name, (4, 3), 2)
    batch = data.whole()
    potentials = model.potentials(counts, model.start_params(2), MeanLog())
    _, out = brute.infer(model, potentials, batch)
    for field in model.prior.fields(model.axis):
        for at in np.ndindex(out[field].shape):
            up, down = (
                brute.infer(model, brute.perturbed(potentials, field, at, h), batch)[0].log_z
                for h in (1e-5, -1e-5)
            )
            # a central difference of step h is off by h**2 and by rounding / h
            assert (up - down) / 2e-5 == pytest.approx(out[field][at], abs=1e-7), (field, at)


@pytest.mark.parametrize("name", ["chain", "tree", "alignment", "annotation"])
def test_derivative_of_log_z_along_the_family_is_its_count(name):
    model, data, counts = tiny(name, (4, 3), 2)
    batch = data.whole()
    potentials = model.potentials(counts, model.start_params(2), MeanLog())
    found, _ = model.local_step(potentials, batch)
    for at in np.ndindex(found["emission"].shape):
        ends = []
        for h in (1e-5, -1e-5):
            table = potentials.scores.log_table.copy()
            table[at] += h
            ends.append(
                brute.infer(
                    model,
                    replace(potentials, scores=replace(potentials.scores, log_table=table)),
                    batch,
                )[0].log_z
            )
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(found["emission"][at], abs=1e-7)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("name", "lengths"),
    [
        ("chain", (3, 2, 1)),
        ("chain-gaussian", (3, 2)),
        ("tree", (3, 2)),
        ("alignment", (2, 2, 1)),
        ("annotation", (3, 2, 1)),
    ],
)
def test_bound_stays_below_the_exact_evidence(name, lengths):
    model, data, _ = tiny(name, lengths, 2)
    exact = brute.log_evidence(model, data.whole(), 2, LABELLINGS[name])
    engine = MemoizedVB(n_batches=2, max_iter=30, tol=0.0)
    bounds = [
        run(model, engine, data, random_start(model, data.batches(2), 2, seed)).bound
        for seed in range(3)
    ]
    assert max(bounds) < exact
    # a bound of the right data: mean field loses some nats, not tens
    assert max(bounds) > exact - 6.0


@pytest.mark.parametrize("name", ["document", "document-rest"])
def test_document_fixed_point_satisfies_its_equations(name):
    case = CASES[name]
    model = replace(case.model, structure=document.Document(max_steps=5000, tolerance=1e-13))
    batch = case.data.batches(2)[0]
    params = model.start_params(3)
    potentials = model.potentials(random_seed(model, [batch], 3), params, MeanLog())
    warm = model.structure.cold_start(batch, 3, model.axis)
    local, out = brute.infer(model, potentials, batch, warm)
    pseudo, rest = model.prior.pseudo(params, 3)
    evidence = potentials.scores.evidence(model.family.prepare(batch.rows))
    log_share = np.zeros(3)
    for d, (lo, hi) in enumerate(pairwise(batch.offsets)):
        q = warm["counts"][d] + pseudo
        used = digamma(q) - digamma(q.sum() + rest)
        logits = evidence[lo:hi] + used
        shares = batch.repeats[lo:hi, None] * np.exp(
            logits - logsumexp(logits, axis=1, keepdims=True)
        )
        np.testing.assert_allclose(local.shares[lo:hi], shares, atol=1e-10)
        np.testing.assert_allclose(warm["counts"][d], shares.sum(0), atol=1e-10)
        log_share += used
    np.testing.assert_allclose(out["log_share"], log_share, rtol=1e-12)


@pytest.mark.parametrize("max_steps", [1, 3, 30])
@pytest.mark.parametrize("name", ["document", "document-rest"])
def test_document_bound_equals_the_textbook_formula(name, max_steps):
    """Also when the fixed point was cut short: own_bound is exact for whatever q the units have."""
    case = CASES[name]
    model = replace(case.model, structure=document.Document(max_steps=max_steps, tolerance=0.0))
    batch, params = case.data.whole(), case.model.start_params(3)
    potentials = model.potentials(random_seed(model, [batch], 3), params, MeanLog())
    warm = model.structure.cold_start(batch, 3, model.axis)
    local, _ = brute.infer(model, potentials, batch, warm.copy())
    found, after = model.local_step(potentials, batch, warm)
    pseudo, rest = model.prior.pseudo(params, 3)
    prior = np.r_[pseudo, rest] if rest > 0 else pseudo
    expected = float(model.family.log_marginal(found).sum())
    for d, (lo, hi) in enumerate(pairwise(batch.offsets)):
        q = prior + np.r_[after["counts"][d], 0.0][: len(prior)]
        expected += brute.document_part(local.shares[lo:hi], batch.repeats[lo:hi], q, prior, 3)
    # no units: what is left is the prior of the root
    sticks = model.prior.bound(model.zeros(3), params)
    assert model.bound(found, params) == pytest.approx(expected + sticks, rel=1e-12)


@pytest.mark.parametrize("name", LABELLINGS)
def test_doubles_pass_the_public_battery(name):
    model, data, counts = tiny(name, (3, 1, 3), 2)
    batch = data.whole()
    potentials = model.potentials(counts, model.start_params(2), MeanLog())
    check_structure(model, potentials, batch)
    alone = [
        brute.infer(model, potentials, batch.part(u, u + 1).alone())[0].log_z for u in range(3)
    ]
    np.testing.assert_allclose(model.log_evidence(potentials, batch), alone, rtol=1e-12)


@pytest.mark.parametrize("name", ["document", "document-rest"])
def test_document_evidence_is_the_local_bound(name):
    """Of each unit, given the globals: the sum over units equals what the whole batch adds to the
    bound.
    """
    model, batch = CASES[name].model, CASES[name].data.whole()
    counts = random_seed(model, [batch], 3)
    potentials = model.predictive(counts, model.start_params(3))
    found, _ = model.local_step(model.potentials(counts, model.start_params(3), LogMean()), batch)
    assert np.isfinite(found.log_z)
    evidence = model.log_evidence(potentials, batch)
    local, out = brute.infer(model, potentials, batch)
    pseudo = potentials["pseudo"]
    expected = local.log_z + local.own_bound + pseudo @ out["log_share"]
    expected -= batch.n_spans * (gammaln(pseudo).sum() - gammaln(pseudo.sum()))
    assert evidence.shape == (batch.n_spans,)
    assert evidence.sum() == pytest.approx(expected, rel=1e-12)
