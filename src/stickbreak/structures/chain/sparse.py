"""Chains whose rows use a few states each: q is the posterior over paths within these states.

The states are chosen anew in each local step, from the potentials alone
(`kernels/chain/support.py`). Nothing is remembered about a row.
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

# Rows of context on each side of the rows that are checked, and the least number checked.
BUFFER = 16
# One in CHECKED of the rows allowed is checked: all states cost many times as much as a few.
CHECKED = 4


class Entering(NamedTuple):
    """Message into a piece: the states (L,) of the row before it, and their log weights (L,).

    support : -1 for none
    log_weights : log p(state | rows so far)
    """

    support: Array
    log_weights: Array


class SparseRows(NamedTuple):
    """A chain of rows with the states that they may use: evidence and support (n, L), -1 for none.

    before : whether the first row is the one before a piece. Its states are given with weights, and
        it is not counted.
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
        """Values (n, L) without the row before the piece."""
        return values[int(self.before) :]

    def active(self, shares: Array) -> SparseShares:
        """Shares (n, L) as an (n, K) table, without the row before the piece."""
        return SparseShares(
            self.own(shares), np.maximum(self.own(self.support), 0), len(self.log_start)
        )

    def with_leaving(self, log_message: Array | None) -> SparseRows:
        """The same rows, with log p(rows after | state) (L,) added to the last row's evidence."""
        if log_message is None:
            return self
        evidence = self.evidence.copy()
        evidence[-1] += log_message
        return self._replace(evidence=evidence)

    def merge_gains(self, weights: Array, pairs: Array) -> tuple[Array, Array]:
        """Change of the entropy of paths if pairs (M, 2) join: gain (M,), cross (M, M)."""
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
    """Whole sequences with the states that they may use; and log_z (S,) if not finite, else 0."""
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
    """Support and evidence (n, L) from the posterior over all states.

    They contain the best path, and the best other states of each row. Third: log_z (S,) over all
    states if it is not finite, else 0. If it is finite, it is finite within the support too.
    """
    tables, n = (potentials["start"], potentials["transition"], offsets), evidence_t.shape[1]
    log_z, shares = smooth(evidence_t, *tables, **_zeros(potentials))
    shares[viterbi(evidence_t, *tables)[0], np.arange(n)] = np.inf
    best = np.argpartition(-shares, n_states - 1, axis=0)[:n_states]
    is_used = np.take_along_axis(shares, best, axis=0) > 0
    evidence = np.where(is_used, np.take_along_axis(evidence_t, best, axis=0), -np.inf)
    return np.where(is_used, best, -1).T, evidence.T, np.where(np.isfinite(log_z), 0.0, log_z)


# ---- one long sequence, in pieces ----------------------------------------------------------------
def _choose_piece(
    evidence_t: Array,
    entering: Entering | None,
    potentials: Potentials,
    n_states: int,
    buffers: Buffers,
) -> SparseRows | None:
    """A piece of a long sequence, preceded by the row before it; None if no path is left.

    States are chosen from the entering message and the piece's own rows. Later rows have no part in
    it, so every pass chooses the same states.
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
    """First pass over the pieces bounds[p] to bounds[p + 1]: log_z, and what enters each piece.

    None if the chosen states leave no path.
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
    """Second pass, last piece to first: each piece with its shares (n, L) and its counts.

    messages : what enters each piece
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


# ---- posterior mass outside the chosen states ----------------------------------------------------
def mass_outside(
    prepare: Callable[[Any], Any], potentials: Potentials, raw: Batch, rows: SparseRows, n_rows: int
) -> tuple[int, float]:
    """(checked, missed) for some rows in the middle of a block.

    missed : expected number of checked rows in states that they may not use, by the posterior over
        all states. Context is at most BUFFER rows of the block on each side.
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
    """Shares (K, n) of some rows of sequences with these offsets.

    The sequences may begin before these rows and end after them.
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
    # row by row: so few rows do not pay for the side-by-side kernel
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
