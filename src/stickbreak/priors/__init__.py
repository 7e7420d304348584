"""How components are shared out."""

from .dirichlet import ROWS, DirichletRows, SymmetricDirichlet
from .sticks import Sticks

__all__ = ["ROWS", "DirichletRows", "Sticks", "SymmetricDirichlet"]
