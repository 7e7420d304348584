"""How probable rows are under a fitted chain, what comes next, and sequences drawn from it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.inference import workers
from stickbreak.parameters import require_whole
from stickbreak.stats import Array

from .forecasts import Forecast, expect_rows, expect_successors, predict_states
from .parts import make_seed
from .stacks import Shape, Stack
from .tables import Given

__all__ = ["Outlook"]


class Outlook:
    """`score_samples`, `score_sequences`, `score`, `forecast`, `sample`."""

    if TYPE_CHECKING:  # of the estimator

        def __getattr__(self, name: str) -> Any: ...

    def score_samples(
        self, X: Any, *, lengths: Any = None, sequence_id: Any = None, context: Any = None
    ) -> Any:
        """Log predictive density of each row given those before it in its sequence: (n,), or a list
        of (T,).

        The family's parameters are integrated out (the posterior predictive of each row),
        transitions are posterior means. The sum over a sequence is its log density. A row that is
        missing as a whole scores 0; the first rows of an autoregression, which are context only,
        NaN.

        Parameters
        ----------
        X, lengths, sequence_id, context : as in `fit`.
        """
        table = self._use(X, lengths, sequence_id, context)
        return table.shape.answer(self._log_steps(table), repeat_first=False)

    def _log_steps(self, table: Stack) -> Array:
        with workers(self.n_jobs) as pool:
            return np.asarray(
                self._model.log_steps(self._potentials_of("mean"), table.whole(), pool), dtype=float
            )

    def score_sequences(
        self, X: Any, *, lengths: Any = None, sequence_id: Any = None, context: Any = None
    ) -> Array:
        """(S,) log predictive density of each sequence: the sums of `score_samples`.

        Parameters
        ----------
        X, lengths, sequence_id, context : as in `fit`.
        """
        table = self._use(X, lengths, sequence_id, context)
        assert table.offsets is not None
        return np.add.reduceat(self._log_steps(table), table.offsets[:-1])

    def score(
        self,
        X: Any,
        y: Any = None,
        *,
        lengths: Any = None,
        sequence_id: Any = None,
        sample_weight: Any = None,
        context: Any = None,
    ) -> float:
        """Mean log predictive density per row, in nats, of the rows that are modelled; see
        `score_samples`.

        Parameters
        ----------
        X, y, lengths, sequence_id, sample_weight, context : as in `fit`.
        """
        table = self._use_given(Given(X, sample_weight, lengths, sequence_id, context))
        repeats, plain = table.repeats, replace(table, repeats=None)
        return float(np.average(self._log_steps(plain), weights=repeats))

    def forecast(
        self,
        X: Any,
        horizon: int = 1,
        *,
        lengths: Any = None,
        sequence_id: Any = None,
        context: Any = None,
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
        table, potentials = self._use(X, lengths, sequence_id, context), self._potentials_of("mean")
        assert table.offsets is not None
        with workers(self.n_jobs) as pool:
            last = self._model.filter_last(potentials, table.whole(), pool)
        transition, family = np.exp(potentials["transition"]), self._model.family
        states = predict_states(last, transition, horizon)
        if not family.lags:
            return Forecast(states, expect_rows(family, self._counts, states))
        contexts = table.rows[table.offsets[1:] - 1, : family.n_context]
        return Forecast(
            states, expect_successors(self.posterior_, last, transition, contexts, horizon)
        )

    def sample(
        self, n_samples: int = 1, random_state: Any = None, *, lengths: Any = None
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
        self._require_fitted()
        require_whole(n_samples=n_samples)
        wanted = [n_samples] if lengths is None else list(lengths)
        for length in wanted:
            require_whole(length=length)
        family, lags = self._model.family, self._model.family.lags
        if min(wanted, default=0) <= lags:
            raise ValueError(
                f"lengths must be above the order {lags} of the autoregression; got "
                f"{min(wanted, default=0)}"
            )
        shape = Shape(
            np.r_[0, np.cumsum(np.array(wanted) - lags)].astype(np.int64), lags, lengths is not None
        )
        rng = np.random.default_rng(
            make_seed(self.random_state if random_state is None else random_state)
        )
        states = self._model.structure.walk(self._potentials_of("mean"), shape.offsets, rng)
        if lags:
            return shape.split(self._draw_successors(states, shape, rng)), shape.answer(states)
        return shape.split(family.sample(self._counts, states, rng)), shape.answer(states)

    def _draw_successors(self, states: Array, shape: Shape, rng: np.random.Generator) -> Array:
        """(n_given, D) autoregressions that begin with contexts like those that the first state has
        seen.
        """
        found, D, parts = self._model.family.successors(self._counts), int(self.n_features_in_), []
        contexts = found.draw_contexts(states[shape.offsets[:-1]], rng)
        for s, context in enumerate(contexts):
            path = found.draw_path(states[shape.offsets[s] : shape.offsets[s + 1]], context, rng)
            parts += [context.reshape(-1, D)[::-1], path]
        return np.concatenate(parts)
