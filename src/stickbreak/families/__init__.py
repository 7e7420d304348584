"""Likelihoods: the evidence of a row under each component. One file per family."""

from .autoregressive import AutoregressiveGaussian
from .bernoulli import Bernoulli
from .categorical import Categorical
from .diagonal import DiagonalGaussian
from .fixedvariance import FixedVarianceGaussian
from .gaussian import Gaussian
from .multinomial import Multinomial
from .poisson import Poisson
from .product import Product
from .zeromean import ZeroMeanGaussian

__all__ = [
    "AutoregressiveGaussian",
    "Bernoulli",
    "Categorical",
    "DiagonalGaussian",
    "FixedVarianceGaussian",
    "Gaussian",
    "Multinomial",
    "Poisson",
    "Product",
    "ZeroMeanGaussian",
]
