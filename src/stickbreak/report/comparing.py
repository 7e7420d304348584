"""A page about two fitted models: numbers side by side, and the flow of rows between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stickbreak.protocols import Array

from .drawing import chip, color_of, draw, figure, number, percent, plural, table
from .markup import Markup, join, tag
from .page import Report, frame

__all__ = ["NO_ROWS", "Compared", "Flow", "Report", "partners_of", "write_comparison"]

WIDTH, HEIGHT, BAR = 760, 420, 26
NO_ROWS = np.zeros((0, 0), dtype=np.int64)  # of models whose rows have no components


@dataclass(frozen=True)
class Flow:
    """How rows move from the components of one model to those of another.

    names : of the two models
    counts : (K, L) rows with component k in the first and l in the second; none if rows have none
    difference, error : mean difference of the log predictive densities of rows, second less first,
        and its standard error; NaN if not known
    moved : (row, its component in the first, and in the second, gain in nats) of some rows that
        left the others of their component; n_moved : how many there are
    unit : what the scores are of: rows, documents or sentences
    """

    names: tuple[str, str]
    counts: Array
    difference: float = float("nan")
    error: float = float("nan")
    moved: Sequence[tuple[int, int, int, float]] = ()
    n_moved: int = 0
    unit: str = "row"


@dataclass(frozen=True)
class Compared:
    """Titles and cells of the table of models, notes below it, and the flow of rows.

    bounds : a sentence on the difference of their bounds; empty if these cannot be compared
    """

    titles: Sequence[str]
    cells: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    flow: Flow | None = None
    title: str = "Models compared"
    bounds: str = ""


def write_comparison(compared: Compared) -> Report:
    """The page."""
    n = len(compared.cells)
    rows = [[row[0], *map(_sortable, row[1:])] for row in compared.cells]
    body: list[Any] = [
        tag("div", tag("p", _lead(compared, n), class_="lead"), class_="intro"),
        tag(
            "section",
            tag("h2", "Side by side"),
            table(compared.titles, rows, caption="Models; a star marks the best"),
            *[tag("p", note, class_="note") for note in compared.notes],
        ),
    ]
    values: dict[str, Any] = {}
    flow = compared.flow
    if flow is not None and flow.counts.size:
        body.insert(1, _picks(flow))
        parts = (_draw_flow(flow), _kinds(flow), _moved(flow))
        body.append(tag("section", tag("h2", f"Where {flow.unit}s went"), *parts))
        values["flow"] = flow.counts.tolist()
    else:
        told = "The flow needs data and two models with components of rows or documents."
        body.append(tag("section", tag("h2", "Where rows went"), tag("p", told, class_="note")))
    return frame(compared.title, "comparison", join(body), values)


def _sortable(cell: str) -> Any:
    """A number, with its star, stands to the right and sorts as one; all else is text."""
    text = cell.strip()
    try:
        return text.replace("-", "\u2212"), float(text.rstrip(" *").replace(",", ""))
    except ValueError:
        return text


def _lead(compared: Compared, n: int) -> str:
    text = f"{n} {plural('model', n)} side by side. {compared.bounds}"
    flow = compared.flow
    if flow is None:
        return text
    one, other = flow.names
    if flow.counts.size:
        total = int(flow.counts.sum())
        kept = percent(int(flow.counts.max(1).sum()) / max(total, 1))
        text += f"{kept} of {total:,} {plural(flow.unit, total)} stay together: they are in the "
        text += f"largest part that {other} makes of a component of {one}. "
    if np.isfinite(flow.difference):
        better = other if flow.difference > 0 else one
        text += f"{better} is better by {number(abs(flow.difference))} nats per {flow.unit} of "
        text += f"these data (standard error {number(flow.error, 2)})."
    return text


def partners_of(counts: Array) -> dict[int, int]:
    """The component of the second model that goes with one of the first, one to one, where they
    share rows: those pairs that keep most rows together.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import, and few pages need it

    one, other = linear_sum_assignment(-np.asarray(counts))
    return {int(k): int(j) for k, j in zip(one, other, strict=True) if counts[k, j] > 0}


def _picks(flow: Flow) -> Markup:
    ks = [int(k) for k in np.argsort(-flow.counts.sum(1), kind="stable") if flow.counts[k].sum()]
    chips = [chip(k, k, str(k), f"{int(flow.counts[k].sum()):,} {flow.unit}s") for k in ks[:200]]
    every = tag("a", "all", href="#", data_pick="all", class_="chip", aria_current="true")
    label = f"Components of {flow.names[0]}"
    bar = tag("nav", tag("div", tag("b", f"{label}:"), every, *chips), class_="picks",
              aria_label=f"Select one of the {label.lower()}"[:200])  # fmt: skip
    said = tag("p", "", id="said", class_="hush", role="status", data_noun="component")
    return join([bar, said])


def _moved(flow: Flow) -> Markup | None:
    """Rows that left the others of their component."""
    if not flow.n_moved:
        return None
    header = [flow.unit, flow.names[0], flow.names[1], "gain (nats)"]
    rows = [
        [row, k, j, (f"{gain:+.2f}".replace("-", "\u2212"), gain)] for row, k, j, gain in flow.moved
    ]
    told = f"{flow.n_moved:,} {plural(flow.unit, flow.n_moved)} changed: they are not in the "
    told += "component that takes most of their old one. "
    told += "Here those whose density changed most." if len(rows) < flow.n_moved else ""
    what = f"{flow.unit.capitalize()}s"
    caption = f"{what} that changed, by their number in the data"
    inside = table(header, rows, caption=caption, keys=[k for _, k, _, _ in flow.moved])
    return tag(
        "figure", tag("figcaption", tag("h3", f"{what} that changed")), tag("p", told), inside
    )


