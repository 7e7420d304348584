"""Jobs over lanes: what a model does with one parallel part of a batch, block by block.

Jobs are module-level functions of plain values, so they pickle and any executor can run them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.protocols import Array, Local, Out, Pool, Watch
from stickbreak.stats import Field, Fields, Summary, join
from stickbreak.structures import Best, LongUnit, Piece

if TYPE_CHECKING:
    from .base import Model, ModelPotentials

__all__ = [
    "all_shares", "all_steps", "decode_lane", "evidence_lane", "filter_lane",
    "held_lane", "impute_lane", "infer_batch", "infer_lane", "inferred", "last_shares",
    "paths_lane", "prepared", "require_finite", "shares_lane", "unit_shares_lane",
]  # fmt: skip

Filtered = tuple[Array, Array]


def prepared(
    model: Model, potentials: ModelPotentials, lane: Batch
) -> Iterator[tuple[Batch, Batch]]:
    """The blocks of a lane, as given by the user and as prepared by the family."""
    for block in model.blocks(lane, potentials.empty.size(model.axis)):
        yield block, block.with_rows(model.family.prepare(block.rows))


def held_or_long(
    model: Model, potentials: ModelPotentials, lane: Batch
) -> Iterator[Batch | LongUnit]:
    """The blocks of a lane. A block with a unit too long for it comes unit by unit."""
    n_components = potentials.empty.size(model.axis)
    max_rows = model.block_rows(n_components)
    for block in model.blocks(lane, n_components):
        is_held = block.n_rows <= 2 * max_rows or block.windows is not None
        if is_held or not model.structure.cuts_units:
            yield block
            continue
        for u in range(block.n_spans):
            unit = block.part(u, u + 1)
            is_long = unit.n_rows > 2 * max_rows
            yield LongUnit(model.family.prepare, potentials, unit, max_rows) if is_long else unit


# ---------------------------------------------------------------------------------- local step


def inferred(
    model: Model, potentials: ModelPotentials, lane: Batch, warm: Fields | None, out: Out
) -> Iterator[Piece]:
    """The blocks of a lane, as given and as prepared, with their posteriors."""
    infer = model.step.infer_by(model.structure)
    for part in held_or_long(model, potentials, lane):
        raw = part.raw if isinstance(part, LongUnit) else part
        own = None if warm is None else warm.cut(**raw.cut)
        if isinstance(part, LongUnit):
            yield from model.structure.infer_long(model.step, part, own, out)
            continue
        block = raw.with_rows(model.family.prepare(raw.rows))
        yield raw, block, infer(potentials, block, own, out)


def infer_batch(
    job: Callable[..., tuple[Summary, Fields | None]],
    model: Model,
    potentials: ModelPotentials,
    batch: Batch,
    warm: Fields | None,
    watches: Sequence[Watch],
    pool: Pool,
) -> tuple[Summary, Fields | None]:
    """A batch by a job for each lane: `infer_lane` or `held_lane`. The tree of `gather` sums."""
    n_components = potentials.empty.size(model.axis)
    if not model.step.starts_alone:
        warm = model.step.start(model.structure, batch, n_components, model.axis, warm)
    parts = model.lanes(batch)
    jobs = [(lane.alone(), None if warm is None else warm.cut(**lane.cut)) for lane in parts]
    total, kept = pool.total(partial(job, model, potentials, tuple(watches)), jobs)
    return total, join(kept) if kept else None


def infer_lane(
    model: Model,
    potentials: ModelPotentials,
    watches: tuple[Watch, ...],
    job: tuple[Batch, Fields | None],
) -> tuple[Summary, Fields | None]:
    """Counts of one lane. The local bound is taken once, from the sums."""
    return _infer_and_see(model, potentials, watches, job, _see_nothing)


def held_lane(
    model: Model,
    potentials: ModelPotentials,
    watches: tuple[Watch, ...],
    job: tuple[Batch, Fields | None],
) -> tuple[Summary, Fields]:
    """As `infer_lane`; values of units include "held", their rows of each component."""
    held = np.zeros((job[0].n_spans, potentials.empty.size(model.axis)))

    def see(raw: Batch, local: Local) -> None:
        held[raw.cut["unit"]] += model.structure.held(raw, local)

    summary, warm = _infer_and_see(model, potentials, watches, job, see)
    kept = Fields({}, {}) if warm is None else warm
    layout = {**kept.layout, "held": Field(("unit", model.axis))}
    return summary, Fields(layout, {**kept.arrays, "held": held})


def _see_nothing(raw: Batch, local: Local) -> None:
    """Of blocks of which only the sums are wanted."""


def _infer_and_see(
    model: Model,
    potentials: ModelPotentials,
    watches: tuple[Watch, ...],
    job: tuple[Batch, Fields | None],
    see: Callable[[Batch, Local], None],
) -> tuple[Summary, Fields | None]:
    lane, warm = job
    if warm is None:
        n_components = potentials.empty.size(model.axis)
        warm = model.step.start(model.structure, lane, n_components, model.axis)
    else:
        warm = warm.copy()
    summary = potentials.empty.empty()
    out = dict(summary.arrays)
    sides = {w.name: w.empty_side(model, potentials) for w in watches}
    log_z = own_bound = paired = 0.0
    for raw, block, local in inferred(model, potentials, lane, warm, out):
        potentials.scores.collect(block.rows, local.shares, out)
        if potentials.pairs_rows:
            evidence = potentials.scores.evidence(block.rows)
            paired += float(np.vdot(np.asarray(local.shares).T, evidence.T))
        log_z, own_bound = log_z + local.log_z, own_bound + local.own_bound
        see(raw, local)
        for w in watches:
            sides[w.name] = w.observe(model, potentials, block, raw, local, sides[w.name])
    if potentials.pairs_rows:
        paired += potentials.pair_tables(out)
    else:
        paired = potentials.pair(out)
    local_bound = log_z + own_bound - paired
    require_finite(log_z, potentials)
    summary = replace(summary, arrays=out, sides=sides, local_bound=local_bound)
    return replace(summary, log_z=log_z, n_units=lane.n_units), warm


def require_finite(log_z: float, potentials: ModelPotentials) -> None:
    """Raise NumericalError for a log normalizer that is not finite."""
    if not math.isfinite(log_z):
        what = (
            "not a number"
            if potentials.log_legal is None
            else "not a number, or a row without a legal component"
        )
        raise NumericalError(
            f"the local step gave log_z = {log_z} ({what}); check the data's scale and the "
            "family's prior"
        )


# ---------------------------------------------------------------------------------- readers


def decode_lane(model: Model, potentials: ModelPotentials, lane: Batch) -> Array:
    """(n,) best component of each row."""
    structure = model.structure
    if isinstance(model.step, Best):
        if structure.is_ordered:
            return paths_lane(model, potentials, lane)[0]
        return np.concatenate(
            [structure.best(potentials, block) for _, block in prepared(model, potentials, lane)]
        )
    if not structure.cuts_units:
        return np.concatenate(
            [structure.decode(potentials, block) for _, block in prepared(model, potentials, lane)]
        )
    best, tables = np.empty(lane.n_rows, dtype=np.int64), dict(potentials.empty.empty().arrays)
    lane = replace(lane.alone(), repeats=None)  # rows of weight zero need a label too
    for block, _, local in inferred(model, potentials, lane, None, tables):
        best[block.row_at : block.row_at + block.n_rows] = np.asarray(local.shares).argmax(1)
    return best


def shares_lane(model: Model, potentials: ModelPotentials, lane: Batch) -> Array:
    """(n, K) posterior shares of each row."""
    if model.structure.cuts_units and lane.repeats is None:
        out = np.empty((lane.n_rows, potentials.empty.size(model.axis)))
        tables = dict(potentials.empty.empty().arrays)
        for block, _, local in inferred(model, potentials, lane.alone(), None, tables):
            out[block.row_at : block.row_at + block.n_rows] = local.shares
        return out
    return np.concatenate(
        [_shares(model, potentials, block) for _, block in prepared(model, potentials, lane)]
    )


def _shares(model: Model, potentials: ModelPotentials, block: Batch) -> Array:
    out, block = dict(potentials.empty.empty().arrays), block.alone()
    n_components = potentials.empty.size(model.axis)
    warm = model.step.start(model.structure, block, n_components, model.axis)
    local = model.step.infer_by(model.structure)(potentials, block, warm, out)
    require_finite(local.log_z, potentials)
    shares = np.ascontiguousarray(local.shares)
    return shares if block.repeats is None else shares / block.repeats[:, None]


def unit_shares_lane(model: Model, potentials: ModelPotentials, lane: Batch) -> Array:
    """(units, K) posterior mean shares."""
    unit_shares = model.structure.unit_shares
    return np.concatenate(
        [unit_shares(potentials, block) for _, block in prepared(model, potentials, lane)]
    )


def filter_lane(
    model: Model, potentials: ModelPotentials, pick: Callable[..., Array], lane: Batch
) -> Array:
    """The part of a filter's result that `pick` selects, for all pieces."""
    parts: list[Array] = []
    for part in held_or_long(model, potentials, lane):
        if isinstance(part, LongUnit):
            end = part.raw.row_at + part.raw.n_rows
            for piece, found in model.structure.filter_long(part):
                parts.append(pick(found, piece, piece.row_at + piece.n_rows == end))
        else:
            block = part.with_rows(model.family.prepare(part.rows))
            parts.append(pick(model.structure.filter(potentials, block), part, True))
    return np.concatenate(parts)


