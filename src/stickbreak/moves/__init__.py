"""Moves that find the number of components.

Each is proposed before a lap, and kept if the whole-data bound rises.
"""

from .birth import Birth
from .delete import Delete
from .explain import explain
from .loosen import Loosen
from .merge import Merge
from .stream_births import are_explained, idle_components, join_stream

__all__ = [
    "Birth",
    "Delete",
    "Loosen",
    "Merge",
    "are_explained",
    "explain",
    "idle_components",
    "join_stream",
]
