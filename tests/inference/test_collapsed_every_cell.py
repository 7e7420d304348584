"""Every family in every structure at every granularity, soft and drawn: compiled sweeps equal the
plain loop `counts - own -> potentials -> local step`, or the data are refused with what to use.

A new record of `registers.FAMILIES` is covered without a change here.
"""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest
from collapsed_chains import (
    FAMILY,
    K,
    chances_of_rows,
    plain_blocks,
    plain_sweep,
    plain_tokens,
)
from registers import FAMILIES, FamilyCase

import stickbreak as sb
from stickbreak.data import Documents, Sequences, Table
from stickbreak.families.base import BaseFamily
from stickbreak.inference import CollapsedVB, DrawOwn, ExcludeOwn, run
from stickbreak.initialize import count_labels, from_local, from_plusplus
from stickbreak.kernels.draws import GOLDEN, uniform_of
from stickbreak.models import finite_hmm, finite_mixture, lda
from stickbreak.stats import SERIAL

N = 20
SYMBOLS = FamilyCase(FAMILY, np.random.default_rng(0).integers(0, 5, (N, 1)))
CASES = {**FAMILIES, "symbols": SYMBOLS}
ENDS = np.array([0, 6, 7, 12, 20])
STRUCTURES = {
    "mixture": (finite_mixture, lambda rows: Table(rows)),
    "chain": (finite_hmm, lambda rows: Sequences(rows, offsets=ENDS)),
    "document": (lda, lambda rows: Documents(rows, offsets=ENDS)),
}
QUICK = {"gaussian", "skeleton", "symbols"}
slow = pytest.mark.slow


def cells():
    """Structure, granularity and family; each of many families takes seconds to compile."""
    for structure, (make, _) in STRUCTURES.items():
        for granularity in (*make(FAMILY).structure.granularities, "batch"):
            for name in CASES:
                # chains of rows take long to compile
                is_compiled = structure == "chain" and granularity != "batch" and name == "gaussian"
                is_quick = name in QUICK and not is_compiled
                marks = () if is_quick else slow
                yield pytest.param(structure, granularity, name, marks=marks)


def test_every_family_of_the_library_has_a_case():
    exported = [getattr(sb, name) for name in sb.__all__]
    families = {x for x in exported if inspect.isclass(x) and issubclass(x, BaseFamily)}
    assert families <= {type(case.family) for case in CASES.values()}


def parts(structure, name):
    make, gather = STRUCTURES[structure]
    return make(CASES[name].family), gather(CASES[name].rows[:N])


@pytest.mark.parametrize(("structure", "granularity", "name"), list(cells()))
def test_a_soft_sweep_equals_the_plain_loop(structure, granularity, name):
    model, data = parts(structure, name)
    engine = CollapsedVB(granularity=granularity, subchain_length=3, reorder=False)
    rule = engine.rule()
    if not rule.sweeps(model) and granularity != "batch":
        assert name != "symbols"  # which has every granularity
        with pytest.raises(ValueError, match=r"is not for .*; use 'batch'"):
            engine.check_data(model, data)
        return
    if not model.sweeps and granularity in ("token", "subsequence"):
        with pytest.raises(ValueError, match=r"is not for .*; use 'sequence'"):
            engine.check_data(model, data)
        return
    engine.check_data(model, data)
    if granularity == "batch":
        if structure != "document":  # which keep values of their own between visits
            check_batches(model, data, engine)
        return
    check = {"row": check_rows, "sequence": check_sequences, "word": check_words}
    check.get(granularity, check_chain_parts)(model, data, rule)


def close(found, expected, atol=1e-5):
    """Own counts are float32, and sums of squares of rows are some hundreds."""
    for field in expected:
        scale = max(1.0, np.abs(expected[field]).max())
        np.testing.assert_allclose(found[field] / scale, expected[field] / scale, atol=atol)


