"""Concentrations of rows or units, given or learned: attributes of estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stickbreak.priors import ChainGroups, GammaPrior
from stickbreak.stats import Array

from .fitted import interval_of, number_of

if TYPE_CHECKING:
    from .base import Estimator
    from .sequence_fits import SequenceEstimator

__all__ = [
    "numbers_of",
    "row_concentration",
    "start_concentration",
    "top_concentration",
    "top_interval",
    "unit_concentration",
]


def row_concentration(self: SequenceEstimator) -> float:
    """Concentration of the transition rows: given, or learned if a GammaPrior was given."""
    return numbers_of(self).rows


def start_concentration(self: SequenceEstimator) -> float:
    """Concentration of the start row: given, or learned if a GammaPrior was given."""
    return numbers_of(self).start


def top_concentration(self: Estimator) -> float:
    """Concentration of the root's sticks: given, or the posterior mean if learned."""
    return number_of(_top(self))


def top_interval(self: Estimator) -> Array:
    """(2,) central 95 % interval of the posterior of `top_concentration_`."""
    return interval_of(_top(self))


def unit_concentration(self: Estimator) -> float:
    """Concentration of documents or groups: given or learned; the mean, if topics differ."""
    fitted = self._require_fitted()
    return float(fitted.model.prior.concentration_at(fitted.params))


def numbers_of(self: SequenceEstimator) -> ChainGroups:
    """All concentrations of a fit."""
    fitted = self._require_fitted()
    return fitted.model.prior.concentrations(fitted.params)


def _top(self: Estimator) -> float | GammaPrior:
    fitted = self._require_fitted()
    return fitted.model.prior.top(fitted.counts, fitted.params)
