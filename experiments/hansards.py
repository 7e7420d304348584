"""Word alignment of French and English: EM, variational Bayes and collapsed inference from the same
start, fertilities, rare words as garbage collectors.
"""

from __future__ import annotations

from .alignment_tables import CODED, main_rows
from .bitexts import read_hansards
from .frame import Experiment, is_quick

TEXT = (
    "25,447 pairs in small letters (the files are UTF-8), English is the source; gold of the first "
    "447 with 4,038 sure and 17,438 possible links. "
)
FOUND = ""


def run() -> Experiment:
    """Hansards; the first 2,000 pairs under `--quick`."""
    pairs = read_hansards(2000 if is_quick() else None)
    return Experiment("Word alignment of Hansards", TEXT + CODED, main_rows(pairs), FOUND)
