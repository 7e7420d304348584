"""Tables in several files, which workers read themselves."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stickbreak.errors import ShardError

from .archives import open_npy
from .corpora import read_vocabulary
from .document_shards import DocumentShards, open_documents
from .file_jobs import over_files
from .parquet import open_parquet
from .readers import FileTable, kept_dtype, read_runs
from .shard_rows import ShardFile, ShardRows, digest_file, same_file_twice

__all__ = ["ShardTable", "open_shards"]

Array = npt.NDArray[Any]
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

KINDS = (".npy", ".parquet")
TABLES = (".csv", ".tsv")  # of text, which can be read from the start only


@dataclass(frozen=True)
class ShardTable(FileTable):
    """Rows of several files, by reference; `fit` and `predict` take it like an array.

    lengths (S,) : rows of each sequence, if the files hold sequences: give them to `fit`
    """

    lengths: Array | None = None


def open_shards(
    files: Paths,
    *,
    columns: Sequence[str] | None = None,
    lengths: Paths | None = None,
    sequence_id: str | None = None,
    words: str | os.PathLike[str] | Sequence[str] | None = None,
    n_words: int | None = None,
) -> ShardTable | DocumentShards:
    """Open several files as one table whose rows are read by whoever infers them.

    Under `stickbreak.workers` these are the workers, which must see the files under the same names.
    A file is known by its size and sixteen places of its contents; one that has changed since is
    refused. A moved folder is the same data: a checkpoint resumes.

    Parameters
    ----------
    files : a pattern, such as "rows/*.npy" (read in the order of their names), or a list of paths;
        `.npy` or `.parquet`, all with the same columns and numbers of one kind. Or documents:
        `.npz` of `scipy.sparse.save_npz`, or LDA-C and UCI docword under any other name.
    columns : names of the columns to read from parquet files; default all, but `sequence_id`.
    lengths : for sequences: a pattern or list of `.npy` files, one beside each of `files` in the
        same order, with the rows of each sequence in it (whole numbers).
    sequence_id : for sequences in parquet files: the column that names them. A sequence lies within
        one file.
    words, n_words : for documents: the vocabulary that all files share, as words in the order of
        their ids or a file with one word per line, or its size. Default: the largest id plus one.

    Returns
    -------
    ShardTable; of documents DocumentShards, for `fit` and `transform` of topic models. They are
    read once to count their words, and so is the column `sequence_id`: by the workers, in a block
    of `stickbreak.workers`.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, stickbreak as sb
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for i in range(3):
    ...     np.save(folder / f"rows{i}.npy", np.random.default_rng(i).normal(size=(200, 2)))
    >>> table = sb.open_shards(str(folder / "rows*.npy"))
    >>> table.n_rows, len(table.rows.files)
    (600, 3)
    >>> sb.Mixture(2, random_state=0).fit(table).means_.shape
    (2, 2)
    """
    paths = _find(files, "files")
    kinds = {Path(path).suffix.lower() in KINDS for path in paths}
    if len(kinds) > 1:
        raise ValueError("files holds tables (.npy, .parquet) and documents: open each by itself")
    if kinds == {False}:
        _refuse("documents", columns=columns, lengths=lengths, sequence_id=sequence_id)
        return open_documents(paths, read_vocabulary(words, n_words), n_words)
    _refuse("tables", words=words, n_words=n_words)
    if lengths is not None and sequence_id is not None:
        raise ValueError("lengths and sequence_id say the same: give one of them")
    opened = [_examine(path, columns, sequence_id) for path in paths]
    for found in opened[1:]:
        _require_same(opened[0], found)
    first, shards = opened[0], tuple(found.file for found in opened)
    starts = tuple(np.cumsum([0, *(file.n_rows for file in shards)]).tolist())
    rows: Any = ShardRows(shards, starts, 0, starts[-1], first.n_columns, first.dtype)
    table = ShardTable(rows, first.file.columns, Path(paths[0]))
    if lengths is not None:
        table = replace(table, lengths=_read_lengths(_find(lengths, "lengths"), shards))
    if sequence_id is not None:
        table = replace(table, lengths=_lengths_by_id(paths, sequence_id))
    return table


def _refuse(what: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name}= is not for shards of {what}")


def _find(given: Paths, what: str) -> list[str]:
    """The paths of a pattern or a list, absolute."""
    if isinstance(given, str | os.PathLike):
        found = sorted(glob.glob(os.path.expanduser(os.fspath(given))))
        if not found:
            raise ValueError(f"{what}={os.fspath(given)!r}: no file matches")
    else:
        found = [os.fspath(path) for path in given]
        if not found:
            raise ValueError(f"{what} is an empty list; give the paths of one file or more")
    twice = same_file_twice(found)
    if twice is not None:
        raise ValueError(f"{what} names {twice} twice: its rows would count twice")
    for path in found:
        if Path(path).suffix.lower() in TABLES:
            raise ValueError(
                f"shard {path}: expected a file of kind {' or '.join(KINDS)}; or of documents"
            )
    return [os.path.abspath(path) for path in found]


class _Examined(NamedTuple):
    file: ShardFile
    n_columns: int
    dtype: np.dtype[Any]


def _examine(path: str, columns: Sequence[str] | None, sequence_id: str | None) -> _Examined:
    """What a file says of itself; rows are not read."""
    try:
        size = os.stat(path).st_size
        if Path(path).suffix.lower() == ".npy":
            if columns is not None or sequence_id is not None:
                raise ShardError(f"shard {path}: the columns of .npy files have no names")
            rows, names = open_npy(Path(path)), None
            n_rows, n_columns, dtype = *rows.shape, kept_dtype(rows.dtype)
        else:
            source = open_parquet(Path(path))
            names = tuple(name for name in columns or source.names if name != sequence_id)
            missing = [name for name in names if name not in source.names]
            if missing:
                raise ShardError(f"shard {path} has no column {missing[0]!r}")
            n_rows, n_columns, dtype = source.n_rows, len(names), np.dtype(np.float64)
        file = ShardFile(path, n_rows, names, size, digest_file(path, size))
    except OSError as error:
        raise ShardError(f"shard {path} cannot be read: {error.strerror}") from None
    except ShardError:
        raise
    except ValueError as error:
        raise ShardError(f"shard {path} cannot be opened: {error}") from None
    if not n_rows:
        raise ShardError(f"shard {path} has no rows: leave it out")
    return _Examined(file, n_columns, dtype)


def _require_same(first: _Examined, other: _Examined) -> None:
    """Raise ShardError for a file with other columns than the first."""
    for what, one, two in (
        ("columns", first.n_columns, other.n_columns),
        ("numbers of kind", first.dtype, other.dtype),
        ("columns called", first.file.columns, other.file.columns),
    ):
        if one != two:
            raise ShardError(f"shard {other.file.path} has {what} {two}; {first.file.path}: {one}")


def _read_lengths(paths: list[str], shards: tuple[ShardFile, ...]) -> Array:
    """(S,) rows of all sequences, which must be those of the shards beside them."""
    if len(paths) != len(shards):
        raise ValueError(f"lengths has {len(paths)} files for {len(shards)} shards")
    found = []
    for path, shard in zip(paths, shards, strict=True):
        values = np.load(path, allow_pickle=False)
        if values.ndim != 1 or values.dtype.kind not in "iu" or not (values > 0).all():
            raise ShardError(f"{path} must hold whole numbers above 0, in one dimension")
        if values.sum() != shard.n_rows:
            raise ShardError(
                f"{path} adds up to {values.sum():,} rows; {shard.path} has {shard.n_rows:,}"
            )
        found.append(values.astype(np.int64))
    return np.concatenate(found)


def _lengths_by_id(paths: list[str], column: str) -> Array:
    """(S,) rows of each run of ids; an id that goes on in another file is refused."""
    found: list[Array] = []
    seen: dict[Any, str] = {}
    every = over_files(partial(read_runs, column=column), paths)
    for path, runs in zip(paths, every, strict=True):
        for name in runs.ids:
            if name is None:
                raise ShardError(f"{path} has a row without {column}")
            if name in seen:
                raise ShardError(
                    f"sequence {name!r} is in {seen[name]} and again in {path}: the rows of a "
                    "sequence must stand together, within one file"
                )
            seen[name] = path
        found.append(np.diff(np.r_[runs.starts, runs.n_rows]))
    return np.concatenate(found)
