"""What comes next in a chain, and how long its states last: methods of its estimators."""

from __future__ import annotations

import numpy as np

from stickbreak.inference import workers
from stickbreak.parameters import require_whole
from stickbreak.reading import Rows, Values
from stickbreak.stats import Array

from .forecasts import Forecast, OnlineFilter, forecast_rows
from .given_sequences import ask
from .sequence_fits import SequenceEstimator

__all__ = ["filter_chain", "forecast_chain", "long_run_shares", "stay_lengths"]


def filter_chain(self: SequenceEstimator) -> OnlineFilter:
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


def forecast_chain(
    self: SequenceEstimator,
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
    given = self._given(X, lengths=lengths, sequence_id=sequence_id, context=context)
    fitted, table, potentials = ask(self, "mean", given)
    with workers(self.n_jobs) as pool:
        return forecast_rows(fitted, potentials, table, horizon, pool)


def stay_lengths(self: SequenceEstimator) -> Array:
    """(K,) expected rows of a stay in each state, 1 / (1 - transmat_[k, k]).

    Stays are geometric.
    """
    with np.errstate(divide="ignore"):  # a state that is never left
        return 1.0 / (1.0 - np.diagonal(self.transmat_))


def long_run_shares(self: SequenceEstimator) -> Array:
    """(K,) shares of rows in the long run: p with p transmat_ = p.

    If there are several, the one reached from startprob_.
    """
    return _stationary(self.transmat_, self.startprob_)


def _stationary(transition: Array, start: Array) -> Array:
    """Solve p (P - 1) = 0, sum(p) = 1."""
    K = len(start)
    system, right = np.vstack([transition.T - np.eye(K), np.ones(K)]), np.r_[np.zeros(K), 1.0]
    found, _, rank, _ = np.linalg.lstsq(system, right, rcond=1e-12)
    if rank < K:  # several closed classes: take the average over a very long time
        rate = 1e-9
        found = np.asarray(rate * np.linalg.solve((np.eye(K) - (1.0 - rate) * transition).T, start))
    found = np.maximum(found, 0.0)
    return np.asarray(found / found.sum())
