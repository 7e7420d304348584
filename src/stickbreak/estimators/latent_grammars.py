"""Grammars of treebanks whose symbols have hidden subtypes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stickbreak.data import HISTORIES
from stickbreak.families.base import BaseFamily
from stickbreak.families.listed import ListedWords
from stickbreak.inference import CollapsedVB, Engine, MemoizedVB, Start
from stickbreak.initialize import from_guess
from stickbreak.models import Model, annotated_grammar
from stickbreak.parameters import require_whole
from stickbreak.protocols import Pool

from .base import RandomState
from .engine_runs import Task
from .model_files import register
from .treebank_answers import TreebankEstimator

__all__ = ["LatentPCFG"]

JITTER = 0.01  # of the counts of a start
N_SWEEPS = 20  # collapsed sweeps of a start


@register
class LatentPCFG(TreebankEstimator):
    """Grammar of a treebank whose symbols have hidden subtypes, which parses new sentences.

    Rules are those of the treebank, binarized from the left, each with all subtypes of its parent
    and children; what is learned is how the subtypes of a symbol differ [Matsuzaki, Miyao and
    Tsujii 2005]. The top symbol's choice is not split. Rare words are known by their shape, see
    `rare`. Chains of unary rules are kept to one rule: the first and the last symbol.

    Parameters
    ----------
    n_subtypes : subtypes of each symbol; 1 is the grammar of the treebank itself.
    horizontal : sisters that a symbol made by binarization remembers: 0, 1 (the last one) or
        "full".
    rare : words seen up to so many times become classes by their shape, as do unknown words when
        parsing: capitals, digits, hyphens and endings, see `stickbreak.data.word_classes`.
    concentration : prior count of each rule with each choice of its children's subtypes. Near zero,
        EM is maximum likelihood.
    word_concentration, root_concentration : of each word that a tag has, and of each top symbol.
    inference : engine, by name ("batch", "memoized", "stochastic", "collapsed", "em", "hard-em",
        "stochastic-collapsed", "gibbs", "collapsed-gibbs") or as an object; default `CollapsedVB`,
        tree by tree, which keeps H^3 + 2 H^2 + H numbers in single precision for each word.
    prune : when parsing, symbols of a span are left out whose posterior in the grammar without
        subtypes is at most this; 0 for none, which is exact and slow.
    max_length : most words of a sentence to parse; longer ones are refused. Trees of a fit may be
        longer, because their time grows with their length only.
    init : "treebank" (the counts of the treebank shared evenly among subtypes, each times 0.99 to
        1.01 at random) or "collapsed" (20 collapsed sweeps from there).
    max_iter, tol, random_state : as in `Mixture`.
    n_init, n_jobs, warm_start, verbose : likewise.

    Attributes
    ----------
    symbols_, words_ : names of symbols (a bar marks those of binarization), and of listed words.
    rules_ : list of `Rule`: text, posterior mean probability summed over subtypes, and times seen.
    labels_ : subtype of the tag of each word of the training trees.
    counts_, weights_ : (H,) expected nodes of each subtype, and their shares.
    lower_bound_, trace_, converged_, n_iter_ : as in `Mixture`.

    Examples
    --------
    >>> import stickbreak as sb
    >>> trees = ["(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))", "(S (NP (PRP she)) (VP (VBZ sees)"
    ...          " (NP (DT a) (NN dog))))"] * 5
    >>> model = sb.LatentPCFG(2, random_state=0).fit(trees)
    >>> print(model.parse(["she sees the dog"])[0])
    (ROOT (S (NP (PRP she)) (VP (VBZ sees) (NP (DT the) (NN dog)))))
    """

    PRIOR = ("concentration", "word_concentration", "root_concentration")
    INITS = ("treebank", "collapsed")
    learn_prior = False
    family = "words"

    def __init__(
        self,
        n_subtypes: int = 4,
        *,
        horizontal: int | str = 1,
        rare: int = 1,
        concentration: float = 0.01,
        word_concentration: float = 0.01,
        root_concentration: float = 0.1,
        inference: str | Engine | None = None,
        prune: float = 1e-5,
        max_length: int = 120,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: RandomState = None,
        init: str = "treebank",
        n_init: int = 1,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    @property
    def n_components(self) -> int:  # type: ignore[override]
        """The number of subtypes."""
        return self.n_subtypes

    def _check_arguments(self) -> None:
        require_whole(n_subtypes=self.n_subtypes)
        super()._check_arguments()
        if self.horizontal not in HISTORIES or isinstance(self.horizontal, bool):
            raise ValueError(f'horizontal must be 0, 1 or "full"; got {self.horizontal!r}')
        rare: Any = self.rare
        if not isinstance(rare, int | np.integer) or rare < 0:
            raise ValueError(f"rare must be a whole number of words, 0 or more; got {rare!r}")
        if not 0.0 <= self.prune < 1.0:
            raise ValueError(f"prune must be from 0 to below 1; got {self.prune!r}")

    def _make_family(self) -> BaseFamily:
        return ListedWords()

    def _default_engine(self, on_disk: bool) -> Engine:
        return MemoizedVB() if on_disk else CollapsedVB()

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        assert isinstance(family, ListedWords)
        return annotated_grammar(family, prune=float(self.prune), **prior)

    def _seed(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        sweeps = N_SWEEPS if self.init == "collapsed" else 0
        given = task.table, task.n_components, rng
        return from_guess(model, *given, jitter=JITTER, n_sweeps=sweeps, pool=pool)
