"""Sentences with tags: readers of the treebank, conll2000, MASC, UD English and Brown."""

from __future__ import annotations

import gzip
import re
import zipfile
from collections.abc import Iterator

from .frame import data_folder

Sentence = list[tuple[str, str]]  # words and tags


def read_treebank() -> list[Sentence]:
    """Words and tags of all trees, in the order of the files, without traces."""
    found: list[Sentence] = []
    with zipfile.ZipFile(data_folder() / "tagged" / "treebank.zip") as archive:
        names = (n for n in archive.namelist() if re.fullmatch(r".*/combined/wsj_\d+\.mrg", n))
        for name in sorted(names):
            found += read_trees(archive.read(name).decode("latin-1"))
    return found


def read_trees(text: str) -> Iterator[Sentence]:
    """The leaves (tag word) of bracketed trees, one after another."""
    depth, sentence = 0, []
    for part in re.findall(r"\(\s*[^\s()]+\s+[^\s()]+\s*\)|[()]", text):
        if part in "()":
            depth += 1 if part == "(" else -1
        else:
            tag, word = part.strip("() \n\t").split()
            sentence += [(word, tag)] if tag != "-NONE-" else []
        if depth == 0 and sentence:
            yield sentence
            sentence = []


def read_chunks(part: str) -> list[Sentence]:
    """Sentences of conll2000, with the treebank's names of brackets."""
    with zipfile.ZipFile(data_folder() / "tagged" / "conll2000.zip") as archive:
        text = archive.read(f"conll2000/{part}.txt").decode("latin-1")
    names = {"(": "-LRB-", ")": "-RRB-"}
    blocks = (block.splitlines() for block in re.split(r"\n\s*\n", text) if block.strip())
    return [
        [(word, names.get(tag, tag)) for word, tag, *_ in (line.split() for line in block)]
        for block in blocks
    ]


def read_written() -> list[Sentence]:
    """Sentences of MASC's written part, a line each, in the order of the files."""
    found: list[Sentence] = []
    with zipfile.ZipFile(data_folder() / "tagged" / "masc_tagged.zip") as archive:
        names = (n for n in archive.namelist() if re.fullmatch(r".*/written/.*\.txt", n))
        for name in sorted(names):
            lines = archive.read(name).decode("utf-8", "replace").splitlines()
            found += [read_joined(line, "_") for line in lines if line.strip()]
    return [sentence for sentence in found if sentence]


def read_brown() -> list[Sentence]:
    """Sentences of Brown, in the order of the files."""
    found: list[Sentence] = []
    with zipfile.ZipFile(data_folder() / "tagged" / "brown.zip") as archive:
        names = (n for n in archive.namelist() if re.fullmatch(r".*/c[a-r]\d\d", n))
        for name in sorted(names):
            lines = archive.read(name).decode("latin-1").splitlines()
            found += [read_joined(line, "/") for line in lines if line.strip()]
    return found


def read_joined(line: str, mark: str) -> Sentence:
    """Words with their tags behind a mark; parts without one are left out."""
    pairs = (part.rpartition(mark) for part in line.split())
    return [(word, tag) for word, _, tag in pairs if word and tag]


def read_dependencies(part: str) -> list[Sentence]:
    """Sentences of UD English with the treebank's kind of tags; no multiword or empty tokens."""
    with gzip.open(data_folder() / "ud" / f"en_ewt-ud-{part}.conllu.gz", "rt") as file:
        blocks = file.read().strip().split("\n\n")
    lines = ([line.split("\t") for line in b.splitlines() if line[:1] != "#"] for b in blocks)
    return [[(line[1], line[4]) for line in block if line[0].isdigit()] for block in lines]
