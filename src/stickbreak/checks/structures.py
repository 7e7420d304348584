"""The battery that every structure must pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.models import Model
from stickbreak.protocols import Array
from stickbreak.structures import BaseStructure

from .families import _assert_close
from .requirements import STRUCTURE, defines, require_methods

__all__ = ["check_structure"]


def check_structure(
    model: Model,
    potentials: Any,
    batch: Batch,
    enumerate_log_z: Callable[[Any, Batch], float] | None = None,
) -> None:
    """Check a model's structure on a small batch; an AssertionError says what fails.

    Two laws: log_z equals brute-force enumeration (if you give one), and the derivative of log_z
    with respect to a log potential is the expected count. Also: shares sum to the repeats, log_z
    adds up over units, and unknown labels count for nobody.

    It must define what `BaseStructure` says; what it leaves to the base class is not checked.
    Otherwise: the best labeling is no better than the sum over all, and `best` returns it; a drawn
    labeling is one; filtered steps add up to log_z; and it can do what it declares.

    Parameters
    ----------
    model, potentials : a model that uses the structure, and its potentials
        (`model.potentials(...)`).
    batch : a few units; rows in the user's form.
    enumerate_log_z : function of (potentials, prepared batch) that sums over all labelings.
    """
    _check_declared(model.structure)
    block = batch.with_rows(model.family.prepare(batch.rows))
    local, out = _infer(model, potentials, block)
    if enumerate_log_z is not None:
        _assert_close(
            local.log_z, enumerate_log_z(potentials, block), 1e-10, "log_z must equal enumeration"
        )
    _assert_close(
        local.shares.sum(1), batch.repeats_or_ones(), 1e-10, "shares must sum to the repeats"
    )
    for name, table in potentials.tables.items():
        if name in out:
            _check_derivative(
                model, potentials, block, name, np.asarray(table, dtype=float), out[name]
            )
    units = [batch.part(i, i + 1).alone() for i in range(batch.n_spans)]
    alone = sum(
        _infer(model, potentials, u.with_rows(model.family.prepare(u.rows)))[0].log_z for u in units
    )
    _assert_close(local.log_z, alone, 1e-10, "log_z must add up over units")
    _check_labels(model, potentials, block)
    if model.structure.has_best:
        _check_best(model, potentials, block, local.log_z)
    if model.structure.draws:
        _check_drawn(model, potentials, block)
    if model.structure.is_ordered:
        _check_ordered(model, potentials, replace(block, repeats=None))


def _check_declared(structure: Any) -> None:
    """What is declared has its methods, and they are declared."""
    require_methods(structure, BaseStructure, STRUCTURE)
    for declared, method in (("has_best", "infer_best"), ("draws", "infer_drawn")):
        found = getattr(structure, declared)
        assert found == defines(structure, BaseStructure, method), (
            f"{declared} is {found}; it must say whether there is a method `{method}`"
        )
    if structure.has_best:
        require_methods(structure, BaseStructure, ("best",))
    needed = {"merge": "merge_terms", "redistribute": "redistribute"}
    for move in structure.tracks:
        assert move in needed, f"tracks holds {move!r}; a lap can watch {', '.join(needed)}"
        require_methods(structure, BaseStructure, (needed[move],))
    if structure.is_ordered:
        require_methods(structure, BaseStructure, ("filter", "viterbi", "walk"))
    if structure.cuts_units:
        require_methods(structure, BaseStructure, ("infer_long",))


def _infer(model: Model, potentials: Any, block: Batch) -> tuple[Any, dict[str, Array]]:
    out = dict(potentials.empty.empty().arrays)
    warm = model.structure.cold_start(block, potentials.empty.size(model.axis), model.axis)
    return model.structure.infer(potentials, block, warm, out), out


def _check_derivative(
    model: Model, potentials: Any, block: Batch, name: str, table: Array, counts: Array
) -> None:
    h = 1e-5
    for at in np.ndindex(*table.shape):
        if not np.isfinite(table[at]):
            continue
        values = []
        for step in (h, -h):
            moved = table.copy()
            moved[at] += step
            changed = replace(potentials, tables={**potentials.tables, name: moved})
            values.append(_infer(model, changed, block)[0].log_z)
        slope = (values[0] - values[1]) / (2 * h)
        # tolerance: rounding of log_z over the step of the central difference
        _assert_close(
            slope, counts[at], 1e-5, f"d log_z / d {name}{list(at)} must be the expected count"
        )


def _check_best(model: Model, potentials: Any, block: Batch, log_z: float) -> None:
    out = dict(potentials.empty.empty().arrays)
    warm = model.structure.cold_start(block, potentials.empty.size(model.axis), model.axis)
    best = model.structure.infer_best(potentials, block, warm, out)
    assert best.log_z <= log_z + 1e-9 * max(1.0, abs(log_z)), (
        "the best labeling must not beat the sum over all"
    )
    labels = model.structure.best(potentials, block)
    chosen = np.asarray(best.shares)[np.arange(len(labels)), labels]
    _assert_close(
        chosen, block.repeats_or_ones(), 1e-12, "best must give the labeling of infer_best"
    )


def _check_labels(model: Model, potentials: Any, block: Batch) -> None:
    structure, n = model.structure, (block.n_rows,)
    found = structure.log_evidence(potentials, block)
    assert found.shape == (block.n_spans,), (
        f"log_evidence gave shape {found.shape}; expected ({block.n_spans},), one for each unit"
    )
    labels = structure.decode(potentials, block)
    assert labels.shape == n, f"decode gave shape {labels.shape}; expected {n}"
    out = dict(potentials.empty.empty().arrays)
    structure.count(np.full(n, -1), block, out)
    assert not any(array.any() for array in out.values()), "label -1 must count for nobody"
    if defines(structure, BaseStructure, "sample"):
        drawn = structure.sample(potentials, block, np.random.default_rng(0))
        assert drawn.shape == n, f"sample gave shape {drawn.shape}; expected {n}"


def _check_drawn(model: Model, potentials: Any, block: Batch) -> None:
    size = (block.n_rows, model.structure.n_uniforms)
    uniforms, out = np.random.default_rng(0).random(size), potentials.empty.empty().arrays
    uniforms = uniforms[:, 0] if size[1] == 1 else uniforms
    local = model.structure.infer_drawn(potentials, block, uniforms, dict(out))
    shares, repeats = np.asarray(local.shares), block.repeats_or_ones()
    if model.structure.labels_repeats:
        message = "infer_drawn must give a label for every repeat of a row"
        _assert_close(shares.sum(1), repeats, 1e-12, message)
        _assert_close(shares, np.rint(shares), 1e-12, message)
        return
    _assert_close(shares.max(1), repeats, 1e-12, "infer_drawn must give one label a row")
    _assert_close(shares.sum(1), shares.max(1), 1e-12, "infer_drawn must give one label a row")


def _check_ordered(model: Model, potentials: Any, block: Batch) -> None:
    structure = model.structure
    shares, steps = structure.filter(potentials, block)
    _assert_close(shares.sum(1), 1.0, 1e-10, "filtered probabilities must sum to one")
    starts = np.arange(block.n_rows) if block.offsets is None else block.offsets[:-1]
    evidence = structure.log_evidence(potentials, block)
    _assert_close(
        np.add.reduceat(steps, starts), evidence, 1e-10, "filtered steps must add up to log_z"
    )
    path, value = structure.viterbi(potentials, block)
    assert (value <= evidence + 1e-9 * np.maximum(1.0, np.abs(evidence))).all(), (
        "the best path must not beat the sum over all"
    )
    assert np.array_equal(path, structure.best(potentials, block)), "best must be the best path"
