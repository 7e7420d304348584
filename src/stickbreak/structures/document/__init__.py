"""Documents: every unit has shares of the components of its own."""

from .structure import Document

__all__ = ["Document"]
