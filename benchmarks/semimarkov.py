"""Semi-Markov kernels: rows per second, cost by length, memory, and stages against the chain.

    python -m benchmarks.semimarkov [--quick]

Evidence to counts, one thread, minimum CPU time of some rounds. Data: states in random order that
last 1 + Poisson(30) rows, normal around means three deviations apart.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaln

from stickbreak.kernels.chain.smooth import Buffers, smooth
from stickbreak.kernels.semimarkov.embedded import Draws, draw_stages, smooth_stages
from stickbreak.kernels.semimarkov.smooth import smooth_segments

Array = np.ndarray
PEAK = 57.0  # GF/s of one core in double precision, as measured when it was idle


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


def least(*jobs: Callable[[], Any], rounds: int) -> list[float]:
    """CPU seconds of each job, the least of some rounds in turn."""
    for job in jobs:
        job()
    found = np.full((rounds, len(jobs)), np.inf)
    for r in range(rounds):
        for j, job in enumerate(jobs):
            begin = time.process_time()
            job()
            found[r, j] = time.process_time() - begin
    return [float(x) for x in found.min(0)]


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


def print_speed(rounds: int) -> None:
    """Rows per second of exact messages; one multiply-add a row, length, state and direction."""
    print("exact: K, D, rows/s, GF/s (two passes), % of peak")
    for K in (10, 50):
        for D in (50, 500):
            n = 2000 * 4
            (seconds,) = least(exact_job(K, 2000, 4, D), rounds=rounds)
            rate = 4.0 * n * D * K / seconds / 1e9
            print(f"  {K:3d} {D:4d} {n / seconds:10.0f} {rate:6.2f} {100 * rate / PEAK:5.1f}")


def print_stages(rounds: int) -> None:
    """Stages against the chain with as many states, in one run."""
    print(
        "stages: K, r, sequences, rows/s, chain's rows/s, ratio of times, the same with drawn "
        "segments, (1 + r / K) 1.5"
    )
    for K in (10, 50):
        for r in (1, 5, 20):
            for count in (8, 1):
                jobs = (
                    stage_job(K, 2000, count, r), chain_job(K, 2000, count),
                    stage_job(K, 2000, count, r, draws=True),
                )  # fmt: skip
                ours, chain, drawn = least(*jobs, rounds=rounds)
                n = 2000 * count
                print(
                    f"  {K:3d} {r:3d} {count:2d} {n / ours:10.0f} {n / chain:10.0f} "
                    f"{ours / chain:5.2f} {drawn / chain:5.2f} {1.5 * (1 + r / K):5.2f}"
                )


def sampled_job(K: int, T: int, n_units: int, r: int) -> Callable[[], Any]:
    """Ten drawn segmentations of every sequence, negative binomial lengths of r stages."""
    evidence, start, steps, offsets = data(K, T, n_units)
    lengths = np.full(K, np.log(0.8)), np.full(K, r * np.log(0.2)), np.full(K, float(r))
    buffers, uniforms = Buffers(), np.random.default_rng(1).random((10, T * n_units))
    return lambda: [
        draw_stages(evidence, start, steps, lengths, offsets, each, buffers=buffers)
        for each in uniforms
    ]


def print_growth(rounds: int) -> None:
    """Exponents of the cost of a sequence in its rows, six states; as many rows in each call.

    Exact sums have a linear part (exponentials, steps between states), which is most of the work up
    to 1,500 rows. So there are three lines: all of it; what all lengths cost beyond a limit of one
    row, which is the sums over lengths by themselves; and sequences so long that these sums are
    most of the work.
    """
    short, long = np.array([500, 1000, 2000, 4000, 8000]), np.array([8000, 16000, 32000, 64000])
    for name, sizes, job in (
        ("exact, D = T", short, lambda T, n: exact_job(6, T, n, T)),
        ("exact, D = T", long, lambda T, n: exact_job(6, T, n, T)),
        ("exact, D = 100", short, lambda T, n: exact_job(6, T, n, 100)),
        ("stages, r = 5", short, lambda T, n: stage_job(6, T, n, 5)),
        ("sampled, S = 10, r = 5", short, lambda T, n: sampled_job(6, T, n, 5)),
    ):
        counts = sizes[-1] // sizes * (8 if sizes is short else 1)
        jobs = [job(int(T), int(n)) for T, n in zip(sizes, counts, strict=True)]
        least_of = np.array(least(*jobs, rounds=rounds if sizes is short else 1))
        print_exponent(name, sizes, least_of / counts)
        if name == "exact, D = T" and sizes is short:
            limited = [exact_job(6, int(T), int(n), 1) for T, n in zip(sizes, counts, strict=True)]
            least_of -= np.array(least(*limited, rounds=rounds))
            print_exponent("its sums over lengths", sizes, least_of / counts)


def print_exponent(name: str, sizes: Array, seconds: Array) -> None:
    """The slope in logarithms, and the parts that are linear and quadratic in the rows."""
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    parts = np.linalg.lstsq(np.c_[sizes, sizes**2.0] / seconds[:, None], np.ones(len(sizes)))[0]
    figures = ", ".join(f"{1e3 * s:.3f}" for s in seconds)
    print(
        f"{name}, T = {sizes[0]} to {sizes[-1]}: exponent {slope:.2f}; ms {figures}; "
        f"us a row {1e6 * parts[0]:.2f} + {1e9 * parts[1]:.3f} T / 1000"
    )


def print_memory() -> None:
    """Peak memory of a call, in numbers for each row and state, but for scratch inside kernels."""
    for name, K, T, job in (
        ("exact, D = 50", 10, 8000, exact_job(10, 8000, 1, 50)),
        ("exact, D = 500", 10, 8000, exact_job(10, 8000, 1, 500)),
        ("exact, D = T", 10, 8000, exact_job(10, 8000, 1, 8000)),
        ("exact, D = 500", 10, 32000, exact_job(10, 32000, 1, 500)),
        ("stages, r = 20", 10, 8000, stage_job(10, 8000, 1, 20)),
    ):
        tracemalloc.start()
        job()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"memory, {name}, T = {T}: {peak / 1e6:.1f} MB, {peak / 8 / T / K:.1f} numbers")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round")
    rounds = 1 if parser.parse_args().quick else 5
    print_speed(rounds)
    print_stages(rounds)
    print_growth(rounds)
    print_memory()


if __name__ == "__main__":
    main()
