"""A collapsed sweep that counts the steps that sequences do not take, against one without them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import stickbreak as sb
from stickbreak.data import Sequences
from stickbreak.inference import ExcludeOwn
from stickbreak.initialize import from_local
from stickbreak.models import Model, finite_hmm, hdp_hmm
from stickbreak.stats import SERIAL

from .report import Report, Row, fastest, milliseconds

TARGET = 2.0
N_ROWS, N_SYMBOLS = 20_000, 200
CASES = [(10, 50), (20, 50), (45, 25), (45, 100)]  # states, rows of a sequence
NOTE = """\
Symbols of one column, random sequences, one thread, CPU time. Both sweeps see the same sequences,
from random chains, in turn: `HDPHMM(root="tables")` with `existence="independent"` keeps the log
probability that a sequence lacks each step, a finite HMM does not."""


def make_sweep(model: Model, data: Sequences, n_states: int) -> Callable[[], None]:
    """One sweep after another."""
    start = from_local(model, data, n_states, np.random.default_rng(0))
    kept = {"counts": start.seed, "own": start.warm}

    def sweep() -> None:
        found = ExcludeOwn().visit(
            model, kept["counts"], start.params, data.whole(), kept["own"], (), SERIAL
        )
        kept["counts"], kept["own"] = found

    sweep()
    return sweep


def run(quick: bool = False) -> Report:
    rows, family = [], sb.Categorical(0.1, (N_SYMBOLS,))
    for n_states, length in CASES:
        n = (N_ROWS // 10 if quick else N_ROWS) // length
        symbols = np.random.default_rng(0).integers(N_SYMBOLS, size=(n * length, 1))
        data = Sequences(symbols, offsets=np.arange(0, n * length + 1, length))
        sweeps = [
            make_sweep(model, data, n_states)
            for model in (hdp_hmm(family, root="tables"), finite_hmm(family))
        ]
        ours, plain = fastest(*sweeps, rounds=3 if quick else 15)
        case = f"{n * length} symbols in sequences of {length}, K={n_states}"
        is_met = None if quick else ours / plain <= TARGET
        figures = milliseconds(ours), milliseconds(plain), f"{ours / plain:.2f}x"
        rows.append(Row(case, *figures, f"at most {TARGET:g}x", is_met))
    return Report("Sweeps with table counts", rows, (NOTE,), ours="tables", peer="without")
