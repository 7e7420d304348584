"""Mean field for documents that use at most L components each, whatever K is.

As `documents.py`, on the columns of the table that a document may use. A document keeps its
components from visit to visit. After it has settled it tries others in the place of its smallest:
those under which its words are most probable, found by a short list for each line of the table.
"""

from __future__ import annotations

import numpy as np

from .compile import kernel
from .documents import evaluate_words, gather_words, settle
from .gamma import digamma_fast, log_gamma_fast
from .rows import copy_line
from .vectors import EIGHT, prefetch

__all__ = ["N_LIKELY", "find_likely", "infer_sparse_documents"]

N_LIKELY = 4  # components of a word among which newcomers are found
FIRST_STEPS = 10  # dense steps of a document that has no components yet
AHEAD = 8  # words before it is needed that a line of the table is asked for
GAIN = 1e-9  # nats that an exchange must gain; less may be rounding


@kernel
def find_likely(table, n_components, out, out_values):
    """Components (M, T) with the largest entries of each line of table (M, width), and these."""
    n_kept = out.shape[1]
    for m in range(table.shape[0]):
        line, values, size = table[m], out_values[m], 0
        for k in range(n_components):
            value = line[k]
            if size == n_kept and value <= values[n_kept - 1]:
                continue
            at = size if size < n_kept else n_kept - 1
            size = at + 1
            while at > 0 and values[at - 1] < value:
                values[at], out[m, at] = values[at - 1], out[m, at - 1]
                at -= 1
            values[at], out[m, at] = value, k


@kernel
def choose_members(counts, n_components, members, held):
    """The components with the largest counts above 0, and these counts, in descending order.

    members (L,), held (L,) : overwritten. Returns how many there are.
    """
    limit, size = members.shape[0], 0
    for k in range(n_components):
        value = counts[k]
        if value <= 0.0 or (size == limit and value <= held[limit - 1]):
            continue
        at = size if size < limit else limit - 1
        size = at + 1
        while at > 0 and held[at - 1] < value:
            held[at], members[at] = held[at - 1], members[at - 1]
            at -= 1
        held[at], members[at] = value, k
    return size


@kernel
def gather_column(table, index, k, place, words):
    """Column `place` of words (n, width) = entries k of the table's lines index (n,)."""
    for n in range(index.shape[0]):
        words[n, place] = table[index[n], k]


@kernel
def find_newcomer(index, likely, peaks, repeats, scale, weight, is_known, votes):
    """The component that would take most words if it had this weight; -1 for none.

    likely, peaks (M, T) : see `find_likely`; side by side, where the table is not.
    is_known (K,) : components that are not looked at. votes (K,) : overwritten with these words.
    """
    for k in range(votes.shape[0]):
        votes[k] = 0.0
    best = -1
    for n in range(index.shape[0]):
        if repeats[n] <= 0.0:
            continue
        line, total = index[n], repeats[n] / scale[n]
        for j in range(likely.shape[1]):
            k = likely[line, j]
            if not is_known[k]:
                part = peaks[line, j] * weight
                votes[k] += repeats[n] * part / (part + total)
                if best < 0 or votes[k] > votes[best]:
                    best = k
    return best


@kernel
def evaluate_members(repeats, size, pseudo, counts, weights, scale, rises):
    """The part of a document's bound that changes with its components and their counts.

    rises (2, L) : log Gamma and digamma of the prior counts of the components.
    """
    total, used = evaluate_words(repeats, size, counts, weights, scale)
    for j in range(size):
        total += log_gamma_fast(counts[j] + pseudo[j]) - rises[0, j]
    return total - used


