"""Rows in groups: read as sequences are, without an order of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stickbreak.data import Documents, Table
from stickbreak.families.base import BaseFamily

from .schema import Given, Schema
from .sequence_rows import Shape, read_sequences

__all__ = ["Groups", "read_groups"]


@dataclass(frozen=True)
class Groups(Documents):
    """A user's groups of rows, as the family reads them. n_before, is_list : see Shape."""

    n_before: int = 0
    is_list: bool = False

    unit_name = "groups"

    @property
    def shape(self) -> Shape:
        """How they were given."""
        assert self.offsets is not None
        return Shape(self.offsets, self.n_before, self.is_list)

    def without_groups(self) -> Table:
        """The rows as a table, each as often as its group counts."""
        if self.times is None:
            return Table(self.rows, None, self.sets)
        assert self.offsets is not None
        return Table(self.rows, np.repeat(self.times, np.diff(self.offsets)), self.sets)


def read_groups(given: Given, family: BaseFamily, schema: Schema | None) -> tuple[Groups, Schema]:
    """Checked groups and their schema, which is learned if None."""
    stack, found = read_sequences(given, family, schema)
    assert stack.offsets is not None
    times = None if stack.repeats is None else stack.repeats[stack.offsets[:-1]]
    before, is_list = stack.n_before, stack.is_list
    groups = Groups(
        stack.rows, offsets=stack.offsets, times=times, n_before=before, is_list=is_list
    )
    return groups, found
