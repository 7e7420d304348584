"""How the components of a family look: each family registers its own drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

from matplotlib.axes import Axes

from stickbreak.families import (
    AutoregressiveGaussian,
    DiagonalGaussian,
    FixedVarianceGaussian,
    Gaussian,
    Product,
    ZeroMeanGaussian,
)

from .gaussians import draw_gaussians
from .heat_maps import draw_grid, grid_of
from .style import inner_axes
from .view import View

__all__ = ["draw_components", "draw_members"]


@singledispatch
def draw_components(family: Any, fitted: View, ax: Axes) -> None:
    """Draw the components of a fitted model into `ax`; a heat map unless the family registered."""
    draw_grid(grid_of(family, fitted), fitted, ax)


for _cls in (
    Gaussian,
    DiagonalGaussian,
    FixedVarianceGaussian,
    ZeroMeanGaussian,
    AutoregressiveGaussian,
):
    draw_components.register(_cls, draw_gaussians)


@draw_components.register
def draw_product(family: Product, fitted: View, ax: Axes) -> None:
    """Every member of a Product, with its own columns and summaries."""
    parts = []
    for (member, columns), posterior in zip(
        family.members, family.member_summaries(fitted.posterior), strict=True
    ):
        at = [int(column) for column in columns]
        chosen = (
            None
            if fitted.columns is None
            else tuple(at.index(c) for c in fitted.columns if c in at)
        )
        rows = None if fitted.rows is None else fitted.rows[:, at]
        names = [fitted.names[column] for column in at]
        if chosen != ():
            parts.append(
                replace(
                    fitted,
                    family=member,
                    posterior=posterior,
                    names=names,
                    rows=rows,
                    columns=chosen,
                )
            )
    draw_members(parts, ax)


def draw_members(members: Sequence[View], ax: Axes) -> None:
    """Draw several families of one model, one below the other.

    Each is a View with its own columns and summaries. A family made of others registers with
    `draw_components` and calls this.
    """
    gap = min(0.17, 0.5 / len(members))  # room for titles and column names
    height = (1.0 - gap * (len(members) - 1)) / len(members)
    boxes = [(0.0, 1.0 - (i + 1) * height - i * gap, 1.0, height) for i in range(len(members))]
    for member, part in zip(members, inner_axes(ax, boxes), strict=True):
        draw_components(member.family, member, part)
