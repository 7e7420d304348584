"""Aligners under every engine: bounds, sweeps against plain loops, published numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.alignment import Sweeper, list_alignments

from stickbreak.data import Companion, Sequences
from stickbreak.families import Lexicon
from stickbreak.inference import (
    EM,
    BatchVB,
    CollapsedGibbs,
    CollapsedVB,
    HardEM,
    MemoizedVB,
    Start,
    StochasticCollapsedVB,
    StochasticVB,
    read_checkpoint,
    run,
    workers,
)
from stickbreak.inference.collapsed import ExcludeOwn, own_given_others
from stickbreak.initialize import after_bag, even_links_start
from stickbreak.models import fertile_aligner, hmm_aligner, ibm1
from stickbreak.moves import Birth, Merge
from stickbreak.stats import SERIAL

MODELS = {"ibm1": ibm1, "hmm": hmm_aligner}
# float32 shares of at most some hundred links
KEPT = 1e-5


def pairs_of(n=30, seed=0, n_words=5):
    """Numbered pairs in which target word s - 1 translates source word s, in mixed order."""
    rng, pairs = np.random.default_rng(seed), []
    for _ in range(n):
        source = rng.integers(1, n_words + 1, rng.integers(1, 5))
        target = [s - 1 if rng.random() < 0.8 else rng.integers(n_words + 1) for s in source]
        extra = rng.integers(n_words + 1, size=rng.integers(0, 2))
        pairs.append((source.tolist(), [int(t) for t in target] + extra.tolist()))
    return pairs


def bitext(pairs, concentration=0.05, n_words=7, n_symbols=7):
    source, target = zip(*pairs, strict=True)
    rows = np.concatenate(target).astype(np.int32)[:, None]
    offsets = np.r_[0, np.cumsum([len(t) for t in target])]
    ends = np.r_[0, np.cumsum([len(s) for s in source])]
    companion = Companion(np.concatenate(source).astype(np.int32), ends)
    lexicon, companion = Lexicon.of_data(
        rows, offsets, companion, n_words=n_words, n_symbols=n_symbols, concentration=concentration
    )
    return lexicon, Sequences(rows, offsets=offsets, companion=companion)


def fit(make, engine, lexicon, data, **prior):
    model = make(lexicon, **prior)
    return model, run(model, engine, data, even_links_start(model, data, lexicon.n_words), seed=0)


@pytest.mark.parametrize("null", ["learned", "position", 0.2])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "engine",
    [BatchVB(max_iter=12, tol=0, moves=None), EM(max_iter=12, tol=0), HardEM(max_iter=5, tol=0)],
    ids=["vb", "em", "hard"],
)
def test_the_objective_never_drops(name, engine, null):
    _, result = fit(MODELS[name], engine, *bitext(pairs_of()), null=null)
    bounds = np.array(result.trace.bound)
    assert np.isfinite(bounds).all()
    assert (np.diff(bounds) > -1e-9 * np.abs(bounds[1:])).all()
    assert bounds[-1] > bounds[0]


@pytest.mark.parametrize("name", MODELS)
def test_the_bound_lies_below_the_evidence_of_two_pairs(name):
    """Exact evidence: parameters integrated out, alignments listed."""
    pairs = [([1, 2], [0, 1]), ([1], [0])]
    lexicon, data = bitext(pairs)
    model, result = fit(
        MODELS[name], BatchVB(max_iter=30, tol=0, moves=None), lexicon, data, null="learned"
    )
    total = -np.inf
    for first in np.ndindex(3, 3):
        for second in np.ndindex(2):
            labels = np.array([*first, *second]) - 1
            counts = dict(model.zeros(lexicon.n_words).arrays)
            model.structure.count(labels, data.whole(), counts)
            words = [pairs[0][0], pairs[0][0], pairs[1][0]]
            uniform = 0.0
            for j, (place, source) in enumerate(zip(labels, words, strict=True)):
                word = 0 if place < 0 else source[place]
                cell = lexicon.find([word], [int(data.rows[j, 0])])[0]
                counts["cell"][cell] += 1
                counts["total"][word] += 1
                is_first = name == "ibm1" or j == 0 or j == 2 or labels[0] < 0
                uniform -= np.log(len(source)) if place >= 0 and is_first else 0.0
            summary = replace(model.zeros(lexicon.n_words), arrays=counts)
            joint = model.bound(summary, result.params) + uniform
            total = np.logaddexp(total, joint)
    assert result.trace.bound[-1] < total
    assert result.trace.bound[-1] > total - 3.0  # near enough to be this bound


@pytest.mark.few(2)
@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_sweeps_equal_plain_loops_sentence_by_sentence(name, is_open):
    pairs = pairs_of(4)
    lexicon, data = bitext(pairs, 0.05)
    prior = {"null": "learned"}
    if name == "hmm":
        prior |= {"width": 3, "jumps": "open" if is_open else "renormalised"}
    model = MODELS[name](lexicon, **prior)
    start = Start(model.zeros(lexicon.n_words), model.start_params(lexicon.n_words))
    jump_prior = [1.0] * 7 if name == "hmm" else None
    slow = Sweeper(pairs, lexicon.n_symbols, 0.05, ([1.0, 4.0], jump_prior, is_open))
    # a first visit sees no pairs at all, those before it neither
    first = [None] * len(pairs)
    for u in range(len(pairs)):
        alone = Sweeper([pairs[u]], lexicon.n_symbols, 0.05, ([1.0, 4.0], jump_prior, is_open))
        alone.lap()
        first[u] = alone.own[0]
    slow.own = first
    log_z = [slow.lap() for _ in range(2)]
    result = run(model, CollapsedVB(max_iter=3, tol=0), data, start, seed=0)
    expected = np.concatenate([own.shares.ravel() for own in slow.own])
    np.testing.assert_allclose(result.warm()["links"], expected, atol=KEPT)
    found = np.array(result.trace.log_z)[1:] * data.n_rows
    np.testing.assert_allclose(found, log_z, rtol=KEPT)
    np.testing.assert_allclose(result.counts["null"], sum(o.null for o in slow.own), rtol=KEPT)


def test_the_bound_of_a_sweep_is_that_of_its_posteriors():
    """With one cell for each pair of words, entropy by a list of all alignments."""
    pairs = [([1, 2], [0, 1, 1]), ([2, 1, 1], [0, 1])]
    lexicon, data = bitext(pairs)
    model = hmm_aligner(lexicon, null="learned", width=2)
    start = Start(model.zeros(lexicon.n_words), model.start_params(lexicon.n_words))
    result = run(model, CollapsedVB(max_iter=1, tol=0), data, start, seed=0)
    local = 0.0
    for source, target in pairs:
        w = np.full((len(target), len(source) + 1), 1.0 / lexicon.n_symbols)
        listed = list_alignments(w, np.array([0.2, 0.8]), np.full(5, 0.2))
        paid = listed.null @ np.log([0.2, 0.8]) + listed.jump.sum() * np.log(0.2)
        local += listed.log_z - paid + len(target) * np.log(lexicon.n_symbols)
    assert result.counts.local_bound == pytest.approx(local, rel=KEPT)


@pytest.mark.parametrize(
    "engine",
    [
        MemoizedVB(max_iter=8, tol=0, moves=None, n_batches=3),
        StochasticVB(max_iter=8, tol=0, batch_size=10),
        StochasticCollapsedVB(max_iter=8, tol=0, batch_size=10),
        CollapsedVB(max_iter=5, tol=0),
        CollapsedVB(max_iter=5, tol=0, n_batches=3),
        pytest.param(CollapsedVB(max_iter=5, tol=0, granularity="token"), marks=pytest.mark.slow),
        pytest.param(CollapsedGibbs(max_iter=30, temperature=(1.0, 0.1)), marks=pytest.mark.slow),
    ],
    ids=[
        "memoized",
        "stochastic",
        "stochastic-collapsed",
        "collapsed",
        "batches",
        "token",
        "gibbs",
    ],
)
@pytest.mark.parametrize("name", MODELS)
def test_every_engine_finds_the_translations(name, engine):
    lexicon, data = bitext(pairs_of(60))
    model, result = fit(MODELS[name], engine, lexicon, data)
    table = lexicon.translations(result.counts).toarray()
    assert table[1:6, :5].argmax(1).tolist() == [0, 1, 2, 3, 4]
    assert result.counts["cell"].sum() == pytest.approx(result.counts["total"].sum(), rel=KEPT)
    potentials = model.predictive(result.counts, result.params)
    found = model.decode(potentials, data.whole())
    lengths = np.repeat(np.diff(data.companion.offsets), np.diff(data.offsets))
    assert ((found >= -1) & (found < lengths)).all()
    shares = model.structure.link_posteriors(potentials, data.whole())
    assert shares.sum() == pytest.approx(data.n_rows)
    if result.warm() is not None:
        kept = model.structure.places_of(data.whole(), result.warm())
        assert (kept == found).mean() > 0.7


@pytest.mark.parametrize("drawn", [False, True])
def test_fertilities_are_counted_once_for_each_source_word(drawn):
    lexicon, data = bitext(pairs_of(40))
    _, first = fit(hmm_aligner, CollapsedVB(max_iter=3, tol=0), lexicon, data)
    model = fertile_aligner(lexicon, max_fertility=3)
    engine = CollapsedGibbs(max_iter=5) if drawn else CollapsedVB(max_iter=2, tol=0)
    warm = None if drawn else first.warm()
    result = run(model, engine, data, after_bag(model, first.counts, warm, data), seed=0)
    expected = np.bincount(data.companion.rows, minlength=lexicon.n_words)
    np.testing.assert_allclose(result.counts["fertility"].sum(1), expected, atol=1e-9)
    links = result.counts["fertility"] @ np.arange(4)
    assert links.sum() == pytest.approx(result.counts["total"][1:].sum(), rel=0.05)  # 3 and more


@pytest.mark.parametrize("make", [ibm1, hmm_aligner])
def test_blocks_of_long_sentences_have_fewer_rows(make, monkeypatch):
    rng = np.random.default_rng(0)
    sides = [(rng.integers(1, 6, n), rng.integers(0, 6, 4)) for n in (2, 30, 3, 40, 40, 2, 2)]
    lexicon, data = bitext([(s.tolist(), t.tolist()) for s, t in sides])
    model = make(lexicon)
    params = model.start_params(lexicon.n_words)
    potentials = model.potentials(model.zeros(lexicon.n_words), params, BatchVB().rule())
    whole = data.whole()
    assert [block.n_spans for block in model.blocks(whole, lexicon.n_words)] == [7]
    expected, _ = model.local_step(potentials, whole)
    monkeypatch.setattr("stickbreak.structures.alignment.structure.BLOCK_LINKS", 100)
    blocks = model.blocks(whole, lexicon.n_words)
    sizes = [int(block.companion.linked(block.offsets).link_offsets[-1]) for block in blocks]
    assert max(sizes) <= 100 + 4 * 41  # and those of one pair
    assert [block.n_spans for block in blocks] == [1, 2, 1, 2, 1]
    found, _ = model.local_step(potentials, whole)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-12)


def test_links_do_not_depend_on_the_number_of_workers_nor_on_where_links_are_kept():
    lexicon, data = bitext(pairs_of(50))
    model, engine = hmm_aligner(lexicon), CollapsedVB(max_iter=3, tol=0)
    start = even_links_start(model, data, lexicon.n_words)
    alone = run(model, engine, data, start, seed=0)
    with workers(2) as pool:
        shared = run(model, engine, data, start, seed=0, pool=pool)
    np.testing.assert_array_equal(alone.warm()["links"], shared.warm()["links"])
    bare = replace(data, companion=data.companion._replace(links=None))
    looked_up = run(model, engine, bare, start, seed=0)
    np.testing.assert_array_equal(alone.warm()["links"], looked_up.warm()["links"])
    potentials = model.predictive(alone.counts, alone.params)
    both = [model.log_evidence(potentials, d.whole()) for d in (data, bare)]
    np.testing.assert_array_equal(*both)


def test_a_fit_that_is_resumed_after_its_last_lap_has_its_links(tmp_path):
    lexicon, data = bitext(pairs_of(20))
    model, saved = hmm_aligner(lexicon), {"checkpoint": tmp_path / "c", "checkpoint_every": 0.0}
    engine = CollapsedVB(max_iter=2, tol=0, **saved)
    start = even_links_start(model, data, lexicon.n_words)
    whole = run(model, engine, data, start, seed=0)
    again = run(model, engine, data, read_checkpoint(tmp_path / "c")[1], seed=0)
    assert again.n_steps == whole.n_steps
    np.testing.assert_array_equal(again.warm()["links"], whole.warm()["links"])


@pytest.mark.parametrize("null", ["learned", "position", 0.2])
def test_even_links_are_the_same_where_links_are_not_held(null):
    lexicon, data = bitext(pairs_of(200))
    model = ibm1(lexicon, null=null)
    held = even_links_start(model, data, lexicon.n_words).seed
    bare = replace(data, companion=Companion(data.companion.rows, data.companion.offsets))
    found = even_links_start(model, bare, lexicon.n_words)
    assert found.warm is None
    for name in ("cell", "total", "null"):
        np.testing.assert_allclose(found.seed[name], held[name], rtol=KEPT)


@pytest.mark.parametrize("name", MODELS)
def test_links_given_others_are_those_of_sweeps_where_the_own_part_is_known(name):
    """With counts of the links that are kept, the second sweep removes them: as a lap does."""
    lexicon, data = bitext(pairs_of(60))
    model = MODELS[name](lexicon)
    batch, start = data.whole(), even_links_start(model, data, lexicon.n_words)
    rule = ExcludeOwn(is_measured=False)
    _, first = rule.visit(model, start.seed, start.params, batch, None, (), SERIAL)
    _, expected = rule.visit(model, start.seed, start.params, batch, first, (), SERIAL)
    found = own_given_others(model, start.seed, start.params, batch, SERIAL)
    np.testing.assert_array_equal(found["links"], expected["links"])
    assert not np.array_equal(found["links"], first["links"])


def test_vb_after_collapsed_laps_does_not_lose_to_their_bound():
    lexicon, data = bitext(pairs_of(60))
    model, collapsed = fit(hmm_aligner, CollapsedVB(max_iter=5, tol=0), lexicon, data)
    start = Start(collapsed.counts, collapsed.params)
    after = run(model, BatchVB(max_iter=20, tol=0, moves=None), data, start, seed=0)
    assert after.trace.bound[-1] > collapsed.trace.bound[-1]


def test_worked_weights_of_mean_field():
    """exp psi(21) / exp psi(42) = 0.494, exp psi(1.5) / exp psi(2.7) = 0.468 [LK07]."""
    lexicon = Lexicon(1.0, 3, 2, np.array([0, 0, 2, 2]), np.array([0, 1], dtype=np.int32))
    for cell, expected in (([20.0, 20.0], 0.494), ([0.5, 0.2], 0.468)):
        counts = {"cell": np.array(cell), "total": np.array([0.0, sum(cell), 0.0])}
        assert np.exp(lexicon.mean_log(counts).log_cells[0]) == pytest.approx(expected, abs=5e-4)


def test_weights_of_mean_field_sum_to_less_than_one():
    """Over all target words, those that never occurred included."""
    lexicon, data = bitext(pairs_of(20))
    _, result = fit(ibm1, BatchVB(max_iter=2, tol=0, moves=None), lexicon, data)
    scores = lexicon.mean_log(result.counts)
    weights = np.exp(scores.evidence(np.arange(lexicon.n_symbols))).sum(0)
    assert (weights < 1 - 1e-3).all()
    predictive = lexicon.log_mean(result.counts).evidence(np.arange(lexicon.n_symbols))
    np.testing.assert_allclose(np.exp(predictive).sum(0), 1.0, rtol=1e-12)


def test_one_lap_of_em_counts_all_alignments():
    """From even links, two laps of EM equal counts of alignments that are listed."""
    pairs = [([1, 2], [0, 1]), ([1], [0, 0]), ([2, 1, 2], [1, 2])]
    lexicon, data = bitext(pairs, 1e-300, 4, 4)
    _, result = fit(ibm1, EM(max_iter=1, tol=0), lexicon, data, null=0.2)
    even = fit_even(pairs)
    table = even / even.sum(1, keepdims=True).clip(1e-300)
    expected = np.zeros_like(even)
    for source, target in pairs:
        w = table[np.ix_([0, *source], target)].T
        shares = list_alignments(w, np.array([0.2, 0.8])).shares
        np.add.at(expected, (np.array([0, *source])[:, None], np.array(target)), shares.T)
    found = lexicon.find(np.repeat(np.arange(4), 4), np.tile(np.arange(4), 4)).reshape(4, 4)
    np.testing.assert_allclose(result.counts["cell"][found[found >= 0]], expected[found >= 0])
    assert (expected[found < 0] == 0).all()


def fit_even(pairs):
    """Counts (4, 4) of links of which NULL has 0.2, and all positions the same."""
    counts = np.zeros((4, 4))
    for source, target in pairs:
        for word in target:
            counts[0, word] += 0.2
            for s in source:
                counts[s, word] += 0.8 / len(source)
    return counts


def test_rare_source_words_collect_garbage_under_em_and_not_under_mean_field():
    """A rare word 1 stands once beside a frequent word 2, whose translations are 0, 4 and 3."""
    often = [([2], [0])] * 20 + [([2], [4])] * 6 + [([2], [3])] * 4
    pairs = [*often, ([1, 2], [0, 1, 2, 3])]
    first = {}
    for name, engine in (
        ("em", EM(max_iter=20, tol=0)),
        ("vb", BatchVB(max_iter=20, tol=0, moves=None)),
    ):
        lexicon, data = bitext(pairs, 1e-6 if name == "em" else 0.2, 4, 6)
        model, result = fit(ibm1, engine, lexicon, data, null=1e-6)
        pot = model.potentials(result.counts, result.params, engine.rule())
        links = model.structure.link_posteriors(pot, data.whole()).reshape(-1)[-12:].reshape(4, 3)
        first[name] = links.argmax(1).tolist()
    # 1 and 2 occur nowhere else; the frequent word explains 3, but the rare one has mass to spare
    assert first == {"em": [2, 1, 1, 1], "vb": [2, 1, 1, 2]}


def test_what_alignments_cannot_do_is_refused_by_name():
    lexicon, data = bitext(pairs_of(5))
    with pytest.raises(ValueError, match="max_active=3 is not for BagAlignment"):
        ibm1(lexicon).sparse(3)
    with pytest.raises(ValueError, match="jumps must be 'open' or 'renormalised'"):
        hmm_aligner(lexicon, jumps="closed")
    with pytest.raises(ValueError, match=r"null must lie between 0 and 1; got 1\.5"):
        ibm1(lexicon, null=1.5)
    weighted = replace(data, repeats=np.full(data.n_rows, 2.0))
    with pytest.raises(ValueError, match="sentence pairs have no weights"):
        fit(ibm1, EM(max_iter=1, tol=0), lexicon, weighted)
    for engine in (EM(max_iter=1, tol=0), StochasticCollapsedVB(max_iter=1, batch_size=2)):
        with pytest.raises(ValueError, match="fertilities are for CollapsedVB"):
            fit(fertile_aligner, engine, lexicon, data)
    model = hmm_aligner(lexicon, jumps="renormalised")
    start = Start(model.zeros(lexicon.n_words), model.start_params(lexicon.n_words))
    for engine in (BatchVB(moves=[Merge()]), MemoizedVB(n_batches=2, moves=[Birth()])):
        with pytest.raises(ValueError, match="components of ChainAlignment are named by the data"):
            run(model, engine, data, start, seed=0)
    with pytest.raises(ValueError, match="use jumps='open'"):
        run(model, CollapsedGibbs(max_iter=1), data, start, seed=0)


@pytest.mark.slow
def test_one_lap_of_em_equals_nltk():
    from nltk.translate import AlignedSent, IBMModel1

    # nltk divides by the sum over all occurrences of a target word, so none may occur twice
    pairs = [(s, list(dict.fromkeys(t))) for s, t in pairs_of(200, seed=3, n_words=30)]
    named = [
        AlignedSent([f"t{t}" for t in target], [f"s{s}" for s in source])
        for source, target in pairs
    ]
    theirs = IBMModel1(named, 1).translation_table
    lexicon, data = bitext(pairs, 1e-300, 33, 32)
    model = ibm1(lexicon, null="position")
    start = Start(model.zeros(lexicon.n_words), model.start_params(lexicon.n_words))
    result = run(model, EM(max_iter=1, tol=0), data, start, seed=0)
    found = lexicon.translations(result.counts).tocoo()
    for s, t, value in zip(found.row, found.col, found.data, strict=True):
        expected = theirs[f"t{t}"][None if s == 0 else f"s{s}"]
        assert value == pytest.approx(expected, abs=1e-10)
