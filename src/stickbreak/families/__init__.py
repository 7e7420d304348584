"""Likelihoods: the evidence of a row under each component. One file per family."""

from .autoregressive import AutoregressiveGaussian
from .bernoulli import Bernoulli
from .categorical import Categorical
from .diagonal import DiagonalGaussian
from .fixedvariance import FixedVarianceGaussian
from .gaussian import Gaussian
from .lexicon import Lexicon
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
    "Lexicon",
    "Multinomial",
    "Poisson",
    "Product",
    "ZeroMeanGaussian",
]
