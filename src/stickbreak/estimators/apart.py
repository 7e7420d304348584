"""Answers about rows that lie apart: lazy dask collections, or one file for each shard."""

from __future__ import annotations

import copy
import os
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import Batch, DocumentShards, FileTable, ShardTable
from stickbreak.inference import workers
from stickbreak.reading import collection_kind, require_whole_rows
from stickbreak.stats import SERIAL, Array

if TYPE_CHECKING:
    from .base import Estimator

__all__ = ["answer_apart", "is_apart"]

Folder = str | os.PathLike[str] | None


def is_apart(X: Any, out: Folder = None) -> bool:
    """Whether answers about X come as a dask collection, or in files."""
    return out is not None or collection_kind(X) is not None


def answer_apart(self: Estimator, name: str, X: Any, out: Folder = None, **where: Any) -> Any:
    """Answers of the method `name`: a lazy collection like X, or paths of files in `out`.

    where : the method's other arguments
    """
    model, width = _light(self), len(self._require_fitted().ids) if _is_wide(name) else None
    kind = collection_kind(X)
    if kind is None:
        return _into_files(self, model, name, X, Path(os.fspath(out or "")), where)
    if out is not None:
        raise ValueError(
            f"out= is for shards; {name} of a dask collection is one, which dask writes"
        )
    given = [key for key in ("context",) if where.get(key) is not None]
    if given:
        raise ValueError(f"{given[0]}= is not read for dask collections")
    if kind == "array":
        return _lazy_array(model, name, width, X, where)
    return _lazy_frame(model, name, width, X, where)


def _is_wide(name: str) -> bool:
    """Whether a method answers with a number for each component."""
    return name in ("predict_proba", "transform")


def _light(self: Estimator) -> Any:
    """The fitted estimator without its training data, for one thread."""
    light: Any = copy.copy(self)
    light._fitted = replace(self._require_fitted(), data=None, labels=None)
    light.n_jobs, light.verbose = None, 0
    return light


# ---------------------------------------------------------------------------------- collections


def _answer(model: Any, name: str, rows: Any, where: dict[str, Any]) -> Array:
    """Answers about the rows of a partition."""
    width, dtype = len(model._require_fitted().ids), np.int64 if name == "predict" else np.float64
    if not isinstance(rows, FileTable) and len(rows) == 0:
        return np.zeros((0, width) if _is_wide(name) else 0, dtype)
    return np.asarray(getattr(model, name)(rows, **where), dtype=dtype)


def _lazy_array(model: Any, name: str, width: int | None, X: Any, where: dict[str, Any]) -> Any:
    import dask.array
    from dask import delayed

    X = require_whole_rows(X)
    model._require_fitted().schema.require_width(X.shape[1], type(model).__name__)
    if where.get("sequence_id") is not None:
        raise ValueError(
            "sequence_id of a dask array is not read by partitions: give lengths=, or a dask "
            "DataFrame with a column of ids"
        )
    sizes, shared = X.chunks[0], delayed(model, pure=False)
    each = [where] * len(sizes)
    if where.get("lengths") is not None:
        each = [{**where, "lengths": own} for own in _lengths_of_chunks(where["lengths"], sizes)]
    dtype = np.dtype(np.int64 if name == "predict" else np.float64)
    parts = []
    for rows, n, own in zip(X.to_delayed().ravel(), sizes, each, strict=True):
        found = delayed(_answer, pure=False)(shared, name, rows, own)
        shape = (n,) if width is None else (n, width)
        parts.append(dask.array.from_delayed(found, shape, dtype))
    return dask.array.concatenate(parts, allow_unknown_chunksizes=True)


def _lengths_of_chunks(lengths: Any, sizes: tuple[Any, ...]) -> list[Array]:
    """Lengths of the sequences in each chunk; every chunk must end with a sequence."""
    if any(np.isnan(size) for size in sizes):
        raise ValueError(
            "the dask array has chunks of unknown size, so lengths= cannot be shared out: call "
            "compute_chunk_sizes() on it first"
        )
    found = np.asarray(lengths)
    ends = np.cumsum(found)
    if not len(found) or ends[-1] != sum(sizes):
        raise ValueError(f"lengths sums to {int(found.sum())} but X has {sum(sizes)} rows")
    cuts = np.searchsorted(ends, np.cumsum(sizes))
    for at, cut, row in zip(range(len(sizes)), cuts, np.cumsum(sizes), strict=True):
        if ends[cut] != row:
            raise ValueError(
                f"sequence {cut} goes on after partition {at} of the dask array ends (row {row}): "
                "rechunk so that every chunk holds whole sequences"
            )
    return [found[a:b] for a, b in pairwise([0, *(cuts + 1).tolist()])]


