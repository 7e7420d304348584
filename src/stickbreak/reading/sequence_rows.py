"""Sequences as users pass them: a list of arrays, or rows one after another with their lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from stickbreak.data import Sequences, is_sparse, lag_rows
from stickbreak.errors import rows_named
from stickbreak.families.base import BaseFamily
from stickbreak.stats import Array

from .frame_columns import frame_kind, is_text
from .schema import Given, Schema
from .sequence_ids import offsets_of_runs, split_ids
from .table_rows import check_rows, check_weights, open_rows, read_rows

__all__ = ["Shape", "Stack", "lagged_names", "read_sequences", "stack_values"]


@dataclass(frozen=True)
class Shape:
    """How a user gave sequences, and wants the answers.

    offsets : (S + 1,) of the rows that are modeled
    n_before : rows at the beginning of each sequence that are context only
    is_list : a list of sequences, or all rows one after another
    """

    offsets: Array
    n_before: int = 0
    is_list: bool = False

    @cached_property
    def given_offsets(self) -> Array:
        """(S + 1,) offsets of the rows as given."""
        return self.offsets + self.n_before * np.arange(len(self.offsets))

    @property
    def n_given(self) -> int:
        """Number of rows as given."""
        return int(self.given_offsets[-1])

    @cached_property
    def _source(self) -> Array:
        """(n_given,) the modeled row for each row: itself, or the first of its sequence."""
        lengths = np.diff(self.given_offsets)
        before = np.repeat(self.n_before * np.arange(1, len(lengths) + 1), lengths)
        return np.maximum(np.arange(self.n_given) - before, np.repeat(self.offsets[:-1], lengths))

    @cached_property
    def is_modelled(self) -> Array:
        """(n_given,) whether a row is more than context."""
        found = np.ones(self.n_given, dtype=bool)
        found[self.given_offsets[:-1, None] + np.arange(self.n_before)] = False
        return found

    def answer(self, values: Array, *, repeat_first: bool = True) -> Any:
        """Values (n, ...) of the modeled rows, expanded to all rows as given.

        Context rows take the value of the first modeled row, or NaN.
        """
        if self.n_before:
            values = values[self._source]
            if not repeat_first:
                values[~self.is_modelled] = np.nan
        return self.split(values)

    def split(self, values: Array) -> Any:
        """Values (n_given, ...), as a list of sequences if they were given as one."""
        return [values[a:b] for a, b in pairwise(self.given_offsets)] if self.is_list else values


@dataclass(frozen=True)
class Stack(Sequences):
    """A user's sequences, as the family reads them. n_before, is_list : see Shape.

    ids : those of `sequence_id`, one for each sequence; empty if there were none
    """

    n_before: int = 0
    is_list: bool = False
    ids: tuple[Any, ...] = ()

    @property
    def shape(self) -> Shape:
        """How they were given."""
        assert self.offsets is not None
        return Shape(self.offsets, self.n_before, self.is_list)


def read_sequences(given: Given, family: BaseFamily, schema: Schema | None) -> tuple[Stack, Schema]:
    """Checked sequences and their schema, which is learned if None.

    Rows carry their past if the family needs it.
    """
    if given.lengths is not None and given.sequence_id is not None:
        raise ValueError("lengths and sequence_id say the same: give one of them")
    is_told = given.lengths is not None or given.sequence_id is not None
    is_list = not is_told and _is_list_of_sequences(given.X, family)
    X, offsets, ids = _cut(given, family, schema, is_list)
    with rows_named(offsets if is_list else None):
        rows, found, is_checked = read_rows(replace(given, X=X), family, schema)
    n_given = int(rows.shape[0])
    if offsets is None:
        offsets = _offsets_of_lengths(given.lengths, n_given)
    _refuse_targets(given.y, n_given, len(offsets) - 1 if is_told or is_list else n_given)
    stack = Stack(rows, offsets=offsets, is_list=is_list, ids=ids)
    if given.context is not None:
        stack = replace(stack, rows=_with_context(rows, given.context, family, is_list))
    elif family.lags:
        lagged, ends = lag_rows(rows, offsets, family.lags)
        stack = replace(stack, rows=lagged, offsets=ends, n_before=family.lags)
    names = lagged_names(found.names, family.lags)
    with rows_named(offsets if is_list and not stack.n_before else None):
        check_rows(stack, family, names, is_checked=is_checked, is_new=schema is None)
    if given.sample_weight is not None:
        stack = replace(stack, repeats=_row_weights(given.sample_weight, stack, n_given))
    return stack, found


def _cut(
    given: Given, family: BaseFamily, schema: Schema | None, is_list: bool
) -> tuple[Any, Array | None, tuple[Any, ...]]:
    """Rows of a list, table or file; offsets (S + 1,) if they are known; and ids, if given."""
    if is_list:
        return *_join(given.X, family), ()
    X, names = given.X, None if schema is None else schema.names
    if not isinstance(given.sequence_id, str):  # else split_ids opens the file
        X = open_rows(X, names, given.verbose, family, schema)
    rows, runs = split_ids(X, given.sequence_id, family, schema)
    if runs is None:
        return _as_column(rows, family), None, ()
    offsets = offsets_of_runs(runs, _count_rows(rows))
    return _as_column(rows, family), offsets, tuple(runs.ids)


def _refuse_targets(y: ArrayLike | None, n_rows: int, n_sequences: int) -> None:
    """Raise ValueError for a `y` that cannot be targets (which are ignored).

    Most likely it is meant as `lengths`, which hmmlearn takes second.
    """
    if y is None:
        return
    values = np.asarray(y, dtype=object)
    if values.ndim and len(values) in (n_rows, n_sequences):
        return
    is_lengths = values.ndim == 1 and all(isinstance(v, int | np.integer) and v > 0 for v in values)
    what = f"lengths={values.tolist()}" if is_lengths else "lengths=[...]"
    raise ValueError(
        f"y is ignored, and its {len(values) if values.ndim else 'single'} value(s) are no targets "
        f"for {n_rows} rows; give the lengths of sequences by name: {what}"
    )


# ---------------------------------------------------------------------------------------- lists


def _is_list_of_sequences(X: Any, family: BaseFamily) -> bool:
    """Whether X is a list of sequences: arrays (T, D), CSR matrices, or data frames.

    For families of symbols, also arrays (T,) or lists of words. A list of lists of numbers is a
    table, as everywhere in scikit-learn.
    """
    if not isinstance(X, list | tuple) or len(X) == 0:
        return False
    first = X[0]
    if frame_kind(first) is not None or is_sparse(first):
        return True
    if isinstance(first, list | tuple):
        widths = {len(row) if isinstance(row, list | tuple) else -1 for row in X}
        if len(widths) > 1 and not _is_nested(X):
            raise ValueError(
                "X is a list of lists of different lengths: give every sequence as an array, of "
                "shape (T, D), or (T,) for one column of symbols"
            )
        return _is_nested(X)
    n_axes = np.ndim(first) if hasattr(first, "__array__") else 0
    if n_axes == 1 and family.max_categories == 0:
        raise ValueError(
            "X is a list of arrays of one dimension, which may be rows or sequences: give "
            "sequences as arrays of shape (T, D), (T, 1) for a single column, and rows as one "
            "array of shape (n, D)"
        )
    return n_axes >= 1


def _is_nested(X: Sequence[Any]) -> bool:
    """Whether some list in X begins with a word or with a list."""
    lists = (part for part in X if isinstance(part, list | tuple) and len(part) > 0)
    return any(isinstance(part[0], str | list | tuple) for part in lists)


def _join(X: Any, family: BaseFamily) -> tuple[Any, Array]:
    """Sequences one after another, and offsets (S + 1,)."""
    kind = frame_kind(X[0])
    parts = list(X)
    if kind is None:
        parts = [part if is_sparse(part) else _as_table(part, s) for s, part in enumerate(X)]
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
    return _concatenate(parts, kind), np.cumsum([0, *(part.shape[0] for part in parts)])


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
    """(T, D) one sequence; a one-dimensional one becomes a single column."""
    values = part if isinstance(part, np.ndarray) else _as_array(part)
    if values.ndim == 1:
        return values[:, None]
    if values.ndim != 2:
        raise ValueError(
            f"sequence {s} has shape {values.shape}; expected (T, D), or (T,) for a single column"
        )
    return values


def _as_array(part: Any) -> Array:
    """Numbers, or words unchanged. numpy alone would turn numbers among words into words."""
    if isinstance(part, list | tuple) and any(isinstance(value, str) for value in part):
        is_all = all(isinstance(value, str) for value in part)
        return np.array(part, dtype=None if is_all else object)
    return np.asarray(part)


def _as_column(X: Any, family: BaseFamily) -> Any:
    """One sequence of symbols, (T,) or a list of words, as a column; else X unchanged."""
    if family.max_categories == 0:
        return X
    if isinstance(X, list | tuple) and len(X) and isinstance(X[0], str):
        return _as_array(X)[:, None]
    return X[:, None] if isinstance(X, np.ndarray) and X.ndim == 1 else X


def stack_values(name: str, values: ArrayLike, shape: Shape) -> Array:
    """(n_given, ...) values of all rows, from one array, or from a list if sequences are one."""
    if not shape.is_list:
        found = np.asarray(values)
        if found.ndim < 1 or len(found) != shape.n_given:
            raise ValueError(f"{name} has shape {found.shape} but X has {shape.n_given} rows")
        return found
    parts, lengths = _parts_of(name, values), np.diff(shape.given_offsets)
    if len(parts) != len(lengths):
        raise ValueError(f"{name} has {len(parts)} entries but X has {len(lengths)} sequences")
    for s, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        if part.ndim < 1 or len(part) != length:
            raise ValueError(
                f"{name} of sequence {s} has shape {part.shape}, but the sequence has {length} rows"
            )
    return np.concatenate(parts)


def _parts_of(name: str, values: ArrayLike, dtype: type[float] | None = None) -> list[Array]:
    """The arrays of a list."""
    if not isinstance(values, list | tuple):
        raise ValueError(
            f"X is a list of sequences, so {name} must be a list too, with an array "
            "for each of them"
        )
    return [np.asarray(part, dtype=dtype) for part in values]


# ---------------------------------------------------------------------------------------- lengths


def _count_rows(X: Any) -> int:
    return int(X.n_rows if hasattr(X, "n_rows") else X.shape[0] if hasattr(X, "shape") else len(X))


def _offsets_of_lengths(lengths: ArrayLike | None, n_rows: int) -> Array:
    """(S + 1,) offsets from the lengths of the sequences; None is one sequence."""
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


def _row_weights(sample_weight: ArrayLike, stack: Stack, n_given: int) -> Array:
    """(n,) weight of each row, which is that of its sequence."""
    shape, values = stack.shape, np.asarray(sample_weight)
    if values.ndim != 1 or len(values) not in (stack.n_spans, n_given):
        raise ValueError(
            f"sample_weight has shape {values.shape}; expected a weight for each of the "
            f"{stack.n_spans} sequences, or for each of the {n_given} rows"
        )
    weights = check_weights(sample_weight, values)
    if len(values) != stack.n_spans:
        first = weights[shape.given_offsets[:-1]]
        uneven = np.flatnonzero(weights != np.repeat(first, np.diff(shape.given_offsets)))
        if len(uneven):
            s = int(np.searchsorted(shape.given_offsets, uneven[0], side="right")) - 1
            raise ValueError(
                f"sample_weight holds {first[s]:g} and {weights[uneven[0]]:g} within sequence {s}; "
                "a sequence counts as a whole: give one weight for each sequence"
            )
        weights = first
    return np.repeat(weights, np.diff(shape.offsets))


def _with_context(rows: Any, context: ArrayLike, family: BaseFamily, is_list: bool) -> Array:
    """Rows (n, D) joined with the contexts (n, D order) that the user gave."""
    if not family.lags:
        raise ValueError(
            f"context is for autoregressive families; {type(family).__name__} has none"
        )
    if is_list:
        context = np.concatenate(_parts_of("context", context, float))
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


def lagged_names(names: Sequence[str] | None, lags: int) -> list[str] | None:
    """Column names of rows that carry their past."""
    if names is None:
        return None
    past = [f"{name} {lag} before" for lag in range(1, lags + 1) for name in names]
    return [*names, *past]
