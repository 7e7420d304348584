"""Mean field for documents: shares of components per document, and a component for every word.

Documents are inferred one after another.

    q(pi) = Dirichlet(theta),  theta_k = pseudo_k + counts_k,   counts_k = sum_n repeats_n r_nk,
    r_nk = evidence_nk p_k / sum_l evidence_nl p_l,             p_k = exp(digamma(theta_k)).

r is never stored: it is scale_n evidence_nk p_k, with scale_n = repeats_n / sum_l evidence_nl p_l.
Evidence is linear: lines of a table (M, width) that many words share, each scaled to a maximum of
one. width is the number of components rounded up to a multiple of eight; components beyond K have
no evidence, and prior count 1. Unused mass (`rest`) is a component that no word can have; 0 for
none.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .gamma import digamma_fast, exp_digamma, log_fast, log_gamma_fast
from .rows import copy_line
from .vectors import EIGHT, fill, first_four, fma, last_four, load, store

__all__ = ["infer_documents", "log_documents"]

LOST = 1e-250  # below this sum of a word's weights its document is done in logs
GAIN = 1e-9  # nats a restart must gain; less may be rounding


@kernel
def gather_words(table, index, out):
    """Lines index (n,) of table (M, width), one after another."""
    width = table.shape[1]
    for n in range(index.shape[0]):
        at, to = index[n] * width, n * width
        for k in range(0, width, EIGHT):
            store(out, to + k, load(table, at + k))


@kernel
def weigh_words(words, repeats, weights, scale, counts):
    """One step: scale (n,) and counts (width,) from words (n, width) and weights p (width,).

    scale and counts are overwritten. Returns the smallest sum of weights of a word.
    """
    (n_words, width), least = words.shape, np.inf
    for k in range(0, width, EIGHT):
        store(counts, k, fill(0.0))
    for n in range(0, n_words - n_words % 4, 4):
        at = n * width
        a, b, c, d = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
        for k in range(0, width, EIGHT):
            p = load(weights, k)
            a, b = fma(load(words, at + k), p, a), fma(load(words, at + width + k), p, b)
            c = fma(load(words, at + 2 * width + k), p, c)
            d = fma(load(words, at + 3 * width + k), p, d)
        sum_a, sum_b = first_four(a) + last_four(a), first_four(b) + last_four(b)
        sum_c, sum_d = first_four(c) + last_four(c), first_four(d) + last_four(d)
        least = min(least, min(min(sum_a, sum_b), min(sum_c, sum_d)))
        scale[n], scale[n + 1] = repeats[n] / sum_a, repeats[n + 1] / sum_b
        scale[n + 2], scale[n + 3] = repeats[n + 2] / sum_c, repeats[n + 3] / sum_d
        a, b, c, d = fill(scale[n]), fill(scale[n + 1]), fill(scale[n + 2]), fill(scale[n + 3])
        for k in range(0, width, EIGHT):
            left = fma(load(words, at + k), a, fma(load(words, at + width + k), b, load(counts, k)))
            right = fma(load(words, at + 3 * width + k), d, left)
            store(counts, k, fma(load(words, at + 2 * width + k), c, right))
    for n in range(n_words - n_words % 4, n_words):
        at, a = n * width, fill(0.0)
        for k in range(0, width, EIGHT):
            a = fma(load(words, at + k), load(weights, k), a)
        total = first_four(a) + last_four(a)
        least = min(least, total)
        scale[n] = repeats[n] / total
        a = fill(scale[n])
        for k in range(0, width, EIGHT):
            store(counts, k, fma(load(words, at + k), a, load(counts, k)))
    for k in range(0, width, EIGHT):
        store(counts, k, load(counts, k) * load(weights, k))
    return least


@kernel
def settle(words, repeats, pseudo, max_steps, enough, is_cold, counts, weights, scale, fresh):
    """Iterate from counts (width,) until their total change is below `enough`.

    Returns the number of steps; 0 if a sum was lost. The counts are then those given by weights
    (width,) and scale (n,). A cold start uses the prior shares as first weights.
    """
    width = pseudo.shape[0]
    for step in range(max_steps):
        for k in range(0, width, EIGHT):
            prior = load(pseudo, k)
            is_first = is_cold and step == 0
            store(weights, k, prior if is_first else exp_digamma(load(counts, k) + prior))
        if not weigh_words(words, repeats, weights, scale, fresh) >= LOST:
            return 0
        change = 0.0
        for k in range(width):
            change += abs(fresh[k] - counts[k])
            counts[k] = fresh[k]
        if change < enough:
            break
    return step + 1


@kernel
def evaluate_words(repeats, K, counts, weights, scale):
    """Sum over words of repeats log(sum of weights), and sum_k counts_k log weights_k.

    Their difference is the words' part of the bound.
    """
    total, used = 0.0, 0.0
    for n in range(repeats.shape[0]):
        if repeats[n] > 0.0:
            total += repeats[n] * log_fast(repeats[n] / scale[n])
    for k in range(K):
        if counts[k] > 0.0:
            used += counts[k] * log_fast(weights[k])
    return total, used


@kernel
def sum_log_gamma(counts, pseudo, K, scratch):
    """Sum over components of log Gamma(counts + pseudo)."""
    for k in range(0, pseudo.shape[0], EIGHT):
        store(scratch, k, log_gamma_fast(load(counts, k) + load(pseudo, k)))
    total = 0.0
    for k in range(K):
        total += scratch[k]
    return total


@kernel
def evaluate(repeats, K, pseudo, counts, weights, scale, scratch):
    """The part of a document's bound that changes with its counts; scratch (width,)."""
    total, used = evaluate_words(repeats, K, counts, weights, scale)
    return total - used + sum_log_gamma(counts, pseudo, K, scratch)


