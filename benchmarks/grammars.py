"""Inside-outside of grammars and dependency trees: against sums by BLAS and peers, by length, and
on two threads.

    python -m benchmarks.grammars [--quick]

Weights to expected counts, one thread, least CPU time of some rounds in turn; two threads by the
wall clock. torch-struct and nltk are beside if they are installed; they differ in their units:
torch-struct sums over binary trees with given weights of splits, categories and rules, and gives
marginals of rules; nltk's ViterbiParser finds one best tree.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from stickbreak.data import Sequences
from stickbreak.families import Categorical
from stickbreak.families.tags import Tags
from stickbreak.inference import MeanLog, workers
from stickbreak.kernels.tree.sentences import LogGrammar, infer_sentences, pick_sentences
from stickbreak.models import Model, dependency_model, finite_grammar
from stickbreak.stats import SERIAL
from stickbreak.structures.tree.structure import weights_of

from .report import fastest, milliseconds

Array = np.ndarray
SIZES = ((20, 10, 100), (20, 25, 20), (20, 40, 8), (60, 10, 20), (60, 25, 4))


def rules(K: int) -> tuple[Array, Array]:
    """Root (K,) and rules (K, K K) of which each row sums to one half."""
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K * K), K) / 2.0


def ours(K: int, n: int, n_units: int) -> Callable[[], Any]:
    """Expected counts by the library's kernel."""
    root, rule = rules(K)
    logs = LogGrammar(np.log(root), np.log(rule))
    evidence = np.log(np.random.default_rng(1).random((n * n_units, K)))
    offsets, none = np.arange(n_units + 1) * n, np.zeros((0, 2), dtype=np.int64)
    ends, times = np.zeros(n_units + 1, dtype=np.int64), np.ones(n_units)

    def job() -> tuple[Array, float]:
        gather, counts = np.zeros((2, K, K * K))
        at_root, rows, log_z = np.zeros(K), np.zeros((n * n_units, K)), np.empty(n_units)
        weights = weights_of(logs)
        infer_sentences(
            weights, logs, evidence, offsets, none, ends, times, gather, counts, at_root, rows,
            np.zeros((0, K)), log_z,
        )  # fmt: skip
        return counts + gather * weights.rule, float(log_z.sum())

    return job


def by_width(K: int, n: int, n_units: int) -> Callable[[], Any]:
    """The same sums in NumPy: sentences of one length side by side, products by BLAS.

    Without scales, so for short sentences only.
    """
    root, rule = rules(K)
    evidence = np.random.default_rng(1).random((n_units, n, K))

    def sides(charts: list[Array], w: int) -> tuple[Array, Array]:
        m = n - w + 1
        left = np.stack([charts[u][:, :m] for u in range(1, w)], 2)
        return left, np.stack([charts[w - u][:, u : u + m] for u in range(1, w)], 2)

    def job() -> tuple[Array, float]:
        inside, joint = [evidence, evidence], [evidence, evidence]
        for w in range(2, n + 1):
            left, right = sides(inside, w)
            both = np.matmul(left.swapaxes(2, 3), right).reshape(n_units, n - w + 1, K * K)
            joint.append(both)
            inside.append(both @ rule.T)
        total = inside[n][:, 0] @ root
        outside = [np.zeros_like(chart) for chart in inside]
        outside[n][:, 0] = root / total[:, None]
        gather = np.zeros((K, K * K))
        for w in range(n, 1, -1):
            flat = outside[w].reshape(-1, K)
            gather += flat.T @ joint[w].reshape(-1, K * K)
            message = (flat @ rule).reshape(n_units, n - w + 1, K, K)
            left, right = sides(inside, w)
            to_left, to_right = np.matmul(right, message.swapaxes(2, 3)), np.matmul(left, message)
            for u in range(1, w):
                outside[u][:, : n - w + 1] += to_left[:, :, u - 1]
                outside[w - u][:, u : u + n - w + 1] += to_right[:, :, u - 1]
        return gather * rule, float(np.log(total).sum())

    return job


def print_sizes(rounds: int) -> None:
    """Ours and by BLAS, and whether they agree."""
    print("K, n, sentences: ours, by width in NumPy, ratio")
    for K, n, count in SIZES:
        jobs = ours(K, n, count), by_width(K, n, count)
        (first, log_z), (second, other) = jobs[0](), jobs[1]()
        np.testing.assert_allclose(first, second, rtol=1e-8)
        np.testing.assert_allclose(log_z, other, rtol=1e-10)
        found = fastest(*jobs, rounds=rounds)
        texts = ", ".join(map(milliseconds, found))
        print(f"  {K:3d} {n:3d} {count:4d}: {texts}, {found[0] / found[1]:.2f}", flush=True)


