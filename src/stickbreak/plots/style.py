"""Colors, lines and small helpers; nothing here changes matplotlib's own settings."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.patheffects import withStroke

__all__ = [
    "HEAT",
    "MUTED",
    "PALETTE",
    "color_of",
    "color_ticks",
    "inner_axes",
    "line_of",
    "mark_center",
    "set_titles",
    "tidy",
]

# Seven colors that remain distinct with any common color blindness [Okabe and Ito 2008]; its yellow
# is too pale for lines.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#555555")
LINES = ("-", "--")
HEAT = "cividis"  # looks the same with and without color vision
MUTED = "#6f6f6f"
REST = "#c4c4c4"


def color_of(rank: int) -> str:
    """Color of the component with this rank by weight; grey for one that is not drawn."""
    return REST if rank < 0 else PALETTE[rank % len(PALETTE)]


def color_ticks(axis: Axis, n: int) -> None:
    """Color the names of n components along an axis; the largest comes first."""
    for rank, text in enumerate(axis.get_ticklabels()[:n]):
        text.set_color(color_of(rank))
        text.set_fontweight("bold")


def line_of(rank: int) -> str:
    """Solid lines for the first round of colors, dashed ones for the second."""
    return LINES[rank // len(PALETTE) % len(LINES)]


def set_titles(ax: Axes, title: str, *notes: str) -> None:
    """A title on the left, with smaller notes in lines below it."""
    found = [note for note in notes if note]
    ax.set_title(title, loc="left", fontsize=11, pad=6 + 11 * len(found))
    text = "\n".join(found)
    ax.annotate(
        text,
        (0, 1),
        (0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=8,
        color=MUTED,
        va="bottom",
    )


def tidy(ax: Axes) -> None:
    """Remove the frame where there is no axis."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)


def inner_axes(ax: Axes, boxes: list[tuple[float, float, float, float]]) -> list[Axes]:
    """Axes inside `ax`, whose own frame disappears.

    boxes : (left, bottom, width, height) as fractions of `ax`.
    """
    ax.set_axis_off()
    return [ax.inset_axes(box) for box in boxes]


def mark_center(ax: Axes, x: float, y: float, text: str, color: str) -> None:
    """A name that is readable over points and lines."""
    halo: list[Any] = [withStroke(linewidth=2.5, foreground="white")]
    ax.text(
        x,
        y,
        text,
        color=color,
        fontsize=10,
        fontweight="bold",
        ha="center",
        va="center",
        path_effects=halo,
        clip_on=True,
        zorder=5,
    )
