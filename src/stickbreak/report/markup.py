"""HTML and SVG from Python values: the one place that writes angle brackets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from typing import Any

__all__ = ["Markup", "clean", "data_block", "join", "raw_block", "tag"]

VOID = frozenset({"br", "circle", "col", "hr", "input", "line", "meta", "path", "polyline", "rect"})
NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*\Z")
# What no page may hold, or what changes how the text beside it is read: control characters,
# surrogates, non-characters, and marks that turn the direction of writing.
UNWRITABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef]"
    + "|["
    + "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
    + "]"
)
GEOMETRY = ("points", "d")
MOST_LETTERS = 2000  # of one text; a longer one is cut


class Markup(str):
    """Text that is HTML already. All other text is escaped."""

    __slots__ = ()


def clean(text: str) -> str:
    """The text with control characters replaced by U+FFFD."""
    return UNWRITABLE.sub("\ufffd", text)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "\u2026"


def _child(value: Any) -> str:
    if isinstance(value, Markup):
        return str(value)
    return "" if value is None else escape(clean(_cut(str(value))))


def join(parts: Iterable[Any]) -> Markup:
    """Parts one after another, each escaped unless it is markup."""
    return Markup("".join(_child(part) for part in parts))


def _attribute(name: str, value: Any) -> str:
    name = name.rstrip("_").replace("_", "-")
    if not NAME.match(name) or name.lower().startswith("on") or name in ("style", "src"):
        raise ValueError(f"a page may not hold an attribute {name!r}")
    whole = str(value) if name in GEOMETRY else _cut(str(value))  # half a path is none
    text = name if value is True else clean(whole)
    if name == "href" and not text.startswith("#"):
        raise ValueError(f"a page may only link to itself; got href={text!r}")
    return f' {name}="{escape(text)}"'


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element. Children that are not `Markup` are escaped; None is left out.

    attributes : `class_` is class, `data_k` is data-k; None and False are left out, True is the
        name itself. Handlers, `style`, `src` and links to elsewhere are refused.
    """
    if not NAME.match(name):
        raise ValueError(f"{name!r} is no name of an element")
    inside = "".join(
        _attribute(key, value)
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in VOID and not children:
        return Markup(f"<{name}{inside}/>")
    return Markup(f"<{name}{inside}>{join(children)}</{name}>")


def raw_block(name: str, text: str) -> Markup:
    """Our own script or style, unchanged; neither may hold what would have to be escaped."""
    if "<" in text or "&" in text:
        raise ValueError(f"a {name} of a page may not hold < or &")
    return Markup(f"<{name}>{text}</{name}>")


def data_block(name: str, values: Any) -> Markup:
    """Values as JSON that no parser can take for markup or script."""
    text = json.dumps(values, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(f'<script type="application/json" id="{name}">{text}</script>')
