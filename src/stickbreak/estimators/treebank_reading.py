"""Trees and sentences that users give to grammars of treebanks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from stickbreak.data import Binarized, ConstituentTree, Listing, covered_trees
from stickbreak.errors import DataWarning
from stickbreak.reading import split_sentences
from stickbreak.stats import Array

__all__ = ["covered_part", "weights_of_trees", "words_of"]

MOST_NAMED = 5  # trees in a warning


def words_of(X: Any) -> list[list[str]]:
    """The words of sentences, as they were given."""
    found = split_sentences(X)
    if not isinstance(found, list | tuple) or not len(found):
        raise ValueError("X must be a list of sentences: lists of words, strings, or trees")
    return [
        ConstituentTree.of(one).words
        if isinstance(one, ConstituentTree) or callable(getattr(one, "label", None))
        else [str(word) for word in one]
        for one in found
    ]


def weights_of_trees(given: Any, n: int) -> Array | None:
    """(n,) how often each tree counts; None if the user does not say."""
    if given is None:
        return None
    weights = np.asarray(given, dtype=float)
    if weights.shape != (n,) or not (weights >= 0).all():
        raise ValueError(
            f"sample_weight must hold a number, 0 or more, for each of {n} trees; got shape "
            f"{weights.shape}"
        )
    return weights


def covered_part(
    trees: list[Binarized], weight: Array | None, listing: Listing
) -> tuple[list[Binarized], Array | None]:
    """The trees all of whose rules are listed, and their weights; the others are warned about.

    All, if there is none: whoever numbers them says what they lack.
    """
    kept = covered_trees(trees, listing)
    if not kept or len(kept) == len(trees):
        return trees, weight
    left_out = sorted(set(range(len(trees))) - set(kept))
    named = ", ".join(map(str, left_out[:MOST_NAMED])) + ", ..." * (len(left_out) > MOST_NAMED)
    warnings.warn(
        f"{len(left_out)} tree(s) ({named}) use rules that the first call had not: left out",
        DataWarning,
        stacklevel=3,
    )
    return [trees[s] for s in kept], None if weight is None else weight[kept]
