"""Collapsed sweeps of documents: the shares of every word, and what follows from them.

Given the words' shares, a document's posterior is Dirichlet(counts + pseudo), as in variational
Bayes. So the counts of a sweep have the same fields as those of a local step, and the bound at the
sweep's shares is the variational one; sweeps do not maximize it, and it may fall.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

from stickbreak.kernels.collapsed import LiveTable, count_documents, sweep_documents
from stickbreak.kernels.collapsed_draws import sweep_labels
from stickbreak.kernels.tables import aligned, digamma_table, padded
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
    counts, log_z, local_bound = aligned((batch.n_spans, width)), 0.0, 0.0
    spans, prior = (batch.offsets, times), (padded(topics, width), rest)
    given = *live, *words, *spans, *prior, sets, allowed, shares, how.is_part
    if how.seeds is not None:
        require_whole_counts(batch)
        log_z = sweep_labels(*given, how.seeds, how.power, out_live.counts, counts)
        count_labels(counts[:, :K], times, topics, document_rng(how.seeds), out)
    else:
        if how.moves:
            into = live.counts if how.is_part else out_live.counts
            log_z, local_bound = sweep_documents(*given, how.is_measured, into, counts)
        if not how.moves or (how.is_part and not how.in_place):
            local_bound = count_documents(*words, *spans, shares, out_live.counts, counts)
        local_bound += _finish(counts[:, :K], times, topics, rest, how.is_measured, out)
    held = times @ counts
    if not how.in_place:
        out_live.totals[...] += held
    out["share"] += held[:K]
    return float(log_z), float(local_bound)


def _finish(
    counts: Array, times: Array, pseudo: Array, rest: float, is_measured: bool, out: Out
) -> float:
    """Add E[log pi] of documents with counts (S, K); returns what they add to the bound.

    This is -E[log q(pi)] + E[log p(z | pi)], less what the prior's bound has; 0 if not wanted.
    """
    theta = counts + pseudo
    total, expected = theta.sum(1) + rest, np.empty_like(theta)
    digamma_table(theta, 0.0, expected)
    expected -= digamma(total)[:, None]
    log_rest = digamma(rest) - digamma(total) if rest > 0 else np.zeros(len(total))
    out["log_share"] += times @ expected
    if rest > 0:
        out["log_rest"] += times @ log_rest
    if not is_measured:
        return 0.0
    own = gammaln(theta).sum(1) - gammaln(total) - expected @ pseudo
    if rest > 0:
        own += gammaln(rest) - rest * log_rest
    return float(times @ own)
