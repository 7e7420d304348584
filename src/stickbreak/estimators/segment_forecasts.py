"""What segments tell of rows to come: how long the present one lasts, and what follows it.

The state of a row is not enough: how long a segment goes on depends on its age, the rows it has
had. So what is known of a sequence is a table (K, D): p(state, age | rows so far).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from stickbreak.kernels.semimarkov.online import filter_step, remaining
from stickbreak.models import Model, ModelPotentials
from stickbreak.priors.segments import SegmentCounts
from stickbreak.protocols import Pool
from stickbreak.reading import Stack
from stickbreak.stats import Array
from stickbreak.structures import SemiMarkov

from .fitted import Fitted
from .forecasts import Filtered, Forecast, OnlineFilter

__all__ = [
    "Durations", "SegmentFilter", "Segments", "explicit", "forecast_segments", "last_ages",
    "rest_of_segments", "summarize_lengths",
]  # fmt: skip

LOST = 1e-6  # probability of longer segments that a table of lengths may leave out
MOST_LENGTHS = 1 << 14  # of such a table
QUANTILES = (0.05, 0.5, 0.95)


class Segments(NamedTuple):
    """Segments of sequences, one after another; `pandas.DataFrame(found._asdict())` is a frame.

    sequence : (N,) which sequence
    start, end : (N,) first row within the sequence, and the row after the last
    state, length : (N,) the state, and the number of rows
    """

    sequence: Array
    start: Array
    end: Array
    state: Array
    length: Array


class Durations(NamedTuple):
    """Lengths of the segments of each state, by the posterior predictive.

    mean, std, low, median, high : (K,) moments, and the quantiles 5, 50 and 95 %, in rows
    segments : (K,) expected number of training segments
    probability : (K, D) of the lengths 1, ..., D
    """

    mean: Array
    std: Array
    low: Array
    median: Array
    high: Array
    segments: Array
    probability: Array


def length_table(fitted: Fitted) -> Array:
    """(K, D) probabilities of lengths, D large enough to lose next to nothing."""
    prior = _prior(fitted.model)
    n = 64
    while True:
        found = prior.lengths.table(fitted.counts, n)
        if found.shape[1] < n or n >= MOST_LENGTHS or found.sum(1).min() > 1.0 - LOST:
            return found
        n *= 2


def summarize_lengths(fitted: Fitted) -> Durations:
    """The durations of a fitted model."""
    probability = length_table(fitted)
    lengths, shares = np.arange(1.0, probability.shape[1] + 1), _normalized(probability)
    mean = shares @ lengths
    std = np.sqrt(np.maximum(shares @ lengths**2 - mean**2, 0.0))
    ends = shares.cumsum(1)
    low, median, high = (1.0 + (ends < q).sum(1) for q in QUANTILES)
    segments = _prior(fitted.model).lengths.segments(fitted.counts)
    return Durations(mean, std, low, median, high, np.array(segments), probability)


def _normalized(probability: Array) -> Array:
    return np.asarray(probability / probability.sum(1, keepdims=True))


def _prior(model: Model) -> SegmentCounts:
    assert isinstance(model.prior, SegmentCounts)
    return model.prior


def explicit(fitted: Fitted, potentials: ModelPotentials) -> tuple[Model, ModelPotentials]:
    """Model and predictive potentials with a table of lengths, whatever form was fitted."""
    if "duration" in potentials.tables:
        return fitted.model, potentials
    with np.errstate(divide="ignore"):  # lengths that underflow
        duration = np.log(length_table(fitted))
    model = replace(fitted.model, structure=SemiMarkov())
    tables = {name: potentials[name] for name in ("start", "transition")}
    return model, replace(potentials, tables={**tables, "duration": duration})


def last_ages(
    fitted: Fitted, potentials: ModelPotentials, table: Stack
) -> tuple[list[Array], Array, Array]:
    """(K, D) p(state, age) at the last row of each sequence; duration (K, D), transition (K, K)."""
    model, tables = explicit(fitted, potentials)
    structure, batch = model.structure, table.whole()
    assert isinstance(structure, SemiMarkov)
    found: list[Array] = []
    for block in batch.blocks(model.block_rows(len(tables["start"]))):
        ready = block.with_rows(model.family.prepare(block.rows))
        found += list(structure.ages(tables, ready))
    return found, np.exp(tables["duration"]), np.exp(tables["transition"])


def rest_of_segments(ages: list[Array], duration: Array) -> Array:
    """(S, D) p(rows that are still to come of the last segment = 0, ..., D - 1)."""
    with np.errstate(divide="ignore"):
        log_duration = np.log(duration)
        return np.stack([remaining(np.log(each), log_duration).sum(0) for each in ages])


def forecast_segments(
    fitted: Fitted, potentials: ModelPotentials, table: Stack, horizon: int, pool: Pool
) -> Forecast:
    """Forecast after the last row of each sequence; see `HSMM.forecast`."""
    ages, duration, transition = last_ages(fitted, potentials, table)
    family: Any = fitted.model.family  # Any: families with lags have attributes of their own
    leaves = _hazards(duration)
    contexts = None
    if family.lags:
        contexts = table.rows[table.shape.offsets[1:] - 1, : family.n_context]
    states: list[Array] = []
    rows: list[Any] = []
    for s, known in enumerate(ages):
        context = None if contexts is None else contexts[s]
        found = _walk(fitted, known, leaves, transition, context, horizon)
        states.append(found[0])
        rows.append(found[1])
    all_states = np.stack(states)
    if family.lags:
        return Forecast(all_states, np.stack(rows))
    flat = all_states.reshape(-1, all_states.shape[2])
    means = np.asarray(family.expected_rows(fitted.counts, flat))
    return Forecast(all_states, means.reshape(*all_states.shape[:2], -1))


def _hazards(duration: Array) -> Array:
    """(K, D) probability that a segment of age a ends there, given that it reached a."""
    reached = duration[:, ::-1].cumsum(1)[:, ::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(reached > 0, duration / reached, 1.0)
    found[:, -1] = 1.0  # no segment is longer
    return np.asarray(found)


def _walk(
    fitted: Fitted,
    ages: Array,
    leaves: Array,
    transition: Array,
    context: Array | None,
    horizon: int,
) -> tuple[Array, Array | None]:
    """States (H, K) after ages (K, D), and expected rows (H, D) of an autoregression.

    Beside the chance of every state and age goes the expected context there, times that chance:
    both move alike, and the values of an autoregression are linear in it.
    """
    held = ages[:, :, None] if context is None else ages[:, :, None] * np.r_[1.0, context]
    states, values = [], []
    for _ in range(horizon):
        leaving = np.einsum("ka,kae->ke", leaves, held)
        stays = held * (1.0 - leaves)[:, :, None]
        held = np.concatenate([(transition.T @ leaving)[:, None], stays[:, :-1]], axis=1)
        states.append(held[:, :, 0].sum(1))
        if context is not None:
            held, value = _successor(fitted, held)
            values.append(value)
    return np.stack(states), np.stack(values) if values else None


def _successor(fitted: Fitted, held: Array) -> tuple[Array, Array]:
    """Chances and contexts (K, D, 1 + E) with the next row as the latest, and its mean (D,)."""
    posterior = fitted.posterior()
    slope, offset = posterior["coefficients"], posterior.get("intercept")
    values = np.einsum("kde,kae->kad", slope, held[:, :, 1:])
    if offset is not None:
        values = values + held[:, :, :1] * offset[:, None, :]
    n = values.shape[2]
    return np.concatenate([held[:, :, :1], values, held[:, :, 1:-n]], axis=2), values.sum((0, 1))


class SegmentFilter(OnlineFilter):
    """Follow the state of a growing sequence, and the age of its segment, one row at a time.

    A step costs O(K (K + D)) for segments of up to D rows, and the family's evidence of one row.
    """

    def reset(self) -> SegmentFilter:
        """Begin a new sequence; returns self."""
        super().reset()
        self._log_ages: Array | None = None
        return self

    @property
    def probabilities(self) -> Array:
        """(K,) probabilities of the last row's states; before any row, of the first state."""
        if self._log_ages is None:
            return np.exp(self._potentials["start"])
        return np.exp(self._log_ages).sum(1)

    @property
    def remaining(self) -> Array:
        """(D,) probabilities that 0, 1, ... rows of the present segment are still to come."""
        if self._log_ages is None:
            raise ValueError("no row was seen yet; call update first")
        return np.asarray(remaining(self._log_ages, self._potentials["duration"]).sum(0))

    def _advance(self, evidence: Array) -> Filtered:
        tables = (self._potentials[name] for name in ("start", "transition", "duration"))
        self._log_ages, log_step = filter_step(self._log_ages, evidence, *tables)
        return Filtered(self.probabilities, float(log_step))
