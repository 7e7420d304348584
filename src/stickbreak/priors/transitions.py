"""Rows of a chain: the start row and the transition rows. Shared base, and the finite prior."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from stickbreak.parameters import MOST, require_prior_count
from stickbreak.protocols import Array, Counts, Rule
from stickbreak.stats import Field, Fields, Summary

from .base import BasePrior
from .dirichlet import ROWS

__all__ = ["DirichletRows", "RowCounts", "RowPseudo", "require_stickiness", "stationary"]

# Added to every transition, so that reducible and absorbing chains have a stationary distribution.
SMOOTHING = 1e-8
# Part of the steps to other states that `loosened` shares out.
LOOSE = 0.5


class RowPseudo(NamedTuple):
    """Prior counts: start (K,), transition (K, K) from row to column.

    start_rest, transition_rest : unused mass of each row; None if there is none
    """

    start: Array
    transition: Array
    start_rest: float | None = None
    transition_rest: Array | None = None


def require_stickiness(value: Any) -> None:
    """Raise ValueError unless the stickiness is a finite number of at least zero."""
    if not (isinstance(value, Real) and 0 <= float(value) < math.inf):
        raise ValueError(f"stickiness must be zero or a positive number; got {value!r}")


class RowCounts(BasePrior):
    """start (K,): units that begin in each state; transition (K, K): steps from row to column.

    Nothing else is stored, unless a subclass says so.
    """

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""
        return {"start": Field((axis,), per="unit"), "transition": Field((axis, axis), per="pair")}

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        return {
            "start": np.zeros(n_components),
            "transition": np.zeros((n_components, n_components)),
        }

    def pseudo(self, params: Fields, n_components: int) -> RowPseudo:
        """Prior counts of every row."""
        raise NotImplementedError

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> dict[str, Any]:
        """Log potentials start (K,) and transition (K, K).

        With unused mass, rows sum to less than one.
        """
        log_of, prior = rule.pick(ROWS), self.pseudo(params, len(counts["start"]))
        return {
            "start": log_of(counts["start"], prior.start, prior.start_rest),
            "transition": log_of(counts["transition"], prior.transition, prior.transition_rest),
        }

    def predictive(self, counts: Counts, params: Fields) -> dict[str, Any]:
        """Logs of expected rows, renormalized over the states in use."""
        prior = self.pseudo(params, len(counts["start"]))
        return {
            name: ROWS.log_mean(counts[name], getattr(prior, name))
            for name in ("start", "transition")
        }

    def window_tables(self, counts: Counts, params: Fields) -> dict[str, Any]:
        """window_start (K,): log stationary distribution of a chain with the expected rows."""
        return {
            "window_start": np.log(
                stationary(np.exp(self.predictive(counts, params)["transition"]))
            )
        }

    def row_totals(self, counts: Counts, params: Fields) -> Array:
        """(K,) counts and prior counts of all steps from each state."""
        prior = self.pseudo(params, len(counts["start"]))
        rest = 0.0 if prior.transition_rest is None else prior.transition_rest
        return np.asarray(counts["transition"].sum(1) + prior.transition.sum(1) + rest)

    def log_rise(self, total: Counts, params: Fields) -> float:
        """Log-partitions of the rows' posteriors minus those of their priors.

        Only for rows without unused mass.
        """
        prior = self.pseudo(params, len(total["start"]))
        return sum(
            float(ROWS.log_rise(total[name], getattr(prior, name)).sum())
            for name in ("start", "transition")
        )

    def sizes(self, counts: Counts) -> Array:
        """(K,) expected rows of each state: starts plus steps into it."""
        return np.asarray(counts["start"] + counts["transition"].sum(0))

    def loosened(self, counts: Summary, params: Fields) -> Summary:
        """Counts with half of the steps to other states as if all states were left alike.

        A step that is hardly counted has a very small expected log under a sparse prior, and no
        path takes it again: where states have changed, paths take detours. Impossible steps stay
        so.
        """
        steps = np.array(counts["transition"], dtype=float)
        leaving = steps - np.diag(np.diagonal(steps))
        if not leaving.sum() > 0:
            return counts
        alike = np.outer(leaving.sum(1), leaving.sum(0)) / leaving.sum()
        alike[self.pseudo(params, len(steps)).transition <= 0] = 0.0
        np.fill_diagonal(alike, 0.0)
        steps += LOOSE * (alike - leaving)
        return replace(counts, arrays={**counts.arrays, "transition": steps})

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) shares of all rows seen, with the prior counts of one start row added.

        This is the share of time spent, not the stationary distribution, which is meaningless for
        left-to-right chains.
        """
        prior = self.pseudo(params, len(counts["start"]))
        held = self.sizes(counts) + prior.start
        return np.asarray(held / (held.sum() + (prior.start_rest or 0.0)))


