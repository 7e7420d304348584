"""Collapsed sweeps of documents: the shares of every word, and what follows from them.

Given the words' shares, a document's posterior is Dirichlet(counts + pseudo), as in variational
Bayes. So the counts of a sweep have the same fields as those of a local step, and the bound at the
sweep's shares is the variational one; sweeps do not maximize it, and it may fall.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

from stickbreak.kernels.collapsed import LiveTable, sweep_documents
from stickbreak.kernels.collapsed_draws import sweep_labels
from stickbreak.kernels.tables import padded
from stickbreak.protocols import Array, Out, SweptLane

from .draws import count_labels, document_rng, require_whole_counts

__all__ = ["sweep_words"]


def sweep_words(lane: SweptLane) -> tuple[float, float]:
    """See `BaseStructure.sweep`; own: shares (n, K) of the words, float32."""
    batch, how, out, out_live = lane.batch, lane.how, lane.out, lane.out_live
    assert batch.offsets is not None
    live: LiveTable = lane.live
    (topics, rest), shares, width = lane.pseudo, lane.own["shares"], len(live.totals)
    K, times = shares.shape[1], np.ones(batch.n_spans) if batch.times is None else batch.times
    words = np.ascontiguousarray(batch.rows[:, 0], dtype=np.int64), batch.repeats_or_ones()
    sets, allowed = np.zeros(0, dtype=np.int64), np.ones((1, width))
    if batch.sets is not None and lane.legal is not None:
        sets, allowed = np.asarray(batch.sets, dtype=np.int64), padded(lane.legal, width)
    counts, local_bound = np.empty((batch.n_spans, width)), 0.0
    given = (
        *live, *words, batch.offsets, times, padded(topics, width), rest, sets, allowed, shares,
        how.is_part,
    )  # fmt: skip
    if how.seeds is None:
        log_z, local_bound = sweep_documents(
            *given, how.moves, how.is_measured, out_live.counts, counts
        )
        local_bound += _finish(counts[:, :K], times, topics, rest, out)
    else:
        require_whole_counts(batch)
        log_z = sweep_labels(*given, how.seeds, how.power, out_live.counts, counts)
        count_labels(counts[:, :K], times, topics, document_rng(how.seeds), out)
    held = times @ counts
    out_live.totals[...] += held
    out["share"] += held[:K]
    return float(log_z), float(local_bound)


def _finish(counts: Array, times: Array, pseudo: Array, rest: float, out: Out) -> float:
    """Add E[log pi] of documents with counts (S, K); returns what they add to the bound.

    This is -E[log q(pi)] + E[log p(z | pi)], less what the prior's bound has.
    """
    theta = counts + pseudo
    total = theta.sum(1) + rest
    expected = digamma(theta) - digamma(total)[:, None]
    own = gammaln(theta).sum(1) - gammaln(total) - expected @ pseudo
    out["log_share"] += times @ expected
    if rest > 0:
        log_rest = digamma(rest) - digamma(total)
        own += gammaln(rest) - rest * log_rest
        out["log_rest"] += times @ log_rest
    return float(times @ own)
