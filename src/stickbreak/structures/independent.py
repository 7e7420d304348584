"""Every row draws its component anew: mixtures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, xlogy

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.kernels.rows import best_rows, merge_entropy, softmax_rows
from stickbreak.protocols import Array, Local, Potentials
from stickbreak.stats import Fields, Summary

__all__ = ["Independent", "judge"]

NEXT_TO_NOTHING = 1e-8  # a row's share that is not worth dealing out: what is left so folds into another component


def judge(potentials: Potentials, block: Batch) -> Array:
    """(n, K) log evidence of a prepared block, -inf where a row may not use a component."""
    evidence = potentials.scores.evidence(block.rows)
    if block.sets is not None and potentials.log_legal is not None:
        evidence = evidence + potentials.log_legal[block.sets]
    return np.asfortranarray(evidence)


def xlogx(x: Array) -> Array:
    """X log x, zero at zero."""
    return xlogy(x, x)


def _left_alone(taken: Array, folded: int) -> float:
    """Change of the entropy when the first `folded` shares (n, T) of rows that nobody deals out join into one."""
    if folded < 2:
        return 0.0
    return float(xlogx(taken[:, :folded]).sum() - xlogx(taken[:, :folded].sum(1)).sum())


def _counted(model: Any, side: Summary, scores: Any, prepared: Any, shares: Array) -> dict[str, Array]:
    """Counts of rows dealt out by shares (n, J), with the axis of components as in the model."""
    out = dict(model.zeros(shares.shape[1]).restrict(side.index).arrays)
    scores.collect(prepared, shares, out)
    out["share"] += shares.sum(0)
    return out


def _add_slots(side: Summary, counts: dict[str, Array], slots: slice, sign: float) -> None:
    """Add counts of some components to those slots of a side, in place."""
    for name, declared in side.layout.items():
        if declared.additive:
            at = (slice(None),) * declared.axes.index("slot") + (slots,)
            side.arrays[name][at] += sign * counts[name]


@dataclass(frozen=True)
class Independent:
    """q(z_n = k) = softmax(evidence_nk + log share_k)."""

    def cold_start(self, batch: Batch, n_components: int, axis: str) -> None:
        """The local optimum is unique: nothing to start from."""
        return

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: dict[str, Array]) -> Local:
        """Posterior shares of every row."""
        shares = judge(potentials, block).T
        log_z = softmax_rows(shares, potentials["share"], block.repeats_or_ones())
        out["share"] += shares @ np.ones(shares.shape[1])
        return Local(float(log_z), shares.T)

    def infer_best(self, potentials: Potentials, block: Batch, warm: Fields | None, out: dict[str, Array]) -> Local:
        """One-hot shares of the best component."""
        best, value = self._best(potentials, block)
        repeats = block.repeats_or_ones()
        shares = np.zeros((len(potentials["share"]), len(best)))
        shares[best, np.arange(len(best))] = repeats
        self.count(best, block, out)
        return Local(float(repeats @ value), shares.T)

    def count(self, labels: Array, block: Batch, out: dict[str, Array]) -> None:
        """Rows of each component."""
        known = labels >= 0
        out["share"] += np.bincount(labels[known], weights=block.repeats_or_ones()[known], minlength=len(out["share"]))

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) log sum over components."""
        logits = judge(potentials, block) + potentials["share"]
        return np.asarray(logsumexp(logits, axis=1))

    def decode(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) best component; ties go to the first."""
        return self._best(potentials, block)[0]

    def sample(self, potentials: Potentials, block: Batch, rng: np.random.Generator) -> Array:
        """(n,) components drawn from the posterior."""
        shares = judge(potentials, block).T
        softmax_rows(shares, potentials["share"], np.ones(shares.shape[1]))
        draws = rng.random(shares.shape[1])
        return np.minimum((shares.cumsum(0) < draws).sum(0), len(shares) - 1)

    def merge_terms(self, potentials: Potentials, block: Batch, local: Local, pairs: Array, out: dict[str, Array]) -> None:
        """Gain (M,): the entropy that each pair of components would lose; pairs that share none do not interact."""
        merge_entropy(np.ascontiguousarray(local.shares.T), pairs, out["gain"])

    def redistribute(self, model: Any, potentials: Potentials, proposal: Any, raw: Batch, local: Local, side: Summary) -> float:
        """Rows of which the components `proposal.taken` hold more than next to nothing are dealt out among the proposals.

        The local part of what is dealt out, log_z - <potentials, counts>, replaces that of what was taken; the masses'
        own entropy changes when several components gave theirs.
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
        log_z = softmax_rows(born, proposal.log_share, mass)
        given, lost = (
            _counted(model, side, proposal.scores, prepared, born.T),
            _counted(model, side, proposal.taken_scores, prepared, taken),
        )
        gained = log_z - proposal.scores.pair(given) - proposal.log_share @ given["share"]
        gone = (proposal.taken_scores.evidence(prepared) * taken).sum() - proposal.taken_scores.pair(lost)
        _add_slots(side, given, slice(proposal.first, None), 1.0)
        _add_slots(side, lost, slice(0, taken.shape[1]), -1.0)
        return float(gained - gone + xlogx(taken).sum() - xlogx(mass).sum()) + left

    @staticmethod
    def _best(potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        logits = judge(potentials, block).T
        best, value = np.empty(logits.shape[1], dtype=np.int64), np.empty(logits.shape[1])
        best_rows(logits, potentials["share"], best, value)
        if np.isnan(value).any():
            raise NumericalError("a row's evidence is not a number; check the data's scale and the family's prior")
        return best, value
