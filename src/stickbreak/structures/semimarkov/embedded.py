"""Segments with negative binomial lengths, in time linear in the rows: states of r stages each.

Exact for one r in each state. Three sums say all about the lengths, which stages give without
knowing the lengths themselves. A fourth one, by which r is learned, needs lengths: those of a drawn
segmentation of each sequence stand for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from stickbreak.data import Batch
from stickbreak.kernels.semimarkov.embedded import (
    Draws,
    StagePieces,
    draw_stages,
    filter_stages,
    smooth_stages,
)
from stickbreak.kernels.semimarkov.stage_draws import count_runs
from stickbreak.kernels.semimarkov.stages import log_lengths
from stickbreak.protocols import Array, Local, Out, Potentials
from stickbreak.stats import Fields

from ..base import Piece, one_hot, row_evidence
from ..long_units import LongUnit
from ..sequences import own_buffers, unit_weights
from ..steps import Best, Drawn, LocalStep
from .change_points import free_rows
from .segments import Segments, count_segments, segments_of
from .structure import SemiMarkov

__all__ = ["EmbeddedSemiMarkov"]

SEED = 17  # of the segmentations that `log_ways` is taken from: the same in every lap
LEAST_SEGMENTS = 1e-6  # of a state with less, lengths say nothing
START_WORK = 1 << 30  # steps of a best segmentation that a start may take: about a second
BLOCK_NUMBERS = 1 << 21  # in a block's evidence, about 16 MB


@dataclass(frozen=True)
class EmbeddedSemiMarkov(SemiMarkov):
    """The posterior of segments with negative binomial lengths, in O(T sum(r) + T K^2).

    Potentials: stays (K,), log p; segments (K,), r log q; shape (K,), r. Counts: stays, rows of
    complete segments but their first ones; segments; and, if r is learned, log_ways (K, R), the sum
    over segments of log C(d + r - 2, d - 1) for every r that is possible.

    right_censored : as in `SemiMarkov`; left_censored must be False
    shapes : the r of the columns of log_ways; none if r is given
    """

    cuts_units = True
    LIGHTER = (
        "the best segmentation is found by lengths, not by stages: use method='marginal' (or an "
        "engine other than HardEM), or cut the sequence"
    )

    shapes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.left_censored:
            self._refuse("left_censored=True", "SemiMarkov: duration_inference='exact'")

    def block_rows(self, width: int) -> int:
        """Large: a sequence that is longer is inferred in pieces."""
        return max(64, BLOCK_NUMBERS // width)

    @staticmethod
    def _stages(potentials: Potentials) -> tuple[Array, Array, tuple[Array, Array, Array]]:
        """Start, transition, and the three tables of stages."""
        lengths = potentials["stays"], potentials["segments"], potentials["shape"]
        return potentials["start"], potentials["transition"], lengths

    def _tables(self, potentials: Potentials, block: Batch) -> tuple[Array, Array, Array, Array]:
        """The same as explicit lengths, for what only those can do: the best segmentation."""
        assert block.offsets is not None
        start, transition, lengths = self._stages(potentials)
        T = int(np.diff(block.offsets).max())
        self._require_work(block, len(start), T)
        return start, transition, log_lengths(lengths, T, self.right_censored), block.offsets

    # ------------------------------------------------------------------------------ local step

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        """Posterior shares of every row, expected starts, steps, stays and segments."""
        logits, weights = row_evidence(potentials, block).T, unit_weights(block)
        draws = self._draws(potentials, block) if "log_ways" in out else None
        before = out["segments"].copy(), out["stays"].copy()
        log_z, shares = smooth_stages(
            logits, *self._stages(potentials), block.offsets, weights, free_rows(block),
            right_censored=self.right_censored, draws=draws, start=out["start"],
            transition=out["transition"], segments=out["segments"], stays=out["stays"],
            rows=out["rows"], out=logits, buffers=own_buffers(),
        )  # fmt: skip
        self._require_possible(log_z, potentials, block)
        if draws is not None:
            runs = count_runs(draws.path, block.offsets, draws.extra, weights, len(shares))
            self._add_ways(runs, before, out)
        return Local(float(weights @ log_z), shares.T)

    @staticmethod
    def _draws(potentials: Potentials, block: Batch) -> Draws:
        """Room for one random segmentation of each sequence; always the same random numbers."""
        uniforms = np.random.default_rng([SEED, block.row_at]).random(block.n_rows)
        return Draws.of(uniforms, block.n_spans, potentials["shape"])

    def _add_ways(self, runs: Array, before: tuple[Array, Array], out: Out) -> None:
        """Add the ways of drawn lengths, corrected for what they differ from expected ones.

        The number of segments and the sum of lengths are known exactly (what was added to those
        `before`). Ways are nearly linear in both: with the slope at the mean length, what is left
        to chance is their curvature alone. runs (D, K) : weights of drawn lengths
        """
        ways, drawn = self._ways(runs), runs.sum(0)
        n, stays = out["segments"] - before[0], out["stays"] - before[1]
        held = n > LEAST_SEGMENTS
        mean = stays[held, None] / n[held, None]
        r = np.array(self.shapes, dtype=float)
        value = gammaln(mean + r) - gammaln(mean + 1.0) - gammaln(r)
        slope = digamma(mean + r) - digamma(mean + 1.0)
        more = (n - drawn)[held, None] * (value - slope * mean)
        stays -= np.arange(len(runs)) @ runs
        ways[held] += more + stays[held, None] * slope
        out["log_ways"] += np.maximum(ways, 0.0)

    def _ways(self, runs: Array) -> Array:
        """(K, R) sums of log C(d + r - 2, d - 1), for r in `shapes`; runs (D, K) : of lengths."""
        used = np.flatnonzero(runs.any(1))  # the lengths that there are, far fewer than segments
        d, r = used[:, None] + 1.0, np.array(self.shapes, dtype=float)
        return np.asarray(runs[used].T @ (gammaln(d + r - 1) - gammaln(d) - gammaln(r)))

    def _draw_stages(
        self, logits: Array, potentials: Potentials, block: Batch, uniforms: Array
    ) -> tuple[Array, Array, Array]:
        return draw_stages(
            logits, *self._stages(potentials), block.offsets, uniforms, free_rows(block),
            right_censored=self.right_censored, buffers=own_buffers(),
        )  # fmt: skip

    @staticmethod
    def _lengths(path: Array, extra: Array, block: Batch) -> tuple[Segments, Array]:
        """Segments of a path and their complete lengths."""
        assert block.offsets is not None
        found = segments_of(path, block.offsets)
        lengths = found.end - found.begin
        lengths[found.is_last] += extra
        return found, lengths

    def _draw(
        self, potentials: Potentials, block: Batch, uniforms: Array
    ) -> tuple[Array, Array, Array, Array]:
        """A path, log_z, and complete lengths of the first and last segments."""
        logits = row_evidence(potentials, block).T
        path, log_z, extra = self._draw_stages(logits, potentials, block, uniforms)
        found, lengths = self._lengths(path, extra, block)
        return path, log_z, lengths[found.is_first], lengths[found.is_last]

    def _count_lengths(self, found: Segments, lengths: Array, block: Batch, out: Out) -> None:
        """Add the counts of segments of these lengths."""
        weights = unit_weights(block)
        count_segments(found, lengths, weights, out)
        at = (found.state >= 0) & (lengths > 0)
        weight = weights[found.unit[at]]
        np.add.at(out["segments"], found.state[at], weight)
        np.add.at(out["stays"], found.state[at], weight * (lengths[at] - 1))
        if "log_ways" in out:
            self._count_ways(found, lengths, weights, out["log_ways"])

    def _count_ways(self, found: Segments, lengths: Array, weights: Array, out: Array) -> None:
        """Out (K, R) += log C(d + r - 2, d - 1) of every segment, for r in `shapes`."""
        if len(self.shapes) != out.shape[1]:
            self._refuse(f"a table log_ways of {out.shape[1]} columns", "shapes=(r, ...) of them")
        at = (found.state >= 0) & (lengths > 0)
        n = len(out)
        cells = (lengths[at] - 1) * n + found.state[at]
        seen = np.bincount(cells, weights[found.unit[at]])
        out += self._ways(np.pad(seen, (0, -len(seen) % n)).reshape(-1, n))

    def starts_by_best(self, batch: Batch, n_components: int) -> bool:
        """Up to some 10,000 rows of a sequence: the best segmentation is found by lengths."""
        T = int(np.diff(np.asarray(batch.offsets)).max())
        return T * T * n_components <= START_WORK

    def _longest(self, out: Out) -> float:
        """Every length is possible."""
        return np.inf

    def infer_long(
        self, step: LocalStep, unit: LongUnit, warm: Fields | None, out: Out
    ) -> Iterator[Piece]:
        """One long sequence, from the last piece to the first; its evidence is computed twice."""
        if isinstance(step, Best):
            return self._best_pieces(unit, out)
        pieces = self._pieces(unit)
        if not np.isfinite(pieces.log_z) and not isinstance(step, Drawn):
            return self._whole(unit, out)  # out of the range of pieces, or not possible
        self._require_possible(np.array([pieces.log_z]), unit.potentials, unit.raw)
        if isinstance(step, Drawn):
            drawn = pieces.draw(step.uniforms(unit.raw, warm))
            return self._path_pieces(drawn, pieces, unit, out)
        return self._smooth_pieces(pieces, unit, out)

    def _pieces(self, unit: LongUnit) -> StagePieces:
        return StagePieces(
            unit.evidence, unit.bounds, *self._stages(unit.potentials), free_rows(unit.raw),
            self.right_censored,
        )  # fmt: skip

    def _smooth_pieces(self, pieces: StagePieces, unit: LongUnit, out: Out) -> Iterator[Piece]:
        weights, runs = unit_weights(unit.raw), None
        if "log_ways" in out:
            uniforms = np.random.default_rng([SEED, unit.raw.row_at]).random(unit.raw.n_rows)
            path = _join(pieces.draw(uniforms), unit.raw.n_rows)
            extra = np.array([pieces.extra])
            runs = count_runs(path, unit.raw.offsets, extra, weights, len(out["rows"]))
        before = out["segments"].copy(), out["stays"].copy()
        weight = float(weights[0])
        log_z = weight * pieces.log_z
        counts = {name: out[name] for name in ("start", "transition", "segments", "stays")}
        for _, _, shares in pieces.smooth(weight, **counts):
            out["rows"] += shares.sum(1)
            yield unit.piece, unit.prepared, Local(log_z, shares.T)
            log_z = 0.0  # counts once
        if runs is not None:
            self._add_ways(runs, before, out)

    def _path_pieces(
        self, drawn: Iterable[tuple[int, int, Array]], pieces: StagePieces, unit: LongUnit, out: Out
    ) -> Iterator[Piece]:
        """Pieces with the one-hot shares of a drawn path, counted once it is complete."""
        path, log_z = np.empty(unit.raw.n_rows, dtype=np.int64), None
        for begin, end, part in drawn:
            path[begin:end] = part
            first = float(unit_weights(unit.raw)[0]) * pieces.log_z if log_z is None else 0.0
            log_z = first
            shares = one_hot(part, len(unit.potentials["start"]), unit.piece)
            yield unit.piece, unit.prepared, Local(first, shares)
        found = self._lengths(path, np.array([pieces.extra]), unit.raw)
        self._count_lengths(*found, unit.raw, out)

    def _whole(self, unit: LongUnit, out: Out) -> Iterator[Piece]:
        """As one piece, with all its evidence."""
        unit.evidence(0, unit.raw.n_rows)
        yield unit.piece, unit.prepared, self.infer(unit.potentials, unit.prepared, None, out)

    def _best_pieces(self, unit: LongUnit, out: Out) -> Iterator[Piece]:
        """One piece: the best segmentation needs all evidence."""
        unit.evidence(0, unit.raw.n_rows)
        yield unit.piece, unit.prepared, self.infer_best(unit.potentials, unit.prepared, None, out)

    # ------------------------------------------------------------------------------ ordered rows

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(S,) log normalizer of each sequence."""
        assert block.offsets is not None
        return np.add.reduceat(self.filter(potentials, block)[1], block.offsets[:-1])

    def filter(self, potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        """p(z_t | rows up to t) (n, K), and log p(row t | rows before it) (n,)."""
        return filter_stages(
            row_evidence(potentials, block).T, *self._stages(potentials), block.offsets,
            free_rows(block), right_censored=self.right_censored,
        )  # fmt: skip

    def filter_long(self, unit: LongUnit) -> Iterator[tuple[Batch, tuple[Array, Array]]]:
        """One long sequence as one piece: only its evidence is long."""
        evidence = unit.evidence(0, unit.raw.n_rows)
        yield unit.piece, filter_stages(
            np.ascontiguousarray(evidence), *self._stages(unit.potentials),
            np.array([0, unit.raw.n_rows]), free_rows(unit.raw),
            right_censored=self.right_censored,
        )  # fmt: skip

    def viterbi_long(self, unit: LongUnit) -> tuple[Array, Array]:
        """One long sequence as one piece."""
        unit.evidence(0, unit.raw.n_rows)
        return self.viterbi(unit.potentials, unit.prepared)

    def walk(self, potentials: Potentials, offsets: Array, rng: np.random.Generator) -> Array:
        """(n,) segmentations drawn from the prior, of the lengths given by offsets (S + 1,)."""
        n, K = int(offsets[-1]), len(potentials["start"])
        return np.asarray(
            draw_stages(np.zeros((K, n)), *self._stages(potentials), offsets, rng.random(n))[0]
        )

    # ------------------------------------------------------------------------------ sweeps

    def _own_tables(self, K: int, axis: str) -> dict[str, tuple[tuple[Any, ...], tuple[int, ...]]]:
        """Axes and shapes of what a unit keeps, by the name of the prior's field."""
        found: dict[str, tuple[tuple[Any, ...], tuple[int, ...]]] = {
            "transition": ((axis, axis), (K, K)),
            "stays": ((axis,), (K,)),
            "segments": ((axis,), (K,)),
        }
        if self.shapes:
            found["log_ways"] = ((axis, None), (K, len(self.shapes)))
        return found

    def _keep_random(
        self,
        unit: Batch,
        own: Fields,
        K: int,
        rng: np.random.Generator,
        legal: Array | None,
    ) -> None:
        """One segmentation, drawn by random evidence and geometric lengths of ten rows."""
        evidence = np.log(rng.random((K, unit.n_rows)) + 2.0**-54)
        if legal is not None and unit.sets is not None:
            evidence += np.where(legal[unit.sets] > 0, 0.0, -np.inf).T
        alike = np.log(np.full(K, 0.9)), np.log(np.full(K, 0.1)), np.ones(K)
        path, _, extra = draw_stages(
            evidence, np.zeros(K), np.zeros((K, K)), alike, np.array([0, unit.n_rows]),
            rng.random(unit.n_rows), free_rows(unit),
        )  # fmt: skip
        found: Out = {name: np.zeros(own[name].shape[1:]) for name in own.arrays if name != "rows"}
        found |= {"start": np.zeros(K), "rows": np.zeros(K)}
        self._count_lengths(*self._lengths(path, extra, unit), unit, found)
        self.keep_own(one_hot(path, K, unit), found, own)


def _join(parts: Iterable[tuple[int, int, Array]], n_rows: int) -> Array:
    """A path from its pieces."""
    path = np.empty(n_rows, dtype=np.int64)
    for begin, end, part in parts:
        path[begin:end] = part
    return path
