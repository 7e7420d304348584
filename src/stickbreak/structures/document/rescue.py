"""Documents in logs, for words whose weights underflow."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.kernels.documents import log_documents
from stickbreak.protocols import Array, Potentials
from stickbreak.stats import WordShares

from ..base import row_evidence
from .evidence import largest_or_zero

__all__ = ["rescue"]


def rescue(
    potentials: Potentials,
    block: Batch,
    lost: Array,
    shares: WordShares,
    log_share: Array,
    found: Array,
    *,
    max_steps: int,
    tol: float,
) -> WordShares:
    """Infer documents in logs if the sum of a word's weights underflows.

    The shares returned are stored word by word.
    """
    assert block.offsets is not None
    K, width = shares.n_components, shares.table.shape[1]
    evidence, dense = (
        np.ascontiguousarray(row_evidence(potentials, block)),
        np.zeros((block.n_rows, width)),
    )
    dense[:, :K] = np.asarray(shares)
    pseudo, rest = np.asarray(potentials["pseudo"], dtype=float), float(potentials["rest"])
    tops = largest_or_zero(evidence)
    for s in lost:
        at = slice(int(block.offsets[s]), int(block.offsets[s + 1]))
        repeats, own, log_weights = (
            block.repeats_or_ones()[at],
            shares.counts[s, :K].copy(),
            np.empty(K),
        )
        log_sums = np.empty(len(repeats))
        log_documents(evidence[at], repeats, pseudo, max_steps, tol, own, log_weights, log_sums)
        if not np.isfinite(log_sums).all():
            raise NumericalError(
                f"document {block.unit_at + s} has a word that no component "
                "can have; check the prior"
            )
        dense[at, :K] = (
            repeats[:, None]
            * np.exp(evidence[at] + log_weights - log_sums[:, None])
            * shares.times[s]
        )
        shares.counts[s, :K] = own
        found[s, :2] = finish_in_logs(
            own, repeats, pseudo, rest, log_weights, log_sums, log_share, shares.times[s]
        )
        found[s, 0] -= repeats @ tops[at]
    index = np.arange(block.n_rows)
    whole = np.ones_like(shares.weights)
    return WordShares(
        dense,
        index,
        block.offsets,
        whole,
        np.ones(block.n_rows),
        shares.counts,
        shares.times,
        K,
    )


def finish_in_logs(
    counts: Array,
    repeats: Array,
    pseudo: Array,
    rest: float,
    log_weights: Array,
    log_sums: Array,
    log_share: Array,
    times: float,
) -> tuple[float, float]:
    """As the kernel of that name: log normalizers of the words, own part of the bound.

    Adds E[log pi] to log_share.
    """
    tokens, theta = repeats.sum(), counts + pseudo
    total = theta.sum() + rest
    expected = digamma(theta) - digamma(total)
    used = counts[counts > 0] @ log_weights[counts > 0]
    own = gammaln(theta).sum() - gammaln(total) - pseudo @ expected - used + tokens * digamma(total)
    log_share[: len(counts)] += times * expected
    if rest > 0:
        log_rest = digamma(rest) - digamma(total)
        own += gammaln(rest) - rest * log_rest
        log_share[-1] += times * log_rest
    return float(repeats @ log_sums - tokens * digamma(total)), float(own)
