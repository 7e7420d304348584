"""Checks of sequences: states that flicker, their stays, states of one sequence or one stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stickbreak.protocols import Array
from stickbreak.structures import Chain, SemiMarkov

from .checking import OF_ALL, Check, check_columns, check_few_rows, check_outliers, checks_of
from .drawing import number, percent, plural
from .findings import Finding, judged
from .replicas import Replica, stays_of
from .subject import Subject

__all__ = [
    "check_flicker", "check_lone_states", "check_single_stays", "check_stays",
]  # fmt: skip

SHORT = 2  # rows of a stay that flickers


@checks_of.register(Chain)
@checks_of.register(SemiMarkov)
def _(structure: Any) -> tuple[Check, ...]:
    more = (check_flicker, check_stays, check_single_stays, check_lone_states, check_columns)
    return (*OF_ALL, check_few_rows, check_outliers, *more)


def _interruptions(replica: Replica) -> float:
    """Share of the stays that last one or two rows, between two stays of one other state."""
    n, short = 0, 0
    for path in replica.paths:
        states, lengths = stays_of(path)
        n += len(states)
        short += int(((lengths[1:-1] <= SHORT) & (states[2:] == states[:-2])).sum())
    return short / max(n, 1)


def check_flicker(subject: Subject) -> Finding | None:
    """Short interruptions, against sequences drawn from the model and decoded alike.

    Short stays alone would be no sign: a fit to data that flicker has learned that they are.
    """
    if subject.replica is None or not subject.replica.paths or not len(subject.replicas):
        return None
    own, drawn = (
        _interruptions(subject.replica),
        np.array([_interruptions(r) for r in subject.replicas]),
    )
    told = (
        f"{percent(own)} of the stays interrupt another state for one or two rows; "
        f"{percent(float(drawn.mean()))} in sequences drawn from the model, at most "
        f"{percent(float(drawn.max()))}."
    )
    if not judged(own, drawn):
        return Finding("fine", "States are interrupted as the model expects", told)
    return Finding(
        "look",
        "States flicker",
        told,
        "Raise the stickiness, give stays a law of their own, or smooth the signal.",
        "sb.HDPHMM(stickiness=100).fit(X)\nsb.HDPHSMM().fit(X)",
    )


def check_stays(subject: Subject) -> Finding | None:
    """Mean stays of states, against sequences drawn from the model and decoded alike."""
    if subject.replica is None or not subject.replica.paths or not len(subject.replicas):
        return None
    K = len(subject.weights)
    drawn = np.array([_log_stays(r, K) for r in subject.replicas])
    own = _log_stays(subject.replica, K)
    if not np.isfinite(own).any():
        return None
    known = np.isfinite(drawn).sum(0) >= 10
    if not known.any():
        return None
    center = np.nanmean(np.where(known, drawn, 0.0), axis=0)
    spread = np.nanstd(np.where(known, drawn, 0.0), axis=0) + 1e-9
    off = np.where(known & np.isfinite(own), np.abs(own - center) / spread, 0.0)
    largest = np.nanmax(np.where(known & np.isfinite(drawn), np.abs(drawn - center) / spread, 0), 1)
    worst = int(np.argmax(off))
    told = (
        f"State {subject.name(worst)} lasts {number(float(np.exp(own[worst])))} rows on average, "
        f"and {number(float(np.exp(center[worst])))} in sequences drawn from the model."
    )
    if not judged(float(off.max()), largest):
        return Finding("fine", "Stays last as long as the model says", told)
    return Finding(
        "look",
        "Stays do not last as long as the model says",
        told,
        "Geometric stays may be wrong: try a model with a law of durations.",
        "sb.HDPHSMM().fit(X)",
    )


def _log_stays(replica: Replica, n_states: int) -> Array:
    """(K,) log of the mean length of stays; NaN with fewer than five of them."""
    pairs = [stays_of(path) for path in replica.paths]
    states, lengths = (np.concatenate(part) for part in zip(*pairs, strict=True))
    n = np.bincount(states, minlength=n_states)
    total = np.bincount(states, lengths, minlength=n_states)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(n >= 5, np.log(total / n), np.nan)


def check_single_stays(subject: Subject) -> Finding | None:
    """States that are entered once, against sequences drawn from the model."""
    if subject.replica is None or not subject.replica.paths or not len(subject.replicas):
        return None
    own, drawn = _single(subject.replica), np.array([len(_single(r)) for r in subject.replicas])
    told = f"{len(own)} {plural('state', len(own))} of {len(subject.used)} "
    told += f"{'has' if len(own) == 1 else 'have'} a single stay; "
    told += f"{number(float(drawn.mean()), 2)} in sequences drawn from the model, at most "
    told += f"{drawn.max()}."
    if not judged(len(own), drawn):
        return Finding("fine", "States come back", told)
    named = ", ".join(subject.name(k) for k in own[:8])
    return Finding(
        "look",
        "States that never come back",
        f"{told} They are {named}.",
        "A state that is entered once may be a drift or a fault of the recording: look at these "
        "rows, or give the model fewer states.",
    )


def _single(replica: Replica) -> list[int]:
    """States with one stay in all sequences together."""
    return _once([stays_of(path)[0] for path in replica.paths])


def check_lone_states(subject: Subject) -> Finding | None:
    """States that only one sequence has, against sequences drawn from the model."""
    if subject.replica is None or len(subject.replica.paths) < 2 or not len(subject.replicas):
        return None
    own, drawn = _lone(subject.replica), np.array([len(_lone(r)) for r in subject.replicas])
    told = f"{len(own)} {plural('state', len(own))} of {len(subject.used)} "
    told += f"{'is' if len(own) == 1 else 'are'} in one sequence only; "
    told += f"{number(float(drawn.mean()), 2)} in sequences drawn from the model, at most "
    told += f"{drawn.max()}."
    if not judged(len(own), drawn):
        return Finding("fine", "Sequences share their states", told)
    named = ", ".join(subject.name(k) for k in own[:8])
    return Finding(
        "look",
        "States of one sequence only",
        f"{told} They are {named}.",
        "Such states describe a recording rather than what recordings have in common: look for "
        "shifts or scales of single sequences.",
        "X = [(x - x.mean(0)) / x.std(0) for x in X]",
    )


def _lone(replica: Replica) -> list[int]:
    """States that one sequence alone has."""
    return _once([np.unique(path) for path in replica.paths])


def _once(parts: Sequence[Array]) -> list[int]:
    """States that all parts together name once."""
    states, n = np.unique(np.concatenate(parts), return_counts=True)
    return [int(k) for k in states[n == 1]]
