"""Collapsed sweeps of chains: what sequences keep, and their counts without each other's.

Own counts: `rows` (n, K), the posterior of every row, and `pairs` (units, K, K), the expected steps
of every sequence. They are float32: what is added is what was kept, so that what leaves is what was
added, and the total is summed afresh every lap.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.kernels.chain.absent import AbsentOwn
from stickbreak.kernels.chain.blocks import count_blocks, inner_steps, sweep_blocks
from stickbreak.kernels.chain.collapsed import (
    Steps,
    count_sequences,
    random_chains,
    sweep_sequences,
)
from stickbreak.kernels.chain.live_sweeps import count_live, sweep_live
from stickbreak.kernels.chain.tokens import count_tokens, sweep_tokens
from stickbreak.kernels.collapsed import LiveTable
from stickbreak.kernels.tables import padded
from stickbreak.kernels.vectors import EIGHT
from stickbreak.protocols import Array, Out, Sweep
from stickbreak.stats import Field, Fields

from ..base import BaseStructure

__all__ = ["SweptChain", "legal_rows", "require_possible", "used_units"]

KEPT = np.float32
DRAWN = 1 << 20  # random numbers at a time, so that they stay in the cache


class SweptChain(BaseStructure):
    """The part of a chain that collapsed inference needs: own counts of sequences, and sweeps."""

    granularities = ("sequence", "token", "subsequence")
    loops = True

    def own_counts(
        self, batch: Batch, n_components: int, axis: str, granularity: str = ""
    ) -> Fields:
        """Rows (n, K) and, unless tokens are independent, pairs (units, K, K); none yet."""
        K, layout = n_components, {"rows": Field(("row", axis))}
        arrays = {"rows": np.zeros((batch.n_rows, K), KEPT)}
        if granularity != "token":
            layout["pairs"] = Field(("unit", axis, axis))
            arrays["pairs"] = np.zeros((batch.n_spans, K, K), KEPT)
        return Fields(layout, arrays)

    def own_of(self, batch: Batch, own: Fields, axis: str, granularity: str) -> Fields:
        """The posteriors of rows, which are taken as independent; batch : of these units."""
        found = self.own_counts(batch, own["rows"].shape[1], axis, granularity)
        found["rows"][...] = own["rows"]
        if granularity == "subsequence":
            inner_steps(found["rows"], batch.offsets, found["pairs"])
        return found

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

    def absent_of(self, own: Fields, lane: Batch) -> AbsentOwn | None:
        """Where a sweep keeps the steps that sequences do not take; None if nobody asks."""
        return None

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
        if how.granularity != "sequence" and how.moves and (pseudo.transition == 0).any():
            raise ValueError(
                f"a {how.granularity} is inferred apart from the next one, which impossible steps "
                "do not allow; use CollapsedVB(granularity='sequence')"
            )
        visit = {"sequence": _by_sequence, "token": _by_token, "subsequence": _by_block}
        if not isinstance(live, LiveTable):
            if how.granularity != "sequence":
                raise ValueError(
                    f"granularity={how.granularity!r} is for one column of symbols; use 'sequence'"
                )
            visit["sequence"] = _by_live
        absent = self.absent_of(own, lane)
        job = _Job(live, tables, pseudo, lane, legal, own, out_live, how, absent)
        log_z, entropy, bad = visit[how.granularity](job, out)
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


class _Job(NamedTuple):
    """Arguments of a sweep, and what the kernels make of them."""

    live: Any
    tables: Out
    pseudo: Any
    lane: Batch
    legal: Array | None
    own: Fields
    out_live: Any
    how: Sweep
    absent: AbsentOwn | None = None

    @property
    def words(self) -> tuple[Array, Array, Array]:
        """Words (n,), offsets (units + 1,), and which sequences count."""
        assert self.lane.offsets is not None
        words = np.ascontiguousarray(self.lane.rows[:, 0], dtype=np.int64)
        return words, self.lane.offsets, used_units(self.lane)

    def counts(self, *more: Any) -> list[Any]:
        """Counts of all data, the words, and the legal states of each; then more arguments."""
        width = len(self.live.totals)
        steps = _pad_steps(self.tables, self.pseudo, width)
        limits = legal_rows(self.lane, self.legal, width)
        return [*self.live, *self.words, steps, *limits, *more]

    def outs(self) -> tuple[Array, Array, Array, Array]:
        """Where the lane's counts are added: words, their totals, starts and steps."""
        width = len(self.live.totals)
        tables = np.zeros(width), np.zeros((width, width))
        return self.out_live.counts, self.out_live.totals, *tables


