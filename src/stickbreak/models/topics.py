"""Topic models: words of documents, or any rows in groups that have their own shares."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.families.base import BaseFamily
from stickbreak.priors import AsymmetricTopics, DirichletTopics, GammaPrior, HDPTopics
from stickbreak.structures import Document

from .base import Model

__all__ = ["hdp_topics", "lda"]


def lda(family: BaseFamily, concentration: Any = 0.1, **local: Any) -> Model:
    """Latent Dirichlet allocation.

    concentration : prior count of each topic in a document: a number or GammaPrior for all, or
        what `AsymmetricTopics` takes
    local : settings of `Document`
    """
    is_common = np.ndim(concentration) == 0 and not isinstance(concentration, str)
    prior = (DirichletTopics if is_common else AsymmetricTopics)(concentration)
    return Model(Document(**local), family, prior, axis="topic")


def hdp_topics(
    family: BaseFamily, concentration: float | GammaPrior = 0.5,
    top_concentration: float | GammaPrior = 10.0, *,
    root: str = "beta", precision: str = "rule", **local: Any,
) -> Model:  # fmt: skip
    """Any number of topics; see HDPTopics. local: settings of `Document`."""
    prior = HDPTopics(concentration, top_concentration, root, precision)
    return Model(Document(**local), family, prior, axis="topic")
