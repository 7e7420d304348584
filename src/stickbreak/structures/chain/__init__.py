"""Chains: every row's component depends on that of the row before it."""

from .structure import Chain

__all__ = ["Chain"]