def slope(sizes: Array, seconds: list[float]) -> float:
    """Exponent of time in size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def heads_job(n: int, n_units: int, n_tags: int = 20) -> Callable[[], Any]:
    """A local step of the dependency model."""
    rows = np.random.default_rng(2).integers(0, n_tags, (n * n_units, 1))
    data = Sequences(rows, offsets=np.arange(n_units + 1) * n)
    model = dependency_model(Tags(n_tags), max_length=int(n))
    return local_step(model, data, n_tags)


def local_step(model: Model, data: Sequences, K: int, pool: Any = SERIAL) -> Callable[[], Any]:
    """A local step under potentials that differ a little from equal ones."""
    rng, params = np.random.default_rng(3), model.start_params(K)
    counts = model.zeros(K)
    for array in counts.arrays.values():
        array += rng.random(array.shape)
    potentials = model.potentials(counts, params, MeanLog())
    return lambda: model.local_step(potentials, data.whole(), pool=pool)


def print_growth(rounds: int) -> None:
    """Exponents of the cost of a sentence in its words; as much work in each call."""
    sizes = np.array([40, 57, 80, 113, 160])
    for name, job, work in (
        ("trees, 5 categories", partial(ours, 5), 10000),
        ("trees, 10 categories", partial(ours, 10), 5000),
        ("heads", heads_job, 20000),
    ):
        counts = np.maximum(1, work // sizes**2)
        jobs = [job(int(n), int(count)) for n, count in zip(sizes, counts, strict=True)]
        for each in jobs:
            each()
        seconds = list(np.array(fastest(*jobs, rounds=rounds)) / counts)
        texts = ", ".join(milliseconds(float(s)) for s in seconds)
        print(
            f"{name}, {sizes[0]} to {sizes[-1]} words: exponent {slope(sizes, seconds):.2f}, of "
            f"the last two {slope(sizes[-2:], seconds[-2:]):.2f}; {texts} a sentence",
            flush=True,
        )


def print_threads(rounds: int) -> None:
    """Wall clock of a local step with one and two threads."""
    K, n, count = 10, 25, 400
    rows = np.random.default_rng(4).integers(0, 50, (n * count, 1))
    data = Sequences(rows, offsets=np.arange(count + 1) * n)
    model = finite_grammar(Categorical(0.5, n_symbols=(50,)))
    found = []
    for n_jobs in (1, 2):
        with workers(n_jobs) as pool:
            job = local_step(model, data, K, pool)
            job()
            found += fastest(job, rounds=rounds, clock=time.perf_counter)
    texts = ", ".join(map(milliseconds, found))
    print(f"one and two threads, {count} sentences of {n}, K = {K}: {texts}", end=", ")
    print(f"{found[0] / found[1]:.2f} times", flush=True)


def print_torch(rounds: int) -> None:
    """Partition and marginals of torch-struct, and the same by ours."""
    import torch
    from torch_struct import SentCFG

    torch.set_num_threads(1)
    print("torch-struct, partition and marginals: K, n, sentences: ours, theirs, ratio")
    for K, n, count in SIZES[:2]:
        root, rule = rules(K)
        # a category emits or splits, as ours: no pre-terminals of their own
        terms = torch.log(torch.rand(count, n, K))
        table = torch.full((count, K, 2 * K, 2 * K), -1e9)
        table[:, :, :K, :K] = torch.tensor(np.log(rule), dtype=torch.float32).reshape(K, K, K)
        table[:, :, K:, K:] = table[:, :, :K, K:] = table[:, :, K:, :K] = table[:, :, :K, :K]
        roots = torch.tensor(np.log(root), dtype=torch.float32).expand(count, K)

        def theirs(terms: Any = terms, table: Any = table, roots: Any = roots) -> Any:
            found = SentCFG((terms, table, roots))
            return found.partition, found.marginals

        job = ours(K, n, count)
        job()
        theirs()
        found = fastest(job, theirs, rounds=rounds)
        texts = ", ".join(map(milliseconds, found))
        print(f"  {K:3d} {n:3d} {count:4d}: {texts}, {found[1] / found[0]:.0f} times", flush=True)


def print_nltk() -> None:
    """The best tree of five words under eight categories."""
    import nltk

    K, n, words = 8, 5, "abcdefgh"
    root, rule = rules(K)
    emits = np.random.default_rng(5).dirichlet(np.ones(len(words)), K) / 2.0
    lines = [f"S -> C{a} [{root[a]:.12f}]" for a in range(K)]
    for a in range(K):
        lines += [f"C{a} -> C{p // K} C{p % K} [{rule[a, p]:.12f}]" for p in range(K * K)]
        lines += [f"C{a} -> '{word}' [{emits[a, w]:.12f}]" for w, word in enumerate(words)]
    theirs = nltk.ViterbiParser(nltk.PCFG.fromstring(lines))
    sentence = list("abcde")
    codes = np.array([words.index(word) for word in sentence])
    evidence = np.log(np.ascontiguousarray(emits[:, codes].T))
    logs, no_bracket = LogGrammar(np.log(root), np.log(rule)), np.zeros((0, 2), dtype=np.int64)
    offsets, ends = np.array([0, n]), np.zeros(2, dtype=np.int64)
    nodes, log_p, best_of = np.zeros((2 * n - 1, 4), dtype=np.int64), np.empty(1), np.zeros(0)

    def job() -> float:
        pick_sentences(logs, evidence, offsets, no_bracket, ends, best_of, nodes, log_p)
        return float(log_p[0])

    best = next(iter(theirs.parse(sentence)))
    np.testing.assert_allclose(job(), np.log(best.prob()), rtol=1e-6)
    found = [*fastest(job, rounds=20), *fastest(lambda: list(theirs.parse(sentence)), rounds=3)]
    print(f"nltk's ViterbiParser, {n} words, {K} symbols: ", end="")
    print(f"{1e6 * found[0]:.0f} us, {milliseconds(found[1])}, {found[1] / found[0]:.0f} times")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round")
    rounds = 1 if parser.parse_args().quick else 5
    print_sizes(rounds)
    print_growth(rounds)
    print_threads(rounds)
    if find_spec("torch_struct"):
        print_torch(min(rounds, 2))
    if find_spec("nltk"):
        print_nltk()


if __name__ == "__main__":
    main()
