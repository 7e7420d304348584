"""The engines that users name: each is a rule and an accumulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.parameters import require_whole

from .accumulate import Accumulator, Memoized
from .checked_units import check_units
from .collapsed import ExcludeOwn
from .engine import Data, Engine, SparseEngine, Visits
from .mover import Mover
from .plans import FixedBatches
from .proposals import BaseMove
from .rules import BaseRule, Hard, MeanLog, Mode
from .samplers import CollapsedGibbs, Gibbs
from .stochastic_engines import StochasticCollapsedVB, StochasticVB, SubchainVB
from .stopping import BoundStopping, MonitorStopping, Stopping

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = [
    "EM",
    "ENGINES",
    "BatchVB",
    "CollapsedGibbs",
    "CollapsedVB",
    "Gibbs",
    "HardEM",
    "MemoizedVB",
    "StochasticCollapsedVB",
    "StochasticVB",
    "SubchainVB",
]


N_BLOCKS = 20  # batches of collapsed inference, where a batch is the unit


def check_memory(n_batches: int | str, memory_limit: float) -> None:
    """Raise ValueError for settings of remembered batches that make no sense."""
    is_whole = isinstance(n_batches, int | np.integer) and not isinstance(n_batches, bool)
    if n_batches != "auto" and (not is_whole or int(n_batches) < 1):
        raise ValueError(f'n_batches must be "auto" or at least 1; got {n_batches!r}')
    if not isinstance(memory_limit, Real) or not memory_limit >= 0:
        raise ValueError(f"memory_limit must be zero or more bytes; got {memory_limit!r}")


def _check_moves(moves: Any, others: str = "") -> None:
    """Raise ValueError for what is not None or a list of moves; others : what else it may be."""
    if moves is None:
        return
    if not isinstance(moves, list | tuple) or not all(isinstance(m, BaseMove) for m in moves):
        raise ValueError(
            f"moves must be {others}None, or a list of objects such as sb.Birth(), sb.Merge(), "
            f"sb.Delete(); got {moves!r}"
        )
    for move in moves:
        move.check()


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
class _MovingEngine(SparseEngine, _MemoizedEngine):
    moves: Sequence[BaseMove] | str | None = "default"

    def check(self) -> None:
        """Check the moves too."""
        super().check()
        if self.moves != "default":
            _check_moves(self.moves, '"default", ')

    def with_moves(self, recommended: Sequence[BaseMove]) -> Engine:
        """The engine with these moves, if it was left to its default."""
        return replace(self, moves=tuple(recommended)) if self.moves == "default" else self

    def adapt(self, model: Model) -> Model:
        """The model itself; an error if there are moves but its components cannot be edited."""
        if self.mover().moves and model.structure.names_components:
            raise ValueError(
                f"the components of {type(model.structure).__name__} are named by the data: none "
                "is born, merged or deleted; use moves=None"
            )
        return super().adapt(model)

    def mover(self) -> Mover:
        """The moves, with their history. Those of a default that no estimator has set are none."""
        return Mover(() if self.moves is None or isinstance(self.moves, str) else tuple(self.moves))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class BatchVB(_MovingEngine):
    """Variational Bayes on all data at once. The bound never drops.

    Each lap is a local step and a global step.

    Parameters
    ----------
    max_active : how many components a row may use, the best ones; None for all. Fewer make laps
        with many components cheaper. Readers of the fitted model (`predict_proba`, ...) see all
        components. Hidden Markov models choose them by the rows before and after too; documents
        have so many topics for all their words, and keep them from lap to lap. In both,
        `trace_.disagreement` is the part of the rows or words that should be in others.
    candidates : how many components, preselected in float32, to evaluate exactly for each row; at
        least max_active. `trace_.disagreement` is the part of the rows that would use others if all
        were evaluated. Default: all. Not for hidden Markov models and topic models.
    moves : moves that change the number of components: a list of `Birth()`, `Merge()`, `Delete()`,
        or None for none. "default" is what the model recommends: all three for models that find the
        number of components, none for others.
    max_iter, tol : most laps; stop when a lap gains less than tol nats per row.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class MemoizedVB(_MovingEngine):
    """Variational Bayes with a global step after every batch. Exact, and fast on large data.

    The counts of each batch are remembered, and exchanged for new ones at its next visit.

    Parameters
    ----------
    n_batches : number of batches; "auto" aims at 20,000 rows each, or 100,000 distinct words of
        documents.
    memory_limit : bytes of remembered counts kept in memory; the rest is spilled to a temporary
        file (in the folder TMPDIR, else /var/tmp).
    shuffle : visit batches in a random order each lap.
    max_active, candidates, moves, max_iter, tol : as in `BatchVB`.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    n_batches: int | str = "auto"
    memory_limit: int = 1 << 30
    shuffle: bool = True

    def check(self) -> None:
        """Check n_batches and memory_limit too."""
        super().check()
        check_memory(self.n_batches, self.memory_limit)

    def accumulator(self, data: Data) -> Accumulator:
        """Total - old + new."""
        return Memoized(self.memory_limit)

    def plan(self, data: Data) -> Visits:
        """Fixed batches."""
        return FixedBatches(data.batches(self.n_batches), self.shuffle)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class EM(_MemoizedEngine):
    """Expectation maximization for the mode in natural coordinates.

    A flat prior gives maximum likelihood.

    Parameters
    ----------
    max_iter, tol : most laps; stop when a lap gains less than tol nats per row.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    def rule(self) -> BaseRule:
        """Modes."""
        return Mode()


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class HardEM(_MemoizedEngine):
    """EM with the best labeling instead of the expectation: Bregman k-means with a prior.

    Parameters
    ----------
    max_iter, tol : most laps; stop when a lap gains less than tol nats per row.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    def for_starts(self) -> Engine:
        """EM: where nothing is known yet, many labelings are as good as the best."""
        own = {field.name: getattr(self, field.name) for field in fields(EM)}
        return EM(**own)

    def rule(self) -> BaseRule:
        """Modes of the best labeling."""
        return Hard(Mode())


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CollapsedVB(_MemoizedEngine):
    """Collapsed variational inference: parameters integrated out, each unit given all others.

    Documents are swept word by word (CVB0), mixtures row by row, chains sequence by sequence. For
    mixtures of families whose rows cannot leave and join the counts in compiled code (`Product`,
    autoregressions, families of your own without `live`, full covariances where rows lack entries)
    the units are the batches: each batch is inferred under the posterior predictive of all others.
    Of a row, word or document that counts several times, one occurrence leaves; of one that counts
    less than once, all of it. So a row with a weight of 2 is one that is there twice. Sequences
    count once or not at all.

    There is a bound, the variational one at the posteriors found, but sweeps do not maximize it:
    `trace_.bound` may fall. A fit ends when `trace_.log_z`, the leave-one-out log predictive per
    row, no longer rises.

    Parameters
    ----------
    granularity : what is inferred at a time, given all else: a "word" of documents, a "row" of
        tables; of chains a "sequence", or a "token" (a row), or a "subsequence", for few long
        sequences; a "batch" of any data. "auto" is the first that the model has.
    block : how many successive sequences leave the counts together and share their potentials, less
        than there are. More are faster for families whose potentials are costly, and see older
        counts.
    subchain_length : rows of a subsequence.
    guards : what a subsequence sees of the one before: "messages", probabilities of steps averaged
        over its last state, or "counts", as published, which are not divided by their sums.
    n_batches : number of batches; "auto" is one for documents, one for every 500,000 rows that are
        swept, and 20 where batches are the units, of which there are at least two.
    memory_limit : as in `MemoizedVB`. Documents keep a float32 for each distinct word and topic,
        mixtures one for each row and component; chains one for each row and state, and for each
        sequence and pair of states.
    moves : None, or [Merge()] with `root="tables"` and whole sequences or sentences: pairs of
        states or categories are merged once log_z no longer rises, if sweeps from there end with a
        higher bound. For starts whose states differ (not init="local"): states that are still alike
        would all be merged.
    max_iter, tol : most laps; stop when five laps have not raised log_z by tol nats per row. With
        table counts and no moves, fewer than a tenth of tol of the rows may still move
        (`trace_.moved`): superfluous states die out slowly, and log_z hardly tells.
    reorder, trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    granularity: str = "auto"
    block: int = 1
    subchain_length: int = 100
    guards: str = "messages"
    n_batches: int | str = "auto"
    memory_limit: int = 1 << 30
    moves: Sequence[BaseMove] | None = None

    def check(self) -> None:
        """Check block, subchain_length, guards, n_batches, memory_limit and moves too."""
        super().check()
        _check_moves(self.moves)
        if any(move.kind != "merge" for move in self.moves or ()):
            raise ValueError(
                f"collapsed sweeps can merge components only; got {self.moves!r}: use "
                "moves=[sb.Merge()], or MemoizedVB"
            )
        if self.moves and self.granularity == "subsequence":
            raise ValueError(
                "merges are tried on whole sequences; with granularity='subsequence' use moves=None"
            )
        require_whole(block=self.block, subchain_length=self.subchain_length)
        if self.guards not in ("messages", "counts"):
            raise ValueError(f"guards must be 'messages' or 'counts'; got {self.guards!r}")
        check_memory(self.n_batches, self.memory_limit)

    def adapt(self, model: Model) -> Model:
        """The model itself; an error if there are moves that its bound cannot decide."""
        if self.moves and not model.structure.lingers:
            raise ValueError(
                "merges of collapsed fits are for root='tables'; use moves=None, or "
                "MemoizedVB, which has moves for all models"
            )
        return super().adapt(model)

    def mover(self) -> Mover:
        """The moves, tried by sweeps."""
        return Mover(tuple(self.moves or ()), sweeps=True)

    def check_data(self, model: Model, data: Data) -> None:
        """Check what is inferred at a time."""
        check_units(self.rule(), model, data)

    def rule(self) -> ExcludeOwn:
        """Predictives given all other units."""
        return ExcludeOwn(
            self.granularity,
            block=int(self.block),
            subchain_length=int(self.subchain_length),
            guards=self.guards,
        )

    def rule_for(self, model: Model, data: Data) -> ExcludeOwn:
        """The same; by batches, if a mixture has rows that cannot leave alone.

        Sequences with such rows are refused, and so are they if rows are asked for.
        """
        rule, can_leave = self.rule(), model.family.can_leave
        is_open = rule.granularity == "auto" and not model.structure.is_ordered
        if not is_open or not rule.sweeps(model):
            return rule
        is_swept = all(can_leave(batch.rows) for batch in data.batches())
        return rule if is_swept else replace(rule, granularity="batch")

    def accumulator(self, data: Data) -> Accumulator:
        """Total - old + new."""
        return Memoized(self.memory_limit)

    def plan(self, data: Data) -> Visits:
        """Fixed batches, in a random order each lap."""
        n = max(1, min(N_BLOCKS, data.n_spans)) if self.n_batches == "auto" else self.n_batches
        return FixedBatches([self.rule().units(batch) for batch in data.batches(n)])

    def plan_for(self, model: Model, data: Data) -> Visits:
        """Few batches of rows that are swept: each visit begins with fresh sums."""
        is_swept = self.rule_for(model, data).sweeps(model)
        if self.n_batches != "auto" or not is_swept:
            plan = self.plan(data)
            if not is_swept and plan.n_batches == 1:
                remedy = "n_batches=2 or more, or BatchVB" if data.n_spans > 1 else "BatchVB"
                raise ValueError(
                    f"n_batches={self.n_batches!r} leaves all data in one batch, and collapsed "
                    f"inference learns each batch from the others; use {remedy}"
                )
            return plan
        n = max(1, round(data.n_rows / model.structure.swept_rows))
        return replace(self, n_batches=n).plan(data)

    def stopping(self) -> Stopping:
        """By the leave-one-out predictive: the bound may fall."""
        return MonitorStopping(self.tol, waits=not self.moves)


ENGINES: dict[str, type[Engine]] = {
    "batch": BatchVB,
    "memoized": MemoizedVB,
    "stochastic": StochasticVB,
    "em": EM,
    "hard-em": HardEM,
    "gibbs": Gibbs,
    "subchain": SubchainVB,
    "collapsed": CollapsedVB,
    "collapsed-gibbs": CollapsedGibbs,
    "stochastic-collapsed": StochasticCollapsedVB,
}
