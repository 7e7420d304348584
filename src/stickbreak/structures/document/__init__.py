"""Documents, groups of rows: every unit has shares of the components of its own."""

from .group import Group
from .structure import Document

__all__ = ["Document", "Group"]
