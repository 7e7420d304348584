"""From tables as users pass them (arrays, frames, CSR, memory maps, files) to rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from stickbreak.data import (
    FileTable,
    Table,
    WordsError,
    check_table,
    is_on_disk,
    is_sparse,
    open_like,
)
from stickbreak.errors import columns_named, quoted
from stickbreak.families.base import BaseFamily
from stickbreak.inference import workers
from stickbreak.progress import Phase
from stickbreak.stats import Array

from .frame_columns import (
    column_names,
    frame_kind,
    is_text,
    read_frame,
    read_text,
    require_categories,
)
from .schema import Categories, Given, Rows, Schema

__all__ = ["check_rows", "check_weights", "open_rows", "read_rows", "read_table", "validate"]

Names = tuple[str, ...] | None
# A component whose rows coincide has a scatter of the size of the prior's, among squares of the
# size of its weight: rounding takes 1e-16 of that, and the bound counts it once for each row.
MOST_WEIGHT = 1e10


def read_table(given: Given, family: BaseFamily, schema: Schema | None) -> tuple[Table, Schema]:
    """Checked rows and their schema, learned if None. Rows on disk are checked later."""
    rows, found, is_checked = read_rows(given, family, schema)
    table = Table(rows)
    check_rows(table, family, found.names, is_checked=is_checked, is_new=schema is None)
    if given.sample_weight is not None:
        table = replace(table, repeats=check_weights(given.sample_weight, rows))
    return table, found


def open_rows(
    X: Rows,
    names: Sequence[str] | None = None,
    verbose: int = 0,
    family: BaseFamily | None = None,
    schema: Schema | None = None,
) -> Rows:
    """Open a path, with the columns of these names if the file has names; else return X.

    family, schema : say which columns may hold words, and what is known of them.
    """
    if not isinstance(X, str | Path):
        return X
    with Phase(f"reading {X}", bool(verbose)) as phase:
        act = partial(open_like, X, names, phase.update)
        return act() if family is None else open_words(act, family, schema)


def open_words(
    act: Callable[..., FileTable], family: BaseFamily, schema: Schema | None
) -> FileTable:
    """A table of `act`, whose argument `categories` says which columns hold words.

    Words become categories where the family has them, as those of data frames do. A file of
    numbers is read once.
    """
    if schema is not None:
        return act(categories=schema.categories)
    try:
        return act()
    except WordsError as error:
        wordy = _columns_of_words(family, error)
    table = act(categories=dict.fromkeys(wordy))
    for label, values in table.categories.items():
        require_categories(values, label, wordy[label])
    return table


def _columns_of_words(family: BaseFamily, error: WordsError) -> dict[Any, Any]:
    """Labels of the columns that may hold words, with their families; else raises `error`."""
    n, names = len(error.columns), error.names
    chosen = None if names is None else [names[i] for i in error.columns]
    readers = family.locate(chosen, n).readers(n)
    labels: Sequence[Any] = range(n) if chosen is None else chosen
    found = {labels[i]: reader for i, reader in enumerate(readers) if reader.max_categories}
    if labels[error.columns.index(error.column)] not in found:
        advice = "columns of words need a family of categories (Categorical, or Bernoulli for two)"
        raise ValueError(f"{error}; {advice}") from None
    return found


def check_rows(
    table: Table, family: BaseFamily, names: Sequence[str] | None, *, is_checked: bool, is_new: bool
) -> None:
    """Raise ValueError for rows that the family cannot read.

    is_checked : values that are not finite were refused already
    is_new : no fit has seen these columns
    """
    if is_new:
        family = family.locate(names, int(table.rows.shape[1]))
    if is_checked:
        with columns_named(names):
            family.check_rows(table.rows)
    elif not is_new:  # the first fit checks as it measures
        may_lack = family.missing != "refused"
        with workers() as pool:
            check_table(table, family.check_rows, allow_missing=may_lack, pool=pool)


def read_rows(given: Given, family: BaseFamily, schema: Schema | None) -> tuple[Any, Schema, bool]:
    """Rows as numbers, their schema, and whether values that are not finite were refused.

    Rows are an array, a memory map or CSR. Rows on disk are not read yet.
    """
    names = None if schema is None else schema.names
    X: Any = open_rows(given.X, names, given.verbose, family, schema)
    categories: Categories = {}
    if frame_kind(X) is not None:
        X, categories = _read_columns(X, family, schema, given.takes_unknown)
    elif is_text(X):
        X, categories = _read_text(X, family, schema, given.takes_unknown)
    on_disk = isinstance(X, FileTable) or (isinstance(X, np.ndarray) and is_on_disk(X))
    rows: Any
    if isinstance(X, FileTable):
        rows, names = _check_file(X, schema, given.owner)
        categories = dict(X.categories)
    elif on_disk:
        rows, names = _check_mapped(X, schema, given.owner)
    else:
        rows, names = _check_array(X, family, schema, given.owner)
    if is_sparse(rows):
        rows = sparse.csr_array(rows)
        rows.sum_duplicates()
    return rows, schema or Schema(int(rows.shape[1]), names, categories), not on_disk


def _read_columns(
    X: Any, family: BaseFamily, schema: Schema | None, takes_unknown: bool
) -> tuple[Any, Categories]:
    """A data frame in numbers. If its columns are not the fit's, it is left to scikit-learn."""
    n_columns, names = int(X.shape[1]), column_names(X)
    if schema is None:
        return read_frame(X, family.locate(names, n_columns).readers(n_columns), None)
    if n_columns != schema.n_features or (schema.names is not None and list(schema.names) != names):
        return X, schema.categories
    readers = family.readers(n_columns)
    return read_frame(X, readers, schema.categories, takes_unknown=takes_unknown)


