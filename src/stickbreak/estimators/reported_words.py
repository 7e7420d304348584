"""What reports of grammars and aligners have of their own: rules, trees, translations, links."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import ConstituentTree
from stickbreak.reading import (
    Rows,
    Unknown,
    open_pairs,
    split_sentences,
    unknown_in_pairs,
    unknown_in_sentences,
)

from .reports import data_digest, observe_score, words_digest

if TYPE_CHECKING:
    from stickbreak.report import Subject

    from .alignment_answers import AlignerAnswers
    from .tree_models import TreeEstimator

__all__ = ["aligner_values", "observe_pairs", "observe_trees", "tree_values"]

N_RULES, N_WORDS, N_TRANSLATIONS = 40, 100, 4
N_SHOWN, SHORTEST, LONGEST = 4, 2, 14  # sentences and pairs that are shown, and their words
MOST_LETTERS = 40  # of strings, which take less room
N_DRAWN, MOST_OTHERS = 100, 3  # trees drawn from the posterior of each, and those shown
MOST_WORK = 7e8  # of their charts, words and categories to the third power: half a second


def tree_values(self: TreeEstimator, subject: Subject) -> Subject:
    """The subject with the rules most often used."""
    rules = [rule._asdict() for rule in self.top_rules(N_RULES)]
    tags = next(iter(subject.labels_of.values()), ()) if self.finds_heads else ()
    names = {**{k: str(tag) for k, tag in enumerate(tags)}, **subject.names}
    apart = {k: text for k in map(int, subject.shown) if (text := self._apart(k))}
    more = {**subject.more, "rules": rules, **({"apart": apart} if apart else {})}
    return replace(subject, names=names, more=more)


def aligner_values(self: AlignerAnswers, subject: Subject) -> Subject:
    """The subject with source words as names, and translations of the commonest."""
    words = self.source_words_
    names = {k: str(word) for k, word in enumerate(words)}
    order = np.argsort(-subject.counts[: len(words)], kind="stable")[: N_WORDS + 1]
    lexicon = [
        (str(words[k]), self.top_translations(words[k] if k else None, N_TRANSLATIONS))
        for k in order
    ]
    apart = {
        int(k): ", ".join(
            f"{other} ({p:.0%})"
            for other, p in self.top_translations(words[k] if k else None, N_TRANSLATIONS)
            if p >= 0.005
        )
        for k in subject.shown
    }
    more = {**subject.more, "lexicon": lexicon, "apart": apart}
    return replace(subject, names={**names, **subject.names}, more=more)


def observe_trees(
    self: TreeEstimator, subject: Subject, X: Rows, by: Any, where: Mapping[str, Any] | None = None
) -> Subject:
    """The subject with the score of X, and best trees of some sentences with their posteriors."""
    given = X if self.cuts_strings else split_sentences(X)
    subject = observe_score(self, subject, X, by, where)
    if not isinstance(given, list | tuple):
        numbers = map(str, np.ravel(np.asarray(given)).tolist())
        return _with_digest(subject, words_digest([numbers]), "")
    words = [list(part.words) if hasattr(part, "words") else list(part) for part in given]
    subject = _with_digest(subject, words_digest(words), "rules and words with their weights")
    subject = _with_unknown(subject, unknown_in_sentences(words, self._known_words()), self.UNKNOWN)
    longest = MOST_LETTERS if self.cuts_strings else LONGEST
    chosen = [s for s, part in enumerate(words) if SHORTEST <= len(part) <= longest][:N_SHOWN]
    if not subject.shows_texts or not chosen:
        return subject
    shown = _shown_trees(self, [given[s] for s in chosen])
    trees = [
        {"number": s, "words": [str(w) for w in words[s]], **tree}
        for s, tree in zip(chosen, shown, strict=True)
    ]
    holds = f"rules and words with their weights; {len(chosen)} {_plural(self)} (left out with "
    holds += "texts=False)."
    return replace(subject, more={**subject.more, "trees": trees, "holds": holds})


def _with_digest(subject: Subject, digest: str, holds: str) -> Subject:
    """The subject with the digest of the data, and what a page without them holds."""
    told = f"{holds or 'sums and averages'}; none of the data."
    digests = {**subject.digests, "data": digest}
    return replace(subject, digests=digests, more={**subject.more, "holds": told})


def _plural(self: TreeEstimator) -> str:
    return "strings" if self.cuts_strings else "sentences"


def _with_unknown(subject: Subject, unknown: Unknown, what: str) -> Subject:
    """The subject with the number of unknown words. what : what the model does with them"""
    assert subject.observed is not None
    observed = replace(
        subject.observed, n_unknown=unknown.n_words, n_unknown_places=unknown.n_places
    )
    return replace(subject, observed=observed, more={**subject.more, "unknown": what})


def _shown_trees(self: TreeEstimator, some: list[Any]) -> list[dict[str, Any]]:
    """Best trees with their posteriors, and other trees that were drawn from the posterior.

    None is drawn of a sentence whose chart would take too long, or by a structure that cannot.
    """
    best, posteriors = self.parse(some), self.parse_proba(some)  # type: ignore[attr-defined]
    found = [_parts_of(tree, shares) for tree, shares in zip(best, posteriors, strict=True)]
    if not self._require_fitted().model.structure.draws:
        return found
    n_categories = 1 if self.finds_heads or self.cuts_strings else self.n_components_
    work = np.cumsum([float(len(one) * n_categories) ** 3 for one in some])
    n_quick = int(np.searchsorted(work, MOST_WORK, side="right"))
    drawn = self._draw_trees(some[:n_quick], N_DRAWN, np.random.default_rng(0)) if n_quick else []
    for s, own in enumerate(drawn):
        parts, tree, shares = found[s], best[s], posteriors[s]
        times = Counter(map(_text_of, own))
        examples = dict(zip(map(_text_of, own), own, strict=True))
        parts |= {"n_drawn": len(own), "times": times.pop(_text_of(tree), 0)}
        order = sorted(times.items(), key=lambda item: (-item[1], item[0]))
        parts["others"] = [
            {"times": m, **_parts_of(examples[text], shares)} for text, m in order[:MOST_OTHERS]
        ]
    return found


def _text_of(tree: Any) -> str:
    """A tree as text: equal for equal trees."""
    if isinstance(tree, ConstituentTree):
        return str(tree)
    if isinstance(tree, np.ndarray):
        return " ".join(map(str, tree.tolist()))
    return " | ".join(f"{part.name} {part.text}" for part in tree)


def _parts_of(tree: Any, posterior: Any) -> dict[str, Any]:
    """Heads of words, spans of a tree, or cuts of a string, each with its posterior."""
    if isinstance(tree, ConstituentTree):
        return {"spans": _spans(tree, posterior)}
    if isinstance(tree, np.ndarray):
        at = np.arange(len(tree))
        return {"heads": tree.tolist(), "sure": np.asarray(posterior)[at, tree].tolist()}
    begins = [part.begin for part in tree]
    segments = ["".join(map(str, part.text)) for part in tree]
    return {"segments": segments, "begins": begins, "sure": np.asarray(posterior).tolist()}


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
    sides = (bitext.source, bitext.target)
    parts = [part for side in sides for part in (side.numbers, side.offsets)]
    digest = data_digest(parts) + words_digest([side.words for side in sides])
    digest = hashlib.sha256(digest.encode()).hexdigest()
    subject = _with_digest(subject, digest, "words and their translations")
    schema = self._require_fitted().schema
    unknown = unknown_in_pairs(bitext, schema, bool(self.lowercase))
    subject = _with_unknown(subject, unknown, "they share the prior's probability")
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
