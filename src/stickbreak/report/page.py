"""One HTML file that needs nothing else: frame, policy, data block."""

from __future__ import annotations

import base64
import hashlib
import tempfile
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from stickbreak.errors import in_one_line
from stickbreak.targets import check_target, replacing

from .drawing import plural
from .history import write_history
from .markup import Markup, clean, data_block, join, raw_block, tag
from .sections import (
    CHAPTERS,
    Section,
    data_of,
    facts,
    lead,
    picks,
    sections_of,
    write_findings,
    write_next,
    write_profiles,
    write_settings,
    write_table,
)
from .subject import Subject

__all__ = ["Report", "frame", "write_page"]

OF_ALL = (
    Section("found", write_table),
    Section("found", write_profiles),
    Section("wrong", write_findings),
    Section("how", write_history),
    Section("next", write_next),
    Section("settings", write_settings),
)


@dataclass(frozen=True)
class Report:
    """A page about a fitted model. `html` is the whole file; a notebook shows it in a frame."""

    html: str

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the page to a file, completely or not at all; returns its path.

        force : replace a file that exists, which is refused otherwise.
        """
        target = check_target(path)
        if target.exists() and not force:
            raise ValueError(f"{path} exists; give another name, or force=True to replace it")
        try:
            with replacing(path) as file:
                file.write(self.html.encode())
        except OSError as error:  # its own words name a temporary file
            told = f"{path} cannot be written: {error.strerror or in_one_line(error)}. "
            told += "Nothing is left of it; give a folder that has room and that you may write to"
            raise OSError(error.errno, told) from error
        return Path(path)

    def show(self) -> Path:
        """Open the page in the browser of this computer, from a temporary file."""
        with tempfile.NamedTemporaryFile("wb", suffix=".html", delete=False) as file:
            file.write(self.html.encode())
        webbrowser.open(Path(file.name).as_uri())
        return Path(file.name)

    def _repr_html_(self) -> str:
        inside = escape(self.html)
        return (
            f'<iframe sandbox="allow-scripts" width="100%" height="720" frameborder="0" '
            f'title="stickbreak report" srcdoc="{inside}"></iframe>'
        )


def write_page(subject: Subject) -> Report:
    """The page of a fitted model."""
    chapters: dict[str, list[Markup]] = {name: [] for name in CHAPTERS}
    own = sections_of(subject.structure)
    for section in (OF_ALL[0], *own, *OF_ALL[1:]):
        written = section.write(subject)
        if written is not None:
            chapters[section.chapter].append(written)
    missing = _missing(subject)
    body = [
        tag(
            "div", lead(subject), facts(subject), _unknown(subject), _holds(subject), class_="intro"
        ),
        picks(subject),
        tag("p", "", id="said", class_="hush", role="status", data_noun=subject.noun),
    ]
    for name, title in CHAPTERS.items():
        parts = chapters[name] or [tag("p", missing, class_="note")]
        is_grid = name in ("found", "sure", "fit")
        grid = tag("div", *parts, class_="grid-of-figures") if is_grid else join(parts)
        body.append(tag("section", tag("h2", title), grid, id=f"chapter-{name}"))
    values = {"page": _values(subject), **data_of(subject.structure, subject)}
    return frame(subject.title or subject.about, subject.about, join(body), values)


def _missing(subject: Subject) -> str:
    if subject.observed is None:
        return "This needs data: give the report X, or the command a data file."
    return f"There is no section on this for {subject.about} yet."


def _holds(subject: Subject) -> Markup:
    """What the file holds of the data."""
    observed = subject.observed
    if observed is None:
        text = "the model alone, with the names of its columns; it was made without data."
    elif subject.keeps == "none":
        text = "sums and averages of the data, names of columns and their categories; no row and "
        text += "no text."
    else:
        text = subject.more.get("holds") or "sums and averages of the data, and names of columns."
    return tag("p", tag("b", "What this file holds: "), text, " No path, no date.", class_="holds")


def _unknown(subject: Subject) -> Markup | None:
    """How many words of the data the model does not know, and what becomes of them."""
    observed = subject.observed
    if observed is None or not observed.n_unknown:
        return None
    n, places = observed.n_unknown, observed.n_unknown_places
    told = (
        f"{n:,} {plural(subject.unit, n)} of these data, at {places:,} {plural('place', places)}, "
    )
    told += f"{'is' if n == 1 else 'are'} unknown to the model: {subject.more['unknown']}."
    return tag("p", told, class_="note")


def _values(subject: Subject) -> dict[str, Any]:
    """Numbers of the page, for programs that read it."""
    observed = subject.observed
    found: dict[str, Any] = {
        "model": clean(subject.about),
        "bound": _plain(subject.bound),
        "components": [int(k) for k in subject.shown],
        "weights": [round(float(subject.weights[k]), 6) for k in subject.shown],
        "counts": [round(float(subject.counts[k]), 3) for k in subject.shown],
    }
    if observed is not None:
        if observed.sizes is not None:
            found["sizes"] = [int(observed.sizes[k]) for k in subject.shown]
        found["unknown_words"] = observed.n_unknown
        found["certainty"] = _plain(observed.mean_certainty)
        found["score"] = _plain(observed.score)
    return found


def _plain(value: float) -> float | None:
    return float(value) if value == value and abs(value) != float("inf") else None


def frame(title: str, kind: str, body: Markup, values: Mapping[str, Any]) -> Report:
    """The file around a body: policy, style, script, data block."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        raw_block("style", style),
    )
    top = tag(
        "header",
        tag("a", "Skip to the content", href="#main", class_="skip"),
        tag("p", f"stickbreak report \u00b7 {kind}", class_="kind"),
        tag("h1", title),
        tag("button", "Dark / light", type="button", id="theme", class_="plain", hidden=True),
    )
    foot = tag("footer", "Written by stickbreak. This file needs no network and sends nothing.")
    inside = tag(
        "body",
        top,
        tag("main", body, id="main"),
        foot,
        data_block("data", values),
        raw_block("script", script),
    )
    return Report("<!DOCTYPE html>\n" + tag("html", head, inside, lang="en") + "\n")


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