def _draw_flow(flow: Flow) -> Markup:
    """Bands between the components of two models, as wide as rows are many."""
    left, right = _places(flow.counts.sum(1)), _places(flow.counts.sum(0))
    total = max(int(flow.counts.sum()), 1)
    unit = (HEIGHT - 60) / total
    begin, end = [y for y, _ in left], [y for y, _ in right]
    parts: list[Any] = []
    for k, row in enumerate(flow.counts):
        for j, n in enumerate(row):
            if n > 0:
                height = float(n) * unit
                parts.append(_band(begin[k], end[j], height, k, f"{n} from {k} to {j}"))
                begin[k] += height
                end[j] += height
    for k, (y, height) in enumerate(left):
        parts += _box(90, y, height, f"{k}", "end", 84, k)
    for j, (y, height) in enumerate(right):
        parts += _box(WIDTH - 90 - BAR, y, height, f"{j}", "start", WIDTH - 84, j)
    parts.append(tag("text", flow.names[0][:30], x=90, y=16))
    parts.append(tag("text", flow.names[1][:30], x=WIDTH - 90, y=16, text_anchor="end"))
    best = divmod(int(flow.counts.argmax()), flow.counts.shape[1])
    alt = f"Flow of {total:,} {flow.unit}s from {flow.names[0]} to {flow.names[1]}; the largest "
    alt += f"band, {int(flow.counts.max()):,} {flow.unit}s, goes from {best[0]} to {best[1]}."
    lines = [
        [int(a), int(b), int(flow.counts[a, b])]
        for a, b in zip(*np.nonzero(flow.counts), strict=True)
    ]
    lines.sort(key=lambda line: -line[2])
    header, keys = [*flow.names, f"{flow.unit}s"], [line[0] for line in lines[:200]]
    numbers = table(header, lines[:200], caption="By both components", keys=keys)
    return figure(f"Flow of {flow.unit}s", draw(WIDTH, HEIGHT, alt, parts), "", numbers, True)


def _places(sizes: Array) -> list[tuple[float, float]]:
    """Top and height of a bar for each component."""
    total, used = max(float(sizes.sum()), 1.0), int((sizes > 0).sum())
    gap = 30.0 / max(used, 1)
    found, y = [], 28.0
    for size in sizes:
        height = float(size) / total * (HEIGHT - 60)
        found.append((y, height))
        y += height + (gap if size > 0 else 0.0)
    return found


def _band(y1: float, y2: float, height: float, k: int, told: str) -> Markup:
    x1, x2 = 90 + BAR, WIDTH - 90 - BAR
    middle = (x1 + x2) / 2
    there = f"M{x1} {y1:.1f}C{middle} {y1:.1f} {middle} {y2:.1f} {x2} {y2:.1f}"
    back = f"V{y2 + height:.1f}C{middle} {y2 + height:.1f} {middle} {y1 + height:.1f} {x1} "
    line = f"{there}{back}{y1 + height:.1f}Z"
    title = tag("title", told)
    return tag("path", title, d=line, class_=f"bar {color_of(k)}", fill_opacity="0.35", data_k=k)


def _box(x: float, y: float, height: float, text: str, anchor: str, at: float, k: int) -> list[Any]:
    if height <= 0:
        return []
    box = tag("rect", x=x, y=round(y, 1), width=BAR, height=round(max(height, 1), 1),
              class_=f"bar {color_of(k)}")  # fmt: skip
    label = tag("text", text, x=at, y=round(y + height / 2 + 4, 1), text_anchor=anchor)
    return [box, label] if height > 9 else [tag("g", tag("title", text), box)]


def _kinds(flow: Flow) -> Markup:
    """Which components stayed, split or joined, in words."""
    one, other = flow.names
    share = flow.counts / np.maximum(flow.counts.sum(1, keepdims=True), 1)
    back = flow.counts / np.maximum(flow.counts.sum(0, keepdims=True), 1)
    told = []
    for k in np.flatnonzero(flow.counts.sum(1)):
        parts = [int(j) for j in np.flatnonzero(share[k] >= 0.1)]
        if len(parts) > 1:
            told.append(f"{k} of {one} is split among {', '.join(map(str, parts))} of {other}")
    for j in np.flatnonzero(flow.counts.sum(0)):
        parts = [int(k) for k in np.flatnonzero(back[:, j] >= 0.1)]
        if len(parts) > 1:
            told.append(f"{j} of {other} joins {', '.join(map(str, parts))} of {one}")
    met = set(partners_of(flow.counts).values())
    told += [
        f"{j} of {other} is new: most of its {flow.unit}s were parts of larger components of {one}"
        for j in map(int, np.flatnonzero(flow.counts.sum(0)))
        if j not in met
    ]
    if not told:
        return tag("p", "Every component of one model is a component of the other.")
    return tag("ul", *[tag("li", line) for line in told[:40]])
