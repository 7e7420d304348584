"""fit, predict, score: what users call."""

from .files import load, register_part
from .mixture import DPMixture, Mixture
from .resumption import resume

__all__ = ["DPMixture", "Mixture", "load", "register_part", "resume"]
