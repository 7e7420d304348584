"""Checks of a fitted model, registered by structure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import singledispatch
from typing import Any

import numpy as np

from stickbreak.protocols import Array
from stickbreak.structures import Chain, Document, Group, Independent, SemiMarkov

from .drawing import number, percent, plural
from .findings import Finding, judged
from .replicas import Replica, stays_of
from .subject import Subject

__all__ = ["checks_of", "find_all"]

Check = Callable[[Subject], Finding | None]
NEARLY = 3.0  # nats: a Bayes factor of 20
SHORT = 2  # rows of a stay that flickers


def find_all(subject: Subject) -> list[Finding]:
    """The findings of all checks of the model's structure that can be made."""
    found = [check(subject) for check in checks_of(subject.structure)]
    return [finding for finding in found if finding is not None]


@singledispatch
def checks_of(structure: Any) -> tuple[Check, ...]:
    """Checks of all models; a structure with more of them registers a longer tuple."""
    return (check_convergence, check_near_moves)


@checks_of.register(Independent)
def _(structure: Any) -> tuple[Check, ...]:
    return (check_convergence, check_near_moves, check_outliers, check_columns)


@checks_of.register(Chain)
@checks_of.register(SemiMarkov)
def _(structure: Any) -> tuple[Check, ...]:
    more = (check_flicker, check_stays, check_columns)
    return (check_convergence, check_near_moves, check_outliers, *more)


checks_of.register(Group)(checks_of.dispatch(object))  # those of documents are of their words


@checks_of.register(Document)
def _(structure: Any) -> tuple[Check, ...]:
    return (check_convergence, check_near_moves, check_twins)


def check_convergence(subject: Subject) -> Finding | None:
    """Whether the bound settled."""
    n = len(subject.trace)
    if n == 0:
        text = "the model was updated by partial_fit, which has no laps"
        return Finding("remark", "Convergence is not known", text + ".")
    told = f"{n} {plural('lap', n)}"
    if subject.is_converged:
        return Finding("fine", "The fit settled", f"It settled after {told}.")
    return Finding(
        "look",
        "The fit has not settled",
        f"It was stopped after {told}.",
        "Fit longer before reading much into small components.",
        f"model.set_params(max_iter={max(2 * n, 100)}, warm_start=True).fit(X)",
    )


def check_near_moves(subject: Subject) -> Finding | None:
    """Refused merges and deletes that cost so little that K is not certain."""
    last = {
        frozenset(r.parents[: 2 if r.kind == "merge" else 1]): r
        for r in subject.trace.moves
        if not r.is_accepted and r.kind in ("merge", "delete") and np.isfinite(r.gain)
    }
    place = {int(i): k for k, i in enumerate(subject.ids)}
    now = [(r, parts) for parts, r in last.items() if all(int(i) in place for i in parts)]
    if not now:
        return None
    close = [(r, parts) for r, parts in now if -NEARLY < r.gain <= 0]
    cheapest = min(now, key=lambda item: -item[0].gain)
    told = _refusal(subject, *cheapest, place)
    if not close:
        return Finding("fine", "The number of components is clear", f"{told}.")
    return Finding(
        "look",
        "One component fewer explains the data nearly as well",
        f"{told}; {len(close)} such {plural('change', len(close))} would cost less than "
        f"{NEARLY:.0f} nats.",
        "Do not rely on the difference between these.",
    )


def _refusal(subject: Subject, record: Any, parts: Iterable[int], place: dict[int, int]) -> str:
    which = " and ".join(subject.name(place[int(i)]) for i in sorted(parts))
    verb = "Joining" if record.kind == "merge" else "Removing"
    return f"{verb} {which} would cost {number(-record.gain)} nats"


def check_outliers(subject: Subject) -> Finding | None:
    """Rows less probable than the model's own draws are."""
    if subject.replica is None or not len(subject.replicas):
        return None
    pool = np.sort(np.concatenate([r.scores[np.isfinite(r.scores)] for r in subject.replicas]))
    if not len(pool):
        return None
    # so low that a set of draws of this size has one such row on average
    limit = pool[min(len(subject.replicas), len(pool)) - 1]
    count = int((subject.replica.scores < limit).sum())
    drawn = np.array([(r.scores < limit).sum() for r in subject.replicas])
    n = len(subject.replica.scores)
    told = (
        f"{count} of {n:,} {subject.unit}s have a log density below {number(limit)}; draws of the "
        f"model have {number(float(drawn.mean()), 2)} such on average, at most {drawn.max()}."
    )
    if not judged(count, drawn):
        return Finding("fine", "No outliers beyond the model's own", told)
    return Finding(
        "look",
        "Rows that the model does not explain",
        told,
        "Look at the rows explained worst: errors in the data, or a kind that is missing.",
        "scores = model.score_samples(X)\nworst = scores.argsort()[:20]",
    )


