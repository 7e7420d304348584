"""Models of dependency trees: the laws of every structure and model, and collapsed sweeps."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from oracles import dependency

from stickbreak.checks import check_model, check_structure
from stickbreak.data import Companion, Sequences
from stickbreak.families.tags import Tags
from stickbreak.inference import EM, BatchVB, CollapsedVB, Gibbs, HardEM, MeanLog, run
from stickbreak.initialize import from_guess
from stickbreak.models import Model, dependency_model

Array = np.ndarray


def sentences(n_units: int, seed: int, longest: int = 5) -> Sequences:
    """Tags 0, 1, 2 that follow each other more often than not."""
    rng = np.random.default_rng(seed)
    ends = np.r_[0, np.cumsum(rng.integers(1, longest + 1, n_units))]
    tags = (rng.integers(0, 2, ends[-1]).cumsum() % 3)[:, None]
    return Sequences(tags, offsets=ends)


MODEL = dependency_model(Tags(3), concentration=0.3, stop_concentration=0.4, max_length=6)


def potentials_of(model: Model, data: Sequences):
    start = from_guess(model, data, 3, np.random.default_rng(0))
    return model.potentials(start.seed, start.params, MeanLog())


def enumerated(potentials, block) -> float:
    logs = {name: potentials[name] for name in ("root", "stop", "attach")}
    parts = np.split(block.rows, block.offsets[1:-1])
    return sum(dependency.infer(logs, tags)[0] for tags in parts)


def test_the_structure_obeys_the_laws() -> None:
    data = sentences(4, 1)
    check_structure(MODEL, potentials_of(MODEL, data), data.whole(), enumerated)


@pytest.mark.slow
def test_the_model_obeys_the_laws() -> None:
    data = sentences(24, 2)
    check_model(MODEL, data, from_guess(MODEL, data, 3, np.random.default_rng(0)))


@pytest.mark.parametrize("engine", [BatchVB, EM, HardEM])
def test_the_objective_never_drops(engine) -> None:
    data = sentences(20, 3)
    start = from_guess(MODEL, data, 3, np.random.default_rng(1))
    found = run(MODEL, engine(max_iter=20, tol=0.0), data, start).trace.bound
    assert (np.diff(found) > -1e-10 * np.abs(found[:-1])).all()


def swept(data: Sequences, n_laps: int) -> tuple[float, dict[str, Array]]:
    """Bound and counts after laps in which each sentence is enumerated given all others."""
    start = from_guess(MODEL, data, 3, np.random.default_rng(0), jitter=0.0)
    own = MODEL.structure.guess_own(data.whole(), 3, "tag", np.random.default_rng(0), 0.0)
    parts, total = np.split(data.rows[:, 0], data.offsets[1:-1]), dict(start.seed.arrays)
    kept = [guessed_counts(own, lo, tags) for lo, tags in zip(data.offsets, parts, strict=False)]
    for _ in range(n_laps):
        entropy = 0.0
        for s, tags in enumerate(parts):
            others = {name: total[name] - kept[s][name] for name in total}
            logs = MODEL.prior.predictive(others, start.params)
            log_z, kept[s], *_ = dependency.infer(logs, tags)
            entropy += log_z - sum(float((logs[n] * kept[s][n]).sum()) for n in logs)
            total = {name: others[name] + kept[s][name] for name in total}
    return MODEL.prior.log_rise(total, start.params) + entropy, total


def guessed_counts(own, lo: int, tags: Array) -> dict[str, Array]:
    out = dict(MODEL.prior.zeros(3))
    for a, tag in enumerate(tags):
        out["root"][tag] += own["heads"][lo + a, 0]
        out["stop"][tag] += own["choice"][lo + a]
        for h, head in enumerate(tags):
            out["attach"][head, int(a > h), tag] += own["heads"][lo + a, h + 1]
    return out


@pytest.mark.parametrize("n_laps", [1, 4])
def test_collapsed_sweeps_equal_enumeration_given_all_others(n_laps: int) -> None:
    data = sentences(5, 4, longest=4)
    start = from_guess(MODEL, data, 3, np.random.default_rng(0), jitter=0.0)
    result = run(MODEL, CollapsedVB(max_iter=n_laps, tol=0.0), data, start)
    bound, counts = swept(data, n_laps)
    # own counts are kept in single precision
    assert result.bound == pytest.approx(bound, abs=1e-4)
    for name, table in counts.items():
        np.testing.assert_allclose(result.counts[name], table, atol=1e-5)


def test_the_bound_of_collapsed_sweeps_is_below_the_evidence() -> None:
    data = sentences(3, 4, longest=3)
    start = from_guess(MODEL, data, 3, np.random.default_rng(0))
    result = run(MODEL, CollapsedVB(max_iter=5, tol=0.0), data, start)
    parts = np.split(data.rows[:, 0], data.offsets[1:-1])
    each = [counts_of(dependency.all_trees(len(tags)), tags) for tags in parts]
    joints = [MODEL.prior.log_rise(sum_of(trees), start.params) for trees in product(*each)]
    assert result.bound < float(np.logaddexp.reduce(joints))


def counts_of(trees: list[Array], tags: Array) -> list[dict[str, Array]]:
    return [dependency.counts_of(heads, tags, 3) for heads in trees]


def sum_of(parts: tuple[dict[str, Array], ...]) -> dict[str, Array]:
    return {name: sum(part[name] for part in parts) for name in parts[0]}


def test_collapsed_sweeps_leave_the_counts_of_what_sentences_keep() -> None:
    data = sentences(20, 5)
    start = from_guess(MODEL, data, 3, np.random.default_rng(0))
    result = run(MODEL, CollapsedVB(max_iter=3, tol=0.0), data, start)
    own = result.warm()
    assert own is not None
    heads = own["heads"].astype(float)
    np.testing.assert_allclose(heads.sum(1), 1.0, atol=1e-5)
    assert result.counts["root"].sum() == pytest.approx(heads[:, 0].sum(), rel=1e-9)
    sizes = np.bincount(data.rows[:, 0], minlength=3)
    np.testing.assert_allclose(MODEL.prior.sizes(result.counts), sizes, rtol=1e-5)


def test_drawn_trees_count_as_trees() -> None:
    data = sentences(20, 6)
    start = from_guess(MODEL, data, 3, np.random.default_rng(0))
    counts = run(MODEL, Gibbs(max_iter=3), data, start).counts
    assert counts["root"].sum() == 20
    assert (counts["stop"] == np.rint(counts["stop"])).all()
    np.testing.assert_array_equal(MODEL.prior.sizes(counts), np.bincount(data.rows[:, 0]))


def test_known_heads_are_kept_by_every_engine() -> None:
    data = sentences(12, 7)
    first = data.offsets[:-1]
    known = np.full(data.n_rows, -1)
    known[first] = 0  # the first word is the root
    told = Sequences(data.rows, offsets=data.offsets, companion=Companion(known, data.offsets))
    start = from_guess(MODEL, told, 3, np.random.default_rng(0))
    for engine in (BatchVB(max_iter=3), CollapsedVB(max_iter=3)):
        counts = run(MODEL, engine, told, start).counts
        expected = np.bincount(data.rows[first, 0], minlength=3)
        np.testing.assert_allclose(counts["root"], expected, atol=1e-5)


def test_lanes_are_cut_by_work() -> None:
    offsets = np.r_[0, np.cumsum([40] * 100 + [10] * 6000)]
    data = Sequences(np.zeros((offsets[-1], 1)), offsets=offsets)
    work, parts = MODEL.structure.unit_work(data.whole()), MODEL.lanes(data.whole())
    assert len(parts) > 1
    sums = [work[part.unit_at : part.unit_at + part.n_spans].sum() for part in parts]
    assert max(sums) < 1.1 * min(sums)
    assert parts[0].n_rows < 0.5 * parts[-1].n_rows
