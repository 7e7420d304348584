"""Default steps of stochastic inference of chains, against careful ones and the end of batch
inference, on a million rows of three kinds.
"""

from __future__ import annotations

import numpy as np

import stickbreak as sb

from .frame import Experiment, Row, is_quick, seeds
from .one_pass import draw_parameters

LAPS = (1, 3)
CAREFUL = {"kappa": 0.6, "delay": 10.0}
N_STATES, N_SYMBOLS, N_VISITED = 10, 200, 3


def paths(rows: np.ndarray, n: int, length: int, rng: np.random.Generator) -> np.ndarray:
    """(n, length) states of chains; rows (n or 1, K, K) of transitions."""
    state, found = np.zeros(n, dtype=int), np.empty((n, length), dtype=int)
    edges, each = rows.cumsum(2)[..., :-1], np.arange(n) % len(rows)
    for t, uniforms in enumerate(rng.random((length, n))):
        state = found[:, t] = (uniforms[:, None] > edges[each, state]).sum(1)
    return found


def draw_rows(kind: str, n: int, length: int, seed: int) -> list[np.ndarray]:
    """Sequences of one kind."""
    rng = np.random.default_rng([seed, 16])
    means, factors, table = draw_parameters(rng)
    rows = table[None, :N_STATES]
    if kind == "few states a sequence":
        keep = np.zeros((n, N_STATES))
        for line in keep:
            line[rng.choice(N_STATES, N_VISITED, replace=False)] = 1.0
        rows = rows * keep[:, None, :] + 1e-12
        rows = rows / rows.sum(2, keepdims=True)
    path = paths(rows, n, length, rng)
    if kind == "symbols":
        words = rng.dirichlet(np.full(N_SYMBOLS, 0.1), N_STATES).cumsum(1)
        drawn = (rng.random(path.shape)[..., None] > words[path, :-1]).sum(2)
        return list(drawn.astype(np.int64)[..., None])
    noise = rng.standard_normal((*path.shape, 2))
    return list(means[path] + np.einsum("stij,stj->sti", factors[path], noise))


KINDS = {
    "all states in each sequence": (250, 4000),
    "few states a sequence": (250, 4000),
    "symbols": (2000, 500),
}


def gaps(kind: str, n: int, length: int, seed: int) -> dict[str, list[float]]:
    """Nats a row that the bound is below that of batch inference, by kind of steps and laps."""
    X, family = draw_rows(kind, n, length, seed), "gaussian"
    if kind == "symbols":
        family = sb.Categorical(0.1, n_symbols=N_SYMBOLS)

    def fit(engine: object) -> float:
        model = sb.HMM(N_STATES, family=family, init="blocks", inference=engine, random_state=seed)
        return float(model.fit(X).lower_bound_) / (n * length)

    best = fit(sb.BatchVB(max_iter=60, tol=1e-6))
    found = {}
    for name, settings in (("careful", CAREFUL), ("default", {})):
        found[name] = [
            best - fit(sb.StochasticVB(max_iter=laps, tol=0.0, **settings)) for laps in LAPS
        ]
    return found


def run() -> Experiment:
    """Two seeds of each kind."""
    rows = []
    for kind, (n, length) in KINDS.items():
        if is_quick():
            n, length = 40, 300
        for seed in seeds(2):
            found = gaps(kind, n, length, seed)
            text = "; ".join(
                f"{name} {', '.join(f'{gap:.4f}' for gap in values)}"
                for name, values in found.items()
            )
            print(kind, seed, text, flush=True)
            rows.append(Row(f"{kind}, seed {seed}: nats a row behind, 1 and 3 laps", text))
    text = (
        "A million rows of chains with ten states: Gaussian rows in the plane, 250 sequences of "
        "4,000, that visit all states or three each; 200 symbols, 2,000 sequences of 500. "
        "`HMM(10, init='blocks')`; the bound a row below that of `BatchVB` after at most 60 laps "
        "from the same start. Careful: `StochasticVB(kappa=0.6, delay=10)`, 8,192 rows a step. "
        "Default: `StochasticVB()`, whose steps the data declare."
    )
    return Experiment("Steps of noisy inference", text, rows, "", "")


if __name__ == "__main__":
    run()