def _answer_frame(part: Any, model: Any, name: str, where: dict[str, Any]) -> Any:
    import pandas

    found = _answer(model, name, part, where)
    if found.ndim == 1:
        return pandas.Series(found, index=part.index, name=name)
    return pandas.DataFrame(found, index=part.index)


def _lazy_frame(model: Any, name: str, width: int | None, X: Any, where: dict[str, Any]) -> Any:
    import pandas

    if where.get("lengths") is not None:
        raise ValueError("give sequence_id=, the column of a dask DataFrame, instead of lengths=")
    named = where.get("sequence_id")
    if named is not None and not isinstance(named, str):
        raise ValueError("sequence_id of a dask DataFrame must be the name of one of its columns")
    index = X._meta.index
    meta: Any = pandas.Series(np.zeros(0, np.int64), index=index, name=name)
    if name != "predict":
        meta = meta.astype(np.float64)
    if width is not None:
        meta = pandas.DataFrame(np.zeros((0, width)), index=index)
    return X.map_partitions(_answer_frame, model, name, where, meta=meta)


# ---------------------------------------------------------------------------------- files


def _into_files(
    self: Estimator, model: Any, name: str, X: Any, folder: Path, where: dict[str, Any]
) -> list[Path]:
    """Write the answers about each shard beside each other; whoever reads the rows writes."""
    if isinstance(X, DocumentShards):
        return _documents_into_files(self, model, name, X, folder)
    if not isinstance(X, ShardTable):
        raise ValueError(
            f"out= is for shards: give {name} what open_shards opens, or leave out= away"
        )
    whole: Any = X.rows
    paths = [Path(file.path) for file in whole.files]
    folder = _made_folder(folder, paths)
    for key in ("sequence_id", "context"):
        if where.get(key) is not None:
            raise ValueError(f"{key}= is not read for shards: give lengths=shards.lengths")
    lengths = where.pop("lengths", None)
    each = [where] * len(paths)
    if lengths is not None:
        sizes = tuple(file.n_rows for file in whole.files)
        each = [{**where, "lengths": own} for own in _lengths_of_chunks(lengths, sizes)]
    jobs = [
        (Batch(0, whole[a:b]), path.stem, own)
        for (a, b), path, own in zip(pairwise(whole.starts), paths, each, strict=True)
    ]
    with workers(self.n_jobs) as pool:
        return list(pool.map(partial(_write_lane, model, name, X.names, folder), jobs))


def _made_folder(folder: Path, paths: list[Path]) -> Path:
    """The folder, absolute; ValueError if files for the shards at `paths` cannot go there."""
    twice, times = Counter(path.stem for path in paths).most_common(1)[0]
    if times > 1:
        raise ValueError(f"out= names files by shards, and {times} of them are called {twice}")
    folder = folder.absolute()
    if folder in {path.parent for path in paths}:
        raise ValueError(f"out={str(folder)!r} holds the shards themselves: name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _documents_into_files(
    self: Any, model: Any, name: str, X: DocumentShards, folder: Path
) -> list[Path]:
    documents = self._use(self._given(X))[1].whole()
    paths = [Path(file.path) for file in X.files]
    folder = _made_folder(folder, paths)
    ends = np.cumsum([0, *(file.n_documents for file in X.files)]).tolist()
    jobs = [
        (documents.part(lo, hi), path.stem)
        for (lo, hi), path in zip(pairwise(ends), paths, strict=True)
    ]
    with workers(self.n_jobs) as pool:
        return list(pool.map(partial(_write_documents, model, name, folder), jobs))


def _write_documents(model: Any, name: str, folder: Path, job: tuple[Batch, str]) -> Path:
    """Write the answers about the documents of one shard."""
    documents, stem = job
    return _save(model._answer_batch(name, documents, SERIAL), folder, stem)


def _write_lane(
    model: Any,
    name: str,
    names: tuple[str, ...] | None,
    folder: Path,
    job: tuple[Batch, str, dict[str, Any]],
) -> Path:
    """Write the answers about one shard."""
    batch, stem, where = job
    rows = FileTable(np.asarray(batch.rows), names, Path(stem))
    return _save(_answer(model, name, rows, where), folder, stem)


def _save(found: Array, folder: Path, stem: str) -> Path:
    """Write answers as `stem`.npy: whole, or not at all."""
    path = folder / f"{stem}.npy"
    part = path.with_name(f".{stem}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.save(file, found)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path
