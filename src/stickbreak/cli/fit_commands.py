"""`stickbreak fit`: a command for each model, made of its entry in `models.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from .file_arguments import BitextFile, CorpusFile, DataFile, LinksTo, SaveTo, SentenceFile, Stream
from .models import MODELS, ModelEntry
from .options import (
    ALIGNER_ENGINE,
    ALIGNERS,
    BITEXT,
    DATA,
    ENGINE,
    ESTIMATOR,
    OUTPUT,
    SENTENCES,
    SEQUENCES,
    SYMMETRIZE,
    TOPIC_ENGINE,
    TOPICS,
    VOCABULARY,
    WORKERS,
    with_options,
)
from .segment_options import CHANGE_POINTS

__all__ = ["fit", "teach"]

fit = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Fit a model to a table, documents, a bitext or sentences, and save it.",
)


def teach(*lines: str) -> str:
    """The example at the end of a help page, as typed by the user."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def _add_fit(entry: ModelEntry) -> None:
    table = {"documents": TOPICS, "pairs": ALIGNERS}.get(entry.reads, ESTIMATOR)
    own = {name: table[name] for name in entry.options}
    command, tables = {
        "rows": _fit_rows,
        "sequences": _fit_sequences,
        "documents": _fit_documents,
        "pairs": _fit_pairs,
        "sentences": _fit_sentences,
    }[entry.reads](entry)
    made = with_options(command, (own, *tables, WORKERS, OUTPUT), entry.defaults)
    fit.command(entry.name, help=entry.help, epilog=teach(*entry.example))(made)


def _fit_rows(entry: ModelEntry) -> tuple[Callable[..., None], tuple[Any, ...]]:
    """The command for a model of rows, and the option tables besides the model's own."""

    def command(data: DataFile, out: SaveTo = None, stream: Stream = False, **options: Any) -> None:
        from .fitting import fit_model

        fit_model(entry, data, out, stream, options)

    return command, (ENGINE, DATA)


def _fit_sequences(entry: ModelEntry) -> tuple[Callable[..., None], tuple[Any, ...]]:
    def command(data: DataFile, out: SaveTo = None, **options: Any) -> None:
        from .fitting import fit_model

        fit_model(entry, data, out, False, options)  # pieces of a stream would cut sequences

    own = (CHANGE_POINTS,) if entry.estimator in ("HSMM", "HDPHSMM") else ()
    return command, (ENGINE, DATA, SEQUENCES, *own)


def _fit_documents(entry: ModelEntry) -> tuple[Callable[..., None], tuple[Any, ...]]:
    def command(corpus: CorpusFile, out: SaveTo = None, **options: Any) -> None:
        from .fitting import fit_documents

        fit_documents(entry, corpus, out, options)

    return command, (TOPIC_ENGINE, VOCABULARY)


def _fit_pairs(entry: ModelEntry) -> tuple[Callable[..., None], tuple[Any, ...]]:
    def command(
        bitext: BitextFile, out: SaveTo = None, links: LinksTo = None, **options: Any
    ) -> None:
        from .fitting import fit_pairs

        fit_pairs(entry, bitext, out, links, options)

    return command, (ALIGNER_ENGINE, BITEXT, SYMMETRIZE)


def _fit_sentences(entry: ModelEntry) -> tuple[Callable[..., None], tuple[Any, ...]]:
    def command(sentences: SentenceFile, out: SaveTo = None, **options: Any) -> None:
        from .sentences import fit_sentences

        fit_sentences(entry, sentences, out, options)

    return command, (ENGINE, SENTENCES)


for _entry in MODELS:
    _add_fit(_entry)