@kernel
def find_smallest(counts, K, least, done):
    """The component with the smallest counts above `least` that is not done (K,); -1 for none.

    Also -1 if no other component is above `least`.
    """
    smallest, n_used = -1, 0
    for k in range(K):
        if counts[k] > least:
            n_used += 1
            if not done[k] and (smallest < 0 or counts[k] < counts[smallest]):
                smallest = k
    return smallest if n_used > 1 else -1


@kernel
def restart(
    words, repeats, K, pseudo, max_steps, enough, most, least, counts, weights, scale, scratch
):
    """Empty one component after another, the smallest first, and settle again; keep improvements.

    most : limit of trials. least : components with more counts than this are tried.
    scratch (4, width). Returns how many restarts were tried and accepted.
    """
    spare, done, n_tried, n_accepted = np.empty_like(scale), np.zeros(K, np.bool_), 0, 0
    trial, trial_weights = scratch[1], scratch[2]
    best = evaluate(repeats, K, pseudo, counts, weights, scale, scratch[0])
    for _ in range(most):
        smallest = find_smallest(counts, K, least, done)
        if smallest < 0:
            break
        done[smallest] = True
        copy_line(counts, trial)
        trial[smallest] = 0.0
        n_steps = settle(
            words, repeats, pseudo, max_steps, enough, False, trial, trial_weights, spare,
            scratch[3],
        )  # fmt: skip
        if n_steps == 0:
            continue
        n_tried += 1
        value = evaluate(repeats, K, pseudo, trial, trial_weights, spare, scratch[0])
        if value > best + GAIN:
            n_accepted += 1
            best = value
            copy_line(trial, counts)
            copy_line(trial_weights, weights)
            copy_line(spare, scale)
    return n_tried, n_accepted


