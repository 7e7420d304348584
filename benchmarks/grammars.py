"""Inside-outside of grammars and dependency trees: against sums by BLAS and peers, by length, and
on two threads.
"""

from __future__ import annotations

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

from .report import Report, Row, fastest, milliseconds

Array = np.ndarray
NOTE = """\
Weights to expected counts, one thread, least CPU time of some rounds in turn; two threads by the
wall clock. torch-struct and nltk are beside if they are installed; they differ in their units:
torch-struct sums over binary trees with given weights of splits, categories and rules, and gives
marginals of rules; nltk's ViterbiParser finds one best tree."""
REFERENCES = ((20, 25), (60, 10))  # of the sizes below
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


def rows_of_sizes(rounds: int) -> list[Row]:
    """Ours and by BLAS, and whether they agree."""
    rows = []
    for K, n, count in SIZES:
        jobs = ours(K, n, count), by_width(K, n, count)
        (first, log_z), (second, other) = jobs[0](), jobs[1]()
        np.testing.assert_allclose(first, second, rtol=1e-8)
        np.testing.assert_allclose(log_z, other, rtol=1e-10)
        found = fastest(*jobs, rounds=rounds)
        what = f"inside-outside, K={K}, {count} sentences of {n}; peer: by width, BLAS"
        target, met = "-", None
        if (K, n) in REFERENCES:
            target, met = "at most 1.2", None if rounds == 1 else found[0] <= 1.2 * found[1]
        ratio = f"{found[0] / found[1]:.2f}"
        rows.append(Row(what, *map(milliseconds, found), ratio, target, met))
    return rows


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


def rows_of_growth(rounds: int) -> list[Row]:
    """Exponents of the cost of a sentence in its words; as much work in each call."""
    sizes, rows = np.array([40, 57, 80, 113, 160]), []
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
        found = slope(sizes, seconds)
        what = f"exponent in the words, {name}, {sizes[0]} to {sizes[-1]} words"
        shown = f"{found:.2f}, of the last two {slope(sizes[-2:], seconds[-2:]):.2f}"
        met = None if rounds == 1 else abs(found - 3.0) <= 0.2
        rows.append(Row(what, f"{shown}; {texts} a sentence", target="3.0 +- 0.2", met=met))
    return rows


def row_of_threads(rounds: int) -> Row:
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
    ratio, (one, two) = found[0] / found[1], map(milliseconds, found)
    what = f"local step, {count} sentences of {n}, K={K}: two threads; peer: one; wall clock"
    met = None if rounds == 1 else ratio >= 1.5
    return Row(what, two, one, f"{ratio:.2f}x", "1.5x", met)


def rows_of_torch(rounds: int) -> list[Row]:
    """Partition and marginals of torch-struct, and the same by ours."""
    import torch
    from torch_struct import SentCFG

    torch.set_num_threads(1)
    rows = []
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
        ratio, what = found[1] / found[0], f"K={K}, {count} sentences of {n}; peer: torch-struct"
        rows.append(Row(what, *map(milliseconds, found), f"{ratio:.0f}x", "4x", ratio >= 4))
    return rows


def row_of_nltk() -> Row:
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
    ratio = found[1] / found[0]
    what = f"best tree, {n} words, {K} symbols; peer: nltk's ViterbiParser"
    shown = f"{1e6 * found[0]:.0f} us"
    return Row(what, shown, milliseconds(found[1]), f"{ratio:,.0f}x", "1,000x", ratio >= 1000)


def run(quick: bool = False) -> Report:
    rounds = 1 if quick else 5
    rows = [*rows_of_sizes(rounds), *rows_of_growth(rounds), row_of_threads(rounds)]
    rows += rows_of_torch(min(rounds, 2)) if find_spec("torch_struct") else []
    rows += [row_of_nltk()] if find_spec("nltk") else []
    missing = [name for name in ("torch_struct", "nltk") if not find_spec(name)]
    notes = [NOTE, *([f"Not installed: {', '.join(missing)}."] if missing else [])]
    return Report("Grammars", rows, tuple(notes))
