"""Answers of a fitted chain about rows: their states, their density, and what comes next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from stickbreak.inference import workers
from stickbreak.models import ModelPotentials
from stickbreak.parameters import require_whole
from stickbreak.reading import Given, Rows, Stack, Values
from stickbreak.stats import Array

from .base import RandomState
from .fitted import Fitted
from .forecasts import Forecast, OnlineFilter, draw_sequences, fill_gaps, forecast_rows
from .sequence_fits import SequenceEstimator

__all__ = ["SequenceModel"]

METHODS = ("marginal", "viterbi")


class SequenceModel(SequenceEstimator):
    """Answers of hidden Markov chains: `predict`, `score`, `forecast` and others."""

    def _ask(
        self, parameters: str, X: Rows, lengths: Values, sequence_id: Values, context: Values
    ) -> tuple[Fitted, Stack, ModelPotentials]:
        """The fitted model, the sequences read for it, and the potentials to use."""
        given = self._given(X, lengths=lengths, sequence_id=sequence_id, context=context)
        fitted, table = self._use(given)
        return fitted, table, self._potentials_of(fitted, parameters)

    def predict(
        self,
        X: Rows,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        context: Values = None,
        method: str = "marginal",
        parameters: str = "fitted",
    ) -> Any:
        """State of each row, 0..K-1; `component_ids_` maps them to permanent ids.

        Parameters
        ----------
        X, lengths, sequence_id, context : as in `fit`.
        method : "marginal", the most probable state of each row by itself (after `HardEM`, that of
            the best path); "viterbi", the states of the most probable path as a whole, as `decode`
            has it.
        parameters : "fitted", the potentials of the fitted rule (variational Bayes: expected logs;
            EM: modes), so that `fit(X).labels_` equals `predict(X)` for rows without labels;
            "mean", posterior mean transitions and the posterior predictive of rows.

        Returns
        -------
        (n,) array, or a list of (T,) arrays where X is a list. The first rows of an autoregression,
        which are context only, get the state of the first row that is modeled.
        """
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
        if method == "viterbi":
            return self.decode(
                X, lengths=lengths, sequence_id=sequence_id, context=context, parameters=parameters
            )[1]
        fitted, table, potentials = self._ask(parameters, X, lengths, sequence_id, context)
        with workers(self.n_jobs) as pool:
            return table.shape.answer(self._decode(fitted, potentials, table.whole(), pool))

    def decode(
        self,
        X: Rows,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        context: Values = None,
        parameters: str = "fitted",
    ) -> tuple[float, Any]:
        """The most probable path of each sequence (Viterbi), and its log probability.

        Parameters
        ----------
        X, lengths, sequence_id, context, parameters : as in `predict`.

        Returns
        -------
        log probability : of rows and path together, log p(x, z), summed over sequences. With the
            potentials of variational Bayes it is the expected log of that.
        states : as `predict` gives them.
        """
        fitted, table, potentials = self._ask(parameters, X, lengths, sequence_id, context)
        with workers(self.n_jobs) as pool:
            path, value = fitted.model.best_paths(potentials, table.whole(), pool)
        return float(value.sum()), table.shape.answer(path)

    def predict_proba(
        self,
        X: Rows,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        context: Values = None,
        parameters: str = "fitted",
    ) -> Any:
        """Probability of each state for each row, given its whole sequence.

        (n, K), or a list of (T, K).

        Parameters
        ----------
        X, lengths, sequence_id, context, parameters : as in `predict`; after `HardEM`, the best
            path has probability one.
        """
        fitted, table, potentials = self._ask(parameters, X, lengths, sequence_id, context)
        with workers(self.n_jobs) as pool:
            shares = fitted.local_model.shares(potentials, table.whole(), pool)
        return table.shape.answer(shares)

    def filter_proba(
        self, X: Rows, *, lengths: Values = None, sequence_id: Values = None, context: Values = None
    ) -> Any:
        """Probability of each state for each row, given the rows up to it.

        (n, K), or a list of (T, K). Uses posterior mean transitions and the posterior predictive of
        rows. `online_filter` gives the same, row by row.

        Parameters
        ----------
        X, lengths, sequence_id, context : as in `fit`.
        """
        fitted, table, potentials = self._ask("mean", X, lengths, sequence_id, context)
        with workers(self.n_jobs) as pool:
            return table.shape.answer(fitted.model.filter(potentials, table.whole(), pool))

    def online_filter(self) -> OnlineFilter:
        """Make a filter for a sequence that is still growing: one row at a time, O(K^2) each.

        Returns
        -------
        OnlineFilter, whose `update(x)` gives the probabilities of the states now and the log
        predictive density of x.

        Examples
        --------
        >>> import numpy as np, stickbreak as sb
        >>> rng = np.random.default_rng(0)
        >>> X = np.repeat([-5.0, 5.0, -5.0, 5.0], 50)[:, None] + rng.normal(size=(200, 1))
        >>> model = sb.HMM(2, random_state=0).fit(X)
        >>> now = model.online_filter()
        >>> for x in X[:60]:
        ...     found = now.update(x)
        >>> bool(found.probabilities.argmax() == model.predict(X)[59])
        True
        """
        fitted = self._require_fitted()
        potentials = self._potentials_of(fitted, "mean")
        return OnlineFilter(fitted, potentials, self._dictionary(fitted.schema, fitted.ids))

    def impute(
        self, X: Rows, *, lengths: Values = None, sequence_id: Values = None, context: Values = None
    ) -> Any:
        """Fill missing entries with their posterior means: (n, D), or a list of (T, D).

        A mean is taken over the states, weighted as in `predict_proba`: rows before and after a gap
        tell its state. Values of an autoregression are filled if their context is complete.

        Parameters
        ----------
        X, lengths, sequence_id, context : as in `fit`.
        """
        fitted, table, potentials = self._ask("fitted", X, lengths, sequence_id, context)
        with workers(self.n_jobs) as pool:
            return fill_gaps(fitted, potentials, table, pool)

    def score_samples(
        self, X: Rows, *, lengths: Values = None, sequence_id: Values = None, context: Values = None
    ) -> Any:
        """Log predictive density of each row given those before it in its sequence.

        (n,), or a list of (T,). The family's parameters are integrated out (the posterior
        predictive of each row); transitions are posterior means. The sum over a sequence is its log
        density. A row that is missing as a whole scores 0. The first rows of an autoregression,
        which are context only, score NaN.

        Parameters
        ----------
        X, lengths, sequence_id, context : as in `fit`.
        """
        given = self._given(X, lengths=lengths, sequence_id=sequence_id, context=context)
        table, steps = self._log_steps(given)
        return table.shape.answer(steps, repeat_first=False)

    def _log_steps(self, given: Given) -> tuple[Stack, Array]:
        """Sequences, and the log density (n,) of each modeled row, not weighted."""
        fitted, table = self._use(given)
        potentials = self._potentials_of(fitted, "mean")
        batch = replace(table, repeats=None).whole()
        with workers(self.n_jobs) as pool:
            steps = fitted.model.log_steps(potentials, batch, pool)
        return table, np.asarray(steps, dtype=float)

    def score_sequences(
        self, X: Rows, *, lengths: Values = None, sequence_id: Values = None, context: Values = None
    ) -> Array:
        """(S,) log predictive density of each sequence: the sums of `score_samples`.

        Parameters
        ----------
        X, lengths, sequence_id, context : as in `fit`.
        """
        given = self._given(X, lengths=lengths, sequence_id=sequence_id, context=context)
        table, steps = self._log_steps(given)
        return np.add.reduceat(steps, table.shape.offsets[:-1])

    def score(
        self,
        X: Rows,
        y: Values = None,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        sample_weight: Values = None,
        context: Values = None,
    ) -> float:
        """Mean log predictive density per modeled row, in nats; see `score_samples`.

        Parameters
        ----------
        X, y, lengths, sequence_id, sample_weight, context : as in `fit`.
        """
        given = self._given(X, y, lengths=lengths, sequence_id=sequence_id, context=context)
        table, steps = self._log_steps(replace(given, sample_weight=sample_weight))
        return float(np.average(steps, weights=table.repeats))

    def forecast(
        self,
        X: Rows,
        horizon: int = 1,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        context: Values = None,
    ) -> Forecast:
        """What comes after the last row of each sequence.

        States follow posterior mean transitions. What to expect of a row is its mean, for
        `Categorical` the most probable symbol. Autoregressions go from row to row, and their means
        are exact for coefficients at their posterior means.

        Parameters
        ----------
        X, lengths, sequence_id, context : as in `fit`.
        horizon : how many rows ahead.

        Returns
        -------
        Forecast, with the probabilities `states` (S, horizon, K) and the `rows` (S, horizon, D) of
        S sequences.

        Examples
        --------
        >>> import numpy as np, stickbreak as sb
        >>> rng = np.random.default_rng(0)
        >>> X = np.tile(np.repeat([-5.0, 5.0], 4), 25)[:, None] + rng.normal(size=(200, 1))
        >>> found = sb.HMM(2, random_state=0).fit(X).forecast(X, 3)
        >>> found.states.shape, found.rows.shape
        ((1, 3, 2), (1, 3, 1))
        """
        require_whole(horizon=horizon)
        fitted, table, potentials = self._ask("mean", X, lengths, sequence_id, context)
        with workers(self.n_jobs) as pool:
            return forecast_rows(fitted, potentials, table, horizon, pool)

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None, *, lengths: Values = None
    ) -> tuple[Any, Any]:
        """Draw sequences: states by posterior mean transitions, rows by the posterior predictive.

        Parameters
        ----------
        n_samples : rows of one sequence.
        random_state : seed; default: the estimator's.
        lengths : (S,) rows of several sequences, in place of n_samples.

        Returns
        -------
        X (n, D) and states (n,); with `lengths`, two lists of them.
        """
        fitted = self._require_fitted()
        require_whole(n_samples=n_samples)
        wanted = [n_samples] if lengths is None else np.atleast_1d(np.asarray(lengths)).tolist()
        potentials, rng = self._potentials_of(fitted, "mean"), self._rng(random_state)
        return draw_sequences(fitted, potentials, wanted, rng, is_list=lengths is not None)
