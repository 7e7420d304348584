"""Models of constituent trees: the laws of every structure and model, and collapsed sweeps."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from oracles import tree

from stickbreak.checks import check_model, check_structure
from stickbreak.data import Batch, Sequences, Table, measure
from stickbreak.families import Categorical, Gaussian
from stickbreak.inference import EM, BatchVB, CollapsedVB, Gibbs, HardEM, MeanLog, run
from stickbreak.initialize import from_local
from stickbreak.models import Model, finite_grammar

Array = np.ndarray


def sentences(n_units: int, seed: int, longest: int = 4) -> Sequences:
    rng = np.random.default_rng(seed)
    ends = np.r_[0, np.cumsum(rng.integers(1, longest + 1, n_units))]
    return Sequences((rng.integers(0, 2, ends[-1]).cumsum() % 3)[:, None], offsets=ends)


MODEL = finite_grammar(Categorical(0.4, n_symbols=(3,)), concentration=0.3)


def potentials_of(model: Model, data: Sequences, K: int = 2):
    start = from_local(model, data, K, np.random.default_rng(0))
    return model.potentials(start.seed, start.params, MeanLog())


def enumerated(potentials: Any, block: Batch) -> float:
    evidence = potentials.scores.evidence(block.rows)
    tables = {name: potentials[name] for name in ("root", "kind", "binary_rule")}
    parts = np.split(evidence, block.offsets[1:-1])
    return sum(tree.infer(tables, part)[0] for part in parts)


def test_the_structure_obeys_the_laws() -> None:
    data = sentences(4, 1)
    check_structure(MODEL, potentials_of(MODEL, data), data.whole(), enumerated)


@pytest.mark.slow
def test_the_model_obeys_the_laws() -> None:
    data = sentences(24, 2)
    check_model(MODEL, data, from_local(MODEL, data, 3, np.random.default_rng(0)))


@pytest.mark.parametrize("engine", [BatchVB, EM, HardEM])
def test_the_objective_never_drops(engine: Any) -> None:
    data = sentences(20, 3)
    start = from_local(MODEL, data, 3, np.random.default_rng(1))
    found = run(MODEL, engine(max_iter=15, tol=0.0), data, start).trace.bound
    assert (np.diff(found) > -1e-10 * np.abs(found[:-1])).all()


@pytest.mark.parametrize("n_laps", [1, 3])
def test_collapsed_sweeps_equal_enumeration_given_all_others(n_laps: int) -> None:
    data, K = sentences(4, 4, longest=3), 2
    start = from_local(MODEL, data, K, np.random.default_rng(0))
    result = run(MODEL, CollapsedVB(max_iter=n_laps, tol=0.0), data, start)
    assert start.warm is not None
    own, parts = start.warm, np.split(data.rows[:, 0], data.offsets[1:-1])
    kept = [
        counted(tags, own["rows"][lo : lo + len(tags)], own["roots"][s], own["rules"][s])
        for s, (lo, tags) in enumerate(zip(data.offsets, parts, strict=False))
    ]
    total = {name: sum(part[name] for part in kept) for name in kept[0]}
    for _ in range(n_laps):
        entropy = 0.0
        for s, tags in enumerate(parts):
            others = {name: total[name] - kept[s][name] for name in total}
            logs = MODEL.prior.predictive(others, start.params)
            evidence = MODEL.family.log_mean(others).evidence(tags[:, None])
            log_z, found, *_ = tree.infer(logs, evidence)
            paired = sum(float((logs[n] * found[n]).sum()) for n in logs)
            entropy += log_z - paired - float((evidence * found["rows"]).sum())
            kept[s] = counted(tags, found["rows"], found["root"], found["binary_rule"])
            total = {name: others[name] + kept[s][name] for name in total}
    rise = MODEL.prior.log_rise(total, start.params) + MODEL.family.log_marginal(total).sum()
    # own counts are kept in single precision
    assert result.bound == pytest.approx(rise + entropy, abs=1e-4)
    for name, table in total.items():
        np.testing.assert_allclose(result.counts[name], table, atol=1e-5)


def counted(tags: Array, rows: Array, root: Array, rules: Array) -> dict[str, Array]:
    """Counts of one sentence."""
    emission = np.zeros((3, len(root)))
    np.add.at(emission, tags, rows)
    kind = np.column_stack([rows.sum(0), rules.sum((1, 2))])
    return {
        "root": np.array(root, dtype=float),
        "kind": kind.astype(float),
        "binary_rule": np.array(rules, dtype=float),
        "emission": emission,
        "emission_total": emission.sum(0)[None],
    }


def test_collapsed_sweeps_of_other_families_go_sentence_by_sentence() -> None:
    rng = np.random.default_rng(5)
    ends = np.r_[0, np.cumsum(rng.integers(1, 5, 8))]
    rows = rng.normal(size=(ends[-1], 2)) + 3.0 * rng.integers(0, 2, ends[-1])[:, None]
    family = Gaussian(mean_strength=0.1).resolve(measure(Table(rows)))
    model, data = finite_grammar(family), Sequences(rows, offsets=ends)
    start = from_local(model, data, 2, rng)
    result = run(model, CollapsedVB(max_iter=3), data, start)
    counts = result.counts
    assert counts["kind"].sum(0) == pytest.approx([ends[-1], ends[-1] - 8], rel=1e-5)
    assert np.isfinite(result.bound)


def test_drawn_trees_count_as_trees() -> None:
    data = sentences(20, 6)
    start = from_local(MODEL, data, 3, np.random.default_rng(0))
    counts = run(MODEL, Gibbs(max_iter=3), data, start).counts
    assert counts["root"].sum() == 20
    assert (counts["binary_rule"] == np.rint(counts["binary_rule"])).all()
    assert counts["kind"].sum(0).tolist() == [data.n_rows, data.n_rows - 20]


def test_moves_edit_all_tables_of_rules() -> None:
    data = sentences(10, 7)
    start = from_local(MODEL, data, 3, np.random.default_rng(0))
    merged = start.seed.merge("category", 0, 2)
    expected = start.seed["binary_rule"].sum()
    assert merged["binary_rule"].shape == (2, 2, 2)
    assert merged["binary_rule"].sum() == pytest.approx(expected)
    order = [1, 0, 2]
    mixed = start.seed.permute("category", order)["binary_rule"]
    for a, b, c in product(range(3), repeat=3):
        assert mixed[a, b, c] == start.seed["binary_rule"][order[a], order[b], order[c]]
