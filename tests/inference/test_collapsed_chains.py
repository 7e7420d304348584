"""Collapsed inference of chains: sweeps equal the plain loop, golden numbers, bounds, and fits that
are the same for any threads, killed or spilled.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from collapsed_chains import (
    MODELS,
    K,
    chances_of_symbols,
    dictionary,
    in_doubles,
    plain_blocks,
    plain_sweep,
    plain_tokens,
    words,
)

import stickbreak as sb
from docs.skeletons.family import Exponential
from stickbreak.data import Sequences
from stickbreak.inference import (
    CollapsedVB,
    ExcludeOwn,
    Memoized,
    count_own,
    read_checkpoint,
    run,
    step,
    workers,
)
from stickbreak.initialize import from_blocks, from_local
from stickbreak.kernels.compile import cache_folder
from stickbreak.stats import SERIAL, Merge, Permute
from stickbreak.structures.own_shares import random_shares

CASES = [
    (kind, data, block)
    for kind in ("hmm", "sticky", "impossible", "hdp")
    for data, block in (("plain", 1), ("gaps", 1), ("dictionary", 1), ("gaps", 3))
    if (kind, data) != ("impossible", "dictionary")
]


# Own counts as fits keep them, each to 1e-7, or in doubles: kernels of their own, long to compile.
KEPT = {"float32": (lambda own: own, 1e-5), "float64": (in_doubles, 1e-9)}
every_kept = pytest.mark.parametrize(
    "kept", ["float32", pytest.param("float64", marks=pytest.mark.slow)]
)


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
        counts, own = rule.visit(model, counts, params, data.whole(), own, (), SERIAL)
        for name in counts:
            np.testing.assert_allclose(counts[name], expected[name], atol=1e-9, err_msg=name)
        for name in own:
            np.testing.assert_allclose(own[name], mine[name], atol=1e-9, err_msg=name)
        assert counts.log_z == pytest.approx(log_z, abs=1e-9)
        assert counts.local_bound == pytest.approx(bound, abs=1e-9)
        assert counts.n_units == data.n_units


@every_kept
@pytest.mark.parametrize("kind", ["hmm", "sticky", "hdp"])
@pytest.mark.parametrize("case", ["plain", "gaps", "dictionary"])
def test_a_sweep_of_tokens_equals_the_plain_loop(kind, case, kept):
    """Steps that touch a token and its neighbor are left out, at all edges, whatever the prior."""
    keep, atol = KEPT[kept]
    model, data, legal = MODELS[kind](), words(gaps=case == "gaps"), None
    if case == "dictionary":
        data, legal = dictionary(data)
    start = from_local(model, data, K, np.random.default_rng(1), legal=legal)
    rule, batch = ExcludeOwn("token"), data.whole()
    own = keep(model.structure.own_of(batch, start.warm, model.axis, "token"))
    own["rows"][...] /= np.maximum(own["rows"].sum(1, keepdims=True), 0.5)  # float32 before
    counts, q = rule.count(model, start.params, batch, own, SERIAL), own["rows"].astype(float)
    for _ in range(2):
        expected = plain_tokens(
            model.prior.pseudo(start.params, K), data, q, legal, chances_of_symbols(data, 0.4)
        )
        counts, own = rule.visit(model, counts, start.params, batch, own, (), SERIAL)
        np.testing.assert_allclose(own["rows"], q, atol=atol)
        assert counts.log_z == pytest.approx(expected, abs=atol)
        again = rule.count(model, start.params, batch, own, SERIAL)
        for name in counts:
            np.testing.assert_allclose(counts[name], again[name], atol=atol, err_msg=name)
        assert counts.local_bound == pytest.approx(again.local_bound, abs=atol)
        n = batch.n_observations
        assert counts["start"].sum() + counts["transition"].sum() == pytest.approx(n, rel=1e-6)


@every_kept
@pytest.mark.parametrize("kind", ["hmm", "sticky", "hdp"])
@pytest.mark.parametrize("guards", ["messages", "counts"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_sweep_of_blocks_equals_the_enumeration_of_their_paths(kind, guards, length, kept):
    keep, atol = KEPT[kept]
    model, data = MODELS[kind](), words()
    start = from_local(model, data, K, np.random.default_rng(1))
    rule = ExcludeOwn("subsequence", subchain_length=length, guards=guards)
    batch = rule.units(data.whole())
    own = keep(model.structure.own_of(batch, start.warm, model.axis, "subsequence"))
    counts = rule.count(model, start.params, batch, own, SERIAL)
    q, pairs = own["rows"].astype(float), own["pairs"].astype(float)
    prior = model.prior.pseudo(start.params, K)
    for _ in range(2):
        plain_blocks(prior, data, q, pairs, length, guards, chances_of_symbols(data, 0.4))
        counts, own = rule.visit(model, counts, start.params, batch, own, (), SERIAL)
        np.testing.assert_allclose(own["rows"], q, atol=atol)
        np.testing.assert_allclose(own["pairs"], pairs, atol=atol)
        n = counts["start"].sum() + counts["transition"].sum()
        assert n == pytest.approx(data.n_rows, rel=1e-6)  # the start is in float32


@every_kept
@pytest.mark.parametrize("guards", ["messages", "counts"])
def test_blocks_of_whole_sequences_are_sequences(guards, kept):
    keep, atol = KEPT[kept]
    model, data = MODELS["hdp"](), words(gaps=True)
    start = from_local(model, data, K, np.random.default_rng(1))
    found = []
    blocks = ExcludeOwn("subsequence", subchain_length=6, guards=guards)
    for rule in (ExcludeOwn(), blocks):
        batch, own, counts = rule.units(data.whole()), keep(start.warm), start.seed
        for _ in range(2):
            counts, own = rule.visit(model, counts, start.params, batch, own, (), SERIAL)
        found.append((counts, own))
    for name in found[0][0]:
        np.testing.assert_allclose(found[1][0][name], found[0][0][name], atol=atol)
    assert found[1][0].log_z == pytest.approx(found[0][0].log_z, abs=10 * atol)
    assert found[1][0].local_bound == pytest.approx(found[0][0].local_bound, abs=10 * atol)


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
    sb.CollapsedVB(max_iter=3, granularity="token"),
    sb.CollapsedVB(max_iter=3, granularity="subsequence", subchain_length=2),
    sb.StochasticVB(max_iter=3),
    sb.Gibbs(max_iter=3),
]


def test_local_starts_of_rows_with_one_legal_state_have_no_zero_weights():
    """A float32 in [0, 1) is zero once in 2**24: over 23,000 words and 45 states, nearly always."""

    class Zeros:
        def random(self, shape, dtype):
            return np.zeros(shape, dtype)

        standard_exponential = random

    data, legal = dictionary(words(20, seed=1))
    start = from_local(MODELS["hmm"](), data, K, Zeros(), legal=legal)
    for name in start.seed:
        assert np.isfinite(start.seed[name]).all()
    assert start.seed["emission"][0, 1:].max() == 0.0  # symbol 0 has the first state alone
    own = random_shares(data.whole(), K, "state", Zeros(), legal)
    np.testing.assert_allclose(own["shares"].sum(1), 1.0, rtol=1e-6)


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
    again = count_own(model, result.params, data.whole(), result.warm(), SERIAL)
    for name in again:
        np.testing.assert_allclose(again[name], result.counts[name], rtol=1e-9, atol=1e-9)
    assert all(np.isfinite([lap.bound, lap.log_z]).all() for lap in result.trace)


@pytest.mark.parametrize("granularity", ["sequence", "token", "subsequence"])
def test_fits_from_counts_alone_take_up_own_counts_in_the_second_lap(granularity):
    data, model = words(30), MODELS["hmm"]()
    start = from_blocks(model, data, K, np.random.default_rng(0), candidates=1)
    engine = CollapsedVB(max_iter=10, tol=0.0, granularity=granularity, subchain_length=2)
    result = run(model, engine, data, start)
    again = engine.rule().count(
        model, result.params, engine.rule().units(data.whole()), result.warm(), SERIAL
    )
    np.testing.assert_allclose(again["transition"], result.counts["transition"], atol=1e-9)
    assert result.counts["emission"].sum() == pytest.approx(data.n_rows, rel=1e-6)
    assert np.isfinite([result.trace.log_z, result.trace.bound]).all()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("kind", "granularity"),
    [
        *product(["hmm", "hdp"], ["sequence", "token", "subsequence"]),
        ("tables", "sequence"),
        ("base", "sequence"),
    ],
)
def test_killed_spilled_and_threaded_fits_are_the_same_bits(
    kind, granularity, tmp_path, monkeypatch
):
    monkeypatch.setattr("stickbreak.inference.collapsed.SWEEP_ROWS", 200)  # several lanes
    data, model = words(300, seed=5), MODELS[kind]()
    assert data.batches(2)[0].n_rows > 400
    start = from_local(model, data, K, np.random.default_rng(1))
    engine = CollapsedVB(
        max_iter=6, tol=0.0, n_batches=2, granularity=granularity, subchain_length=3
    )
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
        for name in whole.params:
            np.testing.assert_array_equal(other.params[name], whole.params[name])
        assert other.bound == whole.bound
        np.testing.assert_array_equal(other.trace.moved, whole.trace.moved)
        for name, value in whole.model.learned().arrays.items():
            np.testing.assert_array_equal(other.model.learned()[name], value)


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
        found = count_own(model, state.params, batch, visit.warm, SERIAL)
        np.testing.assert_allclose(found["transition"], visit.summary["transition"], atol=1e-5)
        np.testing.assert_allclose(found["emission"], visit.summary["emission"], atol=1e-5)
    sweep(2)
    assert state.total.view()["emission"].sum() == pytest.approx(words(24).n_rows, rel=1e-6)


PROCESS = """
import numpy as np
from stickbreak.data import Sequences
from stickbreak.families import Categorical
from stickbreak.inference import ExcludeOwn
from stickbreak.initialize import from_blocks, from_local
from stickbreak.kernels.chain.collapsed import sweep_sequences
from stickbreak.models import finite_hmm
from stickbreak.stats import SERIAL
data = Sequences(np.arange(6)[:, None] % 3, offsets=np.array([0, 3, 6]))
model = finite_hmm(Categorical(0.5, (3,)))
start = from_local(model, data, 2, np.random.default_rng(0))
ExcludeOwn().visit(model, start.seed, start.params, data.whole(), start.warm, (), SERIAL)
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
    with pytest.raises(ValueError, match="subchain_length=100 leaves the one sequence of 3 rows"):
        fit(lists[:1], granularity="subsequence")
    with pytest.raises(ValueError, match="block=2 is for granularity='sequence'"):
        fit(granularity="token", block=2)
    with pytest.raises(ValueError, match="guards must be 'messages' or 'counts'; got 'none'"):
        fit(guards="none")
    with pytest.raises(ValueError, match="impossible steps do not allow; use"):
        sb.HMM(
            2, family="categorical", transition_prior=np.triu(np.ones((2, 2))),
            inference=CollapsedVB(granularity="token"),
        ).fit(lists)  # fmt: skip
    with pytest.raises(ValueError, match="sample_weight has 2: collapsed inference takes out one"):
        fit(weight=[1.0, 2.0, 0.0])
    with pytest.raises(ValueError, match="block must be a whole number of at least 1; got 0"):
        fit(block=0)
    with pytest.raises(
        ValueError,
        match="'sequence' is not for Independent; choose one of auto, row,",
    ):
        sb.Mixture(2, inference=CollapsedVB(granularity="sequence")).fit(np.eye(4)[:, :2])
    gaps = [np.array([[1.0, np.nan], [0.0, 1.0]]), np.eye(2)]
    with pytest.raises(ValueError, match="take complete rows; impute"):
        sb.HMM(2, inference=CollapsedVB()).fit(gaps)


def test_the_remedy_for_one_sequence_is_one_that_its_family_has():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"there is one sequence.*use StochasticCollapsedVB"):
        sb.HMM(2, family=Exponential(), inference="collapsed").fit(rng.exponential(size=(30, 1)))
    with pytest.raises(ValueError, match=r"there is one sequence.*use CollapsedVB"):
        sb.HMM(2, inference="collapsed", random_state=0).fit(rng.normal(size=(30, 2)))
    with pytest.raises(ValueError, match=r"there is one sequence.*granularity='subsequence'"):
        sb.HMM(2, family="categorical", inference="collapsed", random_state=0).fit(
            rng.integers(0, 4, (30, 1))
        )
