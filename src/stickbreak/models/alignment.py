"""Word alignment: IBM model 1, and the HMM aligner that follows it."""

from __future__ import annotations

from typing import Any

from stickbreak.families.lexicon import Lexicon
from stickbreak.priors import FertileJumps, Jumps, UniformPositions
from stickbreak.structures import BagAlignment, ChainAlignment

from .base import Model

__all__ = ["fertile_aligner", "hmm_aligner", "ibm1"]

AXIS = "word"


def ibm1(lexicon: Lexicon, **positions: Any) -> Model:
    """Every target word translates a word of its source sentence, or NULL.

    Keywords are those of UniformPositions.
    """
    return Model(BagAlignment(), lexicon, UniformPositions(**positions), AXIS)


def hmm_aligner(lexicon: Lexicon, **jumps: Any) -> Model:
    """The same, with positions that follow each other by jumps; keywords are those of Jumps."""
    return Model(ChainAlignment(), lexicon, Jumps(**jumps), AXIS)


def fertile_aligner(lexicon: Lexicon, **jumps: Any) -> Model:
    """The same, with fertilities of source words; keywords are those of FertileJumps."""
    return Model(ChainAlignment(), lexicon, FertileJumps(**jumps), AXIS)
