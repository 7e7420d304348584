"""Template grammars: strings cut into segments, without spaces or gold."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self, cast

import numpy as np

from stickbreak.data import (
    Batch,
    Companion,
    no_substrings,
    parse_templates,
    substrings_of,
)
from stickbreak.errors import DataWarning
from stickbreak.families import Categorical
from stickbreak.families.base import BaseFamily
from stickbreak.families.tags import Letters
from stickbreak.inference import CollapsedVB, DrawOwn, Engine, Start, workers
from stickbreak.initialize import from_cooled, from_local
from stickbreak.models import Model, ModelPotentials, parse_units, share_parts, template_grammar
from stickbreak.parameters import require_whole
from stickbreak.priors import SlotTables
from stickbreak.protocols import Pool
from stickbreak.reading import Given, Rows, Stack, Values
from stickbreak.stats import Array, Summary

from .base import RandomState
from .engine_choice import pick_engine
from .engine_runs import Task
from .fitted import Fitted
from .model_files import register
from .tree_models import Rule, TreeEstimator

__all__ = ["Segment", "TemplateGrammar"]

HOT = 5.0  # first temperature of a start that is drawn
N_SWEEPS = 40  # of such a start
MOST_NAMED = 5  # strings in a warning


class Segment(NamedTuple):
    """A segment of a string: the name of its slot, its letters, and where it begins and ends."""

    name: str
    text: Any
    begin: int
    end: int


@register
class TemplateGrammar(TreeEstimator):
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
    init : "local" (random weights for every string) or "cooled" (40 sweeps of `CollapsedGibbs`,
        whose temperature falls from 5 to 1). "auto" is "local" for samplers, "cooled" for all
        others.
    max_iter, tol, random_state, n_init, n_jobs, verbose : as in `Mixture`.

    Attributes
    ----------
    names_ : of slots, in the order of all tables.
    template_ : (T,) posterior mean probability of each template.
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
        """The strings with the substrings that begin at each letter."""
        table = task.table
        assert isinstance(table, Stack)
        assert table.offsets is not None
        letters = _codes(table)
        most = int(letters.max()) + 1
        _, ids = no_substrings().extended(letters, table.offsets, int(self.max_segment), most)
        return replace(task, table=replace(table, companion=Companion(ids, table.offsets)))

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
        prior = fitted.model.prior
        assert isinstance(prior, SlotTables)
        assert table.offsets is not None
        letters, known = _codes(table), prior.substrings
        most = max(int(letters.max()), int(known.letter.max())) + 2
        listed, ids = known.extended(letters, table.offsets, int(self.max_segment), most)
        model = replace(fitted.model, prior=prior.listing(listed))
        counts = _widened(fitted.counts, len(listed.prefix))
        table = replace(table, companion=Companion(ids, table.offsets))
        return replace(fitted, model=model, counts=counts), table

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
        return self._fit_trees("fit", X, y, sample_weight=weight)

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
        return self._fit_trees("resume", X, y, sample_weight=weight)

    def _covered(self, X: Any, sample_weight: Values) -> tuple[Any, Values]:
        """The strings that some template covers. What cannot be read is refused later, by name."""
        self._check_arguments()
        is_list = isinstance(X, list | tuple)
        if not is_list or not all(hasattr(one, "__len__") and len(one) for one in X):
            return X, sample_weight
        slots, most = parse_templates(self.templates), int(self.max_segment)
        kept = [s for s, one in enumerate(X) if slots.covers(len(one), most)]
        if len(kept) in (0, len(X)):
            return X, sample_weight
        left_out = sorted(set(range(len(X))) - set(kept))
        named = ", ".join(map(str, left_out[:MOST_NAMED])) + ", ..." * (len(left_out) > MOST_NAMED)
        warnings.warn(
            f"no template covers {len(left_out)} string(s) ({named}): left out of the fit",
            DataWarning,
            stacklevel=3,
        )
        if sample_weight is not None and len(np.shape(sample_weight)) == 1:
            sample_weight = np.asarray(sample_weight)[kept]
        return [X[s] for s in kept], sample_weight

    # ------------------------------------------------------------------------------------ answers

    def predict(self, X: Rows, *, parameters: str = "fitted") -> list[list[Any]]:
        """The segments of each string: strings, or parts of what was given.

        Parameters
        ----------
        X : strings, as in `fit`. Substrings that the fit has not seen have their prior counts.
        parameters : "fitted", the potentials of the fitted rule; "mean", posterior means.
        """
        found = self.parse(X, parameters=parameters)
        return [[segment.text for segment in own] for own in found]

    def parse(
        self, X: Rows, *, method: str = "viterbi", parameters: str = "fitted"
    ) -> list[list[Segment]]:
        """The segments of each string with the names of their slots: the best segmentation.

        Parameters
        ----------
        X, parameters : as in `predict`.
        method : "viterbi".
        """
        self._check_method(method)
        fitted, table, potentials = self._ask(X, parameters)
        with workers(self.n_jobs) as pool:
            marks, _ = parse_units(fitted.model, potentials, table.whole(), pool)
        return self._trees(marks, X, table)

    def _trees(self, found: Companion, X: Any, table: Stack) -> list[list[Segment]]:
        return [
            self._segments(found.of(s), part) for s, part in enumerate(cast("Sequence[Any]", X))
        ]

    def _segments(self, marks: Array, given: Any) -> list[Segment]:
        slots, begins = parse_templates(self.templates), np.flatnonzero(marks).tolist()
        found = []
        for begin, end in zip(begins, [*begins[1:], len(marks)], strict=True):
            name = slots.names[slots.name[marks[begin] - 1]]
            found.append(Segment(name, given[begin:end], begin, end))
        return found

    def parse_proba(self, X: Rows, *, parameters: str = "fitted") -> list[Array]:
        """Probability (n,) that a segment begins at each letter.

        Parameters
        ----------
        X, parameters : as in `predict`.
        """
        fitted, table, potentials = self._ask(X, parameters)
        with workers(self.n_jobs) as pool:
            found = share_parts(fitted.model, potentials, table.whole(), pool)
        return [found.of(s) for s in range(table.n_spans)]

    # ------------------------------------------------------------------------------------ learned

    @property
    def names_(self) -> list[str]:
        """Names of slots, in the order of all tables."""
        return list(parse_templates(self.templates).names)

    @property
    def template_(self) -> Array:
        """(T,) posterior mean probability of each template."""
        return np.exp(self._require_fitted().predictive()["template"])

    def _apart(self, k: int) -> str:
        name = f"{self.names_[k]} -> "
        own = [rule.text for rule in self.top_rules(200) if rule.text.startswith(name)]
        return ", ".join(text.removeprefix(name) for text in own[:5])

    def top_rules(self, n: int = 10) -> list[Rule]:
        """The n substrings of slots most often expected in the training strings."""
        fitted = self._require_fitted()
        prior, counts = fitted.model.prior, fitted.counts["segment"]
        assert isinstance(prior, SlotTables)
        chances = fitted.predictive()["segment"]
        letters = next(iter(self.categories_.values()), None)
        found = []
        for flat in np.argsort(-counts, axis=None, kind="stable")[: int(n)]:
            c, v = np.unravel_index(flat, counts.shape)
            codes = prior.substrings.letters_of(int(v))
            text = "".join(str(code if letters is None else letters[code]) for code in codes)
            rule = f"{self.names_[c]} -> {text}"
            found.append(Rule(rule, float(np.exp(chances[c, v])), float(counts[c, v])))
        return found


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


def _widened(counts: Summary, size: int) -> Summary:
    """Counts with more substrings, of which nothing was seen."""
    old = counts["segment"]
    if old.shape[1] == size:
        return counts
    wider = {}
    for name in ("segment", "log_absent"):
        wider[name] = np.zeros((len(old), size))
        wider[name][:, : old.shape[1]] = counts[name]
    return replace(counts, arrays={**counts.arrays, **wider})
