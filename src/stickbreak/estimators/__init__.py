"""fit, predict, score: what users call."""

from .files import load
from .mixture import DPMixture, Mixture
from .resumption import resume

__all__ = ["DPMixture", "Mixture", "load", "resume"]