def all_shares(found: Filtered, part: Batch, is_end: bool) -> Array:
    """(n, K) shares of all rows."""
    return found[0]


def all_steps(found: Filtered, part: Batch, is_end: bool) -> Array:
    """(n,) log predictive densities of all rows."""
    return found[1]


def last_shares(found: Filtered, part: Batch, is_end: bool) -> Array:
    """Shares of the last row of each unit that ends here."""
    assert part.offsets is not None
    return found[0][part.offsets[1:] - 1] if is_end else found[0][:0]


def paths_lane(model: Model, potentials: ModelPotentials, lane: Batch) -> tuple[Array, Array]:
    """Best labeling (n,) of each unit, and its log weight (units,)."""
    found: list[tuple[Array, Array]] = []
    for part in held_or_long(model, potentials, lane):
        if isinstance(part, LongUnit):
            found.append(model.structure.viterbi_long(part))
        else:
            block = part.with_rows(model.family.prepare(part.rows))
            found.append(model.structure.viterbi(potentials, block))
    paths, values = zip(*found, strict=True)
    return np.concatenate(paths), np.concatenate(values)


def impute_lane(model: Model, potentials: ModelPotentials, counts: Summary, lane: Batch) -> Array:
    """(n, D) rows with missing entries replaced by their expectation."""
    return np.concatenate(
        [
            model.family.impute(counts, raw.rows, _shares(model, potentials, block))
            for raw, block in prepared(model, potentials, lane)
        ]
    )


def evidence_lane(model: Model, potentials: ModelPotentials, lane: Batch) -> Array:
    """(units,) log normalizers."""
    log_evidence = model.structure.log_evidence
    found = np.concatenate(
        [log_evidence(potentials, block) for _, block in prepared(model, potentials, lane)]
    )
    require_finite(float(found.sum()), potentials)
    return found