@kernel
def infer_documents(
    table, index, repeats, offsets, times, pseudo, rest, n_components, max_steps, tol, restarts,
    counts, out_weights, out_scale, out_log_share, out_found,
):  # fmt: skip
    """Infer documents from counts (S, width), zeros for a cold start; they become the new counts.

    table (M, width), index (n,) : the line of the table with a word's evidence.
    repeats (n,) : occurrences of the word. times (S,) : how often the document counts.
    pseudo (width,), rest : prior counts.
    restarts (2,) : their limit, and the counts above which a component is tried.
    out_weights (S, width), out_scale (n,) : factors of the words' shares; the scale includes times.
    out_log_share (width + 1,) += times E[log pi], the last for the rest.
    out_found (S, 4) : log normalizers of the words, the rest of the document's bound, restarts
        tried and accepted, none of them multiplied by `times`. The first is -inf for a document
        that must be done in logs.
    """
    K, width, n_most, prior = n_components, pseudo.shape[0], 1, rest
    for s in range(offsets.shape[0] - 1):
        n_most = max(n_most, offsets[s + 1] - offsets[s])
    for k in range(K):
        prior += pseudo[k]
    room, scales, scratch = np.empty((n_most, width)), np.empty(n_most), np.empty((4, width))
    for s in range(offsets.shape[0] - 1):
        lo, hi, own, weights = offsets[s], offsets[s + 1], counts[s], out_weights[s]
        words, mine, scale = room[: hi - lo], repeats[lo:hi], scales[: hi - lo]
        is_cold = True
        for k in range(K):
            is_cold = is_cold and own[k] == 0.0
        gather_words(table, index[lo:hi], words)
        n_steps = settle(
            words, mine, pseudo, max_steps, tol * K, is_cold, own, weights, scale, scratch[0]
        )
        if n_steps == 0:
            out_found[s, 0] = -np.inf
            continue
        out_found[s, 2], out_found[s, 3] = 0.0, 0.0
        if restarts[0] > 0.0:
            out_found[s, 2], out_found[s, 3] = restart(
                words, mine, K, pseudo, max_steps, tol * K, int(restarts[0]), restarts[1], own,
                weights, scale, scratch,
            )  # fmt: skip
        finish(
            mine, K, pseudo, rest, prior, times[s], own, weights, scale, scratch, out_log_share,
            out_found[s],
        )  # fmt: skip
        for n in range(hi - lo):
            out_scale[lo + n] = scale[n] * times[s]


@kernel
def finish(
    repeats, K, pseudo, rest, prior, times, counts, weights, scale, scratch, out_log_share,
    out_found,
):  # fmt: skip
    """E[log pi] of a document and its bound: out_found[0], and out_found[1] without the words.

    prior : sum of all prior counts. scratch (2, width) or more.
    """
    log_share, log_gamma, tokens = scratch[0], scratch[1], 0.0
    for n in range(repeats.shape[0]):
        tokens += repeats[n]
    width, total = pseudo.shape[0], prior + tokens
    log_total = digamma_fast(total)
    words, used = evaluate_words(repeats, K, counts, weights, scale)
    for k in range(0, width, EIGHT):
        theta = load(counts, k) + load(pseudo, k)
        store(log_share, k, digamma_fast(theta) - log_total)
        store(log_gamma, k, log_gamma_fast(theta))
    own = -log_gamma_fast(total) - used
    for k in range(K):
        own += log_gamma[k] - pseudo[k] * log_share[k]
        out_log_share[k] += times * log_share[k]
    if rest > 0.0:
        log_rest = digamma_fast(rest) - log_total
        own += log_gamma_fast(rest) - rest * log_rest
        out_log_share[width] += times * log_rest
    # weights are exp(E[log pi]) up to a known factor
    out_found[0], out_found[1] = words - tokens * log_total, own + tokens * log_total


@kernel
def log_documents(evidence, repeats, pseudo, max_steps, tol, counts, out_log_weights, out_log_sums):
    """One document in logs, for numbers of any range.

    evidence (n, K); counts (K,) in and out; out_log_weights (K,), out_log_sums (n,): the shares of
    a word are exp(evidence + log_weights - log_sum).
    """
    n_words, K = evidence.shape
    fresh = np.empty(K)
    is_cold = not counts.any()
    for step in range(max_steps):
        for k in range(K):
            theta = counts[k] + pseudo[k]
            out_log_weights[k] = (
                math.log(pseudo[k]) if is_cold and step == 0 else digamma_fast(theta)
            )
            fresh[k] = 0.0
        for n in range(n_words):
            top = -np.inf
            for k in range(K):
                top = max(top, evidence[n, k] + out_log_weights[k])
            total = 0.0
            for k in range(K):
                total += math.exp(evidence[n, k] + out_log_weights[k] - top)
            out_log_sums[n] = top + math.log(total)
            for k in range(K):
                fresh[k] += repeats[n] * math.exp(
                    evidence[n, k] + out_log_weights[k] - out_log_sums[n]
                )
        change = 0.0
        for k in range(K):
            change += abs(fresh[k] - counts[k])
            counts[k] = fresh[k]
        if change < tol * K:
            break
