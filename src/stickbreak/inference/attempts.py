"""Failed moves, and when to try them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["Attempts"]

MOST_TIMES = 64  # a candidate rests for 2**times laps
ONCE = frozenset({"misfit"})  # kinds tried once a lap: a sample of rows is drawn for each
# Part by which the size of a component has to change before what failed may be tried again: a
# little, or a lot where it was hopeless.
CHANGED, CHANGED_MUCH = 0.1, 0.5


class Failed(NamedTuple):
    """How often a candidate has failed, in which lap last, and at what sizes of its components.

    change : part by which a size has to change before it is tried as if it had never failed
    """

    times: int
    lap: int
    sizes: tuple[float, ...]
    change: float = CHANGED

    def has_changed(self, sizes: Sequence[float]) -> bool:
        """Whether one of the sizes is another by now."""
        pairs = zip(sizes, self.sizes, strict=True)
        return any(abs(now - then) > self.change * max(then, 1.0) for now, then in pairs)


@dataclass
class Attempts:
    """Failures of each candidate (kind, ids).

    After f failures it rests for 2**f - 1 laps. After its limit, it rests until one of its
    components has changed its size by more than a tenth, or by half if it was hopeless. Births
    may fail more often, because each attempt begins elsewhere; a merge or delete would be the same
    again. A check of rows ("misfit") fails if they look as their component expects.
    """

    limits: Mapping[str, int] = field(default_factory=lambda: {"birth": 4, "misfit": 4})
    failed: dict[tuple[str, tuple[int, ...]], Failed] = field(default_factory=dict)
    n_failed: int = 0

    def may_try(
        self, kind: str, ids: tuple[int, ...], sizes: Sequence[float], lap: int, settled: bool
    ) -> bool:
        """Whether to try a candidate in this lap. Once the fit has settled, none rests."""
        if (kind, ids) not in self.failed:
            return True
        known = self.failed[kind, ids]
        if known.has_changed(sizes):
            return True
        if kind in ONCE and lap <= known.lap:
            return False
        is_left = known.times < self.limits.get(kind, 1)
        return is_left and (settled or lap >= known.lap + 2**known.times)

    def failures(self, kind: str, ids: tuple[int, ...]) -> int:
        """How often a candidate has failed since it last changed."""
        return self.failed[kind, ids].times if (kind, ids) in self.failed else 0

    def fail(
        self,
        kind: str,
        ids: tuple[int, ...],
        sizes: Sequence[float],
        lap: int,
        *,
        hopeless: bool = False,
    ) -> None:
        """Remember a failure. hopeless : by far, so that a small change will not make up for it"""
        known = self.failed.get((kind, ids))
        times = 1 if known is None or known.has_changed(sizes) else known.times + 1
        is_same = self.limits.get(kind, 1) == 1  # when tried again
        change = CHANGED_MUCH if hopeless and is_same else CHANGED
        self.failed[kind, ids] = Failed(times, lap, tuple(float(s) for s in sizes), change)
        self.n_failed += 1

    def forget(self, alive: Iterable[int]) -> None:
        """Drop candidates with components that no longer exist."""
        here = set(alive)
        self.failed = {key: value for key, value in self.failed.items() if here.issuperset(key[1])}

    def to_list(self) -> list[Any]:
        """Plain values, for files."""
        return [
            [kind, list(ids), known.times, known.lap, list(known.sizes), known.change]
            for (kind, ids), known in self.failed.items()
        ]

    def load(self, values: Iterable[Any]) -> None:
        """The inverse of `to_list`."""
        for kind, ids, times, lap, sizes, *rest in values:
            change = rest[0] if rest else CHANGED  # older files do not say
            if not 0 <= int(times) <= MOST_TIMES or len(ids) != len(sizes):
                raise ValueError(f"{times} failures of a {kind} of {ids}")
            if not 0.0 < float(change) <= 1.0:
                raise ValueError(f"a {kind} of {ids} that waits for a change by {change}")
            known = int(times), int(lap), tuple(float(s) for s in sizes), float(change)
            self.failed[str(kind), tuple(int(i) for i in ids)] = Failed(*known)
