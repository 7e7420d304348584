"""Fits from starts of one's own choice, each of which checks that its bound never drops."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stickbreak.data import Table, measure
from stickbreak.inference import Engine, Gibbs, MeanLog, Result, Start, run
from stickbreak.inference.executors import workers
from stickbreak.initialize import from_plusplus
from stickbreak.models import dp_mixture

from .frame import assert_rises

__all__ = ["Fit", "Setting", "Starter"]

Starter = Callable[[Any, Table, int, np.random.Generator], Start]


@dataclass(frozen=True)
class Fit:
    """A result with the CPU seconds that it took."""

    result: Result
    seconds: float

    @property
    def counts(self) -> np.ndarray:
        """(K,) expected rows of each component."""
        return np.asarray(self.result.model.prior.sizes(self.result.counts))

    @property
    def n_effective(self) -> int:
        """Components that hold at least one row."""
        return int((self.counts >= 1.0).sum())

    def shares(self, rows: Any) -> np.ndarray:
        """(n, K) posterior shares of rows."""
        found = self.result
        potentials = found.model.potentials(found.counts, found.params, MeanLog())
        return np.asarray(found.model.shares(potentials, Table(rows).whole()))

    def score(self, rows: Any) -> float:
        """Mean log predictive density of rows, parameters integrated out."""
        found = self.result
        return float(
            found.model.log_evidence(
                found.model.predictive(found.counts, found.params), Table(rows).whole()
            ).mean()
        )


@dataclass(frozen=True)
class Setting:
    """Data and a model of them, priors resolved; `rises` says whether the bound may not drop."""

    table: Table
    model: Any
    rises: bool = True

    @classmethod
    def make(cls, rows: Any, family: Any, concentration: float) -> Setting:
        """A Dirichlet process mixture; open priors are set from the rows."""
        table = Table(rows)
        resolved = family.locate(None, rows.shape[1]).resolve(measure(table, family.check_rows))
        return cls(table, dp_mixture(resolved, concentration))

    def start(self, n_components: int, seed: int, starter: Starter = from_plusplus) -> Start:
        """The start of one seed: the same for every engine that is compared."""
        return starter(self.model, self.table, n_components, np.random.default_rng([seed, 0]))

    def fit(self, engine: Engine, start: Start, seed: int = 0) -> Fit:
        """Run an engine; where it has an exact bound, that must never drop. A sampler has none."""
        with workers(1) as pool:
            began = time.process_time()
            result = run(self.model, engine, self.table, start, seed=seed, pool=pool)
            seconds = time.process_time() - began
        is_exact = self.rises and engine.accumulator(self.table).is_exact
        if is_exact and not isinstance(engine, Gibbs):
            assert_rises(result.trace.bound)
        return Fit(result, seconds)
