"""The contract of a prior: how components are shared out.

A prior must define what is counted (`fields`, `zeros`, `sizes`), its potentials (`potentials`,
`predictive`), its shares (`mean`) and its part of the bound (`bound`; for EM also `log_mode`). The
defaults are those of a prior whose parameters are all functions of the counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Never

import numpy as np

from stickbreak.protocols import Array, Counts, Out, Rule
from stickbreak.stats import Field, Fields, Summary

if TYPE_CHECKING:
    from .concentration import GammaPrior
    from .shares import ConcentrationPosterior

__all__ = ["BasePrior"]


class BasePrior:
    """Prior over the shares of components, with their counts."""

    draws: ClassVar[bool] = True
    """Whether parameters can be drawn: `for_draws`, `redraw`, and tables with `draw`."""

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""
        raise NotImplementedError

    def zeros(self, n_components: int) -> Out:
        """Counts of nothing."""
        raise NotImplementedError

    def sizes(self, counts: Counts) -> Array:
        """(K,) expected rows of each component."""
        raise NotImplementedError

    def of_sizes(self, sizes: Array) -> Out:
        """Fields that the rows (K,) of each component determine by themselves."""
        return {}

    def start(self, n_components: int, axis: str) -> Fields:
        """Parameters that are not a function of the counts, stored so that merging adds entries."""
        return Fields({}, {})

    def update(self, total: Summary, params: Fields) -> Fields:
        """New parameters; never lowers `bound(total, .)`."""
        return params

    def held(self) -> BasePrior:
        """The same prior for sweeps from random posteriors, which say nothing of prior counts yet.

        By default the prior itself; one that would adapt to them keeps its first ones.
        """
        return self

    def at_least(self, count: float) -> BasePrior:
        """A prior with no smaller count of any possible step, for starts: by default itself."""
        return self

    def loosened(self, counts: Summary, params: Fields) -> Summary:
        """Counts to begin a trial with: by default the given ones.

        Where components depend on each other, habits of those that have changed are weakened.
        """
        return counts

    def order(self, total: Summary) -> Array | None:
        """Order of components with the largest bound; None if it does not matter."""
        return None

    # ------------------------------------------------------------------------------ potentials

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> Mapping[str, Any]:
        """Log potentials by name. One named like a field is paired with that field in the bound."""
        raise NotImplementedError

    def predictive(self, counts: Counts, params: Fields) -> Mapping[str, Any]:
        """Log potentials at posterior means, for held-out scores. Unused mass is renormalized."""
        raise NotImplementedError

    def window_tables(self, counts: Counts, params: Fields) -> Mapping[str, Any]:
        """Additional potentials for windows of long sequences: window_start (K,), in logs."""
        raise ValueError(
            f"{type(self).__name__} has no windows: SubchainVB is for hidden Markov models; use "
            "StochasticVB"
        )

    def row_totals(self, counts: Counts, params: Fields) -> Array:
        """(K,) counts and prior counts of all steps from each component."""
        self._refuse("steps")

    def pseudo(self, params: Fields, n_components: int) -> Any:
        """Prior counts of each table, unused mass kept separate. Compiled sweeps need them."""
        self._refuse("prior counts")

    @property
    def sweeps(self) -> bool:
        """Whether compiled sweeps know this prior: `pseudo`."""
        return type(self).pseudo is not BasePrior.pseudo

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) expected share of each component; unused mass is what they lack to one."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------ bounds

    def bound(self, total: Summary, params: Fields) -> float:
        """The prior's part of the bound, tables at their optimum given params."""
        raise NotImplementedError

    def log_mode(self, total: Summary, params: Fields) -> float:
        """The prior's part of EM's objective."""
        raise ValueError(f"EM is not for {type(self).__name__}; use BatchVB or another engine")

    # ------------------------------------------------------------------------------ variants

    def for_draws(self) -> BasePrior:
        """The prior that Gibbs uses: this one, or one with parameters that can be drawn."""
        return self

    def redraw(self, total: Summary, params: Fields, rng: np.random.Generator) -> Fields:
        """Stored parameters, drawn given the counts of a labeling and the present parameters."""
        return params

    def for_modes(self) -> BasePrior:
        """The prior that EM uses."""
        return self

    # ------------------------------------------------------------------------------ for readers

    def concentration_posterior(self, counts: Counts) -> ConcentrationPosterior:
        """Posterior of the concentration of the shares."""
        self._refuse("posterior of its concentration")

    def concentration_at(self, params: Fields) -> float:
        """Concentration of the groups below a root: the given value, or the one learned so far."""
        self._refuse("concentration of groups")

    def concentrations(self, params: Fields) -> Any:
        """Concentrations of a chain's tables, and stickiness: given, or learned so far."""
        self._refuse("concentrations of tables")

    def top(self, counts: Summary, params: Fields) -> float | GammaPrior:
        """Concentration of the root: the given value, or its posterior if it is learned."""
        self._refuse("root")

    def _refuse(self, what: str) -> Never:
        raise ValueError(f"{type(self).__name__} has no {what}")
