"""Data that collapsed inference cannot sweep: each refused with what to use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .collapsed import ExcludeOwn

if TYPE_CHECKING:
    from stickbreak.models import Model

    from .engine import Data

__all__ = ["check_units"]


def check_units(rule: ExcludeOwn, model: Model, data: Data) -> None:
    """Raise ValueError if the data cannot be inferred by units of the rule's granularity."""
    known, asked = (*model.structure.granularities, "batch"), rule.granularity
    if asked not in ("auto", *known):
        raise ValueError(
            f"granularity={asked!r} is not for {type(model.structure).__name__}; choose one of "
            f"{', '.join(('auto', *known))}"
        )
    if not rule.sweeps(model):
        if asked in model.structure.granularities:
            raise ValueError(
                f"granularity={asked!r} is not for {type(model.family).__name__}; use 'batch'"
            )
        return
    granularity = model.structure.granularities[0] if asked == "auto" else asked
    if not model.sweeps and granularity != model.structure.granularities[0]:
        remedy = "or a family whose rows leave counts one by one"
        if granularity == "subsequence":
            remedy = "or StochasticCollapsedVB(granularity='subsequence')"
        raise ValueError(
            f"granularity={asked!r} is not for {type(model.family).__name__}; use "
            f"{model.structure.granularities[0]!r}, {remedy}"
        )
    if model.structure.is_ordered:
        _check_sequences(rule, model, granularity, data)
    if not model.family.sweeps and model.family.missing in ("completed", "mixed"):
        rows = data.whole().rows
        if isinstance(rows, np.ndarray) and rows.dtype.kind == "f" and np.isnan(rows).any():
            raise ValueError(
                "missing entries are completed anew at every visit, so that what a sequence has "
                "added is not known when it leaves; use CollapsedVB(granularity='batch'), or "
                "MemoizedVB"
            )


def _check_sequences(rule: ExcludeOwn, model: Model, granularity: str, data: Data) -> None:
    """Sequences count once or not at all, and there are others to learn from."""
    repeats = data.whole().repeats
    if repeats is not None and not np.isin(repeats, (0.0, 1.0)).all():
        bad = repeats[~np.isin(repeats, (0.0, 1.0))][0]
        raise ValueError(
            f"sample_weight has {bad:g}: collapsed inference takes out one sequence at a time, "
            "which counts once or not at all; repeat sequences in the data, or use "
            "CollapsedVB(granularity='batch') or BatchVB"
        )
    if granularity != "sequence" and rule.block > 1:
        raise ValueError(
            f"block={rule.block} is for granularity='sequence'; with {granularity!r}, use block=1"
        )
    n_used = _n_used(data)
    if granularity == "sequence" and n_used == 1:
        remedy, ways = "several sequences, which may be pieces of it", model.structure.granularities
        if "subsequence" in ways and model.sweeps:
            remedy = "CollapsedVB(granularity='subsequence'), which cuts it into blocks"
        elif "token" in ways:  # a chain that variational Bayes can fit, too
            remedy = (
                "StochasticCollapsedVB(granularity='subsequence'), which cuts it into blocks, "
                "BatchVB, or several sequences"
            )
        raise ValueError(
            "there is one sequence, and collapsed inference learns each from the others; use "
            + remedy
        )
    if granularity == "sequence" and rule.block >= n_used > 0:
        raise ValueError(
            f"block={rule.block}: all {n_used} sequences would leave together, and none is left to "
            f"learn from; use at most {n_used - 1}"
        )
    if granularity == "subsequence" and rule.units(data.whole()).n_spans == 1:
        raise ValueError(
            f"subchain_length={rule.subchain_length} leaves the one sequence of {data.n_rows} "
            "rows in one block, and each is learned from the others; use a smaller one"
        )


def _n_used(data: Data) -> int:
    """How many sequences count at all."""
    whole = data.whole()
    if whole.repeats is None:
        return data.n_spans
    assert whole.offsets is not None
    of_rows = np.repeat(np.arange(data.n_spans), np.diff(whole.offsets))
    return len(np.unique(of_rows[whole.repeats > 0]))
