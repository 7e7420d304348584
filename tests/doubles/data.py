"""Units of several rows, as the engines see data; random starts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.inference import Memoized, Start
from stickbreak.inference.state import State
from stickbreak.stats import Summary, Tally

Array = np.ndarray


@dataclass(frozen=True)
class Ragged:
    """Unit u owns rows offsets[u]:offsets[u + 1]. `own_vocabulary`: each batch names its symbols by
    position in its own list.
    """

    rows: Array
    offsets: Array
    repeats: Array | None = None
    own_vocabulary: bool = False

    unit_name = "units"

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @property
    def n_spans(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_units(self) -> float:
        return float(self.n_spans)

    @property
    def n_observations(self) -> float:
        return self.whole().n_observations

    def whole(self) -> Batch:
        return Batch(0, self.rows, self.offsets, self.repeats)

    def batches(self, n_batches: int | str = "auto") -> list[Batch]:
        cuts = np.linspace(
            0, self.n_spans, (1 if n_batches == "auto" else int(n_batches)) + 1
        ).astype(int)
        parts = [
            replace(self.whole().part(lo, hi).alone(), id=i)
            for i, (lo, hi) in enumerate(pairwise(cuts.tolist()))
        ]
        return [rename_symbols(part) for part in parts] if self.own_vocabulary else parts

    def take(self, indices: Array, id: int = 0) -> Batch:
        units = [slice(self.offsets[u], self.offsets[u + 1]) for u in np.sort(indices)]
        pick = lambda values: None if values is None else np.concatenate([values[u] for u in units])
        lengths = [u.stop - u.start for u in units]
        batch = Batch(id, pick(self.rows), np.r_[0, np.cumsum(lengths)], pick(self.repeats))
        return rename_symbols(batch) if self.own_vocabulary else batch

    def pick(self, indices: Array, id: int = 0) -> Batch:
        return self.take(indices, id)

    def sample(self, size: int, rng: np.random.Generator) -> Batch:
        count = min(self.n_spans, max(1, size * self.n_spans // self.n_rows))
        return self.take(rng.choice(self.n_spans, count, replace=False))

    def fingerprint(self) -> str:
        return hashlib.blake2b(
            self.rows.tobytes() + self.offsets.tobytes(), digest_size=16
        ).hexdigest()


def rename_symbols(batch: Batch) -> Batch:
    """The same batch of symbols (n, 1) with its own vocabulary; -1 stays."""
    symbols = np.unique(batch.rows[batch.rows >= 0])
    rows = np.where(batch.rows < 0, -1, np.searchsorted(symbols, batch.rows))
    return replace(batch, rows=rows, symbols=symbols)


def random_seed(model: Any, batches: list[Batch], n_components: int, seed: int = 0) -> Summary:
    """Counts of random soft labels, and random tables of the prior."""
    rng = np.random.default_rng(seed)
    total = Tally(model.zeros(n_components))
    for batch in batches:
        part = total.view().restrict(batch.symbols).empty()
        shares = np.asfortranarray(
            rng.dirichlet(np.full(n_components, 0.3), batch.n_rows)
            * batch.repeats_or_ones()[:, None]
        )
        scores = model.family.mean_log(model.family.zeros(n_components))
        scores.collect(model.family.prepare(batch.rows), shares, dict(part.arrays))
        total.add(replace(part, n_units=batch.n_units))
    tables = {
        n: rng.gamma(1.0, 1.0, total.view()[n].shape)
        for n, f in model.prior.fields(model.axis).items()
        if f.nonnegative
    }
    return replace(total.summary(), arrays={**total.summary().arrays, **tables})


def random_start(model: Any, batches: list[Batch], n_components: int, seed: int = 0) -> Start:
    """Seed counts and the prior's own start."""
    return Start(random_seed(model, batches, n_components, seed), model.start_params(n_components))


def begin(model: Any, batches: list[Batch], n_components: int, seed: int = 0) -> State:
    """A memoized state before the first visit."""
    start = random_start(model, batches, n_components, seed)
    return Memoized().begin(start, tuple(range(n_components)), len(batches))
