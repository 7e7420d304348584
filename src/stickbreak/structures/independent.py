"""Every row draws its component anew: mixtures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.kernels.rows import best_rows, softmax_rows
from stickbreak.protocols import Array, Local, Potentials
from stickbreak.stats import Fields

__all__ = ["Independent", "judge"]


def judge(potentials: Potentials, block: Batch) -> Array:
    """(n, K) log evidence of a prepared block, -inf where a row may not use a component."""
    evidence = potentials.scores.evidence(block.rows)
    if block.sets is not None and potentials.log_legal is not None:
        evidence = evidence + potentials.log_legal[block.sets]
    return np.asfortranarray(evidence)


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

    @staticmethod
    def _best(potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        logits = judge(potentials, block).T
        best, value = np.empty(logits.shape[1], dtype=np.int64), np.empty(logits.shape[1])
        best_rows(logits, potentials["share"], best, value)
        if np.isnan(value).any():
            raise NumericalError("a row's evidence is not a number; check the data's scale and the family's prior")
        return best, value
