"""Sentences as users pass them: lists of words, strings, or numbers of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stickbreak.families.base import BaseFamily

from .schema import Given, Schema
from .sequence_rows import Stack, read_sequences

__all__ = ["read_sentences", "split_sentences"]


def split_sentences(X: Any) -> Any:
    """A list of strings becomes a list of lists of their words; anything else stays."""
    if isinstance(X, str):
        raise ValueError("X is one string; give a list of sentences")
    if isinstance(X, Sequence) and len(X) and all(isinstance(part, str) for part in X):
        return [part.split() for part in X]
    return X


def read_sentences(
    given: Given, family: BaseFamily, schema: Schema | None, max_length: int
) -> tuple[Stack, Schema]:
    """Checked sentences and their schema, which is learned if None; long ones are refused."""
    sentences = split_sentences(given.X)
    if sentences is None or (isinstance(sentences, list | tuple) and not sentences):
        raise ValueError("X has no sentences; give a list of them")
    if isinstance(sentences, list | tuple):
        empty = [s for s, part in enumerate(sentences) if np.ndim(part) and len(part) == 0]
        if empty:
            raise ValueError(f"sentence {empty[0]} is empty; drop it")
    given = replace(given, X=sentences)
    stack, found = read_sequences(given, family, schema)
    assert stack.offsets is not None
    lengths = np.diff(stack.offsets)
    long = np.flatnonzero(lengths > max_length)
    if len(long):
        raise ValueError(
            f"sentence {long[0]} has {lengths[long[0]]} words, and max_length={max_length}: the "
            "time for a tree grows with the cube of the length; leave it out or raise max_length"
        )
    return stack, found
