"""What reports of grammars and aligners have of their own: names, rules, translations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stickbreak.report import Subject

    from .alignment_answers import AlignerAnswers
    from .tree_models import TreeEstimator

__all__ = ["aligner_values", "tree_values"]

N_RULES, N_WORDS, N_TRANSLATIONS = 40, 100, 4


def tree_values(self: TreeEstimator, subject: Subject) -> Subject:
    """The subject with the rules most often used."""
    rules = [rule._asdict() for rule in self.top_rules(N_RULES)]
    return replace(subject, more={**subject.more, "rules": rules})


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
