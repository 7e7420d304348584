"""Checks of a fitted model, registered by structure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import singledispatch
from typing import Any

import numpy as np

from stickbreak.protocols import Array
from stickbreak.structures import Group

from .drawing import number, percent, plural
from .findings import Finding, judged
from .profiles import columns_to_check, has_spread, variance_of
from .replicas import Replica, largest_gap
from .subject import Subject

__all__ = [
    "OF_ALL", "Check", "check_columns", "check_few_rows", "check_outliers", "checks_of", "find_all",
]  # fmt: skip

Check = Callable[[Subject], Finding | None]
NEARLY = 3.0  # nats: a Bayes factor of 20


def find_all(subject: Subject) -> list[Finding]:
    """The findings of all checks of the model's structure that can be made."""
    found = [check(subject) for check in checks_of(subject.structure)]
    return [finding for finding in found if finding is not None]


@singledispatch
def checks_of(structure: Any) -> tuple[Check, ...]:
    """Checks of all models; a structure with more of them registers a longer tuple."""
    return OF_ALL


checks_of.register(Group)(checks_of.dispatch(object))  # those of documents are of their words


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
        for r in subject.trace.judged
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


def check_starts(subject: Subject) -> Finding | None:
    """Whether starts of the fit ended alike."""
    starts = sorted(subject.starts, reverse=True)
    if len(starts) < 2:
        if not len(subject.trace):
            return None
        told = "The fit had one start: whether another one ends alike is not known."
        return Finding("remark", "One start only", told, "", "model.set_params(n_init=5).fit(X)")
    gap = starts[0][0] - starts[1][0]
    told = f"The best two of {len(starts)} starts are {number(gap)} nats apart, with "
    told += f"{starts[0][1]} and {starts[1][1]} {subject.several}."
    if gap < NEARLY and starts[0][1] == starts[1][1]:
        return Finding("fine", "The best starts agree", told)
    return Finding(
        "look",
        "The best starts disagree",
        told,
        "More starts may find a better model; trust what all good ones have in common.",
        f"model.set_params(n_init={4 * len(starts)}).fit(X)",
    )


OF_ALL: tuple[Check, ...] = (check_convergence, check_starts, check_near_moves)


def check_few_rows(subject: Subject) -> Finding | None:
    """Components with no more rows than columns: a matter of fact, so a remark."""
    limit = len(subject.columns) + 1
    few = [int(k) for k in subject.used if subject.counts[k] < limit]
    if not few or "mean" not in subject.posterior or len(few) == len(subject.used):
        return None
    named = ", ".join(subject.name(k) for k in few[:8]) + (", ..." if len(few) > 8 else "")
    one = len(few) == 1
    return Finding(
        "remark",
        f"{len(few)} small {subject.noun if one else subject.several}",
        f"{named}: fewer than {limit} {subject.unit}s, one more than there are columns. The spread "
        "of so few is mostly that of the prior.",
    )


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
    chosen = columns_to_check(subject, replica.rows.shape[1])
    D = len(chosen)
    tables = [_aspects(subject, r, chosen) for r in drawn]
    mine = _aspects(subject, replica, chosen)
    pools = [np.concatenate([t[:, d] for t in tables]) for d in range(mine.shape[1])]
    pools = [np.sort(pool[np.isfinite(pool)]) for pool in pools]
    own = np.array([largest_gap(mine[:, d], pool) for d, pool in enumerate(pools)])
    others = np.array(
        [[largest_gap(t[:, d], pool) for d, pool in enumerate(pools)] for t in tables]
    )
    largest = others.max(1)  # over the columns, as is asked of the data
    order = np.argsort(-own)
    bad = list(dict.fromkeys(int(d) % D for d in order if judged(own[d], largest)))
    worst = int(order[0])
    inside = f" within {subject.several}" if worst >= D else ""
    told = (
        f"The distribution of {subject.columns[chosen[worst % D]]}{inside} is off by "
        f"{percent(own[worst])} at most (Kolmogorov-Smirnov); that of draws by "
        f"{percent(float(largest.mean()))} on average, "
        f"{percent(float(largest.max()))} at most."
    )
    if not bad:
        return Finding("fine", "Columns are distributed as the model says", told)
    named = ", ".join(str(subject.columns[chosen[d]]) for d in bad[:5])
    return Finding(
        "look",
        f"{len(bad)} of {D} {plural('column', D)} {'does' if len(bad) == 1 else 'do'} not fit",
        f"{told} Most off: {named}.",
        "Try a transformation (a logarithm for a long tail) or another family for these.",
    )


def _aspects(subject: Subject, replica: Replica, chosen: Array) -> Array:
    """(n, D or 2 D) rows, and for families with means their distances from the component's mean,
    in its standard deviations: what is skewed inside a component may look well over all.
    """
    rows, posterior = np.asarray(replica.rows), subject.posterior
    mean = posterior.get("mean")
    if mean is None or mean.shape[1:] != rows.shape[1:] or not has_spread(posterior):
        return np.asarray(rows[:, chosen])
    rows, mean = rows[:, chosen], mean[:, chosen]
    spread = np.sqrt(variance_of(posterior)[:, chosen])[replica.labels]
    return np.concatenate([rows, (rows - mean[replica.labels]) / spread], axis=1)
