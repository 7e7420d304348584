"""Shares of components that all groups of an HDP have in common."""

from .base import Root, fill_shares, share_sticks, top_term
from .beta import BetaRoot
from .groups import (
    ChainGroups,
    Groups,
    SegmentGroups,
    Surrogate,
    Term,
    TopicGroups,
    linear_term,
    trigamma,
    truncated_slope,
)
from .names import make_root, warn_of_point
from .point import PointRoot

__all__ = [
    "BetaRoot", "ChainGroups", "Groups", "PointRoot", "Root", "SegmentGroups", "Surrogate", "Term",
    "TopicGroups", "fill_shares", "linear_term", "make_root", "share_sticks", "top_term",
    "trigamma", "truncated_slope", "warn_of_point",
]  # fmt: skip
