"""The chapters of a page, and the registers by which structures add sections to them."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from .drawing import (
    chip,
    color_of,
    details,
    draw,
    figure,
    number,
    percent,
    plural,
    shortened,
    table,
)
from .markup import Markup, join, tag
from .profiles import Profile, profile_of
from .subject import Subject

__all__ = [
    "CHAPTERS", "Fact", "Section", "data_of", "facts", "facts_of", "lead", "picks", "sections_of",
    "write_findings", "write_next", "write_profiles", "write_settings", "write_table",
]  # fmt: skip

CHAPTERS = {
    "found": "What was found",
    "sure": "How sure it is",
    "wrong": "What looks wrong",
    "fit": "Does it fit",
    "how": "How it was found",
    "next": "What to do next",
    "settings": "Settings",
}
MOST_RANKED = 60
N_FACTS = 6  # at the top
MOST_ASPECTS = 10  # columns of the table of profiles
MOST_PROFILES = 38  # its lines: no higher than a sheet of paper


class Section(NamedTuple):
    """A part of a chapter; `write` gives None where it has nothing to show."""

    chapter: str
    write: Callable[[Subject], Markup | None]


class Fact(NamedTuple):
    """A number at the top of the page."""

    title: str
    value: str
    about: str


@singledispatch
def sections_of(structure: Any) -> tuple[Section, ...]:
    """Sections beside those that every page has; a structure registers its own."""
    return ()


@singledispatch
def data_of(structure: Any, subject: Subject) -> dict[str, Any]:
    """Values by name for the page's script, as JSON."""
    return {}


@singledispatch
def facts_of(structure: Any, subject: Subject) -> list[Fact]:
    """Up to three facts of the structure's own, among the six at the top."""
    observed = subject.observed
    if observed is None:
        n = float(subject.counts.sum())
        return [Fact(f"{subject.unit}s".capitalize(), number(round(n)), "of the fit, expected")]
    columns = f"{len(subject.columns):,} {plural('column', len(subject.columns))}"
    found = [Fact(f"{subject.unit}s".capitalize(), number(observed.n_rows), columns)]
    if np.isfinite(observed.mean_certainty):
        about = "mean largest probability"
        found.append(Fact("Certainty", f"{observed.mean_certainty:.2f}", about))
    return found


def facts(subject: Subject) -> Markup:
    """The six facts at the top: of the components, the structure's own, the fit, the checks."""
    n, total = len(subject.used), float(subject.counts.sum())
    first = [Fact(subject.several.capitalize(), f"{n:,}", f"that hold {subject.unit}s")]
    first += facts_of(subject.structure, subject)[:3]
    last = _of_the_fit(subject, total)
    found = [*first, *_sizes(subject)[: N_FACTS - len(first) - len(last)], *last]
    return tag(
        "dl",
        *[
            tag(
                "div",
                tag("dt", f.title),
                tag("dd", f.value, class_="value"),
                tag("dd", f.about, class_="about"),
            )
            for f in found
        ],
        class_="facts",
    )


def _sizes(subject: Subject) -> list[Fact]:
    """What can be said of all weights, to fill what facts of the structure leave."""
    weights = subject.weights[subject.weights > 0]
    largest = int(subject.used[0])
    alike = float(np.exp(-(weights * np.log(weights)).sum()))
    empty = len(subject.weights) - len(subject.used)
    name = shortened(subject.name(largest), 24)
    return [
        Fact("Largest", percent(float(subject.weights[largest])), f"{subject.noun} {name}"),
        Fact("Evenness", number(alike), f"{subject.several} of equal size have this entropy"),
        Fact("Empty", f"{empty:,}", f"{plural(subject.noun, empty, subject.several)} without "
             f"{subject.unit}s"),
    ]  # fmt: skip


def _of_the_fit(subject: Subject, total: float) -> list[Fact]:
    """How far the fit came, and how many checks are fine."""
    found = []
    laps, end = len(subject.trace), "settled" if subject.is_converged else "not settled"
    if np.isfinite(subject.bound) and total > 0:
        per = f"{subject.bound / total:.3f}".replace("-", "\u2212")
        told = f"nats; {end}, {laps:,} {plural('lap', laps)}" if laps else "nats; by partial_fit"
        found.append(Fact(f"{subject.objective.capitalize()} per {subject.unit}", per, told))
    else:
        found.append(Fact("Laps", f"{laps:,}", end if laps else "updated by partial_fit"))
    fine, made = _tally(subject)
    if made:
        found.append(Fact("Checks", f"{fine} / {made}", "fine"))
    return found


def _tally(subject: Subject) -> tuple[int, int]:
    levels = [f.level for f in subject.findings if f.level != "remark"]
    return levels.count("fine"), len(levels)


