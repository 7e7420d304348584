"""Own counts of units whose rows keep their shares, float32: mixtures, documents."""

from __future__ import annotations

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Array
from stickbreak.stats import Field, Fields

__all__ = ["no_shares", "random_shares"]

LEAST_DRAWN = np.float32(1e-30)  # few are zero, but one may be that of the one legal component


def no_shares(n_rows: int, n_components: int, axis: str) -> Fields:
    """Shares (n, K), float32, none yet."""
    shares = np.zeros((n_rows, n_components), dtype=np.float32)
    return Fields({"shares": Field(("row", axis))}, {"shares": shares})


def random_shares(
    batch: Batch, n_components: int, axis: str, rng: np.random.Generator, legal: Array | None
) -> Fields:
    """Uniformly random shares (n, K), float32, of the components that a row may have."""
    shares = rng.standard_exponential((batch.n_rows, n_components), dtype=np.float32)
    np.maximum(shares, LEAST_DRAWN, out=shares)
    if legal is not None and batch.sets is not None:
        shares *= np.asarray(legal)[batch.sets] > 0
    shares /= shares.sum(1, keepdims=True)
    return Fields(no_shares(0, n_components, axis).layout, {"shares": shares})
