"""What structures that wrap another one share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Array, Potentials
from stickbreak.stats import Fields

__all__ = ["Wrapped"]


@dataclass(frozen=True, eq=False)
class Wrapped:
    """The structure `inner` as it is; whoever wraps it says how `infer` differs."""

    inner: Any

    def cold_start(self, batch: Batch, n_components: int, axis: str) -> Fields | None:
        """As the wrapped structure."""
        return self.inner.cold_start(batch, n_components, axis)

    def count(self, labels: Array, block: Batch, out: dict[str, Array]) -> None:
        """As the wrapped structure."""
        self.inner.count(labels, block, out)

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """As the wrapped structure."""
        return self.inner.log_evidence(potentials, block)

    def decode(self, potentials: Potentials, block: Batch) -> Array:
        """As the wrapped structure."""
        return self.inner.decode(potentials, block)

    def best(self, potentials: Potentials, block: Batch) -> Array:
        """As the wrapped structure."""
        return self.inner.best(potentials, block)

    def sample(self, potentials: Potentials, block: Batch, rng: np.random.Generator) -> Array:
        """As the wrapped structure."""
        return self.inner.sample(potentials, block, rng)
