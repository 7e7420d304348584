"""Gaussian components: densities of one column, ellipses over two, a pair plot of up to four."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse
from matplotlib.ticker import MaxNLocator

from stickbreak.families import (
    AutoregressiveGaussian,
    DiagonalGaussian,
    FixedVarianceGaussian,
    Gaussian,
    ZeroMeanGaussian,
)
from stickbreak.protocols import Array

from .style import MUTED, color_of, inner_axes, line_of, mark_center, set_titles, tidy
from .view import View, choose_columns

__all__ = ["GaussianShape", "draw_gaussians", "ellipse_axes", "shape_of"]

MAX_PAIRED = 4  # columns in a pair plot: with more, cells are too small to read
DEVIATIONS = 2.0  # radius of the ellipses
GAP = 0.03
SOLID_ROWS = 5.0
MAX_NAMED = 6  # components whose numbers fit into the small cells of a pair plot; the key has all


class GaussianShape(NamedTuple):
    """Means (K, C) and covariances (K, C, C) of the components, over some columns."""

    mean: Array
    covariance: Array

    @property
    def deviation(self) -> Array:
        """(K, C) standard deviations."""
        return np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))


@singledispatch
def shape_of(family: Any, posterior: Any, columns: Array) -> GaussianShape:
    """Posterior expectations of mean and covariance of a Gaussian family, over some columns."""
    raise TypeError(
        f"{type(family).__name__} has no Gaussian shape; register one with "
        "stickbreak.plots.shape_of"
    )


@shape_of.register
def _(family: Gaussian, posterior: Any, columns: Array) -> GaussianShape:
    return GaussianShape(
        posterior["mean"][:, columns], posterior["covariance"][:, columns[:, None], columns]
    )


@shape_of.register
def _(family: ZeroMeanGaussian, posterior: Any, columns: Array) -> GaussianShape:
    covariance = posterior["covariance"][:, columns[:, None], columns]
    return GaussianShape(np.zeros(covariance.shape[:2]), covariance)


@shape_of.register
def _(family: AutoregressiveGaussian, posterior: Any, columns: Array) -> GaussianShape:
    """Value and context together: the slope of an ellipse is the regression."""
    slope, mean, inner = (
        posterior[name] for name in ("coefficients", "context_mean", "context_covariance")
    )
    value = np.einsum("kde,ke->kd", slope, mean) + posterior.get("intercept", 0.0)
    cross = slope @ inner
    upper = np.concatenate(
        [cross @ slope.transpose(0, 2, 1) + posterior["covariance"], cross], axis=2
    )
    covariance = np.concatenate(
        [upper, np.concatenate([cross.transpose(0, 2, 1), inner], axis=2)], axis=1
    )
    return GaussianShape(
        np.concatenate([value, mean], axis=1)[:, columns], covariance[:, columns[:, None], columns]
    )


@shape_of.register(DiagonalGaussian)
@shape_of.register(FixedVarianceGaussian)
def _(family: Any, posterior: Any, columns: Array) -> GaussianShape:
    variance = posterior["variance"][:, columns]
    return GaussianShape(posterior["mean"][:, columns], variance[:, :, None] * np.eye(len(columns)))


def _telling(fitted: View) -> Array:
    """(D,) how well each column separates components.

    Half the gap between the log variance of all rows and the mean log variance within components.
    """
    D, used = len(fitted.names), fitted.shown
    weight = fitted.weights[used] / fitted.weights[used].sum()
    shapes = [shape_of(fitted.family, fitted.posterior, np.array([d])) for d in range(D)]
    mean = np.column_stack([s.mean[used, 0] for s in shapes])
    variance = np.column_stack([s.covariance[used, 0, 0] for s in shapes])
    total = weight @ variance + weight @ (mean - weight @ mean) ** 2
    return 0.5 * (np.log(total) - weight @ np.log(variance))


def draw_gaussians(family: Any, fitted: View, ax: Axes) -> None:
    """Components over the given columns, or the most telling ones.

    Rows, if given, have the color of their component.
    """
    columns, note = choose_columns(fitted, _telling(fitted), MAX_PAIRED)
    if len(columns) > MAX_PAIRED:
        raise ValueError(
            f"columns has {len(columns)} entries; a picture of Gaussian components "
            f"takes 1 to {MAX_PAIRED}"
        )
    shape = shape_of(family, fitted.posterior, columns)
    rows = None if fitted.rows is None else np.asarray(fitted.rows[:, columns], dtype=float)
    names = [fitted.names[d] for d in columns]
    contour = (
        f"ellipses at {DEVIATIONS:g} standard deviations"
        if len(columns) > 1
        else "density, weighted"
    )
    set_titles(ax, fitted.title(), fitted.left_out, note, contour + _count(rows))
    if len(columns) == 1:
        _draw_density(fitted, shape, rows, 0, ax)
        ax.set_xlabel(names[0], fontsize=9)
        ax.set_ylabel("density", fontsize=9)
    elif len(columns) == 2:
        _draw_ellipses(fitted, shape, rows, (0, 1), ax)
        ax.set_xlabel(names[0], fontsize=9)
        ax.set_ylabel(names[1], fontsize=9)
    else:
        _draw_pairs(fitted, shape, rows, names, ax)


def _count(rows: Array | None) -> str:
    return "" if rows is None else f"; {len(rows):,} rows"


def _limits(fitted: View, shape: GaussianShape, rows: Array | None, d: int) -> tuple[float, float]:
    """Range of a column to show: the ellipses of components with some rows, and all rows drawn."""
    # with fewer rows, the width is mostly that of the prior
    solid = fitted.shown[fitted.counts[fitted.shown] >= SOLID_ROWS]
    solid = solid if len(solid) else fitted.shown[:1]
    mean, spread = shape.mean[solid, d], DEVIATIONS * shape.deviation[solid, d]
    low, high = float((mean - spread).min()), float((mean + spread).max())
    if rows is not None and np.isfinite(rows[:, d]).any():
        low, high = min(low, float(np.nanmin(rows[:, d]))), max(high, float(np.nanmax(rows[:, d])))
    margin = 0.06 * (high - low) or 0.5
    return low - margin, high + margin


def _draw_density(
    fitted: View,
    shape: GaussianShape,
    rows: Array | None,
    d: int,
    ax: Axes,
    *,
    with_numbers: bool = True,
) -> None:
    """Weighted density of each component over one column, their sum, and a histogram of rows."""
    low, high = _limits(fitted, shape, rows, d)
    x = np.linspace(low, high, 400)
    if rows is not None:
        values = rows[np.isfinite(rows[:, d]), d]
        ax.hist(
            values,
            bins=min(60, max(12, int(2 * len(values) ** 0.5))),
            density=True,
            color="#e4e4e4",
        )
    total = np.zeros_like(x)
    for rank, k in enumerate(fitted.shown):
        z = (x - shape.mean[k, d]) / shape.deviation[k, d]
        density = (
            fitted.weights[k] * np.exp(-0.5 * z**2) / (shape.deviation[k, d] * np.sqrt(2 * np.pi))
        )
        total += density
        ax.plot(
            x,
            density,
            color=color_of(rank),
            linestyle=line_of(rank),
            linewidth=1.6,
            label=str(k),
        )
        peak = int(density.argmax())
        if with_numbers:
            mark_center(ax, float(x[peak]), float(density[peak]), str(k), color_of(rank))
    ax.plot(x, total, color="black", linewidth=0.8)
    ax.set_xlim(low, high)
    ax.set_ylim(bottom=0)
    tidy(ax)


def ellipse_axes(covariance: Array) -> tuple[float, float, float]:
    """Width, height and angle in degrees of an ellipse at DEVIATIONS standard deviations.

    covariance (2, 2).
    """
    lengths, directions = np.linalg.eigh(covariance)
    width, height = 2.0 * DEVIATIONS * np.sqrt(np.maximum(lengths[::-1], 0.0))
    return (
        float(width),
        float(height),
        float(np.degrees(np.arctan2(directions[1, 1], directions[0, 1]))),
    )


def _draw_ellipses(
    fitted: View,
    shape: GaussianShape,
    rows: Array | None,
    pair: tuple[int, int],
    ax: Axes,
    *,
    with_numbers: bool = True,
) -> None:
    """Components as ellipses over a pair of columns, rows as points."""
    i, j = pair
    if rows is not None and fitted.labels is not None:
        size = float(np.clip(4000 / len(rows), 3, 14))
        colors = [color_of(int(fitted.ranks[k])) for k in fitted.labels]
        ax.scatter(
            rows[:, i],
            rows[:, j],
            s=size,
            c=colors,
            alpha=0.45,
            linewidths=0,
            rasterized=len(rows) > 1000,
        )
    at = np.array([i, j])
    for rank, k in reversed(list(enumerate(fitted.shown))):
        width, height, angle = ellipse_axes(shape.covariance[k][at[:, None], at])
        center = (float(shape.mean[k, i]), float(shape.mean[k, j]))
        face = "none" if rows is not None else (*_rgb(color_of(rank)), 0.15)
        edge, line = color_of(rank), line_of(rank)
        ax.add_patch(
            Ellipse(
                center,
                width,
                height,
                angle=angle,
                facecolor=face,
                edgecolor=edge,
                linestyle=line,
                linewidth=1.6,
            )
        )
        if with_numbers:
            mark_center(ax, *center, str(k), edge)
    ax.set_xlim(*_limits(fitted, shape, rows, i))
    ax.set_ylim(*_limits(fitted, shape, rows, j))
    tidy(ax)


def _rgb(color: str) -> tuple[float, float, float]:
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def _draw_pairs(
    fitted: View, shape: GaussianShape, rows: Array | None, names: list[str], ax: Axes
) -> None:
    """Ellipses below the diagonal, densities on it."""
    n = len(names)
    side = (1.0 - GAP * (n - 1)) / n
    cells = [(i, j) for i in range(n) for j in range(i + 1)]
    boxes = [(j * (side + GAP), (n - 1 - i) * (side + GAP), side, side) for i, j in cells]
    for (i, j), cell in zip(cells, inner_axes(ax, boxes), strict=True):
        if i == j:
            _draw_density(fitted, shape, rows, i, cell, with_numbers=False)
            cell.set_yticks([])
            cell.spines["left"].set_visible(False)
        else:
            _draw_ellipses(
                fitted, shape, rows, (j, i), cell, with_numbers=len(fitted.shown) <= MAX_NAMED
            )
        cell.xaxis.set_major_locator(MaxNLocator(4))
        cell.tick_params(labelbottom=i == n - 1, labelleft=j == 0 and i > 0, labelsize=7)
        if i == n - 1:
            cell.set_xlabel(names[j], fontsize=8)
        if j == 0 and i > 0:
            cell.yaxis.set_major_locator(MaxNLocator(4))
            cell.set_ylabel(names[i], fontsize=8)
    _draw_key(fitted, ax)


def _draw_key(fitted: View, ax: Axes) -> None:
    """Ids and weights, in the corner that a pair plot leaves empty."""
    step = min(0.045, 0.49 / len(fitted.shown))
    for rank, k in enumerate(fitted.shown):
        y = 0.98 - step * rank
        ax.plot(
            [0.70, 0.76],
            [y, y],
            color=color_of(rank),
            linestyle=line_of(rank),
            linewidth=2,
            transform=ax.transAxes,
        )
        ax.text(
            0.78,
            y,
            fitted.label(int(k)),
            fontsize=8,
            color=MUTED,
            va="center",
            transform=ax.transAxes,
        )
