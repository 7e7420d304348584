"""Chains whose rows use a few components: enumeration of the paths within their supports, at the
level of local steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from chains import PRIORS, gaussian_model, random_labels_start, segments, symbol_model, symbols
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import chain as oracle

from stickbreak.data import Batch, Sequences
from stickbreak.errors import NumericalError
from stickbreak.inference import MeanLog
from stickbreak.kernels.chain.smooth import Buffers
from stickbreak.models import Model, finite_hmm
from stickbreak.models.lanes import inferred
from stickbreak.moves.merge import MergeWatch
from stickbreak.stats import Merge as MergeEdit
from stickbreak.stats import SparseShares
from stickbreak.structures import Chain
from stickbreak.structures.chain import sparse
from stickbreak.structures.chain import structure as chain_module

LENGTHS = (4, 1, 5, 3, 2)
WEIGHTS = (1.0, 2.0, 0.0, 0.5, 3.0)
PAIRS = np.array([(0, 2), (1, 3)])


def made(
    prior: str, data: Sequences, n_components: int = 4, seed: int = 0, make: Any = symbol_model
) -> tuple[Model, Any]:
    """A model and potentials from counts of random labels."""
    model = make(prior, data)
    start = random_labels_start(model, data, n_components, seed)
    return model, model.potentials(
        start.seed, model.global_step(start.seed, start.params), MeanLog()
    )


def locals_of(
    model: Model, potentials: Any, batch: Batch, L: int
) -> tuple[list[tuple[Batch, Any]], dict[str, np.ndarray]]:
    """Blocks or pieces of a batch with what their local steps found, and the prior's counts."""
    out = dict(potentials.empty.empty().arrays)
    return [
        (raw, local) for raw, _, local in inferred(model.sparse(L), potentials, batch, None, out)
    ], out


def support_of(found: list[tuple[Batch, Any]], n: int) -> list[np.ndarray]:
    """The states that each row may use."""
    support: list[Any] = [None] * n
    for raw, local in found:
        rows = local.memo[0]
        for t, states in enumerate(rows.own(rows.support)):
            support[raw.row_at + t] = states[states >= 0]
    return support


def expected(
    model: Model,
    data: Sequences,
    potentials: Any,
    support: list[np.ndarray],
    evidence: np.ndarray | None = None,
):
    """log_z, start, transition, shares (n, K) and entropy of the paths within the support, by
    enumeration.
    """
    evidence = (
        potentials.scores.evidence(model.family.prepare(data.rows))
        if evidence is None
        else evidence
    )
    K, weights = evidence.shape[1], data.whole().repeats_or_ones()
    log_z, entropy, start, transition, shares = 0.0, 0.0, np.zeros(K), np.zeros((K, K)), []
    for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        rows = oracle.restrict(evidence[a:b], support[a:b])
        z, r, pairs = oracle.smooth(rows, potentials["start"], potentials["transition"])
        log_z, start, transition = (
            log_z + weights[a] * z,
            start + weights[a] * r[0],
            transition + weights[a] * pairs.sum(0),
        )
        entropy += weights[a] * oracle.markov_entropy(r, pairs, PAIRS[:0])
        shares.append(weights[a] * r)
    return log_z, start, transition, np.concatenate(shares), entropy


