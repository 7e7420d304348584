"""`predict` and `score`: part by part, so that the answer is never held whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.data import FileTable, open_like
from stickbreak.estimators.progress import Phase
from stickbreak.estimators.tables import make_table
from stickbreak.stats import Array

from .output import check_target, configure_logs, print_json, print_lines, write_rows

__all__ = ["predict_rows", "score_rows"]

PART_ROWS = 1 << 16
SUFFIXES = (".csv", ".npy")


def predict_rows(path: Path, data: Path, proba: bool, out: Path | None, options: dict[str, Any]) -> None:
    """Labels, or probabilities, of all rows."""
    check_target(out, SUFFIXES)
    verbose = configure_logs(options)
    model, table = _open(path, data, options, verbose)
    parts = _parts(model.predict_proba if proba else model.predict, table, "predicting", verbose)
    header = [f"component_{k}" for k in range(model.n_components_)] if proba else ["component"]
    name = "probabilities" if proba else "labels"
    _answer(parts, header, table, out, name, options)


def score_rows(path: Path, data: Path, per_row: bool, out: Path | None, options: dict[str, Any]) -> None:
    """The mean log density, or that of all rows."""
    check_target(out, SUFFIXES)
    if out is not None and not per_row:
        raise ValueError("--out is for the densities of all rows; give --per-row too")
    verbose = configure_logs(options)
    model, table = _open(path, data, options, verbose)
    parts = _parts(model.score_samples, table, "scoring", verbose)
    if per_row:
        _answer(parts, ["log_density"], table, out, "log_densities", options)
        return
    mean = sum(float(part.sum()) for part in parts) / table.n_rows
    if options["json"]:
        print_json({"score": mean, "n_rows": table.n_rows})
    else:
        print_lines([f"{mean!r}"])


def _open(path: Path, data: Path, options: dict[str, Any], verbose: int) -> tuple[Any, FileTable]:
    """The model, and the data as a table that is fit for it: all rows are checked before anything is written."""
    model = sb.load(path)
    model.verbose = 0
    if options["n_jobs"] is not None:
        model.n_jobs = options["n_jobs"]
    names = list(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None
    with Phase(f"reading {data.name}", bool(verbose)) as phase:
        table = open_like(data, names, phase.update, array=options["array"], header=options["header"])
    make_table(model, table, model._model.family, reset=False)
    return model, table


def _parts(method: Callable[[FileTable], Array], table: FileTable, what: str, verbose: int) -> Iterator[Array]:
    done = 0
    with Phase(what, bool(verbose)) as phase:
        for part in table.parts(PART_ROWS):
            yield method(part)
            done += part.n_rows
            phase.update(done, table.n_rows)


def _answer(
    parts: Iterator[Array], header: list[str], table: FileTable, out: Path | None, name: str, options: dict[str, Any]
) -> None:
    """To the file; or to stdout, as text or as JSON."""
    if out is not None or not options["json"]:
        write_rows(out, parts, header, table.n_rows)
    if options["json"]:
        found = {"out": str(out)} if out is not None else {name: np.concatenate(list(parts))}
        print_json({"n_rows": table.n_rows, **found})
