"""From columns of data frames (strings, categories, booleans) to numbers and their categories.

Categories are numbered 0, 1, 2, ... in the order of the dtype (pandas categoricals, polars enums)
or sorted. pandas and polars are imported only for their own frames.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stickbreak.errors import DataWarning, quoted
from stickbreak.stats import Array

from .schema import Categories, Schema

__all__ = [
    "check_categories", "column_names", "frame_kind", "is_text", "read_frame", "read_row",
    "read_text", "require_categories",
]  # fmt: skip

CATEGORY = str | bool | int | float
MAX_SHOWN = 8  # most categories that an error lists
UNKNOWN = -2.0  # marks a category that the fit has not seen, until the error is raised


class Levels(NamedTuple):
    """A column by its distinct values.

    codes (n,) : positions in values, -1 for missing
    is_declared : whether the dtype lists the values
    """

    values: list[Any]
    codes: Array
    is_declared: bool


def frame_kind(X: Any) -> str | None:
    """`pandas` or `polars` for their data frames, None for anything else; imports neither."""
    roots = {
        cls.__module__.partition(".")[0] for cls in type(X).__mro__ if cls.__name__ == "DataFrame"
    }
    return next((name for name in ("pandas", "polars") if name in roots), None)


def column_names(X: Any) -> list[str] | None:
    """Names of a frame's columns; None unless all are strings, as in scikit-learn."""
    names = list(X.columns)
    return (
        [str(name) for name in names]
        if names and all(isinstance(name, str) for name in names)
        else None
    )


def read_frame(
    X: Any,
    readers: Sequence[Any],
    known: Mapping[Any, list[Any]] | None,
    *,
    takes_unknown: bool = False,
) -> tuple[Any, Categories]:
    """The frame with numbers in every column, and their categories.

    readers : the family of each column. known : categories of the fit; None to learn them.
    takes_unknown : other categories are missing, with a warning; else they are refused
    """
    kind, names = frame_kind(X), column_names(X)
    found: Categories = dict(known or {})
    changed: dict[int, Array] = {}
    for at, reader in enumerate(readers):
        label = at if names is None else names[at]
        column = X.iloc[:, at] if kind == "pandas" else X.to_series(at)
        is_new = known is None and reader.max_categories > 0 and not _is_number(column, kind)
        if is_new and label in found:
            raise ValueError(f"the data frame has several columns {label!r}")
        if is_new or label in found:
            levels = _levels(column, kind, label)
            if is_new:
                found[label] = _order(levels, label, reader)
            changed[at] = _number(levels, found[label], label, reader, takes_unknown)
        # scikit-learn reads booleans as 0 and 1
        elif not _is_number(column, kind) and not _is_truth(column, kind):
            changed[at] = _as_numbers(column, kind, label, reader)
    return _with_columns(X, kind, changed), found


def is_text(X: Any) -> bool:
    """Whether an array holds strings."""
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "OUT":
        return False
    return X.dtype.kind in "UT" or any(isinstance(value, str) for value in X.flat)


def read_text(
    X: Array,
    readers: Sequence[Any],
    known: Mapping[Any, list[Any]] | None,
    *,
    takes_unknown: bool = False,
) -> tuple[Array, Categories]:
    """Numbers for an array (n, D) of strings, and their categories. None and NaN are missing."""
    found: Categories = dict(known or {})
    columns = []
    for at, reader in enumerate(readers):
        levels = _text_levels(X[:, at])
        if known is None:
            found[at] = _order(levels, at, reader)
        elif at not in found:
            raise ValueError(
                f"column {at} holds words such as {levels.values[0]!r}, but the model "
                "was fitted on numbers there"
            )
        columns.append(_number(levels, found[at], at, reader, takes_unknown))
    return np.column_stack(columns), found


def _text_levels(column: Array) -> Levels:
    missing = np.array([value is None or value != value for value in column.tolist()])
    try:
        values, codes = np.unique(column[~missing], return_inverse=True)
    except TypeError:  # strings and numbers cannot be sorted together
        raise ValueError(
            "X holds both strings and numbers; symbols are either: convert them to strings"
        ) from None
    out = np.full(len(column), -1)
    out[~missing] = codes
    return Levels(values.tolist(), out, False)


