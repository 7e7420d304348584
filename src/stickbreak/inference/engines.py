"""The engines that users name: each is a rule and an accumulator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Batch, Sequences
from stickbreak.parameters import require_whole
from stickbreak.protocols import Pool, Watch
from stickbreak.stats import Fields, Summary, Tally

from .accumulate import Accumulator, Memoized, Stochastic, Subchains
from .engine import Data, Engine, Visits
from .proposals import BaseMove, Mover
from .random_streams import ORDER
from .rules import BaseRule, Draw, Hard, MeanLog, Mode, WindowMeanLog
from .schedules import PowerDecay
from .sparsity import SparsityWatch
from .stopping import AllLaps, BoundStopping, MonitorStopping, Stopping
from .trace import Trace

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = [
    "EM",
    "ENGINES",
    "BatchVB",
    "Gibbs",
    "HardEM",
    "MemoizedVB",
    "StochasticVB",
    "SubchainVB",
]


MOST_BUFFER, EDGE_TOL = 128, 1e-3  # of adaptive buffers


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

    def share_out(self, warm: Fields | None) -> dict[int, Fields]:
        """Values of all units as those of each batch."""
        if warm is None:
            return {}
        ends = np.cumsum([batch.n_spans for batch in self.batches])
        return {
            b.id: warm.cut(unit=slice(int(end) - b.n_spans, int(end)))
            for b, end in zip(self.batches, ends, strict=True)
        }


@dataclass(frozen=True)
class RandomBatches:
    """Units drawn without replacement: each lap is a fresh permutation, cut into batches."""

    data: Data
    batch_size: int

    @property
    def n_batches(self) -> int:
        """Batches of a lap."""
        return max(1, round(self.data.n_spans / self.batch_size))

    def share_out(self, warm: Fields | None) -> dict[int, Fields]:
        """Nothing: no batch is seen twice."""
        return {}

    def lap(self, seed: int, lap: int) -> Iterator[Batch]:
        """All units once."""
        order = np.random.default_rng([seed, ORDER, lap]).permutation(self.data.n_spans)
        for i, part in enumerate(np.array_split(order, self.n_batches)):
            yield self.data.take(part, i)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _MemoizedEngine(Engine):
    def rule(self) -> BaseRule:
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
class _SparseEngine(Engine):
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
                "candidates are what max_active components are chosen among; got "
                f"candidates={self.candidates} with "
                f"max_active={self.max_active}: use max_active=4, candidates=16, for example"
            )

    def adapt(self, model: Model) -> Model:
        """The model whose rows use max_active components each."""
        return model if self.max_active is None else model.sparse(self.max_active, self.candidates)

    def watches(self) -> list[Watch]:
        """How often a limit changes what rows use, where that is not plain."""
        return [] if self.max_active is None else [SparsityWatch()]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _MovingEngine(_SparseEngine, _MemoizedEngine):
    moves: Sequence[BaseMove] = ()

    def check(self) -> None:
        """Also the moves."""
        super().check()
        if not isinstance(self.moves, list | tuple) or not all(
            isinstance(move, BaseMove) for move in self.moves
        ):
            raise ValueError(
                "moves must be a list of objects such as sb.Birth(), sb.Merge(), "
                f"sb.Delete(); got {self.moves!r}"
            )
        for move in self.moves:
            move.check()

    def mover(self) -> Mover:
        """The moves, with their books."""
        return Mover(tuple(self.moves))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class BatchVB(_MovingEngine):
    """Variational Bayes on all data at once: each lap is a local step and a global step; the bound
    never drops.

    Parameters
    ----------
    max_active : components that a row may use, the best so many; None for all. Fewer make laps with
        many components cheaper. Readers of the fitted model (`predict_proba`, ...) see all
        components. Hidden Markov models choose them by the rows before and after too;
        `trace_.disagreement` then has the part of the rows that should be in others.
    candidates : components that are judged exactly for each row, at least max_active: the best so
        many by a judgement in single precision. `trace_.disagreement` has the part of the rows that
        would use others if all were judged. Default: all are. Not for hidden Markov models.
    moves : what may change the number of components: `Birth()`, `Merge()`, `Delete()`.
    max_iter, tol : laps at most; stop when a lap gains less than tol nats per row.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class MemoizedVB(_MovingEngine):
    """Variational Bayes with a global step after every batch, whose counts are remembered: exact,
    and fast on large data.

    Parameters
    ----------
    n_batches : how many; "auto" aims at 20,000 rows each, or 100,000 distinct words of documents.
    memory_limit : bytes of remembered counts kept in memory; the rest is spilled to a temporary
        folder.
    shuffle : visit batches in a random order each lap.
    max_active, candidates : limits of the components that a row uses and of those that are judged,
        see `BatchVB`.
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
        if self.n_batches != "auto" and (
            not isinstance(self.n_batches, int | np.integer) or self.n_batches < 1
        ):
            raise ValueError(f'n_batches must be "auto" or at least 1; got {self.n_batches!r}')

    def accumulator(self, data: Data) -> Accumulator:
        """Total - old + new."""
        return Memoized(self.memory_limit)

    def plan(self, data: Data) -> Visits:
        """Fixed batches."""
        return FixedBatches(data.batches(self.n_batches), self.shuffle)


@dataclass(frozen=True)
class RandomWindows:
    """Windows of sequences, drawn without replacement: each lap cuts the sequences anew and deals
    the pieces out to batches.
    """

    data: Sequences
    length: int
    batch_size: int
    buffer: int
    edge_tol: float | None

    @property
    def n_batches(self) -> int:
        """Batches of a lap; nearly, since cuts at the ends of sequences vary."""
        return max(1, round(self.data.n_rows / (self.length * self.batch_size)))

    def share_out(self, warm: Fields | None) -> dict[int, Fields]:
        """Nothing: no batch is seen twice."""
        return {}

    def lap(self, seed: int, lap: int) -> Iterator[Batch]:
        """All rows once."""
        rng = np.random.default_rng([seed, ORDER, lap])
        bounds = self.data.cut_windows(self.length, rng)
        is_whole = len(bounds) == self.data.n_spans
        of_all = {
            "n_windows": len(bounds),
            "pair_share": 1.0 if is_whole else 1.0 - 1.0 / self.length,
            "edge_tol": self.edge_tol,
        }
        for i, part in enumerate(
            np.array_split(rng.permutation(len(bounds)), min(self.n_batches, len(bounds)))
        ):
            yield self.data.take_windows(bounds[part], self.buffer, i, **of_all)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _StochasticEngine(Engine):
    kappa: float = 0.6
    delay: float = 10.0
    first_rate: float | None = None

    def check(self) -> None:
        """Also the step sizes."""
        super().check()
        if not 0 <= self.kappa <= 1 or not self.delay >= 0:
            raise ValueError(
                "kappa must lie in [0, 1] and delay be zero or positive; got "
                f"kappa={self.kappa!r}, delay={self.delay!r}"
            )
        if self.first_rate is not None and not (
            isinstance(self.first_rate, Real) and 0 < self.first_rate <= 1
        ):
            raise ValueError(
                "first_rate must be a number above 0 and at most 1, or None; got "
                f"{self.first_rate!r}"
            )

    @property
    def schedule(self) -> PowerDecay:
        """Step sizes."""
        return PowerDecay(self.kappa, self.delay, self.first_rate)

    def rule(self) -> BaseRule:
        """Variational Bayes."""
        return MeanLog()

    def stopping(self) -> Stopping:
        """By the noisy monitor."""
        return MonitorStopping(self.tol)

    def final_bound(
        self, model: Model, data: Data, counts: Summary, params: Fields, trace: Trace, pool: Pool
    ) -> float:
        """The exact bound of the final globals, by one pass over the data."""
        rule = MeanLog()
        potentials = model.potentials(counts, params, rule)
        found = Tally(counts.empty())
        for batch in data.batches("auto"):
            restricted = model.potentials(counts.restrict(batch.symbols), params, rule)
            found.add(model.local_step(restricted, batch, None, (), pool)[0])
        return float(model.bound_at(counts, params, potentials, found.summary()))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class StochasticVB(_SparseEngine, _StochasticEngine):
    """Stochastic variational Bayes: noisy natural-gradient steps on small random batches; no
    memory, no exact bound on the way.

    Parameters
    ----------
    batch_size : rows of a step; or whole sequences, or documents, where the data are such. Default:
        1,024 rows; 64 sequences, or fewer that hold about 8,192 rows; 256 documents.
    kappa, delay : the step size at step t is (delay + t) ** -kappa, which begins with (delay + 1)
        ** -kappa.
    first_rate : the step size to begin with instead, from which it falls as before; at most 1.
        Large steps early get further in few passes; what the rows of a step do not show is then
        soon forgotten, so steps should show all components.
    max_active, candidates : limits of the components that a row uses and of those that are judged,
        see `BatchVB`.
    max_iter, tol : laps at most; stop when laps gain no more than tol nats per row beyond their
        noise.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    batch_size: int | None = None

    def check(self) -> None:
        """Also the batches."""
        super().check()
        if self.batch_size is not None:
            require_whole(batch_size=self.batch_size)

    def accumulator(self, data: Data) -> Accumulator:
        """(1 - rate) * total + rate * scaled new."""
        return Stochastic(data.n_spans, data.n_units, self.schedule)

    def plan(self, data: Data) -> Visits:
        """Random batches."""
        return RandomBatches(data, data.step_size if self.batch_size is None else self.batch_size)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SubchainVB(_StochasticEngine):
    """Stochastic variational Bayes on windows of very long sequences: a step looks at a few
    windows, and at some rows around each.

    Windows are smoothed together with the rows around them (buffers), which tell where the chain
    comes from and goes to; beyond those it is taken to be in its long-run distribution. Only the
    windows' own rows and steps count. Each lap cuts the sequences at new places, so that on average
    every row, step and start counts once.

    Parameters
    ----------
    subchain_length : rows of a window, at least 2.
    n_subchains : windows of a step.
    buffer : rows that are looked at on each side of a window. "adaptive": 8, 16, 32, ..., 128 rows,
        until the posterior of the row at the window's edge, given that side, changes by less than
        0.001 (the sum over states of absolute differences).
    kappa, delay : the step size at step t is (delay + t) ** -kappa, which begins with (delay + 1)
        ** -kappa.
    first_rate : the step size to begin with instead, from which it falls as before; at most 1.
        Large steps early get further in few passes; what the rows of a step do not show is then
        soon forgotten, so steps should show all components.
    max_iter, tol : laps at most; stop when laps gain no more than tol nats per row beyond their
        noise.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    subchain_length: int = 1000
    n_subchains: int = 16
    buffer: int | str = "adaptive"

    def check(self) -> None:
        """Also the windows."""
        super().check()
        require_whole(n_subchains=self.n_subchains, subchain_length=self.subchain_length)
        if self.subchain_length < 2:
            raise ValueError(
                "subchain_length must be at least 2, or no window holds a step; got "
                f"{self.subchain_length}"
            )
        if self.buffer != "adaptive":
            is_whole = isinstance(self.buffer, int | np.integer) and not isinstance(
                self.buffer, bool
            )
            if not is_whole or int(self.buffer) < 0:
                raise ValueError(
                    'buffer must be "adaptive" or a whole number of rows, 0 or more; '
                    f"got {self.buffer!r}"
                )

    def rule(self) -> BaseRule:
        """Variational Bayes."""
        return WindowMeanLog()

    def accumulator(self, data: Data) -> Accumulator:
        """(1 - rate) * total + rate * new, each field scaled by its own number."""
        return Subchains(data.n_spans, data.n_units, self.schedule)

    def plan(self, data: Data) -> Visits:
        """Random windows."""
        if not isinstance(data, Sequences):
            raise ValueError(
                "SubchainVB cuts sequences into windows, and these data have none; use StochasticVB"
            )
        is_adaptive = self.buffer == "adaptive"
        buffer = MOST_BUFFER if is_adaptive else int(self.buffer)
        return RandomWindows(
            data, self.subchain_length, self.n_subchains, buffer, EDGE_TOL if is_adaptive else None
        )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class EM(_MemoizedEngine):
    """Expectation maximization for the mode in natural coordinates (a flat prior gives maximum
    likelihood).

    Parameters
    ----------
    max_iter, tol : laps at most; stop when a lap gains less than tol nats per row.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    def rule(self) -> BaseRule:
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

    def rule(self) -> BaseRule:
        """Modes of the best labelling."""
        return Hard(Mode())


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Gibbs(Engine):
    """Blocked Gibbs sampling: parameters are drawn given all labels, then the labels of whole
    sequences given the parameters.

    Each lap is a sweep, each batch of one sees fresh parameters. A (sticky) HDP is sampled in its
    weak limit: as many states as the fit begins with, and a root that is drawn too. The result is
    the last sweep, a draw from the posterior and not an optimum: its counts are those of the
    labels, and readers of the model see the posterior given them. There is no bound: `trace_.bound`
    and `lower_bound_` have the log joint of data and labels, which goes up and down;
    `trace_.n_used` the components that hold rows.

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
            raise ValueError(
                "Gibbs makes max_iter sweeps and does not stop by itself: tol must "
                f"be 0; got {self.tol!r}"
            )
        if self.reorder:
            raise ValueError("Gibbs draws components in any order: reorder must be False")

    def adapt(self, model: Model) -> Model:
        """The model with a prior whose parameters can be drawn."""
        return model.for_draws()

    def rule(self) -> BaseRule:
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
    "subchain": SubchainVB,
}
