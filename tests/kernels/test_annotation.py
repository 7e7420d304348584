"""Subtypes of given trees, and charts over listed rules, against all of them tried one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from oracles import annotation
from scipy.special import logsumexp

from stickbreak.data import as_trees, binarize, list_rules, number_trees
from stickbreak.kernels.annotation.best import pick_skeletons
from stickbreak.kernels.annotation.skeletons import AnnotatedTables, infer_skeletons
from stickbreak.structures.annotation import Annotation

Array = np.ndarray
TREES = as_trees(
    "(S (NP (D a) (N b)) (VP (V c))) (S (NP (N b)) (VP (V c) (NP (D a) (N a))))"
    "(X (N b)) (S (NP (NP (N b)) (V c) (N a)) (VP (V c))) (NP (N a) (N b) (N a))"
)
BINARY = [binarize(tree) for tree in TREES]
LISTING = list_rules(BINARY, rare=0)
GIVEN = number_trees(BINARY, LISTING)


def random_tables(H: int, seed: int, spread: float = 1.0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    sizes = {
        "root": (len(LISTING.tops), H),
        "binary_rule": (len(LISTING.binary), H, H, H),
        "unary_rule": (len(LISTING.unary), H, H),
        "word_rule": (len(LISTING.emits), H),
    }
    return {name: -spread * np.abs(rng.normal(size=size)) for name, size in sizes.items()}


def inferred(tables: dict[str, Array], times: Array) -> tuple[Array, Array, AnnotatedTables]:
    logs = AnnotatedTables(*tables.values())
    out = AnnotatedTables(*(np.zeros_like(table) for table in logs))
    n = GIVEN.offsets[-1]
    rows, log_z = np.zeros((n, logs.root.shape[1])), np.empty(len(TREES))
    weights = AnnotatedTables(*(np.exp(table) for table in logs))
    is_lossy = any((table == 0.0).any() for table in weights)
    infer_skeletons(weights, logs, is_lossy, GIVEN.rows, GIVEN.offsets, times, out, rows, log_z)
    return log_z, rows, out


@pytest.mark.parametrize(("H", "spread"), [(1, 1.0), (2, 1.0), (2, 300.0), (2, 900.0), (3, 1.0)])
def test_subtypes_of_given_trees_equal_enumeration(H: int, spread: float) -> None:
    tables, times = random_tables(H, H, spread), np.array([1.0, 2.0, 0.0, 1.0, 1.0])
    chosen = [s for s in range(len(TREES)) if H < 3 or len(GIVEN.of(s)) < 4]
    log_z, rows, out = inferred(tables, times)
    total = {name: np.zeros_like(table) for name, table in tables.items()}
    for s in chosen:
        expected = annotation.infer(tables, GIVEN.of(s))
        assert log_z[s] == pytest.approx(expected[0], rel=1e-12)
        lo, hi = GIVEN.offsets[s : s + 2]
        np.testing.assert_allclose(rows[lo:hi], times[s] * expected[2], atol=1e-10)
        for name in total:
            total[name] += times[s] * expected[1][name]
    if len(chosen) == len(TREES):
        for name, table in zip(total, out, strict=True):
            np.testing.assert_allclose(table, total[name], atol=1e-10)


@pytest.mark.parametrize(("H", "spread"), [(1, 1.0), (2, 1.0), (2, 900.0), (3, 1.0)])
def test_the_best_subtypes_of_given_trees_are_the_best_of_all(H: int, spread: float) -> None:
    tables, times = random_tables(H, H, spread), np.array([1.0, 2.0, 0.0, 1.0, 1.0])
    logs = AnnotatedTables(*tables.values())
    rows, found = np.zeros((GIVEN.offsets[-1], H)), np.empty(len(TREES))
    out = AnnotatedTables(*(np.zeros_like(table) for table in logs))
    pick_skeletons(logs, GIVEN.rows, GIVEN.offsets, times, out, rows, found)
    for s in range(len(TREES)):
        if H < 3 or len(GIVEN.of(s)) < 4:
            assert found[s] == pytest.approx(annotation.infer(tables, GIVEN.of(s))[3], rel=1e-12)
    total = sum(float((count * log).sum()) for count, log in zip(out, logs, strict=True))
    assert total == pytest.approx(times @ found, rel=1e-12)
    np.testing.assert_array_equal(rows.sum(1), np.repeat(times, np.diff(GIVEN.offsets)))
    assert all((count == np.round(count)).all() for count in out)


def test_impossible_subtypes_are_exact_zeros() -> None:
    tables = random_tables(2, 5)
    tables["binary_rule"][:, 0] = tables["word_rule"][0, 1] = -np.inf
    log_z, rows, _ = inferred(tables, np.ones(len(TREES)))
    for s in range(len(TREES)):
        expected = annotation.infer(tables, GIVEN.of(s))
        assert log_z[s] == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(
            rows[GIVEN.offsets[s] : GIVEN.offsets[s + 1]], expected[2], atol=1e-12
        )
    tables["root"][:] = -np.inf
    assert (inferred(tables, np.ones(len(TREES)))[0] == -np.inf).all()


class Potentials(dict):
    """Tables as a structure asks for them."""


def potentials_of(tables: dict[str, Array]) -> Potentials:
    coarse = {
        f"coarse_{name}": logsumexp(table.reshape(len(table), -1), axis=1)
        for name, table in tables.items()
    }
    return Potentials({**tables, **coarse})


class Block:
    """Sentences of words."""

    companion = None

    def __init__(self, sentences: list[Array]) -> None:
        self.rows = np.concatenate(sentences)
        self.offsets = np.r_[0, np.cumsum([len(one) for one in sentences])]
        self.n_rows, self.n_spans = len(self.rows), len(sentences)


SENTENCES = [np.array(words) for n in (1, 3, 4) for words in product(range(3), repeat=n)][::5]


@pytest.mark.parametrize(("H", "spread"), [(1, 1.0), (2, 1.0), (2, 300.0), (2, 900.0)])
def test_charts_equal_all_trees(H: int, spread: float) -> None:
    tables, block = random_tables(H, 7, spread), Block(SENTENCES)
    potentials, structure = potentials_of(tables), Annotation(LISTING, 0.0)
    sums = structure.log_evidence(potentials, block)
    best = Annotation(LISTING, 0.0, "viterbi").parse(potentials, block)
    product_of, shares = (
        structure.parse(potentials, block),
        structure.tree_shares(potentials, block),
    )
    n_parsed = 0
    for s, words in enumerate(SENTENCES):
        trees = annotation.all_trees(words, LISTING)
        if not trees:
            assert sums[s] == best[1][s] == product_of[1][s] == -np.inf
            assert (best[0].of(s) == -1).all()
            assert not len(shares.of(s))
            continue
        n_parsed += 1
        found = [annotation.infer(tables, nodes) for nodes in trees]
        logs = np.array([one[0] for one in found])
        assert sums[s] == pytest.approx(logsumexp(logs), rel=1e-12)
        assert best[1][s] == pytest.approx(max(one[3] for one in found), rel=1e-12)
        assert annotation.infer(tables, best[0].of(s))[3] == pytest.approx(best[1][s], rel=1e-12)
        check_product(trees, np.exp(logs - logsumexp(logs)), product_of[0].of(s), product_of[1][s])
        check_shares(trees, np.exp(logs - logsumexp(logs)), shares.of(s))
    assert n_parsed > 5


def anchored(nodes: Array) -> list[tuple]:
    """The rules of a tree with their places."""
    n, spans = len(nodes), [(i, i + 1) for i in range(len(nodes))]
    found: list[tuple] = [("root", int(nodes[0, 2]))]
    for row in nodes[1:]:
        (i, m), (_, j) = spans[row[4]], spans[row[5]]
        spans.append((i, j))
        found.append(("binary", int(row[2]), i, m, j))
    for v, (i, j) in enumerate(spans):
        rule = nodes[v, 1] if v < n else nodes[v - n + 1, 3]
        if v < n:
            found.append(("word", int(nodes[v, 0]), i))
        if rule >= 0:
            found.append(("unary", int(rule), i, j))
    return found


def check_product(trees: list[Array], shares: Array, picked: Array, log: float) -> None:
    posterior: dict[tuple, float] = {}
    for nodes, share in zip(trees, shares, strict=True):
        for rule in anchored(nodes):
            # what stands at the top is the same, whichever way it goes on below
            posterior[rule] = posterior.get(rule, 0.0) + share
    with np.errstate(divide="ignore"):  # posteriors of some rules are zero
        logs = {rule: np.log(share) for rule, share in posterior.items()}
    values = [sum(logs[rule] for rule in anchored(nodes)) for nodes in trees]
    assert log == pytest.approx(max(values), abs=1e-9)
    own = sum(logs[rule] for rule in anchored(picked))
    assert own == pytest.approx(max(values), abs=1e-9)


def check_shares(trees: list[Array], shares: Array, found: Array) -> None:
    expected: dict[tuple, float] = {}
    for nodes, share in zip(trees, shares, strict=True):
        for kind, rule, *place in anchored(nodes):
            if kind == "root":
                continue
            table = {"binary": LISTING.binary, "unary": LISTING.unary, "word": LISTING.emits}[kind]
            end = place[0] + 1 if kind == "word" else place[-1]
            key = place[0], end, int(table[rule, 0])
            expected[key] = expected.get(key, 0.0) + share
    seen = {(int(i), int(j), int(x)): p for i, j, x, p in found}
    for (i, j, x), p in expected.items():
        if "|" not in LISTING.symbols[x] and p > 1e-6:
            assert seen[i, j, x] == pytest.approx(p, abs=1e-9)


def test_sixty_words_do_not_underflow() -> None:
    tables = {name: table - 40.0 for name, table in random_tables(2, 3).items()}
    numbers = LISTING.word_numbers
    words = np.array([numbers["b"], *(numbers[word] for word in "ca" * 30)])
    found = Annotation(LISTING, 0.0).log_evidence(potentials_of(tables), Block([words]))
    assert np.isfinite(found[0])
    assert found[0] < -4000
