"""Rows of semi-Markov models: no state follows itself, and a law says how long each one lasts.

    start row ~ Dirichlet,   row j ~ Dirichlet over all states but j,   lengths ~ law of state j

Rows are independent (`DirichletSegments`), or centered on the shares b of one root
(`HDPSegments`, and its weak limit for Gibbs, `WeakLimitSegments`). There row j is
Dirichlet(concentration b_l for l != j), so its prior counts sum to concentration (1 - b_j), which
the slope of the bound in b must respect [J14, 5.4].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stickbreak.parameters import require_whole
from stickbreak.protocols import Array, Counts, Rule
from stickbreak.stats import Field, Fields, Summary, draw_log_dirichlet, draw_tables

from .dirichlet import ROWS
from .durations import (
    BaseDuration,
    CountedLengths,
    CountedStages,
    NegativeBinomial,
    StagedDuration,
    make_duration,
)
from .hdp_transitions import HDPRows, RowFunctions, RowTerm
from .root import SegmentGroups, Term
from .transitions import DirichletRows, RowCounts, RowPseudo
from .weak_limit import WeakLimitRows

__all__ = [
    "DURATION_INFERENCES", "DirichletSegments", "HDPSegments", "WeakLimitSegments",
]  # fmt: skip

DEFAULT_LAW = NegativeBinomial()
DURATION_INFERENCES = ("exact", "embedded", "sampled")


class SegmentCounts(RowCounts):
    """Counts of segments: start and transition as for chains, rows (K,), and lengths.

    duration : law of the lengths
    max_duration : the longest segment, where lengths are counted one by one ("exact")
    duration_inference : "exact", every law; "embedded" or "sampled", by sub-states
    """

    duration: BaseDuration
    max_duration: int | None
    duration_inference: str

    def _check_lengths(self) -> None:
        """Raise ValueError for a law that cannot be inferred as asked for."""
        object.__setattr__(self, "duration", make_duration(self.duration))
        if self.duration_inference not in DURATION_INFERENCES:
            raise ValueError(
                f"duration_inference must be one of {', '.join(DURATION_INFERENCES)}; got "
                f"{self.duration_inference!r}"
            )
        if self.max_duration is not None:
            require_whole(max_duration=self.max_duration)
        if self.duration_inference == "exact":
            return
        if not self.duration.is_staged:
            raise ValueError(
                f"duration_inference={self.duration_inference!r} needs a law of stages "
                f"(NegativeBinomial, Geometric); got {self.duration!r}: use 'exact'"
            )
        if self.max_duration is not None:
            raise ValueError(
                f"max_duration={self.max_duration} is for duration_inference='exact'; sub-states "
                "have no longest segment"
            )

    @property
    def lengths(self) -> CountedLengths | CountedStages:
        """What is counted of lengths, and how it becomes potentials."""
        if self.duration_inference != "exact":
            assert isinstance(self.duration, StagedDuration)
            return CountedStages(self.duration)
        if self.max_duration is None:
            raise ValueError("max_duration is not set; estimators take it from the data")
        return CountedLengths(self.duration, int(self.max_duration))

    @property
    def sweeps(self) -> bool:
        """No: compiled sweeps know no lengths."""
        return False

    # ------------------------------------------------------------------------------ counts

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""
        return {**super().fields(axis), "rows": Field((axis,)), **self.lengths.fields(axis)}

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        rows = {"rows": np.zeros(n_components)}
        return {**super().zeros(n_components), **rows, **self.lengths.zeros(n_components)}

    def sizes(self, counts: Counts) -> Array:
        """(K,) expected rows of each state."""
        return np.asarray(counts["rows"])

    def of_sizes(self, sizes: Array) -> dict[str, Array]:
        """The rows."""
        return {"rows": np.asarray(sizes, dtype=float)}

    def pseudo(self, params: Fields, n_components: int) -> RowPseudo:
        """Prior counts of every row: none of a state's own entry."""
        found = super().pseudo(params, n_components)
        rows = np.array(found.transition)
        np.fill_diagonal(rows, 0.0)
        return found._replace(transition=rows)

    # ------------------------------------------------------------------------------ potentials

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> dict[str, Any]:
        """Log potentials start (K,), transition (K, K), and those of the lengths."""
        log_of, prior = rule.pick(ROWS), self.pseudo(params, len(counts["start"]))
        rows = counts["transition"], prior.transition, prior.transition_rest
        return {
            "start": log_of(counts["start"], prior.start, prior.start_rest),
            "transition": self._rows(log_of, *rows),
            **self.lengths.potentials(counts, rule),
        }

    def predictive(self, counts: Counts, params: Fields) -> dict[str, Any]:
        """Logs of expected rows, renormalized over the states in use, and of expected lengths.

        A single state has none to go to, and is never left.
        """
        prior = self.pseudo(params, len(counts["start"]))
        is_alone = len(prior.start) == 1
        return {
            "start": ROWS.log_mean(counts["start"], prior.start),
            "transition": self._rows(ROWS.log_mean, counts["transition"], prior.transition, None),
            **(self.lengths.endless() if is_alone else self.lengths.predictive(counts)),
        }

    @staticmethod
    def _rows(log_of: Any, counts: Array, pseudo: Array, rest: Array | None) -> Array:
        """Log rows; a state that is alone has no other to go to."""
        if len(pseudo) == 1:
            return np.full((1, 1), -np.inf)
        return np.asarray(log_of(counts, pseudo, rest))

    def window_tables(self, counts: Counts, params: Fields) -> dict[str, Any]:
        """Raise ValueError: a window begins in the middle of a segment of unknown age."""
        raise ValueError(
            "SubchainVB is for hidden Markov models: a window begins within a segment of unknown "
            "age; use StochasticVB, or MemoizedVB"
        )

    # ------------------------------------------------------------------------------ bounds

    def bound(self, total: Summary, params: Fields) -> float:
        """The part of the rows, and that of the lengths."""
        return super().bound(total, params) + self.lengths.bound(total)

    def log_mode(self, total: Summary, params: Fields) -> float:
        """The part of the rows, and that of the lengths, at their modes."""
        return super().log_mode(total, params) + self.lengths.log_mode(total)

    def log_rise(self, total: Counts, params: Fields) -> float:
        """Log-partitions of the rows' posteriors minus those of their priors."""
        prior = self.pseudo(params, len(total["start"]))
        first = float(ROWS.log_rise(total["start"], prior.start))
        if len(prior.start) == 1:
            return first
        return first + float(ROWS.log_rise(total["transition"], prior.transition).sum())


