"""One lap of an HDP hidden Markov model against one with a Dirichlet for every row, and two threads
against one for both.
"""

from __future__ import annotations

from stickbreak.models import finite_hmm, hdp_hmm

from .laps import Laps, walks
from .report import Report, Row, fastest, milliseconds
from .threads import compare, idle_note, is_idle, others

MODELS = {"HDP-HMM": hdp_hmm, "HMM": finite_hmm}
TARGET = 1.2
N_ROWS, MORE_ROWS = 100_000, 400_000
CASES = [(12, 100), (12, 1000), (50, 100), (50, 1000)]  # states, rows of a sequence
ROUNDS = {12: 30, 50: 12}
NOTE = """\
One batch, Gaussians with D=2, full covariance. A lap is local step, statistics, upkeep, global
step (which moves the root of the HDP) and bound; both models see the same sequences, in turn, from
the third lap on. HDP-HMM against HMM: CPU time, one thread. What a lap does once for all rows
(potentials, the root, the bound) takes 1.4 ms and is not shared out: a tenth of the shortest."""


def make_laps(n_states: int, length: int, n_rows: int) -> dict[str, Laps]:
    """A fit of each model to the same sequences."""
    data = walks(n_rows, length, n_states)
    return {name: Laps(data, n_states, make=make) for name, make in MODELS.items()}


def run(quick: bool = False) -> Report:
    used, rows, threads = others(), [], []
    for K, length in CASES:
        laps, rounds = (
            make_laps(K, length, N_ROWS // 10 if quick else N_ROWS),
            3 if quick else ROUNDS[K],
        )
        case = f"{laps['HMM'].batches[0].n_rows} rows in sequences of {length}, K={K}"
        ours, peer = fastest(laps["HDP-HMM"].lap, laps["HMM"].lap, rounds=rounds)
        target_met = None if quick else ours / peer <= TARGET
        rows.append(
            Row(
                case,
                milliseconds(ours),
                milliseconds(peer),
                f"{ours / peer:.2f}x",
                f"at most {TARGET}x",
                target_met,
            )
        )
        for more in (laps, make_laps(K, length, MORE_ROWS // 10 if quick else MORE_ROWS)):
            for name in MODELS:
                of_threads = (
                    f"{more[name].batches[0].n_rows} rows in sequences of {length}, K={K}, {name}"
                )
                threads += compare(more[name], rounds=3 if quick else 10).rows(
                    of_threads, is_idle(used) and not quick
                )
    return Report(
        "Laps of chains",
        rows + threads,
        (NOTE, idle_note(used)),
        ours="HDP-HMM; two threads",
        peer="HMM; one thread",
    )
