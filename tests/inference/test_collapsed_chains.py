"""Collapsed inference of chains: sweeps equal the plain loop, golden numbers, bounds, and fits that
are the same for any threads, killed or spilled.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from scipy.special import gammaln

import stickbreak as sb
from stickbreak.data import Sequences
from stickbreak.families import Categorical
from stickbreak.inference import (
    CollapsedVB,
    ExcludeOwn,
    LogMean,
    Memoized,
    count_own,
    read_checkpoint,
    run,
    step,
    workers,
)
from stickbreak.initialize import from_local
from stickbreak.kernels.compile import cache_folder
from stickbreak.models import finite_hmm, hdp_hmm
from stickbreak.stats import Fields, Merge, Permute, Summary

K, V = 3, 5


def words(n: int = 8, seed: int = 0, gaps: bool = False) -> Sequences:
    """Sequences of one to six symbols; with gaps, some are missing and some sequences count 0."""
    rng = np.random.default_rng(seed)
    lengths = np.r_[1, rng.integers(2, 7, n - 1)]
    rows = rng.integers(0, V, lengths.sum())
    repeats = None
    if gaps:
        rows[rng.random(len(rows)) < 0.2] = -1
        repeats = np.repeat((np.arange(n) % 4 != 2).astype(float), lengths)
    return Sequences(rows[:, None], repeats, offsets=np.r_[0, lengths.cumsum()])


def dictionary(data: Sequences) -> tuple[Sequences, np.ndarray]:
    """Which states a symbol may have: 0 only the first, 1 all but the last, others all."""
    legal = np.ones((3, K))
    legal[1, 1:] = legal[2, -1] = 0.0
    sets = np.select([data.rows[:, 0] == 0, data.rows[:, 0] == 1], [1, 2], 0)
    return replace(data, sets=sets), legal


FAMILY = replace(Categorical(0.4), n_symbols=(V,))
MODELS = {
    "hmm": lambda: finite_hmm(FAMILY, concentration=0.3, start_concentration=0.7),
    "sticky": lambda: finite_hmm(FAMILY, concentration=0.3, stickiness=2.0),
    "impossible": lambda: finite_hmm(
        FAMILY, start_prior=np.ones(K), transition_prior=np.triu(np.ones((K, K)))
    ),
    "hdp": lambda: hdp_hmm(FAMILY, stickiness=1.5, concentration=0.8),
}


def in_doubles(own: Fields) -> Fields:
    """The same own counts in float64, so that sweeps can be compared to the last digits."""
    return replace(own, arrays={n: a.astype(float) for n, a in own.arrays.items()})


def plain_sweep(model, rule, counts: Summary, params, data: Sequences, own: Fields, block: int = 1):
    """Counts - own -> potentials -> local step -> counts + own, through the contract alone."""
    batch, log_z, bound = data.whole(), 0.0, 0.0
    weights = batch.repeats_or_ones()
    for first in range(0, batch.n_spans, block):
        units = [batch.part(u, u + 1) for u in range(first, min(first + block, batch.n_spans))]
        old = []
        for unit in units:
            out = dict(counts.empty().arrays)
            mine, at = own.cut(**unit.cut), unit.cut["row"]
            shares = mine["rows"] * weights[at][:, None]
            out["start"] = out["start"] + shares[0]
            out["transition"] = out["transition"] + mine["pairs"][0] * weights[at][0]
            rule.pick(model.family)(counts).collect(
                model.family.prepare(unit.rows), np.asfortranarray(shares), out
            )
            old.append(replace(counts.empty(), arrays=out))
        for part in old:
            counts = counts - part
        potentials = rule.potentials(model, counts, params)
        for unit in units:
            new = model.local_step(potentials, unit.alone())[0]
            mine = own.cut(**unit.cut)
            if unit.n_observations:
                mine["rows"][...] = model.shares(potentials, unit.alone())
                mine["pairs"][0] = new["transition"]
            counts, log_z, bound = counts + new, log_z + new.log_z, bound + new.local_bound
    return counts, log_z, bound


CASES = [
    (kind, data, block)
    for kind in MODELS
    for data, block in (("plain", 1), ("gaps", 1), ("dictionary", 1), ("gaps", 3))
    if (kind, data) != ("impossible", "dictionary")
]


@pytest.mark.parametrize(("kind", "case", "block"), CASES)
def test_a_sweep_equals_the_plain_loop(kind, case, block):
    """Missing words, weights of zero, legal sets, unused mass, stickiness, shared exclusions."""
    model, data, legal = MODELS[kind](), words(gaps=case == "gaps"), None
    if case == "dictionary":
        data, legal = dictionary(data)
    start = from_local(model, data, K, np.random.default_rng(1), legal=legal)
    rule = ExcludeOwn("sequence", block=block)
    own, mine = in_doubles(start.warm), in_doubles(start.warm)
    counts, params = start.seed, start.params
    for _ in range(2):
        expected, log_z, bound = plain_sweep(model, rule, counts, params, data, mine, block)
        counts, own = rule.visit(model, counts, params, data.whole(), own, (), map)
        for name in counts:
            np.testing.assert_allclose(counts[name], expected[name], atol=1e-9, err_msg=name)
        for name in own:
            np.testing.assert_allclose(own[name], mine[name], atol=1e-9, err_msg=name)
        assert counts.log_z == pytest.approx(log_z, abs=1e-9)
        assert counts.local_bound == pytest.approx(bound, abs=1e-9)
        assert counts.n_units == data.n_units


def plain_tokens(prior, data: Sequences, q, legal, base):
    """The formula, with every count summed anew over the steps that it may know."""
    ends, symbols, log_z = data.offsets, data.rows[:, 0], 0.0
    is_first = np.isin(np.arange(data.n_rows), ends[:-1])
    is_used = np.ones(data.n_rows) if data.repeats is None else data.repeats
    into = [t for t in range(data.n_rows) if not is_first[t] and is_used[t]]
    seen = (symbols >= 0) & (is_used > 0)
    rest = np.zeros(K) if prior.transition_rest is None else prior.transition_rest
    total = prior.transition.sum(1) + rest

    def steps(*left_out):
        kept = [t for t in into if t not in left_out]
        return q[[t - 1 for t in kept]].T @ q[kept]

    for lo, hi in pairwise(ends):
        at = lambda t, lo=lo, hi=hi: q[t] if lo <= t < hi else np.zeros(K)
        for t in range(lo, hi if is_used[lo] else lo):
            a, b = at(t - 1), at(t + 1)
            if t == lo:
                others = [s for s in ends[:-1] if s != t and is_used[s]]
                weight = q[others].sum(0) + prior.start
            else:
                weight = a @ (steps(t - 1, t, t + 1) + prior.transition) + at(t - 2) * a
            if t < hi - 1:
                out = (steps(t, t + 1, t + 2) + prior.transition) @ b + b * at(t + 2)
                weight = weight * (out + a * b) / (steps(t, t + 1).sum(1) + total + a)
            if legal is not None:
                weight = weight * legal[data.sets[t]]
            before = weight.sum()
            if symbols[t] >= 0:
                others = seen & (np.arange(len(q)) != t)
                mine = others & (symbols == symbols[t])
                weight = weight * (q[mine].sum(0) + base) / (q[others].sum(0) + V * base)
            log_z += np.log(weight.sum() / before)
            q[t] = weight / weight.sum()
    return log_z


@pytest.mark.parametrize("kind", ["hmm", "sticky", "hdp"])
@pytest.mark.parametrize("case", ["plain", "gaps", "dictionary"])
def test_a_sweep_of_tokens_equals_the_plain_loop(kind, case):
    """Steps that touch a token and its neighbor are left out, at all edges, whatever the prior."""
    model, data, legal = MODELS[kind](), words(gaps=case == "gaps"), None
    if case == "dictionary":
        data, legal = dictionary(data)
    start = from_local(model, data, K, np.random.default_rng(1), legal=legal)
    rule, batch = ExcludeOwn("token"), data.whole()
    own = in_doubles(model.structure.own_of(batch, start.warm, model.axis, "token"))
    own["rows"][...] /= np.maximum(own["rows"].sum(1, keepdims=True), 0.5)  # float32 before
    counts, q = rule.count(model, start.params, batch, own, map), own["rows"].copy()
    for _ in range(2):
        expected = plain_tokens(model.prior.pseudo(start.params, K), data, q, legal, 0.4)
        counts, own = rule.visit(model, counts, start.params, batch, own, (), map)
        np.testing.assert_allclose(own["rows"], q, atol=1e-9)
        assert counts.log_z == pytest.approx(expected, abs=1e-9)
        again = rule.count(model, start.params, batch, own, map)
        for name in counts:
            np.testing.assert_allclose(counts[name], again[name], atol=1e-9, err_msg=name)
        assert counts.local_bound == pytest.approx(again.local_bound, abs=1e-9)
        n = batch.n_observations
        assert counts["start"].sum() + counts["transition"].sum() == pytest.approx(n)


# ---- golden numbers ------------------------------------------------------------------------------
TEXTS = ("012", "102", "112", "011", "210", "021")
UNSURE = [(0, 1), (1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (4, 1), (5, 2)]


def golden(texts=TEXTS):
    """Two states, three symbols; 0 is of the first state, 2 of the second, 1 of either."""
    rows = np.array([int(c) for text in texts for c in text])
    ends = np.r_[0, np.cumsum([len(text) for text in texts])]
    legal = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    data = Sequences(rows[:, None], sets=rows + 1, offsets=ends)
    family = replace(Categorical(0.5), n_symbols=(3,))
    model = finite_hmm(family, concentration=0.5, start_concentration=0.5)
    return model, data, legal


def even_start(model, data, legal, rule=None):
    """Every row uniform over its legal states, independent of the others."""
    batch, rule = data.whole(), rule or ExcludeOwn()
    own = in_doubles(rule.keeps(model, batch, 2))
    shares = legal[data.sets] / legal[data.sets].sum(1, keepdims=True)
    own["rows"][...] = shares
    if "pairs" in own:
        for s in range(batch.n_spans):
            mine = shares[batch.offsets[s] : batch.offsets[s + 1]]
            own["pairs"][s] = mine[:-1].T @ mine[1:]
    params = model.start_params(2, legal)
    return own, rule.count(model, params, batch, own, map), params


def unsure(own) -> np.ndarray:
    return np.array([own["rows"][3 * s + t, 0] for s, t in UNSURE])


def laps(model, data, legal, rule, n_laps):
    own, counts, params = even_start(model, data, legal, rule)
    for _ in range(n_laps):
        counts, own = rule.visit(model, counts, params, data.whole(), own, (), map)
    return own, counts, model.bound(counts, params)


def test_golden_marginals_and_bounds_sequence_by_sequence():
    """Marginals after a sweep and converged, and the variational bound at them; six digits are
    what the numbers are given with.
    """
    model, data, legal = golden()
    own, _, bound = laps(model, data, legal, ExcludeOwn(), 1)
    first = [0.458333, 0.625202, 0.664547, 0.486598, 0.391923, 0.481988, 0.366288, 0.476361]
    np.testing.assert_allclose(unsure(own), first, atol=1e-6)
    assert bound == pytest.approx(-27.17258068, abs=1e-8)
    own, _, bound = laps(model, data, legal, ExcludeOwn(), 2000)
    last = [0.302612, 0.530402, 0.572951, 0.328349, 0.267735, 0.354510, 0.245310, 0.361468]
    np.testing.assert_allclose(unsure(own), last, atol=1e-6)
    assert bound == pytest.approx(-27.01697321, abs=1e-8)


def test_golden_marginals_token_by_token():
    model, data, legal = golden()
    own, _, bound = laps(model, data, legal, ExcludeOwn("token"), 1)
    first = [0.423077, 0.587310, 0.647126, 0.469618, 0.357936, 0.458745, 0.390499, 0.450721]
    np.testing.assert_allclose(unsure(own), first, atol=1e-6)
    own, _, bound = laps(model, data, legal, ExcludeOwn("token"), 2000)
    last = [0.230615, 0.459512, 0.544126, 0.294022, 0.212364, 0.307736, 0.230615, 0.312834]
    np.testing.assert_allclose(unsure(own), last, atol=1e-6)
    assert bound < log_evidence(model, data, legal)


def test_golden_bound_without_exclusion_is_that_of_batches():
    """Own counts stay in: MAP-EM with prior counts one larger, converged."""
    model, data, legal = golden()
    _, counts, params = even_start(model, data, legal)
    for _ in range(3000):
        potentials = model.potentials(counts, params, LogMean())
        counts = model.local_step(potentials, data.whole())[0]
    assert model.bound(counts, params) == pytest.approx(-26.83464754, abs=1e-7)


def log_evidence(model, data, legal) -> float:
    """log p(x, z legal), summed over all labelings."""
    rows, ends = data.rows[:, 0], data.offsets
    choices = [np.flatnonzero(legal[s]) for s in data.sets]
    found = []
    rise = lambda counts, a: gammaln(counts + a) - gammaln(a)
    for labels in product(*choices):
        z = np.array(labels)
        first, steps, words_of = np.zeros(2), np.zeros((2, 2)), np.zeros((2, 3))
        np.add.at(words_of, (z, rows), 1.0)
        for lo, hi in pairwise(ends):
            first[z[lo]] += 1
            np.add.at(steps, (z[lo : hi - 1], z[lo + 1 : hi]), 1.0)
        value = 0.0
        for table in (first[None], steps, words_of):
            value += rise(table, 0.5).sum() - rise(table.sum(1), 0.5 * table.shape[1]).sum()
        found.append(value)
    return float(np.logaddexp.reduce(found))


def test_the_bound_is_below_the_log_evidence():
    model, data, legal = golden()
    exact = log_evidence(model, data, legal)
    assert exact == pytest.approx(-24.9912761531, abs=1e-9)
    for n_laps in (1, 5, 50):
        assert laps(model, data, legal, ExcludeOwn(), n_laps)[2] < exact


def test_states_in_another_order_give_the_same_in_another_order():
    model, data, legal = golden()
    own, counts, params = even_start(model, data, legal)
    flipped = replace(own, arrays={n: np.flip(a, -1).copy() for n, a in own.arrays.items()})
    flipped["pairs"][...] = np.flip(own["pairs"], (1, 2))
    other = model.start_params(2, np.flip(legal, 1))
    again = ExcludeOwn().count(model, other, data.whole(), flipped, map)
    for _ in range(5):
        counts, own = ExcludeOwn().visit(model, counts, params, data.whole(), own, (), map)
        again, flipped = ExcludeOwn().visit(model, again, other, data.whole(), flipped, (), map)
    np.testing.assert_allclose(flipped["rows"], np.flip(own["rows"], 1), atol=1e-12)


def test_many_copies_of_all_sequences_need_no_exclusion():
    """Own counts are lost among those of many copies: as without exclusion, within 1 / copies."""
    model, data, legal = golden(TEXTS * 40)
    own, _, _ = laps(model, data, legal, ExcludeOwn(), 60)
    _, counts, params = even_start(model, data, legal)
    for _ in range(60):
        potentials = model.potentials(counts, params, LogMean())
        counts = model.local_step(potentials, data.whole())[0]
    found = model.shares(potentials, data.whole())
    np.testing.assert_allclose(own["rows"], found, atol=1 / 40)


# ---- starts --------------------------------------------------------------------------------------
def test_local_starts_are_random_chains():
    """Pairs sum to the rows before and after, states outside of legal sets have no weight."""
    data, legal = dictionary(words(30))
    model = MODELS["hmm"]()
    start = from_local(model, data, K, np.random.default_rng(0), legal=legal)
    rows, pairs = start.warm["rows"], start.warm["pairs"]
    np.testing.assert_allclose(rows.sum(1), 1.0, atol=1e-6)
    assert (rows[legal[data.sets] == 0] == 0).all()
    for s in range(data.n_spans):
        mine = rows[data.offsets[s] : data.offsets[s + 1]]
        np.testing.assert_allclose(pairs[s].sum(1), mine[:-1].sum(0), atol=1e-5)  # float32
        np.testing.assert_allclose(pairs[s].sum(0), mine[1:].sum(0), atol=1e-5)
    assert start.seed["transition"].sum() + start.seed["start"].sum() == pytest.approx(data.n_rows)
    other = from_local(model, data, K, np.random.default_rng(1), legal=legal)
    assert not np.array_equal(other.warm["rows"], rows)
    ends = zip(*two_ends(data), strict=True)
    apart = [pairs[s] - rows[a : b - 1].T @ rows[a + 1 : b] for s, (a, b) in enumerate(ends)]
    assert np.abs(apart).max() > 0.01  # not the products of the marginals


ENGINES = [
    sb.BatchVB(max_iter=3),
    sb.MemoizedVB(max_iter=3),
    sb.EM(max_iter=3),
    sb.HardEM(max_iter=3),
    sb.CollapsedVB(max_iter=3),
    sb.CollapsedVB(max_iter=3, granularity="batch"),
    sb.StochasticVB(max_iter=3),
    sb.Gibbs(max_iter=3),
]


@pytest.mark.filterwarnings("ignore::stickbreak.errors.ConvergenceWarning")
@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: f"{type(e).__name__}")
def test_every_engine_begins_locally(engine):
    data = [words(20).rows[a:b, 0] for a, b in zip(*two_ends(words(20)), strict=True)]
    found = sb.HMM(K, family="categorical", init="local", inference=engine, random_state=0).fit(
        data
    )
    assert found.counts_.sum() == pytest.approx(words(20).n_rows)


@pytest.mark.filterwarnings("ignore::stickbreak.errors.ConvergenceWarning")
def test_topics_begin_locally_with_every_engine():
    """Other engines keep other values of documents: they begin with the counts alone."""
    texts = [["a", "b", "a"], ["c", "d", "c"]] * 10
    for engine in ("batch", "memoized", "em"):
        sb.LatentDirichletAllocation(2, init="local", inference=engine, random_state=0).fit(texts)


def two_ends(data: Sequences):
    return data.offsets[:-1], data.offsets[1:]


# ---- every family --------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["gaussian", "diagonal", "poisson", "multinomial", "columns"])
def test_every_family_is_swept_sequence_by_sequence(name):
    from estimator_cases import CASES as OTHERS

    from stickbreak.data import Table, measure
    from stickbreak.families.names import make_family

    if name == "columns":
        rows = np.random.default_rng(0).integers(0, 3, (40, 2))
        family = Categorical(0.5)
    else:
        rows, family = OTHERS[name].rows[:40], make_family(name)
    family = family.locate(None, rows.shape[1])
    family = family.resolve(measure(Table(rows), family.check_rows))
    data = Sequences(rows, offsets=np.array([0, 7, 8, 20, 29, 40]))
    model = finite_hmm(family)
    start = from_local(model, data, K, np.random.default_rng(0))
    for block in (1, 2):
        rule, counts = ExcludeOwn("sequence", block=block), start.seed
        own, mine = in_doubles(start.warm), in_doubles(start.warm)
        for _ in range(2):
            expected, log_z, bound = plain_sweep(
                model, rule, counts, start.params, data, mine, block
            )
            counts, own = rule.visit(model, counts, start.params, data.whole(), own, (), map)
            for field in counts:
                np.testing.assert_allclose(counts[field], expected[field], atol=1e-8)
            assert counts.log_z == pytest.approx(log_z, rel=1e-9)
            assert counts.local_bound == pytest.approx(bound, abs=1e-8)


# ---- fits ----------------------------------------------------------------------------------------
def test_float32_is_enough():
    """Kept in float32, the fit is that of float64 to six digits."""
    model, data = MODELS["hdp"](), words(40)
    start = from_local(model, data, K, np.random.default_rng(1))
    engine = CollapsedVB(max_iter=8, tol=0.0, reorder=False)
    short = run(model, engine, data, start)
    long = run(model, engine, data, replace(start, warm=in_doubles(start.warm)))
    np.testing.assert_allclose(short.counts["emission"], long.counts["emission"], atol=1e-4)
    assert short.bound == pytest.approx(long.bound, rel=1e-6)


@pytest.mark.parametrize("n_batches", [1, 3])
def test_counts_stay_those_of_the_own_counts(n_batches):
    data, model = words(30, gaps=True), MODELS["hdp"]()
    start = from_local(model, data, K, np.random.default_rng(1))
    result = run(model, CollapsedVB(max_iter=6, tol=0.0, n_batches=n_batches), data, start)
    again = count_own(model, result.params, data.whole(), result.warm(), map)
    for name in again:
        np.testing.assert_allclose(again[name], result.counts[name], rtol=1e-9, atol=1e-9)
    assert all(np.isfinite([lap.bound, lap.log_z]).all() for lap in result.trace)


def test_fits_from_counts_alone_take_up_own_counts_in_the_second_lap():
    from stickbreak.initialize import from_blocks

    data, model = words(30), MODELS["hmm"]()
    start = from_blocks(model, data, K, np.random.default_rng(0), candidates=1)
    result = run(model, CollapsedVB(max_iter=10, tol=0.0), data, start)
    assert result.counts["emission"].sum() == pytest.approx(data.n_rows, rel=1e-6)
    assert result.trace.log_z[-1] > result.trace.log_z[1]


@pytest.mark.parametrize("kind", ["hmm", "hdp"])
def test_killed_spilled_and_threaded_fits_are_the_same_bits(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("stickbreak.inference.collapsed.SWEEP_ROWS", 200)  # several lanes
    data, model = words(300, seed=5), MODELS[kind]()
    assert data.batches(2)[0].n_rows > 400
    start = from_local(model, data, K, np.random.default_rng(1))
    engine = CollapsedVB(max_iter=8, tol=0.0, n_batches=2)
    whole = run(model, engine, data, start)
    with workers(2) as pool:
        threaded = run(model, engine, data, start, pool=pool)
    spilled = run(model, replace(engine, memory_limit=0), data, start)

    class Stop(sb.Callback):
        def on_lap(self, record):
            if record.lap == 3:
                raise StopIteration

    path = tmp_path / "fit.checkpoint"
    saving = replace(engine, checkpoint=path, checkpoint_every=0.0)
    run(model, replace(saving, callbacks=(Stop(),)), data, start)
    resumed = run(model, engine, data, read_checkpoint(path)[1])
    for other in (threaded, spilled, resumed):
        for name in whole.counts:
            np.testing.assert_array_equal(other.counts[name], whole.counts[name])
        assert other.bound == whole.bound


def test_own_counts_follow_the_edits():
    """After a merge and an order, own counts still add up to the batch's and to the total."""
    model, batches = MODELS["hmm"](), words(24).batches(3)
    start = from_local(model, words(24), 4, np.random.default_rng(1))
    state = Memoized().begin(start, (0, 1, 2, 3), 3)

    def sweep(n_laps):
        for _ in range(n_laps):
            for batch in batches:
                step(model, ExcludeOwn(), Memoized(), state, batch)
            Memoized().end_lap(state)

    sweep(2)
    state.edit(Merge("component", 1, 3))
    state.edit(Permute("component", (2, 0, 1)))
    for batch in batches:
        visit = state.recall(batch)
        found = count_own(model, state.params, batch, visit.warm, map)
        np.testing.assert_allclose(found["transition"], visit.summary["transition"], atol=1e-5)
        np.testing.assert_allclose(found["emission"], visit.summary["emission"], atol=1e-5)
    sweep(2)
    assert state.total.view()["emission"].sum() == pytest.approx(words(24).n_rows, rel=1e-6)


