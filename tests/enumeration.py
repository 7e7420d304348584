"""Oracles of samplers: posteriors of tiny problems by enumeration, averages of long runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

Array = np.ndarray
ERRORS = 5.0


def log_dirichlet_multinomial(counts: Array, alpha: Array) -> Array:
    """(...) log probability of a sequence with these counts along the last axis, the shares
    integrated out.
    """
    rise = gammaln(counts + alpha) - gammaln(alpha)
    return rise.sum(-1) + gammaln(alpha.sum(-1)) - gammaln((counts + alpha).sum(-1))


def assert_average(values: Any, expected: Any) -> None:
    """Within some standard errors, which are those of averages of long blocks: neighbours in a
    chain are alike.
    """
    values = np.asarray(values, dtype=float)
    n_blocks = min(
        25, len(values) // 40
    )  # blocks of a short run are as long as those of a long one
    blocks = np.array([part.mean(0) for part in np.array_split(values, n_blocks)])
    error = blocks.std(0, ddof=1) / np.sqrt(n_blocks)
    assert (np.abs(blocks.mean(0) - expected) <= ERRORS * error + 1e-9).all(), (
        blocks.mean(0),
        expected,
        error,
    )
