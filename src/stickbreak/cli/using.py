"""`predict` and `score`, part by part, so that the answer is never held as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import stickbreak as sb
from stickbreak.data import Corpus, DocumentShards, FileTable, open_like
from stickbreak.estimators.segment_answers import SegmentModel
from stickbreak.estimators.segment_forecasts import Segments
from stickbreak.progress import Phase
from stickbreak.reading import Groups, Stack, count_documents
from stickbreak.stats import Array

from .bitexts import open_bitext, predict_links, score_pairs
from .data_files import find_sequences, open_corpus, refuse_pair_options, refuse_table_options
from .models import reads, reads_documents, reads_pairs, reads_sentences
from .output import check_target, configure_logs, print_json, print_lines, write_rows
from .sentences import predict_sentences, score_sentences

__all__ = [
    "load_model", "open_documents", "open_rows", "open_words", "predict_rows", "predict_segments",
    "score_rows",
]  # fmt: skip

PART_ROWS = 1 << 16
PART_DOCUMENTS = 1 << 12
SUFFIXES = (".csv", ".npy")


class Opened(NamedTuple):
    """A table for a model.

    offsets : (S + 1,) where sequences begin and end, None for rows without order
    ids : of the sequences, none if they have no names
    points : rows of each sequence at which segments may begin
    """

    table: FileTable
    offsets: Array | None
    ids: tuple[Any, ...]
    points: list[Array] | None = None

    def within(self, begin: int, end: int) -> dict[str, Any]:
        """Arguments that say where sequences are in the rows from begin to end, which cut none."""
        if self.offsets is None:
            return {}
        lo, hi = np.searchsorted(self.offsets, [begin, end])
        found: dict[str, Any] = {"lengths": np.diff(self.offsets[lo : hi + 1])}
        return found if self.points is None else {**found, "change_points": self.points[lo:hi]}


def predict_rows(
    path: Path, data: Path, proba: bool, out: Path | None, options: dict[str, Any]
) -> None:
    """Labels of rows, topics of documents, links of sentence pairs, trees of sentences."""
    verbose = configure_logs(options)
    model = load_model(path, options)
    if reads_pairs(type(model).__name__):
        check_target(out)
        if proba:
            raise ValueError("--proba is not for aligners, which write links; see predict_proba")
        bitext = open_bitext(data, options, verbose)
        predict_links(model, bitext, options["symmetrize"], out, options)
        return
    if reads_sentences(type(model).__name__):
        if proba:
            raise ValueError("--proba is not for trees; see parse_proba in Python")
        predict_sentences(model, data, out, options)
        return
    check_target(out, SUFFIXES)
    header = [f"{model._noun}_{k}" for k in range(model.n_components_)] if proba else [model._noun]
    if reads_documents(type(model).__name__):
        counts = open_documents(model, path, data, options, verbose)
        parts = _document_parts(
            model.transform if proba else model.predict, counts, "predicting", verbose
        )
        _answer(
            parts,
            header,
            {"n_documents": counts.shape[0]},
            out,
            "shares" if proba else "labels",
            options,
        )
        return
    opened = open_rows(model, path, data, options, verbose)
    method = model.predict_proba if proba else model.predict
    parts = _parts(method, opened, "predicting", verbose)
    _answer(
        parts,
        header,
        {"n_rows": opened.table.n_rows},
        out,
        "probabilities" if proba else "labels",
        options,
    )


def predict_segments(path: Path, data: Path, out: Path | None, options: dict[str, Any]) -> None:
    """A line for each segment of every sequence, which is named as in the file if it has names.

    Arrays (`.npy`), which hold numbers, have its position.
    """
    check_target(out, SUFFIXES)
    verbose = configure_logs(options)
    model = load_model(path, options)
    if not isinstance(model, SegmentModel):
        raise ValueError(
            f"--segments is for semi-Markov models; {path} holds a {type(model).__name__}"
        )
    opened = open_rows(model, path, data, options, verbose)
    found, n_before = [], 0
    for part in _parts(model.predict_segments, opened, "predicting", verbose):
        found.append(np.column_stack([part.sequence + n_before, *part[1:]]))
        n_before += int(part.sequence[-1]) + 1
    lines = np.concatenate(found)
    if opened.ids and (out is None or out.suffix.lower() != ".npy"):
        lines = lines.astype(object)
        lines[:, 0] = [_name(opened.ids[s]) for s in lines[:, 0]]
    _answer(
        iter([lines]), list(Segments._fields), {"n_segments": len(lines)}, out, "segments", options
    )


def _name(value: Any) -> Any:
    """An id as a file has it: numbers of text are read as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def score_rows(
    path: Path,
    data: Path,
    per_row: bool,
    gold: Path | None,
    out: Path | None,
    options: dict[str, Any],
) -> None:
    """The mean log density, or that of each row.

    For documents, that of a word, or a lower bound for each document; for sentence pairs, that of a
    target word, or of each target sentence.
    """
    check_target(out, SUFFIXES)
    if out is not None and not per_row:
        raise ValueError("--out is for the densities of all rows; give --per-row too")
    verbose = configure_logs(options)
    model = load_model(path, {**options, "gold": gold})
    if reads_pairs(type(model).__name__):
        bitext = open_bitext(data, options, verbose)
        score_pairs(model, bitext, per_row, gold, out, options)
        return
    if reads_sentences(type(model).__name__):
        score_sentences(model, data, per_row, options)
        return
    if reads_documents(type(model).__name__):
        counts = open_documents(model, path, data, options, verbose)
        parts = _document_parts(model.score_samples, counts, "scoring", verbose)
        if per_row:
            _answer(
                parts, ["log_bound"], {"n_documents": counts.shape[0]}, out, "log_bounds", options
            )
        else:
            _score_documents(model, counts, options)
        return
    opened = open_rows(model, path, data, options, verbose)
    n_rows = opened.table.n_rows
    parts = _parts(model.score_samples, opened, "scoring", verbose)
    if per_row:
        _answer(parts, ["log_density"], {"n_rows": n_rows}, out, "log_densities", options)
        return
    # rows that serve only as context have no density
    sums = np.sum([(np.nansum(part), np.isfinite(part).sum()) for part in parts], axis=0)
    mean = float(sums[0] / sums[1])
    if options["json"]:
        print_json({"score": mean, "n_rows": n_rows})
    else:
        print_lines([f"{mean!r}"])


