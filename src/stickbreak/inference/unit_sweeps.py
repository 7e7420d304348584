"""Collapsed sweeps without live counts: for every family, unit by unit, through the contract.

The counts of some units leave, potentials are made from all others', each unit is inferred by the
ordinary local step, and its counts come back. Potentials of all components for every unit cost far
more than a compiled sweep; more units that share an exclusion (`Sweep.block`) make up for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Array, Local, Potentials, Rule, Sweep, Watch
from stickbreak.stats import Fields, Summary, Tally

from .rules import BaseRule

if TYPE_CHECKING:
    from stickbreak.models import Model, ModelPotentials

__all__ = ["KeptShares", "sweep_units"]


@dataclass(frozen=True)
class KeptShares:
    """Watch that keeps the shares (n, K) of the rows of a local step."""

    shares: Array
    name = "shares"

    def at(self, model: Model, counts: Summary, batch: Batch, rule: Rule) -> Watch:
        """Itself."""
        return self

    def empty_side(self, model: Model, potentials: Potentials) -> Summary:
        """Nothing."""
        return Summary({}, {})

    def observe(
        self,
        model: Model,
        potentials: Potentials,
        block: Batch,
        raw: Batch,
        local: Local,
        side: Summary,
    ) -> Summary:
        """Keep the shares of one block."""
        self.shares[raw.row_at : raw.row_at + raw.n_rows] = local.shares
        return side


def sweep_units(
    rule: BaseRule,
    model: Model,
    counts: Summary,
    params: Fields,
    job: tuple[Batch, Fields, Sweep],
) -> tuple[Summary, Fields]:
    """One lane, on its own copy of the counts. Its units' own counts are changed in place."""
    lane, own, how = job
    live, total = Tally(counts), Tally(counts.empty())
    scores = rule.pick(model.family)(counts)  # for the statistics of rows, which are not its own
    leaves = how.is_part and how.moves
    for first in range(0, lane.n_spans, how.block):
        part = lane.part(first, min(first + how.block, lane.n_spans))
        mine, part = own.cut(**part.cut), part.alone()
        if leaves:
            live.subtract(_count(model, scores, counts, part, mine))
        log_z = local_bound = 0.0
        if how.moves:
            log_z, local_bound = _infer(
                model, rule.potentials(model, live.view(), params), part, mine
            )
        new = _count(model, scores, counts, part, mine)
        if leaves:
            live.add(new)
        total.add(replace(new, log_z=log_z, local_bound=local_bound))
    return replace(total.summary(), n_units=lane.n_units), own


def _infer(
    model: Model, potentials: ModelPotentials, part: Batch, own: Fields
) -> tuple[float, float]:
    """Infer every unit under these potentials, and keep it. Returns log_z and the local bound."""
    log_z = local_bound = 0.0
    for u in range(part.n_spans):
        unit = part.part(u, u + 1)
        watch = KeptShares(np.empty((unit.n_rows, potentials.empty.size(model.axis))))
        found, _ = model.local_step(potentials, unit.alone(), None, (watch,))
        model.structure.keep_own(watch.shares, dict(found.arrays), own.cut(**unit.cut))
        log_z, local_bound = log_z + found.log_z, local_bound + found.local_bound
    return log_z, local_bound


def _count(model: Model, scores: Any, counts: Summary, part: Batch, own: Fields) -> Summary:
    """Counts of units, as they are kept."""
    found = counts.empty()
    out = dict(found.arrays)
    shares = model.structure.count_own(part, own, out)
    scores.collect(model.family.prepare(part.rows), np.asfortranarray(shares), out)
    return replace(found, arrays=out)
