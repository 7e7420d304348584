"""Collapsed Gibbs sampling of chains of symbols, row by row: see `kernels/chain/gibbs.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.kernels.chain.gibbs import StateCounts, sweep_states
from stickbreak.protocols import Array, Out, Sweep
from stickbreak.stats import Field, Fields

from .collapsed import SweptChain, legal_rows, used_units

__all__ = ["DrawnChain"]


class DrawnChain(SweptChain):
    """The part of a chain that collapsed Gibbs sampling needs: states of rows, and their sweeps.

    Rows keep `state` (n,): one more than their state, 0 if there is none.
    """

    drawn_granularity = "token"

    def own_labels(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """No states yet."""
        return Fields({"state": Field(("row",))}, {"state": np.zeros(batch.n_rows, dtype=np.int64)})

    def sweep(
        self,
        live: Any,
        tables: Out,
        pseudo: Any,
        lane: Batch,
        legal: Array | None,
        own: Fields,
        out_live: Any,
        out: Out,
        how: Sweep,
    ) -> tuple[float, float]:
        """With seeds, a state for every row given all others; else as sequences are swept."""
        if how.seeds is None:
            return super().sweep(live, tables, pseudo, lane, legal, own, out_live, out, how)
        K = len(tables["start"])
        _require_drawable(lane, pseudo)
        states, used = own["state"] - 1, used_units(lane)
        labels = np.repeat(used, np.diff(np.asarray(lane.offsets)))
        if how.is_part and ((states[labels] < 0) | (states[labels] >= K)).any():
            raise NumericalError(f"rows have states other than the {K} that there are")
        words = np.ascontiguousarray(lane.rows[:, 0], dtype=np.int64)
        log_z = sweep_states(
            _count_all(live, tables, pseudo, K), words, lane.offsets, used,
            *legal_rows(lane, legal, K), states, how.is_part, how.seeds, how.power,
        )  # fmt: skip
        states[~labels] = -1
        own["state"][...] = states + 1
        self.count(states, lane, out)
        seen = labels & (words >= 0)
        np.add.at(out_live.counts, (words[seen], states[seen]), 1.0)
        np.add.at(out_live.totals, states[seen], 1.0)
        return float(log_z), 0.0


def _count_all(live: Any, tables: Out, pseudo: Any, n_components: int) -> StateCounts:
    """Counts and prior counts together, as the kernel has them."""
    start, steps = tables["start"] + pseudo.start, tables["transition"] + pseudo.transition
    return StateCounts(
        start,
        steps,
        np.ascontiguousarray(steps.T),
        steps.sum(1),
        live.counts[:, :n_components] + live.pseudo,
        live.totals[:n_components] + live.pseudo_total,
    )


def _require_drawable(lane: Batch, pseudo: Any) -> None:
    """Raise ValueError for weights without labels, and for steps that one row cannot go round."""
    repeats = lane.repeats_or_ones()
    bad = repeats[(repeats != 0) & (repeats != 1)]
    if len(bad):
        raise ValueError(
            "samplers draw one label for each row, so weights must be 0 or 1; got "
            f"{bad[0]:g}: repeat such sequences instead, or use a variational engine such as "
            "BatchVB"
        )
    if not (pseudo.start > 0).all() or not (pseudo.transition > 0).all():
        raise ValueError(
            "CollapsedGibbs changes one state at a time and cannot pass steps that the prior "
            "forbids (zeros of start_prior or transition_prior); use Gibbs, which draws whole paths"
        )
