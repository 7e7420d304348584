"""Fits to treebanks, and answers of grammars whose rules are listed."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np

from stickbreak.data import (
    BAR,
    Batch,
    Companion,
    ConstituentTree,
    Listing,
    as_trees,
    binarize,
    find_words,
    list_rules,
    make_tree,
    number_trees,
)
from stickbreak.errors import DataWarning, NumericalError
from stickbreak.families.base import BaseFamily
from stickbreak.families.listed import ListedWords
from stickbreak.inference import workers
from stickbreak.models import Model, ModelPotentials, parse_units, share_parts
from stickbreak.reading import Given, Rows, Schema, Stack, Values
from stickbreak.stats import Array
from stickbreak.structures import Annotation

from .base import RandomState
from .engine_runs import Task
from .fitted import Fitted
from .listed_samples import draw_tree
from .tree_models import Rule, TreeEstimator
from .treebank_reading import covered_part, weights_of_trees, words_of

__all__ = ["TreebankEstimator"]


class TreebankEstimator(TreeEstimator):
    """Fits to trees, and answers about sentences."""

    METHODS = ("max-rule", "viterbi")
    UNKNOWN = "they are taken for their class, as rare ones were in the fit"
    learns_from_trees = True
    _noun, _plural = "subtype", "subtypes"
    n_subtypes: int
    horizontal: int | str
    rare: int
    prune: float

    # ------------------------------------------------------------------------------------ reading

    def _prepare(self, given: Given, previous: Fitted | None, can_move: bool = True) -> Task:
        self._check_arguments()
        trees = as_trees(given.X)
        binary = [binarize(tree, self.horizontal, f"tree {s}") for s, tree in enumerate(trees)]
        weight = weights_of_trees(given.sample_weight, len(binary))
        if previous is None:
            found = list_rules(binary, int(self.rare))
            family = ListedWords(**{name: getattr(found, name) for name in FIELDS})
        else:
            assert isinstance(previous.model.family, ListedWords)
            family, found = previous.model.family, previous.model.family.listing
            binary, weight = covered_part(binary, weight, found)
        known = number_trees(binary, found)
        rows = found.emits[known.rows[:, 0], 1][:, None]
        table = Stack(rows, offsets=known.offsets, is_list=True, companion=known)
        if weight is not None:
            table = replace(table, repeats=np.repeat(weight, np.diff(known.offsets)))
        n = int(self.n_subtypes) if previous is None else len(previous.ids)
        return Task(table, Schema(1), n, previous=previous, family=family)

    def _resolve(self, task: Task) -> BaseFamily:
        assert task.family is not None
        return task.family

    def _require_length(self, n: int, s: int) -> None:
        if n > self.max_length:
            raise ValueError(
                f"sentence {s} has {n} words, and max_length={self.max_length}: the time for a "
                "tree grows with the cube of the length; leave it out or raise max_length"
            )

    def _read(
        self, given: Given, family: BaseFamily, schema: Schema | None
    ) -> tuple[Stack, Schema]:
        """Sentences to parse: lists of words, or trees, of which the words are taken."""
        assert isinstance(family, ListedWords)
        assert schema is not None
        sentences = words_of(given.X)
        for s, words in enumerate(sentences):
            if not words:
                raise ValueError(f"sentence {s} is empty; drop it")
            self._require_length(len(words), s)
        ends = np.r_[0, np.cumsum([len(words) for words in sentences])]
        rows = find_words(sentences, family.listing)[:, None]
        return Stack(rows, offsets=ends, is_list=True), schema

    def _known(self, trees: Any, table: Stack, schema: Schema) -> Companion | None:
        return None

    def _with_unknown(self, fitted: Fitted) -> Fitted:
        return fitted

    def _apart(self, k: int) -> str:
        """Words that the subtype has more often than the others."""
        listing, times = self._listing(), self._require_fitted().counts["word_rule"]
        own = times.reshape(len(listing.emits), -1)
        share = own / np.maximum(own.sum(0), 1e-300)
        used = np.flatnonzero(own[:, k] >= 1)
        lift = share[used, k] * np.log(share[used, k] / share[used].mean(1))
        order = used[np.argsort(-lift, kind="stable")[:4]]
        names = [(listing.symbols[listing.emits[r, 0]], listing.words[listing.emits[r, 1]])
                 for r in order]  # fmt: skip
        return ", ".join(f"{word} ({symbol})" for symbol, word in names)

    def _known_words(self) -> tuple[str, ...]:
        return self.words_

    def _listing(self) -> Listing:
        family = self._require_fitted().model.family
        assert isinstance(family, ListedWords)
        return family.listing

    # ------------------------------------------------------------------------------------ fits

    def fit(self, X: Any, y: Values = None, *, sample_weight: Values = None) -> Self:
        """Fit to trees.

        Parameters
        ----------
        X : trees: a list of `ConstituentTree`, of nltk's trees, or of brackets; brackets as one
            text; or a `pathlib.Path` to a file of them. Traces, function tags and indices are left
            out. Every word needs a tag of its own.
        y : ignored.
        sample_weight : (S,) how often each tree counts.

        Returns
        -------
        self
        """
        return self._fit_trees("fit", X, y, sample_weight=sample_weight)

    def resume(self, X: Any, y: Values = None, *, sample_weight: Values = None) -> Self:
        """Continue an interrupted fit from `inference.checkpoint`, bit for bit.

        Parameters
        ----------
        X, y, sample_weight : as given to the interrupted `fit`.

        Returns
        -------
        self
        """
        return self._fit_trees("resume", X, y, sample_weight=sample_weight)

    def partial_fit(
        self,
        X: Any,
        y: Values = None,
        *,
        sample_weight: Values = None,
        total_samples: float | None = None,
    ) -> Self:
        """Update the model with more trees, of the rules that the first call had.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`. Trees that use other rules are left out, with a warning.
        total_samples : number of trees of the whole data set; each call then is a step of
            stochastic variational Bayes.

        Returns
        -------
        self
        """
        given = {"sample_weight": sample_weight, "total_samples": total_samples}
        return self._fit_trees("partial_fit", X, y, **given)

    # ------------------------------------------------------------------------------------ answers

    def parse(
        self, X: Rows, *, method: str = "max-rule", parameters: str = "fitted"
    ) -> list[ConstituentTree]:
        """A tree of each sentence, with the outer bracket ROOT.

        A sentence that no rules of the treebank cover becomes a flat tree of its words, each with
        its most frequent tag, and a warning names it.

        Parameters
        ----------
        X : sentences: lists of words, or strings of words with spaces between; or trees, of which
            the words are taken. Unknown words are taken for their class.
        method : "max-rule", the tree with the largest product of the posteriors of its rules, with
            subtypes summed out; "viterbi", the most probable tree with subtypes.
        parameters : "fitted", the potentials of the fitted rule; "mean", posterior means.

        Returns
        -------
        list of `ConstituentTree`, whose text is in Penn brackets.
        """
        self._check_method(method)
        fitted, table, potentials = self._ask(X, parameters)
        model = _by_method(fitted.model, method)
        with workers(self.n_jobs) as pool:
            found, logs = parse_units(model, potentials, table.whole(), pool)
        bad = np.flatnonzero(np.isneginf(logs))
        if len(bad):
            named = ", ".join(str(s) for s in bad[:5]) + (", ..." if len(bad) > 5 else "")
            warnings.warn(
                f"no rules of the treebank cover {len(bad)} sentence(s) ({named}): their trees are "
                "flat",
                DataWarning,
                stacklevel=2,
            )
        return self._trees(found, X, table, potentials)

    def _trees(
        self, found: Companion, X: Any, table: Stack, potentials: ModelPotentials | None = None
    ) -> list[ConstituentTree]:
        """Trees of found nodes; flat ones of sentences without."""
        listing, ends = self._listing(), found.offsets
        fitted = potentials or self._potentials_of(self._require_fitted(), "fitted")
        tags = _best_tags(fitted, listing)
        return [
            make_tree(found.of(s), listing, words)
            if found.of(s)[0, 0] >= 0
            else _flat(words, table.rows[ends[s] : ends[s + 1], 0], tags, listing)
            for s, words in enumerate(words_of(X))
        ]

    def predict(self, X: Rows, *, method: str = "max-rule", parameters: str = "fitted") -> Any:
        """Tags of the words in the trees that `parse` finds: a list of arrays of text.

        Parameters
        ----------
        X, method, parameters : as in `parse`.
        """
        trees = self.parse(X, method=method, parameters=parameters)
        return [np.array(tree.tags) for tree in trees]

    def parse_proba(
        self, X: Rows, *, parameters: str = "fitted"
    ) -> list[dict[tuple[int, int, str], float]]:
        """Posteriors of labeled spans, of each sentence: {(begin, end, label): probability}.

        Those of words begin to end - 1, tags included, above 1e-6; none of a sentence that no rules
        cover.

        Parameters
        ----------
        X, parameters : as in `parse`.
        """
        fitted, table, potentials = self._ask(X, parameters)
        with workers(self.n_jobs) as pool:
            found = share_parts(fitted.model, potentials, table.whole(), pool)
        names = self._listing().symbols
        return [
            {(int(i), int(j), names[int(x)]): float(p) for i, j, x, p in found.of(s)}
            for s in range(table.n_spans)
        ]

    def score_sequences(self, X: Rows) -> Array:
        """(S,) log probability of each sentence, all trees that pruning leaves, at posterior means.

        A lower limit, exact with prune=0. Words that are not listed count as their class.

        Parameters
        ----------
        X : sentences, as in `parse`.
        """
        return self._log_evidence(X)[0]

    def score(self, X: Rows, y: Values = None) -> float:
        """Mean log probability per word, in nats; see `score_sequences`.

        Parameters
        ----------
        X, y : as in `parse`.
        """
        found, n_words = self._log_evidence(X)
        return float(found.sum() / n_words)

    def _log_evidence(self, X: Rows) -> tuple[Array, int]:
        fitted, table, potentials = self._ask(X, "mean")
        # sentences without a tree are named by their number, so they are not given to all lanes
        with workers(self.n_jobs) as pool:
            try:
                found = fitted.model.log_evidence(potentials, table.whole(), pool)
            except NumericalError:
                found = _one_by_one(fitted.model, potentials, table.whole())
        return found, table.n_rows

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None
    ) -> tuple[list[list[str]], list[ConstituentTree]]:
        """Draw sentences with their trees, at posterior means.

        Parameters
        ----------
        n_samples : number of sentences. Those longer than max_length, or with two unary rules in
            succession, are drawn again.
        random_state : seed; default: the estimator's.

        Returns
        -------
        Words and tree of each sentence; rare words are classes.
        """
        fitted, rng, listing = self._require_fitted(), self._rng(random_state), self._listing()
        tables = {name: np.exp(table) for name, table in fitted.predictive().tables.items()}
        drawn = [draw_tree(tables, listing, int(self.max_length), rng) for _ in range(n_samples)]
        words = [[listing.words[listing.emits[r, 1]] for r in rows[:, 0]] for rows in drawn]
        trees = [make_tree(rows, listing, own) for rows, own in zip(drawn, words, strict=True)]
        return words, trees

    # ------------------------------------------------------------------------------------ learned

    @property
    def symbols_(self) -> tuple[str, ...]:
        """Names of symbols; a bar marks those that binarization has made."""
        return self._listing().symbols

    @property
    def words_(self) -> tuple[str, ...]:
        """Listed words, with the classes of rare ones."""
        return self._listing().words

    def top_rules(self, n: int = 10) -> list[Rule]:
        """The n rules that the training trees use most often, of words and of symbols.

        Parameters
        ----------
        n : how many; -1 for all.
        """
        fitted, listing = self._require_fitted(), self._listing()
        names, found = listing.symbols, []
        coarse = fitted.predictive().tables
        texts = {
            "binary_rule": [f"{names[a]} -> {names[b]} {names[c]}" for a, b, c in listing.binary],
            "unary_rule": [f"{names[a]} -> {names[b]}" for a, b in listing.unary],
            "word_rule": [f"{names[a]} -> {listing.words[v]}" for a, v in listing.emits],
        }
        for name, lines in texts.items():
            counts, chances = fitted.counts[name], np.exp(coarse[f"coarse_{name}"])
            times = counts.sum(tuple(range(1, counts.ndim)))
            found += [
                Rule(*one) for one in zip(lines, chances.tolist(), times.tolist(), strict=True)
            ]
        found.sort(key=lambda rule: -rule.times)
        return found if n < 0 else found[: int(n)]


FIELDS = ("symbols", "words", "tops", "binary", "unary", "emits")


def _by_method(model: Model, method: str) -> Model:
    structure = model.structure
    assert isinstance(structure, Annotation)
    return replace(model, structure=replace(structure, method=method))


def _one_by_one(model: Model, potentials: ModelPotentials, batch: Batch) -> Array:
    """(units,) log evidence; NumericalError names the first sentence that no rules cover."""
    block = batch.with_rows(model.family.prepare(batch.rows))
    found = model.structure.log_evidence(potentials, block)
    bad = int(np.flatnonzero(~np.isfinite(found))[0])
    raise NumericalError(
        f"no rules of the treebank cover sentence {bad}; leave it out, or fit to more trees"
    )


def _best_tags(potentials: ModelPotentials, listing: Listing) -> Array:
    """(V,) the rule that emits each word from its most frequent tag."""
    weights, found = potentials["coarse_word_rule"], np.zeros(len(listing.words), dtype=np.int64)
    found[listing.emits[np.argsort(weights), 1]] = np.argsort(weights)
    return found


def _flat(words: list[str], numbers: Array, tags: Array, listing: Listing) -> ConstituentTree:
    names = (listing.symbols[listing.emits[tags[v], 0]].replace(BAR, "") for v in numbers)
    pairs = zip(names, words, strict=True)
    return ConstituentTree("ROOT", tuple(ConstituentTree(tag, (word,)) for tag, word in pairs))