def _read_text(
    X: Array, family: BaseFamily, schema: Schema | None, takes_unknown: bool
) -> tuple[Any, Categories]:
    """An array of strings in numbers. Columns that take no categories are left to scikit-learn."""
    if X.ndim != 2 or X.shape[1] == 0 or (schema and X.shape[1] != schema.n_features):
        return X, {}
    readers = (family if schema else family.locate(None, X.shape[1])).readers(X.shape[1])
    if any(reader.max_categories == 0 for reader in readers):
        return X, {}
    known = schema.categories if schema else None
    return read_text(X, readers, known, takes_unknown=takes_unknown)


def _check_file(table: FileTable, schema: Schema | None, owner: str) -> tuple[Array, Names]:
    names = None if table.names is None else tuple(table.names)
    if schema is not None:
        if dict(table.categories) != schema.categories:
            raise ValueError(
                f"{table.path} was opened with the categories {_shown(table.categories)}, the "
                f"model has {_shown(schema.categories)}: give the path itself"
            )
        schema.require_width(int(table.rows.shape[1]), owner)
        if names is not None and schema.names is not None and names != schema.names:
            raise ValueError(
                f"{table.path} has the columns {list(names)}, the model was fitted to "
                f"{list(schema.names)}, in this order"
            )
    return table.rows, names


def _shown(categories: Any) -> str:
    text = repr(dict(categories))
    return text if len(text) <= 120 else text[:120] + "..."


def _check_mapped(X: Array, schema: Schema | None, owner: str) -> tuple[Array, Names]:
    if X.ndim != 2 or X.dtype.kind not in "fiu":
        raise ValueError(
            "a memory map must be a table (2 dimensions) of numbers; got shape "
            f"{X.shape} and dtype {X.dtype}"
        )
    if X.shape[0] < 1 or X.shape[1] < 1:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s); at "
            "least one of each is needed"
        )
    return X, _check_array(X[:1], None, schema, owner)[1]


def _check_array(
    X: Any, family: BaseFamily | None, schema: Schema | None, owner: str
) -> tuple[Any, Names]:
    """Floats, as an array or CSR; checked to be finite if a family is given.

    A plain table of floats is only inspected. Everything else, and every error message, is left to
    scikit-learn.
    """
    is_plain = type(X) is np.ndarray and X.ndim == 2 and X.size > 0
    if is_plain and X.dtype in (np.float64, np.float32):
        is_known = schema is None or (schema.names is None and schema.n_features == X.shape[1])
        if is_known and (family is None or _is_readable(X, family)):
            return X, None
    finite = family is not None and ("allow-nan" if family.missing != "refused" else True)
    return validate(X, schema, owner, family is not None and family.sparse, finite)


def validate(
    X: Any, schema: Schema | None, owner: str, is_sparse_fine: bool, finite: bool | str = True
) -> tuple[Any, Names]:
    """scikit-learn's checks, with its messages: values as floats, and their column names."""
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import validate_data

    known = type(owner, (BaseEstimator,), {})()  # the name in its messages
    if schema is not None:
        known.n_features_in_ = schema.n_features
        if schema.names is not None:
            known.feature_names_in_ = schema.name_array
    try:
        found = validate_data(
            known,
            X,
            reset=schema is None,
            accept_sparse="csr" if is_sparse_fine else False,
            dtype=[np.float64, np.float32],
            ensure_all_finite=finite,
        )
    except ValueError as error:
        raise ValueError(f"{error}{_first_moved(X, schema, str(error))}") from None
    names = getattr(known, "feature_names_in_", None)
    return found, None if names is None else tuple(names)


def _first_moved(X: Any, schema: Schema | None, told: str) -> str:
    """The first column that stands elsewhere than in the fit, where scikit-learn names none."""
    if schema is None or schema.names is None or "same order" not in told:
        return ""
    names = [str(name) for name in X.columns]
    at = next(i for i, (a, b) in enumerate(zip(names, schema.names, strict=True)) if a != b)
    wanted = quoted(schema.names[at])
    return f"Column {at} is {quoted(names[at])}, in the fit it was {wanted}; sort the columns."


def _is_readable(X: Array, family: BaseFamily) -> bool:
    """Whether all values are finite, or NaN if the family allows missing entries."""
    # A sum of infinities of both signs, or of large values, is not finite.
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(X.sum(dtype=np.float64)):
            return True
    return bool(np.isfinite(X).all() if family.missing == "refused" else not np.isinf(X).any())


def check_weights(sample_weight: ArrayLike, rows: Any) -> Array:
    """(n,) weights of the rows as floats; ValueError if negative, too large or too few."""
    from sklearn.utils.validation import _check_sample_weight

    weights = np.asarray(
        _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    )
    if not weights.sum() > 0:
        raise ValueError("sample_weight is zero for every row; at least one must be positive")
    if not weights.sum() <= MOST_WEIGHT:
        raise ValueError(
            f"sample_weight adds up to {weights.sum():g}, of which rounding drowns the prior and "
            f"the rows of small weight; divide it so that it adds up to at most {MOST_WEIGHT:g}"
        )
    return weights
