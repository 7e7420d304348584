"""Concentrations learned as points: each maximizes the bound plus its log prior density."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from stickbreak.parameters import require_prior_count
from stickbreak.stats import Fields

from .concentration import GammaPrior

__all__ = ["check_concentration", "learn_point", "log_density"]

REACH = 2.0  # largest change of a log concentration in one update
# Of concentrations below a root or of documents. Their part of the bound is a sum of terms that
# grow with them and cancel, so that larger ones leave rounding errors.
MOST = 1e6


def check_concentration(name: str, value: Any) -> None:
    """Raise ValueError unless the value is a number in range, or a GammaPrior with such a mean."""
    if not isinstance(value, GammaPrior):
        require_prior_count(most=MOST, **{name: value})
        return
    value.check()
    if value.mean > MOST:
        raise ValueError(
            f"{name}={value!r} has the mean {value.mean:g}, above {MOST:g}; use a larger rate"
        )


def log_density(prior: GammaPrior, value: float) -> float:
    """Log density of log c, which has a mode for every shape.

    log of rate**shape c**shape exp(-rate c) / Gamma(shape).
    """
    return float(
        prior.shape * np.log(prior.rate * value) - prior.rate * value - gammaln(prior.shape)
    )


def learn_point(
    name: str, objective: Callable[[Fields], float], params: Fields, least: float = 0.0
) -> Fields:
    """Parameters with a better value of `name` near the present one, or unchanged.

    Searches the log of the parameter by Brent's method.

    least : lower limit of the value; 0 for none
    """
    from scipy.optimize import minimize_scalar  # slow to import, and few fits need it

    def at(log_c: float) -> Fields:
        return replace(params, arrays={**params.arrays, name: np.array(np.exp(log_c))})

    here, now = float(np.log(params[name])), objective(params)
    low = max(here - REACH, float(np.log(least))) if least > 0 else here - REACH
    found = minimize_scalar(
        lambda log_c: now - objective(at(log_c)),
        bounds=(low, max(here, min(here + REACH, math.log(MOST)))),
        method="bounded",
        options={"xatol": 1e-3},
    )
    return at(float(found.x)) if found.fun < 0 else params
