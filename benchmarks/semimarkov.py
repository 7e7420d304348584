"""Segments: rows per second, stages against the chain and a peer, cost by length, memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.special import gammaln

from stickbreak.kernels.chain.smooth import Buffers, smooth
from stickbreak.kernels.semimarkov.embedded import Draws, draw_stages, smooth_stages
from stickbreak.kernels.semimarkov.smooth import smooth_segments
from stickbreak.models import hdp_hmm, hdp_hsmm

from .laps import Laps, walks
from .report import Report, Row, fastest, matrix_peak, milliseconds

Array = np.ndarray
ROUNDS = 5
SHORT = np.array([500, 1000, 2000, 4000, 8000])  # rows of a sequence
LONG = np.array([8000, 16000, 32000, 64000])
PEERS = ((10, 1), (10, 5), (10, 20), (50, 5))  # states and stages
NOTES = (
    """\
Evidence to counts, one thread, CPU time, least of some rounds in turn. States in random order that
last 1 + Poisson(30) rows, normal around means three deviations apart. A sum over lengths is one
multiply-add for a row, length and state in each direction; the peak is that of a matrix product in
the same run. Stages are set against the chain with as many states; with a drawn path of each
sequence, as where r is learned. Laps are those of HDP models with Gaussians in the plane, the
number of stages learned, in 50 sequences of 2,000 rows; r is its posterior mean.""",
    """\
Exponents are slopes of log time over log rows of a sequence, with as many rows in each call, six
states. Exact sums have a linear part besides (exponentials, logarithms, steps between states): most
of the work up to 1,500 rows, so that the whole becomes quadratic late. What all lengths cost beyond
a limit of one row are the sums over lengths by themselves.""",
    """\
