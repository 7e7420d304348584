"""Records of the proposals that were decided, for readers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["MoveRecord"]


@dataclass(frozen=True)
class MoveRecord:
    """One proposal that was decided: what it would have done, and what it did.

    parents, children : permanent ids before and after; if rejected, the ids that children would
        have had
    expected, gain : nats: estimated from a sample when it was proposed, and exact
    """

    lap: int
    kind: str
    parents: tuple[int, ...]
    children: tuple[int, ...]
    expected: float
    gain: float
    is_accepted: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for files."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> MoveRecord:
        """The inverse of `to_dict`."""
        parents, children = (tuple(int(i) for i in values[n]) for n in ("parents", "children"))
        expected, gain = float(values["expected"]), float(values["gain"])
        lap, kind = int(values["lap"]), str(values["kind"])
        return cls(lap, kind, parents, children, expected, gain, bool(values["is_accepted"]))
