"""Failed moves, and when to try them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Attempts"]

MOST_TIMES = 64  # a candidate rests for 2**times laps
ONCE = frozenset({"misfit"})  # kinds tried once a lap: a sample of rows is drawn for each


def _has_changed(sizes: Sequence[float], before: Sequence[float]) -> bool:
    pairs = zip(sizes, before, strict=True)
    return any(abs(now - then) > 0.1 * max(then, 1.0) for now, then in pairs)


@dataclass
class Attempts:
    """Failures of each candidate (kind, ids).

    After f failures it rests for 2**f - 1 laps. After its limit, it rests until one of its
    components has changed its size by more than a tenth. Births may fail more often, because each
    attempt begins elsewhere; a merge or delete would be the same again. A check of rows
    ("misfit") fails if they look as their component expects.
    """

    limits: Mapping[str, int] = field(default_factory=lambda: {"birth": 4, "misfit": 4})
    failed: dict[tuple[str, tuple[int, ...]], tuple[int, int, tuple[float, ...]]] = field(
        default_factory=dict
    )
    n_failed: int = 0

    def may_try(
        self, kind: str, ids: tuple[int, ...], sizes: Sequence[float], lap: int, settled: bool
    ) -> bool:
        """Whether to try a candidate in this lap. Once the fit has settled, none rests."""
        if (kind, ids) not in self.failed:
            return True
        times, last, before = self.failed[kind, ids]
        if _has_changed(sizes, before):
            return True
        if kind in ONCE and lap <= last:
            return False
        return times < self.limits.get(kind, 1) and (settled or lap >= last + 2**times)

    def failures(self, kind: str, ids: tuple[int, ...]) -> int:
        """How often a candidate has failed since it last changed."""
        return self.failed.get((kind, ids), (0, 0, ()))[0]

    def fail(self, kind: str, ids: tuple[int, ...], sizes: Sequence[float], lap: int) -> None:
        """Remember a failure."""
        times, _, before = self.failed.get((kind, ids), (0, 0, tuple(sizes)))
        times = 1 if _has_changed(sizes, before) else times + 1
        self.failed[kind, ids] = (times, lap, tuple(float(s) for s in sizes))
        self.n_failed += 1

    def forget(self, alive: Iterable[int]) -> None:
        """Drop candidates with components that no longer exist."""
        here = set(alive)
        self.failed = {key: value for key, value in self.failed.items() if here.issuperset(key[1])}

    def to_list(self) -> list[Any]:
        """Plain values, for files."""
        return [
            [kind, list(ids), times, lap, list(sizes)]
            for (kind, ids), (times, lap, sizes) in self.failed.items()
        ]

    def load(self, values: Iterable[Any]) -> None:
        """The inverse of `to_list`."""
        for kind, ids, times, lap, sizes in values:
            if not 0 <= int(times) <= MOST_TIMES or len(ids) != len(sizes):
                raise ValueError(f"{times} failures of a {kind} of {ids}")
            self.failed[str(kind), tuple(int(i) for i in ids)] = (
                int(times),
                int(lap),
                tuple(float(s) for s in sizes),
            )
