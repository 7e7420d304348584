"""Context-free grammars with a fixed or a learned number of categories."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from stickbreak.data import Batch, Companion, ConstituentTree
from stickbreak.errors import StickbreakWarning
from stickbreak.families import Categorical
from stickbreak.families.base import BaseFamily
from stickbreak.inference import BaseMove, CollapsedVB, Engine, MemoizedVB, Start, workers
from stickbreak.initialize import from_collapsed, from_local
from stickbreak.models import Model, ModelPotentials, finite_grammar, hdp_grammar
from stickbreak.moves import Birth, Delete, Merge
from stickbreak.priors import DirichletRules, HDPRules
from stickbreak.protocols import Pool
from stickbreak.reading import Rows, Schema, Stack, Values, stack_values
from stickbreak.stats import SYMBOL, Array
from stickbreak.structures.tree import most_expected_spans

from .base import RandomState
from .engine_runs import Task
from .fitted import Fitted
from .known_brackets import read_brackets
from .model_files import register
from .tree_models import Rule, TreeEstimator
from .tree_samples import draw_constituents

__all__ = ["HDPPCFG", "PCFG"]

N_SWEEPS = 20  # collapsed sweeps of a start


class GrammarEstimator(TreeEstimator):
    """Fits and answers of context-free grammars."""

    INITS = ("auto", "local", "collapsed")
    METHODS = ("viterbi", "max-constituents")
    _noun = "category"

    def _default_engine(self, on_disk: bool) -> Engine:
        return MemoizedVB() if on_disk or self._is_unbounded else CollapsedVB()

    def _seed(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        table, K, legal = task.table, task.n_components, task.legal
        if self._init() == "local":
            return from_local(model, table, K, rng, legal=legal, pool=pool)
        return from_collapsed(model, table, K, rng, n_sweeps=N_SWEEPS, legal=legal, pool=pool)

    def _sets_of_labels(self, labels: Any, task: Task) -> tuple[Array, Array]:
        table = task.table
        assert isinstance(table, Stack)
        return super()._sets_of_labels(stack_values("labels", labels, table.shape), task)

    def _known(self, trees: Any, table: Stack, schema: Schema) -> Companion:
        return read_brackets(trees, table)

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
        words, batch = _words_of(X, table), table.whole()
        with workers(self.n_jobs) as pool:
            if method == "viterbi":
                found = fitted.model.parse(potentials, batch, pool)[0]
                nodes = [found.of(s) for s in range(batch.n_spans)]
            else:
                found = fitted.model.tree_shares(potentials, batch, pool)
                sizes = np.diff(table.offsets)
                nodes = [most_expected_spans(found.of(s), int(n)) for s, n in enumerate(sizes)]
        return [tree_of(own, word) for own, word in zip(nodes, words, strict=True)]

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
            found = fitted.model.tree_shares(potentials, table.whole(), pool)
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
        """The n rules with two children that are most often expected in the training sentences."""
        counts, chances = self._require_fitted().counts["binary_rule"], self.rules_
        order = np.argsort(-counts, axis=None, kind="stable")[: int(n)]
        found = zip(*np.unravel_index(order, counts.shape), strict=True)
        return [
            Rule(f"{a} -> {b} {c}", float(chances[a, b, c]), float(counts[a, b, c]))
            for a, b, c in found
        ]


@register
class PCFG(GrammarEstimator):
    """Bayesian context-free grammar with a fixed number of categories.

    Every category emits one word or splits into two categories; roots, kinds and pairs of children
    have Dirichlet priors. Trees of all shapes are summed over, in time that grows with the cube of
    a sentence's length.

    Parameters
    ----------
    n_components : number of categories.
    family : likelihood of a word given the category above it, by name or as an object;
        "categorical" for words.
    inference : engine, by name ("batch", "memoized", "stochastic", "collapsed", "em", "hard-em",
        "gibbs") or as an object; default `CollapsedVB`, sentence by sentence. It keeps K^3 numbers
        in single precision for each sentence.
    concentration : prior count of each pair of children of a category. Near zero, EM is maximum
        likelihood.
    kind_concentration : prior count of emitting a word, and of splitting.
    root_concentration : prior count of each category as root.
    max_length : most words of a sentence; longer ones are refused.
    init : "local" (random weights for every sentence) or "collapsed" (20 collapsed sweeps from
        there). "auto" is "local" for `CollapsedVB`, "collapsed" for all other engines.
    learn_prior, max_iter, tol, random_state : as in `Mixture`.
    n_init, n_jobs, warm_start, verbose : likewise.

    Attributes
    ----------
    root_, split_ : (K,) posterior mean probability as root; of splitting.
    rules_ : (K, K, K) of both children, given that the category splits.
    labels_ : category above each word of the training sentences.
    counts_, weights_ : (K,) expected nodes of each category, and their shares.
    posterior_, family_, component_ids_, n_components_, n_effective_ : as in `Mixture`.
    lower_bound_, trace_, converged_, n_iter_ : as in `Mixture`.

    Examples
    --------
    >>> import stickbreak as sb
    >>> sentences = ["the cat sleeps", "a dog sees the cat", "the dog sleeps"] * 10
    >>> model = sb.PCFG(3, random_state=0).fit(sentences)
    >>> tree = model.parse(["the dog sees a cat"])[0]
    >>> tree.words
    ['the', 'dog', 'sees', 'a', 'cat']
    """

    PRIOR = ("concentration", "kind_concentration", "root_concentration")

    def __init__(
        self,
        n_components: int = 8,
        *,
        family: str | BaseFamily = "categorical",
        inference: str | Engine | None = None,
        concentration: float = 0.1,
        kind_concentration: float = 1.0,
        root_concentration: float = 1.0,
        max_length: int = 60,
        learn_prior: bool = False,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: RandomState = None,
        init: str = "auto",
        n_init: int = 1,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def _check_arguments(self) -> None:
        super()._check_arguments()
        DirichletRules(**self._prior_of(self))

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        return replace(finite_grammar(family, **prior), learns=self.learn_prior)


@register
class HDPPCFG(GrammarEstimator):
    """Context-free grammar with a hierarchical Dirichlet process: finds how many categories.

    The children of every category are centered on products of the shares of one root. A fit begins
    with `n_components` and tries births, merges and deletes, each kept only if it raises the bound.
    With an engine that has none, the number is a truncation.

    Parameters
    ----------
    n_components : number of categories to begin with.
    inference : engine, by name or as an object; default `MemoizedVB()`, which has moves here.
    concentration : of the rules of a category around the products of the root's shares.
    root_concentration : of the root row around these shares.
    top_concentration : of the root's sticks; large values expect many categories.
    kind_concentration : prior count of emitting a word, and of splitting.
    root : "beta", a Beta posterior over the root's sticks, whose bound can choose the number of
        categories; "point", a point estimate, whose bound cannot.
    family, max_length, init, learn_prior, max_iter, tol, random_state : as in `PCFG`.
    n_init, n_jobs, warm_start, verbose : likewise.

    Attributes
    ----------
    root_, split_, rules_, labels_ and all others : as in `PCFG`.

    Examples
    --------
    >>> import stickbreak as sb
    >>> sentences = ["a b", "a b a b", "a a b b", "a b a a b b"] * 20
    >>> model = sb.HDPPCFG(4, random_state=0, max_iter=30, tol=1e-3).fit(sentences)
    >>> model.n_effective_ <= 4
    True
    """

    PRIOR = (
        "concentration", "root_concentration", "top_concentration", "kind_concentration", "root",
    )  # fmt: skip
    _is_unbounded = True
    root: str

    def __init__(
        self,
        n_components: int = 12,
        *,
        family: str | BaseFamily = "categorical",
        inference: str | Engine | None = None,
        concentration: float = 1.0,
        root_concentration: float = 1.0,
        top_concentration: float = 1.0,
        kind_concentration: float = 1.0,
        root: str = "beta",
        max_length: int = 60,
        learn_prior: bool = False,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: RandomState = None,
        init: str = "auto",
        n_init: int = 1,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def _check_arguments(self) -> None:
        with warnings.catch_warnings():
            # The warning about point estimates comes when the model is made.
            warnings.simplefilter("ignore", StickbreakWarning)
            HDPRules(**self._prior_of(self))
        super()._check_arguments()

    def _recommended_moves(self) -> tuple[BaseMove, ...]:
        # Categories are alike at first, and merge before they have become different.
        if self.root != "beta":
            return ()
        return (Merge(start="settled"), Delete(start="settled"), Birth())

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        return replace(hdp_grammar(family, **prior), learns=self.learn_prior)


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
    from stickbreak.reading import split_sentences

    assert table.offsets is not None
    given = split_sentences(X)
    if isinstance(given, list | tuple) and len(given) == table.n_spans:
        parts = [np.asarray(part, dtype=object).reshape(len(part), -1) for part in given]
        if all(part.shape[1] == 1 for part in parts):
            return [[str(word) for word in part[:, 0]] for part in parts]
    return [[str(i) for i in range(n)] for n in np.diff(table.offsets)]
