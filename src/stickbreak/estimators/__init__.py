"""fit, predict, score: what users call."""

from .comparison import ComparedModel, Comparison, compare
from .files import load, register_part
from .mixture import DPMixture, Mixture
from .resumption import resume

__all__ = ["ComparedModel", "Comparison", "DPMixture", "Mixture", "compare", "load", "register_part", "resume"]
