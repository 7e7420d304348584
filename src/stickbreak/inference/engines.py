"""The engines that users name: each is a rule and an accumulator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.parameters import require_whole
from stickbreak.protocols import Pool, Rule, Watch
from stickbreak.stats import Fields, Summary, Tally

from .accumulate import Accumulator, Memoized, Stochastic
from .candidates import CandidateWatch
from .engine import Data, Engine, Visits
from .proposals import Move, Mover
from .rules import Draw, Hard, MeanLog, Mode
from .schedules import PowerDecay
from .stopping import AllLaps, BoundStopping, MonitorStopping, Stopping
from .trace import Trace

__all__ = ["EM", "ENGINES", "BatchVB", "Gibbs", "HardEM", "MemoizedVB", "StochasticVB"]


ORDER = 1  # sets the draws of batches apart from those of starts, which use the same seed


@dataclass(frozen=True)
class FixedBatches:
    """The same batches each lap, in a random order that depends on the seed and the lap alone."""

    batches: list[Batch]
    shuffle: bool = True

    @property
    def n_batches(self) -> int:
        """How many."""
        return len(self.batches)

    def lap(self, seed: int, lap: int) -> Iterator[Batch]:
        """All batches once."""
        if not self.shuffle or len(self.batches) == 1:
            return iter(self.batches)
        order = np.random.default_rng([seed, ORDER, lap]).permutation(len(self.batches))
        return (self.batches[i] for i in order)


@dataclass(frozen=True)
class RandomBatches:
    """Units drawn without replacement: each lap is a fresh permutation, cut into batches."""

    data: Data
    batch_size: int

    @property
    def n_batches(self) -> int:
        """Batches of a lap."""
        return max(1, round(self.data.n_spans / self.batch_size))

    def lap(self, seed: int, lap: int) -> Iterator[Batch]:
        """All units once."""
        order = np.random.default_rng([seed, ORDER, lap]).permutation(self.data.n_spans)
        for i, part in enumerate(np.array_split(order, self.n_batches)):
            yield self.data.take(part, i)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _MemoizedEngine(Engine):
    def rule(self) -> Rule:
        """Variational Bayes."""
        return MeanLog()

    def accumulator(self, data: Data) -> Accumulator:
        """Total - old + new."""
        return Memoized()

    def stopping(self) -> Stopping:
        """By the bound."""
        return BoundStopping(self.tol)

    def plan(self, data: Data) -> Visits:
        """One batch."""
        return FixedBatches(data.batches(1))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _LimitedEngine(Engine):
    max_active: int | None = None
    candidates: int | None = None

    def check(self) -> None:
        """Also the limits."""
        super().check()
        if self.max_active is not None:
            require_whole(max_active=self.max_active)
        if self.candidates is None:
            return
        require_whole(candidates=self.candidates)
        if self.max_active is None or self.candidates < self.max_active:
            raise ValueError(
                f"candidates are what max_active components are chosen among; got candidates={self.candidates} with "
                f"max_active={self.max_active}: use max_active=4, candidates=16, for example"
            )

    def limit(self, model: Any) -> Any:
        """The model whose rows use max_active components each."""
        return model if self.max_active is None else model.limited(self.max_active, self.candidates)

    def watches(self) -> list[Watch]:
        """How often candidates miss."""
        return [] if self.candidates is None else [CandidateWatch()]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _MovingEngine(_LimitedEngine, _MemoizedEngine):
    moves: Sequence[Move] = ()

    def check(self) -> None:
        """Also the moves."""
        super().check()
        if not isinstance(self.moves, list | tuple) or not all(hasattr(m, "plan") and not isinstance(m, type) for m in self.moves):
            raise ValueError(f"moves must be a list of objects such as sb.Birth(), sb.Merge(), sb.Delete(); got {self.moves!r}")
        for move in self.moves:
            move.check()

    def mover(self) -> Mover:
        """The moves, with their books."""
        return Mover(tuple(self.moves))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class BatchVB(_MovingEngine):
    """Variational Bayes on all data at once: each lap is a local step and a global step; the bound never drops.

    Parameters
    ----------
    max_active : components that a row may use, the best so many; None for all. Fewer make laps with many components cheaper.
        Readers of the fitted model (`predict_proba`, ...) see all components.
    candidates : components that are judged exactly for each row, at least max_active: the best so many by a judgement in single
        precision. `trace_.disagreement` has the part of the rows that would use others if all were judged. Default: all are.
    moves : what may change the number of components: `Birth()`, `Merge()`, `Delete()`.
    max_iter, tol : laps at most; stop when a lap gains less than tol nats per row.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class MemoizedVB(_MovingEngine):
    """Variational Bayes with a global step after every batch, whose counts are remembered: exact, and fast on large data.

    Parameters
    ----------
    n_batches : how many; "auto" aims at 20,000 rows each.
    memory_limit : bytes of remembered counts kept in memory; the rest is spilled to a temporary folder.
    shuffle : visit batches in a random order each lap.
    max_active, candidates : limits of the components that a row uses and of those that are judged, see `BatchVB`.
    moves : what may change the number of components: `Birth()`, `Merge()`, `Delete()`.
    max_iter, tol : laps at most; stop when a lap gains less than tol nats per row.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    n_batches: int | str = "auto"
    memory_limit: int = 1 << 30
    shuffle: bool = True

    def check(self) -> None:
        """Also n_batches."""
        super().check()
        if self.n_batches != "auto" and (not isinstance(self.n_batches, int | np.integer) or self.n_batches < 1):
            raise ValueError(f'n_batches must be "auto" or at least 1; got {self.n_batches!r}')

    def accumulator(self, data: Data) -> Accumulator:
        """Total - old + new."""
        return Memoized(self.memory_limit)

    def plan(self, data: Data) -> Visits:
        """Fixed batches."""
        return FixedBatches(data.batches(self.n_batches), self.shuffle)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class StochasticVB(_LimitedEngine):
    """Stochastic variational Bayes: noisy natural-gradient steps on small random batches; no memory, no exact bound on the way.

    Parameters
    ----------
    batch_size : rows of a step.
    kappa, delay : the step size at step t is (delay + t) ** -kappa.
    max_active, candidates : limits of the components that a row uses and of those that are judged, see `BatchVB`.
    max_iter, tol : laps at most; stop when laps gain no more than tol nats per row beyond their noise.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    batch_size: int = 1024
    kappa: float = 0.6
    delay: float = 10.0

    def check(self) -> None:
        """Also the step sizes."""
        super().check()
        require_whole(batch_size=self.batch_size)
        if not 0 <= self.kappa <= 1 or not self.delay >= 0:
            raise ValueError(
                f"kappa must lie in [0, 1] and delay be zero or positive; got kappa={self.kappa!r}, delay={self.delay!r}"
            )

    def rule(self) -> Rule:
        """Variational Bayes."""
        return MeanLog()

    def accumulator(self, data: Data) -> Accumulator:
        """(1 - rate) * total + rate * scaled new."""
        return Stochastic(data.n_spans, data.n_units, PowerDecay(self.kappa, self.delay))

    def stopping(self) -> Stopping:
        """By the noisy monitor."""
        return MonitorStopping(self.tol)

    def plan(self, data: Data) -> Visits:
        """Random batches."""
        return RandomBatches(data, self.batch_size)

    def final_bound(self, model: Any, data: Data, counts: Summary, params: Fields, trace: Trace, pool: Pool) -> float:
        """The exact bound of the final globals, by one pass over the data."""
        potentials = model.potentials(counts, params, self.rule())
        found = Tally(counts.empty())
        for batch in data.batches("auto"):
            restricted = model.potentials(counts.restrict(batch.symbols), params, self.rule())
            found.add(model.local_step(restricted, batch, None, (), pool)[0])
        return float(model.bound_at(counts, params, potentials, found.summary()))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class EM(_MemoizedEngine):
    """Expectation maximization for the mode in natural coordinates (a flat prior gives maximum likelihood).

    Parameters
    ----------
    max_iter, tol : laps at most; stop when a lap gains less than tol nats per row.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    def rule(self) -> Rule:
        """Modes."""
        return Mode()


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class HardEM(_MemoizedEngine):
    """EM with the best labelling instead of the expectation: Bregman k-means with a prior.

    Parameters
    ----------
    max_iter, tol : laps at most; stop when a lap gains less than tol nats per row.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    def rule(self) -> Rule:
        """Modes of the best labelling."""
        return Hard(Mode())


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Gibbs(Engine):
    """Blocked Gibbs sampling: parameters are drawn given all labels, then the labels of whole sequences given the parameters.

    Each lap is a sweep, each batch of one sees fresh parameters. A (sticky) HDP is sampled in its weak limit: as many states as the
    fit begins with, and a root that is drawn too. The result is the last sweep, a draw from the posterior and not an optimum: its
    counts are those of the labels, and readers of the model see the posterior given them. There is no bound: `trace_.bound` and
    `lower_bound_` have the log joint of data and labels, which goes up and down; `trace_.n_used` the components that hold rows.

    Parameters
    ----------
    max_iter : sweeps. All are made.
    tol : must be 0: a sampler does not stop by itself.
    reorder : must be False: the prior's favourite order is not a draw.
    trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    max_iter: int = 1000
    tol: float = 0.0
    reorder: bool = False

    def check(self) -> None:
        """Also what a sampler cannot do."""
        super().check()
        if self.tol != 0:
            raise ValueError(f"Gibbs makes max_iter sweeps and does not stop by itself: tol must be 0; got {self.tol!r}")
        if self.reorder:
            raise ValueError("Gibbs draws components in any order: reorder must be False")

    def limit(self, model: Any) -> Any:
        """The model with a prior whose parameters can be drawn."""
        return model.for_draws()

    def rule(self) -> Rule:
        """A sample."""
        return Draw()

    def accumulator(self, data: Data) -> Accumulator:
        """The labels of this sweep replace those of the last."""
        return Memoized()

    def stopping(self) -> Stopping:
        """After all sweeps."""
        return AllLaps(self.max_iter)

    def plan(self, data: Data) -> Visits:
        """One batch."""
        return FixedBatches(data.batches(1))


ENGINES: dict[str, type[Engine]] = {
    "batch": BatchVB,
    "memoized": MemoizedVB,
    "stochastic": StochasticVB,
    "em": EM,
    "hard-em": HardEM,
    "gibbs": Gibbs,
}