def _settle(start: Array, transition: Array, out: Out) -> None:
    """Add starts and steps to the prior's counts."""
    K = len(out["start"])
    out["start"] += start[:K]
    out["transition"] += transition[:K, :K]


def _by_sequence(job: _Job, out: Out) -> tuple[float, float, int]:
    """Log predictives and entropy of every sequence, and the first without a path, or -1."""
    how, outs, found, bad = job.how, job.outs(), np.zeros(2), -1
    kept = job.own["rows"], job.own["pairs"]
    if not how.moves:
        count_sequences(*job.words, *kept, *outs)
    else:
        flags = how.block, how.is_part, how.is_measured
        bad = sweep_sequences(*job.counts(*kept, *flags, *outs, found, job.absent))
    _settle(*outs[2:], out)
    return float(found[0]), float(found[1]), int(bad)


def _by_live(job: _Job, out: Out) -> tuple[float, float, int]:
    """As `_by_sequence`, for families of other kinds than symbols."""
    how, lane, found, bad = job.how, job.lane, np.zeros(2), -1
    K = len(out["start"])
    width = -(-K // EIGHT) * EIGHT
    start, transition = np.zeros(width), np.zeros((width, width))
    kept, units = (job.own["rows"], job.own["pairs"]), (lane.offsets, used_units(lane))
    if not how.moves:
        count_live(lane.rows, *units, *kept, job.out_live, start, transition)
    else:
        steps, limits = _pad_steps(job.tables, job.pseudo, width), legal_rows(lane, job.legal, K)
        flags = how.block, how.is_part, how.is_measured
        outs = job.out_live, start, transition, found, job.absent
        bad = sweep_live(job.live, lane.rows, *units, steps, *limits, *kept, *flags, *outs)
    _settle(start, transition, out)
    return float(found[0]), float(found[1]), int(bad)


def _by_token(job: _Job, out: Out) -> tuple[float, float, int]:
    """As `_by_sequence`. Without own counts, rows begin with those of their sequences."""
    how, outs, found, bad, rows = job.how, job.outs(), np.zeros(2), -1, job.own["rows"]
    if how.moves and how.is_part:
        bad = sweep_tokens(*job.counts(rows, how.is_measured, *outs, found))
    else:
        if how.moves:
            pairs = np.zeros((job.lane.n_spans, rows.shape[1], rows.shape[1]), KEPT)
            none = [np.zeros_like(array) for array in outs]
            bad = sweep_sequences(*job.counts(rows, pairs, 1, False, False, *none, found, None))
        count_tokens(*job.words, rows, how.is_measured, *outs, found)
    _settle(*outs[2:], out)
    return float(found[0]), float(found[1]), int(bad)


def _by_block(job: _Job, out: Out) -> tuple[float, float, int]:
    """As `_by_sequence`, for the blocks of sequences; units of the lane are blocks."""
    how, lane, kept = job.how, job.lane, (job.own["rows"], job.own["pairs"])
    assert lane.windows is not None
    assert lane.offsets is not None
    joins, found, bad = ~lane.windows.is_first, np.zeros(2), -1
    if how.moves and not how.is_part:
        starts = lane.offsets[:-1][lane.windows.is_first]
        whole = replace(lane, offsets=np.r_[starts, lane.n_rows], windows=None)
        result = _by_token(job._replace(lane=whole), out)
        inner_steps(kept[0], lane.offsets, kept[1])
        return result
    outs = job.outs()
    if how.moves:
        flags = joins, how.guards == "messages", how.is_measured
        bad = sweep_blocks(*job.counts(*kept, *flags, *outs, found))
    else:
        count_blocks(*job.words, *kept, joins, *outs)
    _settle(*outs[2:], out)
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
