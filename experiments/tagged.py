"""Sentences with tags: readers of the treebank, conll2000, MASC, UD English and Brown, and what is
to be tagged of them.
"""

from __future__ import annotations

import gzip
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .frame import data_folder

N_SCORED, N_HELD = 1_000, 1_000  # sentences that are tagged; those after them choose the prior
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


# ---------------------------------------------------------------------------------------- tasks


@dataclass(frozen=True)
class Data:
    """Sentences to tag, as words and as numbers of their tags; those that choose the prior; legal
    tags of words, or None; how many words there may be, None for those of the sentences to tag.
    """

    words: Sequence[Any]
    truth: list[list[int]]
    held: Sequence[Any]
    allowed: dict[Any, list[int]] | None
    n_tags: int
    n_words: int | None = None

    def with_numbers(self) -> Data:
        """Words as numbers, those of the held-out sentences among them: a word that is in no
        sentence to tag has its prior count in every state, and may have any tag.
        """
        names = dict.fromkeys(word for part in (self.words, self.held) for s in part for word in s)
        number = {word: i for i, word in enumerate(names)}
        words, held = (
            [np.array([number[word] for word in sentence]) for sentence in part]
            for part in (self.words, self.held)
        )
        legal = self.allowed and {number[word]: tags for word, tags in self.allowed.items()}
        return Data(words, self.truth, held, legal, self.n_tags, len(number))


def read_universal() -> list[Sentence]:
    """The treebank's sentences with the twelve universal tags."""
    path = data_folder() / "tagged" / "universal-pos-tags" / "en-ptb.map"
    tags = dict(line.split() for line in path.read_text().splitlines() if line.strip())
    return [[(word, tags[tag]) for word, tag in sentence] for sentence in read_treebank()]


def load(least: int | None, corpus: str = "treebank") -> Data:
    """The first sentences of a corpus; its dictionary is made from all of it, and for the treebank
    and conll2000 from both.
    """
    journal = ("treebank", "conll2000")
    parts = {
        "treebank": read_treebank,
        "universal": read_universal,
        "conll2000": lambda: [*read_chunks("train"), *read_chunks("test")],
        "MASC, written": read_written,
        "UD English": lambda: [s for p in ("train", "dev", "test") for s in read_dependencies(p)],
    }
    used = parts[corpus]()
    others = [parts[name]() for name in journal if corpus in journal and name != corpus]
    pool = used + [sentence for other in others for sentence in other]
    return cut(pool, used[: N_SCORED + N_HELD], N_SCORED, least)


def cut(pool: list[Sentence], used: list[Sentence], n_scored: int, least: int | None) -> Data:
    """The first sentences are tagged, the rest choose the prior."""
    tags = sorted({tag for sentence in pool for _, tag in sentence})
    scored, held = used[:n_scored], used[n_scored:]
    return Data(
        [[word for word, _ in sentence] for sentence in scored],
        [[tags.index(tag) for _, tag in sentence] for sentence in scored],
        [[word for word, _ in sentence] for sentence in held],
        None if least is None else make_dictionary(pool, scored, tags, least),
        len(tags),
    )


def make_dictionary(
    pool: Iterable[Sentence], scored: Sequence[Sentence], tags: Sequence[str], least: int
) -> dict[str, list[int]]:
    """Tags, by number, that each word has anywhere; words with few tokens here may have any."""
    seen: dict[str, set[str]] = defaultdict(set)
    for sentence in pool:
        for word, tag in sentence:
            seen[word].add(tag)
    tokens = Counter(word for sentence in scored for word, _ in sentence)
    return {
        word: sorted(tags.index(tag) for tag in seen[word])
        for word, count in tokens.items()
        if count >= least
    }
