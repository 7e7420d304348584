"""What estimators under an HDP root have to say of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.priors import GammaPrior
from stickbreak.stats import Array

__all__ = ["Rooted"]


class Rooted:
    """The root's concentration, as given or learned."""

    def _top(self) -> Any:
        """The concentration, or its posterior."""
        raise NotImplementedError

    @property
    def top_concentration_(self) -> float:
        """Of the root's sticks: as given, or the posterior mean where a GammaPrior was given."""
        found = self._top()
        return float(found.mean if isinstance(found, GammaPrior) else found)

    @property
    def top_concentration_interval_(self) -> Array:
        """(2,) central 95 % interval of the posterior of `top_concentration_`."""
        found = self._top()
        return (
            found.quantile([0.025, 0.975])
            if isinstance(found, GammaPrior)
            else np.full(2, float(found))
        )