@kernel
def exchange(
    table, index, likely, peaks, repeats, tokens, prior, max_steps, enough, n_trials, size,
    members, is_known, votes, words, pseudo, rises, counts, weights, scale, scratch,
):  # fmt: skip
    """Put newcomers in the place of the smallest component, or beside all; keep improvements.

    prior (3, K) : prior counts, their log Gamma and digamma. is_known, votes (K,), scratch (4,
    width) : overwritten. Returns the number of components, how many were tried and accepted.
    """
    spare, column, n_tried, n_accepted = np.empty_like(scale), np.empty_like(scale), 0, 0
    trial, trial_weights, limit = scratch[1], scratch[2], members.shape[0]
    for k in range(is_known.shape[0]):
        is_known[k] = False
    for j in range(size):
        is_known[members[j]] = True
    best = evaluate_members(repeats, size, pseudo, counts, weights, scale, rises)
    for _ in range(n_trials):
        k = find_newcomer(index, likely, peaks, repeats, scale, tokens / limit, is_known, votes)
        if k < 0:
            break
        is_known[k] = True
        n_tried += 1
        place = size
        if size == limit:
            place = 0
            for j in range(size):
                place = j if counts[j] < counts[place] else place
        copy_line(counts, trial)
        trial[place] = votes[k]
        old = pseudo[place], rises[0, place], rises[1, place]
        for n in range(words.shape[0]):
            column[n] = words[n, place]
        gather_column(table, index, k, place, words)
        pseudo[place], rises[0, place], rises[1, place] = prior[0, k], prior[1, k], prior[2, k]
        n_new = max(size, place + 1)
        n_steps = settle(
            words, repeats, pseudo, max_steps, enough, False, trial, trial_weights, spare,
            scratch[0],
        )  # fmt: skip
        value = -np.inf
        if n_steps > 0:
            value = evaluate_members(repeats, n_new, pseudo, trial, trial_weights, spare, rises)
        if value > best + GAIN:
            n_accepted += 1
            best, size, members[place] = value, n_new, k
            copy_line(trial, counts)
            copy_line(trial_weights, weights)
            copy_line(spare, scale)
        else:
            pseudo[place], rises[0, place], rises[1, place] = old
            for n in range(words.shape[0]):
                words[n, place] = column[n]
    return size, n_tried, n_accepted


@kernel
def finish_members(
    repeats, size, members, tokens, pseudo, rises, rest, prior_total, base, times, counts, weights,
    scale, out_log_share, out_found,
):  # fmt: skip
    """As `documents.finish`. Adds to out_log_share what differs from components without words.

    base : sum over all components of log Gamma(pseudo) - pseudo digamma(pseudo).
    Returns the digamma of all counts of the document.
    """
    total = prior_total + tokens
    log_total = digamma_fast(total)
    words, used = evaluate_words(repeats, size, counts, weights, scale)
    own = base + (prior_total - rest) * log_total - log_gamma_fast(total) - used
    for j in range(size):
        theta = counts[j] + pseudo[j]
        expected = digamma_fast(theta)
        own += log_gamma_fast(theta) - rises[0, j] - pseudo[j] * (expected - rises[1, j])
        out_log_share[members[j]] += times * (expected - rises[1, j])
    if rest > 0.0:
        log_rest = digamma_fast(rest) - log_total
        own += log_gamma_fast(rest) - rest * log_rest
    out_found[0], out_found[1] = words - tokens * log_total, own + tokens * log_total
    return log_total


@kernel
def first_counts(
    table, index, repeats, pseudo, n_components, max_steps, enough, counts, room, scratch, scale
):
    """Counts (K,) after some steps over all components, for a document without any."""
    words, full = room[: index.shape[0]], scratch[1]
    gather_words(table, index, words)
    for k in range(full.shape[0]):
        full[k] = 0.0
    n_steps = settle(
        words, repeats, pseudo, min(max_steps, FIRST_STEPS), enough, True, full, scratch[2], scale,
        scratch[0],
    )  # fmt: skip
    for k in range(n_components):
        counts[k] = full[k]
    return n_steps


@kernel
def take_members(table, index, members, held, size, prior, words, counts, pseudo, rises):
    """A document's components, in the first `size` of the narrow columns; the others are empty.

    prior (3, K) : prior counts, their log Gamma and digamma.
    """
    narrow = counts.shape[0]
    for j in range(narrow):
        counts[j], pseudo[j], rises[0, j], rises[1, j] = 0.0, 1.0, 0.0, 0.0
        if j < size:
            k = members[j]
            counts[j], pseudo[j], rises[0, j], rises[1, j] = (
                held[j], prior[0, k], prior[1, k], prior[2, k]
            )  # fmt: skip
    width, n_words = table.shape[1], index.shape[0]
    for n in range(n_words):
        if n + AHEAD < n_words:
            for j in range(size):
                prefetch(table, index[n + AHEAD] * width + members[j])
        line, word = table[index[n]], words[n]
        for j in range(size):
            word[j] = line[members[j]]
        for j in range(size, narrow):
            word[j] = 0.0


@kernel
def put_counts(counts, members, size, out):
    """Out (K,) = the counts of a document's components, zero for all others."""
    for k in range(out.shape[0]):
        out[k] = 0.0
    for j in range(size):
        out[members[j]] = counts[j]


