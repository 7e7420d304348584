"""The dependency model with valence: unsupervised parsing of tagged sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from stickbreak.data import Batch, Companion, check_heads
from stickbreak.families import Categorical
from stickbreak.families.base import BaseFamily
from stickbreak.families.tags import Tags
from stickbreak.inference import CollapsedVB, Engine, MemoizedVB, Start, workers
from stickbreak.initialize import from_guess
from stickbreak.models import (
    Model,
    ModelPotentials,
    dependency_model,
    parse_units,
    share_parts,
)
from stickbreak.priors import ValenceRows
from stickbreak.protocols import Pool
from stickbreak.reading import Given, Rows, Schema, Stack, Values
from stickbreak.stats import Array
from stickbreak.structures.dependency import most_expected_heads

from .base import RandomState
from .engine_runs import Task
from .fitted import Fitted
from .model_files import register
from .tree_models import Rule, TreeEstimator, most_frequent
from .tree_samples import draw_dependencies

__all__ = ["DMV"]

N_SWEEPS = 40  # collapsed sweeps of a start; they change little after twenty


@register
class DMV(TreeEstimator):
    """Dependency model with valence: finds the heads of words from their tags alone.

    The root's tag is drawn, and every word then makes children to its left and to its right: before
    each it decides whether to stop, given its tag, the side, and whether it has a child there
    already; the child's tag is drawn given the head's tag and the side [Klein and Manning 2004].
    All tables have Dirichlet priors. Trees are projective, and time grows with the cube of a
    sentence's length.

    Parameters
    ----------
    concentration : prior count of each tag as root, and as child of a tag on one side. Near zero,
        EM is maximum likelihood.
    stop_concentration : prior count of stopping, and of going on.
    inference : engine, by name ("batch", "memoized", "stochastic", "collapsed", "em", "hard-em",
        "gibbs", "collapsed-gibbs") or as an object; default `CollapsedVB`, sentence by sentence;
        for data on disk `MemoizedVB`.
    max_length : most words of a sentence; longer ones are refused.
    init : "harmonic" (near words are heads rather than far ones; every count is times a random
        number between 0.5 and 1.5) or "collapsed" (40 collapsed sweeps from there). "auto" is
        "harmonic" for `CollapsedVB`, "collapsed" for all other engines, which end at a far better
        bound from there.
    max_iter, tol, random_state : as in `Mixture`.
    n_init, n_jobs, warm_start, verbose : likewise.

    Attributes
    ----------
    tags_ : the tags, in the order of all tables.
    root_ : (V,) posterior mean probability of each tag as root.
    attach_ : (V, 2, V) of a child's tag, given the head's tag and the side (left, right).
    stop_ : (V, 2, 2) of stopping, given tag, side, and whether there is a child (no, yes).
    rules_ : all arcs as a list of `Rule`: text, posterior mean probability, expected uses.
    labels_ : heads of the words of the training sentences, see `predict`.
    counts_, weights_ : (V,) words with each tag, and their shares.
    lower_bound_, trace_, converged_, n_iter_ : as in `Mixture`.

    Examples
    --------
    >>> import stickbreak as sb
    >>> model = sb.DMV(random_state=0).fit(["DET NOUN VERB", "NOUN VERB DET NOUN"] * 10)
    >>> [heads.tolist() for heads in model.predict(["NOUN VERB"])]
    [[2, 0]]
    """

    PRIOR = ("concentration", "stop_concentration")
    INITS = ("auto", "harmonic", "collapsed")
    METHODS = ("viterbi", "posterior")
    finds_heads = True
    _noun, _plural = "tag", "tags"
    n_components = 1  # the data name the tags
    learn_prior = False
    family = "tags"

    def __init__(
        self,
        *,
        concentration: float = 0.1,
        stop_concentration: float = 0.1,
        inference: str | Engine | None = None,
        max_length: int = 60,
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
        ValenceRows(**self._prior_of(self))

    def _make_family(self) -> BaseFamily:
        return Tags()

    def _default_engine(self, on_disk: bool) -> Engine:
        return MemoizedVB() if on_disk else CollapsedVB()

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        return dependency_model(family, max_length=int(self.max_length), **prior)

    def _reader(self, family: BaseFamily) -> BaseFamily:
        # so that unknown tags can be told from known ones
        n = family.n_symbols if isinstance(family, Tags) else None
        return Categorical(n_symbols=None if n is None else (n,))

    def _count_first(self, table: Any, previous: Fitted | None, can_move: bool) -> int:
        """The number of tags."""
        return len(previous.ids) if previous is not None else int(np.nanmax(table.rows)) + 1

    def _previous(self) -> Fitted | None:
        return self._fitted if self.warm_start else None

    def _seed(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        n_sweeps = N_SWEEPS if self._init() == "collapsed" else 0
        return from_guess(model, task.table, task.n_components, rng, n_sweeps=n_sweeps, pool=pool)

    def _known(self, trees: Any, table: Stack, schema: Schema) -> Companion:
        assert table.offsets is not None
        sizes = np.diff(table.offsets)
        if not isinstance(trees, list | tuple) or len(trees) != len(sizes):
            n = len(trees) if isinstance(trees, list | tuple) else type(trees).__name__
            raise ValueError(f"heads must be a list of {len(sizes)} arrays; got {n}")
        found = [
            check_heads(heads, int(n), f"sentence {s}")
            for s, (heads, n) in enumerate(zip(trees, sizes, strict=True))
        ]
        return Companion(np.concatenate(found), table.offsets)

    def _with_unknown(self, fitted: Fitted) -> Fitted:
        model = replace(fitted.model, family=Tags(len(fitted.ids) + 1))
        return replace(fitted, model=model, counts=fitted.counts.insert(model.axis, 1))

    def _decode(
        self, fitted: Fitted, potentials: ModelPotentials, batch: Batch, pool: Pool
    ) -> Array:
        """(n,) heads of the best trees."""
        return parse_units(fitted.model, potentials, batch, pool)[0].rows

    # ------------------------------------------------------------------------------------ fits

    def fit(
        self, X: Rows, y: Values = None, *, heads: Any = None, sample_weight: Values = None
    ) -> Self:
        """Fit to sentences of tags.

        Parameters
        ----------
        X : a list of sentences: lists of tags, strings of tags with spaces between, or arrays of
            whole numbers.
        y : ignored.
        heads : known heads, an array (n,) for each sentence: 0 for the root, the number of a word
            (the first is 1), or -1 where unknown. Trees must be projective, with one root.
        sample_weight : (S,) how often each sentence counts.

        Returns
        -------
        self
        """
        return self._fit_trees("fit", X, y, trees=heads, sample_weight=sample_weight)

    def resume(
        self, X: Rows, y: Values = None, *, heads: Any = None, sample_weight: Values = None
    ) -> Self:
        """Continue an interrupted fit from `inference.checkpoint`, bit for bit.

        Parameters
        ----------
        X, y, heads, sample_weight : as given to the interrupted `fit`.

        Returns
        -------
        self
        """
        return self._fit_trees("resume", X, y, trees=heads, sample_weight=sample_weight)

    def partial_fit(
        self,
        X: Rows,
        y: Values = None,
        *,
        heads: Any = None,
        sample_weight: Values = None,
        total_samples: float | None = None,
    ) -> Self:
        """Update the model with more sentences, of the tags that the first call had.

        Parameters
        ----------
        X, y, heads, sample_weight : as in `fit`.
        total_samples : number of sentences of the whole data set; each call then is a step of
            stochastic variational Bayes.

        Returns
        -------
        self
        """
        return self._fit_trees(
            "partial_fit",
            X,
            y,
            trees=heads,
            sample_weight=sample_weight,
            total_samples=total_samples,
        )

    # ------------------------------------------------------------------------------------ answers

    def predict(self, X: Rows, *, method: str = "viterbi", parameters: str = "fitted") -> Any:
        """Head of each word: 0 for the root, else the number of a word, the first being 1.

        Parameters
        ----------
        X : sentences, as in `fit`. A tag that the fit has not seen has the prior's share.
        method : "viterbi", the most probable tree; "posterior", the tree with the most heads
            expected to be right.
        parameters : "fitted", the potentials of the fitted rule; "mean", posterior means.

        Returns
        -------
        A list of (n,) arrays.
        """
        self._check_method(method)
        fitted, table, potentials = self._ask(X, parameters)
        batch = table.whole()
        with workers(self.n_jobs) as pool:
            if method == "viterbi":
                return table.shape.answer(self._decode(fitted, potentials, batch, pool))
            arcs = self._arcs(fitted, potentials, batch, pool)
            return [most_expected_heads(shares) for shares in arcs]

    def parse(self, X: Rows, *, method: str = "viterbi", parameters: str = "fitted") -> Any:
        """The same as `predict`: a tree is told by the heads of its words.

        Parameters
        ----------
        X, method, parameters : as in `predict`.
        """
        return self.predict(X, method=method, parameters=parameters)

    def _trees(self, found: Companion, X: Any, table: Stack) -> list[Any]:
        return [found.of(s) for s in range(table.n_spans)]

    def parse_proba(self, X: Rows, *, parameters: str = "fitted") -> list[Array]:
        """Posterior probability of each head: (n, n + 1) for each sentence, the root first.

        Parameters
        ----------
        X, parameters : as in `predict`.
        """
        fitted, table, potentials = self._ask(X, parameters)
        with workers(self.n_jobs) as pool:
            return self._arcs(fitted, potentials, table.whole(), pool)

    def _arcs(
        self, fitted: Fitted, potentials: ModelPotentials, batch: Batch, pool: Pool
    ) -> list[Array]:
        found = share_parts(fitted.model, potentials, batch, pool)
        assert batch.offsets is not None
        sizes = np.diff(batch.offsets)
        return [found.of(s).reshape(n, n + 1) for s, n in enumerate(sizes)]

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None
    ) -> tuple[list[list[Any]], list[Array]]:
        """Draw sentences of tags with their trees, at posterior means.

        Parameters
        ----------
        n_samples : number of sentences. Those longer than max_length are drawn again.
        random_state : seed; default: the estimator's.

        Returns
        -------
        Tags and heads of each sentence.
        """
        fitted = self._require_fitted()
        tables = {name: np.exp(table) for name, table in fitted.predictive().tables.items()}
        rng, names = self._rng(random_state), self.tags_
        drawn = [
            draw_dependencies(tables, int(self.max_length), rng) for _ in range(int(n_samples))
        ]
        return [[names[t] for t in tags] for tags, _ in drawn], [heads for _, heads in drawn]

    # ------------------------------------------------------------------------------------ learned

    @property
    def tags_(self) -> list[Any]:
        """The tags, in the order of all tables."""
        found = next(iter(self.categories_.values()), None)
        return list(range(self.n_components_)) if found is None else list(found)

    def _mean_table(self, name: str) -> Array:
        return np.exp(self._require_fitted().predictive()[name])

    @property
    def root_(self) -> Array:
        """(V,) posterior mean probability of each tag as root."""
        return self._mean_table("root")

    @property
    def attach_(self) -> Array:
        """(V, 2, V) of a child's tag, given the head's tag and the side (left, right)."""
        return self._mean_table("attach")

    @property
    def stop_(self) -> Array:
        """(V, 2, 2) of stopping, given tag, side, and whether there is a child (no, yes)."""
        return self._mean_table("stop")[..., 0]

    def top_rules(self, n: int = 10) -> list[Rule]:
        """The n arcs most often expected in the training sentences.

        An arc is written with the head's tag, an arrow to the side, and the child's tag.

        Parameters
        ----------
        n : how many; -1 for all.
        """
        counts, chances, tags = self._require_fitted().counts["attach"], self.attach_, self.tags_
        order = most_frequent(counts, n)
        found = []
        for h, side, a in zip(*np.unravel_index(order, counts.shape), strict=True):
            text = f"{tags[a]} <- {tags[h]}" if side == 0 else f"{tags[h]} -> {tags[a]}"
            found.append(Rule(text, float(chances[h, side, a]), float(counts[h, side, a])))
        return found

    def _apart(self, k: int) -> str:
        times = self._require_fitted().counts["attach"][k]
        tags, sides = self.tags_, ("left", "right")
        order = np.argsort(-times, axis=None, kind="stable")[:3]
        found = [tuple(map(int, np.unravel_index(at, times.shape))) for at in order]
        told = [f"{tags[a]} to its {sides[s]}" for s, a in found if times[s, a] >= 0.5]
        return f"takes {', '.join(told)}" if told else "takes no words"

    def _given(self, X: Rows, y: Values = None, **more: Any) -> Given:
        return super()._given(X, None, **more)
