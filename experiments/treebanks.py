"""Sentences with their trees: the treebank's dependencies and brackets, and UD, short ones."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

import stickbreak as sb

from .frame import data_folder

PUNCTUATION = frozenset((".", ",", ":", "``", "''", "-LRB-", "-RRB-", "#", "$"))


class Parsed(NamedTuple):
    """tags and heads of one sentence, punctuation left out."""

    tags: list[str]
    heads: list[int]


def drop(tags: Sequence[str], heads: Sequence[int], is_dropped: Callable[[str], bool]) -> Parsed:
    """Words that stay; a child of a dropped word goes up to that word's head."""
    kept = [a for a, tag in enumerate(tags, 1) if not is_dropped(tag)]
    place = {0: 0} | {a: i for i, a in enumerate(kept, 1)}
    found = []
    for a in kept:
        head, n_steps = heads[a - 1], 0
        while head not in place and n_steps < len(tags):
            head, n_steps = heads[head - 1], n_steps + 1
        found.append(place.get(head, 0))
    return Parsed([tags[a - 1] for a in kept], found)


def read_dependencies() -> list[Parsed]:
    """The dependency treebank, in the order of its files."""
    found = []
    with zipfile.ZipFile(data_folder() / "tagged" / "dependency_treebank.zip") as archive:
        for name in sorted(n for n in archive.namelist() if n.endswith(".dp")):
            text = archive.read(name).decode("latin-1").strip()
            for block in re.split(r"\n\s*\n", text):
                rows = [
                    row for row in (line.split() for line in block.splitlines()) if len(row) > 2
                ]
                if rows:
                    tags, heads = [row[1] for row in rows], [int(row[2]) for row in rows]
                    found.append(drop(tags, heads, PUNCTUATION.__contains__))
    return found


def read_ud(code: str, part: str) -> list[Parsed]:
    """A part of a UD treebank: universal tags, punctuation left out."""
    path = data_folder() / "ud" / f"{code}-ud-{part}.conllu.gz"
    return [
        drop(sentence.column("upos"), sentence.heads.tolist(), "PUNCT".__eq__)
        for sentence in sb.read_conllu(path)
    ]


def shorter(sentences: Sequence[Parsed], longest: int) -> list[Parsed]:
    """Those of 1 to `longest` words."""
    return [sentence for sentence in sentences if 1 <= len(sentence.tags) <= longest]


def read_constituents(longest: int) -> list[sb.ConstituentTree]:
    """Trees of 1 to `longest` words of the treebank, without traces and punctuation."""
    path = data_folder() / "tagged" / "treebank.zip"
    trees = sb.read_trees(path, member="treebank/combined/wsj_*.mrg", encoding="latin-1")
    found = [tree.cleaned(PUNCTUATION) for tree in trees]
    return [tree for tree in found if tree is not None and len(tree.words) <= longest]


def split_further(tree: sb.ConstituentTree) -> sb.ConstituentTree:
    """The tree with nodes of more than two children split from the left: what no parser beats."""
    first, *others = [
        split_further(c) if isinstance(c, sb.ConstituentTree) else c for c in tree.children
    ]
    if len(others) < 2:
        return sb.ConstituentTree(tree.label, (first, *others))
    rest = split_further(sb.ConstituentTree(tree.label, tuple(others)))
    return sb.ConstituentTree(tree.label, (first, rest))


def branching(tree: sb.ConstituentTree, side: str, rng: np.random.Generator) -> sb.ConstituentTree:
    """A binary tree over the same words: "right", "left" or "random" splits."""
    leaves = [sb.ConstituentTree(t, (w,)) for w, t in zip(tree.words, tree.tags, strict=True)]

    def join(lo: int, hi: int) -> sb.ConstituentTree:
        if hi - lo == 1:
            return leaves[lo]
        at = {"right": lo + 1, "left": hi - 1}.get(side)
        at = int(rng.integers(lo + 1, hi)) if at is None else at
        return sb.ConstituentTree("X", (join(lo, at), join(at, hi)))

    return join(0, len(leaves))
