"""Topic models with a fixed number of topics, or with as many as the documents support."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np

from stickbreak.data import Documents, read_corpus
from stickbreak.errors import StickbreakWarning
from stickbreak.families import Categorical
from stickbreak.inference import Engine, MemoizedVB, Start, workers
from stickbreak.initialize import from_documents
from stickbreak.models import hdp_topics, lda
from stickbreak.moves import Birth, Delete, Merge
from stickbreak.parameters import require_positive, require_whole
from stickbreak.stats import SYMBOL, Array

from .base import Estimator
from .documents import halves, make_documents
from .files import register
from .parts import make_seed
from .progress import Phase
from .roots import Rooted
from .tables import Given
from .topicviews import TopicViews

__all__ = ["HDPTopicModel", "LatentDirichletAllocation"]

CHUNK = 1 << 16  # words whose probabilities are computed at once


class TopicEstimator(TopicViews, Estimator):
    """fit, transform and score for documents."""

    INITS = ("documents", "random")
    _noun = "topic"
    _row_noun = "word"

    # ------------------------------------------------------------------------------------------ fit

    def _make_family(self) -> Categorical:
        require_positive(word_concentration=self.word_concentration)
        return Categorical(float(self.word_concentration))

    def _local(self) -> dict[str, Any]:
        """Settings of the documents' own fixed points."""
        return {"restarts": int(self.restarts)}

    def _check_arguments(self) -> None:
        if not isinstance(self.restarts, Integral) or self.restarts < 0:
            raise ValueError(
                f"restarts must be a whole number of at least 0; got {self.restarts!r}"
            )
        super()._check_arguments()
        with warnings.catch_warnings():
            # of a point estimate: said when the model is made
            warnings.simplefilter("ignore", StickbreakWarning)
            # checks the prior's arguments
            self._make_model(self._make_family(), self._prior_of(self), None)

    def _make_table(self, given: Given, family: Any, *, reset: bool) -> Documents:
        documents = make_documents(self, given, reset=reset)
        if reset:
            self.categories_ = {}
        return documents

    def _resolve(self, table: Any) -> Any:
        family = replace(self._make_family(), n_symbols=(int(self.n_features_in_),))
        self._warn_of_few(table.n_spans, "documents")
        return self._make_model(family, self._prior_of(self), self._pick_engine(False).rule())

    def _seed(
        self, model: Any, table: Any, legal: Array | None, rng: np.random.Generator, pool: Any
    ) -> Start:
        K = int(self.n_components)
        return from_documents(
            model, table, K, rng, n_passes=0 if self.init == "random" else 2, pool=pool
        )

    def _open(self, X: Any, names: Any) -> Any:
        if not isinstance(X, str | Path):
            return X
        with Phase(f"reading {X}", bool(self.verbose)) as phase:
            return read_corpus(X, words=names, report=phase.update)

    def _n_columns(self) -> int:
        return 1

    def _check_shapes(self) -> None:
        if self._model.family.n_symbols != (self.n_features_in_,):
            raise ValueError(
                f"the model says {self.n_features_in_} words, its family has "
                f"{self._model.family.n_symbols}"
            )
        super()._check_shapes()

    def _decode(self, table: Documents, potentials: Any, pool: Any) -> Array:
        """(S,) the largest topic of each document."""
        return self._model.unit_shares(potentials, table.whole(), pool).argmax(1)

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
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
        return self._fit_table(*self._prepare(Given(X, sample_weight), None))

    def resume(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Continue an interrupted fit from `inference.checkpoint`, bit for bit. Other data or
        settings are refused.
        """
        return self._resume_table(*self._prepare(Given(X, sample_weight), None))

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        total_samples: float | None = None,
    ) -> Self:
        """See some more documents: adds what they say to what was seen before. Lists of words may
        bring new ones.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`.
        total_samples : number of documents of the whole corpus; each call then is a step of
            stochastic variational Bayes, with the step sizes of `inference` if that is a
            StochasticVB.

        Returns
        -------
        self
        """
        return self._stream(Given(X, sample_weight), None, total_samples)

    def _read(self, given: Given, labels: Any, is_continued: bool) -> tuple[Documents, None]:
        self._check_arguments()
        documents = make_documents(self, given, reset=not is_continued, grows=is_continued)
        if not is_continued:
            self.categories_ = {}
        return documents, None

    def _grow_vocabulary(self, words: list[str]) -> None:
        """Words that were never seen, at the end of the vocabulary, with no counts."""
        self.feature_names_in_ = np.concatenate(
            [self.feature_names_in_, np.array(words, dtype=object)]
        )
        self.n_features_in_ = len(self.feature_names_in_)
        self._counts = self._counts.insert(SYMBOL, len(words))
        family = replace(self._model.family, n_symbols=(self.n_features_in_,))
        self._model = replace(self._model, family=family)

    # ------------------------------------------------------------------------------------------ usi

    def _documents(self, X: Any) -> Documents:
        self._require_fitted()
        return make_documents(self, Given(X), reset=False)

    def transform(self, X: Any) -> Array:
        """(S, K) posterior mean share of each topic in each document; rows sum to one.

        Every document is inferred from the start, with the topics of the fit.
        """
        documents = self._documents(X)
        with workers(self.n_jobs) as pool:
            return self._model.unit_shares(self._potentials(), documents.whole(), pool)

    def fit_transform(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Array:
        """Fit, then the shares of topics in the same documents."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    def predict(self, X: Any) -> Array:
        """(S,) the topic with the largest share of each document, 0..K-1; `component_ids_` maps
        them to permanent ids.
        """
        return self.transform(X).argmax(1)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of `transform`."""
        self._require_fitted()
        return np.array([f"topic{i}" for i in self.component_ids_], dtype=object)

    def score_samples(self, X: Any) -> Array:
        """(S,) a lower bound on the log probability of each document as a whole, topics at their
        posterior means.

        The probability itself has no closed form. For comparisons use `score`, which is no bound.
        """
        documents = self._documents(X)
        with workers(self.n_jobs) as pool:
            potentials = self._model.predictive(self._counts, self._params)
            return self._model.log_evidence(potentials, documents.whole(), pool)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive probability of a word, in nats, by document completion.

        The occurrences of every document's words are dealt out at random (always in the same way)
        to two halves; the first says which topics the document has, and the second is scored: log
        sum_k share_k probability_kw at posterior means.
        """
        documents = self._documents(X)
        known, held_out = halves(documents, int(self.n_features_in_))
        shares, probability = self.transform(known), np.ascontiguousarray(self.topic_word_.T)
        rows, total = np.repeat(np.arange(documents.n_spans), np.diff(held_out.indptr)), 0.0
        for lo in range(0, len(held_out.data), CHUNK):
            at = slice(lo, lo + CHUNK)
            found = np.einsum("nk,nk->n", shares[rows[at]], probability[held_out.indices[at]])
            total += float(held_out.data[at] @ np.log(found))
        weight = float(held_out.data.sum())
        if weight == 0:
            raise ValueError(
                "no document has two occurrences of words, one to learn its topics "
                "from and one to score"
            )
        return total / weight

    def perplexity(self, X: Any) -> float:
        """exp(-score(X)): lower is better."""
        return float(np.exp(-self.score(X)))

    def sample(
        self, n_samples: int = 1, length: int = 100, random_state: Any = None
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
        from scipy import sparse

        self._require_fitted()
        require_whole(n_samples=n_samples, length=length)
        rng = np.random.default_rng(
            make_seed(self.random_state if random_state is None else random_state)
        )
        prior = self._model.predictive(self._counts, self._params)["pseudo"]
        shares = rng.dirichlet(prior, n_samples)
        counts = rng.multinomial(length, shares @ self.topic_word_)
        return sparse.csr_array(counts), shares

    # ------------------------------------------------------------------------------------------ lea

    @property
    def topic_word_(self) -> Array:
        """(K, V) posterior mean probability of each word in each topic."""
        return self.posterior_["probability"][:, 0, :]

    @property
    def components_(self) -> Array:
        """(K, V) parameters of the topics' Dirichlet posteriors, expected occurrences plus prior
        counts: scikit-learn's name.
        """
        self._require_fitted()
        return np.ascontiguousarray((self._counts["emission"] + self._model.family.concentration).T)

    @property
    def concentration_(self) -> float:
        """The documents' concentration: as given, or as learned."""
        self._require_fitted()
        return float(self._model.prior.concentration_at(self._params))

    def top_words(self, n: int = 10, *, relevance: float = 1.0) -> list[list[Any]]:
        """The words that say most of each topic, the largest topic first.

        Parameters
        ----------
        n : words of each topic.
        relevance : 1 ranks by probability in the topic; 0 by how much more probable a word is there
            than in all documents; between them, by `relevance * log p(word | topic) + (1 -
            relevance) * log(p(word | topic) / p(word))`.

        Returns
        -------
        One list of words (of their numbers, where words have no names) for each topic that has any,
        in the order of `weights_`, the largest first.
        """
        require_whole(n=n)
        if not 0 <= relevance <= 1:
            raise ValueError(f"relevance must be between 0 and 1; got {relevance!r}")
        probability = self.topic_word_
        lift = np.log(probability) - np.log(self.weights_ @ probability)
        rank = relevance * np.log(probability) + (1.0 - relevance) * lift
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        order = [k for k in np.argsort(-self.weights_, kind="stable") if self.counts_[k] >= 1.0]
        return [[names[v] for v in np.argsort(-rank[k], kind="stable")[:n]] for k in order]

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = None
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        tags.input_tags.sparse, tags.input_tags.positive_only, tags.input_tags.allow_nan = (
            True,
            True,
            False,
        )
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
    restarts : how often a document may try to do without one of its topics at every visit; slower,
        and each document's own optimum is better. Default 0.
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
        inference: Any = None,
        concentration: Any = 0.1,
        word_concentration: float = 0.1,
        learn_prior: bool = False,
        restarts: int = 0,
        random_state: Any = None,
        init: str = "documents",
        n_init: int = 1,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def _make_model(self, family: Any, prior: Mapping[str, Any], rule: Any) -> Any:
        return replace(
            lda(family, prior["concentration"], **self._local()), learns=self.learn_prior
        )


@register
class HDPTopicModel(Rooted, TopicEstimator):
    """Hierarchical Dirichlet process topic model: finds the number of topics.

    A fit begins with `n_components` and tries births, merges and deletes, each kept only if it
    raises the bound of the whole corpus; `explain_moves` tells what happened. With an engine that
    has no moves, such as `MemoizedVB()`, the number is a truncation.

    Parameters
    ----------
    n_components : number of topics to begin with.
    inference : engine; default `MemoizedVB(moves=(Birth(), Merge(), Delete()))`.
    concentration : of documents around the shares that all have in common; small values give
        documents of few topics. A number, or a `GammaPrior` to learn it. Default 0.5.
    top_concentration : of those shares; large values expect many topics. A number or a
        `GammaPrior`. Default 10.
    root : "beta", whose bound can choose the number of topics, or "point", a point estimate as in
        older work, which cannot.
    word_concentration, learn_prior, restarts, random_state, init, n_init, n_jobs, warm_start,
        verbose : as in `LatentDirichletAllocation`.

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

    def __init__(
        self,
        n_components: int = 1,
        *,
        inference: Any = None,
        concentration: Any = 0.5,
        top_concentration: Any = 10.0,
        root: str = "beta",
        word_concentration: float = 0.1,
        learn_prior: bool = False,
        restarts: int = 0,
        random_state: Any = None,
        init: str = "documents",
        n_init: int = 1,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def _default_engine(self, on_disk: bool) -> Engine:
        return (
            MemoizedVB(moves=(Birth(), Merge(), Delete())) if self.root == "beta" else MemoizedVB()
        )

    def _make_model(self, family: Any, prior: Mapping[str, Any], rule: Any) -> Any:
        made = hdp_topics(
            family,
            prior["concentration"],
            prior["top_concentration"],
            root=prior["root"],
            **self._local(),
        )
        return replace(made, learns=self.learn_prior)

    def _top(self) -> Any:
        self._require_fitted()
        return self._model.prior.top(self._counts, self._params)
