"""How well trees agree with true ones: heads of words, spans of constituents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stickbreak.data import ConstituentTree

__all__ = ["Attachment", "SpanScores", "attachment", "span_counts", "span_scores"]

Array = npt.NDArray[Any]

NOT_SCORED = frozenset(("ROOT", "TOP", "S1", ""))  # labels of outer brackets
PUNCTUATION = frozenset((",", ":", "``", "''", "."))


class Attachment(NamedTuple):
    """Shares of words: with the right head, and with an arc that is right but for its direction."""

    directed: float
    undirected: float


class SpanScores(NamedTuple):
    """Precision, recall and their harmonic mean, and the share of sentences without an error."""

    precision: float
    recall: float
    f1: float
    exact: float


def attachment(truth: Sequence[Any], heads: Sequence[Any]) -> Attachment:
    """Attachment scores of dependency trees.

    Parameters
    ----------
    truth, heads : lists of heads (n,), 0 for the root, else the number of a word, the first 1.

    Returns
    -------
    Attachment: directed, the share of words with the right head, the root's included; undirected,
    the share of words whose arc is one of the true tree in either direction.

    Examples
    --------
    >>> import stickbreak as sb
    >>> sb.metrics.attachment([[2, 0, 2]], [[0, 1, 2]]).directed
    0.3333333333333333
    """
    if len(truth) != len(heads):
        raise ValueError(f"there are {len(truth)} true trees and {len(heads)} to score")
    n_right = n_near = n_words = 0
    for s, (theirs, ours) in enumerate(zip(truth, heads, strict=True)):
        true, found = np.asarray(theirs), np.asarray(ours)
        if true.shape != found.shape:
            raise ValueError(f"sentence {s} has {true.shape} true heads and {found.shape} to score")
        arcs = {frozenset((a, int(h))) for a, h in enumerate(true, 1)}
        n_right += int((true == found).sum())
        n_near += sum(frozenset((a, int(h))) in arcs for a, h in enumerate(found, 1))
        n_words += len(true)
    if not n_words:
        raise ValueError("there are no words to score")
    return Attachment(n_right / n_words, n_near / n_words)


def span_scores(
    truth: Sequence[ConstituentTree],
    trees: Sequence[ConstituentTree | None],
    *,
    labelled: bool = False,
) -> SpanScores:
    """Scores of the spans of constituent trees.

    Parameters
    ----------
    truth, trees : lists of trees over the same words; None to score for a sentence without a tree.
    labelled : spans count with their labels, as often as they occur; words with the true tags
        , : `` '' and . are left out, PRT counts as ADVP and outer brackets (ROOT, TOP, S1) do not
        count, as in evalb with COLLINS.prm. Default: sets of spans of two words and more, that of
        the whole sentence included; sentences of one word are left out.

    Returns
    -------
    SpanScores

    Examples
    --------
    >>> import stickbreak as sb
    >>> true, found = sb.data.parse_brackets("(S (A a) (X (B b) (C c))) (S (X (A a) (B b)) (C c))")
    >>> sb.metrics.span_scores([true], [found]).f1
    0.5
    """
    counts = span_counts(truth, trees, labelled=labelled)
    if not labelled:
        counts = counts[[len(tree.words) > 1 for tree in truth]]
    if not len(counts):
        raise ValueError("there are no spans to score")
    n_right, n_true, n_found = counts.sum(0).tolist()
    precision, recall = n_right / max(n_found, 1), n_right / max(n_true, 1)
    f1 = 2.0 * precision * recall / max(precision + recall, 1e-300)
    exact = (counts[:, :1] == counts[:, 1:]).all(1).mean()
    return SpanScores(precision, recall, f1, float(exact))


def span_counts(
    truth: Sequence[ConstituentTree],
    trees: Sequence[ConstituentTree | None],
    *,
    labelled: bool = False,
) -> Array:
    """Spans of each sentence: (S, 3) those that are right, true ones, and those found.

    For tests of differences, such as a paired bootstrap over sentences.

    Parameters
    ----------
    truth, trees, labelled : as in `span_scores`.

    Examples
    --------
    >>> import stickbreak as sb
    >>> true, found = sb.data.parse_brackets("(S (A a) (X (B b) (C c))) (S (X (A a) (B b)) (C c))")
    >>> sb.metrics.span_counts([true], [found]).tolist()
    [[1, 2, 2]]
    """
    if len(truth) != len(trees):
        raise ValueError(f"there are {len(truth)} true trees and {len(trees)} to score")
    rows = []
    for s, (theirs, ours) in enumerate(zip(truth, trees, strict=True)):
        if ours is not None and len(theirs.words) != len(ours.words):
            raise ValueError(
                f"tree {s} has {len(ours.words)} words, the true one {len(theirs.words)}"
            )
        tags = theirs.tags
        true = _labelled(theirs, tags) if labelled else _spans(theirs)
        found = Counter() if ours is None else _labelled(ours, tags) if labelled else _spans(ours)
        rows.append(((true & found).total(), true.total(), found.total()))
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _spans(tree: ConstituentTree) -> Counter[Any]:
    return Counter({(begin, end) for begin, end, _ in tree.spans() if end - begin > 1})


def _labelled(tree: ConstituentTree, tags: list[str]) -> Counter[Any]:
    """Labelled spans; words are numbered without punctuation, by the true tags."""
    at = np.r_[0, np.cumsum([tag not in PUNCTUATION for tag in tags])]
    found: Counter[Any] = Counter()
    for begin, end, label in tree.spans():
        if label not in NOT_SCORED and at[end] > at[begin]:
            found["ADVP" if label == "PRT" else label, int(at[begin]), int(at[end])] += 1
    return found
