"""The files that commands read and write, as typer reads their names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AnyFile",
    "BitextFile",
    "CompareTo",
    "CorpusFile",
    "DataFile",
    "LinksTo",
    "MaybeData",
    "ModelFile",
    "OtherModel",
    "PageTo",
    "SaveTo",
    "SentenceFile",
    "Stream",
    "WriteTo",
]

DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", show_default=False, help="A .csv, .tsv, .npy, .npz or .parquet file."
    ),
]
CorpusFile = Annotated[
    Path,
    typer.Argument(
        metavar="CORPUS",
        show_default=False,
        help="An LDA-C or UCI docword file, or a .txt with a document on each line, blanks between "
        "its words; also .gz.",
    ),
]
BitextFile = Annotated[
    Path,
    typer.Argument(
        metavar="BITEXT",
        show_default=False,
        help="A file with `source ||| target` on each line, blanks between words; also .gz.",
    ),
]
SentenceFile = Annotated[
    Path,
    typer.Argument(
        metavar="SENTENCES",
        show_default=False,
        help="A .txt with a sentence on each line, blanks between its words; a .conllu file; or "
        "brackets (.mrg, .ptb); also .gz, and members of a .zip (bank.zip/wsj/*.mrg).",
    ),
]
AnyFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        show_default=False,
        help="A .csv, .tsv, .npy, .npz or .parquet file; for topic models an LDA-C, docword or "
        ".txt file; for aligners a bitext; for grammars .txt, .conllu or brackets.",
    ),
]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", show_default=False, help="A file that `fit` saved.")
]
OtherModel = Annotated[
    Path, typer.Argument(metavar="OTHER", show_default=False, help="Another one.")
]
CompareTo = Annotated[
    Path | None,
    typer.Option("--html", show_default=False, help="Write a page to this .html file, too."),
]
MaybeData = Annotated[
    Path | None,
    typer.Argument(
        metavar="[DATA]", show_default=False, help="Data to show with the model, as in `predict`."
    ),
]
PageTo = Annotated[Path, typer.Option("--out", help="The .html file to write.")]
SaveTo = Annotated[
    Path | None, typer.Option("--out", show_default=False, help="File to save the model to.")
]
WriteTo = Annotated[
    Path | None,
    typer.Option(
        "--out",
        show_default=False,
        help="Write to this .csv or .npy file instead of stdout; "
        "heads to a .conllu file, trees to .mrg or .txt.",
    ),
]
LinksTo = Annotated[
    Path | None,
    typer.Option(
        "--links",
        show_default=False,
        metavar="FILE",
        help="Write the links of these pairs, as Pharaoh lines. Better than those of `predict` "
        "for the same text: each pair is inferred given all others.",
    ),
]
Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="See each row once, piece by piece, without a temporary file: for data "
        "larger than the disk has room for.",
    ),
]
