"""Starts of fits."""

from .alignment import after_bag, even_links_start
from .anchors import from_anchors
from .better import best_start, from_better, from_rivals, from_swept
from .blocks import choose_blocks, from_blocks
from .counts import count_labels
from .documents import SMOOTHING, from_documents, word_counts
from .drawn import N_PATHS, N_SYMBOLS, from_drawn, some_sequences
from .groups import from_ungrouped
from .guessed import from_cooled, from_guess
from .ladder import N_RUNGS, RUNG_LAPS, from_ladder
from .local import from_collapsed, from_local
from .plusplus import (
    choose_plusplus,
    choose_random,
    from_labels,
    from_plusplus,
    from_previous,
    from_random,
    refine_hard,
)
from .scalable import choose_scalable, from_scalable
from .seeded_words import place_words
from .settled import from_settled, from_settled_part

__all__ = [
    "N_PATHS",
    "N_RUNGS",
    "N_SYMBOLS",
    "RUNG_LAPS",
    "SMOOTHING",
    "after_bag",
    "best_start",
    "choose_blocks",
    "choose_plusplus",
    "choose_random",
    "choose_scalable",
    "count_labels",
    "even_links_start",
    "from_anchors",
    "from_better",
    "from_blocks",
    "from_collapsed",
    "from_cooled",
    "from_documents",
    "from_drawn",
    "from_guess",
    "from_labels",
    "from_ladder",
    "from_local",
    "from_plusplus",
    "from_previous",
    "from_random",
    "from_rivals",
    "from_scalable",
    "from_settled",
    "from_settled_part",
    "from_swept",
    "from_ungrouped",
    "place_words",
    "refine_hard",
    "some_sequences",
    "word_counts",
]
