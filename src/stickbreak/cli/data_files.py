"""Data as commands name them: tables, shards, documents; and options that do not suit them."""

from __future__ import annotations

import glob
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.data import (
    Corpus,
    DocumentShards,
    FileTable,
    Runs,
    ShardTable,
    read_names,
    read_runs,
)
from stickbreak.families.base import BaseFamily
from stickbreak.progress import Phase
from stickbreak.reading import offsets_of_runs, open_words
from stickbreak.stats import Array

from .models import reads_pairs

__all__ = [
    "find_sequences", "is_pattern", "open_corpus", "open_data", "open_sequences",
    "refuse_pair_options", "refuse_table_options",
]  # fmt: skip


def open_data(
    path: Path, columns: Any, family: BaseFamily, options: dict[str, Any], verbose: int
) -> FileTable:
    """The table in a command's DATA; words become categories where the family has them."""
    if is_pattern(path):
        for name in ("array", "header"):
            if options[name] is not None:
                raise ValueError(f"--{name} does not apply to shards ({path})")
        identity = options.get("sequence_id")
        table = sb.open_shards(str(path), columns=columns, sequence_id=identity)
        if not isinstance(table, ShardTable):
            raise ValueError(f"{path} names documents: fit a topic model to them")
        return table
    with Phase(f"reading {path.name}", bool(verbose)) as phase:
        act = partial(
            sb.open_table,
            path,
            columns=columns,
            array=options["array"],
            header=options["header"],
            report=phase.update,
        )
        return open_words(act, family, None)


def is_pattern(path: Path) -> bool:
    """Whether DATA is a pattern of the names of shards."""
    return glob.has_magic(str(path)) and not path.exists()


def open_corpus(
    path: Path, words: Any, verbose: int, n_words: int | None = None
) -> Corpus | DocumentShards:
    """The documents in a command's CORPUS, or in its shards.

    words : the vocabulary, or its file. n_words : its size if there are no words.
    """
    with Phase(f"reading {path.name}", bool(verbose)) as phase:
        if is_pattern(path):
            shards = sb.open_shards(str(path), words=words, n_words=n_words)
            if not isinstance(shards, DocumentShards):
                raise ValueError(f"{path} names tables: a topic model reads documents")
            return shards
        return sb.read_corpus(path, words=words, n_words=n_words, report=phase.update)


def refuse_table_options(what: str, options: dict[str, Any]) -> None:
    """Refuse options of tables for documents. what : where the model of documents comes from."""
    for name in ("sequence_id", "array", "header"):
        if options[name] is not None:
            raise ValueError(
                f"--{name.replace('_', '-')} is for tables; {what} is of a model of documents"
            )


def refuse_pair_options(what: str, estimator: str | None, options: dict[str, Any]) -> None:
    """Refuse options of sentence pairs for other models, and of tables for sentence pairs."""
    is_aligner = reads_pairs(estimator)
    others = ("sequence_id", "array", "header", "words")
    for name in others if is_aligner else ("target", "encoding", "symmetrize", "gold", "word"):
        if options.get(name) is not None:
            kind = "tables and documents" if is_aligner else "sentence pairs"
            raise ValueError(
                f"--{name.replace('_', '-')} is for {kind}; {what} holds a {estimator}"
            )


def find_sequences(
    data: Path, columns: list[str] | None, identity: str | None, options: dict[str, Any]
) -> tuple[list[str] | None, dict[str, Any], tuple[Any, ...]]:
    """The columns to read besides that of ids, arguments of `fit` and `predict`, and the ids.

    The arguments say where sequences are, and where their segments may begin; ids are one for each
    sequence.
    """
    points = options.get("change_points")
    if identity is None and points is None:
        return columns, {}, ()
    where = {"array": options["array"], "header": options["header"]}
    others, ids, offsets = columns, (), None
    given: dict[str, Any] = {}
    if columns is None:
        names = read_names(data, **where) or ()
        others = [name for name in names if name not in (identity, points)]
    if identity is not None:
        runs = read_runs(data, identity, **where)
        offsets, ids = offsets_of_runs(runs), tuple(runs.ids)
        given["lengths"] = np.diff(offsets)
    if points is not None:
        given["change_points"] = _find_points(read_runs(data, points, **where), points, offsets)
    return others, given, ids


def _find_points(runs: Runs, name: str, offsets: Array | None) -> list[Array]:
    """Rows of each sequence, offsets (S + 1,), at which a column is 1, and its first row."""
    bad = [value for value in runs.ids if value not in (0, 1)]
    if bad:
        raise ValueError(
            f"column {name!r} of --change-points holds {bad[0]!r}; give 1 for rows at which a "
            "segment may begin and 0 for all others"
        )
    sizes = np.diff(np.r_[runs.starts, runs.n_rows])
    may = np.repeat(np.array(runs.ids, dtype=bool), sizes)
    bounds = np.array([0, runs.n_rows]) if offsets is None else offsets
    may[bounds[:-1]] = True
    return [np.flatnonzero(may[a:b]) for a, b in pairwise(bounds.tolist())]


def open_sequences(
    data: Path,
    columns: list[str] | None,
    family: BaseFamily,
    options: dict[str, Any],
    verbose: int,
) -> tuple[FileTable, dict[str, Any]]:
    """The table in DATA, and arguments of `fit` that say where its sequences are."""
    if is_pattern(data):
        if options.get("change_points") is not None:
            raise ValueError("--change-points is for one file; DATA names shards")
        table = open_data(data, columns, family, options, verbose)
        assert isinstance(table, ShardTable)
        return table, {} if table.lengths is None else {"lengths": table.lengths}
    columns, where, _ = find_sequences(data, columns, options.get("sequence_id"), options)
    return open_data(data, columns, family, options, verbose), where
