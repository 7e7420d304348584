"""What must come out, by enumeration and by textbook formulas: nothing here uses a double's own
mathematics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, logsumexp

from stickbreak.data import Batch
from stickbreak.protocols import Local
from stickbreak.stats import Fields

Array = np.ndarray
Labelling = tuple[list[int], dict[str, Array]]
"""Component of each row, and the counts of the prior's fields."""


def paths(n: int, K: int) -> Iterator[Labelling]:
    """All paths of n rows through K states."""
    for path in product(range(K), repeat=n):
        counts = {"initial": np.zeros(K), "transition": np.zeros((K, K))}
        counts["initial"][path[0]] += 1
        for a, b in pairwise(path):
            counts["transition"][a, b] += 1
        yield list(path), counts


def trees(n: int, K: int) -> Iterator[Labelling]:
    """All binary trees over n words with K categories."""

    def under(size: int, a: int) -> Iterator[tuple[list[int], list[tuple[int, int, int]]]]:
        if size == 1:
            yield [a], []
        for m in range(1, size):
            for b, c in product(range(K), repeat=2):
                for left, right in product(under(m, b), under(size - m, c)):
                    yield left[0] + right[0], [(a, b, c), *left[1], *right[1]]

    for a in range(K):
        for labels, rules in under(n, a):
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
            yield labels, counts


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
            tables(counts) + evidence[np.arange(len(labels)), labels].sum()
            for labels, counts in labellings
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


def log_evidence(model: Any, batch: Batch, n_components: int, labellings: Any) -> float:
    """Exact log evidence of a tiny batch: all labellings of all units, tables integrated out."""
    K, joints = n_components, []
    units = [list(labellings(hi - lo, K)) for lo, hi in pairwise(batch.offsets)]
    scores, rows = model.family.mean_log(model.family.zeros(K)), model.family.prepare(batch.rows)
    for choice in product(*units):
        emitted = model.family.zeros(K)
        labels = np.concatenate([labels for labels, _ in choice])
        scores.collect(rows, np.asfortranarray(np.eye(K)[labels]), emitted)
        joint = float(model.family.log_marginal(emitted).sum())
        for name in choice[0][1]:
            table = sum(counts[name] for _, counts in choice)
            row = (1, K) if table.ndim == 1 else (K, -1)
            joint += dirichlet_multinomial(table.reshape(row), model.prior.concentration)
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
