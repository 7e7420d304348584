"""Trials infer the units that they touch; the bound of all data is exact nevertheless.

After every accepted change the counts and the bound are compared with those of all posteriors,
written out: dense shares of every row, entropies by definition, documents one by one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fitting import assert_never_drops
from folding import fold_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma, gammaln, logsumexp, xlogy
from topics import corpus, make_model, random_start

from stickbreak.data import Documents, Sequences, Table, measure
from stickbreak.families import Gaussian
from stickbreak.inference import (
    Callback,
    MeanLog,
    MemoizedVB,
    Trace,
    read_checkpoint,
    run,
    workers,
)
from stickbreak.inference import scene as scenes
from stickbreak.inference.attempts import Attempts
from stickbreak.inference.scene import Scene, Spent
from stickbreak.initialize import from_blocks, from_labels, from_plusplus, from_ungrouped
from stickbreak.models import dp_mixture, hdp_hmm, hdp_mixture
from stickbreak.moves import Birth, Delete, Merge, explain, trials
from stickbreak.moves.trials import LEAST_GAIN
from stickbreak.stats import NOTHING, Regroup
from stickbreak.structures.document.regroup import RegroupDocuments

MEANS = 8.0 * np.array([(0, 0), (1, 0), (0, 1), (1, 1), (2, 0)], dtype=float)


def clusters(seed: int):
    rng = np.random.default_rng(seed)
    table = Table(MEANS[rng.integers(5, size=200)] + rng.normal(size=(200, 2)))
    model = dp_mixture(Gaussian().locate(None, 2).resolve(measure(table)))
    return model, table, from_plusplus(model, table, 3, rng)


def captures(seed: int):
    """Sequences that visit two of five far states each."""
    rng, parts = np.random.default_rng(seed), []
    for n in rng.integers(8, 30, size=12):
        states = np.sort(rng.choice(rng.choice(5, 2, replace=False), n))
        parts.append(MEANS[states] + rng.normal(size=(n, 2)))
    ends = np.r_[0, np.cumsum([len(part) for part in parts])]
    data = Sequences(np.concatenate(parts), offsets=ends)
    model = hdp_hmm(Gaussian().locate(None, 2).resolve(measure(data)))
    return model, data, from_blocks(model, data, 3, rng)


def papers(seed: int):
    """Documents that hold few topics each, some of them counted several times."""
    counts = corpus(seed, n_documents=24, n_topics=4, tokens=40)
    times = np.random.default_rng(seed).integers(1, 3, size=24).astype(float)
    model = make_model("hdp", concentration=0.05)
    return model, Documents.from_counts(counts, times), random_start(model, 4, seed=seed)


def visits(seed: int):
    """Groups of rows that hold two of five far clusters each."""
    model, data, _ = captures(seed)
    times = np.random.default_rng(seed).integers(1, 3, size=data.n_spans).astype(float)
    groups = Documents(data.rows, offsets=data.offsets, times=times)
    model = hdp_mixture(model.family, 0.5)

    def make(mixture, table):
        return from_plusplus(mixture, table, 3, np.random.default_rng(seed))

    start = from_ungrouped(model, Table(groups.rows), groups.n_units, make)
    return model, groups, start


CASES = {"mixture": clusters, "chain": captures, "documents": papers, "groups": visits}


def scene_of(name: str, seed: int, n_batches: int) -> Scene:
    model, data, start = CASES[name](seed)
    found = run(model, MemoizedVB(n_batches=n_batches, max_iter=15), data, start)
    rng, next_id = np.random.default_rng(seed), found.next_id
    scene = Scene(
        model, found.counts, found.params, found.ids, data, Attempts(), rng, 9, True,
        next_id=next_id, batches=data.batches(n_batches), warm=found.warm(),
    )  # fmt: skip
    return scene


def smooth(evidence, start, transition):
    """Posteriors (T, K), those of neighbors (T - 1, K, K), and the entropy of paths."""
    forward, backward = [start + evidence[0]], [np.zeros(len(start))]
    for row in evidence[1:]:
        forward.append(row + logsumexp(forward[-1][:, None] + transition, axis=0))
    for row in evidence[:0:-1]:
        backward.append(logsumexp(transition + row + backward[-1], axis=1))
    forward, backward = np.array(forward), np.array(backward[::-1])
    shares = np.exp(forward + backward - logsumexp(forward[-1]))
    pairs = np.exp(
        forward[:-1, :, None]
        + transition
        + (evidence + backward)[1:, None]
        - logsumexp(forward[-1])
    )
    value = (
        (shares[0] * start).sum() + (shares * evidence).sum() + (pairs.sum(0) * transition).sum()
    )
    return shares, pairs, logsumexp(forward[-1]) - value


def written_out(outcome) -> tuple[dict[str, np.ndarray], float]:
    """Counts and local part of the bound of all units, from their posteriors."""
    posteriors, counts = outcome.posteriors, outcome.counts
    model, data = posteriors.model, posteriors.data
    out, local = dict(counts.empty().arrays), 0.0
    scores = model.family.mean_log(counts)
    for layer in posteriors.layers:
        take = Sequences.take if isinstance(data, Documents) else type(data).take
        batch = take(data, layer.units)
        block = batch.with_rows(model.family.prepare(batch.rows))
        potentials = MeanLog().potentials(model, layer.total, layer.params)
        fold = fold_of(layer, layer.total.size(model.axis))
        if isinstance(data, Documents):
            times = data.times[layer.units]
            shares, part = document_part(model, layer, replace(block, times=times), fold, out)
        elif isinstance(data, Sequences):
            shares, part = chain_part(potentials, block, fold, out)
        else:
            logits = potentials.scores.evidence(block.rows) + potentials["share"]
            shares = np.exp(logits - logsumexp(logits, axis=1, keepdims=True)) @ fold
            part, out["share"] = -xlogy(shares, shares).sum(), out["share"] + shares.sum(0)
        scores.collect(block.rows, np.asfortranarray(shares), out)
        local += part
    return out, local


def chain_part(potentials, block, fold, out):
    evidence, parts, local = potentials.scores.evidence(block.rows), [], 0.0
    for a, b in zip(block.offsets[:-1], block.offsets[1:], strict=True):
        shares, pairs, entropy = smooth(
            evidence[a:b], potentials["start"], potentials["transition"]
        )
        parts.append(shares @ fold)
        out["start"] = out["start"] + parts[-1][0]
        out["transition"] = out["transition"] + fold.T @ pairs.sum(0) @ fold
        local += entropy
    return np.concatenate(parts), local


def document_part(model, layer, block, fold, out):
    potentials = MeanLog().potentials(model, layer.total, layer.params)
    start = None if layer.start is None else layer.start["counts"]
    shares = np.asarray(model.structure._settle(potentials, block, start).shares) @ fold
    prior = np.append(layer.tables["pseudo"], layer.tables["rest"])
    local, repeats = 0.0, block.repeats_or_ones()
    for d, (a, b) in enumerate(zip(block.offsets[:-1], block.offsets[1:], strict=True)):
        times = block.times[d]
        r = shares[a:b] / (times * repeats[a:b, None])
        counts = repeats[a:b] @ r
        theta = np.append(counts, 0.0) + prior
        log_share = digamma(theta) - digamma(theta.sum())
        own = gammaln(theta).sum() - gammaln(theta.sum()) - prior @ log_share
        local += times * (own - (repeats[a:b, None] * xlogy(r, r)).sum())
        out["share"] = out["share"] + times * counts
        out["log_share"] = out["log_share"] + times * log_share[:-1]
        out["log_rest"] = out["log_rest"] + times * log_share[-1]
    return shares, local


def assert_exact(scene: Scene, outcome) -> None:
    arrays, local = written_out(outcome)
    model, found = scene.model, outcome.counts
    whole = replace(found, arrays=arrays, local_bound=local)
    bound = model.bound(whole, outcome.params)
    # 1e-9: sums of a few hundred rows, some of them subtracted again
    assert outcome.bound == pytest.approx(bound, rel=1e-9)
    for name, values in arrays.items():
        if found.layout[name].additive:
            size = 1e-9 * max(1.0, np.abs(values).max())
            np.testing.assert_allclose(found[name], values, rtol=0, atol=size, err_msg=name)
    units = np.sort(np.concatenate([layer.units for layer in outcome.posteriors.layers]))
    np.testing.assert_array_equal(units, np.arange(scene.data.n_spans))


@pytest.mark.covering
@pytest.mark.parametrize("n_batches", [1, 3])
@pytest.mark.parametrize("seed", [0, 1234, 9876])
@pytest.mark.parametrize("name", CASES)
def test_kept_and_new_counts_are_those_of_all_posteriors(name, seed, n_batches):
    try_in_turn(name, seed, n_batches)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, derandomize=True)
@given(name=st.sampled_from(list(CASES)), seed=st.integers(0, 2**20), n_batches=st.integers(1, 4))
def test_kept_and_new_counts_are_exact_for_any_data(name, seed, n_batches):
    try_in_turn(name, seed, n_batches)


def try_in_turn(name: str, seed: int, n_batches: int) -> None:
    """A birth, a delete, a birth and a delete, each accepted whatever it gains."""
    scene, n_partial = scene_of(name, seed, n_batches), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "LEAST_GAIN", -np.inf)
        patch.setattr(trials, "TIE", -np.inf)
        for move in (Birth(n_newborn=4), Delete(n_passes=3), Birth(n_newborn=4), Delete()):
            for slot in np.argsort(-scene.sizes)[: len(scene.ids) - 1]:
                outcome = move.try_out(scene, (int(slot),))
                if outcome is not None:
                    n_partial += len(outcome.posteriors.layers) > 1
                    assert_exact(scene, outcome)
                    scene = scene.after(outcome)
                    break
    assert n_partial or name == "chain" or seed > 10_000


def test_some_units_stay_as_they_are():
    """Of far clusters, visited by some sequences each, a birth infers those of its target."""
    for name in CASES:
        scene = scene_of(name, 3, 1)
        slot = int(np.argmax(scene.sizes))
        scene.give_up("birth", (slot,), times=name == "chain")  # blocks gain nothing here
        Birth().try_out(scene, (slot,))
        assert 0 < scene.spent.n_units < scene.data.n_spans


def test_prior_counts_of_documents_keep_their_sum():
    how = Regroup("component", ((0,), (2,), (1,), ()), (1,))
    model, *_ = papers(0)
    tables = {"pseudo": np.array([0.3, 0.1, 0.2]), "rest": 0.4}
    wanted = {"pseudo": np.array([0.3, 0.2, 0.02, 0.08]), "rest": 0.4}
    edit, after = model.structure.regroup(tables, wanted, how)
    assert isinstance(edit, RegroupDocuments)
    np.testing.assert_allclose(after["pseudo"], [0.3, 0.2, 0.02, 0.08])
    assert after["pseudo"].sum() + after["rest"] == pytest.approx(1.0)
    assert model.structure.regroup({**tables, "rest": 0.0}, wanted, how) is None


@pytest.mark.parametrize("name", ["chain", "documents"])
def test_a_first_look_ends_what_is_hopeless(name, monkeypatch):
    """With the look at a quarter of the units, and exact after it where it goes on."""
    monkeypatch.setattr(trials, "MANY_UNITS", 4)
    scene = scene_of(name, 3, 1)
    ends, goes_on = 0, 0
    for slot in range(len(scene.ids)):
        scene.spent = Spent()
        outcome = Delete().try_out(scene, (slot,))
        touched = len(scene.posteriors.touched((slot,), NOTHING))
        if outcome is None and touched >= 4:
            ends += scene.spent.n_units == round(0.25 * touched) < touched
            assert scene.spent.gain < 0
        elif outcome is not None:
            goes_on += 1
            assert_exact(scene, outcome)
    assert ends
    monkeypatch.setattr(trials, "LEAST_GAIN", -np.inf)
    monkeypatch.setattr(trials, "TIE", -np.inf)
    monkeypatch.setattr(trials, "LOOK", 0.75)
    found = [move.try_out(scene, (0,)) for move in (Birth(n_newborn=2), Delete())]
    for outcome in filter(None, found):
        assert_exact(scene, outcome)


def rare_states(seed: int) -> Scene:
    """Four sequences of four hundred visit two far states, which are one so far."""
    rng, parts, labels = np.random.default_rng(seed), [], []
    for s in range(400):
        states = np.repeat(rng.permutation([2, 3, 4] if s % 100 == 0 else [0, 1]), 10)
        parts.append(MEANS[states] + rng.normal(size=(len(states), 2)))
        labels.append(np.array([0, 1, 2, 3, 3])[states])
    ends = np.r_[0, np.cumsum([len(part) for part in parts])]
    data = Sequences(np.concatenate(parts), offsets=ends)
    model = hdp_hmm(Gaussian().locate(None, 2).resolve(measure(data)))
    start = from_labels(model, data, np.concatenate(labels), 4)
    found = run(model, MemoizedVB(max_iter=5), data, start)
    return Scene(
        model, found.counts, found.params, found.ids, data, Attempts(), rng, 9, True,
        next_id=found.next_id, batches=data.batches(1), warm=found.warm(),
    )  # fmt: skip


def test_births_of_rare_states_look_at_the_sequences_that_hold_them(monkeypatch):
    monkeypatch.setattr(scenes, "SAMPLE_ROWS", 1_000)
    found = []
    for seed in (2, 3, 4):
        scene = rare_states(seed)
        (rare,) = [k for k in range(4) if 70 < scene.sizes[k] < 90]
        assert scene.sample.scale > 5.0
        scene.give_up("birth", (rare,))  # blocks
        outcome = Birth().try_out(scene, (rare,))
        assert scene.spent.n_units <= 4
        found.append(outcome is not None)
        if outcome is not None:
            assert_exact(scene, outcome)
    assert all(found)


def overlapping() -> Scene:
    """Sequences that all hold something of all three states."""
    rng = np.random.default_rng(0)
    data = Sequences(rng.normal(size=(400, 2)), offsets=np.arange(0, 401, 20))
    model = hdp_hmm(Gaussian().locate(None, 2).resolve(measure(data)))
    found = run(model, MemoizedVB(max_iter=2), data, from_blocks(model, data, 3, rng))
    return Scene(
        model, found.counts, found.params, found.ids, data, Attempts(), rng, 9, True,
        next_id=found.next_id, batches=data.batches(1), warm=found.warm(),
    )  # fmt: skip


def test_first_looks_of_a_scene_share_units_that_were_inferred_once(monkeypatch):
    monkeypatch.setattr(trials, "FEW_ROWS", 80)
    monkeypatch.setattr(trials, "FEW_UNITS", 4)
    looks, found = [], trials._seen_first

    def see(scene, part, share):
        looks.append(found(scene, part, share))
        return looks[-1]

    monkeypatch.setattr(trials, "_seen_first", see)
    scene = overlapping()
    passes = []
    for slot in range(3):
        before = scene.spent.n_passes
        Delete(n_passes=1).try_out(scene, (slot,))
        passes.append(scene.spent.n_passes - before)
    (first, bound), *others = looks
    assert len(others) == 2
    assert len(first.units) == 4
    for part, known in others:
        assert part.units.tolist() == first.units.tolist()
        assert known == bound
    assert {part.how.taken for part, _ in looks} == {(0,), (1,), (2,)}
    assert passes[1] < passes[0] - 1.0  # the first infers all units, and then those of the look
    later = replace(scene)
    Delete(n_passes=1).try_out(later, (0,))
    assert looks[-1][0].units.tolist() != first.units.tolist()


def engine_of(**settings) -> MemoizedVB:
    moves = (Birth(n_newborn=4), Merge(), Delete())
    return MemoizedVB(n_batches=3, max_iter=30, moves=moves, **settings)


class StopAt(Callback):
    def __init__(self, lap: int) -> None:
        self.lap = lap

    def on_lap(self, record):
        if record.lap == self.lap:
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chain", "documents"])
def test_trials_are_the_same_for_two_workers_and_after_a_resume(name, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "MANY_UNITS", 8)
    model, data, start = CASES[name](5)
    whole = run(model, engine_of(), data, start)
    assert_never_drops(whole.trace.bound)
    tried = [m for m in whole.trace.moves if m.kind != "merge"]
    (first, *_) = [m for m in tried if m.is_accepted]
    path = tmp_path / "fit"
    for lap in (first.lap - 1, first.lap):
        stopped = engine_of(checkpoint=path, checkpoint_every=0.0, callbacks=(StopAt(lap),))
        run(model, stopped, data, start)
        with workers(2) as pool:
            again = run(model, engine_of(), data, read_checkpoint(path)[1], pool=pool)
        assert again.ids == whole.ids
        assert again.trace.moves == whole.trace.moves
        np.testing.assert_array_equal(again.trace.bound, whole.trace.bound)
        assert all((again.counts[n] == whole.counts[n]).all() for n in whole.counts)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["chain", "documents"])
def test_failed_trials_are_recorded_with_their_cost(name):
    model, data, start = CASES[name](5)
    result = run(model, engine_of(), data, start)
    trace = result.trace
    failed = [m for m in trace.moves if m.kind != "merge" and not m.is_accepted]
    assert any(m.n_units > 0 and m.n_passes > 0 and m.gain < LEAST_GAIN for m in failed)
    assert all(m.seconds > 0 and m.children == () and m.n_units <= data.n_spans for m in failed)
    assert 0 < sum(m.seconds for m in failed) < trace.seconds_of_moves < trace.seconds_of_fit
    assert Trace.from_dict(trace.to_dict()) == trace
    share = trace.seconds_of_moves / trace.seconds_of_fit
    first, *_ = explain(trace.moves, result.ids, (), share).splitlines()
    kept = [m for m in trace.moves if m.is_accepted]
    gain = sum(m.gain for m in kept)
    assert first.startswith(
        f"{len(trace.moves)} moves tried, {len(kept)} accepted, {gain:+.2f} nats, {share:.0%} of"
    )


def test_structures_that_declare_nothing_have_all_units_inferred():
    """So do topic models without an unused rest, from which newborns could be cut."""
    documents = Documents.from_counts(corpus(0, n_documents=24, n_topics=4, tokens=40))
    model = make_model("lda")
    found = run(model, MemoizedVB(max_iter=5), documents, random_start(model, 3))
    rng = np.random.default_rng(0)
    of_fit = model, found.counts, found.params, found.ids, documents
    scene = Scene(*of_fit, Attempts(), rng, 9, True, next_id=3, warm=found.warm())
    Delete().try_out(scene, (0,))
    assert scene.spent.n_units == documents.n_spans
