"""Estimators of trees over sentences: fits, and answers that every grammar has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from stickbreak.data import Companion
from stickbreak.families.base import BaseFamily
from stickbreak.inference import ExcludeOwn, workers
from stickbreak.models import ModelPotentials, parse_units
from stickbreak.parameters import require_whole
from stickbreak.reading import Given, Rows, Schema, Stack, Values, read_sentences
from stickbreak.stats import Array

from .base import Estimator
from .engine_choice import pick_engine
from .engine_runs import Task
from .fitted import Fitted
from .reported_words import observe_trees, tree_values
from .tree_views import plot_trees

__all__ = ["Rule", "TreeEstimator", "most_frequent"]

SUMMARIES = ("fitted", "mean")


class Rule(NamedTuple):
    """A rule of a grammar: its text, its posterior mean probability, and expected uses."""

    text: str
    probability: float
    times: float

    def __str__(self) -> str:
        return self.text


def most_frequent(counts: Array, n: int) -> Array:
    """Flat places of the n largest counts, the largest first; of all if n is negative."""
    order = np.argsort(-counts, axis=None, kind="stable")
    return order if n < 0 else order[: int(n)]


class TreeEstimator(Estimator):
    """Fits and answers of grammars. Units are sentences, rows their words.

    METHODS : ways to choose a tree
    """

    METHODS: ClassVar[tuple[str, ...]] = ("viterbi",)
    finds_heads: ClassVar[bool] = False
    """Whether trees are heads of words, told by their tags; else brackets."""
    learns_from_trees: ClassVar[bool] = False
    """Whether fits are to trees; else to sentences."""
    cuts_strings: ClassVar[bool] = False
    """Whether sentences are strings of letters, which are cut into segments."""
    UNKNOWN: ClassVar[str] = "they have the prior's share"
    """What becomes of words that the fit has not seen, for readers."""
    _plural = "categories"
    _row_noun = "word"
    max_length: int

    plot = plot_trees
    _report_values = tree_values
    _observe = observe_trees
    _names_rows = False

    # ------------------------------------------------------------------ subclasses must define

    def _known(self, trees: Any, table: Stack, schema: Schema) -> Companion | None:
        """Trees that the user knows, or parts of them, as the structure reads them, checked."""
        raise NotImplementedError

    def parse(self, X: Rows, *, method: str = "viterbi", parameters: str = "fitted") -> Any:
        """A tree of each sentence."""
        raise NotImplementedError

    def _trees(self, found: Companion, X: Any, table: Stack) -> list[Any]:
        """Trees of the structure as `parse` gives them."""
        raise NotImplementedError

    def top_rules(self, n: int = 10) -> list[Rule]:
        """The n rules most often expected in the training sentences; -1 for all."""
        raise NotImplementedError

    @property
    def rules_(self) -> Any:
        """All rules, those most often used first; hidden subtypes are summed over."""
        return self.top_rules(-1)

    def _draw_trees(self, X: Any, n: int, rng: np.random.Generator) -> list[tuple[Any, ...]]:
        """N trees of each sentence, drawn from their posterior under the fitted potentials."""
        repeated = [sentence for sentence in X for _ in range(n)]
        fitted, table, potentials = self._ask(repeated, "fitted")
        width = fitted.model.structure.n_uniforms
        uniforms = rng.random(table.n_rows if width == 1 else (table.n_rows, width))
        found = parse_units(fitted.model, potentials, table.whole(), uniforms=uniforms)[0]
        trees = self._trees(found, repeated, table)
        return [tuple(trees[n * s : n * (s + 1)]) for s in range(len(X))]

    def _parsed(self, X: Any) -> dict[str, Any]:
        """What pictures show of one sentence, by name in `View`."""
        words = X.split() if isinstance(X, str) else list(X)
        name = "heads" if self.finds_heads else "tree"
        return {"words": [str(word) for word in words], name: self.parse([words])[0]}

    def _apart(self, k: int) -> str:
        """What sets a component apart, for readers; empty if the profile of its words says it."""
        return ""

    def _known_words(self) -> Sequence[Any]:
        """Words, tags or letters of the fit; empty if it was to numbers."""
        return next(iter(self._require_fitted().schema.categories.values()), ())

    def _with_unknown(self, fitted: Fitted) -> Fitted:
        """The same fit with one more word, which nothing was counted of."""
        raise NotImplementedError

    # ------------------------------------------------------------------ reading

    def _check_arguments(self) -> None:
        super()._check_arguments()
        require_whole(max_length=self.max_length)

    def _reader(self, family: BaseFamily) -> BaseFamily:
        """The family that sentences are read for."""
        return family

    def _read(
        self, given: Given, family: BaseFamily, schema: Schema | None
    ) -> tuple[Stack, Schema]:
        return read_sentences(given, self._reader(family), schema, int(self.max_length))

    def _limit(self, task: Task, given: Given) -> Task:
        task = super()._limit(task, given)
        assert isinstance(task.table, Stack)
        if given.trees is None:
            return task
        known = self._known(given.trees, task.table, task.schema)
        return replace(task, table=replace(task.table, companion=known))

    def _use(self, given: Given) -> tuple[Fitted, Stack]:
        """The fitted model and sentences; unknown words become one more, of which none was seen."""
        fitted, table = super()._use(replace(given, takes_unknown=True))
        is_unknown = ~(table.rows >= 0)
        if not (fitted.schema.categories and is_unknown.any()):
            return fitted, table
        n_known = len(next(iter(fitted.schema.categories.values())))
        rows = np.where(is_unknown, n_known, table.rows)
        return self._with_unknown(fitted), replace(table, rows=rows)

    def _init(self) -> str:
        """The start: that asked for, or the first, which engines that sweep need no sweeps for."""
        if self.init != "auto":
            return self.init
        rule = pick_engine(self, False).rule()
        return self.INITS[1] if isinstance(rule, ExcludeOwn) else "collapsed"

    def _potentials_of(self, fitted: Fitted, parameters: str) -> ModelPotentials:
        """Potentials for new data: of the fitted rule, or at posterior means."""
        if parameters not in SUMMARIES:
            raise ValueError(
                f"unknown parameters {parameters!r}; choose one of {', '.join(SUMMARIES)}"
            )
        found = fitted.predictive() if parameters == "mean" else fitted.potentials()
        return replace(found, log_legal=None)

    def _ask(self, X: Rows, parameters: str) -> tuple[Fitted, Stack, ModelPotentials]:
        fitted, table = self._use(self._given(X))
        return fitted, table, self._potentials_of(fitted, parameters)

    # ------------------------------------------------------------------ scores

    def score_sequences(self, X: Rows) -> Array:
        """(S,) log probability of each sentence, all trees summed, at posterior means.

        Parameters
        ----------
        X : sentences, as in `fit`.
        """
        fitted, table, potentials = self._ask(X, "mean")
        with workers(self.n_jobs) as pool:
            return fitted.model.log_evidence(potentials, table.whole(), pool)

    def score(self, X: Rows, y: Values = None) -> float:
        """Mean log probability per word, in nats; see `score_sequences`.

        Parameters
        ----------
        X, y : as in `fit`.
        """
        fitted, table, potentials = self._ask(X, "mean")
        with workers(self.n_jobs) as pool:
            found = fitted.model.log_evidence(potentials, table.whole(), pool)
        return float(found.sum() / table.n_rows)

    @property
    def labels_(self) -> Any:
        """What `predict` says of the words of the training sentences."""
        found, shape = super().labels_, self._require_fitted().shape
        return found if shape is None else shape.answer(found)

    def _check_method(self, method: str) -> None:
        if method not in self.METHODS:
            raise ValueError(f"unknown method {method!r}; choose one of {', '.join(self.METHODS)}")

    def _fit_trees(self, name: str, X: Rows, y: Values, **given: Any) -> Self:
        """Call the fit, the resumption or the step that a method is named after."""
        total = given.pop("total_samples", None)
        asked = replace(self._given(X, y), **given)
        if name == "partial_fit":
            return self._stream(asked, total)
        return self._fit(asked) if name == "fit" else self._resume(asked)
