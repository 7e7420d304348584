"""Checks of topics: twins, topics that are the whole corpus, words that do not go together."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.protocols import Array
from stickbreak.structures import Document

from .checking import OF_ALL, Check, checks_of
from .drawing import number, plural
from .findings import Finding, judged
from .subject import Subject
from .topics import divergences

__all__ = ["check_coherence", "check_common", "check_twins"]

ALIKE = 0.2  # nats: pairs further apart are not tested
MOST_TESTED = 12  # the nearest pairs and topics


@checks_of.register(Document)
def _(structure: Any) -> tuple[Check, ...]:
    return (*OF_ALL, check_twins, check_common, check_coherence)


def check_twins(subject: Subject) -> Finding | None:
    """Pairs of topics that differ no more than two samples of words from one topic."""
    topics = subject.more.get("topic_word")
    used = subject.used[:60]
    if topics is None or len(used) < 2:
        return None
    distances = divergences(topics[used])
    first, second = np.triu_indices(len(used), 1)
    order = np.argsort(distances[first, second], kind="stable")[:MOST_TESTED]
    pairs = [(int(used[first[p]]), int(used[second[p]])) for p in order]
    near = [float(distances[first[p], second[p]]) for p in order]
    rng = np.random.default_rng(0)
    twins = [
        pair
        for pair, own in zip(pairs, near, strict=True)
        if own < ALIKE and _are_twins(subject, *pair, own, rng)
    ]
    distance, (i, j) = near[0], pairs[0]
    told = (
        f"The most alike are {subject.name(i)} and {subject.name(j)}, with a Jensen-Shannon "
        f"divergence of {number(distance)} nats."
    )
    if not twins:
        return Finding("fine", "No two topics are twins", told)
    named = ", ".join(f"{subject.name(i)} and {subject.name(j)}" for i, j in twins[:5])
    return Finding(
        "look",
        f"{len(twins)} {plural('pair', len(twins))} of topics cannot be told apart",
        f"{told} Words drawn from one topic differ as much as {named}.",
        "Fewer topics, or merges, would say the same.",
    )


def _are_twins(subject: Subject, i: int, j: int, own: float, rng: np.random.Generator) -> bool:
    """Whether topics made of draws from their mean differ as much."""
    topics, counts = subject.more["topic_word"], subject.counts
    sizes = np.maximum(counts[[i, j]].round().astype(int), 1)
    mean = (sizes @ topics[[i, j]]) / sizes.sum()
    prior = subject.more.get("smoothing", 0.01)
    drawn = []
    for _ in range(20):
        pair = [rng.multinomial(n, mean / mean.sum()) + prior for n in sizes]
        drawn.append(_divergence(*(p / p.sum() for p in pair)))
    return own <= max(drawn)


def _divergence(p: Array, q: Array) -> float:
    """Jensen-Shannon divergence in nats."""
    middle = 0.5 * (p + q)
    return float(sum(0.5 * (a * np.log(np.maximum(a, 1e-300) / middle)).sum() for a in (p, q)))


def check_common(subject: Subject) -> Finding | None:
    """Topics whose words are those of the whole corpus, as far as draws of words can tell."""
    topics, used = subject.more.get("topic_word"), subject.used[:60]
    if topics is None or len(used) < 2:
        return None
    overall = np.exp(subject.more["overall"])
    overall = overall / overall.sum()
    prior, rng = subject.more.get("smoothing", 0.01), np.random.default_rng(0)
    distance = np.array([_divergence(topics[k], overall) for k in used])
    common = []
    for at in np.argsort(distance, kind="stable")[:MOST_TESTED]:
        if distance[at] > ALIKE:
            break
        n = max(round(float(subject.counts[used[at]])), 1)
        drawn = rng.multinomial(n, overall, size=20) + prior
        if distance[at] <= max(_divergence(p / p.sum(), overall) for p in drawn):
            common.append(int(used[at]))
    nearest = (float(distance.min()), int(used[int(distance.argmin())]))
    told = f"The nearest to the whole corpus is {subject.name(nearest[1])}, with a Jensen-Shannon "
    told += f"divergence of {number(nearest[0])} nats."
    if not common:
        return Finding("fine", "No topic is the whole corpus", told)
    named = ", ".join(subject.name(k) for k in common[:8])
    return Finding(
        "look",
        f"{len(common)} {plural('topic', len(common))} like the whole corpus",
        f"{told} Words drawn from all documents differ as much as {named}.",
        "Such a topic says nothing of its documents: leave out common words, or fit more topics.",
    )


def check_coherence(subject: Subject) -> Finding | None:
    """Topics whose words are together less than in documents drawn from the model."""
    own, drawn = subject.more.get("coherence"), subject.more.get("drawn_coherence")
    if own is None or drawn is None:
        return None
    center, spread = drawn.mean(0), drawn.std(0) + 1e-9
    off = np.where(np.isfinite(own), (center - own) / spread, 0.0)
    largest = ((center - drawn) / spread).max(1)  # over the topics, as is asked of the data
    bad = [int(subject.shown[at]) for at in np.argsort(-off) if judged(off[at], largest, 4.0)]
    at = int(np.argmax(off))
    told = (
        f"The words of topic {subject.name(int(subject.shown[at]))} have a coherence of "
        f"{number(float(own[at]), 2)}, and of {number(float(center[at]), 2)} in documents drawn "
        "from the model."
    )
    if not bad:
        return Finding("fine", "Words of topics go together as the model says", told)
    named = ", ".join(subject.name(k) for k in bad[:8])
    return Finding(
        "look",
        f"{len(bad)} {plural('topic', len(bad))} whose words do not go together",
        f"{told} Less than in all draws: {named}.",
        "Such a topic mixes several: fit more topics, or look at its documents.",
    )
