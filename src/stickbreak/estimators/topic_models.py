"""Topic models with a fixed or a learned number of topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stickbreak.families.base import BaseFamily
from stickbreak.inference import BaseMove, Engine
from stickbreak.models import Model, hdp_topics, lda
from stickbreak.moves import Birth, Delete, Merge
from stickbreak.priors import GammaPrior

from .base import RandomState
from .engine_choice import pick_engine
from .model_files import register
from .root_numbers import top_concentration, top_interval
from .topic_fits import TopicEstimator

__all__ = ["HDPTopicModel", "LatentDirichletAllocation"]

# Of a fit that began with as many topics as suit it: births and deletes are trials on all data, and
# on corpora as large as AP they took two thirds of the time for 0.1 % of the bound. To watch
# pairs makes a lap several times as long; on AP none of 317 was accepted, on BBC none of 309.
MAX_TRIAL_ROWS = 100_000


@register
class LatentDirichletAllocation(TopicEstimator):
    """Latent Dirichlet allocation: a fixed number of topics.

    Parameters
    ----------
    n_components : number of topics.
    inference : engine, by name ("batch", "memoized", "stochastic", "collapsed", "em") or as an
        object; default `BatchVB`.
    concentration : prior count of each topic in a document; small values give documents of few
        topics. A number, or a `GammaPrior` to learn it; or one number for each topic (K,), or
        "auto" to learn these, so that topics may differ in how many documents have them; both
        are for engines without moves. Default 0.1.
    word_concentration : prior count of each word in a topic. Default 0.1.
    learn_prior : at the end of each lap, move `word_concentration` to where it raises the bound
        (empirical Bayes).
    max_iter, tol : as in `Mixture`.
    restarts : topic-removal restarts per document and visit, of documents that continue from
        their last visit; slower, with better optima of the documents (`trace_.acceptance`).
        Default 0.
    seeds : words that belong to some topics: {topic: words}. A seed word may have its topics and no
        other; all other words may have any. Words are names, or numbers where the documents have no
        names, and must be in the documents of the fit. Seeded topics keep the numbers given here.
    allowed : the same word by word, in place of `seeds`: {word: topics}, in which words that the
        documents lack are ignored; or a boolean table (V, K), words in the order of
        `feature_names_in_`, which is the sorted one for lists of words.
    random_state : seed.
    init : "collapsed" (120 collapsed sweeps from random shares of every word), "documents"
        (clusters of documents by their words), "random" (documents far apart from each other),
        "local" (random shares of every word) or "anchors" (words that stand for a topic each, and
        what occurs with them).
    n_init, n_jobs, warm_start, verbose : as in `Mixture`.

    Attributes
    ----------
    topic_word_ : (K, V) posterior mean probabilities. components_ : (K, V) parameters of the
        posteriors.
    weights_, counts_ : (K,) share of each topic in all documents; expected words.
    concentration_, topic_concentration_ : as given or learned; (K,) of each topic.
    labels_ : (S,) largest topic of each training document.
    n_features_in_, feature_names_in_ : number of words, and what they are, where the data say so.
    lower_bound_, trace_, converged_, n_iter_, component_ids_ : as in `Mixture`.

    Examples
    --------
    >>> import stickbreak as sb
    >>> pets, cooking = ["cat", "dog", "cat", "fur"], ["salt", "soup", "salt", "pan"]
    >>> model = sb.LatentDirichletAllocation(2, random_state=0).fit([pets, cooking] * 20)
    >>> sorted(sorted(words) for words in model.top_words(2))
    [['cat', 'dog'], ['pan', 'salt']]
    """

    concentration: Any

    def __init__(
        self,
        n_components: int = 10,
        *,
        inference: str | Engine | None = None,
        concentration: float | GammaPrior | ArrayLike | str = 0.1,
        word_concentration: float = 0.1,
        learn_prior: bool = False,
        max_iter: int | None = None,
        tol: float | None = None,
        restarts: int = 0,
        seeds: Mapping[int, Any] | None = None,
        allowed: Mapping[Any, Any] | ArrayLike | None = None,
        random_state: RandomState = None,
        init: str = "collapsed",
        n_init: int = 1,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def _check_arguments(self) -> None:
        super()._check_arguments()
        given = self.concentration
        has_own = np.ndim(given) > 0 or isinstance(given, str)
        if has_own and pick_engine(self, False).mover().moves:
            raise ValueError(
                "moves change the number of topics, and with it which topic a prior count is of; "
                "use moves=None, one concentration for all topics, or HDPTopicModel"
            )

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        made = lda(family, prior["concentration"], restarts=int(self.restarts))
        return replace(made, learns=self.learn_prior)


@register
class HDPTopicModel(TopicEstimator):
    """Hierarchical Dirichlet process topic model: finds the number of topics.

    A fit begins with as many topics as suit the corpus, found by trying 16, 32, 64, ... of them.
    With at most 100,000 distinct words of documents it then tries births, merges and deletes, each
    kept only if it raises the bound of the whole corpus; `explain_moves` tells what happened. On
    larger corpora these take several times as long as all else and gain 0.1 % of the bound; there,
    `inference=sb.MemoizedVB(moves=[sb.Birth(), sb.Merge(), sb.Delete()])` has them. In a stream
    (`partial_fit`) topics are born as they come. With an engine that has
    none, such as `EM()` or `MemoizedVB(moves=None)`, the number is a truncation; a fit that would
    begin with one topic begins with 25 and says so.

    Parameters
    ----------
    n_components : number of topics to begin with. 1 with `init="collapsed"`, both the defaults, is
        a ladder: some collapsed sweeps and some laps with each of several numbers, of which the one
        with the largest bound is taken.
    inference : engine; default `MemoizedVB()`, which has moves here.
    concentration : of documents around the shares that all have in common; small values give
        documents of few topics. A number, or a `GammaPrior` to learn it. Default 0.5.
    top_concentration : of those shares; large values expect many topics. A number or a
        `GammaPrior`. Default 10.
    root : "beta", whose bound can choose the number of topics, or "point", a point estimate as in
        older work, which cannot.
    word_concentration, learn_prior, max_iter, tol, restarts : as in `LatentDirichletAllocation`.
    seeds, allowed : likewise, for topics 0 to n_components - 1. No move touches a topic that has
        seeds, nor one with a smaller number. Births divide the others, so begin with one more topic
        than have seeds; newborns have no seed words.
    random_state, init, n_init, n_jobs, warm_start, verbose : likewise.

    Attributes
    ----------
    top_concentration_, top_concentration_interval_ : as given, or posterior mean and 95 % interval
        of a learned one.
    topic_word_ and all others : as in `LatentDirichletAllocation`.

    Examples
    --------
    >>> import stickbreak as sb
    >>> pets, cooking = ["cat", "dog", "cat", "fur"], ["salt", "soup", "salt", "pan"]
    >>> sb.HDPTopicModel(random_state=0).fit([pets, cooking] * 20).n_components_
    2
    """

    PRIOR = ("concentration", "top_concentration", "root")
    _is_unbounded = True
    root: str

    top_concentration_ = property(top_concentration)
    top_concentration_interval_ = property(top_interval)

    def __init__(
        self,
        n_components: int = 1,
        *,
        inference: str | Engine | None = None,
        concentration: float | GammaPrior = 0.5,
        top_concentration: float | GammaPrior = 10.0,
        root: str = "beta",
        word_concentration: float = 0.1,
        learn_prior: bool = False,
        max_iter: int | None = None,
        tol: float | None = None,
        restarts: int = 0,
        seeds: Mapping[int, Any] | None = None,
        allowed: Mapping[Any, Any] | ArrayLike | None = None,
        random_state: RandomState = None,
        init: str = "collapsed",
        n_init: int = 1,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def _recommended_moves(self) -> tuple[BaseMove, ...]:
        if self.root != "beta":  # the bound of a point estimate cannot choose the number of topics
            return ()
        if not self._climbs():
            return super()._recommended_moves()
        limit = {"max_trial_rows": MAX_TRIAL_ROWS}
        return Birth(**limit), Merge(start="settled", **limit), Delete(**limit)

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        made = hdp_topics(family, **prior, restarts=int(self.restarts))
        return replace(made, learns=self.learn_prior)
