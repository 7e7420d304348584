"""Chains whose rows use a few states each: q is the posterior over the paths that stay within every
row's own states.

The states are chosen afresh in each local step, by the potentials alone (`kernels.chain_choice`):
nothing is remembered of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

from stickbreak.data import Batch, span_rows
from stickbreak.kernels.chain.merges import merge_gains_sparse
from stickbreak.kernels.chain.paths import viterbi
from stickbreak.kernels.chain.single import Tables, linear_tables, smooth_rows
from stickbreak.kernels.chain.smooth import Buffers, smooth
from stickbreak.kernels.chain.sparse import smooth_sparse
from stickbreak.kernels.chain.support import choose_states
from stickbreak.protocols import Array, Potentials
from stickbreak.stats import SparseShares

from ..base import row_evidence

__all__ = [
    "Evidence",
    "SparseRows",
    "choose_rows",
    "forward_sparse_pieces",
    "mass_outside",
    "smooth_sparse_pieces",
]

Evidence = Callable[[int, int], Array]  # (K, end - begin) of the rows begin to end

# rows on each side of those that are checked, which help to judge them; at least so many are
# checked
BUFFER = 16
# of the rows that a watch may check, one in so many is: judging it by all states costs many times a
# limited row
CHECKED = 4


class Entering(NamedTuple):
    """What the rows before a piece say: the states (L,) of the last of them, -1 for none, and log
    p(state | rows so far) (L,).
    """

    support: Array
    log_weights: Array


class SparseRows(NamedTuple):
    """Rows with the states that they may use: evidence and support (n, L), -1 for none. A chain of
    its own.

    before : whether the first row is the one before a piece, whose states are given with weights;
        it counts for nobody
    """

    evidence: Array
    support: Array
    offsets: Array
    log_start: Array
    log_transition: Array
    tables: Tables
    before: bool = False

    def smooth(self, weights: Array, out: dict[str, Array]) -> tuple[Array, Array]:
        """log_z (S,) and shares (n, L) times weights (S,); adds counts to `out`."""
        start = np.zeros_like(self.log_start) if self.before else out["start"]
        tables = self.log_start, self.log_transition, self.offsets, weights
        return smooth_sparse(
            self.evidence,
            self.support,
            *tables,
            start=start,
            transition=out["transition"],
            tables=self.tables,
        )

    def own(self, values: Array) -> Array:
        """Values (n, L) of the rows that count."""
        return values[int(self.before) :]

    def active(self, shares: Array) -> SparseShares:
        """Shares (n, L) of the rows that count, as an (n, K) table."""
        return SparseShares(
            self.own(shares), np.maximum(self.own(self.support), 0), len(self.log_start)
        )

    def with_leaving(self, log_message: Array | None) -> SparseRows:
        """The same with log p(rows after | state) (L,) of the last row added to its evidence."""
        if log_message is None:
            return self
        evidence = self.evidence.copy()
        evidence[-1] += log_message
        return self._replace(evidence=evidence)

    def merge_gains(self, weights: Array, pairs: Array) -> tuple[Array, Array]:
        """What joining each pair (M, 2) of states does to the entropy of paths: gain (M,), cross
        (M, M).
        """
        tables = self.log_start, self.log_transition, self.offsets, weights
        gain, cross = merge_gains_sparse(self.evidence, self.support, *tables, pairs)
        if self.before:  # the row before belongs to another piece
            none = {"transition": np.zeros_like(self.log_transition)}
            first = np.bincount(
                np.maximum(self.support[0], 0),
                self.smooth(np.ones(1), none)[1][0],
                len(self.log_start),
            )
            x, y = first[pairs[:, 0]], first[pairs[:, 1]]
            gain -= weights[0] * (xlogy(x, x) + xlogy(y, y) - xlogy(x + y, x + y))
        return gain, cross


def choose_rows(
    evidence_t: Array, potentials: Potentials, offsets: Array, n_states: int, buffers: Buffers
) -> tuple[SparseRows, Array]:
    """Whole sequences with the states that they may use, and log_z (S,) where it is known that
    there is none, else 0.
    """
    log_start, log_transition = potentials["start"], potentials["transition"]
    tables = linear_tables(log_start, log_transition)
    joint = buffers.take("joint", int(np.diff(offsets).max()), len(tables.start))
    support, evidence, is_bad = choose_states(evidence_t, offsets, tables, n_states, joint)
    none = np.zeros(len(is_bad))
    if is_bad.any():
        at, ends = span_rows(offsets[:-1][is_bad], offsets[1:][is_bad])
        support[at], evidence[at], none[is_bad] = _rescue(
            np.take(evidence_t, at, axis=1), potentials, ends, n_states
        )
    return SparseRows(evidence, support, offsets, log_start, log_transition, tables), none


def _rescue(
    evidence_t: Array, potentials: Potentials, offsets: Array, n_states: int
) -> tuple[Array, Array, Array]:
    """Support and evidence (n, L) by the posterior over all states: the best path, and the best
    others of each row.

    Third: log_z (S,) over all states where that is no finite number, else 0: within the support it
    then is finite too.
    """
    tables, n = (potentials["start"], potentials["transition"], offsets), evidence_t.shape[1]
    log_z, shares = smooth(evidence_t, *tables, **_zeros(potentials))
    shares[viterbi(evidence_t, *tables)[0], np.arange(n)] = np.inf
    best = np.argpartition(-shares, n_states - 1, axis=0)[:n_states]
    is_used = np.take_along_axis(shares, best, axis=0) > 0
    evidence = np.where(is_used, np.take_along_axis(evidence_t, best, axis=0), -np.inf)
    return np.where(is_used, best, -1).T, evidence.T, np.where(np.isfinite(log_z), 0.0, log_z)


# ---- one long sequence in pieces -----------------------------------------------------------------
def _choose_piece(
    evidence_t: Array,
    entering: Entering | None,
    potentials: Potentials,
    n_states: int,
    buffers: Buffers,
) -> SparseRows | None:
    """A piece of a long sequence, which begins with the row before it; None where the choice leaves
    no path.

    What enters and the piece's own rows decide: the rows after it do not, so that the same states
    are chosen in every pass.
    """
    log_start, log_transition = potentials["start"], potentials["transition"]
    tables, n = linear_tables(log_start, log_transition), evidence_t.shape[1]
    first = tables
    if entering is not None:
        first = tables._replace(
            start=np.exp(entering.log_weights) @ tables.transition[entering.support]
        )
    joint = buffers.take("joint", n, len(tables.start))
    support, evidence, is_bad = choose_states(evidence_t, np.array([0, n]), first, n_states, joint)
    if is_bad[0]:
        return None
    if entering is None:
        return SparseRows(evidence, support, np.array([0, n]), log_start, log_transition, tables)
    evidence, support = (
        np.concatenate([entering.log_weights[None], evidence]),
        np.concatenate([entering.support[None], support]),
    )
    flat = tables._replace(start=np.ones_like(tables.start), start_shift=0.0)
    return SparseRows(
        evidence,
        support,
        np.array([0, n + 1]),
        np.zeros_like(log_start),
        log_transition,
        flat,
        before=True,
    )


def forward_sparse_pieces(
    evidence: Evidence, bounds: list[int], potentials: Potentials, n_states: int, buffers: Buffers
) -> tuple[float, list[Entering | None]] | None:
    """First pass over the pieces bounds[p] to bounds[p + 1]: log_z, and what enters each. None: the
    choice leaves no path.
    """
    log_z = 0.0
    entering: list[Entering | None] = [None]
    for begin, end in pairwise(bounds):
        rows = _choose_piece(evidence(begin, end), entering[-1], potentials, n_states, buffers)
        if rows is None:
            return None
        log_scale, shares = rows.smooth(np.ones(1), _zeros(potentials))
        log_z += float(log_scale[0])
        with np.errstate(divide="ignore"):
            entering.append(Entering(rows.support[-1], np.log(shares[-1])))
    return (log_z, entering) if np.isfinite(log_z) else None


def smooth_sparse_pieces(
    evidence: Evidence,
    bounds: list[int],
    potentials: Potentials,
    n_states: int,
    messages: list[Entering | None],
    buffers: Buffers,
) -> Iterator[tuple[SparseRows, Array, dict[str, Array]]]:
    """Second pass, from the last piece to the first: each with its shares (n, L) and its counts.
    messages: what enters each.
    """
    leaving = None
    for p in range(len(bounds) - 2, -1, -1):
        entering = messages[p]
        rows = _choose_piece(
            evidence(bounds[p], bounds[p + 1]), entering, potentials, n_states, buffers
        )
        assert rows is not None  # the first pass chose the same
        rows, counts = rows.with_leaving(leaving), _zeros(potentials)
        shares = rows.smooth(np.ones(1), counts)[1]
        yield rows, shares, counts
        if entering is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                leaving = np.where(shares[0] > 0, np.log(shares[0]) - entering.log_weights, -np.inf)


def _zeros(potentials: Potentials) -> dict[str, Array]:
    return {name: np.zeros_like(potentials[name]) for name in ("start", "transition")}


# ---- what is lost --------------------------------------------------------------------------------
def mass_outside(
    prepare: Callable[[Any], Any], potentials: Potentials, raw: Batch, rows: SparseRows, n_rows: int
) -> tuple[int, float]:
    """Some rows in the middle of a block, and how many of them, on average, are in states that they
    may not use.

    By the posterior over all states, given the rows around them: those of the block, BUFFER of them
    at most on each side.
    """
    assert raw.offsets is not None
    n = min(raw.n_rows, max(BUFFER, n_rows // CHECKED))
    begin = (raw.n_rows - n) // 2
    first, last = max(0, begin - BUFFER), min(raw.n_rows, begin + n + BUFFER)
    sets = None if raw.sets is None else raw.sets[first:last]
    part = Batch(raw.id, prepare(raw.rows[first:last]), sets=sets, n_rows=last - first)
    shares = _smooth_part(row_evidence(potentials, part).T, potentials, raw.offsets - first)[
        :, begin - first : begin - first + n
    ]
    support = rows.own(rows.support)[begin : begin + n].T
    inside = np.where(
        support >= 0, np.take_along_axis(shares, np.maximum(support, 0), axis=0), 0.0
    ).sum(0)
    counts = raw.repeats_or_ones()[begin : begin + n] > 0
    return int(counts.sum()), float(np.maximum(0.0, 1.0 - inside)[counts].sum())


def _smooth_part(evidence_t: Array, potentials: Potentials, offsets: Array) -> Array:
    """Shares (K, n) of some rows of sequences with these offsets, which may begin before and end
    after them.
    """
    K, n = evidence_t.shape
    begins = offsets[(offsets >= 0) & (offsets < n)]
    evidence_t[:, begins] += potentials["start"][:, None]
    bounds, nothing, transition = (
        np.unique(np.r_[0, begins, n]),
        np.zeros(K),
        potentials["transition"],
    )
    tables = linear_tables(nothing, transition)
    weights, message, future = np.empty((3, n, len(tables.start)))
    is_bad = np.empty(len(bounds) - 1, dtype=np.bool_)
    # row by row: side by side, so few rows would not pay
    lines = tables.start, tables.transition, tables.transposed
    smooth_rows(evidence_t, *lines, bounds, weights, message, future, is_bad)
    if is_bad.any():
        return np.asarray(
            smooth(
                evidence_t,
                nothing,
                transition,
                bounds,
                start=nothing.copy(),
                transition=np.zeros((K, K)),
            )[1]
        )
    return np.asarray((weights * message)[:, :K].T)
