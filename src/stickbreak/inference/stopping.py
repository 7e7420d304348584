"""When a fit is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .trace import Trace

__all__ = ["AllLaps", "BoundStopping", "MonitorStopping", "Stopping"]

FEW = 0.1  # part of the rows that may still move in a lap, in units of tol


class Stopping(Protocol):
    """Decides from the trace whether a fit is done."""

    def is_converged(self, trace: Trace, n_observations: float) -> bool:
        """Whether the fit is done."""
        ...


@dataclass(frozen=True)
class BoundStopping:
    """Done when a lap raises the bound by less than `tol` nats per observation."""

    tol: float

    def is_converged(self, trace: Trace, n_observations: float) -> bool:
        """Whether the last lap gained less than tol."""
        if len(trace) < 2 or trace[-1].bound is None or trace[-2].bound is None:
            return False
        return abs(trace[-1].bound - trace[-2].bound) < self.tol * n_observations


@dataclass(frozen=True)
class MonitorStopping:
    """Done when the mean log_z has not risen above its best for `patience` laps.

    A rise of tol or less does not count. For stochastic and collapsed engines.

    waits : where the trace says how many rows moved, they must be few as well: near a saddle log_z
        is flat, and rows still move
    """

    tol: float
    patience: int = 5
    waits: bool = True

    def is_converged(self, trace: Trace, n_observations: float) -> bool:
        """Whether the last laps show no progress."""
        if len(trace) <= self.patience:
            return False
        if self.waits and (trace[-1].moved or 0.0) > FEW * self.tol:
            return False
        seen = [record.log_z for record in trace]
        return max(seen[-self.patience :]) < max(seen[: -self.patience]) + self.tol


@dataclass(frozen=True)
class AllLaps:
    """Done after n_laps laps: a sampler does not converge to a point."""

    n_laps: int

    def is_converged(self, trace: Trace, n_observations: float) -> bool:
        """Whether all laps have been made."""
        return len(trace) >= self.n_laps
