"""A structure to copy: every row draws its component anew, in plain NumPy. It works as it stands.

Copy it to src/stickbreak/structures/, change the dynamic program, and give it a kernel when it is
right. Two laws test a structure: log_z equals the enumeration of all labellings, and its derivative
by a potential is the expected count (`stickbreak.checks.check_structure`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from stickbreak.data import Batch
from stickbreak.protocols import Array, Local, Potentials
from stickbreak.stats import Fields
from stickbreak.structures import BaseStructure, row_evidence


@dataclass(frozen=True)
class Alone(BaseStructure):
    """Units are rows. A unit of several rows has its bounds in `block.offsets`; a block never
    splits a unit.
    """

    def cold_start(self, batch: Batch, n_components: int, axis: str) -> Fields | None:
        """Values for each unit to start from (axes "row" or "unit"), where the local optimum is not
        unique.
        """
        return None

    def infer(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        """Add the prior's counts to `out`, write `warm`; the model collects the family's counts
        from the shares.
        """
        logits = row_evidence(potentials, block) + potentials["share"]
        log_z = logsumexp(logits, axis=1)
        repeats = block.repeats_or_ones()
        shares = np.exp(logits - log_z[:, None]) * repeats[:, None]
        out["share"] += shares.sum(0)
        return Local(float(repeats @ log_z), shares)

    def infer_best(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        """The same with the best single labelling: log_z is its log weight."""
        logits = row_evidence(potentials, block) + potentials["share"]
        best, repeats = logits.argmax(1), block.repeats_or_ones()
        shares = np.zeros_like(logits)
        shares[np.arange(len(best)), best] = repeats
        self.count(best, block, out)
        return Local(float(repeats @ logits.max(1)), shares)

    def count(self, labels: Array, block: Batch, out: dict[str, Array]) -> None:
        """Add the prior's counts of a known labelling; -1 is unknown and counts for nobody."""
        known = labels >= 0
        out["share"] += np.bincount(
            labels[known], weights=block.repeats_or_ones()[known], minlength=len(out["share"])
        )

    def decode(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) best component of each row."""
        return (row_evidence(potentials, block) + potentials["share"]).argmax(1)

    best = decode  # the best labelling of a unit as a whole is the same here

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(units,) log normalizer of each unit; under predictive potentials its log predictive
        density.
        """
        return np.asarray(logsumexp(row_evidence(potentials, block) + potentials["share"], axis=1))

    def sample(self, potentials: Potentials, block: Batch, rng: np.random.Generator) -> Array:
        """(n,) components drawn from the posterior."""
        logits = row_evidence(potentials, block) + potentials["share"]
        return (logits + rng.gumbel(size=logits.shape)).argmax(1)
