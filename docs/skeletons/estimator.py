"""An estimator to copy: a mixture made of one's own structure and prior.

It works as it stands: it fits, predicts, scores, draws, saves, loads, resumes and streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import stickbreak as sb
from stickbreak.estimators import register
from stickbreak.families.base import BaseFamily
from stickbreak.models import Model

from .prior import FlatShares
from .structure import Alone


@register  # so that `sb.load` and `sb.resume` know it
class FlatMixture(sb.Mixture):
    """As `sb.Mixture`, but `concentration` is the number of rows that each component is worth."""

    # For data of several rows a unit, begin from sb.HMM. With other arguments than these bases,
    # write an __init__ that stores them and does nothing else, `self._store(locals())`, and name
    # those of the prior in PRIOR: they are saved with the model, and given to `_make_model`.

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        return Model(Alone(), family, FlatShares(**prior), learns=self.learn_prior)