def stationary(transition: Array) -> Array:
    """(K,) stationary distribution of rows (K, K) that sum to one.

    A little of every state is mixed into each row, which makes the solution unique. It solves
    share (I - transition + 1 1') = 1'.
    """
    K = len(transition)
    rows = (transition + SMOOTHING) / (1.0 + K * SMOOTHING)
    share = np.maximum(np.linalg.solve((np.eye(K) - rows + 1.0).T, np.ones(K)), SMOOTHING**2)
    return np.asarray(share / share.sum())


@dataclass(frozen=True, eq=False)
class DirichletRows(RowCounts):
    """The prior of a finite hidden Markov model: an independent Dirichlet for each row.

    concentration, start_concentration : prior count of each entry of a transition row, and of the
        start row. Near zero the modes (EM) are maximum likelihood.
    stickiness : extra prior count of staying
    start_prior (K,), transition_prior (K, K) : prior counts of each entry, in place of the numbers
        above; zero marks an impossible entry. Under EM they correspond to hmmlearn's
        `startprob_prior` and `transmat_prior` minus one. They give each state an identity, so
        states can no longer be merged, born or deleted.
    """

    concentration: float = 0.5
    start_concentration: float = 0.5
    stickiness: float = 0.0
    start_prior: Any = None
    transition_prior: Any = None

    def __post_init__(self) -> None:
        require_prior_count(
            concentration=self.concentration, start_concentration=self.start_concentration
        )
        require_stickiness(self.stickiness)
        if self.transition_prior is not None and self.stickiness:
            raise ValueError(
                f"stickiness={self.stickiness!r} is not used with transition_prior; "
                "add it to its diagonal"
            )
        for name, n_axes in (("start_prior", 1), ("transition_prior", 2)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _checked_table(name, getattr(self, name), n_axes))
        first, rows = self.start_prior, self.transition_prior
        if first is not None and rows is not None and len(first) != len(rows):
            raise ValueError(
                f"start_prior is for {len(first)} states, transition_prior for "
                f"{len(rows)}; give both for as many"
            )

    @property
    def n_states(self) -> int | None:
        """Number of states of the given tables; None if there are none and any number will do."""
        given = [table for table in (self.start_prior, self.transition_prior) if table is not None]
        return len(given[0]) if given else None

    def pseudo(self, params: Fields, n_components: int) -> RowPseudo:
        """Prior counts start (K,) and transition (K, K)."""
        if self.n_states not in (None, n_components):
            raise ValueError(
                f"start_prior and transition_prior are for {self.n_states} states, but there are "
                f"{n_components}; "
                "fit that many, and without moves, or give one number for all entries "
                "(concentration, start_concentration)"
            )
        first, rows = self.start_prior, self.transition_prior
        if first is None:
            first = np.full(n_components, float(self.start_concentration))
        if rows is None:
            rows = np.full(
                (n_components, n_components), float(self.concentration)
            ) + self.stickiness * np.eye(n_components)
        return RowPseudo(first, rows)

    def at_least(self, count: float) -> DirichletRows:
        """The same rows with no prior count below the given one, but for impossible entries."""
        raised: dict[str, Any] = {}
        for name in ("concentration", "start_concentration"):
            raised[name] = max(getattr(self, name), count)
        for name in ("start_prior", "transition_prior"):
            table = getattr(self, name)
            if table is not None:
                raised[name] = np.where(table > 0, np.maximum(table, count), 0.0)
        is_same = all(np.array_equal(getattr(self, name), new) for name, new in raised.items())
        return self if is_same else replace(self, **raised)

    def bound(self, total: Summary, params: Fields) -> float:
        """Log-partitions of the rows' posteriors minus those of their priors."""
        return self.log_rise(total, params)

    def log_mode(self, total: Summary, params: Fields) -> float:
        """Sum (count + pseudo) log probability at the mode."""
        prior = self.pseudo(params, len(total["start"]))
        return float(
            ROWS.log_best(total["start"], prior.start)
            + ROWS.log_best(total["transition"], prior.transition).sum()
        )


def _checked_table(name: str, given: Any, n_axes: int) -> Array:
    """The user's table, checked: square, nonnegative, at least one possible entry in every row."""
    table = np.array(given, dtype=float)
    shape = "(K,)" if n_axes == 1 else "(K, K)"
    if table.ndim != n_axes or len(set(table.shape)) != 1 or table.size == 0:
        raise ValueError(f"{name} must have shape {shape}; got {table.shape}")
    if not np.isfinite(table).all() or (table < 0).any():
        at = tuple(int(i) for i in np.argwhere(~(np.isfinite(table) & (table >= 0)))[0])
        raise ValueError(
            f"{name} must hold numbers of at least zero; entry "
            f"{at if n_axes > 1 else at[0]} is {table[at]}"
        )
    if table.max() > MOST:
        raise ValueError(
            f"{name} must hold numbers of at most {MOST:g}; the largest is {table.max():g}"
        )
    if not table.any(-1).all():
        row = "" if n_axes == 1 else f" in row {int(np.flatnonzero(~table.any(-1))[0])}"
        raise ValueError(f"{name} leaves nothing possible{row}: give at least one entry above zero")
    table.flags.writeable = False
    return table
