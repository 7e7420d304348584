"""Collapsed sweeps of chains: what sequences keep, and their counts without each other's.

Own counts: `rows` (n, K), the posterior of every row, and `pairs` (units, K, K), the expected steps
of every sequence. They are float32: what is added is what was kept, so that what leaves is what was
added, and the total is summed afresh every lap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.kernels.chain.collapsed import (
    Steps,
    count_sequences,
    random_chains,
    sweep_sequences,
)
from stickbreak.kernels.collapsed import LiveTable
from stickbreak.kernels.tables import padded
from stickbreak.protocols import Array, Out, Sweep
from stickbreak.stats import Field, Fields

from ..base import BaseStructure

__all__ = ["SweptChain", "legal_rows", "require_possible", "used_units"]

KEPT = np.float32
DRAWN = 1 << 20  # random numbers at a time, so that they stay in the cache


class SweptChain(BaseStructure):
    """The part of a chain that collapsed inference needs: own counts of sequences, and sweeps."""

    granularities = ("sequence",)

    def own_counts(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """Rows (n, K) and pairs (units, K, K), none yet."""
        K = n_components
        layout = {"rows": Field(("row", axis)), "pairs": Field(("unit", axis, axis))}
        rows, pairs = np.zeros((batch.n_rows, K), KEPT), np.zeros((batch.n_spans, K, K), KEPT)
        return Fields(layout, {"rows": rows, "pairs": pairs})

    def random_own(
        self,
        batch: Batch,
        n_components: int,
        axis: str,
        rng: np.random.Generator,
        legal: Array | None = None,
    ) -> Fields:
        """Random chains, one for each sequence; states that a row may not have get no weight."""
        own = self.own_counts(batch, n_components, axis)
        _draw_chains(batch, own, legal, rng)
        return own

    def keep_own(self, shares: Array, found: Out, own: Fields) -> None:
        """Keep the posterior of one sequence."""
        own["rows"][...], own["pairs"][0] = shares, found["transition"]

    def count_own(self, block: Batch, own: Fields, out: Out) -> Array:
        """Starts and steps of sequences, as they are kept."""
        assert block.offsets is not None
        out["start"] += own["rows"][block.offsets[:-1]].sum(0, dtype=float)
        out["transition"] += own["pairs"].sum(0, dtype=float)
        return np.asarray(own["rows"], dtype=float)

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
        """Every sequence once, given all others. Its part of the bound is its path's entropy."""
        log_z, entropy, bad = _sweep_words(
            live, tables, pseudo, lane, legal, own, out_live, out, how
        )
        if bad >= 0:
            require_possible(np.array([-np.inf]), lane.unit_at + bad)
        return log_z, entropy


def require_possible(log_z: Array, first: int) -> None:
    """Raise NumericalError if a sequence has no possible path; they are numbered from `first`."""
    bad = np.flatnonzero(~np.isfinite(log_z))
    if len(bad):
        why = (
            "is not a number"
            if np.isnan(log_z[bad[0]])
            else "is zero: no path of legal components leads through it"
        )
        raise NumericalError(
            f"the likelihood of sequence {first + bad[0]} {why}; "
            "check the data's scale, the family's prior and the labels"
        )


def _draw_chains(batch: Batch, own: Fields, legal: Array | None, rng: np.random.Generator) -> None:
    """Set own counts to those of random chains: q(z_1) and q(z_t | z_(t - 1)) drawn uniformly.

    Where rows have legal sets, states outside of them have no weight.
    """
    assert batch.offsets is not None
    K, n = own["rows"].shape[1], batch.n_rows
    units = np.repeat(np.arange(batch.n_spans), np.diff(batch.offsets))
    is_first = np.zeros(n, dtype=np.bool_)
    is_first[batch.offsets[:-1]] = True
    limits = legal_rows(batch, legal, K)
    for begin in range(0, n, max(1, DRAWN // (K * K))):
        m = min(max(1, DRAWN // (K * K)), n - begin)
        uniforms = rng.random((m, K, K), dtype=np.float32)
        random_chains(uniforms, begin, units, is_first, *limits, own["rows"], own["pairs"])
    is_used = used_units(batch)
    own["rows"][~is_used[units]] = own["pairs"][~is_used] = 0.0


def used_units(batch: Batch) -> Array:
    """(units,) whether a sequence counts at all."""
    assert batch.offsets is not None
    if batch.repeats is None:
        return np.ones(batch.n_spans, dtype=np.bool_)
    return np.asarray(batch.repeats[batch.offsets[:-1]] > 0)


def legal_rows(batch: Batch, legal: Array | None, width: int) -> tuple[Array, Array]:
    """Sets (n,) of the rows, and 1 for the states (M, width) of each; sets (0,) for all states."""
    if legal is None or batch.sets is None:
        return np.zeros(0, dtype=np.int64), np.ones((1, width))
    return np.ascontiguousarray(batch.sets, dtype=np.int64), padded(legal > 0, width)


def _sweep_words(
    live: LiveTable,
    tables: Out,
    pseudo: Any,
    lane: Batch,
    legal: Array | None,
    own: Fields,
    out_live: LiveTable,
    out: Out,
    how: Sweep,
) -> tuple[float, float, int]:
    """See `BaseStructure.sweep`. Third: the first sequence without a possible path, or -1."""
    assert lane.offsets is not None
    width, K = len(live.totals), own["rows"].shape[1]
    words = np.ascontiguousarray(lane.rows[:, 0], dtype=np.int64)
    is_used = used_units(lane)
    kept = own["rows"], own["pairs"]
    start, transition = np.zeros(width), np.zeros((width, width))
    outs = out_live.counts, out_live.totals, start, transition
    found, bad = np.zeros(2), -1
    if not how.moves:
        count_sequences(words, lane.offsets, is_used, *kept, *outs)
    else:
        steps, limits = _pad_steps(tables, pseudo, width), legal_rows(lane, legal, width)
        bad = sweep_sequences(
            *live, words, lane.offsets, is_used, steps, *limits, *kept, how.block, how.is_part,
            how.is_measured, *outs, found,
        )  # fmt: skip
    out["start"] += start[:K]
    out["transition"] += transition[:K, :K]
    return float(found[0]), float(found[1]), int(bad)


def _pad_steps(tables: Out, pseudo: Any, width: int) -> Steps:
    """Counts and prior counts of a chain, in the width of the kernels."""
    K = len(tables["start"])
    rest = np.zeros(K) if pseudo.transition_rest is None else pseudo.transition_rest
    return Steps(
        padded(tables["start"], width),
        _square(tables["transition"], width),
        padded(pseudo.start, width),
        _square(pseudo.transition, width),
        float(pseudo.start_rest or 0.0),
        padded(np.broadcast_to(rest, (K,)), width),
    )


def _square(table: Array, width: int) -> Array:
    """Table (K, K) as (width, width), zeros after K."""
    return np.pad(table, (0, width - len(table)))
