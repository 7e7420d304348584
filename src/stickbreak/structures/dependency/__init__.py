"""Projective dependency trees over the words of a sentence."""

from .structure import Dependency, most_expected_heads

__all__ = ["Dependency", "most_expected_heads"]
