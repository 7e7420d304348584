"""Subjects of pages, made by hand: no fit, no kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stickbreak.families import Gaussian
from stickbreak.inference import MoveRecord, Trace
from stickbreak.inference.trace import LapRecord
from stickbreak.report import Finding, Observed, Replica, Subject
from stickbreak.structures import (
    BagAlignment,
    Chain,
    Dependency,
    Document,
    Independent,
    SlotTemplates,
    Tree,
)

HOSTILE = (
    "</script><script>alert(1)</script>",
    "</style><style>body{display:none}</style>",
    "<!--<script>",
    "--><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "' onfocus='alert(1)' autofocus='",
    "javascript:alert(1)",
    '<base href="https://example.org/">',
    '<meta http-equiv="refresh" content="0;url=https://example.org">',
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "\u2028alert(1)\u2029",
    "a\x00b\x1b[2J",
    "\ud800lone",
    "\u202egnp.exe",
    "x" * 10000,
    "<svg/onload=alert(1)>",
    "&lt;script&gt;&#x3c;script&#x3e;",
    "]]><![CDATA[<script>alert(1)</script>",
    '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
)


@dataclass(frozen=True)
class Unknown:
    """A structure or family that registered nothing."""


def make_trace() -> Trace:
    """Six laps: a birth, a merge, a refused merge, a delete; ids 0, 3, 4 at the end."""
    laps = [
        LapRecord(i + 1, -500.0 + 40 * min(i, 4), -2.5, k, 0.1 * i)
        for i, k in enumerate((2, 2, 4, 4, 3, 3))
    ]
    moves = [
        MoveRecord(2, "birth", (1,), (1, 2, 3), 5.0, 12.0, True),
        MoveRecord(3, "birth", (0,), (0, 4), 5.0, 9.0, True),
        MoveRecord(4, "merge", (1, 2), (1,), 1.0, 2.0, True),
        MoveRecord(5, "merge", (0, 3), (0,), -8.0, -12.3, False),
        MoveRecord(5, "delete", (1, 0, 3), (0, 3), 1.0, 2.5, True),
    ]
    return Trace(laps=laps, moves=moves)


def make_subject(**changes: Any) -> Subject:
    """Three components of two columns, without data."""
    subject = Subject(
        about="DPMixture",
        structure=Independent(),
        family=Gaussian(),
        trace=make_trace(),
        weights=np.array([0.5, 0.3, 0.2]),
        counts=np.array([50.0, 30.0, 20.0]),
        ids=(0, 3, 4),
        posterior={
            "mean": np.array([[0.0, 0.0], [3.0, 1.0], [-3.0, 2.0]]),
            "covariance": np.stack([np.eye(2)] * 3),
        },
        columns=["height", "width"],
        bound=-340.0,
        findings=(Finding("look", "A title", "Measured.", "Advice.", "code(1)"),),
        code=("import stickbreak as sb",),
        digests={"model": "0" * 64},
        versions={"stickbreak": "0"},
    )
    return replace(subject, **changes)


def make_rows(groups_named: str = "a", **changes: Any) -> Subject:
    """The same with data."""
    rng = np.random.default_rng(0)
    subject = make_subject(**changes)
    labels = rng.choice(3, 100, p=subject.weights)
    rows = subject.posterior["mean"][labels] + rng.normal(size=(100, 2))
    replica = Replica(rows, labels, -np.square(rows).sum(1))
    observed = Observed(
        n_rows=100,
        n_units=100,
        sizes=np.bincount(labels, minlength=3),
        certainty=np.arange(20),
        sure=0.9,
        mean_certainty=0.95,
        overlap=np.full((3, 3), 1 / 3),
        score=-3.0,
        score_error=0.1,
        worst=[(17, -9.0, "height 5 (+3.0 sd) from 1")],
        worst_in=[1],
        typical={0: [1, 2]},
        rows=rows,
        numbers=np.arange(100),
        labels=labels,
        groups={groups_named: np.array([0.5, 0.25, 0.25])},
    )
    return replace(subject, observed=observed, replica=replica, replicas=[replica] * 12)


def make_chain(sequences: tuple[str, ...] = (), **changes: Any) -> Subject:
    """A chain with two sequences."""
    subject = make_rows(structure=Chain(), about="HMM", noun="state", several="states", **changes)
    observed = subject.observed
    assert observed is not None
    assert observed.labels is not None
    paths = [observed.labels[:60], observed.labels[60:]]
    transition = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    more = {"transition": transition, "durations": np.array([5.0, 4.0, 3.0]),
            "courses": (list(subject.columns), [[np.arange(60.0), np.arange(40.0)]] * 2,
                        np.arange(120.0).reshape(2, 3, 20)),
            "laws": np.full((3, 9), 1 / 9)}  # fmt: skip
    shown = replace(observed, paths=paths, unsure=[np.array([3]), np.array([], int)], n_units=2,
                    sequences=sequences)  # fmt: skip
    return replace(subject, observed=shown, more=more)


def make_topics(words: tuple[str, ...] = ("cat", "dog", "salt", "pan"), **changes: Any) -> Subject:
    """Three topics."""
    topics = np.array([[0.6, 0.3, 0.05, 0.05], [0.05, 0.05, 0.6, 0.3], [0.3, 0.2, 0.2, 0.3]])
    subject = make_subject(
        structure=Document(), family=Unknown(), about="HDPTopicModel", noun="topic",
        several="topics", unit="word", posterior={}, columns=list(words), **changes,
    )  # fmt: skip
    observed = Observed(
        n_rows=300, n_units=3, sizes=np.array([1, 1, 1]), shares=np.eye(3),
        coherence=np.array([0.1, 0.2, np.nan]), n_topics_of_document=1.5,
    )  # fmt: skip
    more = {
        "topic_word": topics, "overall": np.log(subject.weights @ topics),
        "apart": {k: ", ".join(words[:2]) for k in range(3)}, "counted": "document",
        "documents": {k: [(k, 0.9)] for k in range(3)} if subject.keeps != "none" else {},
        "texts": dict.fromkeys(range(3), words[0]) if subject.shows_texts else {},
        "correlation": np.eye(3),
    }  # fmt: skip
    return replace(subject, observed=observed, more=more)


def make_trees(structure: Any = None, **changes: Any) -> Subject:
    """A grammar with two rules."""
    rules = [{"rule": "A -> B C", "count": 3.0}, {"rule": "B -> b", "count": 2.0}]
    words = list(changes.pop("words", ("the", "cat", "sleeps")))
    shown: dict[str, Any] = {"number": 0, "words": words, "n_drawn": 40, "times": 31}
    if isinstance(structure, Dependency):
        shown |= {"heads": [2, 3, 0], "sure": [0.9, 0.8, 1.0]}
        shown["others"] = [{"times": 9, "heads": [3, 3, 0], "sure": [0.1, 0.8, 1.0]}]
    elif isinstance(structure, SlotTemplates):
        both = "".join(words[1:])
        shown |= {"segments": [words[0], both], "begins": [0, 1], "sure": [1.0, 0.7, 0.2]}
        shown["others"] = [{"times": 9, "segments": ["".join(words)], "begins": [0]}]
    else:
        shown["spans"] = [(0, 2, "1", 0.7, 0), (2, 3, "2", 1.0, 0), (0, 3, "0", 1.0, 1)]
        other = [(0, 1, "1", 0.3, 0), (1, 3, "2", 0.3, 0), (0, 3, "0", 1.0, 1)]
        shown["others"] = [{"times": 9, "spans": other}]
    return make_subject(
        structure=structure or Tree(),
        family=Unknown(),
        posterior={},
        about="PCFG",
        unit="word",
        more={"rules": rules, "trees": [shown]},
        **changes,
    )


def make_pairs(words: tuple[str, ...] = ("house", "Haus"), **changes: Any) -> Subject:
    """An aligner with one pair."""
    source, target = words[:2]
    pair = {"number": 0, "source": ["the", source], "target": ["das", target],
            "posterior": np.array([[0.1, 0.8, 0.1], [0.0, 0.2, 0.8]])}  # fmt: skip
    return make_subject(
        structure=BagAlignment(),
        family=Unknown(),
        posterior={},
        about="IBM1",
        more={"lexicon": [(source, [(target, 0.9)])], "pairs": [pair]},
        **changes,
    )


KINDS = {
    "unknown": lambda **c: make_subject(structure=Unknown(), family=Unknown(), posterior={}, **c),
    "model": make_subject,
    "rows": make_rows,
    "chain": make_chain,
    "topics": make_topics,
    "trees": make_trees,
    "dependencies": lambda **c: make_trees(Dependency(), **c),
    "strings": lambda **c: make_trees(SlotTemplates(), **c),
    "alignment": make_pairs,
}  # fmt: skip