def read_row(
    x: Any, readers: Sequence[Any], schema: Schema, *, takes_unknown: bool = False
) -> Array:
    """(1, D) numbers of one row of a data frame or file, as the fit read them.

    x : values in the order of the columns (tuple, list, array), or by name (dict, Series, or a
        data frame of one row). A category may also be given by its number, unless categories are
        numbers themselves.
    """
    values = _row_values(x, schema)
    if len(values) != schema.n_features:
        raise ValueError(
            f"the row has {len(values)} values, but the model expects {schema.n_features}"
        )
    row = np.empty((1, len(values)))
    for at, (value, reader) in enumerate(zip(values, readers, strict=True)):
        label = at if schema.names is None else schema.names[at]
        known = schema.categories.get(label)
        is_unknown = takes_unknown and known is not None and value not in known
        if is_unknown and isinstance(value, str):
            warn_of_unknown([value])
            value = None
        row[0, at] = _read_value(value, label, reader, known)
    return row


def _row_values(x: Any, schema: Schema) -> list[Any]:
    if frame_kind(x) is not None:
        if len(x) != 1:
            raise ValueError(f"expected one row; the data frame has {len(x)}")
        columns = list(x.columns)
        x = dict(zip(columns, x.row(0) if frame_kind(x) == "polars" else x.iloc[0], strict=True))
    elif hasattr(x, "index") and hasattr(x, "to_dict"):  # a row of a data frame of pandas
        x = x.to_dict() if all(isinstance(name, str) for name in x.index) else list(x)
    if not isinstance(x, Mapping):
        return list(np.asarray(x, dtype=object).ravel())
    if schema.names is None:
        return list(x.values())
    if set(x) != set(schema.names):
        odd = sorted(map(str, set(x) ^ set(schema.names)))[0]
        what = "lacks" if odd in schema.names else "has"
        raise ValueError(f"the row {what} {odd!r}; the model's columns are {_shown(schema.names)}")
    return [x[name] for name in schema.names]


def _read_value(value: Any, label: Any, reader: Any, known: list[Any] | None) -> float:
    """The number of one value; ValueError for a word that the fit has not seen."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or value is getattr(sys.modules.get("pandas"), "NA", None) or value != value:
        return float(reader.missing_category) if known is not None else np.nan
    if known is not None and value in known:
        return float(known.index(value))
    is_coded = known is None or not any(
        isinstance(v, int | float) and not isinstance(v, bool) for v in known
    )
    if is_coded and isinstance(value, int | float):
        return float(value)
    if known is None:
        raise ValueError(
            f"column {label!r} is {value!r}, which is not a number; "
            + (
                "the model was fitted on numbers there"
                if reader.max_categories
                else "columns of words need a family of categories (Categorical, or Bernoulli)"
            )
        )
    raise ValueError(
        f"column {label!r} is {value!r}; the model knows the categories {_shown(known)}: give it "
        "as missing, or fit with all categories"
    )


def check_categories(categories: Categories, names: Sequence[str] | None, n_columns: int) -> None:
    """Raise ValueError for categories that no fit can have learned, from a damaged file."""
    labels: Sequence[Any] = range(n_columns) if names is None else names
    for label, values in categories.items():
        if label not in labels:
            raise ValueError(f"categories of {label!r}, which is not a column")
        if len(set(values)) != len(values) or not all(
            isinstance(value, CATEGORY) for value in values
        ):
            raise ValueError(f"the categories of {label!r} are not distinct strings or numbers")


# ---------------------------------------------------------------------------------- categories


def _order(levels: Levels, label: Any, reader: Any) -> list[Any]:
    """Categories in the order of the dtype, or sorted. Booleans are always [False, True]."""
    values = levels.values
    for value in values:
        if not isinstance(value, CATEGORY):
            raise ValueError(
                f"column {label!r} holds {value!r} ({type(value).__name__}); categories are "
                "strings, numbers or booleans: "
                "convert the column to strings"
            )
    if values and all(isinstance(value, bool) for value in values):
        return [False, True]
    require_categories(values, label, reader)
    return (
        values
        if levels.is_declared
        else sorted(values, key=lambda value: (isinstance(value, str), value))
    )


def require_categories(values: Sequence[Any], label: Any, reader: Any) -> None:
    """Raise ValueError for more categories than the column's family has room for."""
    if len(values) > reader.max_categories:
        raise ValueError(
            f"column {label!r} has {len(values)} categories ({_shown(values)}); "
            f"{type(reader).__name__} has room for "
            f"{reader.max_categories}: use Categorical"
        )


