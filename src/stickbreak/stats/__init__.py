"""Named arrays, their algebra, and edits that can be replayed later."""

from .draws import draw_log_dirichlet, draw_tables, log_gamma_draws
from .edits import (
    NOTHING,
    AddSide,
    Compose,
    Edit,
    EditLog,
    Fold,
    Forget,
    Insert,
    Merge,
    Permute,
    Regroup,
    Remove,
    Within,
    adopt,
)
from .fields import Array, Field, Fields, Filler, LinearFiller, join
from .gather import SERIAL, BasePool, call_loaded, gather, split_off
from .link_shares import LinkShares
from .log_gammas import log_beta, log_gamma_rise, log_mode_beta
from .moments import Reanchor, shift_moments, triangle
from .shares import Shares, SparseShares, rows_first, weigh
from .stored_fields import store
from .summary import SYMBOL, Summary, Tally
from .word_shares import WordShares

__all__ = [
    "NOTHING",
    "SERIAL",
    "SYMBOL",
    "AddSide",
    "Array",
    "BasePool",
    "Compose",
    "Edit",
    "EditLog",
    "Field",
    "Fields",
    "Filler",
    "Fold",
    "Forget",
    "Insert",
    "LinearFiller",
    "LinkShares",
    "Merge",
    "Permute",
    "Reanchor",
    "Regroup",
    "Remove",
    "Shares",
    "SparseShares",
    "Summary",
    "Tally",
    "Within",
    "WordShares",
    "adopt",
    "call_loaded",
    "draw_log_dirichlet",
    "draw_tables",
    "gather",
    "join",
    "log_beta",
    "log_gamma_draws",
    "log_gamma_rise",
    "log_mode_beta",
    "rows_first",
    "shift_moments",
    "split_off",
    "store",
    "triangle",
    "weigh",
]
