"""Collapsed sweeps of chains: what sequences keep, and their counts without each other's.

Own counts: `rows` (n, K), the posterior of every row, and `pairs` (units, K, K), the expected steps
of every sequence. They are float32: what is added is what was kept, so that what leaves is what was
added, and the total is summed afresh every lap.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

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
from stickbreak.kernels.chain.live_blocks import count_live_blocks, sweep_live_blocks
from stickbreak.kernels.chain.live_sweeps import count_live, sweep_live
from stickbreak.kernels.chain.live_tokens import count_live_tokens, sweep_live_tokens
from stickbreak.kernels.chain.tokens import count_tokens, sweep_tokens
from stickbreak.kernels.collapsed import LiveTable
from stickbreak.kernels.tables import padded
from stickbreak.kernels.vectors import EIGHT
from stickbreak.protocols import Array, Out, SweptLane
from stickbreak.stats import Field, Fields

from ..base import BaseStructure

__all__ = ["SweptChain", "legal_rows", "require_possible", "used_units"]

KEPT = np.float32
DRAWN = 1 << 20  # random numbers at a time, so that they stay in the cache
LEAST_DRAWN = np.float32(2.0**-25)  # one of 2**24 is zero, and may be that of the one legal state


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

    def sweep(self, lane: SweptLane) -> tuple[float, float]:
        """Every sequence once, given all others. Its part of the bound is its path's entropy."""
        asked, is_table = lane.how.granularity, isinstance(lane.live, LiveTable)
        if asked != "sequence" and lane.how.moves and (lane.pseudo.transition == 0).any():
            raise ValueError(
                f"a {asked} is inferred apart from the next one, which impossible steps "
                "do not allow; use CollapsedVB(granularity='sequence')"
            )
        visits = _VISITS if is_table else _LIVE_VISITS
        log_z, entropy, bad = visits[asked](lane, self.absent_of(lane.own, lane.batch))
        if bad >= 0:
            require_possible(np.array([-np.inf]), lane.batch.unit_at + bad)
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
        np.maximum(uniforms, LEAST_DRAWN, out=uniforms)
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


def _words(lane: SweptLane) -> tuple[Array, Array, Array]:
    """Words (n,), offsets (units + 1,), and which sequences count."""
    assert lane.batch.offsets is not None
    words = np.ascontiguousarray(lane.batch.rows[:, 0], dtype=np.int64)
    return words, lane.batch.offsets, used_units(lane.batch)


def _arguments(lane: SweptLane, *more: Any) -> list[Any]:
    """Counts of all data, the words, and the legal states of each; then more arguments."""
    width = len(lane.live.totals)
    limits = legal_rows(lane.batch, lane.legal, width)
    return [*lane.live, *_words(lane), _pad_steps(lane, width), *limits, *more]


def _outs(lane: SweptLane) -> tuple[Array, Array, Array, Array]:
    """Where the lane's counts are added: words, their totals, starts and steps."""
    width = len(lane.live.totals)
    return lane.out_live.counts, lane.out_live.totals, np.zeros(width), np.zeros((width, width))


def _settle(start: Array, transition: Array, out: Out) -> None:
    """Add starts and steps to the prior's counts."""
    K = len(out["start"])
    out["start"] += start[:K]
    out["transition"] += transition[:K, :K]


def _by_sequence(lane: SweptLane, absent: AbsentOwn | None) -> tuple[float, float, int]:
    """Log predictives and entropy of every sequence, and the first without a path, or -1."""
    how, outs, found, bad = lane.how, _outs(lane), np.zeros(2), -1
    kept = lane.own["rows"], lane.own["pairs"]
    if not how.moves:
        count_sequences(*_words(lane), *kept, *outs)
    else:
        flags = how.block, how.is_part, how.is_measured
        bad = sweep_sequences(*_arguments(lane, *kept, *flags, *outs, found, absent))
    _settle(*outs[2:], lane.out)
    return float(found[0]), float(found[1]), int(bad)


def _by_token(lane: SweptLane, absent: AbsentOwn | None = None) -> tuple[float, float, int]:
    """As `_by_sequence`. Without own counts, rows begin with those of their sequences."""
    how, outs, found, bad, rows = lane.how, _outs(lane), np.zeros(2), -1, lane.own["rows"]
    if how.moves and how.is_part:
        bad = sweep_tokens(*_arguments(lane, rows, how.is_measured, *outs, found))
    else:
        if how.moves:
            pairs = np.zeros((lane.batch.n_spans, rows.shape[1], rows.shape[1]), KEPT)
            none = [np.zeros_like(array) for array in outs]
            bad = sweep_sequences(
                *_arguments(lane, rows, pairs, 1, False, False, *none, found, None)
            )
        count_tokens(*_words(lane), rows, how.is_measured, *outs, found)
    _settle(*outs[2:], lane.out)
    return float(found[0]), float(found[1]), int(bad)


