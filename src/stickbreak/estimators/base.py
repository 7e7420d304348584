"""Base of all estimators: scikit-learn's conventions, ways to fit, learned attributes.

Importing scikit-learn takes twice as long as importing all of stickbreak, and fitting an array
needs none of it. So parameters are handled here, and what else `sklearn.base.BaseEstimator` gives
(tags, metadata requests, the picture in a notebook) is taken from it at the first use.
scikit-learn knows estimators by what they do (`get_params`, `__sklearn_tags__`), not by their base.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from stickbreak.data import Table, measure
from stickbreak.errors import DataWarning, columns_named
from stickbreak.families.base import BaseFamily
from stickbreak.families.names import FAMILIES, make_family
from stickbreak.inference import (
    BaseMove,
    BatchVB,
    Engine,
    MemoizedVB,
    Result,
    Start,
    count_workers,
    workers,
)
from stickbreak.models import Model
from stickbreak.parameters import require_whole
from stickbreak.priors import BasePrior
from stickbreak.protocols import Pool
from stickbreak.reading import Given, Rows, Schema, collected, legal_sets, open_rows
from stickbreak.stats import Array

from .engine_choice import check_learning, count_first, pick_engine, suit_engine
from .engine_runs import Task, check_end, fit_from_starts, make_seed, resume_fit
from .fitted import Fitted, Learned
from .model_files import save
from .reports import observe_score, write_report
from .searches import MIXTURE_MOVES
from .sklearn_twin import ASKED_OF_SKLEARN, twin_of
from .stream_runs import stream
from .views import Labeled, make_dataset, summary_values

if TYPE_CHECKING:
    from stickbreak.report import Subject

__all__ = ["Estimator", "RandomState"]

RandomState = int | np.random.RandomState | np.random.Generator | None


class Estimator(Learned):
    """Holds the constructor's arguments and, once fitted, one `Fitted`; nothing else.

    PRIOR : arguments of the prior, under its own names. INITS : values of `init`.
    """

    PRIOR: ClassVar[tuple[str, ...]] = ("concentration",)
    INITS: ClassVar[tuple[str, ...]]

    _is_unbounded = False
    _noun = "component"
    _row_noun = "row"
    _has_labels = True  # whether components are labels of rows
    _names_rows = True  # whether `predict` names a component of each row
    _reads_shards = False  # whether rows may be read where they are used
    _saved: Any = None  # a checkpoint that was read already, for `_resume`

    n_components: int
    family: str | BaseFamily
    inference: str | Engine | None
    learn_prior: bool
    max_iter: int | None = None
    tol: float | None = None
    random_state: RandomState
    init: str
    n_init: int
    warm_start: bool
    verbose: int

    # ------------------------------------------------------------------ subclasses must define

    def _read(
        self, given: Given, family: BaseFamily, schema: Schema | None
    ) -> tuple[Table, Schema]:
        """The user's data, checked, and their schema, which is learned if None."""
        raise NotImplementedError

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        """The model of a resolved family and the prior's arguments."""
        raise NotImplementedError

    def _seed(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        """A start from the data, by the method that `init` names."""
        raise NotImplementedError

    # ------------------------------------------------------------------ subclasses may override

    def _make_family(self) -> BaseFamily:
        """The likelihood that the arguments name, with default priors not set yet."""
        return make_family(self.family)

    def _default_engine(self, on_disk: bool) -> Engine:
        """The engine for `inference=None`."""
        return MemoizedVB() if on_disk or self._is_unbounded else BatchVB()

    def _learns_collapsed(self, family: BaseFamily) -> bool:
        """Whether collapsed sweeps learn what `learn_prior` asks for."""
        return False

    def _recommended_moves(self) -> tuple[BaseMove, ...]:
        """The moves of an engine with `moves="default"`."""
        return MIXTURE_MOVES if self._is_unbounded else ()

    def _starts_differ(self) -> bool:
        """Whether starts of different seeds are never alike, even from one component."""
        return False

    def _n_items(self, table: Table) -> int:
        """How many rows or documents there are to explain."""
        return table.n_rows

    def _check_arguments(self) -> None:
        """Raise ValueError for invalid arguments, before data are read."""
        require_whole(n_components=self.n_components, n_init=self.n_init)
        count_workers(self.n_jobs)
        pick_engine(self, False).check()
        check_learning(self)
        if self.init not in self.INITS:
            raise ValueError(f"unknown init {self.init!r}; choose one of {', '.join(self.INITS)}")

    def _open(self, X: Rows, names: Sequence[str] | None) -> Rows:
        """Open a path; if the file has column names, read the columns with these names."""
        return open_rows(X, names, self.verbose, self._make_family())

    def _row_names(self, schema: Schema) -> Sequence[str] | None:
        """Names of the columns that the family reads."""
        return schema.names

    def _family_columns(self, fitted: Fitted) -> int:
        """Number of columns that the family reads."""
        return fitted.schema.n_features

    def _limit(self, task: Task, given: Given) -> Task:
        """The task with rows limited to the components that their labels allow."""
        if given.labels is None:
            return task
        return self._with_sets(task, self._sets_of_labels(given.labels, task))

    # ------------------------------------------------------------------------------------ fits

    def _given(self, X: Rows, y: Any = None, **more: Any) -> Given:
        return Given(X, y, owner=type(self).__name__, verbose=self.verbose, **more)

    def _prepare(self, given: Given, previous: Fitted | None, can_move: bool = True) -> Task:
        """Checked arguments and data. previous : fit to continue; can_move : by engines that can"""
        self._check_arguments()
        family = self._make_family() if previous is None else previous.model.family
        table, schema = self._read(given, family, None if previous is None else previous.schema)
        n_first = self._count_first(table, previous, can_move)
        return self._limit(Task(table, schema, n_first, previous=previous), given)

    def _count_first(self, table: Table, previous: Fitted | None, can_move: bool) -> int:
        if previous is not None:
            return len(previous.ids)
        return count_first(self, self._n_items(table), can_move)

    def _use(self, given: Given) -> tuple[Fitted, Any]:
        """The fitted model, and data for it."""
        fitted = self._require_fitted()
        return fitted, self._read(given, fitted.model.family, fitted.schema)[0]

    def _sets_of_labels(self, labels: Any, task: Task) -> tuple[Array, Array]:
        old = task.previous
        n_ids = task.n_components if old is None else old.next_id
        return legal_sets(labels, task.table.n_rows, n_ids, None if old is None else old.ids)

    def _with_sets(self, task: Task, sets: tuple[Array, Array]) -> Task:
        return replace(task, table=replace(task.table, sets=sets[0]), legal=sets[1])

    def _previous(self) -> Fitted | None:
        """The fit that a warm start continues from."""
        old = self._fitted if self.warm_start else None
        if old is not None and not self._is_unbounded and self.n_components != len(old.ids):
            raise ValueError(
                f"n_components={self.n_components} but the model to continue has "
                f"{len(old.ids)} {self._noun}s"
            )
        return old

    def _fit(self, given: Given) -> Self:
        with collected(given, self._reads_shards) as given:
            return self._keep(*fit_from_starts(self, self._prepare(given, self._previous())))

    def _resume(self, given: Given) -> Self:
        saved, self._saved = self._saved, None
        with collected(given, self._reads_shards) as given:
            return self._keep(*resume_fit(self, self._prepare(given, self._previous()), saved))

    def _stream(self, given: Given, total_samples: float | None) -> Self:
        with collected(given, self._reads_shards) as given:
            task = self._prepare(given, self._fitted, can_move=total_samples is None)
            self._fitted = stream(self, task, total_samples)
            return self

    def _with_answers(self, fitted: Fitted, result: Result, task: Task, pool: Pool) -> Fitted:
        """The fit with what the estimator keeps about its data in place of labels."""
        return fitted

    def _keep(self, fitted: Fitted, ended_by: BaseException | None) -> Self:
        """Keep the result: after Ctrl-C, and when workers are lost, the model is usable."""
        self._fitted = fitted
        if ended_by is not None:
            raise ended_by
        check_end(fitted)
        return self

    def _prior_of(self, owner: Estimator | BasePrior) -> dict[str, Any]:
        """The prior's arguments: the estimator's own, or those of a prior made from them."""
        return {name: getattr(owner, name) for name in self.PRIOR}

    def _engine(self, on_disk: bool) -> Engine:
        engine = pick_engine(self, on_disk)
        if engine.checkpoint is not None and self.n_init > 1:
            raise ValueError(
                f"a checkpoint holds one start; got n_init={self.n_init}: use "
                "n_init=1 with checkpoint="
            )
        return engine

    def _engine_for(self, task: Task) -> Engine:
        """The engine for these data; estimators may choose laps that suit their size."""
        return self._engine(task.is_on_disk)

    def _model_of(self, task: Task, engine: Engine) -> Model:
        """The model to fit: that of the previous fit with its priors, or a new one."""
        if task.previous is not None:
            old = task.previous.model
            return self._model_for(engine, old.family, self._prior_of(old.prior))
        family = self._resolve(task)
        with columns_named(self._row_names(task.schema)):
            return self._model_for(engine, family, self._prior_for(task))

    def _prior_for(self, task: Task) -> dict[str, Any]:
        """The prior's arguments, with what is left open set from the data."""
        return self._prior_of(self)

    def _model_for(self, engine: Engine, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        """The model in the form that the engine's rule can fit."""
        return suit_engine(self._make_model(family, prior), engine)

    def _resolve(self, task: Task) -> BaseFamily:
        """The family with every default prior set from the data's scale."""
        table, schema = task.table, task.schema
        names = self._row_names(schema)
        family = self._make_family().locate(names, int(table.rows.shape[1]))
        may_lack = family.missing != "refused"
        with columns_named(names), workers(self.n_jobs) as pool:
            scale = measure(table, family.check_rows, allow_missing=may_lack, pool=pool)
        largest, labels = scale.largest.copy(), list(names or range(scale.n_features))
        for label, values in schema.categories.items():  # a dtype may list more than were seen
            at = labels.index(label)
            largest[at] = max(largest[at], len(values) - 1)
        self._warn_of_few(task, "rows")
        with columns_named(names):
            return family.resolve(
                replace(scale, largest=largest, names=None if names is None else tuple(names))
            )

    def _warn_of_few(self, task: Task, what: str) -> None:
        n = self._n_items(task.table)
        if n < task.n_components:
            warnings.warn(
                f"{n} {what} for {task.n_components} {self._noun}s: some will stay empty; a "
                "smaller n_components would do",
                DataWarning,
                stacklevel=7,
            )

    def _rng(self, random_state: RandomState) -> np.random.Generator:
        """Random numbers for `sample`; None means the estimator's own seed."""
        given = self.random_state if random_state is None else random_state
        return np.random.default_rng(make_seed(given))

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file for `stickbreak.load`: safetensors, JSON, no pickle."""
        save(self, self._require_fitted(), path)

    def _column_names(self, fitted: Fitted) -> list[str]:
        """Names of the columns of drawn rows."""
        return list(fitted.schema.names or (f"x{d}" for d in range(fitted.schema.n_features)))

    report = write_report
    _observe = observe_score

    def _report_values(self, subject: Subject) -> Subject:
        """The subject of a page with values of this kind of model, without data."""
        return subject

    def _dataset_values(self, fitted: Fitted) -> Labeled:
        """Arrays for `to_xarray`, in addition to weights and trace."""
        return summary_values(fitted)

    def to_xarray(self) -> Any:
        """Posterior summaries, weights and trace as an `xarray.Dataset` (extra `xarray`).

        Named axes: `component` (0..K-1), `feature` (names of the columns, or their
        positions), `lap`; `other_feature` for the columns of covariances, `symbol` for those of
        categorical tables, `value` and `context` for autoregressions. Topic models have the axes
        `topic` and `word` instead of `component` and `feature`.

        Examples
        --------
        >>> import numpy as np, stickbreak as sb
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(-5, 1, (50, 2)), rng.normal(5, 1, (50, 2))])
        >>> found = sb.Mixture(2, random_state=0).fit(X).to_xarray()
        >>> dict(found.sizes)
        {'component': 2, 'feature': 2, 'other_feature': 2, 'lap': 2}
        >>> found["mean"].sel(component=0).round().values.tolist()
        [-5.0, -5.0]
        """
        fitted = self._require_fitted()
        return make_dataset(fitted, repr(self), self._dataset_values(fitted))

    # ------------------------------------------------------------------ scikit-learn conventions

    def _store(self, arguments: Mapping[str, Any]) -> None:
        """Keep the constructor's arguments, unchanged, under their own names."""
        for name in self._get_param_names():
            setattr(self, name, arguments[name])

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Arguments of the constructor by name; with `deep`, nested arguments too."""
        found: dict[str, Any] = {}
        for name in self._get_param_names():
            value = found[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found.update({f"{name}__{inner}": v for inner, v in value.get_params().items()})
        return found

    def set_params(self, **params: Any) -> Self:
        """Change arguments by name, `argument__inner` for nested ones; returns self."""
        names = self._get_param_names()
        inner: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if name not in names:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid "
                    f"parameters are: {names}."
                )
            if rest:
                inner.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, values in inner.items():
            getattr(self, name).set_params(**values)
        return self

    def __repr__(self) -> str:
        known = inspect.signature(type(self).__init__).parameters
        shown = []
        for name in known:
            if name != "self" and (value := getattr(self, name)) is not known[name].default:
                text = repr(value)
                shown += [f"{name}={text}"] * (text != repr(known[name].default))
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        tags = BaseEstimator.__sklearn_tags__(self)
        tags.estimator_type = "density_estimator"
        given = getattr(self, "family", None)
        family = FAMILIES.get(given) if isinstance(given, str) else given
        tags.input_tags.allow_nan = getattr(family, "missing", "refused") != "refused"
        return tags

    if not TYPE_CHECKING:  # a type checker should know every attribute

        def __getattr__(self, name: str) -> Any:
            if name in ASKED_OF_SKLEARN:
                twin = twin_of(cast(Hashable, type(self)))
                found = inspect.getattr_static(twin, name)
                return found.__get__(self, twin) if hasattr(found, "__get__") else found
            # raises; if a property failed, with its own message
            return object.__getattribute__(self, name)

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    def __getstate__(self) -> dict[str, Any]:
        """State for pickles, without data on disk."""
        if self._fitted is None:
            return self.__dict__.copy()
        return {**self.__dict__, "_fitted": replace(self._fitted, data=None)}
