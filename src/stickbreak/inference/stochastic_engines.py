"""Engines that take noisy steps on random batches."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stickbreak.data import Sequences
from stickbreak.errors import DataWarning
from stickbreak.parameters import require_whole
from stickbreak.protocols import Pool
from stickbreak.stats import Fields, Summary

from .accumulate import Accumulator, Guarded, Stochastic, Subchains
from .collapsed import IncludeOwn
from .engine import Data, Engine, SparseEngine, Visits, bound_by_pass
from .guarded import GuardedLogMean, WindowLogMean
from .plans import FixedWindows, RandomBatches, RandomWindows
from .rules import BaseRule, MeanLog, WindowMeanLog
from .schedules import PowerDecay
from .stopping import MonitorStopping, Stopping
from .trace import Trace

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["StochasticCollapsedVB", "StochasticVB", "SubchainVB"]

MOST_BUFFER, EDGE_TOL = 128, 1e-3  # limits of adaptive buffers
STEP_ROWS = 8192  # of a step on blocks of sequences


def _require_steps(subchain_length: int) -> None:
    """Raise ValueError unless a window holds a step."""
    require_whole(subchain_length=subchain_length)
    if subchain_length < 2:
        raise ValueError(
            f"subchain_length must be at least 2, or no window holds a step; got {subchain_length}"
        )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _StochasticEngine(Engine):
    revisits: ClassVar[bool] = False

    kappa: float | None = None
    delay: float | None = None
    first_rate: float | None = None

    def check(self) -> None:
        """Check the step sizes too."""
        super().check()
        if not 0 <= self.schedule.kappa <= 1 or not self.schedule.delay >= 0:
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
        """Step sizes, where the data have no say in them."""
        usual = PowerDecay()
        kappa, delay = (
            own if given is None else given
            for given, own in ((self.kappa, usual.kappa), (self.delay, usual.delay))
        )
        return PowerDecay(kappa, delay, self.first_rate)

    def schedule_for(self, data: Data) -> PowerDecay:
        """Step sizes for some data: by default the same for all."""
        return self.schedule

    def rule(self) -> BaseRule:
        """Variational Bayes."""
        return MeanLog()

    def stopping(self) -> Stopping:
        """By the mean log_z, which is noisy."""
        return MonitorStopping(self.tol)

    def final_bound(
        self, model: Model, data: Data, counts: Summary, params: Fields, trace: Trace, pool: Pool
    ) -> float:
        """The exact bound of the final globals, by one pass over the data."""
        return bound_by_pass(model, data, counts, params, pool)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _BatchEngine(_StochasticEngine):
    batch_size: int | None = None

    def check(self) -> None:
        """Check the batch size too."""
        super().check()
        if self.batch_size is not None:
            require_whole(batch_size=self.batch_size)

    def check_data(self, model: Model, data: Data) -> None:
        """Say so if a step would take more units than there are."""
        self._warn_of_few(data.n_spans, data.unit_name)

    def _warn_of_few(self, n_units: int, units: str) -> None:
        if self.batch_size is not None and self.batch_size > n_units:
            warnings.warn(
                f"batch_size={self.batch_size}, but there are {n_units} {units}: each step "
                "takes all of them, one step a lap; use a smaller batch_size, or an engine that is "
                "not stochastic",
                DataWarning,
                stacklevel=3,
            )

    def accumulator(self, data: Data) -> Accumulator:
        """(1 - rate) * total + rate * scaled new."""
        return Stochastic(data.n_spans, data.n_units, self.schedule_for(data))

    def plan(self, data: Data) -> Visits:
        """Random batches."""
        return RandomBatches(data, data.step_size if self.batch_size is None else self.batch_size)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class StochasticVB(SparseEngine, _BatchEngine):
    """Stochastic variational Bayes: noisy natural-gradient steps on small random batches.

    Nothing is remembered of a batch, and there is no exact bound before the end.

    Parameters
    ----------
    batch_size : rows of a step, or whole sequences or documents where the data are such. Default:
        1,024 rows; 64 sequences, or fewer that hold about 8,192 rows; 256 documents; a sixth of
        sentence pairs, at most 4,096. If there are fewer, a step takes all of them, as in
        scikit-learn, and a `DataWarning` says so.
    kappa, delay : the step size at step t = 1, 2, ... is (delay + t) ** -kappa. Default: 0.6 and
        10. If neither these nor `first_rate` nor `batch_size` are given, sequences of 128 to
        4,369 rows on average have larger steps: 64 of them or fewer with about 32,768 rows,
        kappa=1, delay=80, first_rate=1.
    first_rate : first step size, in (0, 1]; the others fall in proportion. Large early steps get
        further in few passes, but soon forget what a batch does not show: use it where every batch
        shows all components, and smaller ones where it does not.
    max_active, candidates : as in `BatchVB`.
    max_iter, tol : most laps; stop when laps gain no more than tol nats per row beyond noise.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    @property
    def _is_open(self) -> bool:
        """Whether the data decide on the steps: nothing is said about them."""
        given = self.kappa, self.delay, self.first_rate, self.batch_size
        return all(value is None for value in given)

    def schedule_for(self, data: Data) -> PowerDecay:
        """What is given, or else what the data declare to be best for them."""
        return PowerDecay(*data.steps[1:]) if self._is_open else self.schedule

    def plan(self, data: Data) -> Visits:
        """Random batches."""
        return RandomBatches(data, data.steps.size) if self._is_open else super().plan(data)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class StochasticCollapsedVB(_BatchEngine):
    """Stochastic collapsed inference: steps on random batches, under the posterior predictive.

    As `StochasticVB`, with the parameters integrated out. A batch's own earlier part in the counts
    stays there: nothing is remembered of it, and in large data it is small. Documents are swept
    word by word as by `CollapsedVB`, five times. Long sequences can be cut into blocks that stay
    the same; only steps within blocks are counted, and scaled to all.

    Parameters
    ----------
    granularity : "auto", whole rows, sequences or documents; or "subsequence", blocks of sequences.
    subchain_length : rows of a block, at least 2.
    guards : what a block sees of its neighbors, whose posteriors next to it are kept: "messages",
        probabilities of steps averaged over the state before and the state after; "counts", as
        published, where those on the left are not divided by their sums; or "none": it begins in
        the long-run distribution.
    batch_size : as in `StochasticVB`; of blocks, as many as hold about 8,192 rows; of sentence
        pairs 1,024.
    kappa, delay, first_rate : as in `StochasticVB`.
    max_iter, tol : most laps; stop when laps gain no more than tol nats per row beyond noise.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    granularity: str = "auto"
    subchain_length: int = 100
    guards: str = "messages"

    def check(self) -> None:
        """Check the blocks too."""
        super().check()
        if self.granularity not in ("auto", "subsequence"):
            raise ValueError(
                'granularity must be "auto", or "subsequence" for blocks of sequences; got '
                f"{self.granularity!r}"
            )
        if self.guards not in ("messages", "counts", "none"):
            raise ValueError(f"guards must be 'messages', 'counts' or 'none'; got {self.guards!r}")
        _require_steps(self.subchain_length)

    def check_data(self, model: Model, data: Data) -> None:
        """Blocks are those of sequences; say so if a step would take more than there are."""
        if not self._in_blocks:
            super().check_data(model, data)
            return
        if not (isinstance(data, Sequences) and model.structure.is_ordered):
            raise ValueError(
                "granularity='subsequence' cuts sequences into blocks, and these data have none; "
                "use granularity='auto'"
            )
        blocks = data.whole().in_blocks(int(self.subchain_length))
        self._warn_of_few(blocks.n_spans, "blocks")

    @property
    def _in_blocks(self) -> bool:
        return self.granularity == "subsequence"

    def rule(self) -> BaseRule:
        """Predictives given everything seen."""
        if not self._in_blocks:
            return IncludeOwn()
        if self.guards == "none":
            return WindowLogMean()
        return GuardedLogMean(int(self.subchain_length), self.guards == "messages")

    def accumulator(self, data: Data) -> Accumulator:
        """(1 - rate) * total + rate * scaled new; edges of blocks, if they see each other's."""
        if not self._in_blocks:
            return super().accumulator(data)
        kind = Subchains if self.guards == "none" else Guarded
        return kind(data.n_spans, data.n_units, self.schedule)

    def plan(self, data: Data) -> Visits:
        """Random batches, of units or of fixed blocks."""
        if not self._in_blocks:
            return super().plan(data)
        assert isinstance(data, Sequences)  # as `check_data` requires
        size = max(1, STEP_ROWS // int(self.subchain_length))
        return FixedWindows(data, int(self.subchain_length), self.batch_size or size)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SubchainVB(_StochasticEngine):
    """Stochastic variational Bayes on windows of very long sequences, a few windows a step.

    Windows are smoothed together with the rows around them (buffers), which tell where the chain
    comes from and goes to; beyond those it is taken to be in its long-run distribution. Only the
    windows' own rows and steps count. Each lap cuts the sequences at new places, so that on average
    every row, step and start counts once.

    Parameters
    ----------
    subchain_length : rows of a window, at least 2.
    n_subchains : windows of a step.
    buffer : rows used on each side of a window. "adaptive": 8, 16, 32, ..., 128 rows, until the
        posterior of the row at the window's edge changes by less than 0.001 (sum over states of
        absolute differences).
    kappa, delay : the step size at step t = 1, 2, ... is (delay + t) ** -kappa.
    first_rate : first step size, in (0, 1]; the others fall in proportion. Large early steps get
        further in few passes, but soon forget what a batch does not show: use it where every batch
        shows all components.
    max_iter, tol : most laps; stop when laps gain no more than tol nats per row beyond noise.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    subchain_length: int = 1000
    n_subchains: int = 16
    buffer: int | str = "adaptive"

    def check(self) -> None:
        """Check the windows too."""
        super().check()
        require_whole(n_subchains=self.n_subchains)
        _require_steps(self.subchain_length)
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
        """(1 - rate) * total + rate * new, each field scaled by its own factor."""
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
