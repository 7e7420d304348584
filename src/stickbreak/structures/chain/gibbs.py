"""Collapsed Gibbs sampling of chains of symbols, row by row: see `kernels/chain/gibbs.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.kernels.chain.gibbs import StateCounts, sweep_states
from stickbreak.protocols import SweptLane
from stickbreak.stats import Fields

from ..labels import no_states, read_states, require_single
from .collapsed import SweptChain, legal_rows, used_units

__all__ = ["DrawnChain"]


class DrawnChain(SweptChain):
    """The part of a chain that collapsed Gibbs sampling needs: states of rows, and their sweeps."""

    drawn_granularity = "token"
    draws_symbols_only = True

    def own_labels(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """No states yet."""
        return no_states(batch.n_rows)

    def sweep(self, lane: SweptLane) -> tuple[float, float]:
        """With seeds, a state for every row given all others; else as sequences are swept."""
        batch, how, K = lane.batch, lane.how, len(lane.tables["start"])
        if how.seeds is None:
            return super().sweep(lane)
        require_single(batch)
        _require_open(lane.pseudo)
        used = used_units(batch)
        labels = np.repeat(used, np.diff(np.asarray(batch.offsets)))
        states = read_states(lane.own, labels, how.is_part, K)
        words = np.ascontiguousarray(batch.rows[:, 0], dtype=np.int64)
        log_z = sweep_states(
            _count_all(lane, K), words, batch.offsets, used,
            *legal_rows(batch, lane.legal, K), states, how.is_part, how.seeds, how.power,
        )  # fmt: skip
        states[~labels] = -1
        lane.own["state"][...] = states + 1
        self.count(states, batch, lane.out)
        seen = labels & (words >= 0)
        np.add.at(lane.out_live.counts, (words[seen], states[seen]), 1.0)
        np.add.at(lane.out_live.totals, states[seen], 1.0)
        return float(log_z), 0.0


def _count_all(lane: SweptLane, n_components: int) -> StateCounts:
    """Counts and prior counts together, as the kernel has them."""
    live, tables, pseudo = lane.live, lane.tables, lane.pseudo
    start, steps = tables["start"] + pseudo.start, tables["transition"] + pseudo.transition
    return StateCounts(
        start,
        steps,
        np.ascontiguousarray(steps.T),
        steps.sum(1),
        live.counts[:, :n_components] + live.pseudo,
        live.totals[:n_components] + live.pseudo_total,
    )


def _require_open(pseudo: Any) -> None:
    """Raise ValueError for impossible steps, which one row at a time cannot pass."""
    if not (pseudo.start > 0).all() or not (pseudo.transition > 0).all():
        raise ValueError(
            "CollapsedGibbs changes one state at a time and cannot pass steps that the prior "
            "forbids (zeros of start_prior or transition_prior); use Gibbs, which draws whole paths"
        )
