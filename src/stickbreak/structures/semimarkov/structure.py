"""Rows in segments, each of one component and with a length of its own: semi-Markov models.

    q(z) = exp(start[z_1] + sum over segments of (duration[z, length] + evidence of its rows)
               + sum over neighboring segments of transition[z, z']) / Z

Neighboring segments have different components, so labels of rows say all but the complete lengths
of segments that a recording cuts. Those are part of what is inferred: expected counts are of
complete lengths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import ImpossibleError, NumericalError
from stickbreak.kernels.semimarkov.online import log_ages
from stickbreak.kernels.semimarkov.paths import (
    best_segments,
    draw_segments,
    filter_segments,
)
from stickbreak.kernels.semimarkov.smooth import segments_log_z, smooth_segments
from stickbreak.protocols import Array, Local, Out, Potentials
from stickbreak.stats import Edit, Field, Fields, Regroup

from ..base import MIN_BLOCK, BaseStructure, Division, one_hot, row_evidence
from ..sequences import own_buffers, unit_weights
from .change_points import free_rows
from .segments import count_segments, segments_of

__all__ = ["MAX_WORK", "SemiMarkov"]

# In a block's evidence, about 8 MB; messages take ten times that.
BLOCK_NUMBERS = 1 << 20
# Rows times lengths times states of one sequence: about a minute.
MAX_WORK = 1 << 38
KEPT = np.float32


def _flat(n_states: int, n_lengths: int) -> tuple[Array, Array, Array]:
    """Log start, transition and duration in which all is alike."""
    K = n_states
    return np.zeros(K), np.zeros((K, K)), np.zeros((K, n_lengths))


@dataclass(frozen=True)
class SemiMarkov(BaseStructure):
    """The exact posterior of segments, by messages over their begins and ends.

    A sequence of T rows costs O(T D K + T K^2) for lengths up to D, and memory O(T K).

    right_censored : whether a sequence may end within a segment, which then would have lasted
        longer
    left_censored : whether it may begin within one, at any of its rows with the same probability
    n_lengths : lengths of the prior's table, which collapsed inference needs to know beforehand
    """

    least_held: ClassVar[float | None] = 1e-2
    is_ordered = has_best = draws = loops = True
    granularities = ("sequence",)
    births = (
        Division("blocks", 2, keeps=True),
        Division("rows"),
        Division("rows", 2, n_more=1),
    )

    LIGHTER: ClassVar[str] = (
        "give a smaller max_duration, or a negative binomial law and "
        "duration_inference='embedded', or cut the sequence"
    )

    right_censored: bool = True
    left_censored: bool = False
    n_lengths: int = 0

    def block_rows(self, width: int) -> int:
        """Rows of a block; messages are in memory for all of them."""
        return max(MIN_BLOCK, BLOCK_NUMBERS // width)

    @property
    def _censoring(self) -> dict[str, bool]:
        return {"right_censored": self.right_censored, "left_censored": self.left_censored}

    def _tables(self, potentials: Potentials, block: Batch) -> tuple[Array, Array, Array, Array]:
        """Start, transition, duration and offsets, after a look at what they cost."""
        tables = potentials["start"], potentials["transition"], potentials["duration"]
        self._require_work(block, *tables[2].shape)
        assert block.offsets is not None
        return *tables, block.offsets

    def _require_work(self, block: Batch, n_states: int, longest: int) -> None:
        """Raise ValueError for a sequence that would take far too long."""
        T = int(np.diff(np.asarray(block.offsets)).max())
        work = T * min(T, longest) * n_states
        if work > MAX_WORK:
            raise ValueError(
                f"a sequence of {T} rows, segments of up to {min(T, longest)} rows and "
                f"{n_states} states are {work:.2g} steps, more than {MAX_WORK:.2g}; {self.LIGHTER}"
            )

    # ------------------------------------------------------------------------------ local step

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        """Posterior shares of every row, expected starts, steps and complete lengths."""
        logits = row_evidence(potentials, block).T
        log_z, shares = smooth_segments(
            logits, *self._tables(potentials, block), unit_weights(block), free_rows(block),
            **self._censoring, start=out["start"], transition=out["transition"],
            duration=out["duration"], out=logits, buffers=own_buffers(),
        )  # fmt: skip
        self._require_possible(log_z, potentials, block)
        out["rows"] += shares.sum(1)
        return Local(float(unit_weights(block) @ log_z), shares.T)

    def infer_best(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out
    ) -> Local:
        """One-hot shares of the most probable segmentation; cut segments at their best lengths."""
        found = self._best(potentials, block)
        return self._of_path(*found, potentials, block, out)

    def _best(self, potentials: Potentials, block: Batch) -> tuple[Array, Array, Array, Array]:
        logits = row_evidence(potentials, block).T
        return best_segments(
            logits, *self._tables(potentials, block), free_rows(block), **self._censoring
        )

    def infer_drawn(self, potentials: Potentials, block: Batch, uniforms: Array, out: Out) -> Local:
        """One-hot shares of a drawn segmentation; complete lengths are drawn as well."""
        found = self._draw(potentials, block, uniforms)
        return self._of_path(*found, potentials, block, out)

    def _draw(
        self, potentials: Potentials, block: Batch, uniforms: Array
    ) -> tuple[Array, Array, Array, Array]:
        logits = row_evidence(potentials, block).T
        return draw_segments(
            logits, *self._tables(potentials, block), uniforms, free_rows(block), **self._censoring
        )

    def _of_path(
        self,
        path: Array,
        value: Array,
        first: Array,
        last: Array,
        potentials: Potentials,
        block: Batch,
        out: Out,
    ) -> Local:
        """Counts and one-hot shares of a path, given the complete lengths of its ends."""
        self._require_possible(value, potentials, block)
        assert block.offsets is not None
        found = segments_of(path, block.offsets)
        lengths = found.end - found.begin
        lengths[found.is_first] = first
        lengths[found.is_last] = last
        self._count_lengths(found, lengths, block, out)
        shares = one_hot(path, len(potentials["start"]), block)
        return Local(float(unit_weights(block) @ value), shares)

    def _count_lengths(self, found: Any, lengths: Array, block: Batch, out: Out) -> None:
        """Add the counts of segments of these lengths."""
        count_segments(found, lengths, unit_weights(block), out)

    def count(self, labels: Array, block: Batch, out: Out) -> None:
        """Starts, steps and lengths of the segments that labels say.

        A segment next to rows without a label has no known length, nor has a run of rows that is
        longer than any segment, as starts make them. The ends of sequences count as ends of
        segments.
        """
        assert block.offsets is not None
        found = segments_of(np.asarray(labels), block.offsets)
        lengths, known = found.end - found.begin, found.state >= 0
        lengths[lengths > self._longest(out)] = 0
        lengths[:-1][~found.is_last[:-1] & ~known[1:]] = 0
        lengths[1:][~found.is_first[1:] & ~known[:-1]] = 0
        self._count_lengths(found, lengths, block, out)

    def _longest(self, out: Out) -> float:
        """The longest segment that can be."""
        return float(out["duration"].shape[1])

    # ------------------------------------------------------------------------------ labels, scores

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(S,) log normalizer of each sequence."""
        logits = row_evidence(potentials, block).T
        return np.asarray(
            segments_log_z(
                logits, *self._tables(potentials, block), free_rows(block), **self._censoring
            )
        )

    def filter(self, potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        """p(z_t | rows up to t) (n, K), and log p(row t | rows before it) (n,).

        What comes next depends on the age of the segment too: see `ages`.
        """
        logits = row_evidence(potentials, block).T
        tables = self._tables(potentials, block)
        return filter_segments(logits, *tables, free_rows(block), **self._censoring)

    def ages(self, potentials: Potentials, block: Batch) -> Array:
        """(S, K, D) p(state, age | all rows): age m is the m-th row of the present segment.

        This is the state of a filter: what `kernels/semimarkov/online.py` goes on from.
        """
        logits = row_evidence(potentials, block).T
        return np.exp(log_ages(logits, *self._tables(potentials, block), free_rows(block)))

    def viterbi(self, potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        """The most probable segmentation (n,) of each sequence, and its log weight (S,)."""
        return self._best(potentials, block)[:2]

    def best(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) the most probable segmentation of each sequence."""
        return self.viterbi(potentials, block)[0]

    def sample(self, potentials: Potentials, block: Batch, rng: np.random.Generator) -> Array:
        """(n,) a segmentation of each sequence, drawn from the posterior."""
        return self._draw(potentials, block, rng.random(block.n_rows))[0]

    def walk(self, potentials: Potentials, offsets: Array, rng: np.random.Generator) -> Array:
        """(n,) segmentations drawn from the prior, of the lengths given by offsets (S + 1,)."""
        n, K = int(offsets[-1]), len(potentials["start"])
        tables = potentials["start"], potentials["transition"], potentials["duration"]
        return np.asarray(
            draw_segments(
                np.zeros((K, n)), *tables, offsets, rng.random(n),
                right_censored=True, left_censored=self.left_censored,
            )[0]
        )  # fmt: skip

    def regroup(
        self, tables: Mapping[str, Any], wanted: Mapping[str, Any], how: Regroup
    ) -> tuple[Edit, Mapping[str, Any]] | None:
        """Zeros for newborns: the entropy of segmentations stays."""
        return how, {}

    # ------------------------------------------------------------------------------ sweeps

    def own_counts(
        self, batch: Batch, n_components: int, axis: str, granularity: str = ""
    ) -> Fields:
        """Rows (n, K), pairs (units, K, K), and the statistics of lengths of every unit."""
        K, layout = n_components, {"rows": Field(("row", axis))}
        arrays = {"rows": np.zeros((batch.n_rows, K), KEPT)}
        for name, (axes, shape) in self._own_tables(K, axis).items():
            layout[name] = Field(("unit", *axes))
            arrays[name] = np.zeros((batch.n_spans, *shape), KEPT)
        return Fields(layout, arrays)

    def _own_tables(self, K: int, axis: str) -> dict[str, tuple[tuple[Any, ...], tuple[int, ...]]]:
        """Axes and shapes of what a unit keeps, by the name of the prior's field."""
        if self.n_lengths < 1:
            self._refuse("collapsed inference without n_lengths", "SemiMarkov(n_lengths=...)")
        return {
            "transition": ((axis, axis), (K, K)),
            "duration": ((axis, None), (K, self.n_lengths)),
        }

    def random_own(
        self,
        batch: Batch,
        n_components: int,
        axis: str,
        rng: np.random.Generator,
        legal: Array | None = None,
    ) -> Fields:
        """Posteriors of random evidence, where all steps and lengths are alike."""
        own = self.own_counts(batch, n_components, axis)
        for u in range(batch.n_spans):
            unit = batch.part(u, u + 1)
            self._keep_random(unit, own.cut(**unit.cut), n_components, rng, legal)
        return own

    def _keep_random(
        self,
        unit: Batch,
        own: Fields,
        K: int,
        rng: np.random.Generator,
        legal: Array | None,
    ) -> None:
        evidence = np.log(rng.random((K, unit.n_rows)) + 2.0**-54)
        if legal is not None and unit.sets is not None:
            evidence += np.where(legal[unit.sets] > 0, 0.0, -np.inf).T
        found = {"start": np.zeros(K), "transition": np.zeros((K, K))}
        found["duration"] = np.zeros((K, self.n_lengths))
        shares = smooth_segments(
            evidence, *_flat(K, self.n_lengths), np.array([0, unit.n_rows]), unit_weights(unit),
            free_rows(unit), **self._censoring, start=found["start"],
            transition=found["transition"], duration=found["duration"],
        )[1]  # fmt: skip
        self.keep_own(shares.T, found, own)

    def keep_own(self, shares: Array, found: Out, own: Fields) -> None:
        """Keep the posterior of one sequence."""
        own["rows"][...] = shares
        for name in own.arrays:
            if name != "rows":
                own[name][0] = found[name]

    def count_own(self, block: Batch, own: Fields, out: Out) -> Array:
        """Starts, steps, rows and lengths of sequences, as they are kept."""
        assert block.offsets is not None
        rows = np.asarray(own["rows"], dtype=float)
        out["start"] += rows[block.offsets[:-1]].sum(0)
        out["rows"] += rows.sum(0)
        for name in own.arrays:
            if name != "rows":
                out[name] += own[name].sum(0, dtype=float)
        return rows

    @staticmethod
    def _require_possible(log_z: Array, potentials: Potentials, block: Batch) -> None:
        """Raise ImpossibleError if a sequence has no possible segmentation."""
        bad = np.flatnonzero(~np.isfinite(log_z))
        if not len(bad):
            return
        why = "is not a number"
        if not np.isnan(log_z[bad[0]]):
            why = "is zero: no segments of legal components and lengths cover it"
        kind = NumericalError if np.isnan(log_z[bad[0]]) else ImpossibleError
        raise kind(
            f"the likelihood of sequence {block.unit_at + bad[0]} {why}; check the data's scale, "
            "the family's prior, the labels, max_duration and the change points"
        )
