"""Named arrays, their algebra, and edits that can be replayed later."""

from .edits import AddSide, Compose, Edit, EditLog, Fold, Forget, Insert, Merge, Permute, Remove, Within, adopt
from .fields import Array, Field, Fields, Filler, LinearFiller, join
from .moments import Reanchor, shift_moments, triangle
from .summary import SYMBOL, Summary, Tally

__all__ = [
    "SYMBOL",
    "AddSide",
    "Array",
    "Compose",
    "Edit",
    "EditLog",
    "Field",
    "Fields",
    "Filler",
    "Fold",
    "Forget",
    "Insert",
    "LinearFiller",
    "Merge",
    "Permute",
    "Reanchor",
    "Remove",
    "Summary",
    "Tally",
    "Within",
    "adopt",
    "join",
    "shift_moments",
    "triangle",
]
