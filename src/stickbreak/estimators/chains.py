"""What estimators of sequences share: fit, predict, score and forecast over hidden Markov
chains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from stickbreak.inference import Start
from stickbreak.initialize import from_blocks, from_plusplus, from_random
from stickbreak.stats import Array

from .base import Estimator
from .dictionaries import Dictionary
from .outlook import Outlook
from .parts import make_family
from .stacks import Shape, Stack, lagged_names, make_stack, stack_values
from .states import States
from .tables import Given, join_sets
from .views import choose_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ChainEstimator"]

CANDIDATES = 10  # blocks to choose from for each state
SUMMARIES = ("fitted", "mean")
# what searches and cross-validation pass on by themselves, split with the rows
ROUTED = {"sequence_id": True}


class ChainEstimator(States, Outlook, Estimator):
    """fit, predict and score for sequences of rows."""

    INITS = ("blocks", "random-blocks", "k-means++", "random")
    _noun = "state"
    __metadata_request__fit: ClassVar = ROUTED
    __metadata_request__partial_fit: ClassVar = ROUTED
    __metadata_request__predict: ClassVar = ROUTED
    __metadata_request__predict_proba: ClassVar = ROUTED
    __metadata_request__score: ClassVar = ROUTED

    # ------------------------------------------------------------------------------------------ fit

    def _make_table(self, given: Given, family: Any, *, reset: bool) -> Stack:
        return make_stack(self, given, family, reset=reset)

    def _row_labels(self, labels: Any, table: Stack) -> Array:
        return stack_values("labels", labels, table.shape)[table.shape.is_modelled]

    def _dictionary(self) -> Dictionary | None:
        """Which states the symbols of the rows may have; None where that is not restricted."""
        return None

    def _limit(self, table: Stack, labels: Any, is_continued: bool) -> tuple[Stack, Array | None]:
        table, legal = super()._limit(table, labels, is_continued)
        known = self._dictionary()
        if known is None:
            return table, legal
        own = known.sets(table.rows), known.legal
        if legal is not None and table.sets is not None:
            own = join_sets((table.sets, legal), own)
            barred = np.flatnonzero(own[1][own[0]].sum(1) == 0)
            if len(barred):
                raise ValueError(
                    f"row {barred[0]} has a label that allowed does not give to its symbol"
                )
        return replace(table, sets=own[0]), own[1]

    def _row_names(self) -> Any:
        return lagged_names(getattr(self, "feature_names_in_", None), make_family(self.family).lags)

    def _n_columns(self) -> int:
        return int(self.n_features_in_) * (1 + self._model.family.lags)

    def _seed(
        self, model: Any, table: Any, legal: Array | None, rng: np.random.Generator, pool: Any
    ) -> Start:
        """A start from the data, by the method that `init` names."""
        K = int(self.n_components)
        if self.init == "random":
            return from_random(model, table, K, rng, legal=legal)
        if self.init == "k-means++":
            return from_plusplus(model, table, K, rng, legal=legal, pool=pool)
        return from_blocks(
            model, table, K, rng, legal=legal, candidates=CANDIDATES if self.init == "blocks" else 1
        )

    def _learn(self, engine: Any, result: Any, table: Any, on_disk: bool, pool: Any) -> None:
        super()._learn(engine, result, table, on_disk, pool)
        self._shape = table.shape if isinstance(table, Stack) else Shape(table.offsets)

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        lengths: Any = None,
        sequence_id: Any = None,
        labels: Any = None,
        sample_weight: Any = None,
        context: Any = None,
    ) -> Self:
        """Fit to sequences.

        Parameters
        ----------
        X : a list of sequences, each an array (T, D), a data frame or a CSR matrix; or all rows one
            after another, (n, D), as an array, data frame, CSR matrix, memory map or path to a
            file, with `lengths` or `sequence_id`; without either, one sequence. Families of symbols
            (`Categorical`, `Bernoulli`) also take arrays (T,) and lists of words. NaN is a missing
            entry, a row of NaN a gap.
        y : ignored
        lengths : (S,) rows of each sequence; they must sum to n.
        sequence_id : (n,) which sequence each row belongs to, rows of a sequence together and in
            order; or the name of the column of a data frame or file that holds them.
        labels : known states of all rows, -1 where unknown: (n,), or a list of arrays where X is
            one. Value c names the state whose id is c.
        sample_weight : (S,) how often each sequence counts; or (n,), the same for all rows of a
            sequence.
        context : for `AutoregressiveGaussian`, the rows before each row, (n, D order), the latest
            first (a list where X is one). Default: taken from the sequences themselves, whose first
            `order` rows are then context only.

        Returns
        -------
        self
        """
        return self._fit_table(
            *self._prepare(Given(X, sample_weight, lengths, sequence_id, context), labels)
        )

    def fit_predict(
        self,
        X: Any,
        y: Any = None,
        *,
        lengths: Any = None,
        sequence_id: Any = None,
        labels: Any = None,
        sample_weight: Any = None,
        context: Any = None,
    ) -> Any:
        """Fit, then the best state of each row: `fit(X).labels_`."""
        return self.fit(
            X,
            lengths=lengths,
            sequence_id=sequence_id,
            labels=labels,
            sample_weight=sample_weight,
            context=context,
        ).labels_

    def resume(
        self,
        X: Any,
        y: Any = None,
        *,
        lengths: Any = None,
        sequence_id: Any = None,
        labels: Any = None,
        sample_weight: Any = None,
        context: Any = None,
    ) -> Self:
        """Continue an interrupted fit from `inference.checkpoint`, bit for bit. Other data or
        settings are refused.

        Parameters
        ----------
        X, y, lengths, sequence_id, labels, sample_weight, context : as given to the interrupted
            `fit`.

        Returns
        -------
        self
        """
        return self._resume_table(
            *self._prepare(Given(X, sample_weight, lengths, sequence_id, context), labels)
        )

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        lengths: Any = None,
        sequence_id: Any = None,
        labels: Any = None,
        sample_weight: Any = None,
        context: Any = None,
        total_samples: float | None = None,
    ) -> Self:
        """See some more sequences: adds what they say to what was seen before.

        Parameters
        ----------
        X, y, lengths, sequence_id, labels, sample_weight, context : as in `fit`. Default priors and
            scaling are fixed by the first call.
        total_samples : number of sequences of the whole data set; each call then is a step of
            stochastic variational Bayes, with the step sizes of `inference` if that is a
            StochasticVB.

        Returns
        -------
        self
        """
        return self._stream(
            Given(X, sample_weight, lengths, sequence_id, context), labels, total_samples
        )

    # ------------------------------------------------------------------------------------------ pot

    def _use(self, X: Any, lengths: Any, sequence_id: Any, context: Any) -> Stack:
        """Sequences for a fitted model."""
        return self._use_given(Given(X, None, lengths, sequence_id, context))

    def _use_given(self, given: Given) -> Stack:
        self._require_fitted()
        table = self._make_table(given, self._model.family, reset=False)
        known = self._dictionary()
        return table if known is None else replace(table, sets=known.sets(table.rows))

    def _potentials_of(self, parameters: str) -> Any:
        """Potentials of new data: those of the fitted rule, or those of posterior means."""
        if parameters not in SUMMARIES:
            raise ValueError(
                f"unknown parameters {parameters!r}; choose one of {', '.join(SUMMARIES)}"
            )
        mean = parameters == "mean"
        found = self._model.predictive(self._counts, self._params) if mean else self._potentials()
        known = self._dictionary()
        return replace(found, log_legal=None if known is None else known.log_legal)

    # ------------------------------------------------------------------------------------------ sta

    @property
    def labels_(self) -> Any:
        """(n,) state of each training row, or a list of such where sequences were a list; see
        `predict`.
        """
        found = self._find_labels()
        return self._shape.answer(found)

    # ------------------------------------------------------------------------------------------ lea

    @property
    def transmat_(self) -> Array:
        """(K, K) posterior mean transition probabilities, from row to column, renormalized over the
        states.
        """
        self._require_fitted()
        return np.exp(self._potentials_of("mean")["transition"])

    @property
    def startprob_(self) -> Array:
        """(K,) posterior mean probabilities of the first state, renormalized over the states."""
        self._require_fitted()
        return np.exp(self._potentials_of("mean")["start"])

    @property
    def durations_(self) -> Array:
        """(K,) expected rows of a stay in each state, 1 / (1 - transmat_[k, k]): stays are
        geometric.
        """
        with np.errstate(divide="ignore"):  # a state that is never left
            return 1.0 / (1.0 - np.diagonal(self.transmat_))

    @property
    def stationary_(self) -> Array:
        """(K,) shares of rows in the long run: p with p transmat_ = p; where there are several, the
        one reached from startprob_.
        """
        return _stationary(self.transmat_, self.startprob_)

    # ------------------------------------------------------------------------------------------ for

    def plot(
        self,
        panel: str | None = None,
        X: Any = None,
        *,
        lengths: Any = None,
        sequence_id: Any = None,
        context: Any = None,
        columns: Sequence[int | str] | None = None,
        ax: Axes | None = None,
    ) -> Figure | Axes:
        """Draw what was found (extra `plot`). Shows nothing by itself: use
        `matplotlib.pyplot.show()` or `figure.savefig`.

        States are named by their permanent ids and come with the largest first; those without a row
        are left out, with a note.

        Parameters
        ----------
        panel : "segmentation" (states over time, a strip for each of the first 20 sequences),
            "trace" (the bound after each lap), "weights", "transitions", "durations" or
            "components". Default: all of them, as one figure.
        X, lengths, sequence_id, context : sequences to draw; default: those of the fit, where it
            kept them (rows are drawn with the components only if given).
        columns, ax : as in `Mixture.plot`, and so is what is returned.

        Examples
        --------
        >>> import numpy as np, stickbreak as sb
        >>> from matplotlib import pyplot as plt
        >>> rng = np.random.default_rng(0)
        >>> X = np.repeat([-5.0, 5.0, -5.0], 20)[:, None] + rng.normal(size=(60, 1))
        >>> ax = sb.HMM(2, random_state=0).fit(X).plot("segmentation")
        >>> ax.get_title(loc="left")
        'states over time'
        >>> plt.close(ax.figure)
        """
        self._check_picture(panel, ax)
        shape, states, rows, labels = None, None, None, None
        if X is not None:
            table = self._use(X, lengths, sequence_id, context)
            chosen, shape = choose_rows(table.n_rows), table.shape
            states = self._decode(table, self._potentials_of("fitted"), map)
            rows, labels = table.rows[chosen], states[chosen]
        elif "_labels" in self.__dict__:
            shape, states = self._shape, self._labels
        paths = (
            () if shape is None or states is None else replace(shape, is_list=True).answer(states)
        )
        more = {
            "paths": paths,
            "transition": self.transmat_,
            "durations": self.durations_,
            "rows": rows,
            "labels": labels,
        }
        return self._draw(panel, ax, columns=columns, **more)

    def _column_names(self) -> list[str]:
        found = lagged_names(super()._column_names(), self._model.family.lags)
        assert found is not None
        return found

    def _chain_values(self, axis: str) -> dict[str, Any]:
        steps = (axis, f"next_{axis}"), self.transmat_
        return {
            "start": (axis, self.startprob_),
            "transition": steps,
            "duration": (axis, self.durations_),
        }


def _stationary(transition: Array, start: Array) -> Array:
    """Solves p (P - 1) = 0, sum(p) = 1."""
    K = len(start)
    system, right = np.vstack([transition.T - np.eye(K), np.ones(K)]), np.r_[np.zeros(K), 1.0]
    found, _, rank, _ = np.linalg.lstsq(system, right, rcond=1e-12)
    if rank < K:  # parts that cannot reach each other: the average over a very long time
        rate = 1e-9
        found = np.asarray(rate * np.linalg.solve((np.eye(K) - (1.0 - rate) * transition).T, start))
    found = np.maximum(found, 0.0)
    return np.asarray(found / found.sum())