def lead(subject: Subject) -> Markup:
    """The paragraph that says what was found."""
    n = len(subject.used)
    largest, smallest = subject.used[0], subject.used[-1]
    share = subject.weights
    text = f"{n:,} {plural(subject.noun, n, subject.several)} in "
    text += f"{number(round(float(subject.counts.sum())))} {subject.unit}s. "
    text += f"The largest is {subject.noun} {subject.name(int(largest))} with "
    text += f"{percent(float(share[largest]))}"
    text += f", the smallest {percent(float(share[smallest]))}. " if n > 1 else ". "
    observed = subject.observed
    if observed is not None and np.isfinite(observed.sure):
        text += f"{percent(observed.sure)} of the {subject.unit}s belong to one {subject.noun} "
        text += "with more than 95 % probability. "
    fine, made = _tally(subject)
    if made:
        text += _asks(made - fine, made)
    return tag("p", text, class_="lead")


def _asks(n: int, made: int) -> str:
    """How many of the checks ask for a look."""
    if made == 1:
        return "The one check that was made " + ("asks for a look." if n else "is fine.")
    return f"{n or 'None'} of {made} checks {'asks' if n <= 1 else 'ask'} for a look."


def picks(subject: Subject) -> Markup:
    """The bar by which a component is selected."""
    words = subject.more.get("apart", {})
    rest = {k: text.split(", ")[0][:20] for k, text in words.items() if k not in subject.names}
    chips = [
        chip(k, rank, subject.name(k), rest.get(k) or percent(float(subject.weights[k])))
        for rank, k in enumerate(map(int, subject.shown))
    ]
    every = tag("a", "all", href="#", data_pick="all", class_="chip", aria_current="true")
    inside = tag("div", tag("b", f"{subject.noun.capitalize()}:"), every, *chips)
    return tag("nav", inside, class_="picks", aria_label=f"Select a {subject.noun}")


def write_table(subject: Subject) -> Markup:
    """All components: weight, rows, what sets them apart."""
    profile = profile_of(subject.family, subject)
    apart = subject.more.get("apart", {})
    observed = subject.observed
    widest = float(subject.weights[subject.shown].max()) or 1.0
    rows = []
    has_words = bool(apart) or profile is not None
    for rank, k in enumerate(map(int, subject.shown)):
        row: list[Any] = [chip(k, rank, subject.name(k)), _bar(subject, k, rank, widest)]
        row.append((percent(float(subject.weights[k])), float(subject.weights[k])))
        row.append((number(round(float(subject.counts[k]), 1)), float(subject.counts[k])))
        words = apart.get(k) or (profile.words(k) if profile is not None else "")
        row += [tag("span", words, id=f"words-{k}")] * has_words
        if observed is not None and observed.sizes is not None:
            row.append(int(observed.sizes[k]))
            if observed.typical:
                row.append(", ".join(str(r) for r in observed.typical.get(k, ())))
        rows.append(row)
    header = [subject.noun, "size", "share", f"{subject.unit}s of the fit"]
    header += ["what sets it apart"] * has_words
    if observed is not None and observed.sizes is not None:
        header.append(f"{subject.more.get('counted', subject.unit)}s by predict")
        header += ["typical"] * bool(observed.typical)
    keys = [int(k) for k in subject.shown]
    note = subject.left_out
    return tag(
        "div",
        *[
            tag("p", f"Select a {subject.noun} above or in the table: it is then marked in all "
                "figures. Esc ends that.", class_="note"),
            table(header, rows, caption=f"All {subject.several}, the largest first", keys=keys,
                  anchors=True, id_="components"),
            tag("p", note, class_="note") if note else None,
        ],
        class_="wide",
    )  # fmt: skip


def _bar(subject: Subject, k: int, rank: int, widest: float) -> Markup:
    width = round(80.0 * float(subject.weights[k]) / widest, 1)
    bar = tag("rect", x=0, y=5, width=max(width, 1), height=10, class_=f"bar {color_of(rank)}")
    return tag(
        "svg", bar, xmlns="http://www.w3.org/2000/svg", width=80, height=20, aria_hidden="true",
        viewBox="0 0 80 20",
    )  # fmt: skip


