"""Semi-Markov models, whose states last as long as a law says: HSMM, HDPHSMM."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from stickbreak.errors import StickbreakWarning
from stickbreak.families.base import BaseFamily
from stickbreak.inference import BaseMove, Engine
from stickbreak.models import Model, finite_hsmm, hdp_hsmm
from stickbreak.priors import BaseDuration, DirichletSegments, GammaPrior, HDPSegments
from stickbreak.stats import Fields

from .base import RandomState
from .model_files import register
from .root_numbers import row_concentration, start_concentration, top_concentration, top_interval
from .segment_answers import SegmentModel

__all__ = ["HDPHSMM", "HSMM"]


@register
class HSMM(SegmentModel):
    """Bayesian hidden semi-Markov model with a fixed number of states.

    A sequence is a succession of segments: each has a state, never that of the segment before, and
    a length from the duration law of its state. In a hidden Markov model lengths are geometric;
    here they may be regular, or have any law.

    Parameters
    ----------
    n_components : number of states.
    duration : law of the lengths, by name ("negative-binomial", "poisson", "geometric", "free") or
        as an object with its prior: `NegativeBinomial`, `ShiftedPoisson`, `Geometric`,
        `FreeDurations`.
    max_duration : the longest segment; less is faster. Default: no limit, which is twice the
        longest sequence of the fit (the longest sequence for `FreeDurations`).
    duration_inference : "exact", sums over all lengths, whose time is rows x longest segment x
        states; or, for `NegativeBinomial` and `Geometric` in time linear in the rows, "embedded",
        a chain with sub-states for the most probable number of stages of each state; or "sampled",
        the average of `n_samples` segmentations drawn under drawn parameters, without a bound; it
        takes Gaussians with full covariance for complete rows only: `family="diagonal"` for others.
    n_samples : segmentations of every sequence that "sampled" draws in each step.
    right_censored, left_censored : whether a sequence may end, or begin, within a segment, whose
        length is then known in part. The second is for "exact".
    concentration, start_concentration : prior count of each entry of a transition row, and of the
        start row.
    start_prior, transition_prior : (K,) and (K, K) prior counts entry by entry, in place of the two
        numbers; zero marks what is impossible, and the diagonal must be zero.
    family, inference, allowed, init : as in `HMM`; `SubchainVB` and `CollapsedGibbs` are not for
        segments.
    learn_prior, max_iter, tol, random_state : as in `Mixture`.
    n_init, n_jobs, warm_start, verbose : likewise.

    Attributes
    ----------
    transmat_, startprob_ : (K, K) and (K,) posterior mean probabilities of the next segment's
        state, from row to column, and of the first.
    durations_ : lengths of the segments of each state: mean, std, low, median, high, segments,
        probability.
    duration_parameters_ : posterior means of the parameters of the law.
    n_components_, n_effective_, weights_, counts_, labels_ : as in `HMM`.
    posterior_, means_, covariances_, family_, component_ids_ : as in `Mixture`.
    lower_bound_, trace_, converged_, n_iter_ : as in `Mixture`.
    n_features_in_, feature_names_in_, categories_ : as in `Mixture`.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> rng = np.random.default_rng(0)
    >>> path = np.repeat([-4.0, 4.0, -4.0, 4.0], [20, 40, 20, 40])[:, None]
    >>> sequences = [path + rng.normal(size=(120, 1)) for _ in range(4)]
    >>> model = sb.HSMM(2, random_state=0).fit(sequences)
    >>> model.durations_.median[np.argsort(model.means_.ravel())].tolist()
    [19.0, 46.0]
    """

    PRIOR = (
        "concentration", "start_concentration", "start_prior", "transition_prior", "duration",
        "max_duration", "duration_inference",
    )  # fmt: skip

    def __init__(
        self,
        n_components: int = 8,
        *,
        family: str | BaseFamily = "gaussian",
        inference: str | Engine | None = None,
        duration: str | BaseDuration = "negative-binomial",
        max_duration: int | None = None,
        duration_inference: str = "exact",
        n_samples: int = 10,
        right_censored: bool = True,
        left_censored: bool = False,
        concentration: float = 0.5,
        start_concentration: float = 0.5,
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
        DirichletSegments(**self._prior_of(self)).pseudo(Fields({}, {}), int(self.n_components))

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        return finite_hsmm(family, learns=self.learn_prior, **self._form(), **prior)


@register
class HDPHSMM(SegmentModel):
    """Semi-Markov model with a hierarchical Dirichlet process: finds how many states.

    All rows of the transition table are centered on the shares of one root, as in `HDPHMM`; no
    state follows itself, and a law says how long each lasts. A fit begins with `n_components` and
    tries births, merges and deletes, unless the engine has none or durations are "sampled"; then
    the number is a truncation, and `n_effective_` counts the states in use.

    Parameters
    ----------
    n_components : number of states to begin with.
    duration, max_duration, duration_inference, n_samples, right_censored, left_censored : as in
        `HSMM`.
    concentration, start_concentration, top_concentration : as in `HDPHMM`.
    root : "beta", a Beta posterior over the root's sticks, whose bound can choose the number of
        states; "point", a point estimate as in older work, whose bound cannot.
    family, inference, allowed, init : as in `HDPHMM`.
    learn_prior, max_iter, tol, random_state : as in `Mixture`.
    n_init, n_jobs, warm_start, verbose : likewise.

    Attributes
    ----------
    concentration_, start_concentration_, top_concentration_, top_concentration_interval_ : as in
        `HDPHMM`.
    durations_, duration_parameters_, transmat_, startprob_, labels_ and all others : as in `HSMM`.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> rng = np.random.default_rng(0)
    >>> path = np.repeat([-6.0, 0.0, 6.0, 0.0], 15)[:, None]
    >>> sequences = [path + rng.normal(size=(60, 1)) for _ in range(4)]
    >>> sb.HDPHSMM(6, max_duration=40, random_state=0).fit(sequences).n_effective_
    3
    """

    PRIOR = (
        "concentration", "start_concentration", "top_concentration", "root", "duration",
        "max_duration", "duration_inference",
    )  # fmt: skip
    _is_unbounded = True
    root: str

    def __init__(
        self,
        n_components: int = 25,
        *,
        family: str | BaseFamily = "gaussian",
        inference: str | Engine | None = None,
        duration: str | BaseDuration = "negative-binomial",
        max_duration: int | None = None,
        duration_inference: str = "exact",
        n_samples: int = 10,
        right_censored: bool = True,
        left_censored: bool = False,
        concentration: float | GammaPrior = 0.5,
        start_concentration: float | GammaPrior = 10.0,
        top_concentration: float | GammaPrior = 10.0,
        root: str = "beta",
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

    def _recommended_moves(self) -> tuple[BaseMove, ...]:
        # The bound of a point estimate cannot choose the number of states.
        return super()._recommended_moves() if self.root == "beta" else ()

    def _check_arguments(self) -> None:
        with warnings.catch_warnings():
            # The warning about point estimates comes when the model is made.
            warnings.simplefilter("ignore", StickbreakWarning)
            HDPSegments(**self._prior_of(self))
        super()._check_arguments()

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        return hdp_hsmm(family, learns=self.learn_prior, **self._form(), **prior)

    concentration_ = property(row_concentration)
    start_concentration_ = property(start_concentration)
    top_concentration_ = property(top_concentration)
    top_concentration_interval_ = property(top_interval)
