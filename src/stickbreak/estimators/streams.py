"""Data that come piece by piece: what `partial_fit` does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stickbreak.data import is_on_disk
from stickbreak.inference import (
    Mover,
    MoveRecord,
    PowerDecay,
    Result,
    State,
    Stochastic,
    StochasticVB,
    Streaming,
    Trace,
    run,
    step,
    workers,
)
from stickbreak.stats import Array, Tally

from .parts import make_seed
from .progress import Phase
from .tables import Given

__all__ = ["Streams"]


class Streams:
    """Steps of streaming, or stochastic, variational Bayes from where the last call ended."""

    if TYPE_CHECKING:  # of the estimator

        def __getattr__(self, name: str) -> Any: ...

    def _stream(self, given: Given, labels: Any, total_samples: float | None) -> Self:
        """Adds what the data say to what was seen before; with total_samples (units of the whole
        data), a stochastic step.
        """
        is_first = not hasattr(self, "_counts")
        table, legal = self._read(given, labels, not is_first)
        if total_samples is not None and not total_samples > 0:
            raise ValueError(f"total_samples must be positive; got {total_samples!r}")
        engine = self._pick_engine(True)
        model = self._resolve(table) if is_first else self._continued_model(engine)
        schedule = engine.schedule if isinstance(engine, StochasticVB) else PowerDecay()
        accumulator = (
            Streaming()
            if total_samples is None
            else Stochastic(
                float(total_samples), float(total_samples) * table.n_units / table.n_spans, schedule
            )
        )
        with workers(self.n_jobs) as pool:
            on_disk = is_on_disk(table.rows)
            parts = table.parts() if on_disk else [table]
            if is_first and total_samples is None and engine.mover().moves:
                self._begin_stream(model, engine, parts[0], legal, pool)
                is_first, model, parts = False, self._model, parts[1:]
                if not parts:
                    return self
            state = self._stream_state(model, table, legal, accumulator, pool)
            mover, seen = engine.mover() if accumulator.is_exact else Mover(()), 0
            moves: list[MoveRecord] = []
            seed, limited = make_seed(self.random_state), engine.adapt(model)
            with Phase("learning", bool(self.verbose)) as phase:
                for part in parts:
                    mover.plan(
                        limited, state, part, seed + state.n_steps, True, pool, in_stream=True
                    )
                    step(
                        limited,
                        engine.rule(),
                        accumulator,
                        state,
                        part.whole(),
                        mover.watches,
                        pool,
                    )
                    moves += mover.decide(model, state)
                    for edit in model.upkeep(state.total.view()):
                        state.edit(edit)
                    seen += part.n_rows
                    phase.update(seen, table.n_rows)
            counts = state.total.summary()
            # legal sets belong to the rows of one call
            params = model.with_legal(state.params, None)
            model = engine.rule().learn(model, counts)
            bound = engine.rule().bound(model, counts, params) if accumulator.is_exact else None
            result = Result(
                counts=counts,
                params=params,
                ids=state.ids,
                next_id=state.next_id,
                n_steps=state.n_steps,
                trace=Trace(moves=[*(() if is_first else self.trace_.moves), *moves]),
                bound=np.nan if bound is None else bound,
                is_converged=False,
                model=model,
            )
            self._learn(engine, result, table, on_disk, pool)
        return self

    def _begin_stream(
        self, model: Any, engine: Any, table: Any, legal: Array | None, pool: Any
    ) -> None:
        """The first rows of a stream, fitted as rows in memory are; what they say is then
        added to.
        """
        seed = make_seed(self.random_state)
        start = self._make_start(model, table, legal, np.random.default_rng(seed), pool)
        result = run(model, replace(engine, checkpoint=None), table, start, seed=seed, pool=pool)
        self._learn(
            engine,
            replace(result, params=model.with_legal(result.params, None)),
            table,
            False,
            pool,
        )

    def _stream_state(
        self, model: Any, table: Any, legal: Array | None, accumulator: Any, pool: Any
    ) -> State:
        if hasattr(self, "_counts"):
            ids = tuple(int(i) for i in self.component_ids_)
            params = model.with_legal(self._params, legal)
            n_steps = self._n_steps
            return State(
                Tally(self._counts),
                params,
                None,
                ids,
                1,
                next_id=self._next_id,
                lap=n_steps,
                n_steps=n_steps,
            )
        rng = np.random.default_rng(make_seed(self.random_state))
        start = self._seed(model, table, legal, rng, pool)
        ids = tuple(range(int(self.n_components)))
        return accumulator.begin(start, ids, 1)