def test_a_chain_can_be_limited():
    assert Chain().sparse(3, None) == Chain(3)
    assert Chain(3).sparse(None, None) == Chain()
    with pytest.raises(
        ValueError,
        match="candidates=8 is not for Chain, whose rows are judged by all components; use",
    ):
        Chain().sparse(4, 8)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("L", [1, 2, 3])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_local_step_equals_enumeration_within_the_support(prior, L, weights):
    data = symbols(0, LENGTHS, weights=weights)
    model, potentials = made(prior, data)
    found, out = locals_of(model, potentials, data.whole(), L)
    support = support_of(found, data.n_rows)
    log_z, start, transition, shares, entropy = expected(model, data, potentials, support)
    (_, local) = found[0]
    assert isinstance(local.shares, SparseShares)
    assert max(len(states) for states in support) == L
    assert local.log_z == pytest.approx(log_z, rel=1e-12)
    np.testing.assert_allclose(np.asarray(local.shares), shares, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(out["start"], start, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(out["transition"], transition, rtol=1e-11, atol=1e-13)
    summary, _ = model.sparse(L).local_step(potentials, data.whole())
    assert summary.local_bound == pytest.approx(entropy, abs=1e-10)


@given(seed=st.integers(0, 2**32 - 1), K=st.integers(2, 6), prior=st.sampled_from(list(PRIORS)))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_log_z_is_never_above_that_of_all_states(seed, K, prior):
    """A restricted posterior is a posterior: its bound at the same globals is lower. All states
    give the dense step.
    """
    data = symbols(seed % 97, (6, 9, 1, 4))
    model, potentials = made(prior, data, K, seed)
    dense, _ = model.local_step(potentials, data.whole())
    for L in range(1, K):
        few_states, _ = model.sparse(L).local_step(potentials, data.whole())
        assert few_states.log_z <= dense.log_z + 1e-10 * abs(dense.log_z)
    every, _ = model.sparse(K).local_step(potentials, data.whole())
    assert every.log_z == dense.log_z  # the same code
    block = data.whole().with_rows(model.family.prepare(data.rows))
    logits, out = potentials.scores.evidence(block.rows).T, dict(potentials.empty.empty().arrays)
    rows, _ = sparse.choose_rows(
        np.ascontiguousarray(logits), potentials, data.offsets, K, Buffers()
    )
    log_z, shares = rows.smooth(np.ones(data.n_spans), out)  # by the limited kernels, with no limit
    assert log_z.sum() == pytest.approx(dense.log_z, rel=1e-12)
    np.testing.assert_allclose(
        np.asarray(rows.active(shares)), model.shares(potentials, data.whole()), atol=1e-11
    )
    for name in ("start", "transition"):
        np.testing.assert_allclose(out[name], dense[name], rtol=1e-9, atol=1e-11)


def test_labels_and_gaps_hold():
    """Rows with a label use its component; rows that say nothing are bridged; both as by
    enumeration.
    """
    data = symbols(0, LENGTHS)
    rows, sets = data.rows.copy(), np.zeros(data.n_rows, dtype=int)
    rows[[2, 6, 7]] = np.nan
    sets[[1, 8]] = 1
    model, _ = made("hdp", data)
    legal = np.array([[1, 1, 1, 1], [0, 0, 0, 1]])
    start = random_labels_start(model, data, 4)
    params = model.global_step(start.seed, model.start_params(4, legal))
    potentials, data = (
        model.potentials(start.seed, params, MeanLog()),
        replace(data, rows=rows, sets=sets),
    )
    found, out = locals_of(model, potentials, data.whole(), 2)
    support = support_of(found, data.n_rows)
    assert support[1].tolist() == support[8].tolist() == [3]
    evidence = potentials.scores.evidence(model.family.prepare(rows)) + np.where(
        legal[sets] > 0, 0.0, -np.inf
    )
    log_z, _, transition, _, _ = expected(model, data, potentials, support, evidence)
    assert found[0][1].log_z == pytest.approx(log_z, rel=1e-12)
    np.testing.assert_allclose(out["transition"], transition, atol=1e-12)


# ---- no path within the first choice -------------------------------------------------------------
def dead_end(lengths: tuple[int, ...] = (5, 5)) -> tuple[Model, Sequences, Any]:
    """State 0 explains the first rows best but leads nowhere else; the last row must be in state 2,
    which only 1 leads to.
    """
    prior = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    n = sum(lengths)
    labels, rows = np.zeros(n, dtype=int), np.zeros((n, 1))
    ends = np.cumsum(lengths) - 1
    labels[ends], rows[ends] = 2, 1.0
    data = Sequences(rows, sets=(labels > 0).astype(int), offsets=np.r_[0, np.cumsum(lengths)])
    family = symbol_model("finite", data).family
    model = finite_hmm(family, start_prior=np.ones(3), transition_prior=prior)
    start = random_labels_start(model, data, 3)
    params = model.start_params(3, np.array([[1, 1, 1], [0, 0, 1]]))
    counts = replace(start.seed, arrays={**start.seed.arrays, "transition": 5.0 * prior})
    potentials = model.potentials(counts, params, MeanLog())
    tables = {**potentials.tables, "start": np.log([0.99, 0.009, 0.001])}
    return model, data, replace(potentials, tables=tables)


@pytest.mark.parametrize("L", [1, 2])
def test_a_dead_end_is_left_by_the_best_path(L):
    model, data, potentials = dead_end()
    found, out = locals_of(model, potentials, data.whole(), L)
    support = support_of(found, data.n_rows)
    evidence = potentials.scores.evidence(model.family.prepare(data.rows))
    evidence[data.sets == 1, :2] = -np.inf
    log_z, _, transition, _, _ = expected(model, data, potentials, support, evidence)
    assert np.isfinite(found[0][1].log_z)
    assert found[0][1].log_z == pytest.approx(log_z, rel=1e-12)
    np.testing.assert_allclose(out["transition"], transition, atol=1e-12)
    if L == 1:  # nothing but the best path
        for a in data.offsets[:-1]:
            best, value = oracle.best_path(
                evidence[a : a + 5], potentials["start"], potentials["transition"]
            )
            assert [int(s[0]) for s in support[a : a + 5]] == best.tolist()
        assert log_z == pytest.approx(2 * value)


def test_a_long_sequence_with_a_dead_end_uses_all_states(monkeypatch):
    model, data, potentials = dead_end((300, 20))
    dense, _ = model.local_step(potentials, data.whole())
    monkeypatch.setattr(chain_module, "BLOCK_NUMBERS", 1)
    found, _ = model.sparse(1).local_step(potentials, data.whole())
    kinds = {
        raw.n_rows: isinstance(local.shares, SparseShares)
        for raw, local in locals_of(model, potentials, data.whole(), 1)[0]
    }
    assert kinds == {64: False, 44: False, 20: True}
    assert np.isfinite(found.log_z)
    assert found.log_z < dense.log_z


def test_impossible_sequences_are_named():
    data = replace(symbols(0, (3, 3)), sets=np.array([0, 0, 0, 0, 1, 0]))
    model = symbol_model("finite", data)
    start = random_labels_start(model, data, 3)
    params = model.start_params(3, np.array([[1, 1, 1], [0, 0, 0]]))
    potentials = model.potentials(start.seed, params, MeanLog())
    with pytest.raises(NumericalError, match="sequence 1 is zero: no path of legal components"):
        model.sparse(2).local_step(potentials, data.whole())


def with_evidence(potentials: Any, change: Any) -> Any:
    """Potentials whose evidence (n, K) is changed in place."""

    class Changed:
        def evidence(self, rows: Any) -> np.ndarray:
            found = np.array(potentials.scores.evidence(rows), order="F")
            change(found)
            return found

    return replace(potentials, scores=Changed())


def test_not_a_number_is_named():
    """Also where only a state that no row would choose has it."""
    data = symbols(0, (3, 4))
    model, potentials = made("finite", data)
    block, out = (
        data.whole().with_rows(model.family.prepare(data.rows)),
        dict(potentials.empty.empty().arrays),
    )

    def spoil(evidence: np.ndarray) -> None:
        evidence[5, evidence[5].argmin()] = np.nan

    with pytest.raises(NumericalError, match="sequence 1 is not a number"):
        Chain(2).infer(with_evidence(potentials, spoil), block, None, out)


def test_evidence_gaps_of_900_nats():
    """Rows whose best state, 900 nats above all others, cannot be entered: the first choice
    underflows, and another is made.
    """
    data = symbols(1, (6, 6))
    model, potentials = made("finite", data)
    start, transition = potentials["start"].copy(), potentials["transition"].copy()
    start[0] = transition[:, 0] = -np.inf
    potentials = replace(potentials, tables={"start": start, "transition": transition})
    apart = np.zeros((12, 4))
    apart[2, 0] = 900.0
    potentials = with_evidence(potentials, lambda evidence: np.add(evidence, apart, out=evidence))
    block, out = (
        data.whole().with_rows(model.family.prepare(data.rows)),
        dict(potentials.empty.empty().arrays),
    )
    local = Chain(2).infer(potentials, block, None, out)
    evidence = potentials.scores.evidence(block.rows)
    log_z, _, steps, shares, _ = expected(
        model, data, potentials, support_of([(data.whole(), local)], 12), evidence
    )
    assert local.log_z == pytest.approx(log_z, rel=1e-12)
    np.testing.assert_allclose(np.asarray(local.shares), shares, atol=1e-11)
    np.testing.assert_allclose(out["transition"], steps, atol=1e-11)
    dense = Chain().infer(potentials, block, None, dict(potentials.empty.empty().arrays))
    assert local.log_z <= dense.log_z + 1e-9


# ---- pieces --------------------------------------------------------------------------------------
def long_chains() -> Sequences:
    """Three sequences of which two are long, when blocks are of 64 rows; with weights."""
    data, _ = segments(0, n_states=5, n_sequences=1, length=700, spread=2.0)
    rows = np.concatenate([data.rows[:400], data.rows[:30], data.rows])
    return Sequences(
        rows, np.repeat([0.0, 2.0, 3.0], [400, 30, 700]), offsets=np.array([0, 400, 430, 1130])
    )


@pytest.mark.parametrize("L", [1, 3])
def test_pieces_are_one_chain(L, monkeypatch):
    """Joined, they are the posterior of the whole chain over the supports that they chose; nearly
    those of the whole.
    """
    data = long_chains()
    model, potentials = made("sticky", data, 6, make=gaussian_model)
    whole, _ = model.sparse(L).local_step(potentials, data.whole())
    monkeypatch.setattr(chain_module, "BLOCK_NUMBERS", 1)
    found, out = locals_of(model, potentials, data.whole(), L)
    assert len(found) > 15
    support = np.full((data.n_rows, L), -1)
    for t, states in enumerate(support_of(found, data.n_rows)):
        support[t, : len(states)] = states
    evidence = np.take_along_axis(
        potentials.scores.evidence(model.family.prepare(data.rows)), np.maximum(support, 0), axis=1
    )
    tables, counts = (
        (potentials["start"], potentials["transition"]),
        dict(potentials.empty.empty().arrays),
    )
    one = sparse.SparseRows(evidence, support, data.offsets, *tables, sparse.linear_tables(*tables))
    log_z, shares = one.smooth(np.array([0.0, 2.0, 3.0]), counts)
    assert sum(local.log_z for _, local in found) == pytest.approx(
        np.array([0.0, 2.0, 3.0]) @ log_z, rel=1e-12
    )
    for name in ("start", "transition"):
        np.testing.assert_allclose(out[name], counts[name], rtol=1e-9, atol=1e-9)
    dense = np.asarray(one.active(shares))
    for raw, local in found:
        np.testing.assert_allclose(
            np.asarray(local.shares), dense[raw.row_at : raw.row_at + raw.n_rows], atol=1e-11
        )
    pieces, _ = model.sparse(L).local_step(potentials, data.whole())
    # rows at the ends of pieces are chosen without those after them
    assert pieces.log_z == pytest.approx(whole.log_z, rel=1e-3)


# ---- merges --------------------------------------------------------------------------------------
@pytest.mark.parametrize("prior", PRIORS)
def test_a_merge_is_what_the_watch_said(prior):
    """Local bounds after one and after two edits are the entropies of the merged
    restricted chain.
    """
    data = symbols(0, lengths=(5, 1, 4), weights=np.array([1.0, 2.0, 1.5]))
    model, potentials = made(prior, data)
    support = support_of(locals_of(model, potentials, data.whole(), 3)[0], data.n_rows)
    evidence = potentials.scores.evidence(model.family.prepare(data.rows))

    def entropy(merged: Any) -> float:
        total = 0.0
        for s, weight in enumerate((1.0, 2.0, 1.5)):
            a, b = data.offsets[s : s + 2]
            rows = oracle.restrict(evidence[a:b], support[a:b])
            _, shares, steps = oracle.smooth(rows, potentials["start"], potentials["transition"])
            total += weight * oracle.markov_entropy(
                shares, steps, np.asarray(merged).reshape(-1, 2)
            )
        return total

    found, _ = model.sparse(3).local_step(potentials, data.whole(), watches=[MergeWatch(PAIRS)])
    assert found.local_bound == pytest.approx(entropy([]), abs=1e-10)
    once = MergeEdit(model.axis, 0, 2, 0, ())(found)
    assert once.local_bound == pytest.approx(entropy([(0, 2)]), abs=1e-10)
    twice = MergeEdit(model.axis, 1, 2, 1, (0,))(once)  # what was 3 is now 2
    assert twice.local_bound == pytest.approx(entropy(PAIRS), abs=1e-10)


def test_merge_terms_of_pieces_add_up(monkeypatch):
    """Those of the pieces of a chain are those of one chain over the same supports."""
    data, _ = segments(0, n_states=4, n_sequences=1, length=500, spread=2.0)
    model, potentials = made("sticky", data, 4, make=gaussian_model)
    monkeypatch.setattr(chain_module, "BLOCK_NUMBERS", 1)
    found, _ = locals_of(model, potentials, data.whole(), 2)
    out = {"gain": np.zeros(2), "cross": np.zeros((2, 2))}
    for raw, local in found:
        model.structure.merge_terms(potentials, raw, local, PAIRS, out)
    support = np.array(support_of(found, data.n_rows))
    evidence = np.take_along_axis(
        potentials.scores.evidence(model.family.prepare(data.rows)), support, axis=1
    )
    tables = potentials["start"], potentials["transition"]
    one = sparse.SparseRows(evidence, support, data.offsets, *tables, sparse.linear_tables(*tables))
    gain, cross = one.merge_gains(np.ones(1), PAIRS)
    assert np.abs(gain).min() > 1e-3
    np.testing.assert_allclose(out["gain"], gain, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(out["cross"], cross, rtol=1e-9, atol=1e-9)


# ---- what is lost --------------------------------------------------------------------------------
def test_the_mass_outside_is_told(monkeypatch):
    """On rows in the middle, by the posterior over all states; rows that do not count are
    left out.
    """
    monkeypatch.setattr(sparse, "CHECKED", 1)
    data = symbols(2, (6, 9, 1, 4, 7), weights=(1.0, 0.0, 2.0, 1.0, 1.0))
    model, potentials = made("hdp", data)
    limited = model.sparse(2)
    ((raw, local),) = locals_of(model, potentials, data.whole(), 2)[0]
    shares = model.shares(potentials, replace(data, repeats=None).whole())
    outside = [
        1 - shares[t, states].sum()
        for t, states in enumerate(support_of([(raw, local)], data.n_rows))
    ]
    counts = data.repeats > 0
    for n_rows, rows in ((27, slice(0, 27)), (17, slice(5, 22)), (1, slice(5, 21))):
        checked, missed = limited.structure.n_missed(
            model.family.prepare, potentials, raw, local, n_rows
        )
        assert checked == counts[rows].sum()
        assert missed == pytest.approx(np.array(outside)[rows][counts[rows]].sum(), rel=1e-9)
    assert missed > 1e-3
    dense = model.structure.infer(
        potentials,
        raw.with_rows(model.family.prepare(raw.rows)),
        None,
        locals_of(model, potentials, raw, 2)[1],
    )
    assert limited.structure.n_missed(model.family.prepare, potentials, raw, dense, 10) == (0, 0.0)


def test_a_window_is_judged_with_the_rows_around_it():
    """A few rows of buffer are enough for chains that forget."""
    data, _ = segments(3, n_states=5, n_sequences=2, length=300, spread=2.0)
    model, potentials = made("sticky", data, 6, make=gaussian_model)
    ((raw, local),) = locals_of(model, potentials, data.whole(), 2)[0]
    support = support_of([(raw, local)], data.n_rows)
    shares = model.shares(potentials, data.whole())
    checked, missed = Chain(2).n_missed(model.family.prepare, potentials, raw, local, 4 * 80)
    expected_mass = sum(1 - shares[t, support[t]].sum() for t in range(260, 340))
    assert checked == 80
    assert missed == pytest.approx(expected_mass, rel=1e-3)
