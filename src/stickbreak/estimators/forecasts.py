"""What comes next in a sequence: forecasts, and a filter that takes one row at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stickbreak.kernels.chain.paths import filter_step
from stickbreak.stats import Array, Summary

from .dictionaries import Dictionary
from .frames import read_text

__all__ = ["Filtered", "Forecast", "OnlineFilter", "expect_rows", "predict_states"]


class Forecast(NamedTuple):
    """States (S, H, K): probabilities of the states in the H rows after each of S sequences. rows
    (S, H, D): what to expect there.

    For `Categorical`, rows holds the most probable symbols; for all other families, means.
    """

    states: Array
    rows: Array


class Filtered(NamedTuple):
    """Probabilities (K,) of the states now, and the log predictive density of the row that came
    last, given those before it.
    """

    probabilities: Array
    log_predictive: float


def predict_states(last: Array, transition: Array, horizon: int) -> Array:
    """(S, H, K) probabilities of the states 1 to H rows after those of `last` (S, K)."""
    found = [last @ transition]
    for _ in range(horizon - 1):
        found.append(found[-1] @ transition)
    return np.stack(found, axis=1)


def expect_rows(family: Any, counts: Summary, states: Array) -> Array:
    """(S, H, D) what the family expects of rows with these probabilities (S, H, K) of states, each
    row on its own.
    """
    flat = states.reshape(-1, states.shape[2])
    nothing = np.full((len(flat), family.n_columns), np.nan)
    return np.asarray(family.impute(counts, nothing, flat)).reshape(*states.shape[:2], -1)


def expect_successors(
    posterior: Mapping[str, Array], last: Array, transition: Array, contexts: Array, horizon: int
) -> Array:
    """(S, H, D) means of the rows that follow contexts (S, E), states `last` (S, K) before them.

    Exact for coefficients at their posterior means: E[context, state = k] goes from row to row, and
    values are linear in it.
    """
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


class OnlineFilter:
    """What is known of a growing sequence's state: give it one row at a time; see
    `HMM.online_filter`.

    A step costs O(K^2) and the family's judgement of one row; nothing of the past is kept but K
    numbers and, for autoregressions, the rows that the next one needs.
    """

    def __init__(
        self,
        model: Any,
        potentials: Any,
        categories: Mapping[Any, list[Any]],
        n_features: int,
        dictionary: Dictionary | None,
    ) -> None:
        self._family, self._potentials = model.family, potentials
        self._categories, self._n_features, self._dictionary = categories, n_features, dictionary
        self.reset()

    def reset(self) -> OnlineFilter:
        """Begin a new sequence; returns self."""
        self._log_message: Array | None = None
        self._past: list[Array] = []
        return self

    @property
    def probabilities(self) -> Array:
        """(K,) of the states of the last row; before the first one, of where sequences start."""
        known = self._potentials["start"] if self._log_message is None else self._log_message
        return np.exp(known)

    def update(self, x: Any) -> Filtered:
        """Take the next row.

        Parameters
        ----------
        x : (D,) values, NaN where missing; a single symbol may be given as it is. The first rows of
            an autoregression, as many as its order, are context only: probabilities stay those of
            the start, and log_predictive is NaN.

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
        tables = self._potentials["start"], self._potentials["transition"]
        self._log_message, log_step = filter_step(self._log_message, evidence, *tables)
        return Filtered(np.exp(self._log_message), log_step)

    def _read(self, x: Any) -> Array:
        """(1, D) the row as numbers."""
        row = np.asarray(x, dtype=object if isinstance(x, str) else None).reshape(1, -1)
        if row.shape[1] != self._n_features:
            raise ValueError(
                f"the row has {row.shape[1]} values, but the model expects {self._n_features}"
            )
        if row.dtype.kind in "OUT":
            row, _ = read_text(row, self._family.readers(self._n_features), self._categories)
        row = row.astype(float)
        if np.isinf(row).any() or (self._family.missing == "refused" and np.isnan(row).any()):
            raise ValueError(f"the row holds {row[~np.isfinite(row)][0]}; values must be finite")
        return row
