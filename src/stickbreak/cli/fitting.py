"""`fit` and `resume`."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

import stickbreak as sb
from stickbreak.data import WordsError
from stickbreak.estimators.model_files import continue_fit, estimator_of
from stickbreak.inference import ENGINES, read_checkpoint
from stickbreak.progress import Phase

from .bitexts import open_bitext, write_links
from .data_files import (
    open_corpus,
    open_sequences,
    refuse_pair_options,
    refuse_table_options,
)
from .models import ModelEntry, reads, reads_documents, reads_pairs, reads_sentences
from .options import ENGINE
from .output import check_target, configure_logs, print_json, print_lines
from .sentences import training_data
from .showing import component_lines, facts

__all__ = [
    "fit_documents", "fit_model", "fit_pairs", "interruptible", "make_model", "report",
    "resume_model",
]  # fmt: skip

MIXED = {"null": float, "horizontal": int}  # options that take a number or a word


def split_columns(text: str | None) -> list[str] | None:
    """Names separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",")]


def make_engine(options: dict[str, Any], default: str = "memoized") -> Any:
    """The engine that the options describe; an option that it does not have is refused."""
    name = options["inference"] or default
    if name not in ENGINES:
        raise ValueError(f"unknown inference {name!r}; choose one of {', '.join(sorted(ENGINES))}")
    given = {key: options.get(key) for key in ENGINE if key != "inference"}
    given = {key: value for key, value in given.items() if value is not None}
    known = ENGINES[name]().get_params()
    for key in given:
        if key not in known:
            raise ValueError(f"--{key.replace('_', '-')} does not apply to --inference {name}")
    made: dict[str, Any] = {
        key: str(value) if isinstance(value, Path) else value for key, value in given.items()
    }
    if "temperature" in given:
        made["temperature"] = _read_temperature(str(given["temperature"]))
    if "moves" in given:
        made["moves"] = (sb.Birth(), sb.Merge(), sb.Delete()) if given["moves"] else None
    engine = ENGINES[name](**made)
    engine.check()
    return engine


def _read_temperature(text: str) -> float | tuple[float, ...]:
    """A number, or those between commas; the engine knows how many there may be."""
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--temperature is a number, or two like 2,0.08; got {text}") from None
    return values[0] if len(values) == 1 else values


def _read_counts(text: str) -> str | float | tuple[float, ...]:
    """A number, those between commas, or a word that the estimator knows."""
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        return text
    return values[0] if len(values) == 1 else values


def read_product(text: str) -> sb.Product:
    """A family for each group of columns, from `gaussian:height,weight;categorical:*`.

    Columns are names, or positions in files without names.
    """
    members: list[tuple[str, Any]] = []
    rest = None
    for part in text.split(";"):
        name, colon, columns = (word.strip() for word in part.partition(":"))
        names = [column.strip() for column in columns.split(",")]
        if not (name and colon and all(names)) or (columns == "*" and rest is not None):
            raise ValueError(
                f"--family {text!r}: expected a name, or FAMILY:COLUMN,COLUMN;FAMILY:COLUMN with "
                "one FAMILY:* for all other columns"
            )
        if columns == "*":
            rest = name
        else:
            members.append((name, [int(c) if c.isdecimal() else c for c in names]))
    return sb.Product(members, rest=rest)


def make_model(entry: ModelEntry, options: dict[str, Any], verbose: int) -> Any:
    """The estimator that the options describe; invalid settings fail before a long file is read."""
    arguments = {name: options[name] for name in entry.options if options[name] is not None}
    if ":" in arguments.get("family", ""):
        arguments["family"] = read_product(arguments["family"])
    arguments.update({n: _read_mixed(arguments[n], MIXED[n]) for n in MIXED if n in arguments})
    if isinstance(given := arguments.get("concentration"), str):
        arguments["concentration"] = _read_counts(given)
    # a number that `show` prints, so that the fit can be repeated
    arguments.setdefault("random_state", secrets.randbelow(1 << 31))
    engine = make_engine(options, entry.engine)
    model = getattr(sb, entry.estimator)(**arguments, inference=engine, verbose=verbose)
    model._check_arguments()
    return model


def fit_model(
    entry: ModelEntry, data: Path, out: Path | None, stream: bool, options: dict[str, Any]
) -> None:
    """Fit, save, and report."""
    check_target(out)
    verbose = configure_logs(options)
    model = make_model(entry, options, verbose)
    columns = split_columns(options["columns"])
    began = time.monotonic()
    if stream:
        n_rows = _stream(model, data, columns, options, verbose)
    else:
        table, where = open_sequences(data, columns, model._make_family(), options, verbose)
        n_rows = table.n_rows
        interruptible(lambda: model.fit(table, **where), options["checkpoint"], data, options)
    report(model, n_rows, time.monotonic() - began, out, options)


def fit_documents(entry: ModelEntry, data: Path, out: Path | None, options: dict[str, Any]) -> None:
    """Fit, save, and report."""
    check_target(out)
    verbose = configure_logs(options)
    model = make_model(entry, options, verbose)
    began = time.monotonic()
    corpus = open_corpus(data, options["words"], verbose)
    interruptible(lambda: model.fit(corpus), options["checkpoint"], data, options)
    report(model, corpus.n_documents, time.monotonic() - began, out, options)


