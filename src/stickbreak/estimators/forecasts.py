"""Answers about unseen data: forecasts, gaps, drawn sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stickbreak.kernels.chain.paths import filter_step
from stickbreak.models import ModelPotentials
from stickbreak.parameters import require_whole
from stickbreak.protocols import Pool
from stickbreak.reading import Dictionary, Shape, Stack, read_row
from stickbreak.stats import Array

from .fitted import Fitted

__all__ = [
    "Filtered", "Forecast", "OnlineFilter", "draw_sequences", "fill_gaps", "forecast_rows",
]  # fmt: skip


class Forecast(NamedTuple):
    """Expected states and rows after each of S sequences.

    states : (S, H, K) probabilities of the states in the next H rows
    rows : (S, H, D) means of these rows; for `Categorical` the most probable symbols
    """

    states: Array
    rows: Array


class Filtered(NamedTuple):
    """Knowledge of a sequence's present state.

    probabilities : (K,) of the states
    log_predictive : log predictive density of the last row, given those before it
    """

    probabilities: Array
    log_predictive: float


def forecast_rows(
    fitted: Fitted, potentials: ModelPotentials, table: Stack, horizon: int, pool: Pool
) -> Forecast:
    """Forecast after the last row of each sequence; see `HMM.forecast`."""
    last = fitted.model.filter_last(potentials, table.whole(), pool)
    family: Any = fitted.model.family  # Any: families with lags have attributes of their own
    transition = np.exp(potentials["transition"])
    found = [last @ transition]
    for _ in range(horizon - 1):
        found.append(found[-1] @ transition)
    states = np.stack(found, axis=1)
    if family.lags:
        contexts = table.rows[table.shape.offsets[1:] - 1, : family.n_context]
        return Forecast(states, _expect_successors(fitted, last, transition, contexts, horizon))
    rows = np.asarray(family.expected_rows(fitted.counts, states.reshape(-1, states.shape[2])))
    return Forecast(states, rows.reshape(*states.shape[:2], -1))


def _expect_successors(
    fitted: Fitted, last: Array, transition: Array, contexts: Array, horizon: int
) -> Array:
    """(S, H, D) means of the rows after contexts (S, E) and states with probabilities (S, K).

    Exact for coefficients at their posterior means: E[context, state = k] goes from row to row, and
    values are linear in it.
    """
    posterior = fitted.posterior()
    slope, offset = posterior["coefficients"], posterior.get("intercept", 0.0)
    D = slope.shape[1]
    held, chance, found = last[:, :, None] * contexts[:, None, :], last, []
    for _ in range(horizon):
        chance = chance @ transition
        held = np.einsum("sie,ij->sje", held, transition)
        values = np.einsum("kde,ske->skd", slope, held) + chance[:, :, None] * offset
        found.append(values.sum(1))
        held = np.concatenate([values, held[:, :, :-D]], axis=2)
    return np.stack(found, axis=1)


def fill_gaps(fitted: Fitted, potentials: ModelPotentials, table: Stack, pool: Pool) -> Any:
    """Rows with their missing entries filled; see `HMM.impute`."""
    D, shape = fitted.schema.n_features, table.shape
    found = fitted.local_model.impute(potentials, fitted.counts, table.whole(), pool)
    found = np.asarray(found)[:, :D]
    if not shape.n_before:
        return shape.split(found)
    # contexts have the latest row first
    first = table.rows[shape.offsets[:-1], D:].reshape(-1, shape.n_before, D)[:, ::-1]
    whole = np.empty((shape.n_given, D))
    whole[shape.is_modelled], whole[~shape.is_modelled] = found, first.reshape(-1, D)
    return shape.split(whole)


def draw_sequences(
    fitted: Fitted,
    potentials: ModelPotentials,
    lengths: Sequence[int],
    rng: np.random.Generator,
    *,
    is_list: bool,
) -> tuple[Any, Any]:
    """Rows and states of sequences of these lengths; see `HMM.sample`."""
    for length in lengths:
        require_whole(length=length)
    family, lags = fitted.model.family, fitted.model.family.lags
    if min(lengths, default=0) <= lags:
        raise ValueError(
            f"lengths must be above the order {lags} of the autoregression; got "
            f"{min(lengths, default=0)}"
        )
    offsets = np.r_[0, np.cumsum(np.array(lengths) - lags)].astype(np.int64)
    shape = Shape(offsets, lags, is_list)
    states = fitted.model.structure.walk(potentials, offsets, rng)
    if lags:
        rows = _draw_successors(fitted, states, shape, rng)
    else:
        rows = family.sample(fitted.counts, states, rng)
    return shape.split(rows), shape.answer(states)


def _draw_successors(
    fitted: Fitted, states: Array, shape: Shape, rng: np.random.Generator
) -> Array:
    """(n_given, D) autoregressions that begin with contexts like those of the first state."""
    family: Any = fitted.model.family
    found, D = family.successors(fitted.counts), fitted.schema.n_features
    contexts, parts = found.draw_contexts(states[shape.offsets[:-1]], rng), []
    for s, context in enumerate(contexts):
        path = found.draw_path(states[shape.offsets[s] : shape.offsets[s + 1]], context, rng)
        parts += [context.reshape(-1, D)[::-1], path]
    return np.concatenate(parts)


class OnlineFilter:
    """Follow the state of a growing sequence, one row at a time; see `HMM.online_filter`.

    A step costs O(K^2), and the family's evidence of one row. Nothing of the past is kept but K
    numbers and, for autoregressions, the rows that the next one needs.
    """

    def __init__(
        self, fitted: Fitted, potentials: ModelPotentials, dictionary: Dictionary | None
    ) -> None:
        self._family, self._schema = fitted.model.family, fitted.schema
        self._potentials, self._dictionary = potentials, dictionary
        self.reset()

    def reset(self) -> OnlineFilter:
        """Begin a new sequence; returns self."""
        self._log_message: Array | None = None
        self._past: list[Array] = []
        return self

    @property
    def probabilities(self) -> Array:
        """(K,) probabilities of the last row's states; before any row, of the first state."""
        known = self._potentials["start"] if self._log_message is None else self._log_message
        return np.exp(known)

    def update(self, x: Any) -> Filtered:
        """Take the next row.

        Parameters
        ----------
        x : (D,) values, NaN where missing; a single symbol may be given as it is. A row of a data
            frame or file may hold words: a tuple, list, dict, Series or frame of one row. The
            first rows of an autoregression, as many as its order, are context only: probabilities
            stay those of the start, and log_predictive is NaN.

        Returns
        -------
        Filtered
            probabilities (K,), log_predictive.
        """
        row, lags = self._read(x), self._family.lags
        if lags:
            self._past = [row, *self._past][: lags + 1]
            if len(self._past) <= lags:
                return Filtered(self.probabilities, np.nan)
            row = np.concatenate(self._past, axis=1)
        self._family.check_rows(row)
        evidence = np.ascontiguousarray(
            self._potentials.scores.evidence(self._family.prepare(row))[0]
        )
        if self._dictionary is not None:
            evidence = evidence + self._dictionary.log_legal[self._dictionary.sets(row)[0]]
        return self._advance(evidence)

    def _advance(self, evidence: Array) -> Filtered:
        """One step, by the log evidence (K,) of a row."""
        tables = self._potentials["start"], self._potentials["transition"]
        self._log_message, log_step = filter_step(self._log_message, evidence, *tables)
        return Filtered(np.exp(self._log_message), log_step)

    def _read(self, x: Any) -> Array:
        """(1, D) the row as numbers."""
        n = self._schema.n_features
        if isinstance(x, np.ndarray) and x.dtype.kind in "fiu" and x.size == n:
            row = x.reshape(1, -1).astype(float)
        else:
            row = read_row(
                x,
                self._family.readers(n),
                self._schema,
                takes_unknown=self._dictionary is not None,
            )
        if np.isinf(row).any() or (self._family.missing == "refused" and np.isnan(row).any()):
            raise ValueError(f"the row holds {row[~np.isfinite(row)][0]}; values must be finite")
        return row
