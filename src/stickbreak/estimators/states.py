"""What a fitted chain says of the states of rows, and of what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.inference import workers

from .forecasts import OnlineFilter

__all__ = ["States"]

METHODS = ("marginal", "viterbi")


class States:
    """`predict`, `decode`, `predict_proba`, `filter_proba`, `online_filter`, `impute`."""

    if TYPE_CHECKING:  # of the estimator

        def __getattr__(self, name: str) -> Any: ...

    def predict(
        self,
        X: Any,
        *,
        lengths: Any = None,
        sequence_id: Any = None,
        context: Any = None,
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
        which are context only, get the state of the first row that is modelled.
        """
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
        if method == "viterbi":
            return self.decode(
                X, lengths=lengths, sequence_id=sequence_id, context=context, parameters=parameters
            )[1]
        table, potentials = (
            self._use(X, lengths, sequence_id, context),
            self._potentials_of(parameters),
        )
        with workers(self.n_jobs) as pool:
            return table.shape.answer(self._decode(table, potentials, pool))

    def decode(
        self,
        X: Any,
        *,
        lengths: Any = None,
        sequence_id: Any = None,
        context: Any = None,
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
        table, potentials = (
            self._use(X, lengths, sequence_id, context),
            self._potentials_of(parameters),
        )
        with workers(self.n_jobs) as pool:
            path, value = self._model.best_paths(potentials, table.whole(), pool)
        return float(value.sum()), table.shape.answer(path)

    def predict_proba(
        self,
        X: Any,
        *,
        lengths: Any = None,
        sequence_id: Any = None,
        context: Any = None,
        parameters: str = "fitted",
    ) -> Any:
        """Posterior probability of each state for each row, given the whole sequence: (n, K), or a
        list of (T, K).

        Parameters
        ----------
        X, lengths, sequence_id, context, parameters : as in `predict`; after `HardEM`, the best
            path has probability one.
        """
        table, potentials = (
            self._use(X, lengths, sequence_id, context),
            self._potentials_of(parameters),
        )
        model = self._rule.local_model(self._model)
        with workers(self.n_jobs) as pool:
            return table.shape.answer(model.shares(potentials, table.whole(), pool))

    def filter_proba(
        self, X: Any, *, lengths: Any = None, sequence_id: Any = None, context: Any = None
    ) -> Any:
        """Probability of each state for each row, given the rows up to it and not those after: (n,
        K), or a list of (T, K).

        Posterior mean transitions, and the posterior predictive of rows. `online_filter` gives the
        same, row by row.

        Parameters
        ----------
        X, lengths, sequence_id, context : as in `fit`.
        """
        table, potentials = self._use(X, lengths, sequence_id, context), self._potentials_of("mean")
        with workers(self.n_jobs) as pool:
            return table.shape.answer(self._model.filter(potentials, table.whole(), pool))

    def online_filter(self) -> OnlineFilter:
        """A filter for a sequence that is still growing: one row at a time, O(K^2) each.

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
        self._require_fitted()
        return OnlineFilter(
            self._model,
            self._potentials_of("mean"),
            self.categories_,
            int(self.n_features_in_),
            self._dictionary(),
        )

    def impute(
        self, X: Any, *, lengths: Any = None, sequence_id: Any = None, context: Any = None
    ) -> Any:
        """The rows with missing entries replaced by their posterior means under the fitted model:
        (n, D), or a list of (T, D).

        A mean is taken over the states, weighted as in `predict_proba`: rows before and after a gap
        say which state it was in. Values of an autoregression are filled where their context is
        complete.

        Parameters
        ----------
        X, lengths, sequence_id, context : as in `fit`.
        """
        table = self._use(X, lengths, sequence_id, context)
        model, shape = self._rule.local_model(self._model), table.shape
        with workers(self.n_jobs) as pool:
            found = np.asarray(
                model.impute(self._potentials_of("fitted"), self._counts, table.whole(), pool)
            )[:, : self.n_features_in_]
        if not shape.n_before:
            return shape.split(found)
        D = found.shape[1]
        # contexts have the latest row first
        first = table.rows[shape.offsets[:-1], D:].reshape(-1, shape.n_before, D)[:, ::-1]
        whole = np.empty((shape.n_given, D))
        whole[shape.is_modelled], whole[~shape.is_modelled] = found, first.reshape(-1, D)
        return shape.split(whole)
