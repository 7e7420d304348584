"""Groups of rows: documents of any family, whose components are divided by their rows."""

from __future__ import annotations

from dataclasses import dataclass

from ..base import Division
from .structure import Document

__all__ = ["Group"]


@dataclass(frozen=True)
class Group(Document):
    """Shares of a group's components, and the component of each of its rows, by mean field.

    As `Document`. A word tells its topic only by its company, so that births of topics divide
    documents; a row of another family tells a lot by itself, so that births here divide rows.
    """

    births = (Division("rows"), Division("rows", 4), Division("rows", 2, n_more=1))