Dynamax has no semi-Markov model: its hidden Markov model with a state for every stage stands in,
K r states, of which the K of a stage have the same evidence, and a dense transition table. Both
give the posteriors of the K states of all rows.""",
)


def data(n_states: int, n_rows: int, n_sequences: int) -> tuple[Array, Array, Array, Array]:
    """Evidence (K, n), log start, log transition, offsets."""
    rng, parts = np.random.default_rng(0), []
    for _ in range(n_sequences):
        n = n_rows // 15 + 8
        lasts = np.repeat(rng.integers(0, n_states, n), 1 + rng.poisson(30, n))[:n_rows]
        parts.append(np.resize(lasts, n_rows))
    state = np.concatenate(parts)
    rows = 3.0 * state + rng.normal(size=len(state))
    evidence = -0.5 * (rows - 3.0 * np.arange(n_states)[:, None]) ** 2
    start = np.full(n_states, -np.log(n_states))
    steps = np.full((n_states, n_states), -np.log(max(n_states - 1, 1)))
    return evidence, start, steps, np.arange(n_sequences + 1) * n_rows


def least(*jobs: Callable[[], Any], rounds: int = ROUNDS) -> list[float]:
    """CPU seconds of each job, after a call that compiles it."""
    for job in jobs:
        job()
    return fastest(*jobs, rounds=rounds)


def exact_job(K: int, T: int, n_units: int, D: int) -> Callable[[], Any]:
    """Exact messages with Poisson lengths up to D."""
    evidence, start, steps, offsets = data(K, T, n_units)
    d = np.arange(1.0, D + 1)
    duration = np.tile((d - 1) * np.log(30.0) - 30.0 - gammaln(d), (K, 1))
    buffers = Buffers()
    return lambda: smooth_segments(
        evidence, start, steps, duration, offsets, start=np.zeros(K), transition=np.zeros((K, K)),
        duration=np.zeros((K, D)), buffers=buffers,
    )  # fmt: skip


def stage_job(K: int, T: int, n_units: int, r: int, draws: bool = False) -> Callable[[], Any]:
    """Negative binomial lengths of r stages; with drawn segments, by which r is learned."""
    evidence, start, steps, offsets = data(K, T, n_units)
    lengths = np.full(K, np.log(0.8)), np.full(K, r * np.log(0.2)), np.full(K, float(r))
    buffers, uniforms = Buffers(), np.random.default_rng(1).random(T * n_units)
    return lambda: smooth_stages(
        evidence, start, steps, lengths, offsets,
        draws=Draws.of(uniforms, n_units, lengths[2]) if draws else None, start=np.zeros(K),
        transition=np.zeros((K, K)), segments=np.zeros(K), stays=np.zeros(K), buffers=buffers,
    )  # fmt: skip


def chain_job(K: int, T: int, n_units: int) -> Callable[[], Any]:
    """The hidden Markov model with as many states."""
    (evidence, start, steps, offsets), buffers = data(K, T, n_units), Buffers()
    return lambda: smooth(
        evidence, start, steps, offsets, start=np.zeros(K), transition=np.zeros((K, K)),
        buffers=buffers,
    )  # fmt: skip


def sampled_job(K: int, T: int, n_units: int, r: int) -> Callable[[], Any]:
    """Ten drawn segmentations of every sequence, negative binomial lengths of r stages."""
    evidence, start, steps, offsets = data(K, T, n_units)
    lengths = np.full(K, np.log(0.8)), np.full(K, r * np.log(0.2)), np.full(K, float(r))
    buffers, uniforms = Buffers(), np.random.default_rng(1).random((10, T * n_units))
    return lambda: [
        draw_stages(evidence, start, steps, lengths, offsets, each, buffers=buffers)
        for each in uniforms
    ]


def speed_rows(rounds: int) -> list[Row]:
    """Rows per second of exact messages, and the part of the peak of their sums over lengths."""
    peak, rows, n = matrix_peak(), [], 2000 * 4
    for K in (10, 50):
        for D in (50, 500):
            (seconds,) = least(exact_job(K, 2000, 4, D), rounds=rounds)
            rate = 4.0 * n * D * K / seconds
            figures = f"{rate / 1e9:.2f} of {peak / 1e9:.0f} GF/s: {100 * rate / peak:.1f} %"
            rows.append(
                Row(
                    f"exact, K={K}, lengths to {D}: rows a second, part of the peak",
                    f"{n / seconds:,.0f}", "-", figures,
                )
            )  # fmt: skip
    return rows


def stage_rows(rounds: int) -> list[Row]:
    """Stages against the chain with as many states."""
    rows = []
    for K in (10, 50):
        for r in (1, 5, 20):
            for count in (8, 1):
                ours, chain, drawn = least(
                    stage_job(K, 2000, count, r), chain_job(K, 2000, count),
                    stage_job(K, 2000, count, r, draws=True), rounds=rounds,
                )  # fmt: skip
                case = f"stages, K={K}, r={r}, {count} x 2,000 rows"
                target = 1.5 * (1 + r / K)
                rows.append(against(f"{case}: counts", ours, chain, target))
                rows.append(against(f"{case}: with a drawn path", drawn, chain, target))
    return rows


def against(what: str, ours: float, chain: float, target: float) -> Row:
    """A time against that of the chain."""
    figures = milliseconds(ours), milliseconds(chain), f"{ours / chain:.2f}x"
    return Row(what, *figures, f"at most {target:.2f}x", ours / chain <= target)


def lap_rows(rounds: int, n_rows: int) -> list[Row]:
    """Laps of an HDP-HSMM by stages against those of an HDP-HMM with as many states."""
    rows, staged = [], partial(hdp_hsmm, duration_inference="embedded")
    for K in (10, 50):
        data = walks(n_rows, 2000, K)
        ours, chain = (Laps(data, K, make=make) for make in (staged, hdp_hmm))
        both = fastest(ours.lap, chain.lap, rounds=rounds)
        found = ours.model.prior.lengths.describe(ours.state.counts)
        r = float(np.mean(found["duration_stages"]))
        what = f"lap of an HDP-HSMM by stages, K={K}, mean r={r:.1f}, against the HDP-HMM"
        rows.append(against(what, *both, 1.5 * (1 + r / K)))
    return rows


def growth_rows(rounds: int) -> list[Row]:
    """Exponents of the cost of a sequence in its rows; as many rows in each call."""
    exact, rows = partial(exact_job, 6), []
    for name, job, target in (
        ("exact, no limit", lambda T, n: exact(T, n, T), (2.0, 0.15)),
        ("exact, at most 100 rows", lambda T, n: exact(T, n, 100), None),
        ("stages, r = 5", lambda T, n: stage_job(6, T, n, 5), (1.0, 0.1)),
        ("sampled, S = 10, r = 5", lambda T, n: sampled_job(6, T, n, 5), (1.0, 0.1)),
    ):
        found, counts = times_of(job, SHORT, 8, rounds)
        rows.append(exponent_row(name, SHORT, found / counts, target))
        if name == "exact, no limit":
            found -= times_of(lambda T, n: exact(T, n, 1), SHORT, 8, rounds)[0]
            name = "exact, no limit, its sums over lengths by themselves"
            rows.append(exponent_row(name, SHORT, found / counts, target))
    found, counts = times_of(lambda T, n: exact(T, n, T), LONG, 1, 1)
    return [*rows, exponent_row("exact, no limit", LONG, found / counts, None)]


def times_of(
    job: Callable[[int, int], Callable[[], Any]], sizes: Array, least_units: int, rounds: int
) -> tuple[Array, Array]:
    """Seconds of calls with sequences of all sizes, and how many sequences each has."""
    counts = sizes[-1] // sizes * least_units
    jobs = [job(int(T), int(n)) for T, n in zip(sizes, counts, strict=True)]
    return np.array(least(*jobs, rounds=rounds)), counts


def exponent_row(
    name: str, sizes: Array, seconds: Array, target: tuple[float, float] | None
) -> Row:
    """The slope in logarithms, and the parts that are linear and quadratic in the rows."""
    slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    parts = np.linalg.lstsq(np.c_[sizes, sizes**2.0] / seconds[:, None], np.ones(len(sizes)))[0]
    figures = f"{1e6 * parts[0]:.2f} µs a row + {1e9 * parts[1]:.2f} for each 1,000 rows"
    wanted, met = "-", None
    if target is not None:
        wanted, met = f"{target[0]:.1f} ± {target[1]}", abs(slope - target[0]) <= target[1]
    what = f"{name}, {sizes[0]:,} to {sizes[-1]:,} rows: exponent"
    return Row(what, f"{slope:.2f}", "-", figures, wanted, met)


def memory_rows() -> list[Row]:
    """Peak memory of a call, in numbers for each row and state, but for scratch inside kernels."""
    rows = []
    for name, K, T, job in (
        ("exact, lengths to 50", 10, 8000, exact_job(10, 8000, 1, 50)),
        ("exact, lengths to 500", 10, 8000, exact_job(10, 8000, 1, 500)),
        ("exact, no limit", 10, 8000, exact_job(10, 8000, 1, 8000)),
        ("exact, lengths to 500", 10, 32000, exact_job(10, 32000, 1, 500)),
        ("stages, r = 20", 10, 8000, stage_job(10, 8000, 1, 20)),
    ):
        tracemalloc.start()
        job()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        what = f"memory, {name}, K={K}, {T:,} rows"
        rows.append(Row(what, f"{peak / 1e6:.1f} MB", "-", f"{peak / 8 / T / K:.0f} numbers"))
    return rows


def peer_rows(rounds: int) -> list[Row]:
    """Stages, exact sums and the chain against dynamax, if it is installed."""
    if find_spec("dynamax") is None:
        return [Row("dynamax's chain with a state for every stage", "-", "not installed")]
    from .semimarkov_peers import COUNT, T, peer_job

    rows, n = [], T * COUNT
    for K, r in PEERS:
        jobs = stage_job(K, T, COUNT, r), exact_job(K, T, COUNT, 500)
        peer = peer_job(K, r)
        gap = float(np.abs(np.asarray(peer()[0]) - jobs[0]()[0]).max())
        stages, exact, theirs = least(*jobs, peer, rounds=rounds)
        for name, ours in (("stages", stages), ("exact, lengths to 500", exact)):
            what = f"{name}, K={K}, r={r}, against dynamax with {K * r} states: rows a second"
            figures = f"{n / ours:,.0f}", f"{n / theirs:,.0f}", f"{theirs / ours:.1f}x as fast"
            rows.append(Row(what, *figures))
        rows.append(
            Row(f"largest gap of its log evidence to that of stages, K={K}, r={r}", f"{gap:.0e}")
        )
    return rows


def run(quick: bool = False) -> Report:
    rounds = 1 if quick else ROUNDS
    rows = [
        *speed_rows(rounds), *stage_rows(rounds), *lap_rows(rounds, 20_000 if quick else 100_000),
        *growth_rows(rounds), *memory_rows(), *peer_rows(rounds),
    ]  # fmt: skip
    return Report("Segments", rows, NOTES, peer="chain, or dynamax")
