"""Treebanks as listed rules: trees with two children a node, and which rules they use.

A tree of n words has n binary nodes less one. Every word's tag and every binary node may have one
unary rule above it, and the top node's symbol is chosen by the root. Nodes that binarization makes
have a bar in their symbol: NP|DT is what is left of an NP after a DT.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .batches import Companion
from .brackets import ConstituentTree, parse_brackets, read_trees
from .word_classes import UNKNOWN, coarser, word_class

__all__ = [
    "BAR", "HISTORIES", "Binarized", "Listing", "as_trees", "binarize", "covered_trees",
    "find_words", "list_rules", "make_tree", "number_trees",
]  # fmt: skip

Array = npt.NDArray[Any]

OUTER = frozenset(("ROOT", "TOP", "S1", ""))
HISTORIES = (0, 1, "full")
BAR = "|"
COLUMNS = 6


class Binarized(NamedTuple):
    """One tree. Children: number of a word, or n + number of a binary node; parents come later.

    words, tags, above : of each word; above is the parent of a unary rule on its tag, "" for none
    nodes : symbol, left child, right child, and the parent of a unary rule, of binary nodes
    top : symbol of the whole
    """

    words: list[str]
    tags: list[str]
    above: list[str]
    nodes: list[tuple[str, int, int, str]]
    top: str


@dataclass(frozen=True, eq=False)
class Listing:
    """The symbols and rules of a treebank, numbered.

    symbols, words : names; words include classes of rare ones
    tops (R,) : symbols of whole sentences
    binary (B, 3), unary (U, 2) : parent and children
    emits (L, 2) : tag and word
    """

    symbols: tuple[str, ...]
    words: tuple[str, ...]
    tops: Array
    binary: Array
    unary: Array
    emits: Array

    @cached_property
    def word_numbers(self) -> Mapping[str, int]:
        """Number of each word."""
        return {word: v for v, word in enumerate(self.words)}


def as_trees(given: Any) -> list[ConstituentTree]:
    """Trees of a user, without traces and function tags: a file, a text, or a list of trees.

    Trees may be `ConstituentTree`, those of nltk, or brackets.
    """
    if isinstance(given, os.PathLike):
        given = read_trees(Path(given))
    elif isinstance(given, str):
        given = parse_brackets(given)
    if not isinstance(given, Sequence) or not len(given):
        raise ValueError("X must be trees: a list of them, brackets as text, or a path to a file")
    found = []
    for s, one in enumerate(given):
        try:
            trees = parse_brackets(one) if isinstance(one, str) else [ConstituentTree.of(one)]
        except ValueError as error:
            raise ValueError(f"entry {s} of X is no tree: {error}") from None
        if not trees:
            raise ValueError(f"entry {s} of X is no tree: {one!r} has no brackets")
        for tree in trees:
            cleaned = tree.cleaned()
            if cleaned is None:
                raise ValueError(f"tree {s} has no words; leave it out")
            found.append(cleaned)
    return found


def binarize(tree: ConstituentTree, horizontal: int | str = 1, name: str = "the tree") -> Binarized:
    """A tree whose nodes have two children, split off from the left.

    horizontal : how many sisters on its left a new node remembers: 0, 1 or "full" for all
    """
    while tree.label in OUTER and len(tree.children) == 1:
        inner = tree.children[0]
        if isinstance(inner, str):
            break
        tree = inner
    words, tags, above = [], [], []
    nodes: list[tuple[str, Any, Any, str]] = []

    def visit(node: ConstituentTree) -> tuple[int, str]:
        top = node.label or "ROOT"
        while len(node.children) == 1 and isinstance(node.children[0], ConstituentTree):
            node = node.children[0]
        label = node.label or "ROOT"
        over = "" if top == label else top
        if len(node.children) == 1:
            words.append(str(node.children[0]))
            tags.append(label)
            above.append(over)
            return len(words) - 1, top
        kids = []
        for child in node.children:
            if isinstance(child, str):
                raise ValueError(
                    f"{name} has the word {child!r} beside other children of {label}; every word "
                    "needs a tag of its own"
                )
            kids.append(visit(child))
        code, names = kids[-1][0], [symbol for _, symbol in kids]
        for i in range(len(kids) - 2, -1, -1):
            own = label if i == 0 else label + BAR + _history(names[:i], horizontal)
            nodes.append((own, kids[i][0], code, over if i == 0 else ""))
            code = -len(nodes)  # numbers of binary nodes follow those of words
        return code, top

    _, symbol = visit(tree)
    n = len(words)
    placed = [(a, *(c if c >= 0 else n - c - 1 for c in (b, c)), d) for a, b, c, d in nodes]
    return Binarized(words, tags, above, placed, symbol)


def _history(names: Sequence[str], horizontal: int | str) -> str:
    if horizontal == "full":
        return "-".join(names)
    return names[-1] if horizontal else ""


def _classed(words: Sequence[str], known: Any) -> list[str]:
    """Words that are not known become their classes."""
    return [w if w in known else word_class(w, i == 0) for i, w in enumerate(words)]


def list_rules(trees: Sequence[Binarized], rare: int = 1) -> Listing:
    """The rules that trees use, in alphabetic order; words seen up to `rare` times become classes.

    `<unk>` has an entry for every tag that has a class, so that any word can be parsed.
    """
    times = Counter(word for tree in trees for word in tree.words)
    known = {word for word, n in times.items() if n > rare}
    binary: set[tuple[str, str, str]] = set()
    unary: set[tuple[str, str]] = set()
    emits: set[tuple[str, str]] = set()
    for tree in trees:
        symbols = _symbols(tree)
        emits.update(zip(tree.tags, _classed(tree.words, known), strict=True))
        unary.update((o, t) for o, t in zip(tree.above, tree.tags, strict=True) if o)
        for name, left, right, over in tree.nodes:
            binary.add((name, symbols[left], symbols[right]))
            if over:
                unary.add((over, name))
    if not any(word == UNKNOWN for _, word in emits):
        open_tags = {tag for tag, word in emits if word not in known} or {tag for tag, _ in emits}
        emits |= {(tag, UNKNOWN) for tag in open_tags}
    tops = {tree.top for tree in trees}
    names = sorted({s for rule in binary | unary for s in rule} | {t for t, _ in emits} | tops)
    words = sorted({word for _, word in emits})
    place, at = {s: i for i, s in enumerate(names)}, {w: i for i, w in enumerate(words)}
    return Listing(
        tuple(names),
        tuple(words),
        _table([(place[s],) for s in sorted(tops)], 1)[:, 0],
        _table([tuple(place[s] for s in rule) for rule in sorted(binary)], 3),
        _table([tuple(place[s] for s in rule) for rule in sorted(unary)], 2),
        _table([(place[tag], at[word]) for tag, word in sorted(emits)], 2),
    )


def _table(rows: list[Any], width: int) -> Array:
    return np.array(rows, dtype=np.int64).reshape(-1, width)


def _symbols(tree: Binarized) -> list[str]:
    """Symbols of words and binary nodes, with the unary rules above them."""
    found = [over or tag for over, tag in zip(tree.above, tree.tags, strict=True)]
    return found + [over or name for name, _, _, over in tree.nodes]


def find_words(sentences: Sequence[Sequence[str]], listing: Listing) -> Array:
    """(n,) numbers of words; those that are not listed are the nearest class that is."""
    numbers, found = listing.word_numbers, []
    for words in sentences:
        for name in _classed(words, numbers):
            while name not in numbers and name != UNKNOWN:
                name = coarser(name)
            found.append(numbers[name])
    return np.array(found, dtype=np.int64)


class _Places(NamedTuple):
    """Numbers of rules by the names in them."""

    binary: Mapping[tuple[str, ...], int]
    unary: Mapping[tuple[str, ...], int]
    emits: Mapping[tuple[str, int], int]
    tops: Mapping[str, int]


def _places_of(listing: Listing) -> _Places:
    names = listing.symbols
    return _Places(
        {(names[a], names[b], names[c]): r for r, (a, b, c) in enumerate(listing.binary)},
        {(names[a], names[b]): r for r, (a, b) in enumerate(listing.unary)},
        {(names[a], int(v)): r for r, (a, v) in enumerate(listing.emits)},
        {names[a]: r for r, a in enumerate(listing.tops)},
    )


def number_trees(trees: Sequence[Binarized], listing: Listing) -> Companion:
    """Trees as numbers of rules: (n, 6) for each, and offsets.

    Row i has the rules that emit word i and above its tag; and for i > 0 the rule of binary node
    i - 1, that above it, and its two children. Row 0 has there the place of its symbol in tops.
    """
    places, parts = _places_of(listing), []
    for s, tree in enumerate(trees):
        try:
            parts.append(_numbered(tree, listing, places))
        except KeyError as error:
            raise ValueError(
                f"tree {s} uses a rule that the first call had not: {error.args[0]!r}; fit to all "
                "trees at once"
            ) from None
    return Companion(np.concatenate(parts), np.r_[0, np.cumsum([len(part) for part in parts])])


def _numbered(tree: Binarized, listing: Listing, places: _Places) -> Array:
    """(n, 6) of one tree; KeyError names a rule that is not listed."""
    rows, symbols = np.full((len(tree.words), COLUMNS), -1, dtype=np.int64), _symbols(tree)
    rows[0, 2] = places.tops[tree.top]
    words = find_words([tree.words], listing).tolist()
    for i, (tag, over, word) in enumerate(zip(tree.tags, tree.above, words, strict=True)):
        rows[i, 0] = places.emits[tag, word]
        rows[i, 1] = places.unary[over, tag] if over else -1
    for j, (name, left, right, over) in enumerate(tree.nodes, 1):
        rows[j, 2] = places.binary[name, symbols[left], symbols[right]]
        rows[j, 3] = places.unary[over, name] if over else -1
        rows[j, 4:] = left, right
    return rows


def covered_trees(trees: Sequence[Binarized], listing: Listing) -> list[int]:
    """The numbers of the trees all of whose rules are listed."""
    places, found = _places_of(listing), []
    for s, tree in enumerate(trees):
        try:
            _numbered(tree, listing, places)
        except KeyError:
            continue
        found.append(s)
    return found


def make_tree(rows: Array, listing: Listing, words: Sequence[str]) -> ConstituentTree:
    """The tree of one sentence from its numbers, see `number_trees`, without binarization.

    The outer bracket is ROOT.
    """
    names, n = listing.symbols, len(rows)
    built: list[list[ConstituentTree]] = []
    for i in range(n):
        leaf = ConstituentTree(names[listing.emits[rows[i, 0], 0]], (words[i],))
        built.append([_under(leaf, rows[i, 1], listing)])
    for j in range(1, n):
        label = names[listing.binary[rows[j, 2], 0]]
        kids = [*built[rows[j, 4]], *built[rows[j, 5]]]
        if BAR in label:
            built.append(kids)
        else:
            built.append([_under(ConstituentTree(label, tuple(kids)), rows[j, 3], listing)])
    inner = built[-1]
    if len(inner) == 1 and inner[0].label == "ROOT":
        return inner[0]
    return ConstituentTree("ROOT", tuple(inner))


def _under(tree: ConstituentTree, rule: int, listing: Listing) -> ConstituentTree:
    if rule < 0:
        return tree
    return ConstituentTree(listing.symbols[listing.unary[rule, 0]], (tree,))
