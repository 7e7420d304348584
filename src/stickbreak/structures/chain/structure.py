"""Every row's component depends on that of the row before it: hidden Markov models.

    q(z) = exp(start[z_1] + sum_t transition[z_t, z_(t + 1)] + sum_t evidence[t, z_t]) / Z

Many sequences are smoothed at once; one that is too long for memory is smoothed in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy.special import xlogy

from stickbreak.data import Batch
from stickbreak.kernels.chain.merges import merge_gains
from stickbreak.kernels.chain.paths import draw, filtered, predict_step, viterbi, viterbi_pieces
from stickbreak.kernels.chain.pieces import Checkpoints, draw_pieces, forward_pieces, smooth_piece
from stickbreak.kernels.chain.smooth import smooth
from stickbreak.protocols import Array, Local, Out, Potentials
from stickbreak.stats import Edit, Fields, Regroup, SparseShares

from ..base import MIN_BLOCK, Division, Piece, one_hot, row_evidence
from ..long_units import LongUnit
from ..sequences import own_buffers, unit_weights
from ..steps import Best, Drawn, LocalStep
from .collapsed import require_possible
from .gibbs import DrawnChain
from .sparse import Evidence, choose_rows, forward_sparse_pieces, mass_outside, smooth_sparse_pieces
from .windows import smooth_windows

__all__ = ["Chain"]

# In a block's features and evidence, about 32 MB: room for many sequences side by side.
BLOCK_NUMBERS = 1 << 22


def merged_entropy(x: Array, y: Array) -> Array:
    """phi(x + y) - phi(x) - phi(y), phi(x) = -x log x."""
    return xlogy(x, x) + xlogy(y, y) - xlogy(x + y, x + y)


@dataclass(frozen=True)
class Chain(DrawnChain):
    """The exact posterior of paths through the components, by forward-backward.

    max_active : how many components a row may use, chosen by the rows around it; None for all
    """

    tracks = frozenset({"merge"})
    least_held: ClassVar[float | None] = 1e-2
    least_closed: ClassVar[float] = 1 / 3
    is_ordered = has_best = draws = cuts_units = True
    births = (
        Division("blocks", 2, keeps=True),
        Division("rows"),
        Division("rows", 2, n_more=1),
    )

    max_active: int | None = None

    def sparse(self, max_active: int | None, candidates: int | None) -> Chain:
        """The same chain with another max_active; every row is evaluated by all components."""
        if candidates is not None:
            raise ValueError(
                f"candidates={candidates} is not for Chain, whose rows are judged by all "
                "components; use candidates=None"
            )
        return replace(self, max_active=max_active)

    def sliced(self) -> Chain:
        """The chain of the beam sampler."""
        from .sliced import SlicedChain

        return SlicedChain()

    def _limit(self, potentials: Potentials) -> int | None:
        """How many components a row may use; None if all."""
        is_limit = self.max_active is not None and self.max_active < len(potentials["start"])
        return self.max_active if is_limit else None

    def block_rows(self, width: int) -> int:
        """Large: sequences are inferred side by side."""
        return max(MIN_BLOCK, BLOCK_NUMBERS // width)

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        """Posterior shares of every row, expected starts and steps."""
        logits = row_evidence(potentials, block).T
        if block.windows is not None:
            log_z, shares = smooth_windows(logits, potentials, block, block.windows, out)
            self._require_possible(log_z, block)
            return Local(float(log_z.sum()), shares.T)
        limit = self._limit(potentials)
        if limit is not None:
            return self._infer_sparse(logits, potentials, block, limit, out)
        log_z, shares = smooth(
            logits, potentials["start"], potentials["transition"], block.offsets,
            unit_weights(block), start=out["start"], transition=out["transition"], out=logits,
            buffers=own_buffers(),
        )  # fmt: skip
        self._require_possible(log_z, block)
        return Local(float(unit_weights(block) @ log_z), shares.T)

    def _infer_sparse(
        self, logits: Array, potentials: Potentials, block: Batch, limit: int, out: Out
    ) -> Local:
        """As `infer`, over paths that stay within a few components of every row."""
        assert block.offsets is not None
        rows, none = choose_rows(logits, potentials, block.offsets, limit, own_buffers())
        self._require_possible(none, block)
        log_z, shares = rows.smooth(unit_weights(block), out)
        self._require_possible(log_z, block)
        return Local(float(unit_weights(block) @ log_z), rows.active(shares), memo=(rows,))

    def infer_long(
        self, step: LocalStep, unit: LongUnit, warm: Fields | None, out: Out
    ) -> Iterator[Piece]:
        """One long sequence. Pieces of an expectation come from the last to the first.

        Their evidence is computed twice, and never in memory all at once.
        """
        tables = unit.potentials["start"], unit.potentials["transition"]
        if isinstance(step, Best):
            found = viterbi_pieces(unit.evidence, unit.bounds, *tables)
            return self._of_path_pieces(found, unit, out)
        if isinstance(step, Drawn):
            uniforms = step.uniforms(unit.raw, warm)
            known = forward_pieces(unit.evidence, unit.bounds, *tables)
            self._require_possible(np.array([known.log_z]), unit.raw)
            drawn = draw_pieces(unit.evidence, unit.bounds, known, *tables, uniforms)
            return self._of_path_pieces(((*part, known.log_z) for part in drawn), unit, out)
        return self._smooth_pieces(unit, out)

    def _smooth_pieces(self, unit: LongUnit, out: Out) -> Iterator[Piece]:
        potentials, evidence, bounds = unit.potentials, unit.evidence, unit.bounds
        weight, limit, some = float(unit_weights(unit.raw)[0]), self._limit(potentials), None
        if limit is not None:
            some = forward_sparse_pieces(evidence, bounds, potentials, limit, own_buffers())
        if limit is None or some is None:  # no sparse path: try all components
            known = forward_pieces(evidence, bounds, potentials["start"], potentials["transition"])
            self._require_possible(np.array([known.log_z]), unit.raw)
            found = self._all_pieces(evidence, bounds, potentials, known, weight, out)
        else:
            found = self._sparse_pieces(
                smooth_sparse_pieces(evidence, bounds, potentials, limit, some[1], own_buffers()),
                some[0],
                weight,
                out,
            )
        for local in found:
            yield unit.piece, unit.prepared, local

    @staticmethod
    def _all_pieces(
        evidence: Evidence,
        bounds: list[int],
        potentials: Potentials,
        known: Checkpoints,
        weight: float,
        out: Out,
    ) -> Iterator[Local]:
        log_z, after = weight * known.log_z, None
        for p in range(len(bounds) - 2, -1, -1):
            shares, before = smooth_piece(
                evidence(bounds[p], bounds[p + 1]), known.messages[p], after, potentials["start"],
                potentials["transition"], weight,
                start=out["start"], transition=out["transition"], exact=known.exact,
            )  # fmt: skip
            yield Local(log_z, shares.T, memo=(known.messages[p], after))
            log_z, after = 0.0, before  # log_z counts once

    @staticmethod
    def _sparse_pieces(
        pieces: Iterator[Any], log_z: float, weight: float, out: Out
    ) -> Iterator[Local]:
        log_z *= weight
        for rows, shares, counts in pieces:
            for name, values in counts.items():
                out[name] += weight * values
            yield Local(log_z, rows.active(weight * shares), memo=(rows,))
            log_z = 0.0  # counts once

    def _of_path_pieces(
        self, found: Iterable[tuple[int, int, Array, float]], unit: LongUnit, out: Out
    ) -> Iterator[Piece]:
        """Pieces with the one-hot shares of a path, whose value stands for log_z.

        Steps are counted once the path is complete.
        """
        path, is_first = np.empty(unit.raw.n_rows, dtype=np.int64), True
        for begin, end, part, value in found:
            self._require_possible(np.array([value]), unit.raw)
            path[begin:end] = part
            log_z = float(unit_weights(unit.raw)[0]) * value if is_first else 0.0  # counts once
            shares = one_hot(part, len(unit.potentials["start"]), unit.piece)
            yield unit.piece, unit.prepared, Local(log_z, shares)
            is_first = False
        self.count(path, unit.raw, out)

    def infer_best(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out
    ) -> Local:
        """One-hot shares of the most probable path of each sequence."""
        path, value = self.viterbi(potentials, block)
        self._require_possible(value, block)
        return self._of_path(path, value, potentials, block, out)

    def _of_path(
        self, path: Array, value: Array, potentials: Potentials, block: Batch, out: Out
    ) -> Local:
        """Counts and one-hot shares of a path; value (S,) stands for log_z."""
        self.count(path, block, out)
        shares = one_hot(path, len(potentials["start"]), block)
        return Local(float(unit_weights(block) @ value), shares)

    def count(self, labels: Array, block: Batch, out: Out) -> None:
        """Starts of sequences, and steps between neighboring rows with known labels."""
        assert block.offsets is not None
        repeats, first = block.repeats_or_ones(), block.offsets[:-1]
        known = first[labels[first] >= 0]
        np.add.at(out["start"], labels[known], repeats[known])
        goes_on = np.ones(block.n_rows, dtype=bool)
        goes_on[block.offsets[1:] - 1] = False
        at = np.flatnonzero(goes_on)
        at = at[(labels[at] >= 0) & (labels[at + 1] >= 0)]
        np.add.at(out["transition"], (labels[at], labels[at + 1]), repeats[at])

    def merge_terms(
        self,
        potentials: Potentials,
        block: Batch,
        local: Local,
        pairs: Array,
        out: Out,
    ) -> None:
        """Change of the entropy of paths: gain (M,) of each pair, cross (M, M) of two at once."""
        weights, tables = unit_weights(block), (potentials["start"], potentials["transition"])
        if isinstance(local.shares, SparseShares):
            gain, cross = local.memo[0].merge_gains(weights, pairs)
        elif not local.memo:
            gain, cross = merge_gains(
                row_evidence(potentials, block).T, *tables, block.offsets, weights, pairs
            )
        else:
            gain, cross = self._merge_terms_of_piece(
                row_evidence(potentials, block).T, potentials, local.memo, float(weights[0]), pairs
            )
        out["gain"] += gain
        out["cross"] += cross

    @staticmethod
    def _merge_terms_of_piece(
        logits: Array, potentials: Potentials, memo: tuple[Any, ...], weight: float, pairs: Array
    ) -> tuple[Array, Array]:
        """Terms of the steps within a piece and into it: a chain that begins one row earlier."""
        log_start, log_transition, (entering, leaving) = (
            potentials["start"],
            potentials["transition"],
            memo,
        )
        if leaving is not None:
            logits = logits.copy()
            logits[:, -1] += leaving
        if entering is not None:
            log_start, logits = (
                entering,
                np.concatenate([np.zeros((len(logits), 1)), logits], axis=1),
            )
        ends = np.array([0, logits.shape[1]])
        gain, cross = merge_gains(
            logits, log_start, log_transition, ends, np.array([weight]), pairs
        )
        if entering is not None:  # the row before belongs to another piece
            zeros = {name: np.zeros_like(potentials[name]) for name in ("start", "transition")}
            first = smooth(logits, log_start, log_transition, ends, **zeros)[1][:, 0]
            gain -= weight * merged_entropy(first[pairs[:, 0]], first[pairs[:, 1]])
        return gain, cross

    def n_missed(
        self,
        prepare: Callable[[Any], Any],
        potentials: Potentials,
        raw: Batch,
        local: Local,
        n_rows: int,
    ) -> tuple[int, float]:
        """Missed: expected number of checked rows in components that they may not use."""
        if not isinstance(local.shares, SparseShares):
            return 0, 0.0
        return mass_outside(prepare, potentials, raw, local.memo[0], n_rows)

    def regroup(
        self, tables: Mapping[str, Any], wanted: Mapping[str, Any], how: Regroup
    ) -> tuple[Edit, Mapping[str, Any]] | None:
        """Zeros for newborns: the entropy of paths stays. Whole sequences only."""
        return how, {}

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(S,) log normalizer of each sequence."""
        assert block.offsets is not None
        return np.add.reduceat(self.filter(potentials, block)[1], block.offsets[:-1])

    def filter(self, potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        """p(z_t | rows up to t) (n, K), and log p(row t | rows before it) (n,)."""
        return filtered(
            row_evidence(potentials, block).T,
            potentials["start"],
            potentials["transition"],
            block.offsets,
        )

    def filter_long(self, unit: LongUnit) -> Iterator[tuple[Batch, tuple[Array, Array]]]:
        """One long sequence, first piece to last."""
        start, transition = unit.potentials["start"], unit.potentials["transition"]
        for begin, end in pairwise(unit.bounds):
            evidence = unit.evidence(begin, end)
            found = filtered(evidence, start, transition, unit.piece.offsets)
            yield unit.piece, found
            with np.errstate(divide="ignore"):  # impossible states
                start = predict_step(np.log(found[0][-1]), transition)

    def viterbi(self, potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        """The most probable path (n,) of each sequence, and its log weight (S,)."""
        return viterbi(
            row_evidence(potentials, block).T,
            potentials["start"],
            potentials["transition"],
            block.offsets,
        )

    def viterbi_long(self, unit: LongUnit) -> tuple[Array, Array]:
        """One long sequence."""
        tables = unit.potentials["start"], unit.potentials["transition"]
        found = list(viterbi_pieces(unit.evidence, unit.bounds, *tables))
        path = np.concatenate([part for _, _, part, _ in reversed(found)])
        return path, np.array([found[0][3]])

    def best(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) the most probable path of each sequence."""
        return self.viterbi(potentials, block)[0]

    def walk(self, potentials: Potentials, offsets: Array, rng: np.random.Generator) -> Array:
        """(n,) paths drawn from the prior, of the lengths given by offsets (S + 1,)."""
        n = int(offsets[-1])
        silent = np.zeros((len(potentials["start"]), n))
        return draw(silent, potentials["start"], potentials["transition"], offsets, rng.random(n))[
            0
        ]

    def sample(self, potentials: Potentials, block: Batch, rng: np.random.Generator) -> Array:
        """(n,) a path of each sequence, drawn from the posterior."""
        return self._draw(potentials, block, rng.random(block.n_rows))[0]

    def infer_drawn(self, potentials: Potentials, block: Batch, uniforms: Array, out: Out) -> Local:
        """One-hot shares of a path of each sequence, drawn from the posterior."""
        path, log_z = self._draw(potentials, block, uniforms)
        self._require_possible(log_z, block)
        return self._of_path(path, log_z, potentials, block, out)

    @staticmethod
    def _draw(potentials: Potentials, block: Batch, uniforms: Array) -> tuple[Array, Array]:
        """A path (n,) of each sequence, and their log normalizers (S,)."""
        return draw(
            row_evidence(potentials, block).T,
            potentials["start"],
            potentials["transition"],
            block.offsets,
            uniforms,
        )

    @staticmethod
    def _require_possible(log_z: Array, block: Batch) -> None:
        require_possible(log_z, block.unit_at)
