"""Mixtures of groups of rows, which share components and differ in how much they have of each."""

from __future__ import annotations

from typing import Any

from stickbreak.families.base import BaseFamily
from stickbreak.priors import GammaPrior, HDPTopics
from stickbreak.structures import Group

from .base import Model

__all__ = ["hdp_mixture"]


def hdp_mixture(
    family: BaseFamily, concentration: float | GammaPrior = 1.0,
    top_concentration: float | GammaPrior = 10.0, *,
    root: str = "beta", precision: str = "rule", learns: bool = False, **local: Any,
) -> Model:  # fmt: skip
    """Any number of components; see HDPTopics. local: settings of `Group`."""
    prior = HDPTopics(concentration, top_concentration, root, precision)
    return Model(Group(**local), family, prior, learns=learns)
