"""Trees whose symbols have hidden subtypes."""

from .structure import Annotation

__all__ = ["Annotation"]
