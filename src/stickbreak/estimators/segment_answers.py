"""Answers about segments: where they are, how long they last, and what comes next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from stickbreak.data import Companion, Sequences
from stickbreak.families.base import BaseFamily
from stickbreak.inference import BaseMove, CollapsedGibbs, MeanLog, SubchainVB, workers
from stickbreak.parameters import require_whole
from stickbreak.priors.durations import BaseDuration, make_duration
from stickbreak.priors.segments import SegmentCounts
from stickbreak.reading import Given, Rows, Schema, Shape, Stack, Values
from stickbreak.stats import Array
from stickbreak.structures.semimarkov import check_change_points, segments_of

from . import segment_rows as rows
from .engine_choice import pick_engine
from .engine_runs import Task
from .forecasts import Forecast
from .given_sequences import ask, check_method
from .segment_forecasts import (
    Durations,
    SegmentFilter,
    Segments,
    explicit,
    forecast_segments,
    last_ages,
    rest_of_segments,
    summarize_lengths,
)
from .sequence_fits import SequenceEstimator

__all__ = ["SegmentModel"]

# Multiplications of a lap over all lengths above which a fit is refused: about an hour each.
MOST_WORK = 1e13


class SegmentModel(SequenceEstimator):
    """Fits and answers of semi-Markov models."""

    duration: str | BaseDuration
    max_duration: int | None
    duration_inference: str
    n_samples: int
    right_censored: bool
    left_censored: bool

    predict = rows.predict
    decode = rows.decode
    predict_proba = rows.predict_proba
    filter_proba = rows.filter_proba
    impute = rows.impute
    score_samples = rows.score_samples
    score_sequences = rows.score_sequences
    score = rows.score
    fit = rows.fit
    fit_predict = rows.fit_predict
    resume = rows.resume
    partial_fit = rows.partial_fit

    def _check_arguments(self) -> None:
        super()._check_arguments()
        require_whole(n_samples=self.n_samples)
        engine = pick_engine(self, False)
        if isinstance(engine, SubchainVB | CollapsedGibbs):
            raise ValueError(
                f"{type(engine).__name__} is not for segments, whose rows cannot be taken apart; "
                f"use {'StochasticVB' if isinstance(engine, SubchainVB) else 'Gibbs'}"
            )
        if self.duration_inference == "sampled" and type(engine.rule()) is not MeanLog:
            raise ValueError(
                "duration_inference='sampled' is for BatchVB, MemoizedVB and StochasticVB; got "
                f"{engine!r}: use 'embedded' or 'exact'"
            )
        if self.duration_inference == "sampled" and engine.mover().moves:
            raise ValueError(
                "moves need a bound, which duration_inference='sampled' has not; use moves=None, "
                "or 'embedded'"
            )

    def _form(self) -> dict[str, Any]:
        """What the model needs beside the prior's arguments."""
        names = ("n_samples", "right_censored", "left_censored")
        return {name: getattr(self, name) for name in names}

    def _recommended_moves(self) -> tuple[BaseMove, ...]:
        return () if self.duration_inference == "sampled" else super()._recommended_moves()

    def _prior_for(self, task: Task) -> dict[str, Any]:
        """The prior's arguments; the longest segment, if it is not given, by the data.

        Twice the longest sequence, so that what the end of a sequence cuts off may be as long
        again; for a law without a tail, the longest sequence.
        """
        found = self._prior_of(self)
        if self.duration_inference != "exact" or self.max_duration is not None:
            return found
        assert isinstance(task.table, Sequences)
        longest = int(np.diff(np.asarray(task.table.offsets)).max())
        is_limited = make_duration(self.duration).is_limited
        return {**found, "max_duration": longest if is_limited else 2 * longest}

    def _limit(self, task: Task, given: Given) -> Task:
        task = super()._limit(task, given)
        self._check_size(task)
        if given.labels is not None and task.legal is not None:
            self._check_labels(task)
        return task

    def _read(
        self, given: Given, family: BaseFamily, schema: Schema | None
    ) -> tuple[Stack, Schema]:
        table, found = super()._read(given, family, schema)
        if given.change_points is None:
            return table, found
        return replace(table, companion=_companion(given.change_points, table.shape)), found

    def _longest(self, task: Task) -> int | None:
        """The longest segment that is possible; None if there is no limit."""
        if task.previous is not None:
            prior = task.previous.model.prior
            assert isinstance(prior, SegmentCounts)
            return prior.max_duration
        return self.max_duration

    def _check_size(self, task: Task) -> None:
        """Raise ValueError for data that would take all lengths too long."""
        if self.duration_inference != "exact":
            return
        assert isinstance(task.table, Sequences)
        lengths = np.diff(np.asarray(task.table.offsets)).astype(float)
        most = np.minimum(lengths, self._longest(task) or np.inf)
        if task.n_components == 1 and (most < lengths).any():
            raise ValueError(
                f"one state does not follow itself, so max_duration={self._longest(task)} cannot "
                f"cover a sequence of {lengths.max():.0f} rows; begin with more states, or leave "
                "max_duration open"
            )
        work = float((lengths * most).sum()) * task.n_components
        if work > MOST_WORK:
            raise ValueError(
                f"exact durations take rows x longest segment x states = {work:.2g} steps a lap, "
                f"more than {MOST_WORK:.0g}; give max_duration, or use "
                "duration_inference='embedded', whose time is linear in the rows"
            )

    def _check_labels(self, task: Task) -> None:
        """Raise ValueError for labels with a segment longer than max_duration."""
        longest, table = self._longest(task), task.table
        if longest is None or self.duration_inference != "exact":
            return
        assert isinstance(table, Stack)
        assert task.legal is not None
        only = task.legal.argmax(1)
        states = np.where((task.legal > 0).sum(1) == 1, only, -1)[table.sets]
        found = segments_of(states, table.shape.offsets)
        length = found.end - found.begin
        bad = np.flatnonzero((length > longest) & (found.state >= 0))
        if len(bad):
            s = int(found.unit[bad[0]])
            begin, end = (int(v[bad[0]] - table.shape.offsets[s]) for v in (found.begin, found.end))
            raise ValueError(
                f"labels of sequence {s} have a segment of {end - begin} rows ({begin} to "
                f"{end - 1}), but max_duration={longest}"
            )

    # ------------------------------------------------------------------------------------ learned

    @property
    def durations_(self) -> Durations:
        """Lengths of the segments of each state: mean, std, quantiles, and all probabilities."""
        return summarize_lengths(self._require_fitted())

    @property
    def duration_parameters_(self) -> dict[str, Array]:
        """Posterior means of the parameters of the duration law by name, states first."""
        fitted = self._require_fitted()
        assert isinstance(fitted.model.prior, SegmentCounts)
        return fitted.model.prior.lengths.describe(fitted.counts)

    def _mean_durations(self) -> Array:
        return self.durations_.mean

    def _stays(self) -> dict[str, Any]:
        return {"laws": self.durations_.probability}

    # ------------------------------------------------------------------------------------ answers

    def predict_segments(
        self,
        X: Rows,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        context: Values = None,
        change_points: Any = None,
        method: str = "viterbi",
        parameters: str = "fitted",
    ) -> Segments:
        """The segments of each sequence.

        Parameters
        ----------
        X, lengths, sequence_id, context, parameters : as in `predict`.
        change_points : as in `fit`.
        method : "viterbi", the most probable segmentation as a whole; "marginal", runs of rows
            whose most probable states are the same.

        Returns
        -------
        Segments, a table of arrays: sequence, start, end, state, length.

        Examples
        --------
        >>> import numpy as np, stickbreak as sb
        >>> rng = np.random.default_rng(0)
        >>> X = np.repeat([-5.0, 5.0, -5.0], [20, 30, 10])[:, None] + rng.normal(size=(60, 1))
        >>> found = sb.HSMM(2, random_state=0).fit(X).predict_segments(X)
        >>> found.start.tolist(), found.length.tolist()
        ([0, 20, 50], [20, 30, 10])
        """
        check_method(method)
        given = self._given(
            X, lengths=lengths, sequence_id=sequence_id, context=context,
            change_points=change_points,
        )  # fmt: skip
        fitted, table = self._use(given)
        potentials = self._potentials_of(fitted, parameters)
        with workers(self.n_jobs) as pool:
            if method == "viterbi":
                states = fitted.model.best_paths(potentials, table.whole(), pool)[0]
            else:
                states = self._decode(fitted, potentials, table.whole(), pool)
        shape = replace(table.shape, is_list=False)
        found = segments_of(shape.answer(states), shape.given_offsets)
        first = shape.given_offsets[found.unit]
        begin, end = found.begin - first, found.end - first
        return Segments(found.unit, begin, end, found.state, end - begin)

    def predict_remaining(
        self,
        X: Rows,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        context: Values = None,
        change_points: Any = None,
    ) -> Array:
        """How many rows of the last segment of each sequence are still to come.

        (S, D) probabilities of 0, 1, ..., D - 1 rows, given all rows of the sequence, under the
        posterior predictive of lengths and rows.

        Parameters
        ----------
        X, lengths, sequence_id, context : as in `fit`.
        change_points : as in `fit`; after the last row segments may begin anywhere.
        """
        given = self._given(
            X, lengths=lengths, sequence_id=sequence_id, context=context,
            change_points=change_points,
        )  # fmt: skip
        fitted, table, potentials = ask(self, "mean", given)
        ages, duration, _ = last_ages(fitted, potentials, table)
        return rest_of_segments(ages, duration)

    def online_filter(self) -> SegmentFilter:
        """Make a filter for a sequence that is still growing: one row at a time.

        Returns
        -------
        SegmentFilter, whose `update(x)` gives the probabilities of the states now and the log
        predictive density of x, and whose `remaining` those of the rows to come of the present
        segment.
        """
        fitted = self._require_fitted()
        potentials = explicit(fitted, self._potentials_of(fitted, "mean"))[1]
        return SegmentFilter(fitted, potentials, self._dictionary(fitted.schema, fitted.ids))

    def forecast(
        self,
        X: Rows,
        horizon: int = 1,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        context: Values = None,
        change_points: Any = None,
    ) -> Forecast:
        """What comes after the last row of each sequence.

        The age of the last segment tells when it ends; then states follow posterior mean
        transitions. What to expect of a row is its mean, for `Categorical` the most probable
        symbol.

        Parameters
        ----------
        X, lengths, sequence_id, context : as in `fit`.
        change_points : as in `predict_remaining`.
        horizon : how many rows ahead.

        Returns
        -------
        Forecast, with the probabilities `states` (S, horizon, K) and the `rows` (S, horizon, D) of
        S sequences.
        """
        require_whole(horizon=horizon)
        given = self._given(
            X, lengths=lengths, sequence_id=sequence_id, context=context,
            change_points=change_points,
        )  # fmt: skip
        fitted, table, potentials = ask(self, "mean", given)
        with workers(self.n_jobs) as pool:
            return forecast_segments(fitted, potentials, table, horizon, pool)


def _companion(points: Any, shape: Shape) -> Companion:
    """Where segments may begin, as positions of the modeled rows."""
    is_nested = len(points) > 0 and np.ndim(points[0]) > 0
    lengths = np.diff(shape.given_offsets)
    found = check_change_points(list(points) if is_nested else [points], lengths)
    if not shape.n_before:
        return found
    moved = [np.unique(np.maximum(found.of(s) - shape.n_before, 0)) for s in range(len(lengths))]
    return check_change_points(moved, np.diff(shape.offsets))
