"""Sections of sentences and sentence pairs: rules, translations, the score of what was shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from stickbreak.structures import Annotation, BagAlignment, Dependency, SlotTemplates, Tree

from .drawing import color_of, details, draw, figure, number, percent, shortened, table
from .markup import Markup, join, tag
from .sections import Fact, Section, facts_of, sections_of
from .subject import Subject

__all__ = ["write_lexicon", "write_pairs", "write_rules", "write_score", "write_trees"]


@sections_of.register(Tree)
@sections_of.register(Annotation)
@sections_of.register(Dependency)
@sections_of.register(SlotTemplates)
def _(structure: Any) -> tuple[Section, ...]:
    return (
        Section("found", write_rules),
        Section("sure", write_trees),
        Section("fit", write_score),
    )


@sections_of.register(BagAlignment)
def _(structure: Any) -> tuple[Section, ...]:
    return (
        Section("found", write_lexicon),
        Section("sure", write_pairs),
        Section("fit", write_score),
    )


@facts_of.register(Tree)
@facts_of.register(Annotation)
@facts_of.register(Dependency)
@facts_of.register(SlotTemplates)
@facts_of.register(BagAlignment)
def _(structure: Any, subject: Subject) -> list[Fact]:
    n = number(round(float(subject.counts.sum())))
    found = [Fact(f"{subject.unit}s".capitalize(), n, "of the fit, expected")]
    observed = subject.observed
    if observed is not None and np.isfinite(observed.score):
        found.append(Fact("Score", number(observed.score, 4), f"nats per {subject.unit} shown"))
    return found


def write_rules(subject: Subject) -> Markup | None:
    """The rules most often used."""
    rules = subject.more.get("rules")
    if not rules:
        return None
    header = [name.replace("_", " ") for name in rules[0]]
    rows = [[_plain(value) for value in rule.values()] for rule in rules]
    inside = table(header, rows, caption="The rules most often expected in the training sentences")
    return tag("figure", tag("figcaption", tag("h3", "Rules")), inside)


def _called(subject: Subject, names: Iterable[Any]) -> list[int | None]:
    """Components by their names, which are words or tags; None for others."""
    found = {subject.names[k]: k for k in reversed(subject.ranks) if k in subject.names}
    return [found.get(str(name)) for name in names]


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, float | np.floating) else str(value)


def write_lexicon(subject: Subject) -> Markup | None:
    """The most probable translations of the commonest words."""
    lexicon = subject.more.get("lexicon")
    if not lexicon:
        return None
    rows = [
        [word, ", ".join(f"{other} ({percent(p)})" for other, p in found)]
        for word, found in lexicon
    ]
    inside = table(
        ["word", "translations"],
        rows,
        caption="The commonest source words",
        keys=_called(subject, [word for word, _ in lexicon]),
        id_="lexicon",
    )
    field = tag("label", "find a word ", tag("input", type="search"))
    find = tag("div", field, tag("output", ""), data_find="lexicon", hidden=True)
    return tag("figure", tag("figcaption", tag("h3", "Lexicon")), find, inside)


def write_trees(subject: Subject) -> Markup | None:
    """Best trees of some sentences, with the posterior of each bracket, head or cut."""
    trees = subject.more.get("trees")
    if not trees:
        return None
    return join(_draw_tree(subject, tree) for tree in trees)


def _draw_tree(subject: Subject, tree: Any) -> Markup:
    """The best tree, and below it others that were drawn from the posterior."""
    title = f"Sentence {tree['number']}"
    best = _figure(subject, tree, title)
    if "n_drawn" not in tree:
        missing = f"Nothing was drawn from the posterior of {title.lower()}: the best is shown."
        return tag("div", best, tag("p", missing, class_="note"))
    n, times, others = tree["n_drawn"], tree["times"], tree["others"]
    what = "segmentation" if "segments" in tree else "tree"
    told = f"Of {n} {what}s drawn from the posterior, {times} "
    told += f"{'is' if times == 1 else 'are'} the best {what} of {title.lower()}."
    figures = [
        _figure(
            subject, {**tree, **other}, f"{title}, other {i}, drawn {other['times']} of {n} times"
        )
        for i, other in enumerate(others, 1)
    ]
    more = details(f"Others that were drawn: {len(figures)}", *figures) if figures else None
    return tag("div", best, tag("p", told, class_="note"), more)


def _figure(subject: Subject, tree: Any, title: str) -> Markup:
    if "spans" in tree:
        return _brackets(subject, tree, title)
    if "heads" in tree:
        return _heads(subject, tree, title)
    return _cuts(tree, title)


def _heads(subject: Subject, tree: Any, title: str) -> Markup:
    words = tree["words"]
    rows = [
        [i + 1, word, "root" if head == 0 else f"{head} {words[head - 1]}", (percent(p), p)]
        for i, (word, head, p) in enumerate(zip(words, tree["heads"], tree["sure"], strict=True))
    ]
    keys, header = _called(subject, words), ["place", "word", "head", "posterior"]
    inside = table(header, rows, caption=f"{title}: heads of the words", keys=keys)
    least = min(range(len(words)), key=lambda i: tree["sure"][i])
    told = f"Least sure is the head of {words[least]}, with {percent(tree['sure'][least])}."
    return figure(title, _arcs(tree, title, keys), told, inside)


def _cuts(tree: Any, title: str) -> Markup:
    """Letters with the probability that a segment begins at each; lines where it does."""
    letters, sure, step, top = tree["words"], tree["sure"], 26, 70
    width = step * len(letters) + 16
    parts = [tag("line", x1=0, x2=width, y1=top, y2=top, class_="axis")]
    for i, (letter, p) in enumerate(zip(letters, sure, strict=True)):
        x, height = 8 + step * i, round((top - 14) * float(p), 1)
        parts.append(tag("rect", x=x - 5, y=round(top - height, 1), width=10, height=height,
                         class_="bar c0"))  # fmt: skip
        if i in tree["begins"]:
            parts.append(tag("line", x1=x, x2=x, y1=top, y2=top + 26, class_="curve"))
        parts.append(tag("text", letter, x=x + step / 2, y=top + 19, text_anchor="middle"))
    # the first letter always begins a segment
    doubt = max(range(1, len(letters)), key=lambda i: 0.5 - abs(sure[i] - 0.5), default=0)
    alt = f"{title}: {' | '.join(tree['segments'])}. Least sure is whether a segment begins at "
    alt += f"letter {doubt + 1}, {letters[doubt]}: {percent(sure[doubt])}."
    rows = [
        [i + 1, w, "begins" if i in tree["begins"] else "", (percent(p), p)]
        for i, (w, p) in enumerate(zip(letters, sure, strict=True))
    ]
    header = ["place", "letter", "a segment", "posterior of a beginning"]
    inside = table(header, rows, caption=f"{title}: posteriors of beginnings")
    return figure(title, draw(width, top + 32, alt, parts), alt, inside)


def _arcs(tree: Any, title: str, keys: list[int | None]) -> Markup:
    """Arcs from heads to words; the less sure, the fainter."""
    words, step = tree["words"], 76
    widest = max([abs(h - 1 - i) for i, h in enumerate(tree["heads"]) if h] or [1])
    base = 40 + 24 * widest
    parts = []
    for i, (head, sure) in enumerate(zip(tree["heads"], tree["sure"], strict=True)):
        x = step * i + step / 2
        shade = f"{max(float(sure), 0.15):.2f}"
        if head == 0:
            parts.append(
                tag("path", d=f"M{x} 18V{base - 16}", class_="curve", stroke_opacity=shade)
            )
            parts.append(tag("text", "root", x=x, y=14, text_anchor="middle"))
        else:
            start = step * (head - 1) + step / 2 + (8 if head - 1 < i else -8)
            top = base - 16 - 32 * abs(head - 1 - i)
            line = f"M{start} {base - 16}C{start} {top} {x} {top} {x} {base - 16}"
            parts.append(tag("path", d=line, class_="curve", stroke_opacity=shade))
        dot = tag("circle", cx=x, cy=base - 16, r="3", class_="unsure")
        word = tag("text", shortened(words[i], 10), x=x, y=base, text_anchor="middle")
        parts.append(tag("g", dot, word, data_k=keys[i]))
    mean = float(np.mean(tree["sure"]))
    alt = f"{title}: heads of {len(words)} words; their mean posterior is {percent(mean)}."
    return draw(step * len(words), base + 12, alt, parts)


def _brackets(subject: Subject, tree: Any, title: str) -> Markup:
    """Brackets as bars over their words; the less sure, the fainter."""
    words, spans, step = tree["words"], tree["spans"], 76
    highest = max(level for *_, level in spans)
    base = 30 + 26 * (highest + 1)
    parts = [
        tag("text", shortened(w, 10), x=step * i + step / 2, y=base, text_anchor="middle")
        for i, w in enumerate(words)
    ]
    for begin, end, label, sure, level in spans:
        x, y = step * begin + 3, base - 40 - 26 * level
        k = int(label) if label.isdigit() else None
        rank = subject.ranks.get(k, 6) if k is not None else 6
        shade = f"{0.15 + 0.6 * sure:.2f}" if np.isfinite(sure) else "0.3"
        box = tag("rect", x=x, y=y, width=step * (end - begin) - 6, height=22, fill_opacity=shade,
                  class_=f"bar {color_of(rank)}")  # fmt: skip
        more = f": {percent(sure)}" if np.isfinite(sure) else ""
        text = tag("text", f"{shortened(label, 6)}{more}", x=x + step * (end - begin) / 2 - 3,
                   y=y + 16, text_anchor="middle", class_="halo")  # fmt: skip
        parts.append(tag("g", box, text, data_k=k if k in subject.ranks else None))
    known = [s for s in spans if np.isfinite(s[3]) and s[1] - s[0] > 1]
    alt = f"{title}: the tree has {len(spans)} brackets."
    if known:
        least = min(known, key=lambda s: s[3])
        alt += f" Least sure is {' '.join(words[least[0] : least[1]])}, with {percent(least[3])}."
    rows = [[" ".join(words[b:e]), label, (percent(p), p)] for b, e, label, p, _ in reversed(spans)]
    inside = table(["words", "label", "posterior"], rows, caption=f"{title}: brackets")
    return figure(title, draw(step * len(words), base + 12, alt, parts), alt, inside)


def write_pairs(subject: Subject) -> Markup | None:
    """Posteriors of the links of some sentence pairs."""
    pairs = subject.more.get("pairs")
    if not pairs:
        return None
    return join(_grid(subject, pair) for pair in pairs)


def _grid(subject: Subject, pair: Any) -> Markup:
    source, target = ["(none)", *pair["source"]], pair["target"]
    no_word = 0 if 0 in subject.ranks else None
    keys = [no_word, *_called(subject, pair["source"])]
    posterior, step, left = pair["posterior"], 30, 110
    parts = []
    for i, word in enumerate(source):
        y = 20 + step * i
        name = tag("text", shortened(word, 14), x=left - 6, y=y + 20, text_anchor="end")
        parts.append(tag("g", name, data_k=keys[i]))
    for j in range(len(target)):
        x = left + step * j
        parts.append(tag("text", str(j + 1), x=x + step / 2, y=14, text_anchor="middle"))
        for i in range(len(source)):
            p = float(posterior[j, i])
            parts.append(tag("rect", x=x + 1, y=21 + step * i, width=step - 2, height=step - 2,
                             class_="ghost", fill_opacity="0.35"))  # fmt: skip
            if p >= 0.01:
                parts.append(tag("rect", x=x + 1, y=21 + step * i, width=step - 2,
                                 height=step - 2, class_="bar c0",
                                 fill_opacity=f"{p:.2f}"))  # fmt: skip
            if p >= 0.1:
                parts.append(tag("text", f"{100 * p:.0f}", x=x + step / 2, y=40 + step * i,
                                 text_anchor="middle", class_="halo"))  # fmt: skip
    best = posterior.argmax(1)
    rows = [
        [j + 1, word, source[int(best[j])], (percent(float(posterior[j].max())),
                                            float(posterior[j].max()))]
        for j, word in enumerate(target)
    ]  # fmt: skip
    least = int(posterior.max(1).argmin())
    alt = f"Pair {pair['number']}: least sure is {target[least]}, linked to "
    alt += f"{source[int(best[least])]} with {percent(float(posterior[least].max()))}."
    header = ["place", "target word", "linked to", "posterior"]
    linked = [keys[int(i)] for i in best]
    caption = f"Pair {pair['number']}: the best link of each target word"
    inside = table(header, rows, caption=caption, keys=linked)
    image = draw(left + step * len(target) + 4, 26 + step * len(source), alt, parts)
    note = f"{alt} Columns are target words: {' '.join(target)}. Numbers are percent."
    return figure(f"Pair {pair['number']}", image, note, inside)


def write_score(subject: Subject) -> Markup | None:
    """The score of the data shown."""
    observed = subject.observed
    if observed is None or not np.isfinite(observed.score):
        return None
    perplexity = number(float(np.exp(-observed.score)), 4)
    told = f"Mean log probability of a {subject.unit} of the data shown: "
    return tag("p", f"{told}{number(observed.score, 5)} nats (perplexity {perplexity}).")