def _by_block(lane: SweptLane, absent: AbsentOwn | None) -> tuple[float, float, int]:
    """As `_by_sequence`, for the blocks of sequences; units of the lane are blocks."""
    how, batch, kept = lane.how, lane.batch, (lane.own["rows"], lane.own["pairs"])
    assert batch.windows is not None
    assert batch.offsets is not None
    joins, found, bad = ~batch.windows.is_first, np.zeros(2), -1
    if how.moves and not how.is_part:
        result = _by_token(_without_blocks(lane))
        inner_steps(kept[0], batch.offsets, kept[1])
        return result
    outs = _outs(lane)
    if how.moves:
        flags = joins, how.guards == "messages", how.is_measured
        bad = sweep_blocks(*_arguments(lane, *kept, *flags, *outs, found, absent))
    else:
        count_blocks(*_words(lane), *kept, joins, *outs)
    _settle(*outs[2:], lane.out)
    return float(found[0]), float(found[1]), int(bad)


def _without_blocks(lane: SweptLane) -> SweptLane:
    """The lane with whole sequences as its units."""
    batch = lane.batch
    assert batch.windows is not None
    assert batch.offsets is not None
    starts = batch.offsets[:-1][batch.windows.is_first]
    return lane._replace(batch=replace(batch, offsets=np.r_[starts, batch.n_rows], windows=None))


_VISITS = {"sequence": _by_sequence, "token": _by_token, "subsequence": _by_block}


# ------------------------------------------------------- families of other kinds than symbols


def _live_width(lane: SweptLane) -> int:
    """States, rounded up as the kernels want it."""
    return -(-len(lane.out["start"]) // EIGHT) * EIGHT


def _live_arguments(lane: SweptLane, n_legal: int, *more: Any) -> list[Any]:
    """Counts of all data, the rows, and the legal states of each; then more arguments."""
    batch = lane.batch
    limits = legal_rows(batch, lane.legal, n_legal)
    steps = _pad_steps(lane, _live_width(lane))
    return [lane.live, batch.rows, batch.offsets, used_units(batch), steps, *limits, *more]


def _live_outs(lane: SweptLane) -> tuple[Any, Array, Array]:
    """Where the lane's counts are added: rows, starts and steps."""
    width = _live_width(lane)
    return lane.out_live, np.zeros(width), np.zeros((width, width))


def _live_by_sequence(lane: SweptLane, absent: AbsentOwn | None) -> tuple[float, float, int]:
    """As `_by_sequence`."""
    how, batch, outs, found, bad = lane.how, lane.batch, _live_outs(lane), np.zeros(2), -1
    kept = lane.own["rows"], lane.own["pairs"]
    if not how.moves:
        count_live(batch.rows, batch.offsets, used_units(batch), *kept, *outs)
    else:
        flags = how.block, how.is_part, how.is_measured
        given = *kept, *flags, *outs, found, absent
        bad = sweep_live(*_live_arguments(lane, kept[0].shape[1], *given))
    _settle(*outs[1:], lane.out)
    return float(found[0]), float(found[1]), int(bad)


def _live_by_token(lane: SweptLane, absent: AbsentOwn | None = None) -> tuple[float, float, int]:
    """As `_by_token`."""
    how, batch, outs, rows = lane.how, lane.batch, _live_outs(lane), lane.own["rows"]
    found, bad, K = np.zeros(2), -1, rows.shape[1]
    if how.moves and how.is_part:
        given = rows, how.is_measured, *outs, found
        bad = sweep_live_tokens(*_live_arguments(lane, _live_width(lane), *given))
    else:
        if how.moves:
            pairs = np.zeros((batch.n_spans, K, K), KEPT)
            none = deepcopy(outs[0]), *(np.zeros_like(array) for array in outs[1:])
            fresh = rows, pairs, 1, False, False, *none, found, None
            bad = sweep_live(*_live_arguments(lane, K, *fresh))
        count_live_tokens(
            batch.rows, batch.offsets, used_units(batch), rows, how.is_measured, *outs, found
        )
    _settle(*outs[1:], lane.out)
    return float(found[0]), float(found[1]), int(bad)


def _live_by_block(lane: SweptLane, absent: AbsentOwn | None) -> tuple[float, float, int]:
    """As `_by_block`."""
    how, batch, outs, found, bad = lane.how, lane.batch, _live_outs(lane), np.zeros(2), -1
    assert batch.windows is not None
    kept, joins = (lane.own["rows"], lane.own["pairs"]), ~batch.windows.is_first
    if how.moves and not how.is_part:
        result = _live_by_token(_without_blocks(lane))
        inner_steps(kept[0], batch.offsets, kept[1])
        return result
    if how.moves:
        flags = joins, how.guards == "messages", how.is_measured
        given = *kept, *flags, *outs, found, absent
        bad = sweep_live_blocks(*_live_arguments(lane, kept[0].shape[1], *given))
    else:
        count_live_blocks(batch.rows, batch.offsets, used_units(batch), *kept, joins, *outs)
    _settle(*outs[1:], lane.out)
    return float(found[0]), float(found[1]), int(bad)


_LIVE_VISITS = {
    "sequence": _live_by_sequence,
    "token": _live_by_token,
    "subsequence": _live_by_block,
}


def _pad_steps(lane: SweptLane, width: int) -> Steps:
    """Counts and prior counts of a chain, in the width of the kernels."""
    tables, pseudo = lane.tables, lane.pseudo
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
