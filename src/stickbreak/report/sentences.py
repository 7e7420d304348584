"""Sections of sentences and sentence pairs: rules, translations, the score of what was shown."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.structures import BagAlignment, Dependency, Tree

from .drawing import number, percent, table
from .markup import Markup, tag
from .sections import Fact, Section, facts_of, sections_of
from .subject import Subject

__all__ = ["write_lexicon", "write_rules", "write_score"]


@sections_of.register(Tree)
@sections_of.register(Dependency)
def _(structure: Any) -> tuple[Section, ...]:
    return (Section("found", write_rules), Section("fit", write_score))


@sections_of.register(BagAlignment)
def _(structure: Any) -> tuple[Section, ...]:
    return (Section("found", write_lexicon), Section("fit", write_score))


@facts_of.register(Tree)
@facts_of.register(Dependency)
@facts_of.register(BagAlignment)
def _(structure: Any, subject: Subject) -> list[Fact]:
    n = number(round(float(subject.counts.sum())))
    found = [Fact("Words", n, "of the fit, expected")]
    observed = subject.observed
    if observed is not None and np.isfinite(observed.score):
        found.append(Fact("Score", number(observed.score, 4), "nats per word shown"))
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
    inside = table(["word", "translations"], rows, caption="The commonest source words")
    return tag("figure", tag("figcaption", tag("h3", "Lexicon")), inside)


def write_score(subject: Subject) -> Markup | None:
    """The score of the data shown."""
    observed = subject.observed
    if observed is None or not np.isfinite(observed.score):
        return None
    return tag(
        "p",
        f"Mean log probability of a word of the data shown: {number(observed.score, 5)} nats "
        f"(perplexity {number(float(np.exp(-observed.score)), 4)}).",
    )
