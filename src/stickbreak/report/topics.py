"""Sections of topics: map, words by relevance, documents, coherence, topics that go together."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.protocols import Array
from stickbreak.structures import Document

from .drawing import color_of, draw, figure, number, percent, plural, shortened, table
from .markup import Markup, clean, tag
from .sections import Fact, Section, data_of, facts_of, sections_of
from .subject import Subject
from .tables import write_groups

__all__ = ["word_data", "write_coherence", "write_documents", "write_map", "write_slider"]

SIZE, MOST_ON_MAP, N_WORDS, START, MOST_USES = 480, 100, 12, 0.6, 5
STEPS = np.linspace(0, 1, 21)  # of the slider: words are exact at each


@sections_of.register(Document)
def _(structure: Any) -> tuple[Section, ...]:
    return (
        Section("found", write_slider),
        Section("found", write_map),
        Section("found", write_documents),
        Section("found", write_groups),
        Section("sure", write_pairs),
        Section("fit", write_coherence),
    )


@facts_of.register(Document)
def _(structure: Any, subject: Subject) -> list[Fact]:
    observed, words = subject.observed, len(subject.columns)
    vocabulary = Fact("Vocabulary", number(words), "words")
    if observed is None:
        n = number(round(float(subject.counts.sum())))
        return [Fact("Words", n, "of the fit, expected"), vocabulary]
    about = f"{observed.n_rows:,} words"
    known = np.zeros(0) if observed.coherence is None else observed.coherence
    known = known[np.isfinite(known)]
    coherence = number(float(known.mean()), 2) if len(known) else "\u2013"
    return [
        Fact("Documents", number(observed.n_units), about),
        vocabulary,
        Fact("Coherence", coherence, "mean NPMI, 8 words"),
    ]


@data_of.register(Document)
def _(structure: Any, subject: Subject) -> dict[str, Any]:
    return {"words": word_data(subject)}


def word_data(subject: Subject) -> dict[str, Any] | None:
    """Words that are among the most relevant at some step of the slider."""
    probability, overall = subject.more.get("topic_word"), subject.more.get("overall")
    if probability is None or overall is None:
        return None
    most = min(N_WORDS, probability.shape[1])
    used: dict[int, int] = {}
    topics = {}
    for k in map(int, subject.shown):
        log_p = np.log(np.maximum(probability[k], 1e-300))
        lift = log_p - overall
        found: set[int] = set()
        for r in STEPS:
            rank = r * log_p + (1 - r) * lift
            found.update(np.argpartition(-rank, most - 1)[:most].tolist())
        for v in sorted(found):
            used.setdefault(int(v), len(used))
        topics[str(k)] = [[used[v], round(float(log_p[v]), 7)] for v in sorted(found)]
    return {
        "names": [clean(str(subject.columns[v]))[:60] for v in used],
        "overall": [round(float(overall[v]), 7) for v in used],
        "topics": topics,
        "used": [_used(probability[:, v], subject) for v in used],
        "most": N_WORDS,
        "start": START,
        "step": round(float(STEPS[1]), 6),
    }


def _used(probability: Array, subject: Subject) -> list[list[int]]:
    """(topic, percent): where a word is used, the topics with most of it."""
    amount = probability * subject.weights
    share = amount / max(float(amount.sum()), 1e-300)
    order = np.argsort(-share, kind="stable")[:MOST_USES]
    return [[int(k), round(100 * float(share[k]))] for k in order if share[k] >= 0.02]


def write_slider(subject: Subject) -> Markup:
    """Where the script puts the slider, and the field to find a word."""
    field = tag("label", "find a word ", tag("input", type="search"))
    told = tag("output", "")
    note = "Words are ordered by relevance: 1 the most probable, 0 the most peculiar to the topic; "
    return tag(
        "div",
        tag("p", f"{note}here {START}.", class_="note"),
        tag("div", id="relevance", hidden=True),
        tag("div", field, told, data_find="components", hidden=True),
        class_="wide",
    )


def write_map(subject: Subject) -> Markup | None:
    """Topics in the plane: near ones use like words."""
    topics = subject.more.get("topic_word")
    ks = [int(k) for k in subject.shown[:MOST_ON_MAP]]
    if topics is None or len(ks) < 3:
        return None
    places = plane(topics[ks])
    low, high = places.min(0), places.max(0)
    xy = 40 + (places - low) / np.maximum(high - low, 1e-12) * (SIZE - 110)
    largest = float(subject.weights[ks].max())
    parts: list[Markup] = []
    taken: list[tuple[float, float, float]] = []
    for at, k in enumerate(ks):
        radius = 6 + 22 * float(np.sqrt(subject.weights[k] / largest))
        look = color_of(subject.ranks[k])
        word = subject.names.get(k) or subject.more["apart"][k].split(", ")[0]
        x, y = (round(float(v), 1) for v in xy[at])
        inner = [
            tag("circle", cx=x, cy=y, r=round(radius, 1), class_="bar", fill_opacity="0.2"),
            tag("circle", cx=x, cy=y, r=round(radius, 1), class_="outline"),
            *(_label(f"{k} {shortened(word, 14)}", str(k), x, y, taken)
              or [tag("title", f"topic {k}")]),
        ]  # fmt: skip
        parts.append(tag("g", *inner, class_=look, data_k=k))
    near = _nearest(topics, ks)
    alt = f"Map of {len(ks)} topics; {near[0]} and {near[1]} are the most alike."
    note = "Near topics use like words (Jensen-Shannon distances in two dimensions, which distort "
    note += "them); areas are shares of all words."
    places = xy.round(0).astype(int).tolist()
    rows = [
        [subject.name(k), (percent(float(subject.weights[k])), float(subject.weights[k])), *at]
        for k, at in zip(ks, places, strict=True)
    ]
    header = ["topic", "share", "across", "down"]
    numbers = table(header, rows, caption="Places of the topics in the map, in pixels", keys=ks)
    return figure("Map", draw(SIZE, SIZE - 30, alt, parts), note, numbers)


def _label(
    text: str, short: str, x: float, y: float, taken: list[tuple[float, float, float]]
) -> list[Markup]:
    """Number and word where there is room among the labels before, else the number, else nothing;
    larger topics come first, and the table has all.
    """
    for found in (text, short):
        half = 4.3 * len(found)
        x = min(max(x, half), SIZE - half)  # inside of the figure
        if all(abs(y - b) > 13 or abs(x - a) > half + h for a, b, h in taken):
            taken.append((x, y, half))
            label = tag("text", found, x=x, y=y + 4, text_anchor="middle", class_="halo")
            return [label]
    return []


def plane(topics: Array) -> Array:
    """(K, 2) places by classical scaling of Jensen-Shannon distances."""
    distance = divergences(topics)
    n = len(distance)
    center = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * center @ distance @ center)
    places = vectors[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 0.0))
    sign = np.where(places[np.abs(places).argmax(0), [0, 1]] < 0, -1.0, 1.0)
    return np.asarray((places * sign).round(6))


def divergences(topics: Array) -> Array:
    """(K, K) Jensen-Shannon divergences in nats."""
    topics = np.maximum(topics, 1e-300)
    own = (topics * np.log(topics)).sum(1)
    found = np.zeros((len(topics), len(topics)))
    for i in range(len(topics)):
        middle = 0.5 * (topics[i] + topics[i + 1 :])
        mixed = (middle * np.log(middle)).sum(1)
        found[i, i + 1 :] = np.maximum(0.5 * (own[i] + own[i + 1 :]) - mixed, 0.0)
    return found + found.T


def _nearest(topics: Array, ks: list[int]) -> tuple[int, int]:
    distance = divergences(topics[ks]) + np.diag(np.full(len(ks), np.inf))
    i, j = np.unravel_index(int(distance.argmin()), distance.shape)
    return ks[int(i)], ks[int(j)]


def write_documents(subject: Subject) -> Markup | None:
    """Documents in which a topic has its largest shares."""
    documents, texts = subject.more.get("documents"), subject.more.get("texts", {})
    if not documents:
        return None
    rows, keys = [], []
    for k in map(int, subject.shown):
        for d, share in documents.get(k, ())[:3]:
            row = [subject.name(k), d, (percent(share), share)]
            rows.append([*row, texts[d]] if texts else row)
            keys.append(k)
    header = ["topic", "document", "share", *["its commonest words"] * bool(texts)]
    inside = table(header, rows, caption="Three documents of each topic", keys=keys)
    return tag("figure", tag("figcaption", tag("h3", "Documents of each topic")), inside)


def write_pairs(subject: Subject) -> Markup | None:
    """How many topics a document has, and which go together."""
    observed, correlation = subject.observed, subject.more.get("correlation")
    if observed is None:
        return None
    n = observed.n_topics_of_document
    told = f"A document has {number(n, 2)} {plural('topic', n)} with more than 5 % on average."
    if correlation is None:
        return tag("p", told)
    ks = [int(k) for k in subject.shown]
    pairs = [(float(correlation[i, j]), i, j) for at, i in enumerate(ks) for j in ks[at + 1 :]]
    pairs = sorted((p for p in pairs if np.isfinite(p[0])), key=lambda p: (-p[0], p[1], p[2]))
    rows = [
        [f"{subject.name(i)} and {subject.name(j)}", (f"{c:+.2f}".replace("-", "\u2212"), c)]
        for c, i, j in pairs[:10]
    ]
    keys = [(i, j) for _, i, j in pairs[:10]]
    header = ["pair", "correlation of shares"]
    inside = table(header, rows, caption="Topics that go together", keys=keys)
    return tag(
        "figure", tag("figcaption", tag("h3", "Topics in documents")), tag("p", told), inside
    )


def write_coherence(subject: Subject) -> Markup | None:
    """Coherence of each topic in the documents shown."""
    observed = subject.observed
    if observed is None or observed.coherence is None:
        return None
    keys = [k for k in map(int, subject.shown) if np.isfinite(observed.coherence[k])]
    keys.sort(key=lambda k: float(observed.coherence[k]))  # type: ignore[index]
    rows = [
        [subject.name(k), (f"{observed.coherence[k]:.2f}".replace("-", "\u2212"),
                           float(observed.coherence[k])), subject.more["apart"][k]]
        for k in keys
    ]  # fmt: skip
    header = ["topic", "coherence", "words"]
    caption = "Coherence (NPMI of the 8 most probable words in these documents), the lowest first"
    inside = table(header, rows, caption=caption, keys=keys)
    return tag("figure", tag("figcaption", tag("h3", "Coherence")), inside, class_="wide")
