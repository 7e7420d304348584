"""Binary trees with hidden categories over the words of a sentence."""

from .structure import Tree, most_expected_spans

__all__ = ["Tree", "most_expected_spans"]
