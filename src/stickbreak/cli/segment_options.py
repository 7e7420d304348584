"""The option of all commands that read data of semi-Markov models."""

from __future__ import annotations

from .options import Option

__all__ = ["CHANGE_POINTS"]

CHANGE_POINTS = {
    "change_points": Option(
        str,
        "Of semi-Markov models: column that holds 1 for rows at which a segment may begin and 0 "
        "for all others. Default: any row.",
        metavar="COLUMN",
    )
}