def counted(model, counts, params, row, shares):
    """Counts of one row, by the family's `collect`."""
    out = dict(counts.empty().arrays)
    scores = ExcludeOwn().potentials(model, counts, params).scores
    scores.collect(model.family.prepare(row.rows), np.asfortranarray(shares, dtype=float), out)
    out["share"] = out["share"] + shares.sum(0)
    return replace(counts.empty(), arrays=out)


def check_rows(model, data, rule):
    start = from_local(model, data, K, np.random.default_rng(1))
    counts, params, q = start.seed, start.params, np.array(start.warm["shares"], dtype=float)
    for n in range(N):
        row = data.whole().part(n, n + 1).alone()
        counts = counts - counted(model, counts, params, row, q[n : n + 1])
        q[n] = model.shares(rule.potentials(model, counts, params), row)[0]
        counts = counts + counted(model, counts, params, row, q[n : n + 1])
    found, own = rule.visit(model, start.seed, params, data.whole(), start.warm, (), SERIAL)
    np.testing.assert_allclose(own["shares"], q, atol=1e-5)
    close(found, counts)


def check_sequences(model, data, rule):
    for block in (1, 2):
        start = from_local(model, data, K, np.random.default_rng(1))
        rule, mine = replace(rule, block=block), start.warm.copy()
        given = model, rule, start.seed, start.params, data, mine, block
        expected, log_z, _ = plain_sweep(*given)
        found, own = rule.visit(
            model, start.seed, start.params, data.whole(), start.warm, (), SERIAL
        )  # fmt: skip
        close(found, expected)
        np.testing.assert_allclose(own["rows"], mine["rows"], atol=1e-5)
        assert found.log_z == pytest.approx(log_z, rel=1e-5)


def check_chain_parts(model, data, rule):
    """Tokens and subsequences, against formulas that sum every count anew."""
    start = from_local(model, data, K, np.random.default_rng(1))
    batch, prior = rule.units(data.whole()), model.prior.pseudo(start.params, K)
    own = model.structure.own_of(batch, start.warm, model.axis, rule.granularity)
    counts, q = rule.count(model, start.params, batch, own, SERIAL), own["rows"].astype(float)
    chances = chances_of_rows(model.family, data.rows)
    found, after = rule.visit(model, counts, start.params, batch, own, (), SERIAL)
    if rule.granularity == "token":
        assert found.log_z == pytest.approx(plain_tokens(prior, data, q, None, chances), rel=1e-4)
    else:
        pairs = own["pairs"].astype(float)
        plain_blocks(prior, data, q, pairs, rule.subchain_length, rule.guards, chances)
        np.testing.assert_allclose(after["pairs"], pairs, atol=1e-5)
    np.testing.assert_allclose(after["rows"], q, atol=1e-5)
    close(found, rule.count(model, start.params, batch, after, SERIAL))


def check_words(model, data, rule):
    start = from_local(model, data, K, np.random.default_rng(1))
    counts, params, q = start.seed, start.params, np.array(start.warm["shares"], dtype=float)
    pseudo = model.prior.pseudo(params, K).topics
    of_rows = np.repeat(np.arange(data.n_spans), np.diff(ENDS))
    for n in range(N):
        row = data.whole().part(of_rows[n], of_rows[n] + 1).alone()
        row = replace(row, rows=data.rows[n : n + 1], offsets=np.array([0, 1]))
        counts = counts - counted(model, counts, params, row, q[n : n + 1])
        mine = q[of_rows == of_rows[n]].sum(0) - q[n] + pseudo
        evidence = rule.pick(model.family)(counts).evidence(model.family.prepare(row.rows))
        weight = mine * np.exp(evidence[0])
        q[n] = weight / weight.sum()
        counts = counts + counted(model, counts, params, row, q[n : n + 1])
    _, own = rule.visit(model, start.seed, params, data.whole(), start.warm, (), SERIAL)
    np.testing.assert_allclose(own["shares"], q, atol=1e-5)


