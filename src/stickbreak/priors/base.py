"""Priors whose parameters are all functions of the counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.stats import Fields, Summary

__all__ = ["BasePrior"]


class BasePrior:
    """Nothing is stored, so nothing is updated, and Gibbs draws the parameters of the
    prior itself.
    """

    def start(self, n_components: int, axis: str) -> Fields:
        """No parameters."""
        return Fields({}, {})

    def update(self, total: Summary, params: Fields) -> Fields:
        """No parameters."""
        return params

    def for_draws(self) -> Any:
        """Itself."""
        return self

    def redraw(self, total: Summary, params: Fields, rng: np.random.Generator) -> Fields:
        """No parameters."""
        return params
