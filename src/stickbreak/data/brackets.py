"""Trees in Penn brackets: (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stickbreak import targets

from .sentence_lines import Line, iter_lines

__all__ = ["ConstituentTree", "iter_trees", "parse_brackets", "read_trees", "write_trees"]

TOKENS = re.compile(r"\(|\)|[^\s()]+")
UNWRITTEN = re.compile(r"[()\s]")
EMPTY = "-NONE-"
KEPT = frozenset(("-LRB-", "-RRB-", "-LCB-", "-RCB-"))  # labels that begin with a hyphen


@dataclass(frozen=True)
class ConstituentTree:
    """A node with its label and its children, nodes or words.

    Its text is in Penn brackets. In it ( and ) are written as -LRB- and -RRB- in words and labels,
    and white space as _, so that it can be read again.
    """

    label: str
    children: tuple[ConstituentTree | str, ...]

    @property
    def words(self) -> list[str]:
        """The words below, from left to right."""
        return [word for word, _ in self._leaves()]

    @property
    def tags(self) -> list[str]:
        """The labels directly above the words."""
        return [tag for _, tag in self._leaves()]

    def _leaves(self) -> Iterator[tuple[str, str]]:
        for child in self.children:
            if isinstance(child, str):
                yield child, self.label
            else:
                yield from child._leaves()

    def spans(self) -> list[tuple[int, int, str]]:
        """(begin, end, label) of every node above another node, in preorder; words count from 0."""
        found: list[tuple[int, int, str]] = []
        self._walk(0, found)
        return found

    def _walk(self, begin: int, found: list[tuple[int, int, str]]) -> int:
        at, end = len(found), begin
        is_inner = any(isinstance(child, ConstituentTree) for child in self.children)
        if is_inner:
            found.append((begin, begin, self.label))
        for child in self.children:
            end = end + 1 if isinstance(child, str) else child._walk(end, found)
        if is_inner:
            found[at] = (begin, end, self.label)
        return end

    def cleaned(self, drop: Iterable[str] = ()) -> ConstituentTree | None:
        """Without traces and what only they filled, and without function tags and indices.

        NP-SBJ-1 and NP=2 become NP; the label of the outer bracket may be empty. None if no word is
        left.

        Parameters
        ----------
        drop : tags of words to leave out, for instance those of punctuation.
        """
        dropped = {EMPTY, *drop}
        label = self.label if self.label in KEPT else re.split(r"[-=|]", self.label)[0]
        kept: list[ConstituentTree | str] = []
        for child in self.children:
            if isinstance(child, str):
                kept += [] if self.label in dropped else [child]
            elif (inner := child.cleaned(drop)) is not None:
                kept.append(inner)
        own = self.label if self.label.startswith("-") else label
        return ConstituentTree(own, tuple(kept)) if kept else None

    @classmethod
    def of(cls, tree: Any) -> ConstituentTree:
        """The same tree from another library: nodes with a method `label()` that list children."""
        if isinstance(tree, ConstituentTree):
            return tree
        if not callable(getattr(tree, "label", None)):
            raise ValueError(f"expected a tree; got {type(tree).__name__}")
        children = tuple(child if isinstance(child, str) else cls.of(child) for child in tree)
        return cls(str(tree.label()), children)

    def __str__(self) -> str:
        inner = " ".join(
            _written(child) if isinstance(child, str) else str(child) for child in self.children
        )
        return f"({_written(self.label)} {inner})"


def _written(name: str) -> str:
    """A word or label without what would end it."""
    if not UNWRITTEN.search(name):
        return name
    return re.sub(r"\s", "_", name.replace("(", "-LRB-").replace(")", "-RRB-"))


def iter_trees(
    path: str | Path, *, member: str | None = None, encoding: str = "utf-8"
) -> Iterator[ConstituentTree]:
    """The trees of a file (also `.gz`, or members of a `.zip`), one at a time."""
    return _trees(iter_lines(path, member=member, encoding=encoding))


def read_trees(
    path: str | Path, *, member: str | None = None, encoding: str = "utf-8"
) -> list[ConstituentTree]:
    """The trees of a file in Penn brackets: several on a line, or one over several lines.

    Parameters
    ----------
    path : file name; `.gz` and `.zip` are opened.
    member : of a `.zip`, the name of a file in it, or a pattern like "*/combined/*.mrg".
    encoding : of the text.

    Returns
    -------
    list of `ConstituentTree`, each with `words`, `tags`, `spans()` and `cleaned()`.
    """
    return list(iter_trees(path, member=member, encoding=encoding))


def parse_brackets(text: str) -> list[ConstituentTree]:
    """The trees of a text."""
    lines = enumerate(text.split("\n"), 1)
    return list(_trees(Line(line, f"line {number}") for number, line in lines))


def write_trees(path: str | Path, trees: Iterable[ConstituentTree]) -> None:
    """Write trees in Penn brackets, one on each line, completely or not at all."""
    with targets.replacing(Path(path)) as file:
        for tree in trees:
            file.write(f"{tree}\n".encode())


def _trees(lines: Iterable[Line]) -> Iterator[ConstituentTree]:
    """Nodes are made when their bracket closes; the stack holds label and children of open ones."""
    stack: list[tuple[list[str], list[ConstituentTree | str]]] = []
    where = opened = ""
    for line in lines:
        where = line.where if line.text.strip() else where
        is_first = False
        for token in TOKENS.findall(line.text):
            if token == "(":
                opened = opened if stack else line.where
                stack.append(([], []))
                is_first = True
                continue
            if not stack:
                raise ValueError(f"{line.where} has {token!r} outside of all brackets")
            label, children = stack[-1]
            if token != ")":
                (label if is_first else children).append(token)
            else:
                if not children:
                    raise ValueError(f"{line.where} has a bracket without a word")
                stack.pop()
                node = ConstituentTree("".join(label), tuple(children))
                if stack:
                    stack[-1][1].append(node)
                else:
                    yield node
            is_first = False
    if stack:
        raise ValueError(f"{where}: {len(stack)} bracket(s) not closed, of the tree from {opened}")
