"""A structure to copy: every row draws its component anew, in plain NumPy.

It works as it stands. A unit of several rows has its bounds in `block.offsets`, and a block never
splits it. Give it a kernel when it is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from stickbreak.data import Batch
from stickbreak.protocols import Array, Local, Out, Potentials
from stickbreak.stats import Fields
from stickbreak.structures import BaseStructure, row_evidence


@dataclass(frozen=True)
class Alone(BaseStructure):
    """Units are rows: q(z_n = k) = softmax(evidence_nk + log share_k)."""

    has_best = True

    # Births, merges and deletes fit all data from changed counts, unless `tracks` says that a lap
    # can watch them.

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        logits, repeats = self._logits(potentials, block), block.repeats_or_ones()
        log_z = logsumexp(logits, axis=1)
        shares = np.exp(logits - log_z[:, None]) * repeats[:, None]
        out["share"] += shares.sum(0)
        return Local(float(repeats @ log_z), shares)

    def infer_best(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out
    ) -> Local:
        logits, repeats = self._logits(potentials, block), block.repeats_or_ones()
        best = logits.argmax(1)
        self.count(best, block, out)
        shares = np.eye(logits.shape[1])[best] * repeats[:, None]
        return Local(float(repeats @ logits.max(1)), shares)

    def count(self, labels: Array, block: Batch, out: Out) -> None:
        known = labels >= 0
        weights = block.repeats_or_ones()[known]
        out["share"] += np.bincount(labels[known], weights, minlength=len(out["share"]))

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        return np.asarray(logsumexp(self._logits(potentials, block), axis=1))

    def best(self, potentials: Potentials, block: Batch) -> Array:
        return self._logits(potentials, block).argmax(1)

    decode = best  # of one row, the best labeling is its best component

    def sample(self, potentials: Potentials, block: Batch, rng: np.random.Generator) -> Array:
        logits = self._logits(potentials, block)
        return (logits + rng.gumbel(size=logits.shape)).argmax(1)

    @staticmethod
    def _logits(potentials: Potentials, block: Batch) -> Array:
        return row_evidence(potentials, block) + potentials["share"]