def fit_pairs(
    entry: ModelEntry, data: Path, out: Path | None, links: Path | None, options: dict[str, Any]
) -> None:
    """Fit, save, write links, and report."""
    check_target(out)
    check_target(links)
    if options["symmetrize"] is not None and links is None:
        raise ValueError("--symmetrize is for links; give a file with --links too")
    verbose = configure_logs(options)
    laps = 5 if options["max_iter"] is None else options["max_iter"]
    engine = {"inference": options["inference"] or "collapsed", "max_iter": laps}
    model = make_model(entry, {**options, **engine}, verbose)
    began = time.monotonic()
    bitext = open_bitext(data, options, verbose)
    interruptible(lambda: model.fit(bitext), options["checkpoint"], data, options)
    if links is not None:
        write_links(links, model.fit_links(options["symmetrize"]))
    report(model, bitext.n_pairs, time.monotonic() - began, out, options)


def _read_mixed(text: str, kind: type[int] | type[float]) -> str | float:
    """A number where the text is one."""
    try:
        return kind(text)
    except ValueError:
        return text


def _stream(
    model: Any, data: Path, columns: list[str] | None, options: dict[str, Any], verbose: int
) -> int:
    """One pass in which each piece is a step of streaming variational Bayes.

    Options of laps and starts have no meaning here.
    """
    for key in (
        "max_iter",
        "tol",
        "n_batches",
        "batch_size",
        "checkpoint",
        "checkpoint_every",
        "n_init",
    ):
        if options.get(key) is not None:
            raise ValueError(
                f"--{key.replace('_', '-')} does not apply to --stream, which sees each row once"
            )
    n_rows = 0
    model.verbose = 0
    with Phase(f"learning from {data.name}", bool(verbose)) as phase:
        pieces = sb.read_pieces(
            data,
            columns=columns,
            array=options["array"],
            header=options["header"],
            report=phase.update,
        )
        try:
            for piece in pieces:
                model.partial_fit(piece)
                n_rows += piece.n_rows
        except WordsError as error:
            raise ValueError(f"{error}; words need a fit without --stream") from None
    if not n_rows:
        raise ValueError(f"{data} has no rows")
    return n_rows


def resume_model(checkpoint: Path, data: Path, out: Path | None, options: dict[str, Any]) -> None:
    """Continue, save, and report."""
    check_target(out)
    verbose = configure_logs(options)
    began = time.monotonic()
    saved = read_checkpoint(checkpoint)
    opened, n_rows, where = _open_again(checkpoint, saved[0], data, options, verbose)
    resumed = lambda: continue_fit(
        checkpoint, saved, opened, where, n_jobs=options["n_jobs"], verbose=verbose
    )
    report(
        interruptible(resumed, checkpoint, data, options),
        n_rows,
        time.monotonic() - began,
        out,
        options,
    )


def _open_again(
    checkpoint: Path, settings: dict[str, Any], data: Path, options: dict[str, Any], verbose: int
) -> tuple[Any, int, dict[str, Any]]:
    """The data of a checkpoint, their number of rows or documents, and arguments of `resume`.

    The arguments say where sequences are.
    """
    names = settings.get("columns")
    refuse_pair_options(str(checkpoint), settings.get("estimator"), options)
    if reads_pairs(settings.get("estimator")):
        bitext = open_bitext(data, options, verbose)
        return bitext, bitext.n_pairs, {}
    if reads_documents(settings.get("estimator")):
        refuse_table_options(str(checkpoint), options)
        corpus = open_corpus(data, names, verbose)
        return corpus, corpus.n_documents, {}
    if reads_sentences(settings.get("estimator")):
        made = estimator_of(settings, checkpoint)
        given = training_data(made, data, options["column"])
        return given, len(given), {}
    family = estimator_of(settings, checkpoint)._make_family()
    table, where = open_sequences(data, names, family, options, verbose)
    return table, table.n_rows, where


def interruptible(act: Any, checkpoint: Path | None, data: Path, options: dict[str, Any]) -> Any:
    """Run `act`; Ctrl-C says how to go on."""
    try:
        return act()
    except KeyboardInterrupt:
        if checkpoint is None or not Path(checkpoint).is_file():
            raise
        given = [(name, options.get(name)) for name in ("sequence_id", "change_points")]
        of = "".join(f" --{n.replace('_', '-')} {column}" for n, column in given if column)
        message = (
            f"interrupted; no model was written. Continue with: stickbreak resume {checkpoint} "
            f"{data}{of}"
        )
        raise KeyboardInterrupt(message) from None


def report(
    model: Any, n_rows: int, seconds: float, out: Path | None, options: dict[str, Any]
) -> None:
    """Save the model, and say what was found."""
    if out is not None:
        model.save(out)
    what = reads(type(model).__name__)
    what = what if what in ("documents", "pairs", "sentences") else "rows"
    found = {
        **facts(model),
        f"n_{what}": n_rows,
        "seconds": round(seconds, 3),
        "out": None if out is None else str(out),
    }
    if options["json"]:
        print_json(found)
        return
    if not options["quiet"]:
        saved = "not saved: give a file with --out" if out is None else f"saved to {out}"
        print_lines([*component_lines(model), f"{n_rows:,} {what} in {seconds:.1f} s; {saved}"])
