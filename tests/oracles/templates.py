"""Segmentations of short strings by trying every one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import logsumexp

from stickbreak.data import parse_templates

Array = np.ndarray


def cuts(n: int, most: int) -> Iterator[list[tuple[int, int]]]:
    """All ways to cut n letters into segments of at most so many."""
    if n == 0:
        yield []
    for first in range(1, min(n, most) + 1):
        for rest in cuts(n - first, most):
            yield [(0, first), *((a + first, b + first) for a, b in rest)]


def paths(templates: str, m: int) -> Iterator[list[int]]:
    """All slots of m segments, one after another, by position among all slots."""
    slots = parse_templates(templates)

    def follow(q: int, left: int) -> Iterator[list[int]]:
        if left == 1:
            if slots.is_last[q]:
                yield [q]
            return
        for after in [q] * bool(slots.repeats[q]) + [q + 1] * (not slots.is_last[q]):
            for rest in follow(after, left - 1):
                yield [q, *rest]

    for q in np.flatnonzero(slots.is_first):
        yield from follow(int(q), m)


def segmentations(templates: str, ids: Array) -> Iterator[tuple[Array, dict[str, Array]]]:
    """Marks of every segmentation of one string with ids (n, L), and its counts."""
    slots, (n, most) = parse_templates(templates), ids.shape
    n_ids = int(ids.max()) + 1
    for spans in cuts(n, most):
        for path in paths(templates, len(spans)):
            marks = np.zeros(n, dtype=int)
            out = {
                "template": np.zeros(slots.n_templates),
                "repeat": np.zeros((len(slots.name), 2)),
                "segment": np.zeros((len(slots.names), n_ids)),
            }
            out["template"][slots.template[path[0]]] += 1
            for k, ((begin, end), q) in enumerate(zip(spans, path, strict=True)):
                marks[begin] = q + 1
                out["segment"][slots.name[q], ids[begin, end - begin - 1]] += 1
                is_again = k + 1 < len(path) and path[k + 1] == q
                out["repeat"][q, 0 if is_again else 1] += 1
            yield marks, out


def infer(
    templates: str, ids: Array, tables: dict[str, Array]
) -> tuple[float, dict[str, Array], Array, float, Array]:
    """log_z, expected counts, the best marks and their log weight, and where segments begin."""
    found = list(segmentations(templates, ids))
    logs = np.array(
        [sum(tables[k][..., : c[k].shape[-1]][c[k] > 0] @ c[k][c[k] > 0] for k in c)
         for _, c in found]
    )  # fmt: skip
    log_z = float(logsumexp(logs))
    shares = np.exp(logs - log_z)
    expected = {
        k: sum(p * c[k] for p, (_, c) in zip(shares, found, strict=True)) for k in found[0][1]
    }
    begins = sum(p * (marks > 0) for p, (marks, _) in zip(shares, found, strict=True))
    best = int(logs.argmax())
    return log_z, expected, found[best][0], float(logs[best]), begins
