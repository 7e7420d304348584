"""Binary trees with hidden categories over the words of a sentence."""

from .structure import Tree, most_expected_spans
from .tables import TableTree

__all__ = ["TableTree", "Tree", "most_expected_spans"]
