"""Forward-backward with expected counts against hmmlearn's compiled code; rows that use a few
states against all of them.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from hmmlearn import _hmmc

from stickbreak.inference import workers
from stickbreak.kernels.chain.smooth import Buffers, linear_tables, smooth
from stickbreak.kernels.chain.sparse import smooth_sparse

from .report import Report, Row, fastest, milliseconds
from .threads import TARGET as THREADS_TARGET
from .threads import idle_note, is_idle, others

# of a call: at least so many numbers of evidence, and so many sequences
BLOCK_NUMBERS, BLOCK_SEQUENCES = 1 << 17, 256
ROUNDS = 10
FEW = 8  # states of a row, of 200
NOTE = f"""\
From log evidence to log likelihoods and expected counts on both sides, one thread. The peer is
hmmlearn {{version}}: `exp`, `forward_scaling`, `backward_scaling` and `compute_scaling_xi_sum` for
each sequence, without the posteriors of the rows, which ours gives too. Ours is called with
{BLOCK_NUMBERS} numbers of evidence at a time, or with {BLOCK_SEQUENCES} sequences if they have
more. Sentences have lengths like those of the Brown corpus: 1 to 180, mean 21. Few states: each
row may be in {FEW} of 200. Two threads smooth one half of the sequences each, one thread both
halves: wall clock."""


class Case(NamedTuple):
    name: str
    n_states: int
    lengths: np.ndarray
    target: float


class Chains:
    """Evidence of sequences with these lengths, and both ways to smooth them."""

    def __init__(self, case: Case, seed: int = 0) -> None:
        rng, K, lengths = np.random.default_rng(seed), case.n_states, case.lengths
        self.start, self.transition = rng.dirichlet(np.ones(K)), rng.dirichlet(np.full(K, 0.7), K)
        self.log_start, self.log_transition = np.log(self.start), np.log(self.transition)
        self.sequences = [rng.normal(0.0, 1.5, (T, K)) for T in lengths]
        self.blocks = list(self._blocks(lengths))
        self.buffers, self.out = Buffers(), np.empty(max(block.size for block, _ in self.blocks))

    def _blocks(self, lengths: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        first = 0
        while first < len(lengths):
            reached = np.searchsorted(
                np.cumsum(lengths[first:]), BLOCK_NUMBERS // len(self.start), side="right"
            )
            last = first + max(BLOCK_SEQUENCES, int(reached))
            rows = np.concatenate(self.sequences[first:last])
            yield np.ascontiguousarray(rows.T), np.r_[0, np.cumsum(lengths[first:last])]
            first = last

    def ours(self) -> np.ndarray:
        K = len(self.start)
        start, transition = np.zeros(K), np.zeros((K, K))
        tables = linear_tables(self.log_start, self.log_transition)
        for evidence_t, offsets in self.blocks:
            out = self.out[: evidence_t.size].reshape(evidence_t.shape)
            potentials = evidence_t, self.log_start, self.log_transition, offsets
            smooth(
                *potentials,
                start=start,
                transition=transition,
                out=out,
                tables=tables,
                buffers=self.buffers,
            )
        return transition

    def peer(self) -> np.ndarray:
        transition = np.zeros_like(self.transition)
        for evidence in self.sequences:
            likelihood = np.exp(evidence)
            _, forward, scale = _hmmc.forward_scaling(self.start, self.transition, likelihood)
            backward = _hmmc.backward_scaling(self.start, self.transition, likelihood, scale)
            transition += _hmmc.compute_scaling_xi_sum(
                forward, self.transition, backward, likelihood
            )
        return transition


def sentence_lengths(n: int) -> np.ndarray:
    """Skewed, mean 21, at most 180."""
    return np.clip(np.random.default_rng(1).gamma(2.2, 21 / 2.2, n).round().astype(int), 1, 180)


def cases(size: float) -> list[Case]:
    """size: share of the sequences, or of the rows of a single one."""
    some = lambda n: max(1, int(n * size))
    short = [
        Case(f"T=20 K={K}", K, np.full(some(n), 20), 8.0)
        for K, n in ((5, 4000), (12, 2000), (50, 800), (200, 200))
    ]
    long = [
        Case(f"T=1000 K={K}", K, np.full(some(n), 1000), target)
        for K, n, target in ((5, 100, 2.3), (12, 100, 6.0), (50, 32, 10.0), (200, 8, 12.0))
    ]
    sentences = [
        Case(f"sentences K={K}", K, sentence_lengths(some(n)), 8.0)
        for K, n in ((12, 2000), (45, 800))
    ]
    single = [
        Case(f"one chain of {T} rows K={K}", K, np.array([some(T)]), target)
        for K, T, target in ((5, 100_000, 1.5), (12, 100_000, 3.5), (50, 40_000, 5.5))
    ]
    return short + long + sentences + single


def few_states(size: float) -> tuple[Callable[[], object], Callable[[], object]]:
    """Smoothing over FEW of 200 states, and over all."""
    K, n_rows, rng = 200, max(40, int(4000 * size)), np.random.default_rng(0)
    chains = Chains(Case("few", K, np.full(n_rows // 40, 40), 0.0))
    evidence_t, offsets = chains.blocks[0]
    others = rng.permuted(np.tile(np.arange(K), (evidence_t.shape[1], 1)), axis=1)[:, : FEW - 1]
    best = evidence_t.argmax(0)[:, None]
    support = np.concatenate([best, np.where(others == best, -1, others)], axis=1)
    evidence = np.take_along_axis(evidence_t.T, np.maximum(support, 0), axis=1)
    tables = linear_tables(chains.log_start, chains.log_transition)
    start, transition = np.zeros(K), np.zeros((K, K))

    def few() -> None:
        potentials = evidence, support, chains.log_start, chains.log_transition, offsets
        smooth_sparse(*potentials, start=start, transition=transition, tables=tables)

    def dense() -> None:
        potentials = evidence_t, chains.log_start, chains.log_transition, offsets
        out = chains.out[: evidence_t.size].reshape(evidence_t.shape)
        smooth(
            *potentials,
            start=start,
            transition=transition,
            out=out,
            tables=tables,
            buffers=chains.buffers,
        )

    return few, dense


def two_threads(size: float, rounds: int) -> Iterator[tuple[str, float, float]]:
    """Least seconds of two threads, which smooth one half of the sequences each, and of one thread
    that smooths both.
    """
    for K, n, T in ((12, 400, 1000), (12, 20_000, 20), (50, 100, 1000), (50, 5000, 20)):
        halves = [
            Chains(Case("half", K, np.full(max(1, int(n * size) // 2), T), 0.0), seed)
            for seed in (0, 1)
        ]
        with workers(2) as pool:
            pair = (
                lambda halves=halves: list(pool.map(Chains.ours, halves)),
                lambda halves=halves: list(map(Chains.ours, halves)),
            )
            shared, alone = fastest(*pair, rounds=rounds, clock=time.perf_counter)
        yield (
            f"two threads, {sum(len(half.sequences) for half in halves) * T} rows T={T} K={K}",
            shared,
            alone,
        )


def run(quick: bool = False) -> Report:
    used = others()
    rows, size, rounds = [], 0.1 if quick else 1.0, 3 if quick else ROUNDS
    for case in cases(size):
        chains = Chains(case)
        np.testing.assert_allclose(chains.ours(), chains.peer(), rtol=1e-7, atol=1e-7)
        ours, peer = fastest(chains.ours, chains.peer, rounds=rounds)
        target_met = None if quick else peer / ours >= case.target
        rows.append(
            Row(
                case.name,
                milliseconds(ours),
                milliseconds(peer),
                f"{peer / ours:.2f}x",
                f"{case.target}x",
                target_met,
            )
        )
    few, dense = few_states(size)
    few()
    ours, peer = fastest(few, dense, rounds=rounds)
    target_met = None if quick else peer / ours >= 4.0
    rows.append(
        Row(
            f"{FEW} of 200 states",
            milliseconds(ours),
            milliseconds(peer),
            f"{peer / ours:.2f}x",
            "4x",
            target_met,
        )
    )
    for name, shared, alone in two_threads(size, rounds):
        target_met = alone / shared >= THREADS_TARGET if is_idle(used) and not quick else None
        figures = (
            milliseconds(shared),
            milliseconds(alone),
            f"{alone / shared:.2f}x",
            f"{THREADS_TARGET}x",
        )
        rows.append(Row(name, *figures, target_met))
    note = NOTE.format(version=importlib.metadata.version("hmmlearn"))
    return Report(
        "Markov chains", rows, (note, idle_note(used)), peer="hmmlearn; all 200 states; one thread"
    )
