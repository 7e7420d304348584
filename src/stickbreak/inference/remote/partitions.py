"""Partitions of dask collections, which a cluster keeps and its tasks read."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from stickbreak.errors import WorkersLostError
from stickbreak.protocols import Array

__all__ = ["Partition", "cut_rows"]

# of dask.distributed, which is imported by those who have a client
Client: TypeAlias = Any
Future: TypeAlias = Any


def cut_rows(rows: Array, begin: int, end: int) -> Array:
    """Rows begin:end."""
    return rows[begin:end]


def take_rows(rows: Array, at: Array) -> Array:
    """Rows at positions (m,)."""
    return rows[at]


@dataclass(frozen=True)
class Partition:
    """A partition that a cluster keeps as long as this value lives. future : rows (n, D)"""

    client: Client
    future: Future

    def between(self, begin: int, end: int) -> Array:
        """Rows begin:end, fetched."""
        return self._fetched(cut_rows, begin, end)

    def take(self, at: Array) -> Array:
        """Rows at positions (m,), fetched."""
        return self._fetched(take_rows, at)

    def _fetched(self, act: Callable[..., Array], *which: Any) -> Array:
        try:
            return np.asarray(self.client.submit(act, self.future, *which, pure=False).result())
        except (OSError, CancelledError) as error:
            raise WorkersLostError(f"lost a partition of the dask cluster: {error}") from error
