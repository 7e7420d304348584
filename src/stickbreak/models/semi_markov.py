"""Semi-Markov models: segments over Dirichlet rows, or over rows that share a root (HDP)."""

from __future__ import annotations

from typing import Any

from stickbreak.families.base import BaseFamily
from stickbreak.priors import DirichletSegments, HDPSegments
from stickbreak.priors.durations import StagedDuration
from stickbreak.structures import BaseStructure, EmbeddedSemiMarkov, SemiMarkov

from .base import Model

__all__ = ["finite_hsmm", "hdp_hsmm"]


def finite_hsmm(family: BaseFamily, **settings: Any) -> Model:
    """Start row and rows without their own entry ~ Dirichlet, and a law of durations.

    Keywords are those of DirichletSegments, and those of `_assemble`.
    """
    return _assemble(DirichletSegments, family, **settings)


def hdp_hsmm(family: BaseFamily, **settings: Any) -> Model:
    """Row j ~ Dirichlet(concentration b_l for l != j), b ~ sticks, and a law of durations.

    Keywords are those of HDPSegments, and those of `_assemble`.
    """
    return _assemble(HDPSegments, family, **settings)


def _assemble(
    make_prior: type[DirichletSegments] | type[HDPSegments],
    family: BaseFamily,
    *,
    learns: bool = False,
    n_samples: int = 10,
    right_censored: bool = True,
    left_censored: bool = False,
    **rows: Any,
) -> Model:
    """Exact messages over all lengths, or those of a chain with sub-states.

    n_samples : paths of each sequence that are drawn and averaged, for
        duration_inference="sampled"
    right_censored, left_censored : whether a sequence may end, or begin, within a segment
    """
    prior = make_prior(**rows)
    is_exact, is_sampled = (prior.duration_inference == name for name in ("exact", "sampled"))
    if left_censored and not is_exact:
        raise ValueError(
            "left_censored=True is for duration_inference='exact'; got "
            f"{prior.duration_inference!r}"
        )
    structure: BaseStructure
    if is_exact:
        structure = SemiMarkov(right_censored, left_censored, int(prior.max_duration or 0))
    else:
        law = prior.duration
        assert isinstance(law, StagedDuration)
        shapes = law.shapes if law.learns_shape else ()
        structure = EmbeddedSemiMarkov(right_censored=right_censored, shapes=shapes)
    n_drawn = int(n_samples) if is_sampled else 0
    return Model(structure, family, prior, learns=learns, n_drawn=n_drawn)
