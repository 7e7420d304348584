"""The battery that every structure must pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Array

from .families import _assert_close

__all__ = ["check_structure"]


def check_structure(
    model: Any,
    potentials: Any,
    batch: Batch,
    enumerate_log_z: Callable[[Any, Batch], float] | None = None,
) -> None:
    """Check a model's structure on a small batch; an AssertionError says what fails.

    Two laws: log_z equals brute-force enumeration (if you give one), and the derivative of log_z
    with respect to a log potential is the expected count. Also: shares sum to the repeats, log_z
    adds up over units, the best labeling is no better than the sum over all, and `best` returns it.

    Parameters
    ----------
    model, potentials : a model that uses the structure, and its potentials
        (`model.potentials(...)`).
    batch : a few units; rows in the user's form.
    enumerate_log_z : function of (potentials, prepared batch) that sums over all labelings.
    """
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
    _check_best(model, potentials, block, local.log_z)


def _infer(model: Any, potentials: Any, block: Batch) -> tuple[Any, dict[str, Array]]:
    out = dict(potentials.empty.empty().arrays)
    warm = model.structure.cold_start(block, potentials.empty.size(model.axis), model.axis)
    return model.structure.infer(potentials, block, warm, out), out


def _check_derivative(
    model: Any, potentials: Any, block: Batch, name: str, table: Array, counts: Array
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


def _check_best(model: Any, potentials: Any, block: Batch, log_z: float) -> None:
    out = dict(potentials.empty.empty().arrays)
    warm = model.structure.cold_start(block, potentials.empty.size(model.axis), model.axis)
    best = model.structure.infer_best(potentials, block, warm, out)
    assert best.log_z <= log_z + 1e-9 * max(1.0, abs(log_z)), (
        "the best labelling must not beat the sum over all"
    )
    labels = model.structure.best(potentials, block)
    chosen = best.shares[np.arange(len(labels)), labels]
    _assert_close(
        chosen, block.repeats_or_ones(), 1e-12, "best must give the labelling of infer_best"
    )
    drawn = model.structure.sample(potentials, block, np.random.default_rng(0))
    assert drawn.shape == labels.shape, f"sample gave shape {drawn.shape}; expected {labels.shape}"
