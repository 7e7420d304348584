"""How the components of a family look: the one question that each family answers for itself."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from matplotlib.axes import Axes

from stickbreak.families import DiagonalGaussian, FixedVarianceGaussian, Gaussian, ZeroMeanGaussian

from .gaussians import draw_gaussians
from .tables import draw_grid, grid_of
from .view import Fitted

__all__ = ["draw_components"]


@singledispatch
def draw_components(family: Any, fitted: Fitted, ax: Axes) -> None:
    """Draw the components of a fitted model into `ax`: a heat map unless the family registered something better."""
    draw_grid(grid_of(family, fitted), fitted, ax)


for _cls in (Gaussian, DiagonalGaussian, FixedVarianceGaussian, ZeroMeanGaussian):
    draw_components.register(_cls, draw_gaussians)
