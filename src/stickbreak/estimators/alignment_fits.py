"""Estimators of sentence pairs: fits in one or both directions, links, translations."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from stickbreak.data import Bitext, Links, Sequences, symmetrize
from stickbreak.errors import NumericalError, StickbreakWarning
from stickbreak.families import Lexicon
from stickbreak.families.base import BaseFamily
from stickbreak.inference import (
    Callback,
    CollapsedVB,
    Engine,
    Result,
    Start,
    count_workers,
    run,
)
from stickbreak.initialize.alignment import after_bag, even_links_start
from stickbreak.initialize.local import require_whole_run
from stickbreak.models import Model
from stickbreak.parameters import require_prior_count, require_whole
from stickbreak.progress import Phase, PhaseLaps, Progress
from stickbreak.protocols import Pool
from stickbreak.reading import Given, Rows, Schema, SentencePairs, open_pairs
from stickbreak.structures import BagAlignment

from .alignment_answers import AlignerAnswers, given_others, links_of_pairs
from .directions import Saved, fit_at_once, require_reverse_place, reverse_place
from .engine_choice import pick_engine, suit_engine
from .engine_runs import Task, fit_from_starts, make_seed, resume_fit
from .fitted import Fitted
from .stream_runs import stream

__all__ = ["LAPS", "AlignerEstimator"]

LAPS = 5  # of each model; published systems use as many, and more make rare words worse under EM
STEPS = 25  # of stochastic engines; a step on 1,024 of 25,000 pairs, in one lap
MOST_DRAWS = 100
DIRECTIONS = ("both", "forward")


@dataclass(frozen=True)
class AlignmentTask(Task):
    """Sentence pairs to fit a model to.

    lexicon : cells of the words that occur together. pairs : which pairs of the bitext they are
    watches : callbacks beside those of the engine
    is_reverse : whether the sides are exchanged: the fit has a checkpoint of its own then
    """

    lexicon: Lexicon | None = None
    pairs: SentencePairs | None = None
    watches: tuple[Callback, ...] = ()
    is_reverse: bool = False


class AlignerEstimator(AlignerAnswers):
    """fit, align and score for sentence pairs."""

    INITS = ("uniform",)
    _noun = "source word"
    _row_noun = "word"
    _has_labels = False
    # what other estimators let the user choose
    n_components = n_init = 1
    init = "uniform"
    learn_prior = warm_start = False
    tol = None

    directions: str
    word_concentration: float
    lowercase: bool
    max_length: int

    # ------------------------------------------------------------------------------------ settings

    def _check_arguments(self) -> None:
        if self.directions not in DIRECTIONS:
            raise ValueError(
                f"directions must be one of {', '.join(DIRECTIONS)}; got {self.directions!r}"
            )
        if not isinstance(self.lowercase, bool):
            raise ValueError(f"lowercase must be True or False; got {self.lowercase!r}")
        require_prior_count(word_concentration=self.word_concentration)
        require_whole(max_length=self.max_length)
        if self.max_iter is not None:
            require_whole(max_iter=self.max_iter)
        count_workers(self.n_jobs)
        engine = self._engine(False)
        engine.check()
        self._make_model(self._make_family(), self._prior_of(self))

    def _make_family(self) -> Lexicon:
        """A lexicon without words."""
        none = np.zeros(0, dtype=np.int32)
        return Lexicon(float(self.word_concentration), 2, 1, np.zeros(3, dtype=np.int64), none)

    def _default_engine(self, on_disk: bool) -> Engine:
        return CollapsedVB()

    def _engine(self, on_disk: bool) -> Engine:
        """The engine; without laps of its own or of the estimator it makes five."""
        engine = pick_engine(self, on_disk)
        return engine if self._has_laps else replace(engine, max_iter=LAPS)

    @property
    def _has_laps(self) -> bool:
        """Whether the user says how many laps there are."""
        return self.max_iter is not None or isinstance(self.inference, Engine)

    def _engine_for(self, task: Task) -> Engine:
        """The engine; of steps and draws, which gain little each, small data need more laps."""
        assert isinstance(task, AlignmentTask)
        engine = self._engine(task.is_on_disk)
        engine = replace(engine, callbacks=(*engine.callbacks, *task.watches))
        if task.is_reverse and engine.checkpoint is not None:
            engine = replace(engine, checkpoint=reverse_place(engine.checkpoint))
        if self._has_laps:
            return engine
        if engine.draws:
            return replace(engine, max_iter=count_draws(task.table.n_spans))
        if engine.revisits:
            return engine
        fewest = 1 if engine.rule().is_predictive else LAPS  # more align worse
        laps = -(-STEPS // engine.plan(task.table).n_batches)
        return replace(engine, max_iter=max(fewest, laps))

    # ---------------------------------------------------------------------------------------- fits

    def _prepare(
        self, given: Given, previous: Fitted | None, can_move: bool = True, *, warns: bool = True
    ) -> AlignmentTask:
        self._check_arguments()
        pairs, schema = self._number(given.X, previous, grows=True, warns=warns)
        keeps_links = self._engine(False).revisits
        table = pairs.table
        assert table.companion is not None
        n_words, n_symbols = len(schema.source_names or ()) + 2, schema.n_features + 1
        assert table.offsets is not None
        if previous is None:
            lexicon, companion = Lexicon.of_data(
                table.rows,
                table.offsets,
                table.companion,
                n_words=n_words,
                n_symbols=n_symbols,
                concentration=float(self.word_concentration),
                keeps_links=keeps_links,
            )
        else:
            old = previous.model.family
            assert isinstance(old, Lexicon)
            lexicon, companion = old.grown(
                table.rows, table.offsets, table.companion, n_words=n_words, n_symbols=n_symbols
            )
            previous = _with_cells(previous, lexicon, schema)
        table = replace(table, companion=companion)
        return AlignmentTask(
            table, schema, lexicon.n_words, previous=previous, lexicon=lexicon, pairs=pairs
        )

    def _with_answers(self, fitted: Fitted, result: Result, task: Task, pool: Pool) -> Fitted:
        """The fit with the links of its pairs.

        Of collapsed fits they come from what the pairs kept, which was inferred given all others:
        counts that include a pair favor the links that it has. Stochastic ones keep nothing, and
        find that at the end.
        """
        assert isinstance(task, AlignmentTask)
        assert task.pairs is not None
        batch, structure = task.table.whole(), fitted.model.structure
        assert isinstance(structure, BagAlignment)
        kept, engine = result.warm(), self._engine_for(task)
        if not engine.revisits and engine.rule().is_predictive:
            assert task.lexicon is not None
            assert isinstance(task.table, Sequences)
            places = given_others(fitted, task.lexicon, task.table, pool)
        elif kept is None or not {"links", "places"} & set(kept.arrays):
            places = self._decode(fitted, fitted.potentials(), batch, pool)
        else:
            places = structure.places_of(batch, kept)
        return replace(fitted, links=links_of_pairs(task.pairs, places))

    def _resolve(self, task: Task) -> BaseFamily:
        assert isinstance(task, AlignmentTask)
        assert task.lexicon is not None
        return task.lexicon

    def _seed(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        """All links of a target word alike; if the engine needs more, laps of its starter."""
        start, engine = self._even(model, task, pool), self._engine_for(task)
        starter = engine.for_starts()
        if starter is engine:
            return start
        return self._follow(model, starter, start, task, rng, pool, model)

    def _even(self, model: Model, task: Task, pool: Pool) -> Start:
        assert isinstance(task.table, Sequences)
        return even_links_start(model, task.table, task.n_components, pool)

    def _follow(
        self,
        model: Model,
        engine: Engine,
        start: Start,
        task: Task,
        rng: np.random.Generator,
        pool: Pool,
        following: Model,
    ) -> Start:
        """Where a simpler model ends, as a start of the following one."""
        assert isinstance(task.table, Sequences)
        suited = suit_engine(model, engine)
        with Phase("looking for a start", bool(self.verbose)) as phase:
            assert isinstance(task, AlignmentTask)
            laps = PhaseLaps(phase, engine.max_iter), *task.watches
            watched = replace(engine, checkpoint=None, callbacks=laps)
            found = run(suited, watched, task.table, start, seed=make_seed(rng), pool=pool)
        require_whole_run(found)
        return after_bag(following, found.counts, found.warm(), task.table, pool)

    def _fit(self, given: Given) -> Self:
        bitext = open_pairs(given.X, self.verbose)
        fitted, ended_by = self._fit_ways(given, bitext, make_seed(self.random_state), Saved())
        _warn_of_none(fitted, bitext)
        return self._keep(fitted, ended_by)

    def _resume(self, given: Given) -> Self:
        read, self._saved = self._saved, None
        path = self._engine(False).checkpoint
        saved = Saved.at(path, read, self.directions == "both")
        bitext = open_pairs(given.X, self.verbose)
        return self._keep(*self._fit_ways(given, bitext, saved.seed, saved))

    def _fit_ways(
        self, given: Given, bitext: Bitext, seed: int, saved: Saved
    ) -> tuple[Fitted, BaseException | None]:
        """One direction or both, and what has ended the fit early.

        Both at once, if there are threads and nobody watches their laps.
        """
        forward, reverse = self._both(given, bitext)
        first = partial(self._fit_one, forward, seed, saved, False)
        if reverse is None:
            return first(())
        second = partial(self._fit_one, reverse, seed, saved, True)
        is_watched = Progress.is_wanted(self.verbose) or bool(self._engine(False).callbacks)
        other: Fitted | None = None
        if count_workers(self.n_jobs) > 1 and not is_watched:
            fitted, other, ended_by = fit_at_once(first, second)
        else:
            fitted, ended_by = first(())
            if ended_by is None:
                other, ended_by = second(())
        return replace(fitted, reverse=other), ended_by

    def _fit_one(
        self,
        given: Given,
        seed: int,
        saved: Saved,
        is_reverse: bool,
        watches: tuple[Callback, ...],
    ) -> tuple[Fitted, BaseException | None]:
        """One direction, and what has ended it early; from its checkpoint, if that is saved."""
        task = self._prepare(given, None, warns=not is_reverse)
        task = replace(task, watches=watches, is_reverse=is_reverse)
        if saved.reverse if is_reverse else saved.forward:
            return resume_fit(self, task, None if is_reverse else saved.take())
        if self.directions == "both" and not is_reverse:
            require_reverse_place(self, task, seed)
        return fit_from_starts(self, task, seed)

    def _both(self, given: Given, bitext: Bitext) -> tuple[Given, Given | None]:
        """Arguments with the bitext, and with its sides exchanged if that is asked for."""
        turned = replace(given, X=bitext.swapped()) if self.directions == "both" else None
        return replace(given, X=bitext), turned

    def _stream(self, given: Given, total_samples: float | None) -> Self:
        old = self._fitted
        forward, reverse = self._both(given, open_pairs(given.X, self.verbose))
        fitted = stream(self, self._prepare(forward, old), total_samples)
        if reverse is not None:
            task = self._prepare(reverse, None if old is None else old.reverse, warns=False)
            fitted = replace(fitted, reverse=stream(self, task, total_samples))
        self._fitted = fitted
        return self

    def _keep(self, fitted: Fitted, ended_by: BaseException | None) -> Self:
        """Keep the result. How many laps there are is a setting, so that none is warned about."""
        self._fitted = fitted
        if ended_by is not None:
            raise ended_by
        if not np.isfinite(fitted.counts.log_z):
            raise NumericalError(f"the fit ended with a log_z of {fitted.counts.log_z}")
        return self

    def fit(self, X: Rows, y: object = None) -> Self:
        """Fit to sentence pairs.

        Parameters
        ----------
        X : a list of pairs (source, target), each side a list of words or a text, split at blanks;
            or the path of a file with `source ||| target` on each line, or what
            `stickbreak.read_bitext` gives. Pairs that are empty on one side, or longer than
            `max_length`, are left out, with a warning that names them.
        y : ignored

        Returns
        -------
        self
        """
        return self._fit(self._given(X))

    def fit_align(self, X: Rows, y: object = None, *, symmetrize: str | None = None) -> Links:
        """Fit, then the links of the same pairs; see `links_`. symmetrize : as in `align`."""
        return self.fit(X).fit_links(symmetrize)

    def resume(self, X: Rows, y: object = None) -> Self:
        """Continue an interrupted fit from `inference.checkpoint`; refuses other data.

        The reverse direction has a file of its own beside it, whose name ends in `.reverse`.
        """
        return self._resume(self._given(X))

    def partial_fit(self, X: Rows, y: object = None, *, total_samples: float | None = None) -> Self:
        """Update the model with more pairs, which may bring new words; returns self.

        Parameters
        ----------
        X, y : as in `fit`.
        total_samples : pairs of the whole bitext; each call then is a step of stochastic inference.
        """
        return self._stream(self._given(X), total_samples)

    def _read(self, given: Given, family: BaseFamily, schema: Schema | None) -> Any:
        raise NotImplementedError

    def _open(self, X: Rows, names: Any) -> Rows:
        return open_pairs(X, self.verbose)

    def _family_columns(self, fitted: Fitted) -> int:
        family, schema = fitted.model.family, fitted.schema
        assert isinstance(family, Lexicon)
        own, said = (
            (family.n_words, family.n_symbols),
            (
                len(schema.source_names or ()) + 2,
                schema.n_features + 1,
            ),
        )
        if own != said:
            raise ValueError(f"the model says {said} words, its lexicon has {own}")
        return 1


def _warn_of_none(fitted: Fitted, bitext: Bitext) -> None:
    """Say so if no word has a link, or none in both directions."""
    links, other = fitted.links, None if fitted.reverse is None else fitted.reverse.links
    assert links is not None
    if other is not None and min(links.n_links, other.n_links) <= len(bitext):
        links = symmetrize(links, other.swapped(), "intersection")
    if links.n_links == 0:
        where = "" if other is None else " in both directions"
        warnings.warn(
            f"no word of {bitext.name} has a link{where}, all go to NULL: the fit had too few laps "
            "or pairs. Use more laps (max_iter=), a smaller share of NULL (null=0.05), or "
            "inference='collapsed'",
            StickbreakWarning,
            stacklevel=4,
        )


def count_draws(n_pairs: int) -> int:
    """Laps of a sampler: small texts need more, large ones cannot wait for many."""
    return min(MOST_DRAWS, max(LAPS, round(5000 / math.sqrt(n_pairs))))


def _with_cells(fitted: Fitted, lexicon: Lexicon, schema: Schema) -> Fitted:
    """The same fit with more words and cells, which have no counts."""
    old = fitted.model.family
    assert isinstance(old, Lexicon)
    ids = tuple(range(lexicon.n_words))
    model = replace(fitted.model, family=lexicon)
    counts = old.carry(fitted.counts, lexicon)
    return replace(fitted, model=model, counts=counts, ids=ids, next_id=len(ids), schema=schema)
