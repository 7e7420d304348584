"""The history of a fit, for readers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from stickbreak.stats import Array

from .records import MoveRecord

__all__ = ["LapRecord", "Trace"]


@dataclass(frozen=True)
class LapRecord:
    """One pass over the data.

    bound : whole-data bound in nats (EM: its objective); None if there is none
    log_z : mean local log normalizer per unit, under the potentials in force at each visit
    disagreement : with `candidates`, the fraction of checked rows that would use other components
        if all were evaluated exactly. With `max_active` in chains, their expected fraction in
        components that they may not use. None if nothing was checked
    n_used : components that hold at least one row, if each row has one component (Gibbs); else None
    moved : expected fraction of the rows that went to another component, where sweeps may linger
        (`root="tables"`); else None
    acceptance : fraction of the proposed trees that were accepted, where samplers draw whole trees,
        or of the restarts of documents; else None
    """

    lap: int
    bound: float | None
    log_z: float
    n_components: int
    seconds: float
    disagreement: float | None = None
    n_used: int | None = None
    moved: float | None = None
    acceptance: float | None = None

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> LapRecord:
        """A record from a file, whose values must be numbers."""
        number = {name: None if value is None else float(value) for name, value in values.items()}
        whole = {
            name: int(values[name])
            for name in ("lap", "n_components", "n_used")
            if values.get(name) is not None
        }
        return cls(**{**number, **whole})  # type: ignore[arg-type]


@dataclass
class Trace:
    """The history of a fit: its laps, in order. Iterate it, or take columns as arrays.

    visits : the bound after every visit, if asked for
    moves : moves that were decided, and trials, failed ones too; also births and deletes that did
        not pay on a sample (`on_sample`)
    seconds_of_moves, seconds_of_fit : time spent on moves (planning, trials, decisions; not what a
        lap watches), and on everything
    processors : kinds of processors of a fit on the workers of others, with that of its driver:
        bits repeat on one kind
    """

    laps: list[LapRecord] = field(default_factory=list)
    visits: list[float] = field(default_factory=list)
    moves: list[MoveRecord] = field(default_factory=list)
    seconds_of_moves: float = 0.0
    seconds_of_fit: float = 0.0
    processors: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.laps)

    def __iter__(self) -> Iterator[LapRecord]:
        return iter(self.laps)

    def __getitem__(self, index: int) -> LapRecord:
        return self.laps[index]

    @property
    def judged(self) -> list[MoveRecord]:
        """Moves that were judged on all data."""
        return [record for record in self.moves if not record.on_sample]

    @property
    def bound(self) -> Array:
        """(laps,) bounds, NaN where there is none."""
        return np.array([np.nan if r.bound is None else r.bound for r in self.laps])

    @property
    def log_z(self) -> Array:
        """(laps,) mean local log normalizer per unit."""
        return np.array([r.log_z for r in self.laps])

    @property
    def n_components(self) -> Array:
        """(laps,) components in use."""
        return np.array([r.n_components for r in self.laps])

    @property
    def n_used(self) -> Array:
        """(laps,) components that hold rows; NaN if rows are divided among components."""
        return np.array([np.nan if r.n_used is None else r.n_used for r in self.laps])

    @property
    def seconds(self) -> Array:
        """(laps,) seconds since the start of the fit."""
        return np.array([r.seconds for r in self.laps])

    @property
    def disagreement(self) -> Array:
        """(laps,) fraction of checked rows that should use others; NaN if none was checked."""
        return np.array([np.nan if r.disagreement is None else r.disagreement for r in self.laps])

    @property
    def moved(self) -> Array:
        """(laps,) fraction of the rows that went to another component; NaN if not measured."""
        return np.array([np.nan if r.moved is None else r.moved for r in self.laps])

    @property
    def acceptance(self) -> Array:
        """(laps,) fraction of proposed trees, or restarts, that were accepted; NaN without any."""
        return np.array([np.nan if r.acceptance is None else r.acceptance for r in self.laps])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for files."""
        return {
            "laps": [asdict(r) for r in self.laps],
            "visits": list(self.visits),
            "moves": [record.to_dict() for record in self.moves],
            "seconds_of_moves": self.seconds_of_moves,
            "seconds_of_fit": self.seconds_of_fit,
            "processors": list(self.processors),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Trace:
        """The inverse of `to_dict`."""
        return cls(
            [LapRecord.from_dict(r) for r in values["laps"]],
            [float(v) for v in values["visits"]],
            [MoveRecord.from_dict(r) for r in values.get("moves", ())],
            float(values.get("seconds_of_moves", 0.0)),
            float(values.get("seconds_of_fit", 0.0)),
            tuple(map(str, values.get("processors", ()))),
        )
