"""What became of each proposal, for readers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["MoveRecord"]


@dataclass(frozen=True)
class MoveRecord:
    """One proposal that was decided: what it would have done, and what it did.

    parents, children : permanent ids before and after (children are the ids they would have had
        when it was rejected)
    expected, gain : nats, as estimated from a sample when it was proposed, and exact
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
        ids = {name: tuple(int(i) for i in values[name]) for name in ("parents", "children")}
        return cls(**{**values, **ids})
