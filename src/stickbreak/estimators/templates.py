"""Template grammars: strings cut into segments, without spaces or gold."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from stickbreak.data import (
    Batch,
    Companion,
    Substrings,
    no_substrings,
    parse_templates,
    substrings_of,
)
from stickbreak.errors import ConvergenceWarning, DataWarning
from stickbreak.families import Categorical
from stickbreak.families.base import BaseFamily
from stickbreak.families.tags import Letters
from stickbreak.inference import CollapsedVB, DrawOwn, Engine, Start
from stickbreak.initialize import from_cooled, from_local
from stickbreak.models import Model, ModelPotentials, parse_units, template_grammar
from stickbreak.parameters import require_whole
from stickbreak.priors import SlotTables
from stickbreak.protocols import Pool
from stickbreak.reading import Given, Rows, Stack, Values
from stickbreak.stats import Array

from .base import RandomState
from .engine_choice import pick_engine
from .engine_runs import Task
from .fitted import Fitted
from .model_files import register
from .template_answers import Segment, TemplateAnswers

__all__ = ["Segment", "TemplateGrammar"]

HOT = 5.0  # first temperature of a start that is drawn
N_SWEEPS = 20  # of such a start
MOST_NAMED = 5  # strings in a warning
JOINED = 0.05  # of the cuts that are possible and not needed: fits with fewer are warned about


@register
class TemplateGrammar(TemplateAnswers):
    """Strings in slots of templates: finds segments that occur again and again.

    A string is one of several sequences of slots, and every slot emits a substring. Slots of one
    name share a table of substrings with a Dirichlet prior. All ways to cut a string are summed
    over, in time that grows with its length and with `max_segment`.

    Parameters
    ----------
    templates : sequences of slots with | between them, as in "Stem | Prefix Stem | Prefix+ Stem";
        + marks a slot for one or more segments. "Word+" is unigram word segmentation.
    base : prior of substrings. "spelling": they end after a letter with chance `stop`, and letters
        are as frequent as in the data. "uniform": all substrings of the data are alike.
    concentration : prior count of all substrings together ("spelling"), or of each ("uniform").
    stop : see base.
    template_concentration : prior count of each template.
    repeat_concentration : prior count of using a slot with + again, and of leaving it.
    max_segment : most letters of a segment.
    inference : engine, by name ("collapsed", "collapsed-gibbs", "batch", "em", "hard-em", "gibbs")
        or as an object; default `CollapsedVB`. `CollapsedGibbs` draws whole segmentations that are
        accepted or not (`trace_.acceptance`), and wants some hundred sweeps, better cooled:
        `temperature=(5.0, 1.0)`. From random weights, "batch" puts long strings together, and so
        does "em" from any start.
    init : "local" (random weights for every string) or "cooled" (20 sweeps of `CollapsedGibbs`,
        whose temperature falls from 5 to 1). "auto" is "local" for samplers, "cooled" for all
        others.
    max_iter, tol, random_state, n_init, n_jobs, verbose : as in `Mixture`.

    Attributes
    ----------
    names_ : of slots, in the order of all tables.
    template_ : (T,) posterior mean probability of each template.
    rules_ : all substrings of slots as a list of `Rule`: text, probability, expected uses.
    counts_, weights_ : (C,) expected segments of each name, and their shares.
    labels_ : of the letters of the training strings: where a segment begins, one more than its
        slot (all templates one after another), else 0.
    lower_bound_, trace_, converged_, n_iter_ : as in `Mixture`.

    Examples
    --------
    >>> import stickbreak as sb
    >>> strings = ["thedogsees", "thecat", "adog", "thecatsees", "acatsees", "thedog"] * 5
    >>> model = sb.TemplateGrammar(concentration=1.0, random_state=0).fit(strings)
    >>> "".join(model.predict(["adogsees"])[0])
    'adogsees'
    """

    PRIOR = (
        "templates", "concentration", "base", "stop", "template_concentration",
        "repeat_concentration", "prefix", "letter", "prior_counts",
    )  # fmt: skip
    INITS = ("auto", "cooled", "local")
    METHODS = ("viterbi",)
    cuts_strings = True
    _noun, _plural, _row_noun = "name", "names", "letter"
    n_components = 1  # the templates name the slots
    learn_prior = warm_start = False
    max_length = 1 << 40
    family = "tags"
    prefix = letter = prior_counts = None  # the substrings of the data
    templates: str
    max_segment: int

    def __init__(
        self,
        templates: str = "Word+",
        *,
        base: str = "spelling",
        concentration: float = 20.0,
        stop: float = 0.5,
        template_concentration: float = 1.0,
        repeat_concentration: float = 1.0,
        max_segment: int = 10,
        inference: str | Engine | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: RandomState = None,
        init: str = "auto",
        n_init: int = 1,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def _check_arguments(self) -> None:
        super()._check_arguments()
        require_whole(max_segment=self.max_segment)
        SlotTables(**self._prior_of(self))

    def _make_family(self) -> BaseFamily:
        return Letters()

    def _default_engine(self, on_disk: bool) -> Engine:
        return CollapsedVB()

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        return template_grammar(family, max_segment=int(self.max_segment), **prior)

    def _reader(self, family: BaseFamily) -> BaseFamily:
        # so that unknown letters can be told from known ones
        n = family.n_symbols if isinstance(family, Letters) else None
        return Categorical(n_symbols=None if n is None else (n,))

    def _given(self, X: Rows, y: Values = None, **more: Any) -> Given:
        return super()._given(_letters_of(X), None, **more)

    def _count_first(self, table: Any, previous: Fitted | None, can_move: bool) -> int:
        """The number of names."""
        return len(parse_templates(self.templates).names)

    def _limit(self, task: Task, given: Given) -> Task:
        """The strings with the substrings that begin at each letter, and a fit that knows these."""
        table, old = task.table, task.previous
        assert isinstance(table, Stack)
        table, listed = self._listed(table, no_substrings() if old is None else _known(old))
        previous = None if old is None else _widened(old, listed)
        return replace(task, table=table, previous=previous)

    def _listed(self, table: Stack, known: Substrings) -> tuple[Stack, Substrings]:
        """The strings with the substrings that begin at each letter, and all substrings."""
        assert table.offsets is not None
        letters = _codes(table)
        most = max(int(letters.max()), int(known.letter.max(initial=0))) + 2
        listed, ids = known.extended(letters, table.offsets, int(self.max_segment), most)
        return replace(table, companion=Companion(ids, table.offsets)), listed

    def _prior_for(self, task: Task) -> dict[str, Any]:
        table = task.table
        assert isinstance(table, Stack)
        assert table.companion is not None
        letters = _codes(table)
        seen = np.bincount(letters) + 1.0  # one more for a letter that comes later
        listed = substrings_of(table.companion.rows, letters)
        prior = SlotTables(**self._prior_of(self)).listing(listed, seen / (seen.sum() + 1.0))
        return self._prior_of(prior)

    def _seed(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        of_data = model, task.table, task.n_components, rng
        if self._init() == "local":
            return from_local(*of_data, pool=pool)
        return from_cooled(*of_data, n_sweeps=N_SWEEPS, temperature=HOT, pool=pool)

    def _init(self) -> str:
        if self.init != "auto":
            return self.init
        return "local" if isinstance(pick_engine(self, False).rule(), DrawOwn) else "cooled"

    def _parsed(self, X: Any) -> dict[str, Any]:
        places = {name: k for k, name in enumerate(self.names_)}
        found = [(places[part.name], part) for part in self.parse([X])[0]]
        return {"words": [str(letter) for letter in X], "segments": found}

    def _with_unknown(self, fitted: Fitted) -> Fitted:
        family = fitted.model.family
        assert isinstance(family, Letters)
        return replace(fitted, model=replace(fitted.model, family=Letters(family.n_symbols + 1)))

    def _use(self, given: Given) -> tuple[Fitted, Stack]:
        """The fitted model and strings; substrings that the fit has not seen have prior counts."""
        fitted, table = super()._use(given)
        table, listed = self._listed(table, _known(fitted))
        return _widened(fitted, listed), table

    def _decode(
        self, fitted: Fitted, potentials: ModelPotentials, batch: Batch, pool: Pool
    ) -> Array:
        """(n,) marks of the best segmentations."""
        return parse_units(fitted.model, potentials, batch, pool)[0].rows

    # ------------------------------------------------------------------------------------ fits

    def fit(self, X: Rows, y: Values = None, *, sample_weight: Values = None) -> Self:
        """Fit to strings.

        Parameters
        ----------
        X : a list of strings, of lists of letters, or of arrays of whole numbers. Those that no
            template covers are left out, with a warning; `labels_` then is of the others.
        y : ignored.
        sample_weight : (S,) how often each string counts.

        Returns
        -------
        self
        """
        X, weight = self._covered(X, sample_weight)
        self._fit_trees("fit", X, y, sample_weight=weight)
        if not pick_engine(self, False).rule().is_predictive:
            self._warn_if_joined(weight)
        return self

    def resume(self, X: Rows, y: Values = None, *, sample_weight: Values = None) -> Self:
        """Continue an interrupted fit from `inference.checkpoint`, bit for bit.

        Parameters
        ----------
        X, y, sample_weight : as given to the interrupted `fit`.

        Returns
        -------
        self
        """
        X, weight = self._covered(X, sample_weight)
        self._fit_trees("resume", X, y, sample_weight=weight)
        if not pick_engine(self, False).rule().is_predictive:
            self._warn_if_joined(weight)
        return self

    def partial_fit(
        self,
        X: Rows,
        y: Values = None,
        *,
        sample_weight: Values = None,
        total_samples: float | None = None,
    ) -> Self:
        """Update the model with more strings, of the letters that the first call had.

        Substrings that no call had before get prior counts, from the letters of the first call.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`.
        total_samples : number of strings of the whole data set; each call then is a step of
            stochastic variational Bayes.

        Returns
        -------
        self
        """
        X, weight = self._covered(X, sample_weight)
        given = {"sample_weight": weight, "total_samples": total_samples}
        return self._fit_trees("partial_fit", X, y, **given)

    def _n_segments(self, lengths: Any) -> tuple[Array, Array]:
        """The fewest and the most segments of strings of these lengths; 0 if none can be cut."""
        return parse_templates(self.templates).n_segments(lengths, int(self.max_segment))

    def _warn_if_joined(self, sample_weight: Values) -> None:
        """Warn of a fit that has hardly cut its strings."""
        lengths = [len(marks) for marks in self.labels_]
        weight = np.ones(len(lengths)) if sample_weight is None else np.asarray(sample_weight)
        fewest, most = (float(weight @ n) for n in self._n_segments(lengths))
        found = float(self._require_fitted().counts["segment"].sum())
        if found - fewest < JOINED * (most - fewest):
            warnings.warn(
                f"the fit leaves strings nearly whole: {found:.0f} segments, and {fewest:.0f} are "
                "the fewest possible. Modes and E[log] weights favor long segments; use "
                'inference="collapsed", the default',
                ConvergenceWarning,
                stacklevel=3,
            )

    def _covered(self, X: Any, sample_weight: Values) -> tuple[Any, Values]:
        """The strings that some template covers. What cannot be read is refused later, by name."""
        self._check_arguments()
        is_list = isinstance(X, list | tuple)
        if not is_list or not all(hasattr(one, "__len__") and len(one) for one in X):
            return X, sample_weight
        lengths = [len(one) for one in X]
        is_covered = self._n_segments(lengths)[0] > 0
        kept, left_out = np.flatnonzero(is_covered).tolist(), np.flatnonzero(~is_covered).tolist()
        if not kept or not left_out:
            return X, sample_weight
        named = ", ".join(map(str, left_out[:MOST_NAMED])) + ", ..." * (len(left_out) > MOST_NAMED)
        warnings.warn(
            f"no template covers {len(left_out)} string(s) ({named}): left out of the fit",
            DataWarning,
            stacklevel=3,
        )
        if sample_weight is not None and len(np.shape(sample_weight)) == 1:
            sample_weight = np.asarray(sample_weight)[kept]
        return [X[s] for s in kept], sample_weight


def _letters_of(X: Any) -> Any:
    """A list of strings becomes a list of lists of their letters; anything else stays."""
    if isinstance(X, str):
        raise ValueError("X is one string; give a list of strings")
    if isinstance(X, list | tuple) and len(X) and all(isinstance(part, str) for part in X):
        return [list(part) for part in X]
    return X


def _codes(table: Stack) -> Array:
    """(n,) letters as whole numbers."""
    return np.ascontiguousarray(np.asarray(table.rows)[:, 0], dtype=np.int64)


def _known(fitted: Fitted) -> Substrings:
    """The substrings that a fit has tables of."""
    prior = fitted.model.prior
    assert isinstance(prior, SlotTables)
    return prior.substrings


def _widened(fitted: Fitted, listed: Substrings) -> Fitted:
    """The fit with more substrings, of which nothing was seen."""
    prior, counts, size = fitted.model.prior, fitted.counts, len(listed.prefix)
    assert isinstance(prior, SlotTables)
    old, wider = counts["segment"], {}
    for name in ("segment", "log_absent"):
        wider[name] = np.zeros((len(old), size))
        wider[name][:, : old.shape[1]] = counts[name]
    model = replace(fitted.model, prior=prior.listing(listed))
    return replace(fitted, model=model, counts=replace(counts, arrays={**counts.arrays, **wider}))
