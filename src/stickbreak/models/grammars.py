"""Models of trees: dependency trees over valence tables."""

from __future__ import annotations

from typing import Any

from stickbreak.families.base import BaseFamily
from stickbreak.priors import ValenceRows
from stickbreak.structures import Dependency

from .base import Model

__all__ = ["dependency_model"]


def dependency_model(family: BaseFamily, *, max_length: int = 60, **rows: Any) -> Model:
    """The dependency model with valence over given tags; keywords are those of ValenceRows."""
    return Model(Dependency(max_length), family, ValenceRows(**rows), "tag")
