"""Members of a Product whose rows leave and join the counts one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from stickbreak.kernels.live_pairs import LivePair
from stickbreak.protocols import Array, Counts, Out

from .base import BaseFamily
from .member_names import number_fields

__all__ = ["LiveMembers"]


class LiveMembers(BaseFamily):
    """A family of several members with fields of their own."""

    members: Any
    begins_swept = False

    def _parts(self, rows: Any) -> Iterator[tuple[Any, Any]]:
        """Each member with its columns of the rows."""
        raise NotImplementedError

    def _own(self, counts: Counts) -> list[tuple[Any, dict[str, Array]]]:
        """Each member with its counts, by the member's own names."""
        raise NotImplementedError

    @property
    def sweeps(self) -> bool:
        """Whether rows can leave and join the counts of all members."""
        return all(family.sweeps for family, _ in self.members)

    def can_leave(self, rows: Any) -> bool:
        """Whether each of these rows can leave the counts of all members."""
        return all(family.can_leave(own) for family, own in self._parts(rows))

    def _order(self) -> list[int]:
        """Members by the names of their families: each sequence of types is compiled by itself."""
        names = [type(family).__name__ for family, _ in self.members]
        return sorted(range(len(names)), key=names.__getitem__)

    def _paired(self, parts: Sequence[Any]) -> Any:
        """Parts of the members as nested pairs."""
        *before, last = [parts[i] for i in self._order()]
        return reduce(lambda rest, first: LivePair(first, rest), reversed(before), last)

    def live(self, counts: Counts) -> Any:
        """Live counts of the members, in pairs."""
        return self._paired([family.live(own) for family, own in self._own(counts)])

    def live_sums(self, counts: Counts) -> Any:
        """The same for counts that rows only join."""
        return self._paired([family.live_sums(own) for family, own in self._own(counts)])

    def live_rows(self, rows: Any) -> Any:
        """Rows of the members, in pairs."""
        return self._paired([family.live_rows(own) for family, own in self._parts(rows)])

    def settle(self, live: Any, n_components: int) -> Out:
        """The members' fields, numbered."""
        found: dict[int, Out] = {}
        *before, last = self._order()
        for i in before:
            found[i] = self.members[i][0].settle(live.first, n_components)
            live = live.rest
        found[last] = self.members[last][0].settle(live, n_components)
        return number_fields(found[i] for i in range(len(found)))
