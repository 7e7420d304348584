"""What users pass, as a Table: arrays, data frames, CSR, memory maps, files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from stickbreak.data import FileTable, Table, check_table, is_on_disk, is_sparse, open_like
from stickbreak.errors import columns_named
from stickbreak.stats import Array

from .frames import Categories, column_names, frame_kind, is_text, read_frame, read_text
from .progress import Phase

__all__ = [
    "Given",
    "check_rows",
    "check_weights",
    "join_sets",
    "legal_sets",
    "make_table",
    "open_rows",
    "read_rows",
]


@dataclass(frozen=True)
class Given:
    """What users pass as data. Of sequences also where each ends, and what came before each row;
    see the estimators.
    """

    X: Any
    sample_weight: Any = None
    lengths: Any = None
    sequence_id: Any = None
    context: Any = None


def open_rows(X: Any, names: Any = None, verbose: Any = 0) -> Any:
    """A path becomes a FileTable, with the columns of these names where it has names; anything else
    is left as it is.
    """
    if not isinstance(X, str | Path):
        return X
    with Phase(f"reading {X}", bool(verbose)) as phase:
        return open_like(X, names, phase.update)


def make_table(
    estimator: Any, X: Any, family: Any, *, sample_weight: Any = None, reset: bool
) -> Table:
    """Check and wrap the rows. Data on disk are checked as they are read, not now."""
    rows, is_checked = read_rows(estimator, X, family, reset=reset)
    table = Table(rows)
    check_rows(
        table,
        family,
        getattr(estimator, "feature_names_in_", None),
        is_checked=is_checked,
        reset=reset,
    )
    return (
        table
        if sample_weight is None
        else replace(table, repeats=check_weights(sample_weight, rows))
    )


def check_rows(table: Table, family: Any, names: Any, *, is_checked: bool, reset: bool) -> None:
    """Refuse rows that the family cannot read; is_checked: what is not finite was refused
    already.
    """
    if reset:
        family = family.locate(names, int(table.rows.shape[1]))
    if is_checked:
        with columns_named(names):
            family.check_rows(table.rows)
    elif not reset:  # the first fit checks as it measures
        check_table(table, family.check_rows, allow_missing=family.missing != "refused")


def read_rows(estimator: Any, X: Any, family: Any, *, reset: bool) -> tuple[Any, bool]:
    """The rows as numbers: an array, a memory map or CSR, with the columns of the fit; `reset`
    makes them those of the fit.

    The second says whether values that are not finite were refused: those on disk are not read now.
    """
    X = open_rows(
        X, None if reset else getattr(estimator, "feature_names_in_", None), estimator.verbose
    )
    categories: Categories = {}
    if frame_kind(X) is not None:
        X, categories = _read_columns(estimator, X, family, reset)
    elif is_text(X):
        X, categories = _read_text(estimator, X, family, reset)
    on_disk = isinstance(X, FileTable) or (isinstance(X, np.ndarray) and is_on_disk(X))
    rows: Any
    if isinstance(X, FileTable):
        rows = _check_file(estimator, X, reset)
    else:
        rows = (
            _check_mapped(estimator, X, reset)
            if on_disk
            else _check_array(estimator, X, family, reset)
        )
    if is_sparse(rows):
        rows = sparse.csr_array(rows)
        rows.sum_duplicates()
    if reset:
        estimator.categories_ = categories
    return rows, not on_disk


def _read_columns(estimator: Any, X: Any, family: Any, reset: bool) -> tuple[Any, Categories]:
    """A data frame with its strings and categories as numbers; one with other columns is left for
    scikit-learn to refuse.
    """
    n_columns, names = int(X.shape[1]), column_names(X)
    if reset:
        return read_frame(X, family.locate(names, n_columns).readers(n_columns), None)
    fitted = getattr(estimator, "feature_names_in_", None)
    if n_columns != estimator.n_features_in_ or (fitted is not None and list(fitted) != names):
        return X, estimator.categories_
    return read_frame(X, family.readers(n_columns), estimator.categories_)


def _read_text(estimator: Any, X: Array, family: Any, reset: bool) -> tuple[Any, Categories]:
    """An array of strings as numbers, where all its columns are read as categories; others are left
    for scikit-learn to refuse.
    """
    if X.ndim != 2 or X.shape[1] == 0 or (not reset and X.shape[1] != estimator.n_features_in_):
        return X, {}
    readers = (
        family.readers(X.shape[1])
        if not reset
        else family.locate(None, X.shape[1]).readers(X.shape[1])
    )
    if any(reader.max_categories == 0 for reader in readers):
        return X, {}
    return read_text(X, readers, None if reset else estimator.categories_)


def _check_file(estimator: Any, table: FileTable, reset: bool) -> Array:
    """Rows of a file, whose columns are those of the fit: `n_features_in_` and `feature_names_in_`
    are set, or compared.
    """
    names = None if table.names is None else np.array(table.names, dtype=object)
    if reset:
        estimator.n_features_in_ = table.rows.shape[1]
        estimator.__dict__.pop("feature_names_in_", None)
        if names is not None:
            estimator.feature_names_in_ = names
        return table.rows
    known = getattr(estimator, "feature_names_in_", None)
    if table.rows.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {table.rows.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features"
        )
    if names is not None and known is not None and list(names) != list(known):
        raise ValueError(
            f"{table.path} has the columns {list(names)}, the model was fitted to "
            f"{list(known)}, in this order"
        )
    return table.rows


def _check_mapped(estimator: Any, X: Array, reset: bool) -> Array:
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
    _check_array(estimator, X[:1], None, reset)
    return X


def _check_array(estimator: Any, X: Any, family: Any, reset: bool) -> Any:
    """Rows as an array or CSR of floats, finite unless there is no family to say so; sets
    `n_features_in_`.

    A plain table of floats needs no more than a look. All else, and every complaint, is
    scikit-learn's.
    """
    width = getattr(estimator, "n_features_in_", None)
    is_plain = (
        type(X) is np.ndarray and X.ndim == 2 and X.size > 0 and X.dtype in (np.float64, np.float32)
    )
    is_expected = (
        not hasattr(estimator, "feature_names_in_") and (reset or width == X.shape[1])
        if is_plain
        else False
    )
    if is_expected and (family is None or _is_readable(X, family)):
        estimator.n_features_in_ = X.shape[1]
        return X
    from sklearn.utils.validation import validate_data

    return validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr" if family is not None and family.sparse else False,
        dtype=[np.float64, np.float32],
        ensure_all_finite=False
        if family is None
        else "allow-nan"
        if family.missing != "refused"
        else True,
    )


def _is_readable(X: Array, family: Any) -> bool:
    """Whether all values are finite, or NaN where the family knows missing entries."""
    # infinities of both signs, and sums of large values, have no sum
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(X.sum(dtype=np.float64)):
            return True
    return bool(np.isfinite(X).all() if family.missing == "refused" else not np.isinf(X).any())


def check_weights(sample_weight: Any, rows: Any) -> Array:
    """(n,) weights of the rows as floats, refused if negative, not finite or of another length."""
    from sklearn.utils.validation import _check_sample_weight

    weights = np.asarray(
        _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    )
    if not weights.sum() > 0:
        raise ValueError("sample_weight is zero for every row; at least one must be positive")
    return weights


def legal_sets(labels: Any, n_rows: int, n_components: int) -> tuple[Array, Array]:
    """Row sets (n,) and legal (S, K) from labels: -1 is unknown (set 0, all components), c allows
    component c alone.
    """
    found = np.asarray(labels)
    if found.shape != (n_rows,):
        raise ValueError(f"labels has shape {found.shape} but X has {n_rows} rows")
    if (
        found.dtype.kind not in "iubf"
        or not (np.isfinite(found) & (found == np.floor(found))).all()
    ):
        raise ValueError("labels must be whole numbers, -1 for unknown")
    found = found.astype(np.int64)
    if found.min() < -1 or found.max() >= n_components:
        bad = found.min() if found.min() < -1 else found.max()
        raise ValueError(
            f"labels holds {bad}; with n_components={n_components} labels are -1 "
            f"(unknown) to {n_components - 1}"
        )
    n_labels = int(found.max()) + 1
    legal = np.zeros((n_labels + 1, n_components))
    legal[0] = 1.0
    legal[np.arange(1, n_labels + 1), np.arange(n_labels)] = 1.0
    return found + 1, legal


def join_sets(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """Row sets (n,) and legal (S, K) where rows must obey both of two such pairs; set 0 allows all
    components.
    """
    (sets, legal), (others, limits) = first, second
    found, joined = np.unique(sets * len(limits) + others, return_inverse=True)
    both = legal[found // len(limits)] * limits[found % len(limits)]
    return joined + 1, np.concatenate([np.ones((1, legal.shape[1])), both])
