"""Records of the proposals that were decided, for readers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["MoveRecord"]


@dataclass(frozen=True)
class MoveRecord:
    """One proposal that was decided: what it would have done, and what it did.

    parents, children : permanent ids before and after; if rejected, the ids that children would
        have had, none for a trial
    expected, gain : nats: estimated from a sample when it was proposed, and exact; of a trial what
        it ended with
    n_units : units that a trial inferred again; 0 if it ended before, or was no trial
    n_passes : passes over all data that a trial amounts to
    seconds : of a trial, or of a look at a sample; all moves together, see `Trace.seconds_of_moves`
    on_sample : it did not pay on a sample, of `n_units` rows, which is all that was looked at; its
        gain is that of the sample, less what so few rows overrate
    """

    lap: int
    kind: str
    parents: tuple[int, ...]
    children: tuple[int, ...]
    expected: float
    gain: float
    is_accepted: bool
    n_units: int = 0
    n_passes: float = 0.0
    seconds: float = field(default=0.0, compare=False)
    on_sample: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for files."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> MoveRecord:
        """The inverse of `to_dict`."""
        parents, children = (tuple(int(i) for i in values[n]) for n in ("parents", "children"))
        expected, gain = float(values["expected"]), float(values["gain"])
        lap, kind = int(values["lap"]), str(values["kind"])
        cost = int(values.get("n_units", 0)), float(values.get("n_passes", 0.0))
        what = lap, kind, parents, children, expected, gain, bool(values["is_accepted"])
        seconds, on_sample = float(values.get("seconds", 0.0)), bool(values.get("on_sample", False))
        return cls(*what, *cost, seconds, on_sample)
