"""The better of several starts: none wins on all data, and variational Bayes tells which does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Sequences, Table, is_on_disk
from stickbreak.inference import Start
from stickbreak.protocols import Array, Pool
from stickbreak.stats import SERIAL

from .drawn import completes, some_sequences
from .local import from_collapsed
from .plusplus import from_plusplus
from .race import race

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["best_start", "from_better", "from_rivals", "from_swept"]

MARGIN = 1e-4  # of the bound: starts that differ by less are taken for equal
MOST_ROWS = 5_000  # of more, a sample of rows is swept and compared
N_SWEEPS = 30  # of rows
MOST_ORDERED, N_CHAIN_SWEEPS = 40_000, 120  # the same of sequences
# Prior counts of steps with which paths change freely. Below, a step that a start does not count
# is hardly ever taken, and states are lost.
AMPLE = 0.5


def from_better(
    model: Model, data: Table, n_components: int, rng: np.random.Generator, pool: Pool = SERIAL
) -> Start:
    """A start of a mixture: k-means++ on all rows, or collapsed sweeps of at most 5,000.

    Where groups are plain to see, rows far apart find them, and sweeps may join two; where they
    have no clear edge, sweeps end higher.
    """
    plain = from_plusplus(model, data, n_components, rng, pool=pool)
    table = replace(data.some_rows(MOST_ROWS, rng), sets=None)
    if completes(model, table):
        return plain  # sweeps take complete rows
    swept = from_collapsed(model, table, n_components, rng, n_sweeps=N_SWEEPS, pool=pool.here)
    if table.n_rows < data.n_rows:
        swept = Start(swept.seed.scale(data.n_units / table.n_units), swept.params)
    return best_start(model, table, [plain, swept], pool)


def from_swept(
    model: Model,
    data: Sequences,
    n_components: int,
    rng: np.random.Generator,
    *,
    legal: Array | None = None,
    pool: Pool = SERIAL,
) -> Start | None:
    """Where collapsed sweeps of sequences lead from random chains; None where there are none.

    A single sequence has no others to learn from.
    """
    some = some_sequences(data, rng, MOST_ORDERED)
    if not model.begins_swept or some.n_spans < 2 or completes(model, some):
        return None
    near = pool if is_on_disk(some.rows) else pool.here  # samples do not travel
    found = from_collapsed(
        model, some, n_components, rng, n_sweeps=N_CHAIN_SWEEPS, legal=legal, pool=near
    )
    return Start(found.seed.scale(data.n_units / some.n_units), found.params)


def from_rivals(
    model: Model,
    data: Sequences,
    make: Callable[[Model], list[Start]],
    rng: np.random.Generator,
    pool: Pool,
) -> Start:
    """The best of several starts of sequences.

    Where prior counts of steps are small, one of them is where larger ones lead.

    make : the starts, with the prior of a model
    """
    starts = make(model)
    some = some_sequences(data, rng)
    ample = replace(model, prior=model.prior.at_least(AMPLE), learns=False)
    if ample.prior is not model.prior:
        makers = [partial(_itself, start) for start in make(ample)]
        best = max(race(ample, some, makers, pool, settles=True), key=lambda fit: fit.bound)
        starts.append(Start(best.counts.scale(data.n_units / some.n_units), starts[0].params))
    return best_start(model, some, starts, pool)


def best_start(model: Model, some: Table, starts: Sequence[Start], pool: Pool) -> Start:
    """The start from which variational Bayes ends highest; the first of those that are as good as
    equal.

    It is given back as it was. some : the rows to compare on
    """
    makers = [partial(_itself, start) for start in starts]
    fits = race(replace(model, learns=False), some, makers, pool, settles=False)
    best = max(fit.bound for fit in fits)
    return starts[int(np.argmax([fit.bound >= best - MARGIN * abs(best) for fit in fits]))]


def _itself(start: Start) -> Start:
    return start
