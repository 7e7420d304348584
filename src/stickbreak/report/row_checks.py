"""Checks of mixtures: pairs of components that are one, components of several kinds of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from stickbreak.protocols import Array
from stickbreak.structures import Independent

from .checking import OF_ALL, Check, check_columns, check_few_rows, check_outliers, checks_of
from .drawing import number
from .findings import Finding, judged
from .profiles import columns_to_check, has_spread
from .replicas import Replica, largest_gap
from .subject import Subject

__all__ = ["check_joins", "check_shapes"]

MOST_CHECKED, MOST_AXES = 20, 3  # of the largest components, and of the widest axes of each
LEAST_ROWS = 8  # of a component whose shape says something
CONSTANT = 1e-10  # deviation of a column, relative to its values, that is rounding
TINY = 1e-300  # deviation of draws that are all the same


@checks_of.register(Independent)
def _(structure: Any) -> tuple[Check, ...]:
    of_rows = (check_joins, check_outliers, check_columns, check_shapes)
    return (*OF_ALL, check_few_rows, *of_rows)


def check_joins(subject: Subject) -> Finding | None:
    """Pairs of components that would explain the data better as one."""
    joins = subject.more.get("joins")
    if not joins:
        return None
    gain, i, j = max(joins)
    which = f"{subject.name(i)} and {subject.name(j)}"
    if gain <= 0:
        told = f"Joining {which} would cost {number(-gain)} nats, the least of all pairs."
        return Finding("fine", "No two components are one", told)
    return Finding(
        "look",
        "Two components may be one",
        f"Joining {which} would raise the bound by {number(gain)} nats.",
        "The data do not tell them apart. Fit fewer, or let the fit decide.",
        "sb.DPMixture().fit(X)",
    )


def check_shapes(subject: Subject) -> Finding | None:
    """Components whose rows lie otherwise along its widest axes than its draws do.

    One that takes up two kinds, or rows from far away, makes itself so wide that no row is
    improbable; and its share of all rows may be too small for a column of the table to show it.
    """
    mine, drawn = subject.replica, subject.replicas
    mean = subject.posterior.get("mean")
    if mine is None or mine.rows is None or not len(drawn) or not has_spread(subject.posterior):
        return None
    if mean is None or any(r.rows is None or r.rows.shape[1:] != mean.shape[1:] for r in drawn):
        return None
    axes = _widest_axes(subject, mine)
    tables = [dict(_along_axes(axes, replica)) for replica in (mine, *drawn)]
    own, found = {}, np.zeros(len(drawn))
    for k, values in tables[0].items():
        pools = np.concatenate([table[k] for table in tables[1:] if k in table] or [values[:0]])
        if len(pools) < LEAST_ROWS * len(drawn):
            continue
        pools = np.sort(pools, axis=0)
        own[k] = _distance(values, pools)
        others = [_distance(table[k], pools) if k in table else 0.0 for table in tables[1:]]
        found = np.maximum(found, others)
    if not own:
        return None
    worst = max(own, key=lambda k: own[k])
    told = (
        f"Rows and draws differ most in {subject.noun} {subject.name(worst)}: the largest "
        f"Kolmogorov-Smirnov distance along its axes, times the root of its number of rows, is "
        f"{number(own[worst], 2)}; in draws of the model {number(float(found.mean()), 2)} on "
        f"average, at most {number(float(found.max()), 2)}."
    )
    if not judged(own[worst], found):
        return Finding("fine", f"Rows of each {subject.noun} lie as its draws do", told)
    return Finding(
        "look",
        f"A {subject.noun} holds rows of several kinds",
        told,
        f"Look at its rows in a scatter; fit more {subject.several}, or let the fit decide.",
        "sb.DPMixture().fit(X)",
    )


def _widest_axes(subject: Subject, replica: Replica) -> dict[int, Array]:
    """The widest axes (D, A) of the largest components, within the columns that tell most.

    A column that is the same in all rows of a component has no shape there, and is left out.
    """
    posterior, rows, found = subject.posterior, np.asarray(replica.rows, dtype=float), {}
    D = rows.shape[1]
    telling = columns_to_check(subject, D)
    for k in subject.used[:MOST_CHECKED].tolist():
        own = rows[np.ix_(replica.labels == k, telling)]
        if len(own) < LEAST_ROWS:
            continue
        chosen = telling[own.std(0) > CONSTANT * np.abs(own).max(0)]
        if not len(chosen):
            continue
        if "covariance" in posterior:
            axes = np.linalg.eigh(posterior["covariance"][k][np.ix_(chosen, chosen)])[1]
        else:
            axes = np.eye(len(chosen))[:, np.argsort(posterior["variance"][k][chosen])]
        found[k] = np.zeros((D, min(MOST_AXES, len(chosen))))
        found[k][chosen] = axes[:, : -MOST_AXES - 1 : -1]
    return found


def _along_axes(axes: Mapping[int, Array], replica: Replica) -> Iterator[tuple[int, Array]]:
    """Components, each with the coordinates (n, A) of its rows along its axes, standardized."""
    for k, own in axes.items():
        along = np.asarray(replica.rows, dtype=float)[replica.labels == k] @ own
        if len(along) >= LEAST_ROWS:
            # a prior makes draws wider than the rows: what counts is the shape
            yield k, (along - along.mean(0)) / np.maximum(along.std(0), TINY)


def _distance(values: Array, pools: Array) -> float:
    """Largest gap over the columns of values (n, A) and sorted draws (m, A), times sqrt(n)."""
    gaps = [largest_gap(values[:, a], pools[:, a]) for a in range(values.shape[1])]
    return float(max(gaps) * np.sqrt(len(values)))
