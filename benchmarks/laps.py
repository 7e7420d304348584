"""Laps of a mixture, or of a chain, by the engine's own parts, and the data that they run on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stickbreak.data import Sequences, Table, measure
from stickbreak.families import Gaussian
from stickbreak.inference import BatchVB, MemoizedVB, Start, step
from stickbreak.initialize import from_plusplus
from stickbreak.models import finite_mixture
from stickbreak.stats import SERIAL


def clusters(n_rows: int, n_features: int, n_components: int, seed: int = 0) -> np.ndarray:
    """(n, D) rows of overlapping Gaussian clusters, each with a covariance of its own."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(0.0, 2.0, (n_components, n_features))
    roots = np.eye(n_features) + rng.normal(
        0.0, 0.3 / np.sqrt(n_features), (n_components, n_features, n_features)
    )
    labels = rng.integers(n_components, size=n_rows)
    X = rng.standard_normal((n_rows, n_features))
    for k in range(n_components):
        mine = labels == k
        X[mine] = X[mine] @ roots[k] + centers[k]
    return X


def walks(n_rows: int, length: int, n_states: int, seed: int = 0) -> Sequences:
    """Sequences of `length` rows (T, 2) around overlapping centers; a stay lasts ten rows on
    average.
    """
    rng = np.random.default_rng(seed)
    centers = rng.normal(0.0, 6.0, (n_states, 2))
    states = np.empty((n_rows // length, length), dtype=np.int64)
    states[:, 0] = rng.integers(n_states, size=len(states))
    moves, targets = rng.random(states.shape) < 0.1, rng.integers(n_states, size=states.shape)
    for t in range(1, length):
        states[:, t] = np.where(moves[:, t], targets[:, t], states[:, t - 1])
    rows = centers[states.ravel()] + rng.standard_normal((states.size, 2))
    return Sequences(rows, offsets=np.arange(0, states.size + 1, length))


class Laps:
    """A fit in progress. A lap is what the engine does: visits, fresh sums, upkeep, global step,
    bound.

    make : the model of a family. X : rows, or a table of them.
    """

    def __init__(
        self,
        X: Any,
        n_components: int,
        n_batches: int = 1,
        pool: Any = SERIAL,
        *,
        family: Any = None,
        make: Callable[[Any], Any] = finite_mixture,
        start: Start | None = None,
        **limits: int | None,
    ) -> None:
        table = X if isinstance(X, Table) else Table(X)
        engine = BatchVB(**limits) if n_batches == 1 else MemoizedVB(n_batches=n_batches, **limits)
        self.model = engine.adapt(make((family or Gaussian()).resolve(measure(table))))
        self.rule, self.accumulator, self.pool = engine.rule(), engine.accumulator(table), pool
        self.watches = engine.watches()
        self.batches = table.batches(n_batches)
        start = start or from_plusplus(self.model, table, n_components, np.random.default_rng(0))
        ids = tuple(range(n_components))
        self.state = self.accumulator.begin(start, ids, n_batches)
        self.upkeep()
        self.bounds: list[float] = []
        # compiles, and leaves the first lap, in which the seed stands in for the total
        for _ in range(2):
            self.lap()

    def upkeep(self) -> None:
        for edit in self.model.upkeep(self.state.counts):
            self.state.edit(edit)

    def visit(self, batch: Any) -> None:
        step(self.model, self.rule, self.accumulator, self.state, batch, self.watches, self.pool)

    def lap(self) -> None:
        for batch in self.batches:
            self.visit(batch)
        self.accumulator.end_lap(self.state)
        self.upkeep()
        self.state.params = self.model.global_step(self.state.counts, self.state.params)
        self.bounds.append(self.bound())

    def bound(self) -> float:
        return float(self.rule.bound(self.model, self.state.counts, self.state.params))

    def potentials(self) -> Any:
        return self.model.potentials(self.state.counts, self.state.params, self.rule)

    def local(self, batch: Any, potentials: Any) -> None:
        self.model.local_step(potentials, batch, None, (), self.pool)
