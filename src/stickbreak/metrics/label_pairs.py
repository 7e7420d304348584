"""Two labelings of the same rows, as users give them: flat or in sequences, of any labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stickbreak.stats import Array

__all__ = ["Cells", "LabelPairs", "pair_labels"]


class Cells(NamedTuple):
    """Pairs of labels that occur: label and truth number, and rows (m,), labels first."""

    labels: Array
    truth: Array
    rows: Array


class LabelPairs(NamedTuple):
    """Numbers (n,) of the true labels and of those to score, and how many kinds there are of each.

    Numbers are in the order of the labels if these are numbers, else in that of their first rows.
    """

    truth: Array
    labels: Array
    n_true: int
    n_labels: int

    def cells(self, rows: slice = slice(None)) -> Cells:
        """The cells of the contingency table that hold a row, line by line."""
        codes, counts = np.unique(
            self.labels[rows] * self.n_true + self.truth[rows], return_counts=True
        )
        return Cells(codes // self.n_true, codes % self.n_true, counts)


def pair_labels(truth: Any, labels: Any) -> LabelPairs:
    """Both labelings by number. Raises ValueError if they do not fit together."""
    (true, parts), (found, others) = _flatten("truth", truth), _flatten("labels", labels)
    if parts is not None and others is not None:
        _require_same_sequences(parts, others)
    if len(true) != len(found):
        raise ValueError(f"truth has {len(true)} rows but labels has {len(found)}")
    if len(true) == 0:
        raise ValueError("truth and labels are empty; give at least one row")
    return _pairs(_number("truth", true), _number("labels", found))


def _pairs(truth: tuple[Array, int], labels: tuple[Array, int]) -> LabelPairs:
    return LabelPairs(truth[0], labels[0], truth[1], labels[1])


def _flatten(name: str, given: Any) -> tuple[Sequence[Any] | Array, list[int] | None]:
    """Labels one after another; the lengths of sequences, or None for a flat list.

    A sequence is a list or an array: a tuple is one label, for it may be one.
    """
    if isinstance(given, str | bytes) or not hasattr(given, "__len__"):
        raise ValueError(f"{name} must be a list or an array of labels; got {given!r}")
    if hasattr(given, "__array__"):
        found = np.asarray(given)
        if found.ndim != 1:
            raise ValueError(
                f"{name} has shape {found.shape}; give one label for each row, (n,), or a list of "
                "such arrays"
            )
        return found, None
    parts = list(given)
    is_sequence = [_is_sequence(part) for part in parts]
    if not any(is_sequence):
        return parts, None
    if not all(is_sequence):
        at = is_sequence.index(not is_sequence[0])
        raise ValueError(f"{name} mixes labels and sequences of labels; see its entry {at}")
    flat = [_flatten(f"{name}[{s}]", part)[0] for s, part in enumerate(parts)]
    if all(isinstance(part, np.ndarray) and part.dtype.kind in "iufb" for part in flat):
        return np.concatenate(flat), [len(part) for part in flat]
    return [label for part in flat for label in part], [len(part) for part in flat]


def _is_sequence(part: Any) -> bool:
    return isinstance(part, list) or (hasattr(part, "__array__") and np.ndim(part) > 0)


def _require_same_sequences(truth: list[int], labels: list[int]) -> None:
    if len(truth) != len(labels):
        raise ValueError(f"truth has {len(truth)} sequences but labels has {len(labels)}")
    for s, (length, other) in enumerate(zip(truth, labels, strict=True)):
        if length != other:
            raise ValueError(f"sequence {s} has {length} rows in truth but {other} in labels")


def _number(name: str, found: Sequence[Any] | Array) -> tuple[Array, int]:
    """(n,) number of each label, and how many labels there are."""
    if isinstance(found, np.ndarray) and found.dtype.kind in "iufb":
        if found.dtype.kind == "f" and np.isnan(found).any():
            raise ValueError(_missing(name, int(np.flatnonzero(np.isnan(found))[0]), np.nan))
        distinct, codes = np.unique(found, return_inverse=True)
        return codes, len(distinct)
    known: dict[Hashable, int] = {}
    codes = np.empty(len(found), dtype=np.int64)
    for row, label in enumerate(found):
        try:
            codes[row] = known.setdefault(label, len(known))
        except TypeError:
            raise ValueError(
                f"{name} has {label!r} in row {row}; a label is a number, a word or another "
                "hashable value"
            ) from None
    for label, code in known.items():
        if _is_missing(label):
            raise ValueError(_missing(name, int(np.flatnonzero(codes == code)[0]), label))
    return _by_value(list(known), codes), len(known)


def _missing(name: str, row: int, label: Any) -> str:
    return f"{name} has {label} in row {row}; leave out rows without a label"


def _is_missing(label: Any) -> bool:
    """Whether a label is NaN, NaT or NA: not equal to itself."""
    differs = label != label
    return not (differs is False or differs is np.False_)


def _by_value(known: list[Any], codes: Array) -> Array:
    """Codes renumbered in the order of the labels, if these are numbers."""
    if not all(isinstance(label, int | float | np.number) for label in known):
        return codes
    rank = np.empty(len(known), dtype=np.int64)
    rank[sorted(range(len(known)), key=known.__getitem__)] = np.arange(len(known))
    return rank[codes]