def _score_documents(model: Any, counts: Any, options: dict[str, Any]) -> None:
    """The mean log predictive probability of a word and the perplexity."""
    score = model.score(counts)
    perplexity = float(np.exp(-score))
    if options["json"]:
        print_json({"score": score, "perplexity": perplexity, "n_documents": counts.shape[0]})
    else:
        print_lines([f"{score!r} nats per word, perplexity {perplexity:.6g}"])


def load_model(path: Path, options: dict[str, Any]) -> Any:
    """The model of a file, silent, with as many threads as asked for."""
    model = sb.load(path)
    refuse_pair_options(str(path), type(model).__name__, options)
    if options.get("change_points") is not None and not isinstance(model, SegmentModel):
        raise ValueError(
            f"--change-points is for semi-Markov models; {path} holds a {type(model).__name__}"
        )
    model.verbose = 0
    if options["n_jobs"] is not None:
        model.n_jobs = options["n_jobs"]
    return model


def open_documents(
    model: Any, path: Path, data: Path, options: dict[str, Any], verbose: int
) -> Any:
    """(S, V) counts with the model's vocabulary."""
    given = model._given(open_words(model, path, data, options, verbose))
    return count_documents(given, model._require_fitted().schema)[0]


def open_words(
    model: Any, path: Path, data: Path, options: dict[str, Any], verbose: int
) -> Corpus | DocumentShards:
    """The documents with their own vocabulary."""
    refuse_table_options(str(path), options)
    words = options["words"]
    n_words = None if words is not None else model.n_features_in_
    return open_corpus(data, words, verbose, n_words)


def open_rows(model: Any, path: Path, data: Path, options: dict[str, Any], verbose: int) -> Opened:
    """The data as a table for the model; all rows are checked before anything is written."""
    if options["words"] is not None:
        raise ValueError(f"--words is for topic models; {path} holds a {type(model).__name__}")
    names = list(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None
    with Phase(f"reading {data.name}", bool(verbose)) as phase:
        if options["sequence_id"] is not None and reads(type(model).__name__) != "sequences":
            raise ValueError(
                f"--sequence-id is for models of sequences; {path} holds a {type(model).__name__}"
            )
        columns, where, ids = find_sequences(data, names, options["sequence_id"], options)
        chosen = columns if where else names
        table = open_like(
            data,
            chosen,
            phase.update,
            array=options["array"],
            header=options["header"],
            categories=model.categories_,
        )
    checked = model._use(model._given(table, **where))[1]
    offsets = checked.shape.given_offsets if isinstance(checked, Stack | Groups) else None
    return Opened(table, offsets, ids, where.get("change_points"))


def _parts(method: Callable[..., Any], opened: Opened, what: str, verbose: int) -> Iterator[Any]:
    """Answers part by part; sequences stay whole."""
    table, offsets = opened.table, opened.offsets
    done, cuts = 0, np.r_[np.arange(0, table.n_rows, PART_ROWS), table.n_rows]
    if offsets is not None:
        cuts = np.unique(offsets[np.searchsorted(offsets, cuts)])
    with Phase(what, bool(verbose)) as phase:
        for begin, end in pairwise(cuts.tolist()):
            part = replace(table, rows=table.rows[begin:end])
            yield method(part, **opened.within(begin, end))
            done += part.n_rows
            phase.update(done, table.n_rows)


def _document_parts(
    method: Callable[..., Array], counts: Any, what: str, verbose: int
) -> Iterator[Array]:
    """Answers for some documents at a time; counts (S, V)."""
    with Phase(what, bool(verbose)) as phase:
        for begin in range(0, counts.shape[0], PART_DOCUMENTS):
            part = counts[begin : begin + PART_DOCUMENTS]
            yield method(part)
            phase.update(begin + part.shape[0], counts.shape[0])


def _answer(
    parts: Iterator[Array],
    header: list[str],
    size: dict[str, int],
    out: Path | None,
    name: str,
    options: dict[str, Any],
) -> None:
    """Write to the file; or to stdout, as text or as JSON.

    size : the number of rows or documents, with its name in JSON.
    """
    if out is not None or not options["json"]:
        write_rows(out, parts, header, next(iter(size.values())))
    if options["json"]:
        found = {"out": str(out)} if out is not None else {name: np.concatenate(list(parts))}
        print_json({**size, **found})
