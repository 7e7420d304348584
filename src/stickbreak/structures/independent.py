"""Every row has a component of its own, independent of other rows: mixtures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp, xlogy

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.kernels.rows import best_rows, merge_entropy, softmax_rows
from stickbreak.kernels.sparse import choose_sparse, merge_entropy_sparse, softmax_sparse
from stickbreak.protocols import Array, Local, Out, Potentials, SweptLane
from stickbreak.stats import Edit, Fields, Regroup, Shares, SparseShares, Summary

from .base import BaseStructure, mask_illegal, one_hot, row_evidence
from .independent_collapsed import sweep_table
from .labels import no_states
from .own_shares import no_shares, random_shares

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["Independent"]

# Shares of a row below this are not redistributed; they fold into another component unchanged.
NEXT_TO_NOTHING = 1e-8


def choose(logits: Array, log_share: Array, limits: Array | int, most: int) -> tuple[Array, Array]:
    """The largest of logits (K, n) + log_share: values and components (n, most).

    At most limits (n,) of each row; -1 marks unused entries.
    """
    n = logits.shape[1]
    values, index = np.empty((n, most)), np.empty((n, most), dtype=np.int32)
    n_nan = choose_sparse(
        logits, log_share, np.broadcast_to(np.asarray(limits, dtype=np.int64), n), values, index
    )
    if n_nan and logits.dtype == np.float64:
        raise NumericalError(
            "a row's evidence is not a number; check the data's scale and the family's prior"
        )
    return values, index


def soften(logits: Array, log_share: Array, weights: Array, limits: Array) -> tuple[float, Shares]:
    """Sum of weights * log_z, and shares (n, K). Overwrites the logits.

    The shares are weights * softmax over the limits (n,) best of logits (K, n) + log_share.
    """
    most = min(len(logits), int(limits.max()))
    if most == len(logits) and (limits >= most).all():
        return float(softmax_rows(logits, log_share, weights)), logits.T
    values, index = choose(logits, log_share, np.minimum(limits, most), most)
    return float(softmax_sparse(values, index, weights)), SparseShares(values, index, len(logits))


def xlogx(x: Array) -> Array:
    """X log x, zero at zero."""
    return xlogy(x, x)


def _left_alone(taken: Array, folded: int) -> float:
    """Change of the entropy when the first `folded` shares (n, T) become one.

    For rows that are not redistributed.
    """
    if folded < 2:
        return 0.0
    return float(xlogx(taken[:, :folded]).sum() - xlogx(taken[:, :folded].sum(1)).sum())


def _counted(
    model: Model, side: Summary, scores: Any, prepared: Any, shares: Shares
) -> dict[str, Array]:
    """Counts of rows with shares (n, J), with the component axis of the model."""
    out = dict(model.zeros(shares.shape[1]).restrict(side.index).arrays)
    scores.collect(prepared, shares, out)
    out["share"] += shares.sum(0)
    return out


def _add_slots(side: Summary, counts: dict[str, Array], slots: slice, sign: float) -> None:
    """Add counts of some components to the given slots of a side, in place."""
    for name, declared in side.layout.items():
        if declared.additive:
            at = (slice(None),) * declared.axes.index("slot") + (slots,)
            side.arrays[name][at] += sign * counts[name]


@dataclass(frozen=True)
class Independent(BaseStructure):
    """q(z_n = k) = softmax(evidence_nk + log share_k), over all components or the best of each row.

    max_active : how many components a row may use, the best ones; None for all
    candidates : how many components, preselected by a rough score, to evaluate exactly for each
        row; None for all
    """

    tracks = frozenset({"merge", "redistribute"})
    least_held = 1e-3
    has_best = draws = True
    granularities = ("row",)
    drawn_granularity = "row"

    max_active: int | None = None
    candidates: int | None = None

    def sparse(self, max_active: int | None, candidates: int | None) -> Independent:
        """The same with other limits."""
        return replace(self, max_active=max_active, candidates=candidates)

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        """Posterior shares of every row."""
        if self.max_active is not None and self.max_active < len(potentials["share"]):
            return self._infer_sparse(potentials, block, out)
        shares = row_evidence(potentials, block).T
        log_z = softmax_rows(shares, potentials["share"], block.repeats_or_ones())
        out["share"] += shares @ np.ones(shares.shape[1])
        return Local(float(log_z), shares.T)

    def _infer_sparse(self, potentials: Potentials, block: Batch, out: Out) -> Local:
        """Shares of the best components only: the best posterior that uses no more of them."""
        values, index = self._choose(potentials, block)
        log_z = softmax_sparse(values, index, block.repeats_or_ones())
        shares = SparseShares(values, index, len(potentials["share"]))
        out["share"] += shares.sum(0)
        return Local(float(log_z), shares)

    def _choose(self, potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        """Log weights and components (n, max_active), the best of each row."""
        assert self.max_active is not None
        log_share = potentials["share"]
        if self.candidates is None or self.candidates >= len(log_share):
            return choose(
                row_evidence(potentials, block).T, log_share, self.max_active, self.max_active
            )
        rough = np.asfortranarray(
            mask_illegal(potentials, block, potentials.scores.rough(block.rows))
        )
        # sorted, so that ties go to the first component
        near = np.sort(choose(rough.T, log_share, self.candidates, self.candidates)[1], axis=1)
        logits = potentials.scores.evidence_at(block.rows, near) + log_share[near]
        if block.sets is not None and potentials.log_legal is not None:
            logits += potentials.log_legal[block.sets[:, None], near]
        values, place = choose(
            np.ascontiguousarray(logits.T),
            np.zeros(self.candidates),
            self.max_active,
            self.max_active,
        )
        return values, np.where(
            place >= 0, np.take_along_axis(near, np.maximum(place, 0), axis=1), -1
        )

    def n_missed(
        self,
        prepare: Callable[[Any], Any],
        potentials: Potentials,
        raw: Batch,
        local: Local,
        n_rows: int,
    ) -> tuple[int, float]:
        """Missed: checked rows that would use other components if all were evaluated exactly."""
        n_exact = len(potentials["share"]) if self.candidates is None else self.candidates
        if n_exact >= len(potentials["share"]) or not isinstance(local.shares, SparseShares):
            return 0, 0
        rows = np.unique(np.linspace(0, raw.n_rows - 1, min(n_rows, raw.n_rows)).astype(int))
        rows = rows[raw.repeats_or_ones()[rows] > 0]
        if not len(rows):
            return 0, 0
        some = Batch(
            raw.id,
            prepare(raw.rows[rows]),
            sets=None if raw.sets is None else raw.sets[rows],
            n_rows=len(rows),
        )
        values, index = self.sparse(self.max_active, None)._choose(potentials, some)
        softmax_sparse(values, index, some.repeats_or_ones())
        used = np.asarray(SparseShares(values, index, local.shares.n_components)) > 0
        return len(rows), int(((np.asarray(local.shares[rows]) > 0) != used).any(1).sum())

    def infer_best(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out
    ) -> Local:
        """One-hot shares of the best component."""
        best, value = self._best(potentials, block)
        self.count(best, block, out)
        shares = one_hot(best, len(potentials["share"]), block)
        return Local(float(block.repeats_or_ones() @ value), shares)

    def count(self, labels: Array, block: Batch, out: Out) -> None:
        """Rows of each component."""
        known = labels >= 0
        out["share"] += np.bincount(
            labels[known], weights=block.repeats_or_ones()[known], minlength=len(out["share"])
        )

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) log sum over components."""
        logits = row_evidence(potentials, block) + potentials["share"]
        return np.asarray(logsumexp(logits, axis=1))

    def decode(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) best component; ties go to the first."""
        return self._best(potentials, block)[0]

    best = decode

    def sample(self, potentials: Potentials, block: Batch, rng: np.random.Generator) -> Array:
        """(n,) components drawn from the posterior."""
        return self._draw(potentials, block, rng.random(block.n_rows), np.ones(block.n_rows))[0]

    def infer_drawn(self, potentials: Potentials, block: Batch, uniforms: Array, out: Out) -> Local:
        """One-hot shares of components drawn from the posterior."""
        labels, log_z = self._draw(potentials, block, uniforms, block.repeats_or_ones())
        self.count(labels, block, out)
        return Local(log_z, one_hot(labels, len(potentials["share"]), block))

    @staticmethod
    def _draw(
        potentials: Potentials, block: Batch, uniforms: Array, repeats: Array
    ) -> tuple[Array, float]:
        """A legal component (n,) for each row, and the sum of repeats * log normalizer."""
        shares = row_evidence(potentials, block).T
        log_z = softmax_rows(shares, potentials["share"], repeats)
        reached = shares.cumsum(0)
        return np.asarray((reached > uniforms * reached[-1]).argmax(0)), float(log_z)

    def merge_terms(
        self,
        potentials: Potentials,
        block: Batch,
        local: Local,
        pairs: Array,
        out: Out,
    ) -> None:
        """Gain (M,): change of the entropy by each merge. Disjoint pairs do not interact."""
        if not isinstance(local.shares, SparseShares):
            merge_entropy(np.ascontiguousarray(local.shares.T), pairs, out["gain"])
            return
        low, high = pairs.min(1), pairs.max(1)
        order = np.argsort(low, kind="stable")
        starts = np.searchsorted(low[order], np.arange(local.shares.n_components + 1))
        merge_entropy_sparse(
            local.shares.values, local.shares.index, starts, high[order], order, out["gain"]
        )

    def redistribute(
        self,
        model: Model,
        potentials: Potentials,
        proposal: Any,
        raw: Batch,
        local: Local,
        side: Summary,
    ) -> float:
        """Divide the mass of the components `proposal.taken` among the proposals.

        Rows whose taken mass is negligible are left out. The local part of the new shares,
        log_z - <potentials, counts>, replaces that of the shares taken. The entropy of the masses
        themselves changes if several components gave theirs.
        """
        taken = local.shares[:, list(proposal.taken)]
        mass = taken.sum(1)
        rows = np.flatnonzero(mass > NEXT_TO_NOTHING)
        left = _left_alone(taken[mass <= NEXT_TO_NOTHING], proposal.folded)
        if not len(rows):
            return left
        taken, mass = taken[rows], mass[rows]
        prepared = model.family.prepare(raw.rows[rows])
        born = np.asfortranarray(proposal.scores.evidence(prepared)).T
        log_z, dealt = soften(
            born, proposal.log_share, mass, self._free(local.shares, rows, proposal.taken)
        )
        given, lost = (
            _counted(model, side, proposal.scores, prepared, dealt),
            _counted(model, side, proposal.taken_scores, prepared, taken),
        )
        gained = log_z - proposal.scores.pair(given) - proposal.log_share @ given["share"]
        gone = (
            proposal.taken_scores.evidence(prepared) * taken
        ).sum() - proposal.taken_scores.pair(lost)
        _add_slots(side, given, slice(proposal.first, None), 1.0)
        _add_slots(side, lost, slice(0, taken.shape[1]), -1.0)
        return float(gained - gone + xlogx(taken).sum() - xlogx(mass).sum()) + left

    def regroup(
        self, tables: Mapping[str, Any], wanted: Mapping[str, Any], how: Regroup
    ) -> tuple[Edit, Mapping[str, Any]]:
        """Zeros for newborns: the entropy of rows stays."""
        return how, {}

    def _free(self, shares: Shares, rows: Array, taken: Sequence[int]) -> Array:
        """(m,) how many proposals each of the rows (m,) may use once it gives up `taken`.

        As many as the components it gives up. If those include its best component, also its unused
        allowance. So changes in one lap that take from different components never exceed max_active
        together.
        """
        if self.max_active is None:
            return np.full(len(rows), np.iinfo(np.int64).max)
        mine = shares[rows]
        if isinstance(mine, SparseShares):
            used, best = mine.n_used(), mine.best()
        else:
            used, best = np.count_nonzero(mine, axis=1), mine.argmax(1)
        return np.count_nonzero(mine[:, list(taken)], axis=1) + np.isin(best, taken) * (
            self.max_active - used
        )

    @staticmethod
    def _best(potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        logits = row_evidence(potentials, block).T
        best, value = np.empty(logits.shape[1], dtype=np.int64), np.empty(logits.shape[1])
        best_rows(logits, potentials["share"], best, value)
        if np.isnan(value).any():
            raise NumericalError(
                "a row's evidence is not a number; check the data's scale and the family's prior"
            )
        return best, value

    def own_counts(
        self, batch: Batch, n_components: int, axis: str, granularity: str = ""
    ) -> Fields:
        """Shares (n, K) of the rows, none yet."""
        return no_shares(batch.n_rows, n_components, axis)

    def own_labels(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """No labels yet."""
        return no_states(batch.n_rows)

    def random_own(
        self,
        batch: Batch,
        n_components: int,
        axis: str,
        rng: np.random.Generator,
        legal: Array | None = None,
    ) -> Fields:
        """Uniformly random shares of every row, of the components that it may have."""
        return random_shares(batch, n_components, axis, rng, legal)

    def sweep(self, lane: SweptLane) -> tuple[float, float]:
        """Every row once, given all others (CVB0); with seeds, its label."""
        return sweep_table(lane)
