"""Word aligners: IBM model 1, and the hidden Markov model of positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stickbreak.families import Lexicon
from stickbreak.families.base import BaseFamily
from stickbreak.inference import CollapsedGibbs, CollapsedVB, Engine, Start
from stickbreak.models import Model, fertile_aligner, hmm_aligner, ibm1
from stickbreak.parameters import require_prior_count, require_whole
from stickbreak.protocols import Pool
from stickbreak.stats import Array

from .alignment_fits import LAPS, AlignerEstimator
from .base import RandomState
from .engine_runs import Task
from .model_files import register

__all__ = ["IBM1", "HMMAligner"]


@register
class IBM1(AlignerEstimator):
    """IBM model 1: each target word translates a word of the source sentence, or NULL.

    Every position of the source sentence is as likely as any other. Translations of a source word
    have a Dirichlet prior over the target vocabulary.

    Parameters
    ----------
    directions : "both" fits a second model with the sides exchanged, which `align` joins with the
        first; "forward" fits one.
    inference : engine, by name ("collapsed", "batch", "memoized", "stochastic", "em", ...) or as
        an object. Default `CollapsedVB`, sentence by sentence, which aligns best.
    word_concentration : prior count of each target word in the translations of a source word.
        Large ones send rare words to NULL, small ones let them collect links.
    null : share of target words that are linked to NULL: a number, or "learned"; "position" makes
        NULL one more position of the source sentence. Default 0.05, which suits "collapsed" and
        "em"; with "batch" 0.2 is better. `HMMAligner` has 0.2.
    null_prior : prior counts of target words with and without NULL, for a learned share.
    max_iter : laps. Default: those of an engine object; else 5, of "stochastic" at least 5 and of
        "stochastic-collapsed" at least 1, as many as have 25 steps; of samplers 5,000 over the
        square root of the number of pairs, 5 to 100.
    lowercase : turn capitals into small letters, here and in later calls.
    max_length : pairs with more words on a side are left out of the fit, and get no links.
    random_state : seed, for engines that draw.
    n_jobs : threads; results do not depend on it. With two both directions are fitted at once,
        unless their progress is shown or the engine has callbacks.
    verbose : show progress.

    Examples
    --------
    >>> import stickbreak as sb
    >>> pairs = [("the house", "das Haus"), ("the book", "das Buch"), ("a book", "ein Buch")]
    >>> model = sb.IBM1().fit(pairs)
    >>> list(model.align([("a house", "ein Haus")]).lines())
    ['0-0 1-1']
    """

    PRIOR = ("null", "null_prior")

    def __init__(
        self,
        *,
        directions: str = "both",
        inference: str | Engine | None = None,
        word_concentration: float = 0.003,
        null: str | float = 0.05,
        null_prior: Sequence[float] = (1.0, 4.0),
        max_iter: int | None = None,
        lowercase: bool = False,
        max_length: int = 500,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        assert isinstance(family, Lexicon)
        return ibm1(family, **prior)


@register
class HMMAligner(AlignerEstimator):
    """The HMM aligner: where a target word is linked depends on where the word before it was.

    As `IBM1`, with which it begins; then source positions are a chain, in which the width of a jump
    has a learned distribution. A word that is linked to NULL keeps the position of the one before.

    Parameters
    ----------
    directions, inference, word_concentration, null, null_prior, max_iter, lowercase, max_length,
        random_state, n_jobs, verbose : as in `IBM1`.
    jumps : "open" lets jumps leave the sentence, so that their probabilities need not be
        normalized for each length: conjugate, with a bound. "renormalised", as in the literature,
        divides by the mass inside the sentence; it has no bound.
    jump_concentration : prior count of each width of a jump.
    ibm1_laps : laps of model 1 to begin with. Default: as many as of the chain, or 5 where
        `max_iter` or an engine object says how many those are.
    fertility : whether as many laps follow in which the number of links of a source word has a
        distribution of its own. For collapsed engines, and for the pairs of the fit (`links_`):
        `align` uses what was learned of words and jumps, and not the fertilities.

    Examples
    --------
    >>> import stickbreak as sb
    >>> pairs = [("the house", "das Haus"), ("the book", "das Buch"), ("a book", "ein Buch")]
    >>> sb.HMMAligner().fit(pairs).top_translations("book", 1)[0][0]
    'Buch'
    """

    PRIOR = ("jumps", "jump_concentration", "null", "null_prior")

    jumps: str
    jump_concentration: float
    ibm1_laps: int | None
    fertility: bool

    def __init__(
        self,
        *,
        directions: str = "both",
        inference: str | Engine | None = None,
        word_concentration: float = 0.003,
        null: str | float = 0.2,
        null_prior: Sequence[float] = (1.0, 4.0),
        jumps: str = "open",
        jump_concentration: float = 1.0,
        ibm1_laps: int | None = None,
        fertility: bool = False,
        max_iter: int | None = None,
        lowercase: bool = False,
        max_length: int = 500,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def _check_arguments(self) -> None:
        require_prior_count(jump_concentration=self.jump_concentration)
        if self.ibm1_laps is not None:
            require_whole(ibm1_laps=self.ibm1_laps)
        if not isinstance(self.fertility, bool):
            raise ValueError(f"fertility must be True or False; got {self.fertility!r}")
        super()._check_arguments()
        engine = self._engine(False)
        if self.fertility and not isinstance(engine, CollapsedVB | CollapsedGibbs):
            raise ValueError(
                "fertility=True needs inference='collapsed' or 'collapsed-gibbs'; got "
                f"{type(engine).__name__}"
            )
        if self.fertility and isinstance(engine, CollapsedVB):
            _require_sentences(engine.granularity)
        if isinstance(engine, CollapsedGibbs) and self.jumps != "open":
            raise ValueError(
                f"CollapsedGibbs draws open jumps; got jumps={self.jumps!r}: use jumps='open'"
            )

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        assert isinstance(family, Lexicon)
        return (fertile_aligner if self.fertility else hmm_aligner)(family, **prior)

    def _seed(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        """Where laps of model 1 end, and with fertilities those of jumps after them."""
        engine, prior = self._engine_for(task), self._prior_of(self)
        starter = engine.for_starts()
        assert isinstance(model.family, Lexicon)
        bag = ibm1(model.family, **{name: prior[name] for name in IBM1.PRIOR})
        start = self._even(bag, task, pool)
        laps = LAPS if self._has_laps else engine.max_iter
        first = replace(starter, max_iter=laps if self.ibm1_laps is None else int(self.ibm1_laps))
        if not self.fertility and starter is engine:
            return self._follow(bag, first, start, task, rng, pool, model)
        chain = hmm_aligner(model.family, **prior)
        start = self._follow(bag, first, start, task, rng, pool, chain)
        return self._follow(chain, starter, start, task, rng, pool, model)

    def _jumps_drawn(self) -> tuple[Array, Array] | None:
        return self.jumps_

    @property
    def jumps_(self) -> tuple[Array, Array]:
        """Widths (2 W + 1,) of jumps, and their posterior mean probabilities.

        The first and the last width stand for all wider ones.
        """
        fitted = self._require_fitted()
        counts = np.asarray(fitted.counts["jump"]) + float(self.jump_concentration)
        half = len(counts) // 2
        return np.arange(-half, half + 1), counts / counts.sum()


def _require_sentences(granularity: str) -> None:
    """Raise ValueError unless whole sentences are inferred at a time."""
    if granularity not in ("auto", "sequence"):
        raise ValueError(
            f"fertilities are for whole sentences; got granularity={granularity!r}: use 'sequence'"
        )