def check_columns(subject: Subject) -> Finding | None:
    """Columns whose values are not distributed as the model says."""
    replica, drawn = subject.replica, subject.replicas
    if replica is None or replica.rows is None or not len(drawn):
        return None
    if any(r.rows is None or r.rows.shape[1] != replica.rows.shape[1] for r in drawn):
        return None
    D = replica.rows.shape[1]
    pools = [np.concatenate([r.rows[:, d] for r in drawn if r.rows is not None]) for d in range(D)]
    pools = [np.sort(pool[np.isfinite(pool)]) for pool in pools]
    own = np.array([_distance(replica.rows[:, d], pools[d]) for d in range(D)])
    others = np.array(
        [[_distance(r.rows[:, d], pools[d]) for d in range(D)] for r in drawn if r.rows is not None]
    )
    largest = others.max(1)  # over the columns, as is asked of the data
    bad = [d for d in np.argsort(-own) if judged(own[d], largest)]
    worst = int(np.argmax(own))
    told = (
        f"The distribution of {subject.columns[worst]} is off by {percent(own[worst])} at most "
        f"(Kolmogorov-Smirnov); that of draws by {percent(float(largest.mean()))} on average, "
        f"{percent(float(largest.max()))} at most."
    )
    if not bad:
        return Finding("fine", "Columns are distributed as the model says", told)
    named = ", ".join(str(subject.columns[d]) for d in bad[:5])
    return Finding(
        "look",
        f"{len(bad)} of {D} {plural('column', D)} {'does' if len(bad) == 1 else 'do'} not fit",
        f"{told} Most off: {named}.",
        "Try a transformation (a logarithm for a long tail) or another family for these.",
    )


def _distance(values: Array, pool: Array) -> float:
    """Kolmogorov-Smirnov distance between values and sorted draws."""
    values = np.sort(values[np.isfinite(values)])
    if not len(values) or not len(pool):
        return 0.0
    places = np.unique(values)
    below = np.searchsorted(values, places, "right") / len(values)
    before = np.searchsorted(values, places, "left") / len(values)
    high = np.abs(below - np.searchsorted(pool, places, "right") / len(pool))
    low = np.abs(before - np.searchsorted(pool, places, "left") / len(pool))
    return float(max(high.max(), low.max()))


def _short(replica: Replica) -> float:
    lengths = np.concatenate([stays_of(path)[1] for path in replica.paths])
    return float((lengths <= SHORT).mean())


def check_flicker(subject: Subject) -> Finding | None:
    """Stays of one or two rows, against sequences drawn from the model and decoded alike."""
    if subject.replica is None or not subject.replica.paths or not len(subject.replicas):
        return None
    own, drawn = _short(subject.replica), np.array([_short(r) for r in subject.replicas])
    told = (
        f"{percent(own)} of the stays last one or two rows; {percent(float(drawn.mean()))} in "
        f"sequences drawn from the model, at most {percent(float(drawn.max()))}."
    )
    if not judged(own, drawn):
        return Finding("fine", "Stays are as short as the model expects", told)
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


def check_twins(subject: Subject) -> Finding | None:
    """Pairs of topics that differ no more than two samples of words from one topic."""
    topics = subject.more.get("topic_word")
    used = subject.used[:60]
    if topics is None or len(used) < 2:
        return None
    rng, twins, nearest = np.random.default_rng(0), [], (np.inf, 0, 0)
    for at, i in enumerate(used):
        for j in used[at + 1 :]:
            own = _divergence(topics[i], topics[j])
            nearest = min(nearest, (own, int(i), int(j)))
            if own < 0.2 and _are_twins(subject, int(i), int(j), own, rng):
                twins.append((int(i), int(j)))
    distance, i, j = nearest
    told = (
        f"The most alike are {subject.name(i)} and {subject.name(j)}, with a Jensen-Shannon "
        f"divergence of {number(distance)} nats."
    )
    if not twins:
        return Finding("fine", "No two topics are twins", told)
    named = ", ".join(f"{subject.name(i)} and {subject.name(j)}" for i, j in twins[:5])
    return Finding(
        "look",
        f"{len(twins)} {plural('pair', len(twins))} of topics cannot be told apart",
        f"{told} Words drawn from one topic differ as much as {named}.",
        "Fewer topics, or merges, would say the same.",
    )


def _are_twins(subject: Subject, i: int, j: int, own: float, rng: np.random.Generator) -> bool:
    """Whether topics made of draws from their mean differ as much."""
    topics, counts = subject.more["topic_word"], subject.counts
    sizes = np.maximum(counts[[i, j]].round().astype(int), 1)
    mean = (sizes @ topics[[i, j]]) / sizes.sum()
    prior = subject.more.get("smoothing", 0.01)
    drawn = []
    for _ in range(20):
        pair = [rng.multinomial(n, mean / mean.sum()) + prior for n in sizes]
        drawn.append(_divergence(*(p / p.sum() for p in pair)))
    return own <= max(drawn)


def _divergence(p: Array, q: Array) -> float:
    """Jensen-Shannon divergence in nats."""
    middle = 0.5 * (p + q)
    return float(sum(0.5 * (a * np.log(np.maximum(a, 1e-300) / middle)).sum() for a in (p, q)))
