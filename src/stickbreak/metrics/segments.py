"""How well segments of strings agree with true ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

__all__ = ["Precision", "SegmentScores", "segment_scores"]


class Precision(NamedTuple):
    """Precision, recall and their harmonic mean."""

    precision: float
    recall: float
    f1: float


class SegmentScores(NamedTuple):
    """Scores of tokens (both ends right), boundaries inside strings, and the lexicon of types."""

    tokens: Precision
    boundaries: Precision
    lexicon: Precision


def segment_scores(truth: Sequence[Any], found: Sequence[Any]) -> SegmentScores:
    """Scores of segmentations.

    Parameters
    ----------
    truth, found : lists of segments, strings or lists of letters, of each string.

    Returns
    -------
    SegmentScores: tokens, boundaries (ends of strings do not count) and lexicon, each with
    precision, recall and f1.

    Examples
    --------
    >>> import stickbreak as sb
    >>> sb.metrics.segment_scores([["the", "dog"]], [["the", "do", "g"]]).tokens.recall
    0.5
    """
    if len(truth) != len(found):
        raise ValueError(f"there are {len(truth)} true strings and {len(found)} to score")
    right: Counter[str] = Counter()
    true: Counter[str] = Counter()
    ours: Counter[str] = Counter()
    types: tuple[set[Any], set[Any]] = set(), set()
    for s, (theirs, mine) in enumerate(zip(truth, found, strict=True)):
        ends, own = (tuple(accumulate(len(part) for part in parts)) for parts in (theirs, mine))
        if ends[-1:] != own[-1:]:
            raise ValueError(f"string {s} has {ends[-1:]} true letters and {own[-1:]} to score")
        tokens = set(zip((0, *ends), ends, strict=False)), set(zip((0, *own), own, strict=False))
        cuts = set(ends[:-1]), set(own[:-1])
        for name, (one, other) in (("tokens", tokens), ("boundaries", cuts)):
            right[name] += len(one & other)
            true[name] += len(one)
            ours[name] += len(other)
        types[0].update(map(_hashable, theirs))
        types[1].update(map(_hashable, mine))
    tokens_score, boundaries_score = (
        _score(right[name], true[name], ours[name]) for name in ("tokens", "boundaries")
    )
    lexicon_score = _score(len(types[0] & types[1]), len(types[0]), len(types[1]))
    return SegmentScores(tokens_score, boundaries_score, lexicon_score)


def _hashable(part: Any) -> Any:
    return part if isinstance(part, str) else tuple(part)


def _score(n_right: int, n_true: int, n_found: int) -> Precision:
    precision, recall = n_right / max(n_found, 1), n_right / max(n_true, 1)
    return Precision(precision, recall, 2.0 * precision * recall / max(precision + recall, 1e-300))