PROCESS = """
import numpy as np
from stickbreak.data import Sequences
from stickbreak.families import Categorical
from stickbreak.inference import ExcludeOwn
from stickbreak.initialize import from_local
from stickbreak.kernels.chain.collapsed import sweep_sequences
from stickbreak.models import finite_hmm
data = Sequences(np.arange(6)[:, None] % 3, offsets=np.array([0, 3, 6]))
model = finite_hmm(Categorical(0.5, (3,)))
start = from_local(model, data, 2, np.random.default_rng(0))
ExcludeOwn().visit(model, start.seed, start.params, data.whole(), start.warm, (), map)
found = sweep_sequences.stats
print(sum(found.cache_hits.values()), sum(found.cache_misses.values()))
"""


@pytest.mark.slow
def test_a_second_process_finds_the_sweep_on_disk():
    """A kernel that is compiled for every process would cost more than most fits."""
    places = {
        "PYTHONPATH": str(Path(sb.__file__).parents[1]),
        "NUMBA_CACHE_DIR": str(cache_folder()),
    }
    ask = lambda: subprocess.run(
        [sys.executable, "-c", PROCESS], env={**os.environ, **places}, capture_output=True,
        text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert sum(map(int, ask())) == 1
    assert ask() == ["1", "0"]


def test_labels_of_a_dictionary_are_learned():
    """As users meet it: a tag dictionary, a fit from random chains, a saved model."""
    rng = np.random.default_rng(0)
    texts = [
        [("the", "a")[rng.integers(2)], ("dog", "cat")[rng.integers(2)]] * 2 for _ in range(30)
    ]
    allowed = {"the": [0], "dog": [1]}
    model = sb.HMM(
        2, family="categorical", inference="collapsed", init="local", allowed=allowed,
        concentration=0.1, random_state=0,
    ).fit(texts)  # fmt: skip
    assert all(list(states) == [0, 1, 0, 1] for states in model.labels_)


# ---- refusals ------------------------------------------------------------------------------------
def test_what_cannot_be_is_refused():
    lists = [np.array(x) for x in ([0, 1, 0], [1, 1], [0, 0, 1])]
    fit = lambda data=lists, weight=None, **changed: sb.HMM(
        2, family="categorical", inference=CollapsedVB(**changed), random_state=0
    ).fit(data, sample_weight=weight)
    with pytest.raises(ValueError, match="granularity='word' is not for Chain; choose one of auto"):
        fit(granularity="word")
    with pytest.raises(ValueError, match="granularity='subsequence'"):
        fit(lists[:1])
    with pytest.raises(ValueError, match="sample_weight has 2: collapsed inference takes out one"):
        fit(weight=[1.0, 2.0, 0.0])
    with pytest.raises(ValueError, match="block must be a whole number of at least 1; got 0"):
        fit(block=0)
    with pytest.raises(ValueError, match="granularity='sequence' is not for Independent"):
        sb.Mixture(2, inference=CollapsedVB(granularity="sequence")).fit(np.eye(4)[:, :2])
    gaps = [np.array([[1.0, np.nan], [0.0, 1.0]]), np.eye(2)]
    with pytest.raises(ValueError, match="missing entries are completed anew"):
        sb.HMM(2, inference=CollapsedVB()).fit(gaps)