@dataclass(frozen=True, eq=False)
class DirichletSegments(SegmentCounts, DirichletRows):
    """The prior of a finite semi-Markov model: an independent Dirichlet for each row.

    concentration, start_concentration, start_prior : as in `DirichletRows`
    transition_prior (K, K) : prior counts with a diagonal of zeros
    stickiness : must be zero: how long a state lasts is a matter of `duration`
    duration, max_duration, duration_inference : see `SegmentCounts`
    """

    duration: BaseDuration = DEFAULT_LAW
    max_duration: int | None = None
    duration_inference: str = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stickiness:
            raise ValueError(
                f"stickiness={self.stickiness!r} is for hidden Markov models; how long a state "
                "lasts is a matter of duration"
            )
        rows = self.transition_prior
        if rows is not None and np.diagonal(rows).any():
            at = int(np.flatnonzero(np.diagonal(rows))[0])
            raise ValueError(
                f"transition_prior has a self-transition: entry ({at}, {at}) is {rows[at, at]:g}; "
                "no state follows itself, so its diagonal must be zero"
            )
        self._check_lengths()


@dataclass(frozen=True)
class _SegmentTerm(RowTerm):
    """Contribution of rows that lack their own entry, as a function of b.

    Row j has theta_l = counts + weight b_l for l != j, and the total counts + weight (1 - b_j).
    """

    @staticmethod
    def of(total: Counts, groups: SegmentGroups, rows: RowFunctions) -> _SegmentTerm:
        """The term of these counts; those of a state that follows itself are left out."""
        K = len(total["start"])
        counts = np.zeros((K + 1, K + 1))
        counts[0, :-1], counts[1:, :-1] = total["start"], total["transition"]
        counts[1:, :-1].flat[:: K + 1] = 0.0
        weight = np.append(groups.start, np.full(K, groups.rows))
        return _SegmentTerm(counts, weight, counts.sum(1), rows)

    def __call__(self, shares: Array) -> Term:
        """Sum over rows of F(theta_l) - F(total).

        The slope at b_j has weight F'(total_j) in the place of the missing entry: without it, the
        own share would seem to be free.
        """
        theta, K = self._theta(shares), len(shares) - 1
        own = np.arange(1, K + 1), np.arange(K)
        safe = theta.copy()
        safe[own] = 1.0
        totals = theta.sum(1)
        slopes, bends = self.rows.slope(safe), self.rows.curvature(safe)
        slopes[own], bends[own] = self.rows.slope(totals[1:]), -self.rows.curvature(totals[1:])
        slope = self.weight @ slopes - self.weight[0] * self.rows.slope(totals[:1])
        return Term(self._value(theta), slope, self.weight**2 @ bends)

    def value(self, shares: Array) -> float:
        """The value alone."""
        return self._value(self._theta(shares))

    def _theta(self, shares: Array) -> Array:
        theta = self.counts + np.outer(self.weight, shares)
        theta[1:, :-1].flat[:: len(shares)] = 0.0  # `rows.value` leaves zeros out
        return theta


