"""Laps of hidden Markov models in which a row is in a few states, against dense laps of our own."""

from __future__ import annotations

import numpy as np

from stickbreak.data import Sequences, measure
from stickbreak.families import Gaussian
from stickbreak.inference import Start
from stickbreak.initialize import count_labels
from stickbreak.models import finite_hmm

from .laps import Laps
from .report import Report, Row, fastest, milliseconds

N_STATES, ACTIVE, STAY, NEIGHBOURS, N_LAPS = 200, 8, 0.8, 6, 6
# of neighbouring means; rows have a standard deviation of 1
SPREADS = {"apart": 3.0, "overlapping": 1.0}
TARGETS = {20: 2.5, 1_000: 4.0, 100_000: 3.0}
NOTE = f"""\
Gaussian emissions with 2 columns, {N_STATES} states on a grid, each of which leads to {NEIGHBOURS}
others; both sides begin with the counts of the true states and make laps turn by turn: evidence,
states, statistics, global step, bound, and in limited laps the checks that `disagreement` is made
of. Rows may be in {ACTIVE} states. Lost: nats per row of log_z, at the same globals."""


def chain_rows(
    n_rows: int, length: int, spread: float, seed: int = 0
) -> tuple[Sequences, np.ndarray]:
    """Sequences of equal lengths, and their states."""
    rng = np.random.default_rng(seed)
    side = int(np.ceil(np.sqrt(N_STATES)))
    means = spread * np.stack([np.arange(N_STATES) % side, np.arange(N_STATES) // side], axis=1)
    table = STAY * np.eye(N_STATES)
    for line in table:
        line[rng.choice(N_STATES, NEIGHBOURS, replace=False)] += (1 - STAY) * rng.dirichlet(
            np.ones(NEIGHBOURS)
        )
    reached, uniforms = table.cumsum(1), rng.random((n_rows // length, length))
    states = np.empty(uniforms.shape, dtype=int)
    states[:, 0] = rng.integers(N_STATES, size=len(states))
    for t in range(1, length):
        states[:, t] = np.minimum(
            (reached[states[:, t - 1]] < uniforms[:, t, None]).sum(1), N_STATES - 1
        )
    rows = means[states.ravel()] + rng.normal(size=(states.size, 2))
    return Sequences(rows, offsets=np.arange(len(states) + 1) * length), states.ravel()


def compare(name: str, n_rows: int, length: int, target: float | None) -> list[Row]:
    data, states = chain_rows(n_rows, length, SPREADS[name])
    model = finite_hmm(Gaussian().resolve(measure(data)))
    start = Start(count_labels(model, data.whole(), states, N_STATES), model.start_params(N_STATES))
    few, dense = (
        Laps(data, N_STATES, start=start, make=finite_hmm, **limits)
        for limits in ({"max_active": ACTIVE}, {})
    )
    ours, peer = fastest(few.lap, dense.lap, rounds=N_LAPS - 2)  # Laps has made the first two
    potentials = dense.potentials()
    log_z = [m.local_step(potentials, data.whole())[0].log_z for m in (dense.model, few.model)]
    case, met = (
        f"{n_rows // length} x {length} rows, {name}",
        None if target is None else peer / ours >= target,
    )
    goal = "-" if target is None else f"{target}x"
    lost = f"{(log_z[0] - log_z[1]) / n_rows:.1e}"
    return [
        Row(case, milliseconds(ours), milliseconds(peer), f"{peer / ours:.2f}x", goal, met),
        Row(f"{case}: lost", lost),
    ]


def run(quick: bool = False) -> Report:
    rows = []
    for length, target in TARGETS.items():
        if quick and length > 1_000:
            continue
        rows += compare("apart", 4_000 if quick else 100_000, length, None if quick else target)
    rows += compare("overlapping", 4_000 if quick else 100_000, 1_000, None)
    return Report(
        "Chains with few states a row", rows, (NOTE,), ours="limited lap", peer="dense lap"
    )
