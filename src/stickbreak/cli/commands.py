"""The commands as typer reads them; their bodies are in modules that are imported when called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from stickbreak._version import __version__

from .file_arguments import (
    AnyFile,
    CompareTo,
    MaybeData,
    ModelFile,
    OtherModel,
    PageTo,
    SaveTo,
    WriteTo,
)
from .fit_commands import fit, teach
from .models import MODELS
from .options import (
    CHECKS,
    COMPARED,
    OUTPUT,
    PAGE,
    RESUME,
    SYMMETRIZE,
    USE,
    WORKERS,
    with_options,
)
from .segment_options import CHANGE_POINTS

__all__ = ["app"]


class _InOrder(TyperGroup):
    """Commands in the order of their use."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names."""
        return [
            "example",
            "fit",
            "show",
            "report",
            "compare",
            "predict",
            "score",
            "resume",
            "warmup",
        ]


app = typer.Typer(
    cls=_InOrder,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=(
        "Find groups in tables of data, states in sequences, topics in documents, links between "
        "the words of translations, and trees of sentences: Bayesian models by variational "
        "inference.\n\n"
        "Every command's --help has an example."
    ),
)
app.add_typer(fit, name="fit")


FIRST_FIT = MODELS[0].example
CHECKPOINTED = (
    "stickbreak example clusters.csv",
    "stickbreak fit mixture clusters.csv --n-components 3 --seed 0 --checkpoint fit.checkpoint "
    "--checkpoint-every 0",
    "stickbreak resume fit.checkpoint clusters.csv --out clusters.stickbreak",
)


@app.callback(invoke_without_command=True)
def _top(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"stickbreak {__version__}")
        raise typer.Exit


def _add(
    *lines: str, tables: tuple[Any, ...]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command under its own name, with the options of the tables and an example."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        app.command(function.__name__, help=function.__doc__, epilog=teach(*lines))(
            with_options(function, tables)
        )
        return function

    return add


@_add(
    *FIRST_FIT,
    "stickbreak predict clusters.stickbreak clusters.csv --out labels.csv",
    tables=(USE, CHANGE_POINTS, SYMMETRIZE, WORKERS, OUTPUT),
)
def predict(
    model: ModelFile,
    data: AnyFile,
    proba: Annotated[
        bool,
        typer.Option(
            "--proba",
            help="The probability (of a topic: the share) of every "
            "component instead of the best one.",
        ),
    ] = False,
    segments: Annotated[
        bool,
        typer.Option(
            "--segments",
            help="Of semi-Markov models: a line for each segment (sequence, start, end, state, "
            "length) instead of one for each row. Sequences are called by --sequence-id.",
        ),
    ] = False,
    out: WriteTo = None,
    **options: Any,
) -> None:
    """The most probable component of each row, or the largest topic of each document.

    Of an aligner: the links of each sentence pair as a Pharaoh line, such as 0-0 1-2. Of sentences:
    the best tree, heads as CoNLL-U, constituents in brackets. Columns are found by name where the
    file has names, and so are words.
    """
    from .using import predict_rows, predict_segments

    if segments and proba:
        raise ValueError("--segments and --proba contradict each other")
    if segments:
        predict_segments(model, data, out, options)
    else:
        predict_rows(model, data, proba, out, options)


@_add(
    *FIRST_FIT,
    "stickbreak score clusters.stickbreak clusters.csv",
    tables=(USE, CHANGE_POINTS, SYMMETRIZE, WORKERS, OUTPUT),
)
def score(
    model: ModelFile,
    data: AnyFile,
    per_row: Annotated[
        bool,
        typer.Option(
            "--per-row",
            help="The log density of each row instead of their mean; of a "
            "document a bound from below.",
        ),
    ] = False,
    gold: Annotated[
        Path | None,
        typer.Option(
            "--gold",
            show_default=False,
            metavar="FILE",
            help="Of aligners: links that people drew, to score those of the model.",
        ),
    ] = None,
    out: WriteTo = None,
    **options: Any,
) -> None:
    """The mean log predictive density per row, in nats.

    Of documents: the mean log predictive probability of a word, given four fifths of the distinct
    words of its document, and the perplexity. Of sentence pairs: the mean log probability of a
    target word given the source sentence, and with --gold the alignment error rate.
    """
    from .using import score_rows

    score_rows(model, data, per_row, gold, out, options)


