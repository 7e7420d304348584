"""The commands, as typer reads them. What they do is in modules that are imported when they are called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from stickbreak._version import __version__

from .options import DATA, ENGINE, ESTIMATOR, MODELS, OUTPUT, RESUME, SEQUENCES, ModelEntry, with_options

__all__ = ["app"]


class _InOrder(TyperGroup):
    """Commands in the order in which they are used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names."""
        return ["example", "fit", "show", "predict", "score", "resume", "warmup"]


app = typer.Typer(
    cls=_InOrder,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=(
        "Find groups in tables of data, and states in sequences: Bayesian models by variational inference.\n\n"
        "Every command's --help has an example."
    ),
)
fit = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Fit a model to a table and save it.")
app.add_typer(fit, name="fit")

DataFile = Annotated[Path, typer.Argument(metavar="DATA", show_default=False, help="A .csv, .tsv, .npy, .npz or .parquet file.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", show_default=False, help="A file that `fit` saved.")]
SaveTo = Annotated[Path | None, typer.Option("--out", show_default=False, help="File to save the model to.")]
WriteTo = Annotated[
    Path | None, typer.Option("--out", show_default=False, help="Write to this .csv or .npy file instead of stdout.")
]


def teach(*lines: str) -> str:
    """The example at the end of a help page, as it is typed."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


FIRST_FIT = MODELS[0].example
CHECKPOINTED = (
    "stickbreak example clusters.csv",
    "stickbreak fit mixture clusters.csv --n-components 3 --seed 0 --checkpoint fit.checkpoint --checkpoint-every 0",
    "stickbreak resume fit.checkpoint clusters.csv --out clusters.stickbreak",
)


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(f"stickbreak {__version__}")
        raise typer.Exit


def _add_fit(entry: ModelEntry) -> None:
    def command(data: DataFile, out: SaveTo = None, stream: _Stream = False, **options: Any) -> None:
        from .fitting import fit_model

        fit_model(entry, data, out, stream, options)

    def command_for_sequences(data: DataFile, out: SaveTo = None, **options: Any) -> None:
        command(data, out, False, **options)  # the pieces of a stream would cut them

    own = {name: ESTIMATOR[name] for name in entry.options}
    if entry.is_sequential:
        made = with_options(command_for_sequences, (own, ENGINE, DATA, SEQUENCES, OUTPUT), entry.defaults)
    else:
        made = with_options(command, (own, ENGINE, DATA, OUTPUT), entry.defaults)
    fit.command(entry.name, help=entry.help, epilog=teach(*entry.example))(made)


_Stream = Annotated[
    bool,
    typer.Option(
        "--stream", help="See each row once, piece by piece, without a temporary file: for data larger than the disk has room for."
    ),
]
for _entry in MODELS:
    _add_fit(_entry)


def _add(*lines: str, tables: tuple[Any, ...]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command under its own name, with the options of the tables and an example."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        app.command(function.__name__, help=function.__doc__, epilog=teach(*lines))(with_options(function, tables))
        return function

    return add


USE = ({"n_jobs": ESTIMATOR["n_jobs"], **SEQUENCES, "array": DATA["array"], "header": DATA["header"]}, OUTPUT)


@_add(*FIRST_FIT, "stickbreak predict clusters.stickbreak clusters.csv --out labels.csv", tables=USE)
def predict(
    model: ModelFile,
    data: DataFile,
    proba: Annotated[bool, typer.Option("--proba", help="The probability of every component instead of the best one.")] = False,
    out: WriteTo = None,
    **options: Any,
) -> None:
    """The most probable component of each row. Columns are found by name where the file has names."""
    from .using import predict_rows

    predict_rows(model, data, proba, out, options)


@_add(*FIRST_FIT, "stickbreak score clusters.stickbreak clusters.csv", tables=USE)
def score(
    model: ModelFile,
    data: DataFile,
    per_row: Annotated[bool, typer.Option("--per-row", help="The log density of each row instead of their mean.")] = False,
    out: WriteTo = None,
    **options: Any,
) -> None:
    """The mean log predictive density per row, in nats."""
    from .using import score_rows

    score_rows(model, data, per_row, out, options)


@_add(*FIRST_FIT, "stickbreak show clusters.stickbreak", tables=({"json": OUTPUT["json"]},))
def show(model: ModelFile, **options: Any) -> None:
    """The components of a saved model, its bound and its settings."""
    from .showing import show_model

    show_model(model, options)


@_add(*CHECKPOINTED, tables=(RESUME, OUTPUT))
def resume(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", show_default=False, help="The file that `fit --checkpoint` wrote.")
    ],
    data: DataFile,
    out: SaveTo = None,
    **options: Any,
) -> None:
    """Continue a fit that was interrupted, or killed. Settings and columns are in the checkpoint; the data must be the same."""
    from .fitting import resume_model

    resume_model(checkpoint, data, out, options)


@_add("stickbreak warmup --family gaussian", tables=({"json": OUTPUT["json"], "quiet": OUTPUT["quiet"]},))
def warmup(
    family: Annotated[list[str] | None, typer.Option("--family", show_default=False, help="Only these; may be repeated.")] = None,
    **options: Any,
) -> None:
    """Compile all kernels into the cache: the first fit is faster."""
    from .warmup import compile_kernels

    compile_kernels(family, options)


@_add("stickbreak example clusters.csv", tables=({"json": OUTPUT["json"]},))
def example(
    out: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="The .csv file to write.")],
    sequences: Annotated[bool, typer.Option("--sequences", help="Sequences of rows that change between three states.")] = False,
    **options: Any,
) -> None:
    """Write a small table with three groups to try things on."""
    from .example import write_example

    write_example(out, sequences, options)
