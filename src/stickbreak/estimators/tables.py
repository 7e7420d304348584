"""What users pass, as a Table: arrays, data frames, CSR, memory maps, `.npy` paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from stickbreak.data import Table, check_table, is_on_disk, is_sparse
from stickbreak.errors import columns_named
from stickbreak.stats import Array

from .frames import Categories, column_names, frame_kind, read_frame

__all__ = ["check_weights", "legal_sets", "make_table", "open_rows"]


def open_rows(X: Any) -> Any:
    """A path to a `.npy` file becomes a memory map; anything else is left as it is."""
    if not isinstance(X, str | Path):
        return X
    path = Path(X)
    if path.suffix != ".npy" or not path.is_file():
        what = "no such file" if not path.is_file() else "not a .npy file"
        raise ValueError(f"X={str(path)!r}: {what}; expected an array, a data frame or a path to a .npy file")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        why = "it is not in NumPy's format, or holds objects" if "pickle" in str(error) else str(error)
        raise ValueError(f"{path} is not a .npy file of numbers: {why}") from None


def make_table(estimator: Any, X: Any, family: Any, *, sample_weight: Any = None, reset: bool) -> Table:
    """Check and wrap the rows. Data on disk are checked as they are read, not now."""
    X = open_rows(X)
    categories: Categories = {}
    if frame_kind(X) is not None:
        X, categories = _read_columns(estimator, X, family, reset)
    on_disk = isinstance(X, np.ndarray) and is_on_disk(X)
    rows = _check_mapped(estimator, X, reset) if on_disk else _check_array(estimator, X, family, reset)
    if is_sparse(rows):
        rows = sparse.csr_array(rows)
        rows.sum_duplicates()
    names = getattr(estimator, "feature_names_in_", None)
    if reset:
        family = family.locate(names, int(rows.shape[1]))
    if not on_disk:
        with columns_named(names):
            family.check_rows(rows)
    repeats = None
    if sample_weight is not None:
        repeats = check_weights(sample_weight, rows)
        if not repeats.sum() > 0:
            raise ValueError("sample_weight is zero for every row; at least one must be positive")
    table = Table(rows, repeats)
    if on_disk and not reset:  # the first fit checks as it measures
        check_table(table, family.check_rows, allow_missing=family.missing != "refused")
    if reset:
        estimator.categories_ = categories
    return table


def _read_columns(estimator: Any, X: Any, family: Any, reset: bool) -> tuple[Any, Categories]:
    """A data frame with its strings and categories as numbers; one with other columns is left for scikit-learn to refuse."""
    n_columns, names = int(X.shape[1]), column_names(X)
    if reset:
        return read_frame(X, family.locate(names, n_columns).readers(n_columns), None)
    fitted = getattr(estimator, "feature_names_in_", None)
    if n_columns != estimator.n_features_in_ or (fitted is not None and list(fitted) != names):
        return X, estimator.categories_
    return read_frame(X, family.readers(n_columns), estimator.categories_)


def _check_mapped(estimator: Any, X: Array, reset: bool) -> Array:
    if X.ndim != 2 or X.dtype.kind not in "fiu":
        raise ValueError(f"a memory map must be a table (2 dimensions) of numbers; got shape {X.shape} and dtype {X.dtype}")
    if X.shape[0] < 1 or X.shape[1] < 1:
        raise ValueError(f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s); at least one of each is needed")
    _check_array(estimator, X[:1], None, reset)
    return X


def _check_array(estimator: Any, X: Any, family: Any, reset: bool) -> Any:
    """Rows as an array or CSR of floats, finite unless there is no family to say so; sets `n_features_in_`.

    A plain table of floats needs no more than a look. All else, and every complaint, is scikit-learn's.
    """
    width = getattr(estimator, "n_features_in_", None)
    is_plain = type(X) is np.ndarray and X.ndim == 2 and X.size > 0 and X.dtype in (np.float64, np.float32)
    is_expected = not hasattr(estimator, "feature_names_in_") and (reset or width == X.shape[1]) if is_plain else False
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
        ensure_all_finite=False if family is None else "allow-nan" if family.missing != "refused" else True,
    )


def _is_readable(X: Array, family: Any) -> bool:
    """Whether all values are finite, or NaN where the family knows missing entries."""
    with np.errstate(invalid="ignore", over="ignore"):  # infinities of both signs, and sums of large values, have no sum
        if np.isfinite(X.sum(dtype=np.float64)):
            return True
    return bool(np.isfinite(X).all() if family.missing == "refused" else not np.isinf(X).any())


def check_weights(sample_weight: Any, rows: Any) -> Array:
    """(n,) weights of the rows as floats, refused if negative, not finite or of another length."""
    from sklearn.utils.validation import _check_sample_weight

    return np.asarray(_check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True))


def legal_sets(labels: Any, n_rows: int, n_components: int) -> tuple[Array, Array]:
    """Row sets (n,) and legal (S, K) from labels: -1 is unknown (set 0, all components), c allows component c alone."""
    found = np.asarray(labels)
    if found.shape != (n_rows,):
        raise ValueError(f"labels has shape {found.shape} but X has {n_rows} rows")
    if found.dtype.kind not in "iubf" or not (np.isfinite(found) & (found == np.floor(found))).all():
        raise ValueError("labels must be whole numbers, -1 for unknown")
    found = found.astype(np.int64)
    if found.min() < -1 or found.max() >= n_components:
        bad = found.min() if found.min() < -1 else found.max()
        raise ValueError(f"labels holds {bad}; with n_components={n_components} labels are -1 (unknown) to {n_components - 1}")
    n_labels = int(found.max()) + 1
    legal = np.zeros((n_labels + 1, n_components))
    legal[0] = 1.0
    legal[np.arange(1, n_labels + 1), np.arange(n_labels)] = 1.0
    return found + 1, legal
