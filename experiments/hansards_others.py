"""Word alignment of French and English: draws, words one by one, shares of NULL, kinds of jumps."""

from __future__ import annotations

from .alignment_tables import CODED, other_rows
from .bitexts import read_hansards
from .frame import Experiment, is_quick
from .hansards import TEXT


def run() -> Experiment:
    """Hansards; the first 2,000 pairs under `--quick`."""
    pairs = read_hansards(2000 if is_quick() else None)
    return Experiment("Word alignment of Hansards: other engines", TEXT + CODED, other_rows(pairs))
