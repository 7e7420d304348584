"""`report` and `compare`: one HTML file about a saved model, or about two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import stickbreak as sb
from stickbreak.estimators.sequence_fits import SequenceEstimator
from stickbreak.report import Report
from stickbreak.targets import check_target as resolve_target

from .bitexts import open_bitext
from .data_files import refuse_table_options
from .models import reads_documents, reads_pairs, reads_sentences
from .output import check_target, configure_logs, print_json, print_lines
from .sentences import is_of_tags, read_file
from .using import load_model, open_rows, open_words

__all__ = ["write_comparison", "write_report"]

SUFFIXES = (".html", ".htm")


def write_report(path: Path, data: Path | None, out: Path, options: dict[str, Any]) -> None:
    """Write the page, or say why not before anything is computed."""
    _check_page(out, options, "--out")
    verbose = configure_logs(options)
    model = load_model(path, options)
    keeps = "none" if options["no_data"] else "sample"
    how = {"title": options["title"], "data": keeps, "texts": not options["no_texts"]}
    found, where, ids = (
        (None, {}, ()) if data is None else _open(model, path, data, options, verbose)
    )
    if ids and isinstance(model, SequenceEstimator):
        how["sequence_names"] = ids
    page = model.report(found, **where, **how)
    _save(page, out, options, {})


def write_comparison(
    one: Path, other: Path, data: Path | None, html: Path | None, options: dict[str, Any]
) -> None:
    """Print the table of two models, and write the page if asked for."""
    if html is not None:
        _check_page(html, options, "--html")
    elif options["title"] is not None or options["force"]:
        raise ValueError("--title and --force are for the page; give --html FILE too")
    verbose = configure_logs(options)
    models = [load_model(path, options) for path in (one, other)]
    found: Any = None
    where: dict[str, Any] = {}
    if data is not None:
        _refuse_other_columns(models, (one, other))
        found, where, _ = _open(models[0], one, data, options, verbose)
    names = [one.stem, other.stem] if one.stem != other.stem else None  # no path in a page
    table = sb.compare(models, found, **where, names=names)
    if not options["json"]:
        print_lines(repr(table).splitlines())
    told = {"models": [line.name for line in table], "notes": list(table.notes)}
    if html is None:
        if options["json"]:
            print_json(told)
        return
    title = {} if options["title"] is None else {"title": options["title"]}
    _save(table.report(**title), html, options, told)


def _check_page(out: Path, options: dict[str, Any], option: str) -> None:
    check_target(out, SUFFIXES, option)
    if resolve_target(out).exists() and not options["force"]:
        raise ValueError(f"{option} {out} exists; give another name, or --force to replace it")


def _refuse_other_columns(models: list[Any], paths: tuple[Path, Path]) -> None:
    """Raise ValueError for models that cannot be shown the same data."""
    one, other = (list(getattr(model, "feature_names_in_", ())) for model in models)
    if one and other and one != other:
        at = next((d for d, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), -1)
        told = f"column {at} is {one[at]!r} and {other[at]!r}" if at >= 0 else "not as many"
        raise ValueError(
            f"{paths[0]} and {paths[1]} have other columns or words ({told}): compare them "
            "without DATA"
        )


def _save(page: Report, out: Path, options: dict[str, Any], told: dict[str, Any]) -> None:
    page.save(out, force=options["force"])
    size = len(page.html.encode())
    if options["json"]:
        print_json({**told, "out": str(out), "bytes": size})
    else:
        print_lines([f"wrote {out}, {size / 1000:.0f} KB"])


def _open(
    model: Any, path: Path, data: Path, options: dict[str, Any], verbose: int
) -> tuple[Any, dict[str, Any], tuple[Any, ...]]:
    """The data as the model's methods take them, where its sequences end, and their ids."""
    name = type(model).__name__
    if reads_documents(name):
        return open_words(model, path, data, options, verbose), {}, ()
    if reads_pairs(name) or reads_sentences(name):
        refuse_table_options(str(path), options)
        if reads_pairs(name):
            return open_bitext(data, options, verbose), {}, ()
        return read_file(data, options.get("column"), is_of_tags(model)).words, {}, ()
    table, offsets, ids, _ = open_rows(model, path, data, options, verbose)
    return table, {} if offsets is None else {"lengths": offsets[1:] - offsets[:-1]}, ids
