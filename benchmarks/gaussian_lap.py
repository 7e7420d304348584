"""One lap of a full-covariance Gaussian mixture against one iteration of scikit-learn's
BayesianGaussianMixture.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.mixture import BayesianGaussianMixture

from .laps import Laps, clusters
from .report import Report, Row, fastest, matrix_peak, milliseconds

# rows, columns, components, target
CASES = [(100_000, 10, 10, 5.5), (50_000, 10, 100, 9.0), (8_000, 50, 100, 3.0)]

ROUNDS = {10: 40, 100: 12}  # the least of a short lap needs more of them
NOTE = """\
A lap is local step, statistics, upkeep, global step and bound; the peer's iteration is `_e_step`,
`_m_step` and `_compute_lower_bound` from the same responsibilities. Products: 4 N P K flop, P
quadratic features of a row, over the time of the whole lap and over that of the two matrix
products alone; their peer is a 1000 x 1000 matrix product in the same run."""


def peer_iteration(X: np.ndarray, laps: Laps) -> Callable[[], None]:
    """Local step, global step and bound of scikit-learn, from the same responsibilities."""
    K = laps.state.n_components
    peer = BayesianGaussianMixture(
        n_components=K,
        weight_concentration_prior_type="dirichlet_distribution",
        init_params="random_from_data",
        max_iter=1,
        random_state=0,
    )
    with warnings.catch_warnings(), np.errstate(divide="ignore"):
        warnings.simplefilter("ignore")  # one iteration does not converge, as intended
        peer.fit(X)
        peer._m_step(X, np.log(laps.model.shares(laps.potentials(), laps.batches[0])))

    def iterate() -> None:
        log_norm, log_shares = peer._e_step(X)
        peer._m_step(X, log_shares)
        peer._compute_lower_bound(log_shares, log_norm)

    return iterate


def products_alone(laps: Laps) -> Callable[[], None]:
    """The two matrix products of a lap on features and shares that are already there, block by
    block as in a lap.
    """
    potentials, batch = laps.potentials(), laps.batches[0]
    size = laps.model.block_rows(laps.state.n_components)
    rows = laps.model.family.prepare(batch.rows[:size])
    shares, out = potentials.scores.evidence(rows), dict(potentials.empty.empty().arrays)

    def multiply() -> None:
        for _ in range(batch.n_rows // size):
            potentials.scores.evidence(rows)
            potentials.scores.collect(rows, shares, out)

    return multiply


def gigaflops(rate: float) -> str:
    return f"{rate / 1e9:.1f} GFLOP/s"


def run(quick: bool = False) -> Report:
    rows, peak = [], matrix_peak()
    for n, D, K, target in CASES:
        n = n // 10 if quick else n
        X = clusters(n, D, K)
        laps = Laps(X, K)
        ours, peer, alone = fastest(
            laps.lap,
            peer_iteration(X, laps),
            products_alone(laps),
            rounds=3 if quick else ROUNDS[K],
        )
        case, target_met = f"N={n} D={D} K={K}", None if quick else peer / ours >= target
        rows.append(
            Row(
                case,
                milliseconds(ours),
                milliseconds(peer),
                f"{peer / ours:.2f}x",
                f"{target}x",
                target_met,
            )
        )
        width, size = laps.model.family.width(), laps.model.block_rows(K)
        for what, done, seconds in (
            ("products per lap", n, ours),
            ("products alone", n - n % size, alone),
        ):
            rate = 4.0 * done * width * K / seconds
            rows.append(
                Row(f"{case}: {what}", gigaflops(rate), gigaflops(peak), f"{rate / peak:.0%}")
            )
    return Report("Gaussian mixture lap", rows, (NOTE,), peer="scikit-learn; matrix peak")
