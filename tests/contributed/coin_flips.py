"""Units of rows, each of which has one of K equally frequent kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stickbreak.estimators import register
from stickbreak.estimators.chain_answers import filter_chain, forecast_chain, stay_lengths
from stickbreak.estimators.sequence_fits import SequenceEstimator
from stickbreak.families.base import BaseFamily
from stickbreak.models import Model
from stickbreak.stats import Array

from .coin import Coin
from .uniform import Uniform


@register
class CoinFlips(SequenceEstimator):
    """fit, predict and score for units of rows: a list of arrays, `lengths` or `sequence_id`.

    Parameters and attributes as in `sb.HMM`; the prior has none.
    """

    PRIOR = ()

    def __init__(
        self,
        n_components: int = 2,
        *,
        family: Any = "gaussian",
        inference: Any = None,
        learn_prior: bool = False,
        random_state: Any = None,
        init: str = "k-means++",
        n_init: int = 1,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        return Model(Coin(), family, Uniform(), learns=self.learn_prior)

    @property
    def startprob_(self) -> Array:
        return self.weights_

    @property
    def transmat_(self) -> Array:
        return np.eye(self.n_components_)  # a unit keeps its kind

    online_filter = filter_chain
    forecast = forecast_chain
    durations_ = property(stay_lengths)
    _mean_durations = stay_lengths
