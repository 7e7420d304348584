"""Chains through the model: counts, log_z, pieces, repeats, masks, missing rows and labels against
enumeration.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from chains import PRIORS, gaussian_model, random_labels_start, segments, symbol_model, symbols
from oracles import chain as oracle

from stickbreak.data import Sequences
from stickbreak.errors import NumericalError
from stickbreak.inference import MeanLog
from stickbreak.models import Model
from stickbreak.structures import Chain

LENGTHS = (4, 1, 6, 5, 2)


def made(prior: str = "finite", n_components: int = 3, weights=None, seed: int = 0):
    data = symbols(seed, LENGTHS, weights=weights)
    model = symbol_model(prior, data)
    start = random_labels_start(model, data, n_components, seed)
    params = model.global_step(start.seed, start.params)
    return model, data, model.potentials(start.seed, params, MeanLog())


def expected(model: Model, data: Sequences, potentials, weights=None):
    """log_z, start, transition and shares by enumeration."""
    evidence = potentials.scores.evidence(model.family.prepare(data.rows))
    weights = np.ones(data.n_spans) if weights is None else weights
    K = evidence.shape[1]
    log_z, start, transition, shares = 0.0, np.zeros(K), np.zeros((K, K)), []
    for s, w in enumerate(weights):
        rows = slice(data.offsets[s], data.offsets[s + 1])
        z, r, pairs = oracle.smooth(evidence[rows], potentials["start"], potentials["transition"])
        log_z, start, transition = log_z + w * z, start + w * r[0], transition + w * pairs.sum(0)
        shares.append(r)
    return log_z, start, transition, np.concatenate(shares)


def test_a_chain_follows_the_protocols():
    chain = Chain()
    assert chain.is_ordered
    assert chain.draws
    assert chain.cuts_units
    assert chain.tracks == {"merge"}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("weights", [None, (1.0, 2.0, 0.0, 0.5, 3.0)])
def test_local_step_equals_enumeration(prior, weights):
    model, data, potentials = made(prior, weights=weights)
    found, _ = model.local_step(potentials, data.whole())
    log_z, start, transition, shares = expected(model, data, potentials, weights)
    assert found.log_z == pytest.approx(log_z, rel=1e-12)
    np.testing.assert_allclose(found["start"], start, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found["transition"], transition, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(
        model.prior.sizes(found),
        (shares * data.whole().repeats_or_ones()[:, None]).sum(0),
        rtol=1e-11,
    )
    if weights is None:
        np.testing.assert_allclose(
            model.shares(potentials, data.whole()), shares, rtol=1e-10, atol=1e-13
        )
        np.testing.assert_array_equal(model.decode(potentials, data.whole()), shares.argmax(1))


def test_local_bound_is_the_entropy_of_paths():
    """log Z = energy + entropy."""
    model, data, potentials = made()
    found, _ = model.local_step(potentials, data.whole())
    evidence, entropy = potentials.scores.evidence(model.family.prepare(data.rows)), 0.0
    for s in range(data.n_spans):
        _, r, pairs = oracle.smooth(
            evidence[data.offsets[s] : data.offsets[s + 1]],
            potentials["start"],
            potentials["transition"],
        )
        entropy += oracle.markov_entropy(r, pairs, np.zeros((0, 2), dtype=int))
    assert found.local_bound == pytest.approx(entropy, abs=1e-11)


def test_viterbi_filter_and_evidence_equal_enumeration():
    model, data, potentials = made()
    block = data.whole().with_rows(model.family.prepare(data.rows))
    evidence = potentials.scores.evidence(block.rows)
    path, value = model.structure.viterbi(potentials, block)
    known, log_step = model.structure.filter(potentials, block)
    log_z = model.log_evidence(potentials, data.whole())
    for s in range(data.n_spans):
        rows = slice(data.offsets[s], data.offsets[s + 1])
        tables = evidence[rows], potentials["start"], potentials["transition"]
        best, top = oracle.best_path(*tables)
        np.testing.assert_array_equal(path[rows], best)
        assert value[s] == pytest.approx(top)
        own, steps = oracle.filtered(*tables)
        np.testing.assert_allclose(known[rows], own, atol=1e-12)
        np.testing.assert_allclose(log_step[rows], steps, atol=1e-11)
        assert log_z[s] == pytest.approx(steps.sum())


def test_best_labels_are_counted():
    model, data, potentials = made(weights=(1.0, 2.0, 1.0, 3.0, 1.0))
    hard = model.best_only()
    found, _ = hard.local_step(potentials, data.whole())
    path, value = model.structure.viterbi(
        potentials, data.whole().with_rows(model.family.prepare(data.rows))
    )
    again = dict(found.empty().arrays)
    model.structure.count(path, data.whole(), again)
    np.testing.assert_allclose(found["start"], again["start"])
    np.testing.assert_allclose(found["transition"], again["transition"])
    assert found.log_z == pytest.approx(np.array([1.0, 2.0, 1.0, 3.0, 1.0]) @ value)


def test_unknown_labels_count_for_nobody():
    data = symbols(0, (4, 3))
    model = symbol_model("finite", data)
    out = dict(model.zeros(2).arrays)
    model.structure.count(np.array([0, 1, -1, 1, -1, 1, 1]), data.whole(), out)
    np.testing.assert_array_equal(out["start"], [1.0, 0.0])
    np.testing.assert_array_equal(out["transition"], [[0.0, 1.0], [0.0, 1.0]])


def test_legal_sets_hold_along_paths():
    """Rows with a label use their component alone; the rest is the posterior given that."""
    data = symbols(0, LENGTHS)
    sets = np.zeros(data.n_rows, dtype=int)
    sets[[1, 6, 10]] = 1
    sets[3] = 2
    legal = np.array([[1, 1, 1], [1, 0, 0], [0, 0, 1]])
    data = replace(data, sets=sets)
    model = symbol_model("hdp", data)
    start = random_labels_start(model, data, 3)
    params = model.global_step(start.seed, model.start_params(3, legal))
    potentials = model.potentials(start.seed, params, MeanLog())
    shares = model.shares(potentials, data.whole())
    evidence = potentials.scores.evidence(model.family.prepare(data.rows)) + np.where(
        legal[sets] > 0, 0.0, -np.inf
    )
    for s in range(data.n_spans):
        rows = slice(data.offsets[s], data.offsets[s + 1])
        np.testing.assert_allclose(
            shares[rows],
            oracle.smooth(evidence[rows], potentials["start"], potentials["transition"])[1],
            atol=1e-12,
        )


def test_missing_rows_say_nothing():
    """A gap is bridged by transitions alone; a sequence of gaps only has its prior."""
    data = symbols(0, LENGTHS)
    rows = data.rows.copy()
    rows[[2, 3, 4]] = np.nan  # 4 is the whole second sequence
    data = replace(data, rows=rows)
    model = symbol_model("finite", symbols(0, LENGTHS))
    start = random_labels_start(model, symbols(0, LENGTHS), 3)
    potentials = model.potentials(start.seed, start.params, MeanLog())
    found, _ = model.local_step(potentials, data.whole())
    log_z, _, steps, _ = expected(model, data, potentials)
    evidence = potentials.scores.evidence(model.family.prepare(data.rows))
    np.testing.assert_array_equal(evidence[[2, 3, 4]], 0.0)
    assert found.log_z == pytest.approx(log_z)
    np.testing.assert_allclose(found["transition"], steps, atol=1e-12)


def test_an_impossible_sequence_is_named():
    data = replace(symbols(0, (3, 3)), sets=np.array([0, 0, 0, 0, 1, 0]))
    model = symbol_model("finite", data)
    start = random_labels_start(model, data, 2)
    params = model.start_params(2, np.array([[1, 1], [0, 0]]))
    potentials = model.potentials(start.seed, params, MeanLog())
    with pytest.raises(NumericalError, match="sequence 1 is zero: no path of legal components"):
        model.local_step(potentials, data.whole())


def long_sequences(prior: str, weights=(1.0, 2.0, 3.0)):
    """Three sequences, of which two are long where blocks have 64 rows."""
    data, _ = segments(0, n_sequences=1, length=700)
    rows = np.concatenate([data.rows[:400], data.rows[:30], data.rows])
    data = Sequences(
        rows, np.repeat(weights, [400, 30, 700]), offsets=np.array([0, 400, 430, 1130])
    )
    model = gaussian_model(prior, data)
    start = random_labels_start(model, data, 3)
    return (
        model,
        data,
        model.potentials(start.seed, model.global_step(start.seed, start.params), MeanLog()),
    )


def cut_blocks(model: Model, monkeypatch) -> None:
    monkeypatch.setattr("stickbreak.structures.chain.structure.BLOCK_NUMBERS", 1)
    assert model.block_rows(3) == 64


@pytest.mark.parametrize("prior", PRIORS)
def test_a_long_sequence_in_pieces_is_the_same(prior, monkeypatch):
    model, data, potentials = long_sequences(prior)
    whole, _ = model.local_step(potentials, data.whole())
    labels, paths = (
        model.decode(potentials, data.whole()),
        model.best_paths(potentials, data.whole()),
    )
    cut_blocks(model, monkeypatch)
    pieces, _ = model.local_step(potentials, data.whole())
    assert pieces.log_z == pytest.approx(whole.log_z, rel=1e-13)
    for name in whole:
        np.testing.assert_allclose(pieces[name], whole[name], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(model.decode(potentials, data.whole()), labels)
    for found, expected in zip(model.best_paths(potentials, data.whole()), paths, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("kind", ["best", "drawn"])
def test_single_paths_of_a_long_sequence_in_pieces_are_the_same(kind, monkeypatch):
    model, data, potentials = long_sequences("finite", (1.0, 0.0, 1.0))
    make = model.best_only if kind == "best" else lambda: model.drawing(np.random.default_rng(0))
    whole, _ = make().local_step(potentials, data.whole())
    labels = model.best_only().decode(potentials, data.whole())
    shares = model.best_only().shares(potentials, replace(data, repeats=None).whole())
    cut_blocks(model, monkeypatch)
    pieces, _ = make().local_step(potentials, data.whole())
    assert pieces.log_z == pytest.approx(whole.log_z, rel=1e-13)
    for name in whole:
        np.testing.assert_allclose(pieces[name], whole[name], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(model.best_only().decode(potentials, data.whole()), labels)
    np.testing.assert_array_equal(
        model.best_only().shares(potentials, replace(data, repeats=None).whole()), shares
    )


def test_draws_in_pieces_refuse_weights(monkeypatch):
    model, data, potentials = long_sequences("finite")
    cut_blocks(model, monkeypatch)
    with pytest.raises(ValueError, match="weights must be 0 or 1; got 2"):
        model.drawing(np.random.default_rng(0)).local_step(potentials, data.whole())


@pytest.mark.parametrize("is_cut", [False, True])
def test_rows_that_do_not_count_have_a_best_component_too(is_cut, monkeypatch):
    model, data, potentials = long_sequences("finite", (1.0, 0.0, 0.0))
    expected = model.decode(potentials, replace(data, repeats=None).whole())
    if is_cut:
        cut_blocks(model, monkeypatch)
    np.testing.assert_array_equal(model.decode(potentials, data.whole()), expected)
    assert len(np.unique(expected[430:])) > 1
    found, _ = model.local_step(potentials, data.whole())
    assert model.prior.sizes(found).sum() == pytest.approx(400.0)


@pytest.mark.slow
def test_samples_follow_the_posterior():
    """Ten thousand paths of one short sequence: shares within five standard errors."""
    model, data, potentials = made()
    unit = data.whole().part(3, 4).alone()
    many = unit.with_rows(model.family.prepare(unit.rows))
    rng = np.random.default_rng(0)
    draws = np.stack([model.structure.sample(potentials, many, rng) for _ in range(10_000)])
    shares = model.shares(potentials, unit)
    for k in range(3):
        error = np.sqrt(shares[:, k] * (1 - shares[:, k]) / len(draws)) + 1e-4
        assert (np.abs((draws == k).mean(0) - shares[:, k]) < 5 * error).all()