@kernel
def give_shares(words, weights, scale, times, size, members, out_values, out_index):
    """Shares (n, L) of a document's words, times `times`, and their components."""
    for n in range(words.shape[0]):
        word, factor = words[n], scale[n] * times
        for j in range(members.shape[0]):
            out_index[n, j] = members[j] if j < size else 0
            out_values[n, j] = factor * word[j] * weights[j]


@kernel
def make_prior(pseudo, n_components):
    """(3, K) prior counts, their log Gamma and digamma; the sum of log Gamma - count * digamma."""
    prior, base = np.empty((3, n_components)), 0.0
    for k in range(n_components):
        prior[0, k], prior[1, k] = pseudo[k], log_gamma_fast(pseudo[k])
        prior[2, k] = digamma_fast(pseudo[k])
        base += prior[1, k] - pseudo[k] * prior[2, k]
    return prior, base


@kernel
def add_absent(prior, rest, sum_times, sum_logs, out_log_share):
    """E[log pi] of components without words, summed over documents; the rest is the last."""
    for k in range(prior.shape[1]):
        out_log_share[k] += sum_times * prior[2, k] - sum_logs
    if rest > 0.0:
        out_log_share[out_log_share.shape[0] - 1] += sum_times * digamma_fast(rest) - sum_logs


@kernel
def infer_sparse_documents(
    table, index, likely, peaks, repeats, offsets, times, pseudo, rest, n_components, max_steps,
    tol, n_trials, counts, out_values, out_index, out_log_share, out_found,
):  # fmt: skip
    """Infer documents from counts (S, K), of which at most L are kept; zeros for a cold start.

    They become the new counts. As `infer_documents` but for what is said here.

    likely, peaks (M, T) : see `find_likely`. n_trials : exchanges tried per document.
    out_values (n, L), out_index (n, L) : the words' shares, times `times`, and their components.
    out_found (S, 4) : as there; exchanges in the place of restarts.
    """
    K, limit, n_most = n_components, out_values.shape[1], 1
    narrow, width = -(-limit // EIGHT) * EIGHT, pseudo.shape[0]
    for s in range(offsets.shape[0] - 1):
        n_most = max(n_most, offsets[s + 1] - offsets[s])
    prior, base = make_prior(pseudo, K)
    prior_total = rest + prior[0].sum()
    wide, wide_scratch, scales = np.empty((n_most, width)), np.empty((3, width)), np.empty(n_most)
    room, scratch, rises = np.empty((n_most, narrow)), np.empty((4, narrow)), np.empty((2, narrow))
    own, weights, small = np.empty(narrow), np.empty(narrow), np.empty(narrow)
    members, held = np.empty(limit, np.int64), np.empty(limit)
    is_known, votes, sum_times, sum_logs = np.empty(K, np.bool_), np.empty(K), 0.0, 0.0
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        words, mine, lines, scale = room[: hi - lo], repeats[lo:hi], index[lo:hi], scales[: hi - lo]
        tokens = mine.sum()
        size = choose_members(counts[s], K, members, held)
        if size == 0:
            first_counts(
                table, lines, mine, pseudo, K, max_steps, tol * K, counts[s], wide, wide_scratch,
                scale,
            )  # fmt: skip
            size = choose_members(counts[s], K, members, held)
        take_members(table, lines, members, held, size, prior, words, own, small, rises)
        enough = tol * K
        if (
            settle(words, mine, small, max_steps, enough, False, own, weights, scale, scratch[0])
            == 0
        ):
            out_found[s, 0] = -np.inf
            continue
        n_tried, n_accepted = 0, 0
        if hi > lo:
            size, n_tried, n_accepted = exchange(
                table, lines, likely, peaks, mine, tokens, prior, max_steps, enough, n_trials,
                size, members, is_known, votes, words, small, rises, own, weights, scale, scratch,
            )  # fmt: skip
        out_found[s, 2], out_found[s, 3] = n_tried, n_accepted
        log_total = finish_members(
            mine, size, members, tokens, small, rises, rest, prior_total, base, times[s], own,
            weights, scale, out_log_share, out_found[s],
        )  # fmt: skip
        sum_times += times[s]
        sum_logs += times[s] * log_total
        put_counts(own, members, size, counts[s])
        give_shares(
            words, weights, scale, times[s], size, members, out_values[lo:hi], out_index[lo:hi]
        )
    add_absent(prior, rest, sum_times, sum_logs, out_log_share)