@dataclass(frozen=True, eq=False)
class HDPSegments(SegmentCounts, HDPRows):
    """The prior of an HDP semi-Markov model: row j ~ Dirichlet(concentration b_l for l != j).

    concentration, start_concentration, top_concentration, root, precision, at_modes : as in
        `HDPRows`
    stickiness : must be zero: how long a state lasts is a matter of `duration`
    duration, max_duration, duration_inference : see `SegmentCounts`
    """

    duration: BaseDuration = DEFAULT_LAW
    max_duration: int | None = None
    duration_inference: str = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stickiness != 0:
            raise ValueError(
                f"stickiness={self.stickiness!r} is for hidden Markov models; how long a state "
                "lasts is a matter of duration"
            )
        self._check_lengths()

    def for_draws(self) -> WeakLimitSegments:
        """The weak limit, for Gibbs: the present number of states, and a root that can be drawn."""
        rows = super().for_draws()
        names = ("concentration", "start_concentration", "top_concentration", "root")
        return WeakLimitSegments(
            **{name: getattr(rows, name) for name in names},
            duration=self.duration,
            max_duration=self.max_duration,
            duration_inference=self.duration_inference,
        )

    def _groups(self, params: Fields) -> SegmentGroups:
        numbers = self.concentrations(params)
        return SegmentGroups(numbers.start, numbers.rows)

    def _row_term(self, total: Counts, params: Fields, rows: RowFunctions) -> RowTerm:
        return _SegmentTerm.of(total, self._groups(params), rows)


@dataclass(frozen=True, eq=False)
class WeakLimitSegments(SegmentCounts, WeakLimitRows):
    """The prior that Gibbs uses for `HDPSegments`: same numbers, and K root shares.

    The root is drawn given the counts, with the rows integrated out. Of row j with n_j steps that
    leaves Gamma(c (1 - b_j)) / Gamma(c (1 - b_j) + n_j), which is the integral over w in (0, 1) of
    a Beta(c (1 - b_j), n_j) density's kernel. Given w, the own share has the factor w**(-c b_j),
    which a Poisson number of additional tables, of mean -c b_j log w, makes conjugate.
    """

    duration: BaseDuration = DEFAULT_LAW
    max_duration: int | None = None
    duration_inference: str = "exact"

    def __post_init__(self) -> None:
        self._check_lengths()

    def redraw(self, total: Summary, params: Fields, rng: np.random.Generator) -> Fields:
        """A root drawn given the counts, the rows integrated out."""
        K, b = len(total["start"]), self.shares(params)
        prior = self.pseudo(params, K)
        steps = np.array(total["transition"], dtype=float)
        np.fill_diagonal(steps, 0.0)
        asked = draw_tables(steps, np.where(prior.transition > 0, prior.transition, 1.0), rng)
        seen = asked.sum(0) + draw_tables(total["start"], prior.start, rng)
        n, others = steps.sum(1), np.maximum(prior.transition.sum(1), np.finfo(float).tiny)
        left = n > 0
        w = np.ones(K)
        w[left] = rng.beta(others[left], n[left])
        lost = -np.log(np.maximum(w, np.finfo(float).tiny))
        seen = seen + rng.poisson(self.concentration * b * lost)
        root = np.exp(draw_log_dirichlet(seen + self.top_concentration / K, None, rng))
        # A share of exactly 0 would make a state impossible.
        return replace(
            params, arrays={**params.arrays, "root": np.maximum(root, np.finfo(float).tiny)}
        )

    def bound(self, total: Summary, params: Fields) -> float:
        """The prior's part of the log joint: labels given the root, lengths, and the root."""
        rows = WeakLimitRows.bound(self, total, params)
        return rows + self.lengths.log_marginal(total)
