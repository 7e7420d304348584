"""What a page is written from: plain values of a fitted model and of data that it was shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from stickbreak.protocols import Array

from .findings import Finding
from .replicas import Replica

__all__ = ["Observed", "Subject"]

MOST_COMPONENTS = 200  # in a page; the rest are told by number and weight
ROWS_IN_USE = 1.0


@dataclass(frozen=True)
class Observed:
    """What the model says of the data that it was shown.

    n_rows, n_units : rows, and sequences or documents (rows where rows are by themselves)
    sizes : (K,) rows, or documents, of each component as `predict` names them
    certainty : (20,) rows by their largest posterior probability, in equal bins of 0 to 1
    sure, mean_certainty : share of rows above 0.95, and the mean
    overlap : (K, K) mean probability of another component for the rows of one
    score, score_error : mean log predictive density per row, and its standard error
    worst : (row, log density, why) of the rows explained worst; worst_in : their components
    typical : rows explained best, of each component
    rows, numbers, labels : a sample (m, D), row numbers, components
    paths, unsure : states of the rows of each sequence, and where they are unsure
    sequences : the user's names of them; empty if they have none
    n_unknown, n_unknown_places : words that the model does not know, and how often they are there
    shares : (S, K) of topics in some documents; texts : their first words
    """

    n_rows: int
    n_units: int
    sizes: Array | None = None
    certainty: Array | None = None
    sure: float = float("nan")
    mean_certainty: float = float("nan")
    overlap: Array | None = None
    score: float = float("nan")
    score_error: float = float("nan")
    worst: Sequence[tuple[int, float, str]] = ()
    worst_in: Sequence[int] = ()
    typical: Mapping[int, Sequence[int]] = field(default_factory=dict)
    rows: Array | None = None
    numbers: Array | None = None
    labels: Array | None = None
    paths: Sequence[Array] = ()
    unsure: Sequence[Array] = ()
    sequences: Sequence[str] = ()
    shares: Array | None = None
    documents: Array | None = None
    texts: Sequence[str] = ()
    coherence: Array | None = None
    n_topics_of_document: float = float("nan")
    groups: Mapping[str, Array] = field(default_factory=dict)
    n_unknown: int = 0
    n_unknown_places: int = 0

    def sequence(self, s: int) -> str | int:
        """Name of a sequence, or its number."""
        return self.sequences[s] if self.sequences else s


@dataclass(frozen=True)
class Subject:
    """A fitted model, for the writers of sections.

    weights, counts, ids : (K,); components are called by their positions, as in `predict`
    names : the user's names of components
    starts : (bound, components, laps) of each start of the fit, where there were several
    posterior : summaries of the components by name, component axis first
    columns : names of the columns, or words
    labels_of : names of the categories of columns, by column
    keeps : "sample" or "none": whether rows of the data may be in the page; texts : words of them
    replica, replicas : some of the data, and draws from the model of the same size
    settings, versions, digests : for the last section
    more : values of one kind of model: transition, durations, laws, topic_word, rules, lexicon
    """

    about: str
    structure: Any
    family: Any
    trace: Any
    weights: Array
    counts: Array
    ids: Sequence[int]
    posterior: Mapping[str, Array]
    columns: Sequence[str]
    noun: str = "component"
    several: str = "components"
    unit: str = "row"
    objective: str = "bound"
    bound: float = float("nan")
    is_converged: bool = True
    title: str = ""
    names: Mapping[int, str] = field(default_factory=dict)
    starts: Sequence[tuple[float, int, int]] = ()
    labels_of: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    keeps: str = "sample"
    shows_texts: bool = True
    observed: Observed | None = None
    replica: Replica | None = None
    replicas: Sequence[Replica] = ()
    findings: Sequence[Finding] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    code: Sequence[str] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def used(self) -> Array:
        """Components that hold rows, the largest first; at least one."""
        order = np.argsort(-self.weights, kind="stable")
        held = order[self.counts[order] >= ROWS_IN_USE]
        return np.asarray(held if len(held) else order[:1])

    @cached_property
    def shown(self) -> Array:
        """Those that the page shows."""
        return np.asarray(self.used[:MOST_COMPONENTS])

    @cached_property
    def ranks(self) -> dict[int, int]:
        """Rank of each shown component."""
        return {int(k): rank for rank, k in enumerate(self.shown)}

    @property
    def left_out(self) -> str:
        """A sentence on components that the page does not show; empty if there are none."""
        n_empty, n_more = len(self.weights) - len(self.used), len(self.used) - len(self.shown)
        told = []
        if n_more:
            mass = float(self.weights[self.used[MOST_COMPONENTS:]].sum())
            told.append(f"{n_more:,} smaller {self.several} with {100 * mass:.1f} % of the weight")
        if n_empty:
            told.append(f"{n_empty:,} without {self.unit}s")
        return f"Not shown: {' and '.join(told)}." if told else ""

    def name(self, k: int) -> str:
        """Number of a component, with the user's name."""
        return f"{k} {self.names[k]}" if k in self.names else str(k)
