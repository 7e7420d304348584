"""Moves on dense responsibilities, straight from their definitions, and the bound they are judged
by.

Rows X (n, D), repeats w (n,), responsibilities r (n, K) that sum to one in each row. A conjugate
model (module `conjugate`) supplies log_marginal and expected_log_likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp, xlogy

from oracles import mixture

Array = np.ndarray

# what of a row (repeats counted) is not worth dealing out stays in one piece
NEXT_TO_NOTHING = 1e-8
# components with fewer rows say nothing of them: what running differences leave of none
EMPTY = 1e-11


def entropy(r: Array, w: Array) -> float:
    """-sum_n w_n sum_k r_nk log r_nk."""
    return -float(w @ xlogy(r, r).sum(1))


def data_term(conjugate: Any, X: Array, r: Array, w: Array) -> float:
    """sum_k cP(posterior) - cP(prior) + sum of h: the log marginal likelihood of each component's
    weighted rows.
    """
    return float(sum(conjugate.log_marginal(X, w * r[:, k]) for k in np.flatnonzero(w @ r > EMPTY)))


def allocation_term(N: Array, gamma: float, allocation: str) -> float:
    """The prior's part at its optimum, for expected counts N (K,)."""
    if allocation == "dp":
        return mixture.l_dp_closed_form(N, gamma)
    return mixture.l_dir(N, mixture.global_finite(N, gamma), gamma)


def bound(conjugate: Any, X: Array, r: Array, w: Array, gamma: float, allocation: str) -> float:
    """The whole-data bound, every global factor at its optimum."""
    return data_term(conjugate, X, r, w) + entropy(r, w) + allocation_term(w @ r, gamma, allocation)


def restricted(conjugate: Any, X: Array, Y: Array, q: Array, log_share: Array) -> Array:
    """(n, J) softmax of E[log p(x_n | phi_j)] + log share_j; factor j is the posterior of rows Y
    with weights q[:, j].
    """
    evidence = [
        [conjugate.expected_log_likelihood(x, Y, q[:, j]) for j in range(q.shape[1])] for x in X
    ]
    logits = np.array(evidence) + log_share
    return np.exp(logits - logsumexp(logits, axis=1, keepdims=True))


def keep_best(p: Array, limits: Array) -> Array:
    """(n, J) shares p held to the best limits[n] of each row (at least one), which then sum to one
    again.
    """
    rank = np.argsort(np.argsort(-p, axis=1, kind="stable"), axis=1)
    kept = np.where(rank < np.maximum(limits, 1)[:, None], p, 0.0)
    return kept / kept.sum(1, keepdims=True)


def merge(r: Array, a: int, b: int) -> Array:
    """Column b added to column a < b, and removed."""
    return mixture.merge_columns(r, a, b)


def birth(r: Array, w: Array, taken: Sequence[int], p: Array) -> Array:
    """The columns `taken` give all they have to newborns, appended, as p (n, J) says; crumbs go to
    the first newborn.
    """
    mass = r[:, taken].sum(1)
    born = mass[:, None] * p
    crumbs = w * mass <= NEXT_TO_NOTHING
    born[crumbs] = 0.0
    born[crumbs, 0] = mass[crumbs]
    return np.hstack([np.delete(r, taken, axis=1), born])


def delete(r: Array, w: Array, target: int, absorbers: Sequence[int], p: Array) -> Array:
    """Target and absorbers pool what they have, which goes to the absorbers as p (n, J) says;
    crumbs stay where they are.

    A crumb of the target goes to the first absorber.
    """
    slots = [target, *absorbers]
    mass = r[:, slots].sum(1)
    worth = w * mass > NEXT_TO_NOTHING
    out = r.copy()
    out[np.ix_(worth, absorbers)] = mass[worth, None] * p[worth]
    out[~worth, absorbers[0]] += r[~worth, target]
    return np.delete(out, target, axis=1)