def _number(
    levels: Levels, categories: list[Any], label: Any, reader: Any, takes_unknown: bool
) -> Array:
    """(n,) numbers of the categories as floats; ValueError for others, unless they are taken."""
    index = {value: float(number) for number, value in enumerate(categories)}
    table = np.array(
        [*(index.get(value, UNKNOWN) for value in levels.values), reader.missing_category]
    )
    numbers = table[levels.codes]  # code -1 (missing) takes the last entry
    unknown = np.flatnonzero(numbers == UNKNOWN)
    if len(unknown) and takes_unknown:
        words = [levels.values[code] for code in np.unique(levels.codes[unknown])]
        warn_of_unknown(words)
        numbers[unknown] = reader.missing_category
    elif len(unknown):
        value = levels.values[levels.codes[unknown[0]]]
        raise ValueError(
            f"row {unknown[0]}, column {label!r} is {value!r}; the model knows the categories "
            f"{_shown(categories)}: "
            "give it as missing, or fit with a dtype that lists all categories (pandas "
            "CategoricalDtype, polars Enum)"
        )
    return numbers


def warn_of_unknown(words: Sequence[Any]) -> None:
    """Warn of words that the fit has not seen."""
    shown = _shown(words[:3]) + (", ..." if len(words) > 3 else "")
    warnings.warn(
        f"the fit has not seen {shown}; words that it does not know may have any state, or "
        "any place in a tree",
        DataWarning,
        stacklevel=2,
    )


def _shown(values: Sequence[Any]) -> str:
    words = [quoted(v) if isinstance(v, str) else repr(v) for v in values[:MAX_SHOWN]]
    return ", ".join(words) + (", ..." if len(values) > MAX_SHOWN else "")


# ---------------------------------------------------------------------------- pandas and polars


def _is_number(column: Any, kind: str | None) -> bool:
    if kind == "polars":
        return bool(column.dtype.is_numeric())
    from pandas.api.types import is_numeric_dtype

    return bool(is_numeric_dtype(column.dtype)) and not _is_truth(column, kind)


def _is_truth(column: Any, kind: str | None) -> bool:
    return str(column.dtype) in ("bool", "boolean", "Boolean", "bool[pyarrow]")


def _levels(column: Any, kind: str | None, label: Any) -> Levels:
    try:
        found = _pandas_levels(column) if kind == "pandas" else _polars_levels(column)
    except TypeError as error:  # lists and the like
        raise ValueError(
            f"column {label!r} holds values that cannot be categories ({error}): "
            "convert it to strings"
        ) from None
    return found._replace(
        values=[value.item() if isinstance(value, np.generic) else value for value in found.values]
    )


def _pandas_levels(column: Any) -> Levels:
    from pandas import CategoricalDtype

    is_declared = isinstance(column.dtype, CategoricalDtype)
    held = column if is_declared else column.astype("category")
    return Levels(held.cat.categories.tolist(), held.cat.codes.to_numpy(), is_declared)


def _polars_levels(column: Any) -> Levels:
    import polars

    is_declared = isinstance(column.dtype, polars.Enum)
    declared = column.dtype.categories.to_list() if is_declared else None
    if isinstance(column.dtype, polars.Enum | polars.Categorical):
        column = column.cast(polars.String)
    if column.dtype.is_float():
        column = column.fill_nan(None)
    values = column.drop_nulls().unique().to_list() if declared is None else declared
    if not values:
        return Levels([], np.full(len(column), -1), is_declared)
    codes = column.replace_strict(
        values, list(range(len(values))), default=-1, return_dtype=polars.Int64
    )
    return Levels(values, codes.to_numpy(), is_declared)


def _as_numbers(column: Any, kind: str | None, label: Any, reader: Any) -> Array:
    """(n,) floats from a column of another dtype; ValueError names a value that is no number."""
    values = (
        column.to_numpy(dtype=object, na_value=np.nan)
        if kind == "pandas"
        else np.array(column.to_list(), dtype=object)
    )
    try:
        return np.asarray(values.astype(float))
    except (TypeError, ValueError):
        row = next(i for i, value in enumerate(values) if not _is_float(value))
    advice = (
        "columns of words need a family of categories (Categorical, or Bernoulli for two)"
        if reader.max_categories == 0
        else "the model was fitted on numbers there"
    )
    raise ValueError(
        f"row {row}, column {label!r} is {values[row]!r}, which is not a number; {advice}"
    )


def _is_float(value: Any) -> bool:
    try:
        float(np.nan if value is None else value)
    except (TypeError, ValueError):
        return False
    return True


def _with_columns(X: Any, kind: str | None, columns: Mapping[int, Array]) -> Any:
    """The same frame with some columns replaced."""
    if not columns:
        return X
    if kind == "polars":
        import polars

        return X.with_columns(
            [polars.Series(X.columns[at], values) for at, values in columns.items()]
        )
    changed = X.copy(deep=False)
    for at, values in columns.items():
        changed.isetitem(at, values)
    return changed
