"""The concentrations of rows below a root, as given or as learned: attributes of estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stickbreak.priors import ChainGroups, GammaPrior
from stickbreak.stats import Array

from .fitted import interval_of, number_of

if TYPE_CHECKING:
    from .sequence_fits import SequenceEstimator

__all__ = [
    "numbers_of",
    "row_concentration",
    "start_concentration",
    "top_concentration",
    "top_interval",
]


def row_concentration(self: SequenceEstimator) -> float:
    """Concentration of the transition rows: given, or learned if a GammaPrior was given."""
    return numbers_of(self).rows


def start_concentration(self: SequenceEstimator) -> float:
    """Concentration of the start row: given, or learned if a GammaPrior was given."""
    return numbers_of(self).start


def top_concentration(self: SequenceEstimator) -> float:
    """Concentration of the root's sticks: given, or the posterior mean if learned."""
    return number_of(_top(self))


def top_interval(self: SequenceEstimator) -> Array:
    """(2,) central 95 % interval of the posterior of `top_concentration_`."""
    return interval_of(_top(self))


def numbers_of(self: SequenceEstimator) -> ChainGroups:
    """All concentrations of a fit."""
    fitted = self._require_fitted()
    return fitted.model.prior.concentrations(fitted.params)


def _top(self: SequenceEstimator) -> float | GammaPrior:
    fitted = self._require_fitted()
    return fitted.model.prior.top(fitted.counts, fitted.params)
