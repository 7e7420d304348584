"""What must come out, by enumeration and by textbook formulas: nothing here uses a double's own
mathematics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, logsumexp

from stickbreak.data import Batch
from stickbreak.protocols import Local
from stickbreak.stats import Fields

Array = np.ndarray


class Labelling(NamedTuple):
    """Component of each row, the counts of the prior's fields, and a known log weight."""

    labels: list[int]
    counts: dict[str, Array]
    log_known: float = 0.0


def paths(unit: Batch, K: int) -> Iterator[Labelling]:
    """All paths of a unit's rows through K states."""
    for path in product(range(K), repeat=unit.n_rows):
        counts = {"initial": np.zeros(K), "transition": np.zeros((K, K))}
        counts["initial"][path[0]] += 1
        for a, b in pairwise(path):
            counts["transition"][a, b] += 1
        yield Labelling(list(path), counts)


def trees(unit: Batch, K: int) -> Iterator[Labelling]:
    """All binary trees over a unit's words with K categories."""

    def under(size: int, a: int) -> Iterator[tuple[list[int], list[tuple[int, int, int]]]]:
        if size == 1:
            yield [a], []
        for m in range(1, size):
            for b, c in product(range(K), repeat=2):
                for left, right in product(under(m, b), under(size - m, c)):
                    yield left[0] + right[0], [(a, b, c), *left[1], *right[1]]

    for a in range(K):
        for labels, rules in under(unit.n_rows, a):
            counts = {
                "root": np.eye(K)[a],
                "kind": np.zeros((K, 2)),
                "binary_rule": np.zeros((K, K, K)),
            }
            for label in labels:
                counts["kind"][label, 0] += 1
            for rule in rules:
                counts["kind"][rule[0], 1] += 1
                counts["binary_rule"][rule] += 1
            yield Labelling(labels, counts)


def annotations(unit: Batch, K: int) -> Iterator[Labelling]:
    """All subtypes of the nodes of a given tree."""
    nodes, n = unit.companion.rows, unit.n_rows
    for subtypes in product(range(K), repeat=len(nodes)):
        counts = {
            "root": np.eye(K)[subtypes[-1]],
            "tag": np.zeros((2, K)),
            "binary_rule": np.zeros((2, K, K, K)),
        }
        for v, (label, left, right) in enumerate(nodes):
            if v < n:
                counts["tag"][label, subtypes[v]] += 1
            else:
                counts["binary_rule"][label, subtypes[v], subtypes[left], subtypes[right]] += 1
        yield Labelling(list(subtypes[:n]), counts)


def alignments(unit: Batch, K: int) -> Iterator[Labelling]:
    """All alignments of a pair: a position, or NULL, for every target word."""
    source = [0, *unit.companion.rows.tolist()]
    for positions in product(range(len(source)), repeat=unit.n_rows):
        n_null = positions.count(0)
        kind = np.array([n_null, unit.n_rows - n_null], dtype=float)
        log_known = -kind[1] * np.log(len(source) - 1)
        yield Labelling([source[p] for p in positions], {"kind": kind}, log_known)


def prepared(model: Any, batch: Batch) -> Batch:
    return batch.with_rows(model.family.prepare(batch.rows))


def infer(
    model: Any, potentials: Any, batch: Batch, warm: Fields | None = None
) -> tuple[Local, dict[str, Array]]:
    """The structure's own step on a batch as one block, and the prior's counts."""
    out = {name: np.zeros_like(array) for name, array in potentials.empty.arrays.items()}
    return model.step.infer_by(model.structure)(potentials, prepared(model, batch), warm, out), out


def log_weights(potentials: Any, evidence: Array, labellings: list[Labelling]) -> Array:
    """Log weight of each labelling of one unit."""
    tables = lambda counts: sum(float((potentials[n] * c).sum()) for n, c in counts.items())
    return np.array(
        [
            tables(counts) + evidence[np.arange(len(labels)), labels].sum() + log_known
            for labels, counts, log_known in labellings
        ]
    )


def dirichlet_multinomial(counts: Array, concentration: float) -> float:
    """Log probability of drawing these counts, in one order, from rows (R, V) with a symmetric
    Dirichlet each.
    """
    rows = np.atleast_2d(counts)
    prior = rows.shape[1] * concentration
    each = (
        (gammaln(rows + concentration) - gammaln(concentration)).sum(1)
        + gammaln(prior)
        - gammaln(rows.sum(1) + prior)
    )
    return float(each.sum())


def one_a_row(name: str, table: Array) -> Array:
    """The counts of a field, one distribution a row: (K, V) of a tag given the subtype, ..."""
    if name == "binary_rule":
        return table.reshape(-1, table.shape[-1] ** 2)
    return table.T if name == "tag" else np.atleast_2d(table)


def log_evidence(model: Any, batch: Batch, n_components: int, labellings: Any) -> float:
    """Exact log evidence of a tiny batch: all labellings of all units, tables integrated out."""
    K, joints = n_components, []
    units = [list(labellings(batch.part(u, u + 1), K)) for u in range(batch.n_spans)]
    scores, rows = model.family.mean_log(model.family.zeros(K)), model.family.prepare(batch.rows)
    for choice in product(*units):
        emitted = model.family.zeros(K)
        labels = np.concatenate([labelling.labels for labelling in choice])
        scores.collect(rows, np.asfortranarray(np.eye(K)[labels]), emitted)
        joint = float(model.family.log_marginal(emitted).sum())
        joint += sum(labelling.log_known for labelling in choice)
        for name in choice[0].counts:
            table = sum(labelling.counts[name] for labelling in choice)
            joint += dirichlet_multinomial(one_a_row(name, table), model.prior.concentration)
        joints.append(joint)
    return float(logsumexp(joints))


# ---------------------------------------------------------------------------------------- documents


def dirichlet_divergence(q: Array, p: Array) -> float:
    """KL(Dirichlet(q) || Dirichlet(p))."""
    log_mean = digamma(q) - digamma(q.sum())
    normalizer = lambda a: gammaln(a).sum() - gammaln(a.sum())
    return float((q - p) @ log_mean - normalizer(q) + normalizer(p))


def document_part(
    shares: Array, repeats: Array, q: Array, prior: Array, n_components: int
) -> float:
    """E[log p(labels, share)] - E[log q] of one unit; q and prior are Dirichlet parameters, the
    rest (if any) last.
    """
    r = shares / repeats[:, None]
    log_share = (digamma(q) - digamma(q.sum()))[:n_components]
    words = repeats @ (r @ log_share - (r * np.log(np.where(r > 0, r, 1.0))).sum(1))
    return float(words) - dirichlet_divergence(q, prior)


def folded(local: Local, pairs: list[tuple[int, int]]) -> tuple[Array, Array]:
    """Shares and unit counts of documents whose components of each pair were made one; K -
    len(pairs) columns.
    """
    (counts, _), shares = local.memo, local.shares
    fold = np.eye(shares.shape[1])
    for a, b in pairs:
        fold[b] = fold[a]
    fold = np.delete(fold, [b for _, b in pairs], axis=1)
    return shares @ fold, counts @ fold


def perturbed(potentials: Any, name: str, at: tuple[int, ...], size: float) -> Any:
    """The same potentials with one entry of one table changed."""
    table = np.array(potentials[name])
    table[at] += size
    return replace(potentials, tables={**potentials.tables, name: table})
