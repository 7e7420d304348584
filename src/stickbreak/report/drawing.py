"""Figures as SVG: scales, axes, marks, and the frame with title, text alternative and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stickbreak.protocols import Array

from .markup import Markup, join, tag

__all__ = [
    "Scale", "axis_below", "axis_left", "chip", "color_of", "details", "draw", "figure", "number",
    "percent", "plural", "shortened", "table",
]  # fmt: skip

TALL = 16  # lines of a table that does not scroll
BROAD = 480  # pixels of a figure that is as wide as the paper in print
Key = int | tuple[int, ...] | None  # the component of a line, several of them, or none
N_COLORS = 7  # as of `plots`; a second round is dashed


class Scale(NamedTuple):
    """Values lo..hi at places begin..end."""

    lo: float
    hi: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value, to a tenth of a pixel."""
        width = (self.hi - self.lo) or 1.0
        place = self.begin + (float(value) - self.lo) / width * (self.end - self.begin)
        return round(place, 1)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values inside the scale."""
        width = self.hi - self.lo
        if not width > 0:
            return [self.lo]
        step = 10.0 ** math.floor(math.log10(width / most))
        step *= next(m for m in (1, 2, 5, 10, 20) if width / (step * m) <= most)
        first = math.ceil(self.lo / step - 1e-9)
        last = math.floor(self.hi / step + 1e-9)
        return [round(i * step, 10) for i in range(first, last + 1)]


def number(value: float, digits: int = 3) -> str:
    """A number for readers, with a real minus sign."""
    if not math.isfinite(value):
        return "\u2013"
    size = abs(value)
    if size >= 1e15:
        text = f"{value:.3g}"
    elif size >= 1000 or float(value).is_integer():
        text = f"{value:,.0f}"
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", "\u2212")


def percent(share: float) -> str:
    """A share in percent: two digits where it is small."""
    if not math.isfinite(share):
        return "\u2013"
    value = 100.0 * share
    if 0 < value < 0.05:
        return "<0.1\u00a0%"
    return f"{value:.0f}\u00a0%" if value >= 9.95 or value == 0 else f"{value:.1f}\u00a0%"


def shortened(text: str, most: int) -> str:
    """The text, cut to so many letters."""
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def plural(noun: str, n: float, several: str | None = None) -> str:
    """The noun for n things."""
    return noun if n == 1 else (several or noun + "s")


def color_of(rank: int) -> str:
    """Class of the component with this rank by weight."""
    return f"c{rank % N_COLORS}" + (" dashed" if rank // N_COLORS % 2 else "")


def draw(width: int, height: int, alt: str, parts: Iterable[Any], id_: str | None = None) -> Markup:
    """An SVG image with its text alternative; it scrolls inside its frame where it is too wide."""
    image = tag(
        "svg",
        tag("title", alt),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=alt,
        id=id_,
    )
    look = "scroll broad" if width > BROAD else "scroll"
    return tag("div", image, class_=look, tabindex="0", role="region", aria_label=alt[:80])


def axis_below(scale: Scale, y: float, title: str = "", whole: bool = False) -> Markup:
    """Ticks and a title under a figure."""
    places = [t for t in scale.ticks() if not whole or float(t).is_integer()]
    parts = [tag("line", x1=scale.begin, x2=scale.end, y1=y, y2=y, class_="axis")]
    for value in places:
        x = scale(value)
        parts.append(tag("line", x1=x, x2=x, y1=y, y2=y + 4, class_="axis"))
        parts.append(tag("text", number(value), x=x, y=y + 17, text_anchor="middle"))
    middle = (scale.begin + scale.end) / 2
    if title:
        parts.append(tag("text", title, x=middle, y=y + 34, text_anchor="middle"))
    return join(parts)


def axis_left(scale: Scale, x: float, right: float, title: str = "") -> Markup:
    """Ticks with faint lines across, and a title above."""
    parts, ticks = [], scale.ticks(4)
    texts = [number(value, 6) for value in ticks]
    if len(set(texts)) < len(texts):  # large numbers that hardly differ
        texts = [f"{value:,.2f}".replace("-", "\u2212") for value in ticks]
    for value, text in zip(ticks, texts, strict=True):
        y = scale(value)
        parts.append(tag("line", x1=x, x2=right, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", text, x=x - 6, y=y + 4, text_anchor="end"))
    if title:
        parts.append(tag("text", title, x=x, y=min(scale.begin, scale.end) - 8))
    return join(parts)


def figure(
    title: str,
    image: Markup,
    note: str = "",
    numbers: Markup | None = None,
    wide: bool = False,
    *,
    kind: str = "",
) -> Markup:
    """A figure with its title, a note, and a table of its values to unfold.

    wide : as wide as the page. kind : what the style calls it
    """
    return tag(
        "figure",
        tag("figcaption", tag("h3", title)),
        image,
        tag("p", note, class_="note") if note else None,
        details("The numbers of this figure", numbers) if numbers is not None else None,
        class_=" ".join(["wide"] * wide + [kind] * bool(kind)) or None,
    )


def details(title: str, *content: Any) -> Markup:
    """Content to unfold."""
    return tag("details", tag("summary", title), *content)


def chip(k: int, rank: int, text: str, rest: str = "") -> Markup:
    """A component as a link that selects it."""
    return tag(
        "a",
        tag("span", class_=f"dot {color_of(rank)}"),
        tag("b", text),
        tag("span", f" {rest}", class_="rest") if rest else None,
        href=f"#k={k}",
        data_pick=k,
        class_="chip",
    )


def table(
    header: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    *,
    caption: str,
    keys: Sequence[Key] | None = None,
    columns: Sequence[int | None] | None = None,
    anchors: bool = False,
    id_: str | None = None,
) -> Markup:
    """A table; numbers stand to the right and sort as numbers. A long one scrolls.

    keys : the component of each line, or several. columns : the component of each column
    anchors : lines can be linked to by `#k=`
    """
    body, sides = [], [False] * len(header)
    for at, row in enumerate(rows):
        sides = [_is_number(value) for value in row]
        key = None if keys is None else keys[at]
        cells = [_cell(value, at_=j) for j, value in enumerate(row)]
        anchor = f"k={key}" if anchors and key is not None else None
        body.append(tag("tr", *cells, **_marked(key), id=anchor))
    looks = ["number" if is_right else None for is_right in sides]
    own = columns or [None] * len(header)
    heads = zip(header, looks, own, strict=True)
    head = tag(
        "tr", *[tag("th", title, scope="col", class_=look, data_k=k) for title, look, k in heads]
    )
    inner = tag(
        "table",
        tag("caption", caption),
        tag("colgroup", *[tag("col", data_k=k) for k in own]) if columns else None,
        tag("thead", head),
        tag("tbody", *body),
        class_="sortable",
        id=id_,
    )
    look = "scroll tall" if len(body) > TALL else "scroll"
    return tag("div", inner, class_=look, tabindex="0", role="region", aria_label=caption[:80])


def _marked(key: Key) -> dict[str, Any]:
    """By what a selection finds a line: its component, or several."""
    if isinstance(key, tuple):
        return {"data_ks": " ".join(map(str, key)) or None}
    return {"data_k": key}


def _is_number(value: Any) -> bool:
    """Whether a cell stands to the right: a number, or a text with the number to sort by."""
    is_plain = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return is_plain or isinstance(value, tuple)


def _cell(value: Any, at_: int) -> Markup:
    name, more = ("th", {"scope": "row"}) if at_ == 0 else ("td", {})
    if isinstance(value, tuple):  # text, and the number to sort by
        text, order = value
        return tag(name, text, data_v=_order(order), class_="number", **more)
    if _is_number(value):
        return tag(name, number(float(value)), data_v=_order(value), class_="number", **more)
    return tag(name, value, **more)


def _order(value: Any) -> str | None:
    return f"{float(value):.6g}" if math.isfinite(float(value)) else None


def path_of(xs: Array, ys: Array, across: Scale, up: Scale) -> str:
    """Points of a polyline."""
    return " ".join(f"{across(x)},{up(y)}" for x, y in zip(xs, ys, strict=True))
