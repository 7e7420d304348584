"""Kinds of processors: bits of a fit repeat on one kind."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from stickbreak.errors import StickbreakWarning

__all__ = ["Processors"]


class Processors:
    """Kinds that a place has had so far, with that of this process; warns of a second kind."""

    def __init__(self, own: str) -> None:
        self._seen = {own}

    @property
    def kinds(self) -> tuple[str, ...]:
        """All of them, sorted."""
        return tuple(sorted(self._seen))

    def see(self, kinds: Iterable[str]) -> None:
        """Add those of some workers."""
        before = len(self._seen)
        self._seen.update(kinds)
        if before == 1 < len(self._seen):
            warnings.warn(
                f"processors of {len(self._seen)} kinds ({', '.join(self.kinds)}): the last bits "
                "of a fit may differ from those of another",
                StickbreakWarning,
                stacklevel=5,
            )
