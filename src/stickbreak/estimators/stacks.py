"""Sequences as users pass them: a list of arrays, or rows one after another with `lengths` or
`sequence_id`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from stickbreak.data import Sequences, is_sparse, lag_rows
from stickbreak.errors import rows_named
from stickbreak.stats import Array

from .frames import frame_kind, is_text
from .identities import offsets_of_runs, split_identity
from .tables import Given, check_rows, check_weights, open_rows, read_rows

__all__ = ["Shape", "Stack", "lagged_names", "make_stack", "stack_values"]


@dataclass(frozen=True)
class Shape:
    """How a user gave the sequences, and wants the answers.

    offsets (S + 1,): of the rows that are modelled. n_before: rows at the beginning of each
    sequence that are context only. is_list: sequence by sequence, or one after another.
    """

    offsets: Array
    n_before: int = 0
    is_list: bool = False

    @cached_property
    def given_offsets(self) -> Array:
        """(S + 1,) of the rows as given."""
        return self.offsets + self.n_before * np.arange(len(self.offsets))

    @property
    def n_given(self) -> int:
        """Rows as given."""
        return int(self.given_offsets[-1])

    @cached_property
    def _source(self) -> Array:
        """(n_given,) the modelled row that speaks for each row: itself, or the first one of its
        sequence.
        """
        lengths = np.diff(self.given_offsets)
        at = np.arange(self.n_given) - np.repeat(
            self.n_before * np.arange(1, len(lengths) + 1), lengths
        )
        return np.maximum(at, np.repeat(self.offsets[:-1], lengths))

    @cached_property
    def is_modelled(self) -> Array:
        """(n_given,) whether a row is more than context."""
        found = np.ones(self.n_given, dtype=bool)
        found[self.given_offsets[:-1, None] + np.arange(self.n_before)] = False
        return found

    def answer(self, values: Array, *, repeat_first: bool = True) -> Any:
        """Values (n, ...) of the modelled rows for all rows; context rows take those of the first
        modelled one, or NaN.
        """
        if self.n_before:
            values = values[self._source]
            if not repeat_first:
                values[~self.is_modelled] = np.nan
        return self.split(values)

    def split(self, values: Array) -> Any:
        """Values (n_given, ...) as a list of those of each sequence where sequences were
        given so.
        """
        return [values[a:b] for a, b in pairwise(self.given_offsets)] if self.is_list else values


@dataclass(frozen=True)
class Stack(Sequences):
    """Sequences of a user, as the family reads them. n_before, is_list: see Shape."""

    n_before: int = 0
    is_list: bool = False

    @property
    def shape(self) -> Shape:
        """How they were given."""
        assert self.offsets is not None
        return Shape(self.offsets, self.n_before, self.is_list)


def make_stack(estimator: Any, given: Given, family: Any, *, reset: bool) -> Stack:
    """Check and wrap sequences: rows as numbers, with their past where the family asks for it."""
    if given.lengths is not None and given.sequence_id is not None:
        raise ValueError("lengths and sequence_id say the same: give one of them")
    is_list = (
        given.lengths is None
        and given.sequence_id is None
        and is_list_of_sequences(given.X, family)
    )
    offsets: Array | None
    if is_list:
        X, offsets = join_sequences(given.X, family)
    else:
        X, runs = split_identity(*_opened(estimator, given, reset))
        X, offsets = (
            _as_column(X, family),
            None if runs is None else offsets_of_runs(runs, _count_rows(X)),
        )
    with rows_named(offsets if is_list else None):
        rows, is_checked = read_rows(estimator, X, family, reset=reset)
    if offsets is None:
        offsets = _offsets_of_lengths(given.lengths, int(rows.shape[0]))
    stack, n_given = Stack(rows, offsets=offsets, is_list=is_list), int(rows.shape[0])
    if given.context is not None:
        stack = replace(stack, rows=_with_context(rows, given.context, family, is_list))
    elif family.lags:
        lagged, ends = lag_rows(rows, offsets, family.lags)
        stack = replace(stack, rows=lagged, offsets=ends, n_before=family.lags)
    names = lagged_names(getattr(estimator, "feature_names_in_", None), family.lags)
    with rows_named(offsets if is_list and not stack.n_before else None):
        check_rows(stack, family, names, is_checked=is_checked, reset=reset)
    if given.sample_weight is None:
        return stack
    return replace(stack, repeats=_row_weights(given.sample_weight, stack, n_given))


def _opened(estimator: Any, given: Given, reset: bool) -> tuple[Any, Any, Any]:
    """Rows of a file opened, unless a column of it names its sequences; the ids; and the names of
    the fit's columns.
    """
    names = None if reset else getattr(estimator, "feature_names_in_", None)
    if isinstance(given.sequence_id, str):
        return given.X, given.sequence_id, names
    return open_rows(given.X, names, estimator.verbose), given.sequence_id, names


# ---------------------------------------------------------------------------------------------- lis


def is_list_of_sequences(X: Any, family: Any) -> bool:
    """Whether X is a list of sequences: of tables, of CSR matrices, of data frames; of arrays (or
    words) for families of symbols.

    A list of lists of numbers is a table, as everywhere in scikit-learn.
    """
    if not isinstance(X, list | tuple) or len(X) == 0:
        return False
    first = X[0]
    if frame_kind(first) is not None or is_sparse(first):
        return True
    if isinstance(first, list | tuple):
        if len(
            {len(row) if isinstance(row, list | tuple) else -1 for row in X}
        ) > 1 and not _is_nested(X):
            raise ValueError(
                "X is a list of lists of different lengths: give every sequence as an array, of "
                "shape (T, D), "
                "or (T,) for one column of symbols"
            )
        return _is_nested(X)
    n_axes = np.ndim(first) if hasattr(first, "__array__") else 0
    if n_axes == 1 and family.max_categories == 0:
        raise ValueError(
            "X is a list of arrays of one dimension, which may be rows or sequences: give "
            "sequences as arrays of shape (T, D), "
            "(T, 1) for a single column, and rows as one array of shape (n, D)"
        )
    return n_axes >= 1


def _is_nested(X: Sequence[Any]) -> bool:
    """Whether some list in X begins with a word or with a list."""
    return any(
        isinstance(part, list | tuple) and len(part) > 0 and isinstance(part[0], str | list | tuple)
        for part in X
    )


def join_sequences(X: Sequence[Any], family: Any) -> tuple[Any, Array]:
    """Sequences one after another, and offsets (S + 1,)."""
    kind = frame_kind(X[0])
    parts = (
        list(X)
        if kind is not None
        else [part if is_sparse(part) else _as_table(part, s) for s, part in enumerate(X)]
    )
    for s, part in enumerate(parts):
        if frame_kind(part) != kind or is_sparse(part) != is_sparse(parts[0]):
            raise ValueError(
                f"sequence {s} is a {type(part).__name__}, the first is a "
                f"{type(parts[0]).__name__}: give all alike"
            )
        if part.shape[0] == 0:
            raise ValueError(
                f"sequence {s} has no rows; drop it: every sequence needs at least one"
            )
        if part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"sequence {s} has {part.shape[1]} columns, the first has {parts[0].shape[1]}"
            )
    offsets = np.cumsum([0, *(part.shape[0] for part in parts)])
    return _concatenate(parts, kind), offsets


def _concatenate(parts: list[Any], kind: str | None) -> Any:
    if kind == "pandas":
        import pandas

        return pandas.concat(parts, ignore_index=True)
    if kind == "polars":
        import polars

        return polars.concat(parts)
    if is_sparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    words = [is_text(part) for part in parts]
    if any(words) and not all(words):
        raise ValueError(
            f"sequence {words.index(True)} holds words, sequence {words.index(False)} "
            "numbers: give all alike"
        )
    return np.concatenate(parts)


def _as_table(part: Any, s: int) -> Array:
    """(T, D) one sequence; one of a single dimension has one column."""
    values = part if isinstance(part, np.ndarray) else _as_array(part)
    if values.ndim == 1:
        return values[:, None]
    if values.ndim != 2:
        raise ValueError(
            f"sequence {s} has shape {values.shape}; expected (T, D), or (T,) for a single column"
        )
    return values


def _as_array(part: Any) -> Array:
    """An array of numbers, or of words as they are: numpy alone would make words of numbers among
    them.
    """
    if isinstance(part, list | tuple) and any(isinstance(value, str) for value in part):
        return np.array(
            part, dtype=None if all(isinstance(value, str) for value in part) else object
        )
    return np.asarray(part)


def _as_column(X: Any, family: Any) -> Any:
    """A single sequence of symbols, (T,) or a list of words, as a column; all else as it is."""
    if family.max_categories == 0:
        return X
    if isinstance(X, list | tuple) and len(X) and isinstance(X[0], str):
        return _as_array(X)[:, None]
    return X[:, None] if isinstance(X, np.ndarray) and X.ndim == 1 else X


def stack_values(name: str, values: Any, shape: Shape) -> Array:
    """(n_given, ...) values of all rows: one array, or a list with one for each sequence where
    those are a list.
    """
    if shape.is_list and not isinstance(values, list | tuple):
        raise ValueError(
            f"X is a list of sequences, so {name} must be a list too, with an array "
            "for each of them"
        )
    if not shape.is_list:
        found = np.asarray(values)
        if found.ndim < 1 or len(found) != shape.n_given:
            raise ValueError(f"{name} has shape {found.shape} but X has {shape.n_given} rows")
        return found
    parts, lengths = [np.asarray(part) for part in values], np.diff(shape.given_offsets)
    if len(parts) != len(lengths):
        raise ValueError(f"{name} has {len(parts)} entries but X has {len(lengths)} sequences")
    for s, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        if part.ndim < 1 or len(part) != length:
            raise ValueError(
                f"{name} of sequence {s} has shape {part.shape}, but the sequence has {length} rows"
            )
    return np.concatenate(parts)


# ---------------------------------------------------------------------------------------------- len


def _count_rows(X: Any) -> int:
    return int(X.n_rows if hasattr(X, "n_rows") else X.shape[0] if hasattr(X, "shape") else len(X))


def _offsets_of_lengths(lengths: Any, n_rows: int) -> Array:
    """(S + 1,) from the lengths of the sequences; None is one sequence."""
    if lengths is None:
        return np.array([0, n_rows])
    found = np.asarray(lengths)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not found.size:
        raise ValueError(
            f"lengths must be a list of whole numbers, one for each sequence; got {lengths!r}"
        )
    short = np.flatnonzero(found < 1)
    if len(short):
        raise ValueError(
            f"sequence {short[0]} has length {found[short[0]]}; every sequence needs "
            "at least one row"
        )
    if found.sum() != n_rows:
        raise ValueError(
            f"lengths sums to {found.sum()} but X has {n_rows} rows; give the length "
            "of every sequence"
        )
    return np.r_[0, np.cumsum(found)].astype(np.int64)


def _row_weights(sample_weight: Any, stack: Stack, n_given: int) -> Array:
    """(n,) how often each row counts: as often as its sequence does."""
    shape = stack.shape
    values = np.asarray(sample_weight)
    if values.ndim != 1 or len(values) not in (stack.n_spans, n_given):
        raise ValueError(
            f"sample_weight has shape {values.shape}; expected a weight for each of the "
            f"{stack.n_spans} sequences, "
            f"or for each of the {n_given} rows"
        )
    weights = check_weights(sample_weight, values)
    if len(values) != stack.n_spans:
        first = weights[shape.given_offsets[:-1]]
        uneven = np.flatnonzero(weights != np.repeat(first, np.diff(shape.given_offsets)))
        if len(uneven):
            s = int(np.searchsorted(shape.given_offsets, uneven[0], side="right")) - 1
            raise ValueError(
                f"sample_weight holds {first[s]:g} and {weights[uneven[0]]:g} within sequence {s}; "
                "a sequence counts as a whole: "
                "give one weight for each sequence"
            )
        weights = first
    assert stack.offsets is not None
    return np.repeat(weights, np.diff(stack.offsets))


def _with_context(rows: Any, context: Any, family: Any, is_list: bool) -> Array:
    """Rows (n, D) with the contexts (n, D order) that the user has for them."""
    if not family.lags:
        raise ValueError(
            f"context is for autoregressive families; {type(family).__name__} has none"
        )
    if is_list:
        if not isinstance(context, list | tuple):
            raise ValueError(
                "X is a list of sequences, so context must be a list too, with an "
                "array for each of them"
            )
        context = np.concatenate([np.asarray(part, dtype=float) for part in context])
    found = np.asarray(context, dtype=float)
    expected = (int(rows.shape[0]), int(rows.shape[1]) * family.lags)
    if found.shape != expected:
        raise ValueError(
            f"context has shape {found.shape}; expected {expected}: for every row the "
            f"{family.lags} before it, the latest first"
        )
    if np.isinf(found).any():
        raise ValueError("context holds infinity; values must be finite, or NaN where missing")
    return np.concatenate([np.asarray(rows, dtype=float), found], axis=1)


def lagged_names(names: Any, lags: int) -> list[str] | None:
    """Names of the columns of rows that carry their past."""
    if names is None:
        return None
    past = [f"{name} {lag} before" for lag in range(1, lags + 1) for name in names]
    return [*(str(name) for name in names), *past]
