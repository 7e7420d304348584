"""Scores of word alignments against links that people drew."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stickbreak.data import Gold, Links, as_links
from stickbreak.stats import Array

__all__ = ["AlignmentScores", "alignment_error_rate", "alignment_scores"]


class AlignmentScores(NamedTuple):
    """Scores of links A against sure links S and possible ones P, which include S; in [0, 1].

    aer : alignment error rate, 1 - (n(A and S) + n(A and P)) / (n(A) + n(S)), n the number of links
    precision : n(A and P) / n(A). recall : n(A and S) / n(S)
    f1 : their harmonic mean
    """

    aer: float
    precision: float
    recall: float
    f1: float


def alignment_scores(links: Any, gold: Any) -> AlignmentScores:
    """Alignment error rate, precision, recall and F1, over all links of the gold's pairs.

    Parameters
    ----------
    links : of each sentence pair: what `align` or `read_links` gives, lists of (source, target)
        positions from 0, or Pharaoh lines. Pairs without gold are left out.
    gold : what `read_gold` gives; or links of each pair, all of them sure.

    Returns
    -------
    AlignmentScores. A precision of no links is 0.

    Examples
    --------
    >>> from stickbreak.metrics import alignment_scores
    >>> alignment_scores(["0-0 1-2"], ["0-0 1-1 2-2"]).recall.__round__(3)
    0.333
    """
    found, truth = as_links(links), _as_gold(gold)
    last = int(truth.pairs.max(initial=-1))
    if last >= len(found):
        raise ValueError(
            f"the gold has links of pair {last} (from 0) but there are links of {len(found)} pairs"
        )
    chosen = found.take(truth.pairs)
    n_sure = truth.sure.n_links
    if not n_sure:
        raise ValueError("the gold has no sure links")
    keys = _keys(chosen)
    hits = int(np.isin(keys, _keys(truth.sure)).sum())
    allowed = int(np.isin(keys, _keys(truth.possible)).sum())
    precision, recall = allowed / max(len(keys), 1), hits / n_sure
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return AlignmentScores(1 - (hits + allowed) / (len(keys) + n_sure), precision, recall, f1)


def alignment_error_rate(links: Any, gold: Any) -> float:
    """The alignment error rate alone; see `alignment_scores`. Lower is better."""
    return alignment_scores(links, gold).aer


def _as_gold(given: Any) -> Gold:
    if isinstance(given, Gold):
        return given
    links = as_links(given, "gold")
    return Gold(links, links, np.arange(len(links)))


def _keys(links: Links) -> Array:
    """(L,) one number for each link."""
    units = np.repeat(np.arange(len(links), dtype=np.int64), np.diff(links.offsets))
    return (units << 32) | (links.positions[:, 0].astype(np.int64) << 16) | links.positions[:, 1]
