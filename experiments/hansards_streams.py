"""Word alignment of French and English: engines that see each pair once in a lap."""

from __future__ import annotations

from .alignment_tables import CODED, stream_rows
from .bitexts import read_hansards
from .frame import Experiment, is_quick
from .hansards import TEXT


def run() -> Experiment:
    """Hansards; the first 2,000 pairs under `--quick`."""
    pairs = read_hansards(2000 if is_quick() else None)
    return Experiment(
        "Word alignment of Hansards: stochastic engines", TEXT + CODED, stream_rows(pairs)
    )
