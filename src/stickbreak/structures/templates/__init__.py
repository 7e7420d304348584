"""Strings cut into segments by templates of slots."""

from .structure import SlotTemplates

__all__ = ["SlotTemplates"]
