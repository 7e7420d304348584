"""Topic models with a fixed or a learned number of topics."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy import sparse

from stickbreak.data import Batch, Documents, Table
from stickbreak.errors import StickbreakWarning
from stickbreak.families import Categorical
from stickbreak.families.base import BaseFamily
from stickbreak.inference import BaseMove, Engine, Start, workers
from stickbreak.initialize import from_documents
from stickbreak.models import Model, ModelPotentials, hdp_topics, lda
from stickbreak.parameters import require_prior_count, require_whole
from stickbreak.priors import GammaPrior
from stickbreak.protocols import Pool
from stickbreak.reading import Given, Rows, Schema, Values, open_documents, read_documents
from stickbreak.stats import Array

from .base import Estimator, RandomState
from .completion import Topics, score_completion
from .engine_runs import Task
from .fitted import Fitted, interval_of, number_of, with_words
from .model_files import register
from .views import Labeled, plot_topics, top_words

__all__ = ["HDPTopicModel", "LatentDirichletAllocation"]


class TopicEstimator(Estimator):
    """fit, transform and score for documents."""

    INITS = ("documents", "random")
    _noun = "topic"
    _row_noun = "word"
    word_concentration: float
    restarts: int

    plot = plot_topics
    top_words = top_words

    def _make_family(self) -> Categorical:
        require_prior_count(word_concentration=self.word_concentration)
        return Categorical(float(self.word_concentration))

    def _check_arguments(self) -> None:
        if not isinstance(self.restarts, Integral) or self.restarts < 0:
            raise ValueError(
                f"restarts must be a whole number of at least 0; got {self.restarts!r}"
            )
        super()._check_arguments()
        with warnings.catch_warnings():
            # The warning about point estimates comes when the model is made.
            warnings.simplefilter("ignore", StickbreakWarning)
            self._make_model(self._make_family(), self._prior_of(self))

    def _read(
        self, given: Given, family: BaseFamily, schema: Schema | None
    ) -> tuple[Documents, Schema]:
        return read_documents(given, schema)

    def _prepare(self, given: Given, previous: Fitted | None, can_move: bool = True) -> Task:
        """For a fit that continues, adds new words at the end of the vocabulary."""
        self._check_arguments()
        if previous is None:
            documents, schema = read_documents(given, None)
            return Task(documents, schema, self._count_first(documents, None, can_move))
        documents, schema = read_documents(given, previous.schema, grows=True)
        previous = with_words(previous, schema)
        return Task(documents, schema, len(previous.ids), previous=previous)

    def _n_items(self, table: Table) -> int:
        return table.n_spans

    def _resolve(self, task: Task) -> BaseFamily:
        self._warn_of_few(task, "documents")
        return replace(self._make_family(), n_symbols=(task.schema.n_features,))

    def _seed(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        n_passes, K = 0 if self.init == "random" else 2, task.n_components
        assert isinstance(task.table, Documents)
        return from_documents(model, task.table, K, rng, n_passes=n_passes, pool=pool)

    def _open(self, X: Rows, names: Sequence[str] | None) -> Rows:
        return open_documents(X, names, verbose=self.verbose)

    def _family_columns(self, fitted: Fitted) -> int:
        n_words, family = fitted.schema.n_features, fitted.model.family
        assert isinstance(family, Categorical)
        if family.n_symbols != (n_words,):
            raise ValueError(f"the model says {n_words} words, its family has {family.n_symbols}")
        return 1

    def _decode(
        self, fitted: Fitted, potentials: ModelPotentials, batch: Batch, pool: Pool
    ) -> Array:
        """(S,) largest topic of each document."""
        return fitted.model.unit_shares(potentials, batch, pool).argmax(1)

    def fit(self, X: Rows, y: object = None, *, sample_weight: Values = None) -> Self:
        """Fit to documents.

        Parameters
        ----------
        X : counts (S, V) as a CSR matrix, array or data frame whose columns are words; or a list of
            documents, each a list of words or a bag [(id, count), ...]; or the path of an LDA-C or
            UCI docword file, or of a `.txt` with a document on each line; or what
            `stickbreak.read_corpus` gives. Words that have names are found by these in later calls.
        y : ignored
        sample_weight : (S,) how often each document counts.

        Returns
        -------
        self
        """
        return self._fit(self._given(X, sample_weight=sample_weight))

    def resume(self, X: Rows, y: object = None, *, sample_weight: Values = None) -> Self:
        """Continue an interrupted fit from `inference.checkpoint`; refuses other data."""
        return self._resume(self._given(X, sample_weight=sample_weight))

    def partial_fit(
        self,
        X: Rows,
        y: object = None,
        *,
        sample_weight: Values = None,
        total_samples: float | None = None,
    ) -> Self:
        """Update the model with more documents; returns self. Lists of words may bring new ones.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`.
        total_samples : documents of the whole corpus; each call then is a step of stochastic
            variational Bayes, with the step sizes of `inference` if that is a StochasticVB.
        """
        return self._stream(self._given(X, sample_weight=sample_weight), total_samples)

    # ------------------------------------------------------------------------------------ answers

    def transform(self, X: Rows) -> Array:
        """(S, K) posterior mean share of each topic in each document, from a cold start."""
        fitted, documents = self._use(self._given(X))
        with workers(self.n_jobs) as pool:
            return fitted.model.unit_shares(fitted.potentials(), documents.whole(), pool)

    def fit_transform(self, X: Rows, y: object = None, *, sample_weight: Values = None) -> Array:
        """Fit, then the shares of topics in the same documents."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    def predict(self, X: Rows) -> Array:
        """(S,) topic with the largest share of each document, 0..K-1.

        `component_ids_` maps them to permanent ids.
        """
        return self.transform(X).argmax(1)

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the columns of `transform`."""
        return np.array([f"topic{k}" for k in range(self.n_components_)], dtype=object)

    def score_samples(self, X: Rows) -> Array:
        """(S,) lower bound on the log probability of each document, at posterior mean topics.

        The probability itself has no closed form. For comparisons use `score`, which is no bound.
        """
        fitted, documents = self._use(self._given(X))
        with workers(self.n_jobs) as pool:
            return fitted.model.log_evidence(fitted.predictive(), documents.whole(), pool)

    def score(self, X: Rows, y: object = None) -> float:
        """Mean log predictive probability of a word, in nats, by document completion.

        Of each document with five distinct words or more, a random fifth of them (always the same)
        is held out with all their occurrences. The others give its shares of the topics, from prior
        counts of 0.1, and the held-out words are scored: log sum_k share_k probability_kw. How
        documents are weighed in the model has no part in it, so that models and tools compare.
        """
        documents = self._use(self._given(X))[1]
        with workers(self.n_jobs) as pool:
            return score_completion(documents, Topics.of(self.topic_word_, self.counts_), pool)

    def perplexity(self, X: Rows) -> float:
        """exp(-score(X)): lower is better."""
        return float(np.exp(-self.score(X)))

    def sample(
        self, n_samples: int = 1, length: int = 100, random_state: RandomState = None
    ) -> tuple[Any, Array]:
        """Draw documents from the posterior predictive.

        Parameters
        ----------
        n_samples, length : how many documents, and of how many words each.
        random_state : seed; default: the estimator's.

        Returns
        -------
        Counts (S, V), a CSR matrix, and the shares (S, K) that they were drawn with.
        """
        fitted = self._require_fitted()
        require_whole(n_samples=n_samples, length=length)
        rng = self._rng(random_state)
        shares = rng.dirichlet(fitted.predictive()["pseudo"], n_samples)
        with workers(self.n_jobs):
            return sparse.csr_array(rng.multinomial(length, shares @ self.topic_word_)), shares

    # ------------------------------------------------------------------------------------ readers

    @property
    def topic_word_(self) -> Array:
        """(K, V) posterior mean probability of each word in each topic."""
        return self.posterior_["probability"][:, 0, :]

    @property
    def components_(self) -> Array:
        """(K, V) Dirichlet posteriors of topics: expected plus prior counts (scikit-learn name)."""
        counts = self._require_fitted().counts
        return np.ascontiguousarray((counts["emission"] + self.family_.concentration).T)

    @property
    def concentration_(self) -> float:
        """The documents' concentration: given or learned."""
        fitted = self._require_fitted()
        return float(fitted.model.prior.concentration_at(fitted.params))

    def _column_names(self, fitted: Fitted) -> list[str]:
        return list(fitted.schema.names or (f"word {v}" for v in range(fitted.schema.n_features)))

    def _dataset_values(self, fitted: Fitted) -> Labeled:
        return {"probability": ((fitted.model.axis, "word"), self.topic_word_)}

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = None
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        tags.input_tags.allow_nan = False
        return tags


@register
class LatentDirichletAllocation(TopicEstimator):
    """Latent Dirichlet allocation: a fixed number of topics.

    Parameters
    ----------
    n_components : number of topics.
    inference : engine, by name ("batch", "memoized", "stochastic", "em") or as an object; default
        `BatchVB`.
    concentration : prior count of each topic in a document; small values give documents of few
        topics. A number, or a `GammaPrior` to learn it. Default 0.1.
    word_concentration : prior count of each word in a topic. Default 0.1.
    learn_prior : at the end of each lap, move `word_concentration` to where it raises the bound
        (empirical Bayes).
    max_iter, tol : as in `Mixture`.
    restarts : topic-removal restarts per document and visit; slower, with better optima of the
        documents. Default 0.
    random_state : seed.
    init : "documents" (clusters of documents by their words) or "random" (documents far apart from
        each other).
    n_init, n_jobs, warm_start, verbose : as in `Mixture`.

    Attributes
    ----------
    topic_word_ : (K, V) posterior mean probabilities. components_ : (K, V) parameters of the
        posteriors.
    weights_, counts_ : (K,) share of each topic in all documents; expected words.
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

    def __init__(
        self,
        n_components: int = 10,
        *,
        inference: str | Engine | None = None,
        concentration: float | GammaPrior = 0.1,
        word_concentration: float = 0.1,
        learn_prior: bool = False,
        max_iter: int | None = None,
        tol: float | None = None,
        restarts: int = 0,
        random_state: RandomState = None,
        init: str = "documents",
        n_init: int = 1,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        made = lda(family, prior["concentration"], restarts=int(self.restarts))
        return replace(made, learns=self.learn_prior)


@register
class HDPTopicModel(TopicEstimator):
    """Hierarchical Dirichlet process topic model: finds the number of topics.

    A fit begins with `n_components` and tries births, merges and deletes, each kept only if it
    raises the bound of the whole corpus; `explain_moves` tells what happened. With an engine that
    has none, such as `EM()` or `MemoizedVB(moves=None)`, the number is a truncation; a fit that
    would begin with one topic begins with 25 and says so.

    Parameters
    ----------
    n_components : number of topics to begin with.
    inference : engine; default `MemoizedVB()`, which has moves here.
    concentration : of documents around the shares that all have in common; small values give
        documents of few topics. A number, or a `GammaPrior` to learn it. Default 0.5.
    top_concentration : of those shares; large values expect many topics. A number or a
        `GammaPrior`. Default 10.
    root : "beta", whose bound can choose the number of topics, or "point", a point estimate as in
        older work, which cannot.
    word_concentration, learn_prior, max_iter, tol, restarts : as in `LatentDirichletAllocation`.
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
        random_state: RandomState = None,
        init: str = "documents",
        n_init: int = 1,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def _recommended_moves(self) -> tuple[BaseMove, ...]:
        # The bound of a point estimate cannot choose the number of topics.
        return super()._recommended_moves() if self.root == "beta" else ()

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        made = hdp_topics(family, **prior, restarts=int(self.restarts))
        return replace(made, learns=self.learn_prior)

    @property
    def top_concentration_(self) -> float:
        """Concentration of the root's sticks: given, or the posterior mean if learned."""
        return number_of(self._top())

    @property
    def top_concentration_interval_(self) -> Array:
        """(2,) central 95 % interval of the posterior of `top_concentration_`."""
        return interval_of(self._top())

    def _top(self) -> float | GammaPrior:
        fitted = self._require_fitted()
        return fitted.model.prior.top(fitted.counts, fitted.params)
