"""Moves that find the number of components.

Each is proposed before a lap, and kept if the whole-data bound rises.
"""

from .birth import Birth
from .delete import Delete
from .explain import explain
from .loosen import Loosen
from .merge import Merge
from .stream_births import idle_components, join_stream

__all__ = ["Birth", "Delete", "Loosen", "Merge", "explain", "idle_components", "join_stream"]
