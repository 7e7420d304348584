"""What families share: names, checks of hyperparameters, and defaults of the protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from stickbreak.data import Scale
from stickbreak.parameters import Parameters, require_positive, require_prior_count
from stickbreak.protocols import Array, Counts, Out
from stickbreak.stats import Edit, Field, Shares

from .missing import find_missing

__all__ = [
    "LOG_2PI", "BaseFamily", "BaseScores", "require_positive", "require_prior_count",
]  # fmt: skip

LOG_2PI = math.log(2.0 * math.pi)


class BaseScores:
    """A family's potentials under one rule. Made once a step, used for every block; picklable.

    A family must say `evidence`, `collect` and `pair`.
    """

    def evidence(self, rows: Any) -> Array:
        """(n, K) log evidence of prepared rows, constants of the data included.

        Its transpose is C-contiguous.
        """
        raise NotImplementedError

    def collect(self, rows: Any, shares: Shares, out: Out) -> None:
        """Add the statistics of rows weighted by shares (n, K), an array or sparse, to `out`."""
        raise NotImplementedError

    def pair(self, counts: Counts) -> float:
        """<potentials, counts>; NaN for rules without a bound."""
        raise NotImplementedError

    def rough(self, rows: Any) -> Array:
        """(n, K) evidence up to a constant of each row, to preselect components by.

        May be in single precision. Its transpose is C-contiguous.
        """
        return self.evidence(rows)

    def evidence_at(self, rows: Any, index: Array) -> Array:
        """(n, M) evidence of the components index (n, M); -inf where the index is -1."""
        found = np.take_along_axis(self.evidence(rows), np.maximum(index, 0), axis=1)
        return np.where(index >= 0, found, -np.inf)

    @property
    def symbol_table(self) -> tuple[Array, Array] | None:
        """Evidence of symbols as a table, for families whose rows are one symbol; else None.

        exp(log_table - top) (V, width), zero beyond K, width a multiple of eight; and top (V,), the
        largest of each symbol.
        """
        return None

    @property
    def likely_components(self) -> tuple[Array, Array] | None:
        """(V, T) few components under which symbols are most probable, and their linear evidence.

        That of `symbol_table`.
        """
        return None

    @property
    def cell_table(self) -> tuple[Array, Array, Callable[..., Any]] | None:
        """Evidence of pairs of words, for families that list those that occur; else None.

        Logs of the cells (C,), of what is no cell (K,), and how to look up the cells of links, see
        `Lexicon.link`.
        """
        return None


class BaseFamily(Parameters):
    """A likelihood with its conjugate prior; it holds hyperparameters only.

    A family must define how rows are read (`n_columns`, `resolve`, `prepare`), what is counted
    (`fields`, `zeros`), its marginal and modes (`log_marginal`, `log_mode`), its potentials
    (`mean_log`, `log_mean`, `mode`), what starts need (`smoothed_mean`, `bregman`, `divergence`)
    and `describe`. All else has a default.

    Three laws test any family. The derivative of log_marginal along a row's statistic is that row's
    mean_log evidence; its difference is the log_mean evidence; the derivative of log_mode is the
    mode evidence. (For a row with a completed missing part: the evidence is the log of the integral
    over it of exp(evidence), the statistic is what its factor expects.)

    Families with `draw` obey two more: over many draws, the average of the evidence is that of
    mean_log; the log of the average of its exponential, one row at a time, is that of log_mean.
    """

    # ------------------------------------------------------------------------------ declared

    sparse = False
    """Whether rows may be a CSR matrix."""

    missing: ClassVar[Literal["refused", "rows", "exact", "completed", "mixed"]] = "refused"
    """What NaN means: an error; a row that does not count; an entry that does not count; an entry
    with a factor of its own; what the member that reads the column says."""

    draws: ClassVar[bool] = False
    """Whether parameters can be drawn from their posterior: `draw`."""

    learned: ClassVar[tuple[str, ...]] = ()
    """Arguments that `learn` changes."""

    max_categories = 0
    """Categories (strings, booleans) that a column of a data frame may have; 0 for numbers only."""

    names_components = False
    """Whether a category is a component, so that there are as many of both."""

    missing_category = np.nan
    """Stands for a missing category; the others are numbered 0, 1, 2, ..."""

    measure = "densities"
    """What log evidence is the logarithm of: bounds of families compare if it is the same."""

    @property
    def lags(self) -> int:
        """Rows of the past that a row carries as context; models of sequences make such rows."""
        return 0

    @property
    def n_named(self) -> int | None:
        """Number of components, where the data name them; None for any number."""
        return None

    @property
    def n_columns(self) -> int:
        """Columns of a row, once resolved."""
        raise NotImplementedError

    @property
    def can_learn(self) -> bool:
        """Whether `learn` may change the prior."""
        return bool(self.learned)

    # ------------------------------------------------------------------------------ reading rows

    def locate(self, names: Sequence[str] | None, n_columns: int) -> Self:
        """The same family with columns given by name found among `names` (None: no names)."""
        return self

    def readers(self, n_columns: int) -> Sequence[BaseFamily]:
        """The family that reads each column; itself unless it is made of several."""
        return (self,) * n_columns

    def resolve(self, scale: Scale) -> Self:
        """The same family with every open prior set from the data's scale."""
        raise NotImplementedError

    def prepare(self, rows: Any) -> Any:
        """Rows of the user in the form that Scores read (features, symbols); made once a block."""
        raise NotImplementedError

    def prepare_seeding(self, rows: Any) -> Any:
        """The part of `prepare` that `divergence` reads."""
        return self.prepare(rows)

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Raise ValueError for rows that the family cannot read; first: number of the first row."""

    def has_values(self, rows: Any) -> Array:
        """(n,) whether a row has any entry; one without says nothing and starts no component."""
        missing = find_missing(rows)
        if missing is None:
            return np.ones(rows.shape[0], dtype=bool)
        return np.asarray(~missing.all(axis=1))

    def width(self) -> int:
        """Numbers of a prepared row, which bound the size of a block."""
        return self.n_columns

    # ------------------------------------------------------------------------------ mathematics

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""
        raise NotImplementedError

    def zeros(self, n_components: int) -> Out:
        """Counts of nothing."""
        raise NotImplementedError

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) log-partition of the posterior minus that of the prior, constants included."""
        raise NotImplementedError

    def log_mode(self, counts: Counts) -> Array:
        """(K,) largest log joint density over the natural parameters, up to a prior constant."""
        raise NotImplementedError

    def mean_log(self, counts: Counts) -> BaseScores:
        """Expected log likelihood: variational Bayes."""
        raise NotImplementedError

    def log_mean(self, counts: Counts) -> BaseScores:
        """Posterior predictive: collapsed inference and held-out scores."""
        raise NotImplementedError

    def mode(self, counts: Counts) -> BaseScores:
        """Log likelihood at the mode in natural coordinates: EM."""
        raise NotImplementedError

    def draw(self, counts: Counts, rng: np.random.Generator) -> BaseScores:
        """Log likelihood at drawn parameters: Gibbs. `collect` counts rows as they are."""
        raise ValueError(
            f"{type(self).__name__} has no method `draw(counts, rng)`, which Gibbs needs; use a "
            "variational engine"
        )

    def refine(self, counts: Counts) -> Edit | None:
        """Edit that keeps the statistics accurate (a new reference point); None: they are."""
        return None

    # ------------------------------------------------------------------------------ starts, moves

    def coarse(self) -> BaseFamily:
        """Family of fewer parameters in the same units, for starts; itself where there is none."""
        return self

    def misfit(self, rows: Any, shares: Array, followed: Array | None = None) -> Array | None:
        """(K,) how far the rows of each component are from what the family expects, as |z|.

        Births are tried where it is large. None if the family cannot tell.

        rows, shares (n, K) : of the user, and their posterior, repeats included
        followed (m,) : rows whose successor is the next row; None if rows have no order
        """
        return None

    def grouped(self, smoothing: float) -> BaseFamily | None:
        """Family of the sums of a unit's rows (counts of symbols); None where sums say little.

        smoothing : smallest prior count of an entry
        """
        return None

    def from_grouped(self, counts: Counts) -> tuple[Out, Array]:
        """Own counts of what `grouped` counted, and the rows (K,) that they are of."""
        raise NotImplementedError

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """Mean parameters (S + tau) / (N + nu), strictly inside the mean space, slot by slot."""
        raise NotImplementedError

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) divergence of mean parameters: KL from each of `first` to each of `second`."""
        raise NotImplementedError

    def divergence(self, rows: Any, index: int) -> Array:
        """(n,) divergence of each prepared row's smoothed mean from that of row `index`."""
        raise NotImplementedError

    def divergences(self, rows: Any, indices: Array) -> Array:
        """(m, n) `divergence` from each row of `indices` (m,)."""
        return np.stack([self.divergence(rows, int(index)) for index in indices])

    # ------------------------------------------------------------------------------ learned priors

    def learn(self, counts: Counts) -> Self:
        """The family with hyperparameters that raise sum(log_marginal(counts)); itself if none."""
        return self

    def hyperparameters(self) -> dict[str, Array]:
        """What `learn` changes, by name: for checkpoints."""
        return {name: np.array(getattr(self, name), dtype=float) for name in self.learned}

    def with_hyperparameters(self, values: Mapping[str, Array]) -> Self:
        """The same family with these hyperparameters."""
        changed = {
            name: float(value) if value.ndim == 0 else value for name, value in values.items()
        }
        return replace(self, **changed)  # type: ignore[type-var]

    # ------------------------------------------------------------------------------ for readers

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        """One row for each label, drawn from the posterior predictive."""
        raise ValueError(f"{type(self).__name__} has no method `sample`, so no rows can be drawn")

    def impute(self, counts: Counts, rows: Any, shares: Array) -> Any:
        """Rows (n, D) with missing entries as expected, averaged by shares (n, K)."""
        return rows

    def expected_rows(self, counts: Counts, shares: Array) -> Array:
        """(n, D) what to expect of rows of which only the shares (n, K) of their components are
        known.

        A row of missing entries, imputed; where the family refuses those, the average of the
        summary "mean" (K, D) that `describe` gives.
        """
        if self.missing != "refused":
            nothing = np.full((len(shares), self.n_columns), np.nan)
            return np.asarray(self.impute(counts, nothing, shares))
        means = self.describe(counts).get("mean")
        if means is None:
            raise ValueError(
                f"{type(self).__name__} has neither a method `expected_rows(counts, shares)` nor "
                "a summary `mean`, one of which forecasts need"
            )
        return np.asarray(shares @ means)

    def describe(self, counts: Counts) -> Mapping[str, Array]:
        """Posterior summaries in the user's units, component axis first."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------ sweeps

    @property
    def sweeps(self) -> bool:
        """Whether rows can leave and join the counts one by one in compiled code: `live`."""
        return False

    begins_swept: ClassVar[bool] = True
    """Whether starts by default try sweeps, if `sweeps`: their code takes seconds to compile."""

    @property
    def is_one_symbol(self) -> bool:
        """Whether a row is a single symbol, counted in a table."""
        return False

    def can_leave(self, rows: Any) -> bool:
        """Whether each of these rows can leave the counts by its shares alone."""
        return True

    def live(self, counts: Counts) -> Any:
        """Copy of the counts, with the prior, as a NamedTuple that a compiled sweep changes.

        Its kernels are registered by its type, see `kernels/live.py`.
        """
        raise ValueError(f"{type(self).__name__} takes no part in collapsed sweeps; use BatchVB")

    def live_sums(self, counts: Counts) -> Any:
        """The same for counts that rows only join, and that score none."""
        return self.live(counts)

    def live_rows(self, rows: Any) -> Any:
        """Rows of the user in the form that these kernels read."""
        return self.prepare(rows)

    def own_symbols(self, rows: Any, counts: Counts) -> Array | None:
        """Symbols of live rows, if a sweep should copy the counts of these only; None for all."""
        return None

    learns_collapsed: ClassVar[bool] = False
    """Whether `learn` goes with collapsed sweeps: it reads what these count."""

    def absences(self, rows: Any, shares: Array, n_components: int) -> Out:
        """Fields made of the posteriors (n, K) that live rows have after a sweep; mostly none."""
        return {}

    def settle(self, live: Any, n_components: int) -> Out:
        """Fields back from live counts."""
        raise ValueError(f"{type(self).__name__} takes no part in collapsed sweeps; use BatchVB")
