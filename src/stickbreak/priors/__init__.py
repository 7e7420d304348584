"""How components are shared out."""

from .concentration import GammaPrior, UncertainConcentration
from .dirichlet import ROWS, DirichletRows, SymmetricDirichlet
from .sticks import Sticks

__all__ = ["ROWS", "DirichletRows", "GammaPrior", "Sticks", "SymmetricDirichlet", "UncertainConcentration"]
