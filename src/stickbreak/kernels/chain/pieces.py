"""Forward-backward and random paths of one very long chain in pieces.

One message is kept for each piece. With pieces of about sqrt(T) rows, a chain of T rows needs
O(sqrt(T) K) memory; its evidence is computed twice. Joined pieces give the result of `smooth` for
the whole chain, wherever it is cut. Messages are logarithms. Arguments as in `smooth.py`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .paths import draw_backward, draw_in_logs
from .single import (
    LOST,
    add_log_steps,
    backward_rows,
    forward_rows,
    linear_tables,
    load_rows,
    log_backward,
    log_forward,
    log_sums,
    step_rows,
    sum_logs,
    write_shares,
)

__all__ = [
    "Checkpoints",
    "draw_pieces",
    "forward_piece",
    "forward_pieces",
    "smooth_piece",
    "smooth_pieces",
]


class Checkpoints(NamedTuple):
    """Results of a forward pass: log_z of the chain and the message (K,) that enters each piece.

    The first message is None. exact : whether the log domain was used.
    """

    log_z: float
    messages: list[np.ndarray | None]
    exact: bool


def forward_pieces(evidence, bounds, log_start, log_transition):
    """First pass over the pieces bounds[p] to bounds[p + 1].

    evidence(begin, end) returns evidence_t (K, end - begin).
    """
    for exact in (False, True):
        messages: list[np.ndarray | None] = [None]
        log_z = 0.0
        for begin, end in pairwise(bounds):
            message, log_scale = forward_piece(
                evidence(begin, end), messages[-1], log_start, log_transition, exact=exact
            )
            messages.append(message)
            log_z += log_scale
            if not np.isfinite(log_z):
                break
        if log_z != -np.inf:
            break
    return Checkpoints(log_z, messages, exact)


def smooth_pieces(
    evidence, bounds, checkpoints, log_start, log_transition, weight=1.0, *, start, transition
):
    """Second pass, from the last piece to the first: yields (begin, end, shares_t) of each.

    Adds counts like `smooth`.
    """
    _require_posterior(checkpoints)
    log_beta = None
    for p in range(len(bounds) - 2, -1, -1):
        shares_t, log_beta = smooth_piece(
            evidence(bounds[p], bounds[p + 1]), checkpoints.messages[p], log_beta, log_start,
            log_transition, weight,
            start=start, transition=transition, exact=checkpoints.exact,
        )  # fmt: skip
        yield bounds[p], bounds[p + 1], shares_t


def draw_pieces(evidence, bounds, checkpoints, log_start, log_transition, uniforms):
    """Second pass, from the last piece to the first: yields (begin, end, path) of a random path.

    The path is drawn as in `paths.draw`.
    """
    _require_posterior(checkpoints)
    tables, after = linear_tables(log_start, log_transition), -1
    for p in range(len(bounds) - 2, -1, -1):
        begin, end = bounds[p], bounds[p + 1]
        path, message = np.empty(end - begin, dtype=np.int64), checkpoints.messages[p]
        if checkpoints.exact:
            known = _log_filtered(evidence(begin, end), message, log_start, log_transition)
            draw_in_logs(known, log_transition, uniforms[begin:end], after, path)
        else:
            draw_backward(
                _filter(evidence(begin, end), message, tables)[1],
                tables.transposed,
                uniforms[begin:end],
                after,
                path,
            )
        after = path[0]
        yield begin, end, path


def _require_posterior(checkpoints):
    if not np.isfinite(checkpoints.log_z):
        raise ValueError(
            f"a chain with log_z={checkpoints.log_z} has no posterior; look at log_z "
            "before the second pass"
        )


def forward_piece(evidence_t, log_message, log_start, log_transition, *, exact=False):
    """Filter a piece, evidence_t (K, T).

    Returns log p(z | rows so far) (K,) of its last row, and log p(piece | rows before).

    log_message (K,) : the result of the piece before, None for the first. The second result is -inf
    if the piece is impossible, or if the linear domain cannot tell. Then do all pieces again with
    exact=True, in the log domain, which is much slower and decides.
    """
    if exact:
        joint = _log_filtered(evidence_t, log_message, log_start, log_transition)[-1]
        log_scale = float(log_sums(joint[None])[0])
        return (joint - log_scale if log_scale > -np.inf else joint), log_scale
    tables = linear_tables(log_start, log_transition)
    _, weights, scale, log_scale = _filter(evidence_t, log_message, tables)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(weights[-1, : len(log_start)] / scale[-1]), log_scale


def smooth_piece(
    evidence_t,
    log_message,
    log_beta,
    log_start,
    log_transition,
    weight=1.0,
    *,
    start,
    transition,
    exact=False,
):
    """Posteriors shares_t (K, T) of a piece, times weight, and log_beta (K,) for the piece before.

    log_message : what entered the piece in the first pass, None for the first piece. log_beta : the
    result of the piece after it, None for the last. Adds to transition (K, K) the steps within the
    piece and the one into its first row; the first piece adds to start.
    """
    inner, steps = _smooth_in_logs if exact else _smooth, np.zeros_like(transition)
    shares_t, log_beta = inner(evidence_t, log_message, log_beta, log_start, log_transition, steps)
    if weight != 1.0:  # applied last, because messages must not vanish with a weight of zero
        shares_t *= weight
        steps *= weight
    transition += steps
    if log_message is None:
        start += shares_t[:, 0]
    return shares_t, log_beta


# ---- the linear domain ---------------------------------------------------------------------------
def _filter(evidence_t, log_message, tables):
    """Likelihoods and weights (T, W), scales (T,), and log p(piece | rows before).

    The last is -inf or NaN if the linear domain fails.
    """
    T, width = evidence_t.shape[1], len(tables.start)
    rows, weights, scale, top = np.empty((T, width)), np.zeros((T, width)), np.ones(T), np.empty(T)
    load_rows(evidence_t, 0, rows, top)
    predicted = tables.start.copy()
    if log_message is not None:
        message, predicted = np.zeros(width), np.zeros(width)
        message[: len(log_message)] = np.exp(log_message)
        step_rows(message, 0, len(log_message), tables.transition, predicted, 0)
    good = forward_rows(predicted, len(evidence_t), tables.transition, rows, weights, scale)
    if good < T:
        return rows, weights, scale, np.nan if np.isnan(scale[good]) else -np.inf
    first_shift = tables.start_shift if log_message is None else tables.step_shift
    return rows, weights, scale, sum_logs(scale, top) + first_shift + (T - 1) * tables.step_shift


def _smooth(evidence_t, log_message, log_beta, log_start, log_transition, transition):
    """Shares (K, T) and log_beta (K,); adds the steps to transition (K, K)."""
    K, T = evidence_t.shape
    tables = linear_tables(log_start, log_transition)
    rows, weights, scale, _ = _filter(evidence_t, log_message, tables)
    message = np.full(len(tables.start), 1.0 / scale[-1])
    if log_beta is not None:
        reachable = weights[-1, :K] > LOST
        message[:K] = np.exp(np.where(reachable, log_beta - log_beta[reachable].max(), -np.inf))
        message /= weights[-1, :K] @ message[:K]
    messages, futures, shares_t = np.empty_like(rows), np.empty_like(rows), np.empty((K, T))
    backward_rows(message, K, tables.transposed, rows, weights, scale, 0, T, messages, futures)
    write_shares(weights, messages, 0, shares_t)
    steps = weights[:-1, :K].T @ futures[1:, :K]
    if log_message is not None:
        steps += np.outer(np.exp(log_message), futures[0, :K])
    transition += steps * tables.transition[:K, :K]
    with np.errstate(divide="ignore"):
        return shares_t, np.log(message[:K])


# ---- the log domain ------------------------------------------------------------------------------
def _log_filtered(evidence_t, log_message, log_start, log_transition):
    """(T, K) log p(z_t, rows of the piece up to t | rows before)."""
    predicted = log_start
    if log_message is not None:
        predicted = log_sums(np.ascontiguousarray((log_message[:, None] + log_transition).T))
    out = np.empty(evidence_t.shape[::-1])
    log_forward(predicted, log_transition, evidence_t, out)
    return out


def _smooth_in_logs(evidence_t, log_message, log_beta, log_start, log_transition, transition):
    """Like `_smooth`, in logs."""
    K, T = evidence_t.shape
    forward, betas, futures = (
        _log_filtered(evidence_t, log_message, log_start, log_transition),
        np.empty((T, K)),
        np.empty((T, K)),
    )
    beta = np.zeros(K) if log_beta is None else log_beta.copy()
    log_z = float(log_sums((forward[-1] + beta)[None])[0])
    log_backward(beta, log_transition, evidence_t, betas, futures)
    add_log_steps(forward[:-1], log_transition, futures[1:], log_z, 1.0, transition)
    if log_message is not None:
        add_log_steps(log_message[None], log_transition, futures[:1], log_z, 1.0, transition)
    return np.ascontiguousarray(np.exp(forward + betas - log_z).T), beta
