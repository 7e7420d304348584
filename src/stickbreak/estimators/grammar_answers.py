"""Fits of context-free grammars, and their answers: trees of sentences, posteriors of spans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from stickbreak.data import Batch, Companion, ConstituentTree
from stickbreak.families import Categorical
from stickbreak.inference import CollapsedVB, Engine, MemoizedVB, Start, workers
from stickbreak.initialize import from_collapsed, from_local
from stickbreak.models import Model, ModelPotentials, parse_units, share_parts
from stickbreak.protocols import Pool
from stickbreak.reading import Rows, Schema, Stack, Values, split_sentences, stack_values
from stickbreak.stats import SYMBOL, Array
from stickbreak.structures.tree import most_expected_spans

from .base import RandomState
from .engine_runs import Task
from .fitted import Fitted
from .known_brackets import read_brackets, with_right_branches
from .tree_models import Rule, TreeEstimator, most_frequent
from .tree_samples import draw_constituents

__all__ = ["GrammarEstimator"]

N_SWEEPS = 20  # collapsed sweeps of a start


class GrammarEstimator(TreeEstimator):
    """Fits and answers of context-free grammars."""

    INITS = ("auto", "local", "collapsed", "right-branching")
    METHODS = ("viterbi", "max-constituents")
    _noun = "category"

    def _default_engine(self, on_disk: bool) -> Engine:
        return MemoizedVB() if on_disk or self._is_unbounded else CollapsedVB()

    def _seed(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        table, K, legal = task.table, task.n_components, task.legal
        if self._init() == "local":
            return from_local(model, table, K, rng, legal=legal, pool=pool)
        if self._init() == "right-branching":
            assert isinstance(table, Stack)
            table = with_right_branches(table)
        return from_collapsed(model, table, K, rng, n_sweeps=N_SWEEPS, legal=legal, pool=pool)

    def _sets_of_labels(self, labels: Any, task: Task) -> tuple[Array, Array]:
        table = task.table
        assert isinstance(table, Stack)
        return super()._sets_of_labels(stack_values("labels", labels, table.shape), task)

    def _known(self, trees: Any, table: Stack, schema: Schema) -> Companion:
        return read_brackets(trees, table, schema)

    def _with_unknown(self, fitted: Fitted) -> Fitted:
        family = fitted.model.family
        assert isinstance(family, Categorical)
        wider = replace(family, n_symbols=(family.n_symbols[0] + 1,))
        model = replace(fitted.model, family=wider)
        return replace(fitted, model=model, counts=fitted.counts.insert(SYMBOL, 1))

    # ------------------------------------------------------------------------------------ fits

    def fit(
        self,
        X: Rows,
        y: Values = None,
        *,
        labels: Values = None,
        brackets: Any = None,
        sample_weight: Values = None,
    ) -> Self:
        """Fit to sentences.

        Parameters
        ----------
        X : a list of sentences: lists of words, strings of words with spaces between, or arrays of
            whole numbers; for families other than `Categorical`, arrays (n, D).
        y : ignored.
        labels : known categories of words, -1 where unknown: a list of arrays.
        brackets : known brackets of each sentence: a list of (begin, end) pairs, words counted from
            0; or a tree (`ConstituentTree`, or one of nltk), whose labels are not used. No span of
            a tree may cross one.
        sample_weight : (S,) how often each sentence counts.

        Returns
        -------
        self
        """
        given = {"labels": labels, "trees": brackets, "sample_weight": sample_weight}
        return self._fit_trees("fit", X, y, **given)

    def resume(
        self,
        X: Rows,
        y: Values = None,
        *,
        labels: Values = None,
        brackets: Any = None,
        sample_weight: Values = None,
    ) -> Self:
        """Continue an interrupted fit from `inference.checkpoint`, bit for bit.

        Parameters
        ----------
        X, y, labels, brackets, sample_weight : as given to the interrupted `fit`.

        Returns
        -------
        self
        """
        given = {"labels": labels, "trees": brackets, "sample_weight": sample_weight}
        return self._fit_trees("resume", X, y, **given)

    def partial_fit(
        self,
        X: Rows,
        y: Values = None,
        *,
        labels: Values = None,
        brackets: Any = None,
        sample_weight: Values = None,
        total_samples: float | None = None,
    ) -> Self:
        """Update the model with more sentences, of the words that the first call had.

        Parameters
        ----------
        X, y, labels, brackets, sample_weight : as in `fit`.
        total_samples : number of sentences of the whole data set; each call then is a step of
            stochastic variational Bayes.

        Returns
        -------
        self
        """
        given = {"labels": labels, "trees": brackets, "sample_weight": sample_weight}
        return self._fit_trees("partial_fit", X, y, total_samples=total_samples, **given)

    # ------------------------------------------------------------------------------------ answers

    def predict(self, X: Rows, *, parameters: str = "fitted") -> Any:
        """Category above each word, the most probable one by itself: a list of (n,) arrays.

        Parameters
        ----------
        X : sentences, as in `fit`. A word that the fit has not seen has the prior's share.
        parameters : "fitted", the potentials of the fitted rule; "mean", posterior means.
        """
        fitted, table, potentials = self._ask(X, parameters)
        with workers(self.n_jobs) as pool:
            return table.shape.answer(self._decode(fitted, potentials, table.whole(), pool))

    def parse(
        self, X: Rows, *, method: str = "viterbi", parameters: str = "fitted"
    ) -> list[ConstituentTree]:
        """A tree of each sentence, with the numbers of categories as labels.

        Parameters
        ----------
        X, parameters : as in `predict`.
        method : "viterbi", the most probable tree; "max-constituents", the tree with the most spans
            expected to be right, each with its most probable category.

        Returns
        -------
        list of `ConstituentTree`, whose text is in Penn brackets.
        """
        self._check_method(method)
        fitted, table, potentials = self._ask(X, parameters)
        assert table.offsets is not None
        batch = table.whole()
        with workers(self.n_jobs) as pool:
            if method == "viterbi":
                best = parse_units(fitted.model, potentials, batch, pool)[0]
                return self._trees(best, X, table)
            found = share_parts(fitted.model, potentials, batch, pool)
        sizes, words = np.diff(table.offsets), _words_of(X, table)
        nodes = [most_expected_spans(found.of(s), int(n)) for s, n in enumerate(sizes)]
        return [tree_of(own, word) for own, word in zip(nodes, words, strict=True)]

    def _trees(self, found: Companion, X: Any, table: Stack) -> list[ConstituentTree]:
        words = _words_of(X, table)
        return [tree_of(found.of(s), word) for s, word in enumerate(words)]

    def parse_proba(self, X: Rows, *, parameters: str = "fitted") -> list[Array]:
        """Posterior of the category of each span: (n, n + 1, K) for each sentence.

        Entry [i, j, k] is the probability that words i to j - 1 are a constituent of category k.

        Parameters
        ----------
        X, parameters : as in `predict`.
        """
        fitted, table, potentials = self._ask(X, parameters)
        assert table.offsets is not None
        with workers(self.n_jobs) as pool:
            found = share_parts(fitted.model, potentials, table.whole(), pool)
        answers = []
        for s, n in enumerate(np.diff(table.offsets)):
            widths = np.repeat(np.arange(1, n + 1), np.arange(n, 0, -1))
            begins = np.concatenate([np.arange(m) for m in range(n, 0, -1)])
            spans = np.zeros((n, n + 1, found.rows.shape[1]))
            spans[begins, begins + widths] = found.of(s)
            answers.append(spans)
        return answers

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None
    ) -> tuple[list[Any], list[ConstituentTree]]:
        """Draw sentences with their trees, at posterior means.

        Parameters
        ----------
        n_samples : number of sentences. Those longer than max_length are drawn again.
        random_state : seed; default: the estimator's.

        Returns
        -------
        Words, or rows (n, D), and tree of each sentence.
        """
        fitted, rng = self._require_fitted(), self._rng(random_state)
        tables = {name: np.exp(table) for name, table in fitted.predictive().tables.items()}
        names = next(iter(self.categories_.values()), None)
        rows, trees = [], []
        for _ in range(int(n_samples)):
            nodes = draw_constituents(tables, int(self.max_length), rng)
            labels = nodes[nodes[:, 2] < 0, 3]
            drawn = fitted.model.family.sample(fitted.counts, labels, rng)
            words = [str(v if names is None else names[v]) for v in drawn[:, 0]]
            is_symbol = fitted.model.family.max_categories > 0 and drawn.shape[1] == 1
            rows.append(words if is_symbol and names is not None else drawn)
            trees.append(tree_of(nodes, words))
        return rows, trees

    def _decode(
        self, fitted: Fitted, potentials: ModelPotentials, batch: Batch, pool: Pool
    ) -> Array:
        return np.asarray(fitted.local_model.decode(potentials, batch, pool))

    # ------------------------------------------------------------------------------------ learned

    def _mean_table(self, name: str) -> Array:
        return np.exp(self._require_fitted().predictive()[name])

    @property
    def root_(self) -> Array:
        """(K,) posterior mean probability of each category as root."""
        return self._mean_table("root")

    @property
    def split_(self) -> Array:
        """(K,) posterior mean probability that a category splits, and does not emit a word."""
        return self._mean_table("kind")[:, 1]

    @property
    def rules_(self) -> Array:
        """(K, K, K) posterior mean probability of both children, given that a category splits."""
        return self._mean_table("binary_rule")

    def top_rules(self, n: int = 10) -> list[Rule]:
        """The n rules with two children that are most often expected in the training sentences.

        Parameters
        ----------
        n : how many; -1 for all.
        """
        counts, chances = self._require_fitted().counts["binary_rule"], self.rules_
        order = most_frequent(counts, n)
        found = zip(*np.unravel_index(order, counts.shape), strict=True)
        return [
            Rule(f"{a} -> {b} {c}", float(chances[a, b, c]), float(counts[a, b, c]))
            for a, b, c in found
        ]


def tree_of(nodes: Array, words: list[str]) -> ConstituentTree:
    """A tree from its nodes in preorder: begin, end, split, category."""
    built: list[ConstituentTree] = []
    for begin, _, split, category in nodes[::-1].tolist():
        children: tuple[Any, ...] = (words[begin],)
        if split >= 0:
            children = (built.pop(), built.pop())
        built.append(ConstituentTree(str(category), children))
    return built[0]


def _words_of(X: Any, table: Stack) -> list[list[str]]:
    """The words of each sentence, as they were given; numbers where they were numbers."""
    assert table.offsets is not None
    given = split_sentences(X)
    if isinstance(given, list | tuple) and len(given) == table.n_spans:
        parts = [np.asarray(part, dtype=object).reshape(len(part), -1) for part in given]
        if all(part.shape[1] == 1 for part in parts):
            return [[str(word) for word in part[:, 0]] for part in parts]
    return [[str(i) for i in range(n)] for n in np.diff(table.offsets)]
