"""How well a clustering agrees with true labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.stats import Array

from .label_pairs import LabelPairs, pair_labels

__all__ = ["many_to_one", "one_to_one", "variation_of_information"]


def many_to_one(truth: Any, labels: Any, *, cross_validated: bool = False) -> float:
    """Share of rows that are right when each label stands for the commonest true one of its rows.

    It rises with the number of labels: rows of their own would make it 1. The cross-validated
    one does not.

    Parameters
    ----------
    truth, labels : (n,) true labels and those to score, of any hashable kind; or lists of
        sequences of them, as `predict` of sequences gives, in which a tuple is one label. NaN is
        refused.
    cross_validated : learn what labels stand for from the first half of the rows and score the
        second, then the other way round; the mean of both. Of an odd number of rows the second
        half has one more. A label that a half lacks stands for the first of the true labels.

    Returns
    -------
    Between 0 and 1. Ties go to the smaller number, or to the true label that comes first in the
    data if labels are not numbers.

    Examples
    --------
    >>> import stickbreak as sb
    >>> sb.metrics.many_to_one(["noun", "noun", "verb", "verb"], [0, 0, 0, 1])
    0.75
    >>> sb.metrics.many_to_one([["noun", "verb"], ["noun", "noun"]], [[0, 1], [0, 0]])
    1.0
    """
    pairs = pair_labels(truth, labels)
    n = len(pairs.truth)
    if not cross_validated:
        return float((_commonest(pairs, slice(None))[pairs.labels] == pairs.truth).mean())
    if n < 2:
        raise ValueError("cross-validation needs at least two rows; truth has 1")
    first, second = slice(0, n // 2), slice(n // 2, n)
    right = [
        (_commonest(pairs, known)[pairs.labels[scored]] == pairs.truth[scored]).mean()
        for known, scored in ((first, second), (second, first))
    ]
    return float(np.mean(right))


def _commonest(pairs: LabelPairs, rows: slice) -> Array:
    """(labels,) commonest true label of each, by these rows; 0 for those that they lack."""
    cells = pairs.cells(rows)
    order = np.lexsort((-cells.truth, cells.rows))  # the last entry wins: most rows, then first
    found = np.zeros(pairs.n_labels, dtype=np.int64)
    found[cells.labels[order]] = cells.truth[order]
    return found


def one_to_one(truth: Any, labels: Any, *, greedy: bool = True) -> float:
    """Share of rows that are right when each label stands for one true label of its own.

    Parameters
    ----------
    truth, labels : as in `many_to_one`. Rows of labels beyond the number of true ones are wrong.
    greedy : match the pair of labels with the most rows, then the next among those left, as
        published figures of part-of-speech induction do. If False, the best matching: one minus
        it is the Hamming distance.

    Returns
    -------
    Between 0 and 1.

    Examples
    --------
    >>> import stickbreak as sb
    >>> truth, labels = [0] * 6 + [1] * 4, [0, 0, 0, 1, 1, 1, 0, 0, 0, 0]
    >>> sb.metrics.one_to_one(truth, labels), sb.metrics.one_to_one(truth, labels, greedy=False)
    (0.7, 0.7)
    """
    pairs = pair_labels(truth, labels)
    right = _match_greedily(pairs) if greedy else _match_best(pairs)
    return right / len(pairs.truth)


def _match_greedily(pairs: LabelPairs) -> int:
    cells = pairs.cells()
    used, taken = np.zeros(pairs.n_labels, dtype=bool), np.zeros(pairs.n_true, dtype=bool)
    right = 0
    for cell in np.argsort(-cells.rows, kind="stable"):
        label, true = cells.labels[cell], cells.truth[cell]
        if not used[label] and not taken[true]:
            used[label] = taken[true] = True
            right += int(cells.rows[cell])
    return right


def _match_best(pairs: LabelPairs) -> int:
    from scipy.optimize import linear_sum_assignment

    cells = pairs.cells()
    table = np.zeros((pairs.n_labels, pairs.n_true), dtype=np.int64)
    table[cells.labels, cells.truth] = cells.rows
    return int(table[linear_sum_assignment(-table)].sum())


def variation_of_information(truth: Any, labels: Any) -> float:
    """H(truth | labels) + H(labels | truth), in bits: 0 for the same clusters, under any names.

    Parameters
    ----------
    truth, labels : as in `many_to_one`; which is which does not matter.

    Examples
    --------
    >>> import stickbreak as sb
    >>> sb.metrics.variation_of_information(["a", "a", "b", "b"], [1, 1, 0, 0])
    0.0
    >>> sb.metrics.variation_of_information(["a", "a", "b", "b"], [0, 1, 0, 1])
    2.0
    """
    pairs = pair_labels(truth, labels)
    cells, n = pairs.cells(), len(pairs.truth)
    sizes = np.bincount(pairs.labels)[cells.labels], np.bincount(pairs.truth)[cells.truth]
    # each logarithm is exactly 0 where a cell holds all rows of its label
    bits = np.log2(sizes[0] / cells.rows) + np.log2(sizes[1] / cells.rows)
    return float(cells.rows @ bits / n)
