"""Moves that find the number of components: each is proposed before a lap and kept when the
whole-data bound rises.
"""

from .birth import Birth
from .delete import Delete
from .explain import explain
from .merge import Merge

__all__ = ["Birth", "Delete", "Merge", "explain"]
