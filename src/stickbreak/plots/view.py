"""What a picture is drawn from: plain values of a fitted model, components sorted by weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stickbreak.protocols import Array

__all__ = ["MAX_COMPONENTS", "View", "choose_columns"]

MAX_COMPONENTS = 14  # seven colors, each with a solid and a dashed line
ROWS_IN_USE = 1.0  # a component with less than one expected row is not in use


@dataclass(frozen=True)
class View:
    """A fitted model as plain values.

    weights, counts : (K,) posterior mean weights, expected rows; components are called by their
        positions 0..K-1, as in `predict`
    posterior : summaries of the components by name, component axis first
    names : (D,) names of the columns
    objective : what the trace shows ("bound", "log joint"); empty if the fit has none
    rows, labels : some rows (m, D) and their components (m,), drawn with the components
    columns : positions of the columns to draw; None: the picture chooses
    noun : what a component is called
    unit : what a row is called
    paths : of chains, components of the rows of some sequences, one array per sequence
    transition, durations : of chains, (K, K) and (K,)
    laws : of semi-Markov models, (K, D) probabilities of the lengths 1, ..., D
    shares : (m, K) of the components in some documents, which are at positions documents (m,) of
        n_documents
    n_words : how many words of a topic to draw
    pair : of aligners, an AlignedPair. jumps : widths, and their probabilities
    words, heads, tree : of one sentence, its words, the heads (n,) of these, or its tree
    segments : of one string, with the positions of their names among the components
    rules : of a grammar, those most often used
    """

    structure: Any
    family: Any
    trace: Any
    weights: Array
    counts: Array
    posterior: Mapping[str, Array]
    names: Sequence[str]
    objective: str = "bound"
    is_converged: bool = True
    rows: Any = None
    labels: Array | None = None
    columns: tuple[int, ...] | None = None
    noun: str = "component"
    paths: Sequence[Array] = ()
    transition: Array | None = None
    durations: Array | None = None
    laws: Array | None = None
    unit: str = "row"
    shares: Array | None = None
    documents: Array | None = None
    n_documents: int = 0
    n_words: int = 10
    pair: Any = None
    jumps: tuple[Array, Array] | None = None
    words: Sequence[str] = ()
    heads: Array | None = None
    tree: Any = None
    segments: Sequence[tuple[int, Any]] | None = None
    rules: Sequence[Any] = ()

    @cached_property
    def shown(self) -> Array:
        """Components to draw: those in use, the largest first, 1 to MAX_COMPONENTS of them."""
        order = np.argsort(-self.weights, kind="stable")
        n_used = int((self.counts >= ROWS_IN_USE).sum())
        used = order[self.counts[order] >= ROWS_IN_USE] if n_used else order[:1]
        return np.asarray(used[:MAX_COMPONENTS])

    @cached_property
    def ranks(self) -> Array:
        """(K,) rank of each component among those drawn; -1 for the others."""
        found = np.full(len(self.weights), -1)
        found[self.shown] = np.arange(len(self.shown))
        return found

    @property
    def left_out(self) -> str:
        """A note on what is not drawn; empty if all is."""
        return self.missing(len(self.shown))

    def missing(self, n_shown: int) -> str:
        """The same note for a panel that draws only the first n_shown."""
        n = len(self.weights) - n_shown
        if n == 0:
            return ""
        mass = max(0.0, 1.0 - float(self.weights[self.shown[:n_shown]].sum()))
        share = f"{100 * mass:.1f} %" if mass >= 0.0005 else "less than 0.1 %"
        return f"not drawn: {n} {plural(self.noun, n)} with {share} of the weight"

    def title(self) -> str:
        """A title with the number of components drawn."""
        return f"{len(self.shown)} {plural(self.noun, len(self.shown))}, by weight"

    def label(self, k: int) -> str:
        """Number and weight of a component."""
        return f"{k}  ({100 * self.weights[k]:.0f} %)"


def plural(noun: str, n: int) -> str:
    """The noun for n things."""
    return noun if n == 1 else noun + "s"


def choose_columns(fitted: View, telling: Array, most: int) -> tuple[Array, str]:
    """Positions of the columns to draw, in the order of the data, and a note if some are left out.

    telling : (D,) how much each column tells about the component of a row.
    """
    if fitted.columns is not None:
        return np.array(fitted.columns, dtype=int), ""
    D = len(telling)
    if most >= D:
        return np.arange(D), ""
    best = np.sort(np.argsort(-telling, kind="stable")[:most])
    return best, f"the {most} most telling of {D:,} columns"
