"""Families by name: each with its default prior."""

from __future__ import annotations

from typing import Any

from .autoregressive import AutoregressiveGaussian
from .bernoulli import Bernoulli
from .categorical import Categorical
from .diagonal import DiagonalGaussian
from .fixedvariance import FixedVarianceGaussian
from .gaussian import Gaussian
from .multinomial import Multinomial
from .poisson import Poisson
from .zeromean import ZeroMeanGaussian

__all__ = ["FAMILIES", "make_family"]

FAMILIES: dict[str, type[Any]] = {
    "gaussian": Gaussian,
    "diagonal": DiagonalGaussian,
    "zero-mean": ZeroMeanGaussian,
    "fixed-variance": FixedVarianceGaussian,
    "categorical": Categorical,
    "multinomial": Multinomial,
    "bernoulli": Bernoulli,
    "poisson": Poisson,
    "autoregressive": AutoregressiveGaussian,
}


def make_family(family: Any) -> Any:
    """A family from its name (default prior) or the object itself."""
    if isinstance(family, str):
        if family not in FAMILIES:
            raise ValueError(
                f"unknown family {family!r}; choose one of "
                f"{', '.join(sorted(FAMILIES))}, or give a family object"
            )
        return FAMILIES[family]()
    if isinstance(family, type) or not hasattr(family, "log_marginal"):
        raise ValueError(
            f"family must be a name or a family object such as sb.Gaussian(); got {family!r}"
        )
    return family