def check_batches(model, data, engine):
    """Each batch given all others; the first lap is given the start."""
    start = from_plusplus(model, data, K, np.random.default_rng(0))
    engine = replace(engine, n_batches=3, max_iter=3, tol=0.0)
    found, rule, old = run(model, engine, data, start), engine.rule(), {}
    for lap in range(len(found.trace)):
        for batch in engine.plan(data).lap(0, lap):
            whole = len(old) == engine.plan(data).n_batches
            seen = sum(old.values(), start.seed.empty()) if whole else start.seed
            others = (seen - old[batch.id] if whole else seen).restrict(batch.symbols)
            potentials = rule.potentials(model, others, start.params)
            old[batch.id] = model.local_step(potentials, batch)[0]
    total = sum(old.values(), start.seed.empty())
    np.testing.assert_allclose(model.prior.sizes(found.counts), model.prior.sizes(total), atol=1e-7)


# ---- drawn ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("structure", ["mixture", "chain"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n in ("skeleton", "symbols") else pytest.mark.slow)
        for n in CASES
    ],
)
def test_a_drawn_sweep_equals_the_plain_loop(structure, name):
    """Labels in proportion to the joint of all labels, by the same uniform numbers."""
    model, data = parts(structure, name)
    if not model.sweeps_labels:
        with pytest.raises(ValueError, match=r"has no sweeps for .*; use Gibbs"):
            sb.CollapsedGibbs().adapt(model)
        return
    model, params = sb.CollapsedGibbs().adapt(model), model.start_params(K)
    z = np.random.default_rng(2).integers(0, K, N)
    batch, rule = data.whole(), DrawOwn().at(0, 3)
    seeds = DrawOwn().at(0, 3).rng.integers(0, 1 << 64, N, dtype=np.uint64)
    counts = count_labels(model, batch, z, K)
    own = rule.keeps(model, batch, K)
    own["state"][...] = z + 1
    found, after = rule.visit(model, counts, params, batch, own, (), SERIAL)
    for n in range(N):
        joint = []
        for k in range(K):
            z[n] = k
            joint.append(model.bound(count_labels(model, batch, z, K), params))
        chance = np.exp(np.array(joint) - max(joint)).cumsum()
        with np.errstate(over="ignore"):
            uniform = uniform_of(seeds[n] + GOLDEN)
        z[n] = np.searchsorted(chance, uniform * chance[-1], side="right")
    np.testing.assert_array_equal(after["state"], z + 1)
    close(found, count_labels(model, batch, z, K), 1e-9)


def test_a_drawn_sweep_of_documents_equals_the_plain_loop():
    """Words that occur once: one number for the label that leaves, which is known, and one more."""
    model, data = parts("document", "symbols")
    model, params = sb.CollapsedGibbs().adapt(model), model.start_params(K)
    q = np.eye(K)[np.random.default_rng(2).integers(0, K, N)]
    batch, rule = data.whole(), DrawOwn().at(0, 3)
    seeds = DrawOwn().at(0, 3).rng.integers(0, 1 << 64, N, dtype=np.uint64)
    own, words = rule.keeps(model, batch, K), data.rows[:, 0]
    own["shares"][...] = q
    empty, table = model.zeros(K), np.zeros((5, K))
    np.add.at(table, words, q)
    counts = {"emission": table, "emission_total": table.sum(0)[None], "share": table.sum(0)}
    counts = replace(empty, arrays={**empty.arrays, **counts})
    _, after = rule.visit(model, counts, params, batch, own, (), SERIAL)
    pseudo, of_rows = model.prior.pseudo(params, K).topics, np.repeat(np.arange(4), np.diff(ENDS))
    for n in range(N):
        mine = q[of_rows == of_rows[n]].sum(0) - q[n] + pseudo
        word, every = q[words == words[n]].sum(0) - q[n] + 0.4, q.sum(0) - q[n] + 5 * 0.4
        chance = (mine * word / every).cumsum()
        with np.errstate(over="ignore"):
            uniform = uniform_of(seeds[n] + GOLDEN + GOLDEN)
        q[n] = np.eye(K)[np.searchsorted(chance, uniform * chance[-1], side="right")]
    np.testing.assert_array_equal(after["shares"], q)
