"""Evidence of a block's rows, and shares of labels: what structures begin and end with."""

from __future__ import annotations

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Array, Potentials

__all__ = ["mask_illegal", "one_hot", "row_evidence"]


def row_evidence(potentials: Potentials, block: Batch) -> Array:
    """(n, K) log evidence of a prepared block, -inf where a row may not use a component."""
    return np.asfortranarray(
        mask_illegal(potentials, block, potentials.scores.evidence(block.rows))
    )


def one_hot(labels: Array, n_components: int, block: Batch) -> Array:
    """(n, K) shares that give each row to one component, times its repeats."""
    shares = np.zeros((n_components, block.n_rows))
    shares[labels, np.arange(block.n_rows)] = block.repeats_or_ones()
    return shares.T


def mask_illegal(potentials: Potentials, block: Batch, evidence: Array) -> Array:
    """Evidence (n, K), -inf where a row may not use a component."""
    if block.sets is None or potentials.log_legal is None:
        return evidence
    return evidence + potentials.log_legal[block.sets]
