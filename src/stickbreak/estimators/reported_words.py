"""What reports of grammars and aligners have of their own: rules, trees, translations, links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import ConstituentTree
from stickbreak.reading import Rows, open_pairs
from stickbreak.reading.sentences import split_sentences

from .reports import observe_score

if TYPE_CHECKING:
    from stickbreak.report import Subject

    from .alignment_answers import AlignerAnswers
    from .tree_models import TreeEstimator

__all__ = ["aligner_values", "observe_pairs", "observe_trees", "tree_values"]

N_RULES, N_WORDS, N_TRANSLATIONS = 40, 100, 4
N_SHOWN, SHORTEST, LONGEST = 4, 3, 14  # sentences and pairs that are drawn, and their words


def tree_values(self: TreeEstimator, subject: Subject) -> Subject:
    """The subject with the rules most often used."""
    rules = [rule._asdict() for rule in self.top_rules(N_RULES)]
    tags = next(iter(subject.labels_of.values()), ()) if self.finds_heads else ()
    names = {**{k: str(tag) for k, tag in enumerate(tags)}, **subject.names}
    return replace(subject, names=names, more={**subject.more, "rules": rules})


def aligner_values(self: AlignerAnswers, subject: Subject) -> Subject:
    """The subject with source words as names, and translations of the commonest."""
    words = self.source_words_
    names = {k: str(word) for k, word in enumerate(words)}
    order = np.argsort(-subject.counts[: len(words)], kind="stable")[: N_WORDS + 1]
    lexicon = [
        (str(words[k]), self.top_translations(words[k] if k else None, N_TRANSLATIONS))
        for k in order
    ]
    more = {**subject.more, "lexicon": lexicon}
    return replace(subject, names={**names, **subject.names}, more=more)


def observe_trees(
    self: TreeEstimator, subject: Subject, X: Rows, by: Any, where: Mapping[str, Any] | None = None
) -> Subject:
    """The subject with the score of X, and best trees of some sentences with their posteriors."""
    subject = observe_score(self, subject, X, by, where)
    given = split_sentences(X)
    if not subject.shows_texts or not isinstance(given, list | tuple):
        return subject
    words = [list(part.words) if hasattr(part, "words") else list(part) for part in given]
    chosen = [s for s, part in enumerate(words) if SHORTEST <= len(part) <= LONGEST][:N_SHOWN]
    if not chosen:
        return subject
    some = [given[s] for s in chosen]
    trees, posteriors = self.parse(some), self.parse_proba(some)  # type: ignore[attr-defined]
    shown = [
        {"number": s, "words": [str(w) for w in words[s]], **_parts_of(tree, posterior)}
        for s, tree, posterior in zip(chosen, trees, posteriors, strict=True)
    ]
    holds = (
        f"rules and words with their weights; {len(chosen)} sentences (left out with texts=False)."
    )
    return replace(subject, more={**subject.more, "trees": shown, "holds": holds})


def _parts_of(tree: Any, posterior: Any) -> dict[str, Any]:
    """Heads of words, spans of a tree, or cuts of a string, each with its posterior."""
    if isinstance(tree, ConstituentTree):
        return {"spans": _spans(tree, posterior)}
    if isinstance(tree, np.ndarray):
        at = np.arange(len(tree))
        return {"heads": tree.tolist(), "sure": np.asarray(posterior)[at, tree].tolist()}
    return {"segments": [str(part) for part in tree], "sure": np.asarray(posterior).tolist()}


def _spans(tree: ConstituentTree, posterior: Any) -> list[tuple[int, int, str, float, int]]:
    """(begin, end, label, posterior, level) of the brackets of a tree, NaN where not known."""
    found: list[tuple[int, int, str, float, int]] = []

    def visit(node: ConstituentTree, begin: int) -> tuple[int, int]:
        end, level = begin, 0
        for child in node.children:
            if isinstance(child, ConstituentTree):
                end, below = visit(child, end)
                level = max(level, below + 1)
            else:
                end += 1
        found.append((begin, end, node.label, _posterior(posterior, begin, end, node.label), level))
        return end, level

    visit(tree, 0)
    return found


def _posterior(posterior: Any, begin: int, end: int, label: str) -> float:
    if isinstance(posterior, dict):
        return float(posterior.get((begin, end, label), float("nan")))
    return float(posterior[begin, end, int(label)]) if label.isdigit() else float("nan")


def observe_pairs(
    self: AlignerAnswers, subject: Subject, X: Rows, by: Any, where: Mapping[str, Any] | None = None
) -> Subject:
    """The subject with the score of X, and posteriors of the links of some sentence pairs."""
    bitext = open_pairs(X, self.verbose)
    subject = observe_score(self, subject, bitext, by, where)
    if not subject.shows_texts:
        return subject
    fits = [s for s in range(min(len(bitext), 1000)) if _are_short(bitext[s])][:N_SHOWN]
    if not fits:
        return subject
    pairs: Sequence[Any] = [bitext[s] for s in fits]
    shown = [
        {"number": s, "source": source, "target": target, "posterior": posterior}
        for s, (source, target), posterior in zip(
            fits, pairs, self.predict_proba(list(pairs)), strict=True
        )
    ]
    holds = f"words and their translations; {len(fits)} sentence pairs (left out with texts=False)."
    return replace(subject, more={**subject.more, "pairs": shown, "holds": holds})


def _are_short(pair: tuple[Sequence[str], Sequence[str]]) -> bool:
    return all(SHORTEST <= len(side) <= LONGEST for side in pair)
