"""Word alignment of French and English: EM, VB and collapsed inference at the same settings."""

from __future__ import annotations

from .alignment_tables import CODED, equal_rows
from .bitexts import read_hansards
from .frame import Experiment, is_quick
from .hansards import TEXT


def run() -> Experiment:
    """Hansards; the first 2,000 pairs under `--quick`."""
    pairs = read_hansards(2000 if is_quick() else None)
    title = "Word alignment of Hansards: one prior count, one share of NULL"
    return Experiment(title, TEXT + CODED, equal_rows(pairs))