def write_profiles(subject: Subject) -> Markup | None:
    """A table of distances from the average, the most telling aspects first."""
    profile = profile_of(subject.family, subject)
    if profile is None or not len(profile.aspects) or subject.more.get("apart"):
        return None
    order = np.argsort(-profile.telling, kind="stable")[:MOST_ASPECTS]
    ks = [int(k) for k in subject.shown[:MOST_PROFILES]]
    width, step, left = 96, 26, 70
    largest = float(np.abs(profile.values[ks][:, order]).max()) or 1.0
    parts = []
    for j, p in enumerate(order):
        x = left + width * j + width / 2
        name = shortened(profile.aspects[p], 13)
        parts.append(tag("text", name, x=x, y=16, text_anchor="middle"))
    for i, k in enumerate(ks):
        inner = [tag("text", shortened(subject.name(k), 9), x=left - 8, y=24 + step * i + 17,
                     text_anchor="end")]  # fmt: skip
        for j, p in enumerate(order):
            inner.append(_heat(profile, k, int(p), left + width * j, 24 + step * i, largest))
        parts.append(tag("g", *inner, data_k=k))
    first = profile.aspects[order[0]]
    k = max(ks, key=lambda k: abs(float(profile.values[k, order[0]])))
    phrase = profile.phrase(k, int(order[0]))
    alt = f"Profiles. {first} tells most; it sets {subject.noun} {k} apart: {phrase}."
    more = len(profile.aspects) - len(order)
    note = (
        "Distances from the mean in standard deviations, or ratios to the average: orange above, "
    )
    note += "blue below. Columns that tell components apart come first."
    note += f" {more:,} that tell less are not shown." if more > 0 else ""
    image = draw(left + width * len(order) + 4, 30 + step * len(ks), alt, parts)
    return figure(
        "Profiles", image, note, _profile_table(subject, profile, order, ks), True, kind="profiles"
    )


def _heat(profile: Profile, k: int, p: int, x: float, y: float, largest: float) -> Markup:
    value = float(profile.values[k, p])
    shade = f"{0.75 * min(abs(value) / largest, 1.0):.2f}"
    side = "warm" if value > 0 else "cold"
    box = tag("rect", x=x, y=y, width=94, height=24, class_=side, fill_opacity=shade)
    text = tag("text", profile.cell(k, p), x=x + 47, y=y + 17, text_anchor="middle", class_="halo")
    return join([box, text])


def _profile_table(subject: Subject, profile: Profile, order: Any, ks: list[int]) -> Markup:
    header = [subject.noun, *[profile.aspects[p] for p in order]]
    rows = [
        [subject.name(k), *[(profile.cell(k, int(p)), float(profile.values[k, p])) for p in order]]
        for k in ks
    ]
    ranked = [
        [profile.aspects[p], (number(float(profile.telling[p])), float(profile.telling[p]))]
        for p in np.argsort(-profile.telling, kind="stable")[:MOST_RANKED]
    ]
    return join(
        [
            table(header, rows, caption="Profiles", keys=ks),
            table(
                ["column", "how much it tells"],
                ranked,
                caption="Columns ranked: the mean square of the distances above, or the mean "
                "relative entropy of the ratios",
            ),
        ]
    )


def write_findings(subject: Subject) -> Markup:
    """What looks wrong: those that ask for a look, then the rest to unfold."""
    look = [f for f in subject.findings if f.level == "look"]
    rest = [f for f in subject.findings if f.level != "look"]
    parts: list[Any] = []
    if look:
        parts.append(tag("ul", *[_finding(f) for f in look], class_="findings"))
    else:
        parts.append(tag("p", "Nothing that was checked asks for a look."))
    if subject.observed is None:
        missing = "Checks against draws from the model need data, which this page was made without."
        parts.append(tag("p", missing, class_="note"))
    elif subject.more.get("no_draws"):
        missing = f"There are no checks against draws from the model: {subject.more['no_draws']}."
        parts.append(tag("p", missing, class_="note"))
    if rest:
        inside = tag("ul", *[_finding(f) for f in rest], class_="findings")
        title = f"{len(rest)} {plural('check', len(rest))} that found nothing to mend"
        parts.append(details(title, inside))
    return join(parts)


def _finding(finding: Any) -> Markup:
    return tag(
        "li",
        tag("p", tag("span", f"{finding.level}: ", class_="level"), finding.title),
        tag("p", finding.measured, class_="note"),
        tag("p", finding.advice) if finding.advice else None,
        tag("pre", finding.code) if finding.code else None,
        class_=finding.level,
    )


def write_next(subject: Subject) -> Markup:
    """Code to go on with."""
    code = "\n".join(subject.code)
    button = tag("button", "Copy", type="button", class_="plain", data_copy="code", hidden=True)
    return join([tag("pre", code, id="code"), button])


def write_settings(subject: Subject) -> Markup:
    """Settings, versions, digests."""
    given = [[name, value] for name, value in subject.settings.items()]
    more = [[name, value] for name, value in subject.versions.items()]
    more += [[f"SHA-256 of the {name}", value] for name, value in subject.digests.items()]
    return join(
        [
            table(["argument", "value"], given, caption="Arguments that differ from the defaults")
            if given
            else tag("p", "All arguments have their default values."),
            table(["what", "value"], more, caption="Versions and digests"),
        ]
    )
