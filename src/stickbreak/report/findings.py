"""Checks are values: what was measured, what draws from the model give, what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stickbreak.protocols import Array

__all__ = ["Finding", "judged"]


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    level : "look" if it asks for a look, "fine", or "remark" for what is told in any case
    title : what the matter is, or would be
    measured : the numbers behind it
    advice : what to do; empty if it is fine
    code : Python to go on with; may be empty
    """

    level: str
    title: str
    measured: str
    advice: str = ""
    code: str = ""

    def __str__(self) -> str:
        more = f" {self.advice}" if self.advice else ""
        return f"{self.level}: {self.title}: {self.measured}{more}"


def judged(value: float, drawn: Array, margin: float = 3.0) -> bool:
    """Whether a statistic of the data is larger than draws from the model explain.

    It is larger than that of every draw, and by `margin` standard deviations larger than their
    mean. With 39 draws, the first alone happens once in 40 sets of data from the model itself.
    """
    drawn = np.asarray(drawn, dtype=float)
    drawn = drawn[np.isfinite(drawn)]
    if not np.isfinite(value) or len(drawn) < 10:
        return False
    return bool(value > drawn.max() and value > drawn.mean() + margin * drawn.std())
