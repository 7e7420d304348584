"""Estimators of documents: fits, answers, pictures."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from stickbreak.data import Batch, Documents, Table
from stickbreak.errors import StickbreakWarning
from stickbreak.families import Categorical
from stickbreak.families.base import BaseFamily
from stickbreak.inference import Engine, Start, workers
from stickbreak.initialize import (
    N_RUNGS,
    RUNG_LAPS,
    from_anchors,
    from_collapsed,
    from_documents,
    from_ladder,
    from_local,
    place_words,
)
from stickbreak.metrics.completion import Topics, score_completion
from stickbreak.models import Model, ModelPotentials
from stickbreak.parameters import require_prior_count, require_whole
from stickbreak.progress import Phase, PhaseLaps
from stickbreak.protocols import Pool
from stickbreak.reading import (
    Dictionary,
    Given,
    Names,
    Rows,
    Schema,
    Values,
    make_dictionary,
    open_documents,
    read_documents,
    words_of_topics,
)
from stickbreak.stats import Array

from .apart import answer_apart, is_apart
from .base import Estimator, RandomState
from .engine_runs import Task
from .fitted import Fitted, with_words
from .observed_documents import observe_documents, topic_values
from .root_numbers import unit_concentration
from .views import Labeled, plot_topics, top_words

__all__ = ["TopicEstimator"]

N_SWEEPS = 120  # of a collapsed start; later ones raise the bound less, held-out scores not always
TOL = 1e-4  # nats a word, of the laps after it
TOPICS = Names(symbol="word", component="topic")


class TopicEstimator(Estimator):
    """fit, transform and score for documents."""

    INITS = ("documents", "random", "local", "collapsed", "anchors")
    _noun = "topic"
    _row_noun = "word"
    word_concentration: float
    restarts: int
    seeds: Mapping[int, Any] | None = None
    allowed: Mapping[Any, Any] | ArrayLike | None = None

    plot = plot_topics
    _report_values = topic_values
    _observe = observe_documents
    top_words = top_words
    concentration_ = property(unit_concentration)

    def _make_family(self) -> Categorical:
        require_prior_count(word_concentration=self.word_concentration)
        return Categorical(float(self.word_concentration))

    def _default_engine(self, on_disk: bool) -> Engine:
        """After collapsed sweeps, later laps raise the bound, not the scores of new documents."""
        engine = super()._default_engine(on_disk)
        return replace(engine, tol=TOL) if self.init == "collapsed" else engine

    def _check_arguments(self) -> None:
        if not isinstance(self.restarts, Integral) or self.restarts < 0:
            raise ValueError(
                f"restarts must be a whole number of at least 0; got {self.restarts!r}"
            )
        if self.seeds is not None and self.allowed is not None:
            raise ValueError("seeds and allowed say the same in two ways; give one of them")
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
            n_first = self._count_first(documents, None, can_move)
            return self._limit(Task(documents, schema, n_first), given)
        documents, schema = read_documents(given, previous.schema, grows=True)
        previous = with_words(previous, schema)
        return self._limit(Task(documents, schema, len(previous.ids), previous=previous), given)

    def _dictionary(self, schema: Schema, ids: Sequence[int]) -> Dictionary | None:
        """The topics, by their ids, that each word may have; None if they are not restricted."""
        V, K, allowed = schema.n_features, int(self.n_components), self.allowed
        words: Sequence[Any] | None = schema.names
        if self.seeds is not None:
            allowed = words_of_topics(self.seeds, words, V, K)
        if allowed is None:
            return None
        if words is None and not isinstance(allowed, Mapping):
            words = range(V)
        return make_dictionary(allowed, words, K, TOPICS).at(ids)

    def _limit(self, task: Task, given: Given) -> Task:
        known = self._dictionary(task.schema, task.ids)
        return task if known is None else self._with_sets(task, known.limit(task.table.rows, None))

    def _n_items(self, table: Table) -> int:
        return table.n_spans

    def _resolve(self, task: Task) -> BaseFamily:
        self._warn_of_few(task, "documents")
        return replace(self._make_family(), n_symbols=(task.schema.n_features,))

    def _seed(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        documents, K = task.table, task.n_components
        assert isinstance(documents, Documents)
        legal = task.legal
        if self.init == "local":
            return from_local(model, documents, K, rng, legal=legal, pool=pool)
        if self.init == "collapsed":
            with Phase("looking for a start", bool(self.verbose)) as phase:
                return self._sweep(model, documents, K, legal, rng, pool, phase)
        if self.init == "anchors":
            start = from_anchors(model, documents, K, rng)
        else:
            n_passes = 0 if self.init == "random" else 2
            start = from_documents(model, documents, K, rng, n_passes=n_passes, pool=pool)
        known = self._dictionary(task.schema, task.ids)
        if known is None or legal is None:
            return start
        return place_words(
            model, start, known.sets(np.arange(task.schema.n_features)[:, None]), legal
        )

    def _sweep(
        self,
        model: Model,
        documents: Documents,
        K: int,
        legal: Array | None,
        rng: np.random.Generator,
        pool: Pool,
        phase: Phase,
    ) -> Start:
        """A collapsed start, or the one that a ladder ends with."""
        if K > 1 or not self._climbs():
            laps = (PhaseLaps(phase, N_SWEEPS),)
            return from_collapsed(
                model, documents, K, rng, n_sweeps=N_SWEEPS, legal=legal, pool=pool, callbacks=laps
            )
        n_laps, most = N_RUNGS * (N_SWEEPS + RUNG_LAPS), documents.n_spans
        laps = (PhaseLaps(phase, n_laps),)
        return from_ladder(
            model, documents, most, rng, n_sweeps=N_SWEEPS, pool=pool, callbacks=laps
        )

    def _climbs(self) -> bool:
        """Whether a fit begins with a ladder of numbers of topics."""
        is_free = self.seeds is None and self.allowed is None
        return (
            self._is_unbounded and self.init == "collapsed" and self.n_components == 1 and is_free
        )

    def _open(self, X: Rows, names: Sequence[str] | None) -> Rows:
        return open_documents(X, names, verbose=self.verbose)

    def _family_columns(self, fitted: Fitted) -> int:
        n_words, family = fitted.schema.n_features, fitted.model.family
        assert isinstance(family, Categorical)
        if family.n_symbols != (n_words,):
            raise ValueError(f"the model says {n_words} words, its family has {family.n_symbols}")
        return 1

    def _use(self, given: Given) -> tuple[Fitted, Documents]:
        fitted, documents = super()._use(given)
        known = self._dictionary(fitted.schema, fitted.ids)
        if known is not None:
            documents = replace(documents, sets=known.sets(documents.rows))
        return fitted, documents

    def _with_legal(self, fitted: Fitted, potentials: ModelPotentials) -> ModelPotentials:
        """Potentials for new documents, whose words are limited as `_use` says."""
        known = self._dictionary(fitted.schema, fitted.ids)
        return replace(potentials, log_legal=None if known is None else known.log_legal)

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

    def transform(self, X: Rows, *, out: Path | str | None = None) -> Any:
        """(S, K) posterior mean share of each topic in each document, from a cold start.

        Of dask collections, here and in `predict` and `score_samples`, the answer is a lazy one.
        `out`, for shards: a folder to which whoever reads a shard writes its answers (`.npy`);
        their paths are returned.
        """
        if is_apart(X, out):
            return answer_apart(self, "transform", X, out)
        documents = self._use(self._given(X))[1]
        with workers(self.n_jobs) as pool:
            return self._answer_batch("transform", documents.whole(), pool)

    def _answer_batch(self, name: str, documents: Batch, pool: Pool) -> Array:
        """What `transform`, `predict` or `score_samples` answer about checked documents."""
        fitted = self._require_fitted()
        if name == "score_samples":
            potentials = self._with_legal(fitted, fitted.predictive())
            return fitted.model.log_evidence(potentials, documents, pool)
        potentials = self._with_legal(fitted, fitted.potentials())
        shares = fitted.model.unit_shares(potentials, documents, pool)
        return shares.argmax(1) if name == "predict" else shares

    def fit_transform(self, X: Rows, y: object = None, *, sample_weight: Values = None) -> Array:
        """Fit, then the shares of topics in the same documents."""
        shares: Array = self.fit(X, sample_weight=sample_weight).transform(X)
        return shares

    def predict(self, X: Rows, *, out: Path | str | None = None) -> Any:
        """(S,) topic with the largest share of each document, 0..K-1.

        `component_ids_` maps them to permanent ids. X, out : as in `transform`.
        """
        if is_apart(X, out):
            return answer_apart(self, "predict", X, out)
        return self.transform(X).argmax(1)

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the columns of `transform`."""
        return np.array([f"topic{k}" for k in range(self.n_components_)], dtype=object)

    def score_samples(self, X: Rows, *, out: Path | str | None = None) -> Any:
        """(S,) lower bound on the log probability of each document, at posterior mean topics.

        The probability itself has no closed form. For comparisons use `score`, which is no bound.
        X, out : as in `transform`.
        """
        if is_apart(X, out):
            return answer_apart(self, "score_samples", X, out)
        documents = self._use(self._given(X))[1]
        with workers(self.n_jobs) as pool:
            return self._answer_batch("score_samples", documents.whole(), pool)

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
    def topic_concentration_(self) -> Array:
        """(K,) prior count of each topic in a document."""
        fitted = self._require_fitted()
        return np.array(fitted.model.prior.pseudo(fitted.params, len(fitted.ids)).topics)

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
