"""Context-free grammars with a fixed or a learned number of categories."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stickbreak.errors import StickbreakWarning
from stickbreak.families.base import BaseFamily
from stickbreak.inference import BaseMove, CollapsedVB, Engine
from stickbreak.models import Model, finite_grammar, hdp_grammar, hdp_rules
from stickbreak.moves import Birth, Delete, Merge
from stickbreak.priors import DirichletRules, TableRoot

from .base import RandomState
from .engine_choice import NAMED_ROOTS, TABLE_LAPS, require_sweeps
from .grammar_answers import GrammarEstimator
from .model_files import register

__all__ = ["HDPPCFG", "PCFG"]


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
        "gibbs", "collapsed-gibbs") or as an object; default `CollapsedVB`, sentence by sentence.
        It keeps K^3 numbers in single precision for each sentence.
    concentration : prior count of each pair of children of a category. Near zero, EM is maximum
        likelihood.
    kind_concentration : prior count of emitting a word, and of splitting.
    root_concentration : prior count of each category as root.
    max_length : most words of a sentence; longer ones are refused.
    init : "local" (random weights for every sentence), "collapsed" (20 collapsed sweeps from there)
        or "right-branching" (20 collapsed sweeps in which trees branch to the right). "auto" is
        "local" for `CollapsedVB`, "collapsed" for all other engines.
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
        categories; "point", a point estimate, whose bound cannot; "tables" or a `TableRoot`,
        expected table counts for `inference="collapsed"`, which is then the default, begins with
        collapsed sweeps, and merges. With tables, the three concentrations are learned from these
        values on, and the first two do not become larger. They keep another K^3 numbers for each
        sentence.
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
    root: str | TableRoot

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
        root: str | TableRoot = "beta",
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
            hdp_rules(**self._prior_of(self))
        super()._check_arguments()
        require_sweeps(self, self.root)

    def _default_engine(self, on_disk: bool) -> Engine:
        if self.root in NAMED_ROOTS:
            return super()._default_engine(on_disk)
        differ = self.init != "local"  # categories that are alike would all be merged
        return CollapsedVB(max_iter=TABLE_LAPS, moves=(Merge(),) if differ else None)

    def _init(self) -> str:
        is_open = self.init == "auto" and self.root not in NAMED_ROOTS
        return "collapsed" if is_open and self.inference is None else super()._init()

    def _recommended_moves(self) -> tuple[BaseMove, ...]:
        # Categories are alike at first, and merge before they have become different.
        if self.root != "beta":
            return ()
        return (Merge(start="settled"), Delete(start="settled"), Birth())

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        return replace(hdp_grammar(family, **prior), learns=self.learn_prior)
