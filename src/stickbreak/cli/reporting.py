"""`report`: one HTML file about a saved model, with data or without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stickbreak.report import Report
from stickbreak.targets import check_target as resolve_target

from .fitting import refuse_table_options
from .models import reads_documents, reads_pairs, reads_sentences
from .output import check_target, configure_logs, print_json, print_lines
from .using import load_model, open_documents, open_rows

__all__ = ["write_report"]

SUFFIXES = (".html", ".htm")


def write_report(path: Path, data: Path | None, out: Path, options: dict[str, Any]) -> None:
    """Write the page, or say why not before anything is computed."""
    check_target(out, SUFFIXES)
    if resolve_target(out).exists() and not options["force"]:
        raise ValueError(f"--out {out} exists; give another name, or --force to replace it")
    verbose = configure_logs(options)
    model = load_model(path, options)
    page = _page(model, path, data, options, verbose)
    page.save(out, force=options["force"])
    size = len(page.html.encode())
    if options["json"]:
        print_json({"out": str(out), "bytes": size})
    else:
        print_lines([f"wrote {out}, {size / 1000:.0f} KB"])


def _page(
    model: Any, path: Path, data: Path | None, options: dict[str, Any], verbose: int
) -> Report:
    keeps = "none" if options["no_data"] else "sample"
    how = {"title": options["title"], "data": keeps, "texts": not options["no_texts"]}
    name = type(model).__name__
    if data is None:
        return model.report(**how)
    if reads_documents(name):
        return model.report(open_documents(model, path, data, options, verbose), **how)
    if reads_pairs(name) or reads_sentences(name):
        refuse_table_options(str(path), options)
        return model.report(data, **how)
    table, offsets = open_rows(model, path, data, options, verbose)
    where = {} if offsets is None else {"lengths": offsets[1:] - offsets[:-1]}
    return model.report(table, **where, **how)
