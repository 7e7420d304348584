"""GreedyMerge, a published baseline that is meant to fail: merges judged by the bound of the batch
at hand alone.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from stickbreak.inference import LapRecord, MeanLog, Memoized, Result, Start, State, Trace
from stickbreak.inference.plans import FixedBatches
from stickbreak.moves.merge import MergeWatch, pair_scores
from stickbreak.stats import SERIAL, Merge, Summary

from .fits import Fit, Setting

__all__ = ["fit_greedy"]


def fit_greedy(setting: Setting, start: Start, n_batches: int, n_laps: int, seed: int) -> Fit:
    """Memoized laps with such merges, and a last lap without, whose bound is exact."""
    began = time.process_time()
    model, rule, accumulator = setting.model, MeanLog(), Memoized()
    plan = FixedBatches(setting.table.batches(n_batches))
    state = accumulator.begin(start, tuple(range(start.seed.size(model.axis))), n_batches)
    trace = Trace()
    for lap in range(n_laps):
        for batch in plan.lap(seed, lap):
            old, pairs = (
                state.recall(batch),
                np.stack(np.triu_indices(state.n_components, 1), axis=1),
            )
            new, warm = rule.visit(
                model, state.counts, state.params, batch, None, [MergeWatch(pairs)], SERIAL
            )
            accumulator.combine(state, batch, old, replace(new, sides={}), warm)
            if lap < n_laps - 1:
                merge_by_batch(model, state, new, pairs)
        accumulator.end_lap(state)
        state.lap += 1
        is_exact = lap == n_laps - 1
        trace.laps.append(
            LapRecord(
                lap + 1,
                rule.bound(model, state.total.view(), state.params) if is_exact else None,
                np.nan,
                state.n_components,
                0.0,
            )
        )
    bound = trace[-1].bound
    assert bound is not None
    result = Result(
        counts=state.counts,
        params=state.params,
        ids=state.ids,
        next_id=state.next_id,
        n_steps=0,
        trace=trace,
        bound=bound,
        is_converged=True,
        model=model,
    )
    return Fit(result, time.process_time() - began)


def merge_by_batch(model: Any, state: State, new: Summary, pairs: np.ndarray) -> None:
    """Merge what raises the bound of one batch, best first, each component once."""
    params = model.global_step(new, state.params)
    before, ids = model.bound(new, params), state.ids
    listed, scores = pair_scores(model, new, params)
    row = {(int(a), int(b)): at for at, (a, b) in enumerate(pairs)}
    gains: dict[tuple[int, int], float] = {}
    for a, b in listed[scores > 0].tolist():
        tried = Merge(model.axis, a, b, row[a, b])(new)
        gains[a, b] = model.bound(tried, model.global_step(tried, params)) - before
    taken: set[int] = set()
    for (a, b), gain in sorted(gains.items(), key=lambda item: -item[1]):
        if gain > 0 and not taken.intersection((a, b)):
            keep, drop = sorted((state.ids.index(ids[a]), state.ids.index(ids[b])))
            state.edit(Merge(model.axis, keep, drop))
            taken.update((a, b))