@_add(*FIRST_FIT, "stickbreak show clusters.stickbreak", tables=(CHECKS, {"json": OUTPUT["json"]}))
def show(
    model: ModelFile,
    top_words: Annotated[
        int | None,
        typer.Option(
            "--top-words",
            show_default=False,
            help="Words to show of each topic, or translations of each word. Default 10.",
        ),
    ] = None,
    word: Annotated[
        str | None,
        typer.Option(
            "--word", show_default=False, help="Of aligners: translations of this source word."
        ),
    ] = None,
    **options: Any,
) -> None:
    """The components of a saved model, its bound and its settings."""
    from .showing import show_model

    show_model(model, top_words, word, options)


@_add(
    *FIRST_FIT,
    "stickbreak report clusters.stickbreak clusters.csv --out report.html",
    tables=(PAGE, USE, SYMMETRIZE, OUTPUT),
)
def report(
    model: ModelFile, data: MaybeData = None, out: PageTo = Path("report.html"), **options: Any
) -> None:
    """Write a page about a saved model: one HTML file to look at, share and keep.

    Without DATA it shows what the model alone knows.
    """
    from .reporting import write_report

    write_report(model, data, out, options)


@_add(
    *FIRST_FIT,
    "stickbreak fit mixture clusters.csv --n-components 2 --out two.stickbreak",
    "stickbreak compare clusters.stickbreak two.stickbreak clusters.csv --html compared.html",
    tables=(COMPARED, USE, OUTPUT),
)
def compare(
    one: ModelFile,
    other: OtherModel,
    data: MaybeData = None,
    html: CompareTo = None,
    **options: Any,
) -> None:
    """Two saved models side by side: bounds, held-out scores, and where rows went.

    Without DATA there is no score, and no flow of rows.
    """
    from .reporting import write_comparison

    write_comparison(one, other, data, html, options)


@_add(*CHECKPOINTED, tables=(RESUME, CHANGE_POINTS, WORKERS, OUTPUT))
def resume(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT", show_default=False, help="The file that `fit --checkpoint` wrote."
        ),
    ],
    data: AnyFile,
    out: SaveTo = None,
    **options: Any,
) -> None:
    """Continue a fit that was interrupted, or killed.

    Settings, columns and vocabulary are in the checkpoint; the data must be the same.
    """
    from .fitting import resume_model

    resume_model(checkpoint, data, out, options)


@_add(
    "stickbreak warmup --family gaussian",
    tables=(WORKERS, {"json": OUTPUT["json"], "quiet": OUTPUT["quiet"]}),
)
def warmup(
    family: Annotated[
        list[str] | None,
        typer.Option("--family", show_default=False, help="Only these; may be repeated."),
    ] = None,
    **options: Any,
) -> None:
    """Compile all kernels into the cache: the first fit is faster.

    With --workers: into the caches of all hosts of a cluster, at once.
    """
    from .warmup import compile_kernels

    compile_kernels(family, options)


@_add(
    "stickbreak example clusters.csv",
    "stickbreak example --documents docs.ldac",
    tables=({"json": OUTPUT["json"]},),
)
def example(
    out: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", show_default=False, help="The .csv file (.ldac for documents) to write."
        ),
    ],
    sequences: Annotated[
        bool,
        typer.Option("--sequences", help="Sequences of rows that change between three states."),
    ] = False,
    documents: Annotated[
        bool,
        typer.Option(
            "--documents",
            help="Documents, of Python's own help pages, and a vocabulary .vocab.txt beside FILE.",
        ),
    ] = False,
    bitext: Annotated[
        bool, typer.Option("--bitext", help="Sentence pairs, English and a made-up language.")
    ] = False,
    sentences: Annotated[
        bool, typer.Option("--sentences", help="Sentences of tags, one on each line of a .txt.")
    ] = False,
    trees: Annotated[
        bool, typer.Option("--trees", help="Trees in Penn brackets, one on each line of a .mrg.")
    ] = False,
    strings: Annotated[
        bool, typer.Option("--strings", help="Strings without spaces, one on each line of a .txt.")
    ] = False,
    **options: Any,
) -> None:
    """Write a small table with three groups to try things on; or other kinds of data."""
    from . import example as examples

    writers = {
        "documents": (documents, examples.write_documents),
        "bitext": (bitext, examples.write_bitext),
        "sentences": (sentences, examples.write_sentences),
        "trees": (trees, examples.write_treebank),
        "strings": (strings, examples.write_strings),
    }
    asked = [write for is_asked, write in writers.values() if is_asked]
    if sequences + len(asked) > 1:
        raise ValueError(f"--sequences, --{', --'.join(writers)} contradict each other")
    if not asked:
        return examples.write_example(out, sequences, options)
    asked[0](out, options)
