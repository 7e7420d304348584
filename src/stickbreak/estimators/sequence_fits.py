"""Estimators of sequences: fits, learned transitions; answers are functions of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from stickbreak.data import Sequences, Table
from stickbreak.families import Categorical
from stickbreak.families.base import BaseFamily
from stickbreak.inference import Draw, ExcludeOwn, Hard, Mode, Start
from stickbreak.initialize import (
    N_PATHS,
    N_SYMBOLS,
    from_blocks,
    from_drawn,
    from_local,
    from_plusplus,
    from_random,
    from_rivals,
    from_swept,
)
from stickbreak.models import Model, ModelPotentials
from stickbreak.progress import Phase, PhaseLaps
from stickbreak.protocols import Pool
from stickbreak.reading import (
    Dictionary,
    Given,
    Rows,
    Schema,
    Stack,
    Values,
    lagged_names,
    make_dictionary,
    read_sequences,
    stack_values,
)
from stickbreak.stats import Array

from . import sequence_answers as answers
from .base import Estimator
from .engine_choice import pick_engine
from .engine_runs import Task
from .fitted import Fitted
from .observed_sequences import observe_sequences, report_sequences, sequence_values
from .searches import begin_states
from .views import Labeled, plot_chain

__all__ = ["SequenceEstimator"]

CANDIDATES = 10  # blocks per state to choose from
SUMMARIES = ("fitted", "mean")
# Arguments that searches and cross-validation pass on by themselves, split with the rows.
ROUTED = {"sequence_id": True}


class SequenceEstimator(Estimator):
    """Fits of sequences with hidden states, and the transitions that they learn."""

    INITS = ("auto", "collapsed", "blocks", "random-blocks", "k-means++", "random", "local")
    _noun = "state"
    _reads_shards = True
    _sweeps_first = False  # whether soft sweeps are among the starts of which the best is taken
    allowed: Mapping[Any, Any] | ArrayLike | None = None
    __metadata_request__fit: ClassVar = ROUTED
    __metadata_request__partial_fit: ClassVar = ROUTED
    __metadata_request__predict: ClassVar = ROUTED
    __metadata_request__predict_proba: ClassVar = ROUTED
    __metadata_request__score: ClassVar = ROUTED

    predict = answers.predict
    decode = answers.decode
    predict_proba = answers.predict_proba
    filter_proba = answers.filter_proba
    impute = answers.impute
    score_samples = answers.score_samples
    score_sequences = answers.score_sequences
    score = answers.score
    sample = answers.sample
    plot = plot_chain
    report = report_sequences
    _report_values = sequence_values
    _observe = observe_sequences

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if self.allowed is not None and self._make_family().max_categories == 0:
            raise ValueError(
                "allowed is for families of symbols such as Categorical; got "
                f"family={self.family!r}"
            )

    def _dictionary(self, schema: Schema, ids: Sequence[int]) -> Dictionary | None:
        """The states, by their ids, that each symbol may have; None if they are not restricted."""
        if self.allowed is None:
            return None
        if schema.n_features != 1:
            raise ValueError(f"allowed is for one column of symbols; X has {schema.n_features}")
        words = next(iter(schema.categories.values()), None)
        return make_dictionary(self.allowed, words, int(self.n_components)).at(ids)

    def _read(
        self, given: Given, family: BaseFamily, schema: Schema | None
    ) -> tuple[Stack, Schema]:
        return read_sequences(given, family, schema)

    def _limit(self, task: Task, given: Given) -> Task:
        table, sets = task.table, None
        if given.labels is not None:
            assert isinstance(table, Stack)
            labels = stack_values("labels", given.labels, table.shape)[table.shape.is_modelled]
            sets = self._sets_of_labels(labels, task)
        known = self._dictionary(task.schema, task.ids)
        if known is not None:
            self._check_table(table)
            sets = known.limit(table.rows, sets)
        return task if sets is None else self._with_sets(task, sets)

    def _check_table(self, table: Table) -> None:
        """Raise ValueError if a table of allowed states has no line for some symbol of the rows."""
        if not isinstance(self.allowed, Mapping):
            n_lines = len(np.asarray(self.allowed))
            largest = np.nanmax(table.rows[:, 0], initial=-1)
            if largest >= n_lines:
                raise ValueError(
                    f"allowed has lines for symbols 0 to {n_lines - 1}, but X holds {largest:.0f}"
                )

    def _row_names(self, schema: Schema) -> Sequence[str] | None:
        return lagged_names(schema.names, self._make_family().lags)

    def _family_columns(self, fitted: Fitted) -> int:
        return fitted.schema.n_features * (1 + fitted.model.family.lags)

    def _seed(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        table, K, legal, init = task.table, task.n_components, task.legal, self._init()
        assert isinstance(table, Sequences)
        if init == "random":
            return from_random(model, table, K, rng, legal=legal)
        if init == "local":
            return from_local(model, table, K, rng, legal=legal, pool=pool)
        if init == "k-means++":
            return from_plusplus(model, table, K, rng, legal=legal, pool=pool)
        if init == "collapsed":
            return self._draw_paths(model, task, rng, pool)
        candidates = 1 if init == "random-blocks" else CANDIDATES

        def make(some: Sequences) -> Start:
            return from_blocks(model, some, K, rng, legal=legal, candidates=candidates)

        def rivals(given: Model) -> list[Start]:
            starts = [] if self._draws_first() else [make(table)]
            starts.append(self._draw_paths(given, task, rng, pool))
            if self._sweeps_first:
                swept = from_swept(given, table, K, rng, legal=legal, pool=pool)
                starts += [] if swept is None else [swept]
            return starts

        if init == "better":
            return from_rivals(model, table, rivals, rng, pool)
        if self.init == "auto" and pick_engine(self, False).mover().moves:
            return begin_states(model, task, make, rng, pool)
        return make(table)

    def _init(self) -> str:
        """The start: the one that is asked for, or the one that does best with the arguments.

        Engines that draw or sweep themselves need no sweeps before theirs.
        """
        if self.init != "auto":
            return self.init
        rule = pick_engine(self, False).rule()
        if isinstance(rule, Draw | ExcludeOwn):
            return "blocks"
        if self._draws_first():
            return "better" if self._sweeps_first and rule.is_variational else "collapsed"
        return "blocks" if self._is_unbounded else "better"

    def _draws_first(self) -> bool:
        """Whether a variational fit begins with drawn states, by `init` or by default."""
        if self.init != "auto":
            return self.init == "collapsed"
        return isinstance(self._make_family(), Categorical)

    def _draw_paths(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        table = task.table
        assert isinstance(table, Sequences)
        # a mode with prior counts c is that of a Dirichlet with c + 1
        added = 1.0 if isinstance(pick_engine(self, False).rule(), Mode | Hard) else 0.0
        n_sweeps = N_SYMBOLS if model.sweeps_labels else N_PATHS
        with Phase("drawing states", bool(self.verbose)) as phase:
            return from_drawn(
                model,
                table,
                task.n_components,
                rng,
                added=added,
                candidates=CANDIDATES,
                legal=task.legal,
                pool=pool,
                callbacks=(PhaseLaps(phase, n_sweeps),),
            )

    # ------------------------------------------------------------------------------------ fits

    def fit(
        self,
        X: Rows,
        y: Values = None,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        labels: Values = None,
        sample_weight: Values = None,
        context: Values = None,
    ) -> Self:
        """Fit to sequences.

        Parameters
        ----------
        X : a list of sequences, each an array (T, D), a data frame or a CSR matrix; or all rows one
            after another, (n, D), as an array, data frame, CSR matrix, memory map or path to a
            file, with `lengths` or `sequence_id`; without either, one sequence. Families of symbols
            (`Categorical`, `Bernoulli`) also take arrays (T,) and lists of words. NaN is a missing
            entry, a row of NaN a gap.
        y : ignored, if it has a value for each row (or each sequence); anything else is refused,
            for it may be meant as `lengths`.
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
        given = self._given(
            X, y, lengths=lengths, sequence_id=sequence_id, labels=labels,
            sample_weight=sample_weight, context=context,
        )  # fmt: skip
        return self._fit(given)

    def fit_predict(
        self,
        X: Rows,
        y: Values = None,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        labels: Values = None,
        sample_weight: Values = None,
        context: Values = None,
    ) -> Any:
        """Fit, then the best state of each row: `fit(X).labels_`."""
        given = self._given(
            X, y, lengths=lengths, sequence_id=sequence_id, labels=labels,
            sample_weight=sample_weight, context=context,
        )  # fmt: skip
        return self._fit(given).labels_

    def resume(
        self,
        X: Rows,
        y: Values = None,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        labels: Values = None,
        sample_weight: Values = None,
        context: Values = None,
    ) -> Self:
        """Continue an interrupted fit from `inference.checkpoint`, bit for bit.

        Parameters
        ----------
        X, y, lengths, sequence_id, labels, sample_weight, context : as given to the interrupted
            `fit`. Other data or settings are refused.

        Returns
        -------
        self
        """
        given = self._given(
            X, y, lengths=lengths, sequence_id=sequence_id, labels=labels,
            sample_weight=sample_weight, context=context,
        )  # fmt: skip
        return self._resume(given)

    def partial_fit(
        self,
        X: Rows,
        y: Values = None,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        labels: Values = None,
        sample_weight: Values = None,
        context: Values = None,
        total_samples: float | None = None,
    ) -> Self:
        """Update the model with more sequences.

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
        given = self._given(
            X, y, lengths=lengths, sequence_id=sequence_id, labels=labels,
            sample_weight=sample_weight, context=context,
        )  # fmt: skip
        return self._stream(given, total_samples)

    # ------------------------------------------------------------------------------------ new data

    def _use(self, given: Given) -> tuple[Fitted, Stack]:
        # a dictionary of words has no word on others
        given = replace(given, takes_unknown=self.allowed is not None)
        fitted, table = super()._use(given)
        known = self._dictionary(fitted.schema, fitted.ids)
        return fitted, table if known is None else replace(table, sets=known.sets(table.rows))

    def _potentials_of(self, fitted: Fitted, parameters: str) -> ModelPotentials:
        """Potentials for new data: of the fitted rule, or at posterior means."""
        if parameters not in SUMMARIES:
            raise ValueError(
                f"unknown parameters {parameters!r}; choose one of {', '.join(SUMMARIES)}"
            )
        found = fitted.predictive() if parameters == "mean" else fitted.potentials()
        known = self._dictionary(fitted.schema, fitted.ids)
        return replace(found, log_legal=None if known is None else known.log_legal)

    # ------------------------------------------------------------------------------------ learned

    @property
    def labels_(self) -> Any:
        """(n,) state of each training row, or a list if sequences were a list; see `predict`."""
        found, shape = super().labels_, self._require_fitted().shape
        return found if shape is None else shape.answer(found)

    def _mean_table(self, name: str) -> Array:
        return np.exp(self._potentials_of(self._require_fitted(), "mean")[name])

    @property
    def transmat_(self) -> Array:
        """(K, K) posterior mean transition probabilities, from row to column.

        Renormalized over the states.
        """
        return self._mean_table("transition")

    @property
    def startprob_(self) -> Array:
        """(K,) posterior mean probabilities of the first state, renormalized over the states."""
        return self._mean_table("start")

    def _mean_durations(self) -> Array:
        """(K,) expected rows of a stay in each state."""
        raise NotImplementedError

    def _stays(self) -> dict[str, Any]:
        """What a picture shows of stays: fields of `plots.View`."""
        return {"durations": self._mean_durations()}

    # ------------------------------------------------------------------------------------ readers

    def _column_names(self, fitted: Fitted) -> list[str]:
        return lagged_names(super()._column_names(fitted), fitted.model.family.lags) or []

    def _dataset_values(self, fitted: Fitted) -> Labeled:
        axis = fitted.model.axis
        return super()._dataset_values(fitted) | {
            "start": (axis, self.startprob_),
            "transition": ((axis, f"next_{axis}"), self.transmat_),
            "duration": (axis, self._mean_durations()),
        }
