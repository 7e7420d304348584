"""Arguments that users pass, and the columns that a fit learns from them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from stickbreak.data import Bitext, Corpus, DocumentShards, FileTable
from stickbreak.stats import Array

__all__ = ["Categories", "Given", "Rows", "Schema", "Values"]

Categories = dict[Any, list[Any]]
"""Column name (or position, without names) to its categories: number v stands for the v-th."""

Rows = (
    ArrayLike
    | os.PathLike[str]
    | FileTable
    | Corpus
    | DocumentShards
    | Bitext
    | sparse.sparray
    | sparse.spmatrix
)
"""Arrays, data frames, CSR matrices, lists of them, files."""

Values = ArrayLike | None
"""An array, a list of arrays, or nothing."""


@dataclass(frozen=True)
class Schema:
    """Columns of the data that a model was fitted to.

    n_features : columns of a table; words of a vocabulary
    names : of the columns, or the words; None if the data have none
    categories : of columns that held strings, categories or booleans
    source_names : words of the source language, for sentence pairs; `names` are the target's
    """

    n_features: int
    names: tuple[str, ...] | None = None
    categories: Categories = field(default_factory=dict)
    source_names: tuple[str, ...] | None = None

    @cached_property
    def name_array(self) -> Array:
        """(n_features,) names, as an array like scikit-learn's."""
        return np.array(self.names, dtype=object)

    def require_width(self, width: int, owner: str) -> None:
        """Raise ValueError for data of another width, in scikit-learn's words."""
        if width != self.n_features:
            raise ValueError(
                f"X has {width} features, but {owner} is expecting {self.n_features} features "
                "as input"
            )

    def with_names(self, names: Iterable[str]) -> Schema:
        """The schema with more columns at the end."""
        joined = (*(self.names or ()), *names)
        return replace(self, n_features=len(joined), names=joined)


@dataclass(frozen=True)
class Given:
    """The arguments of one call by a user.

    X, y, labels, sample_weight, lengths, sequence_id, context, trees, change_points : see the
        estimators' `fit`
    takes_unknown : whether a category that the fit has not seen is missing, with a warning; else
        it is refused
    owner : name of the estimator, for messages
    verbose : whether to show progress
    """

    X: Rows
    y: Values = None
    labels: Values = None
    sample_weight: Values = None
    lengths: Values = None
    sequence_id: Values = None
    context: Values = None
    trees: Any = None
    change_points: Any = None
    takes_unknown: bool = False
    owner: str = "the estimator"
    verbose: int = 0
