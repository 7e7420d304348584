"""Projective dependency trees over the words of a sentence."""

from .structure import Dependency

__all__ = ["Dependency"]
