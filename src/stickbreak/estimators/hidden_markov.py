"""Hidden Markov models with a fixed or a learned number of states."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from stickbreak.errors import StickbreakWarning
from stickbreak.families import Categorical
from stickbreak.families.base import BaseFamily
from stickbreak.inference import BaseMove, CollapsedVB, Engine
from stickbreak.models import Model, finite_hmm, hdp_hmm, hdp_rows
from stickbreak.moves import Merge
from stickbreak.priors import DirichletRows, GammaPrior, TableRoot
from stickbreak.stats import Fields

from .base import RandomState
from .chain_answers import filter_chain, forecast_chain, long_run_shares, stay_lengths
from .engine_choice import NAMED_ROOTS, TABLE_LAPS, require_sweeps
from .model_files import register
from .root_numbers import (
    numbers_of,
    row_concentration,
    start_concentration,
    top_concentration,
    top_interval,
)
from .searches import STATE_MOVES, SYMBOL_MOVES
from .sequence_fits import SequenceEstimator

__all__ = ["HDPHMM", "HMM"]


@register
class HMM(SequenceEstimator):
    """Bayesian hidden Markov model with a fixed number of states.

    Every row of the transition table, and the start row, has a Dirichlet prior of its own.

    Parameters
    ----------
    n_components : number of states.
    family : likelihood of a row given its state, by name ("gaussian", "diagonal", "zero-mean",
        "fixed-variance", "categorical", "multinomial", "bernoulli", "poisson", "autoregressive") or
        as an object with its prior; `Product` for columns of several kinds.
    inference : engine, by name ("batch", "memoized", "stochastic", "collapsed", "em", "hard-em") or
        as an object; default `BatchVB` for data in memory, `MemoizedVB` for data on disk.
    concentration, start_concentration : prior count of each entry of a transition row, and of the
        start row. Near zero, EM is maximum likelihood.
    stickiness : extra prior count of staying in a state. These three stay as given; `HDPHMM` can
        learn its own.
    start_prior, transition_prior : (K,) and (K, K) prior counts entry by entry, in place of the
        three numbers; zero marks what is impossible. Under EM they are hmmlearn's `startprob_prior`
        and `transmat_prior` less one.
    allowed : for one column of symbols, which states each may have: a mapping from symbol (a word,
        or its number) to a list of states; or a boolean table (V, K) with a line for each symbol,
        words in the order of `categories_`, which is the sorted one. Symbols that a mapping lacks
        may have any state. So may words that `predict` and its like are given and the fit has not
        seen, with a warning.
    init : where a fit begins: "collapsed" (sweeps that draw the states: for one column of symbols
        200 of collapsed Gibbs sampling, each symbol in a random state at first; for other rows 20
        of `Gibbs`, from blocks and equal steps), "blocks" (each state sees one block of 20 rows in
        succession; those that are far apart are chosen from ten times as many), "random-blocks"
        (without choosing), "k-means++" (Bregman, on rows: for states that change often), "random"
        (random rows) or "local" (a random chain for every sequence, as collapsed inference begins).
        "auto" is the best after ten laps of "collapsed", of where collapsed sweeps of at most
        40,000 rows lead from "local" (not for a single sequence, nor for symbols with an engine
        that looks for a mode), and, but for `Categorical`, of "blocks"; with prior counts of steps
        below 0.5, also of where the same starts lead with 0.5. `HDPHMM` of other families
        begins with "blocks", and so do engines that sweep themselves. Drawn states see at most
        100,000 rows, and every sequence once whatever its weight; families without `draw`, and
        learned concentrations, have none, and begin with the blocks and equal steps.
    learn_prior, max_iter, tol, random_state : as in `Mixture`.
    n_init, n_jobs, warm_start, verbose : likewise.

    Attributes
    ----------
    n_components_, n_effective_ : states; those with at least one row.
    transmat_, startprob_ : (K, K) and (K,) posterior mean probabilities of steps, from row to
        column, and of the first state.
    weights_, counts_ : (K,) shares of the rows; expected rows.
    durations_, stationary_ : (K,) expected length of a stay; shares of rows in the long run.
    labels_ : state of each training row, (n,) or a list.
    posterior_, means_, covariances_, family_, component_ids_ : as in `Mixture`.
    lower_bound_, trace_, converged_, n_iter_ : as in `Mixture`.
    n_features_in_, feature_names_in_, categories_ : as in `Mixture`.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> rng = np.random.default_rng(0)
    >>> path = np.repeat([-4.0, 4.0, -4.0], 30)[:, None]
    >>> sequences = [path + rng.normal(size=(90, 1)) for _ in range(3)]
    >>> model = sb.HMM(2, random_state=0).fit(sequences)
    >>> model.means_.round().ravel().tolist(), model.durations_.round().tolist()
    ([-4.0, 4.0], [51.0, 26.0])
    >>> [states.shape for states in model.predict(sequences)]
    [(90,), (90,), (90,)]
    """

    _sweeps_first = True
    PRIOR = (
        "concentration", "start_concentration", "stickiness", "start_prior", "transition_prior",
    )  # fmt: skip

    def __init__(
        self,
        n_components: int = 8,
        *,
        family: str | BaseFamily = "gaussian",
        inference: str | Engine | None = None,
        concentration: float = 0.5,
        start_concentration: float = 0.5,
        stickiness: float = 0.0,
        start_prior: ArrayLike | None = None,
        transition_prior: ArrayLike | None = None,
        allowed: Mapping[Any, Any] | ArrayLike | None = None,
        learn_prior: bool = False,
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
        DirichletRows(**self._prior_of(self)).pseudo(Fields({}, {}), int(self.n_components))

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        return finite_hmm(family, learns=self.learn_prior, **prior)

    online_filter = filter_chain
    forecast = forecast_chain
    durations_ = property(stay_lengths)
    stationary_ = property(long_run_shares)
    _mean_durations = stay_lengths


@register
class HDPHMM(SequenceEstimator):
    """Hidden Markov model with a (sticky) hierarchical Dirichlet process: finds how many states.

    All rows of the transition table are centered on the shares of one root. A fit begins with
    `n_components` and tries births, merges and deletes, each kept only if it raises the bound of
    the whole data; `explain_moves` tells what happened. With an engine that has none, such as
    `EM()` or `MemoizedVB(moves=None)`, the number is a truncation: states that the data do not ask
    for stay empty, and `n_effective_` counts those in use.

    Parameters
    ----------
    n_components : number of states to begin with.
    inference : engine, by name ("batch", "memoized", "stochastic", "collapsed", "em", "hard-em") or
        as an object; default `MemoizedVB()`, which has moves here.
    stickiness : extra prior count of staying in a state, 0 or at least 0.001.
    concentration : of the transition rows around the root's shares; small values give sparse rows
        that differ from each other.
    start_concentration : of the start row around the root's shares.
    top_concentration : of the root's sticks; large values expect many states.
        Each of these four is a number, or a `GammaPrior` to learn it: the last with a posterior,
        the others as the values that make bound plus log prior density largest. Learned values of
        `concentration` above about 1 come out too small.
    root : "beta", a Beta posterior over the root's sticks, whose bound can choose the number of
        states; "point", a point estimate as in older work, whose bound cannot; "tables" or a
        `TableRoot`, expected table counts for `inference="collapsed"`, which is then the default,
        or `"stochastic-collapsed"`. These learn `top_concentration`, and a `concentration` of at
        most the given one, which the start row shares. States that the data do not ask for die out,
        and the default engine merges those that are alike, unless init is "local" or "random".
    allowed : as in `HMM`, for states 0 to n_components - 1. No move touches those named, nor any
        with a smaller number than one named, so that numbers stay as given. A listed word may have
        the states listed and no other, however many are born; states that no word lists, and
        newborns, are for the words that may have any: those not listed, or listed with all states.
        Births divide states that are not named: begin with some.
    family, init : as in `HMM`.
    learn_prior : as in `Mixture`. With root="tables", for one column of symbols: a base that the
        states share, and its strength, at most n_symbols times the family's concentration; by
        collapsed sweeps or stochastic collapsed steps.
    max_iter, tol, random_state : as in `Mixture`.
    n_init, n_jobs, warm_start, verbose : likewise.

    Attributes
    ----------
    concentration_, start_concentration_, stickiness_ : as given, or as learned.
    top_concentration_, top_concentration_interval_ : posterior mean and 95 % interval of a learned
        one.
    transmat_, startprob_, labels_ and all others : as in `HMM`.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> rng = np.random.default_rng(0)
    >>> path = np.repeat([-6.0, 0.0, 6.0], 30)[:, None]
    >>> sequences = [path + rng.normal(size=(90, 1)) for _ in range(4)]
    >>> model = sb.HDPHMM(10, stickiness=10, random_state=0).fit(sequences)
    >>> model.n_effective_
    3
    """

    PRIOR = ("concentration", "start_concentration", "top_concentration", "stickiness", "root")
    _is_unbounded = True
    _sweeps_first = True
    root: str | TableRoot

    def __init__(
        self,
        n_components: int = 25,
        *,
        family: str | BaseFamily = "gaussian",
        inference: str | Engine | None = None,
        stickiness: float | GammaPrior = 0.0,
        concentration: float | GammaPrior = 0.5,
        start_concentration: float | GammaPrior = 10.0,
        top_concentration: float | GammaPrior = 10.0,
        root: str | TableRoot = "beta",
        allowed: Mapping[Any, Any] | ArrayLike | None = None,
        learn_prior: bool = False,
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

    def _learns_collapsed(self, family: BaseFamily) -> bool:
        return self.root not in NAMED_ROOTS and isinstance(family, Categorical)

    def _recommended_moves(self) -> tuple[BaseMove, ...]:
        # The bound of a point estimate cannot choose the number of states.
        if self.root != "beta":
            return ()
        if not self._draws_first():
            return STATE_MOVES
        return SYMBOL_MOVES

    def _default_engine(self, on_disk: bool) -> Engine:
        # Superfluous states take some hundred laps to die out.
        if self.root in NAMED_ROOTS:
            return super()._default_engine(on_disk)
        differ = self.init not in ("local", "random")  # states that are alike would all be merged
        return CollapsedVB(max_iter=TABLE_LAPS, moves=(Merge(),) if differ else None)

    def _init(self) -> str:
        is_open = self.init == "auto" and self.root not in NAMED_ROOTS
        return "collapsed" if is_open and self._draws_first() else super()._init()

    def _check_arguments(self) -> None:
        with warnings.catch_warnings():
            # The warning about point estimates comes when the model is made.
            warnings.simplefilter("ignore", StickbreakWarning)
            hdp_rows(**self._prior_of(self))
        super()._check_arguments()
        require_sweeps(self, self.root, may_step=True)

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        return hdp_hmm(family, learns=self.learn_prior, **prior)

    @property
    def stickiness_(self) -> float:
        """Extra prior count of staying: given, or learned if a GammaPrior was given."""
        return numbers_of(self).stickiness

    online_filter = filter_chain
    forecast = forecast_chain
    durations_ = property(stay_lengths)
    stationary_ = property(long_run_shares)
    _mean_durations = stay_lengths
    concentration_ = property(row_concentration)
    start_concentration_ = property(start_concentration)
    top_concentration_ = property(top_concentration)
    top_concentration_interval_ = property(top_interval)
