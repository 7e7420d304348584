"""Collapsed sweeps of grammars over symbols: a sentence's tree given the trees of all others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel
from ..draws import GOLDEN, uniform_of
from .absent import absent_in_logs, absent_spans, log_absent, make_absent
from .charts import Grammar, fill, infer_sentence, make_room, span_at
from .logs import infer_in_logs
from .sentences import longest_of

__all__ = [
    "Symbols", "TreeCounts", "TreeOwn", "TreePrior", "TreeUnits", "count_sentences",
    "random_trees", "sweep_sentences",
]  # fmt: skip

LEAST_DRAWN = 2.0**-25  # a weight of zero might be that of the one tree left


class Symbols(NamedTuple):
    """Counts of words: table (V, W), totals (W,); prior counts of one word, and of all."""

    table: np.ndarray
    totals: np.ndarray
    base: float
    base_total: float


class TreeCounts(NamedTuple):
    """root (K,), kind (K, 2) of emitting and splitting, rule (K, K K)."""

    root: np.ndarray
    kind: np.ndarray
    rule: np.ndarray


class TreePrior(NamedTuple):
    """Prior counts of the same tables, and what is unused: root_rest, rule_rest (K,)."""

    root: np.ndarray
    kind: np.ndarray
    rule: np.ndarray
    root_rest: float
    rule_rest: np.ndarray


class TreeUnits(NamedTuple):
    """words (n,), -1 for missing, offsets (S + 1,), is_used (S,); brackets and ends.

    sets (n,), legal (M, W) : which categories a word may have; sets (0,) for all
    """

    words: np.ndarray
    offsets: np.ndarray
    is_used: np.ndarray
    brackets: np.ndarray
    ends: np.ndarray
    sets: np.ndarray
    legal: np.ndarray


class TreeOwn(NamedTuple):
    """What sentences keep: rows (n, K), roots (S, K), rules (S, K, K K).

    absent (S, K, K K), absent_rows (S, K) : logs of q(a rule, or a row, is not used); (0, ...) if
        they are not wanted
    """

    rows: np.ndarray
    roots: np.ndarray
    rules: np.ndarray
    absent: np.ndarray
    absent_rows: np.ndarray


@kernel
def move_sentence(units, s, sign, own, symbols, counts):
    """Counts += sign * what sentence s keeps."""
    K = own.rows.shape[1]
    for t in range(units.offsets[s], units.offsets[s + 1]):
        word = units.words[t]
        for k in range(K):
            value = sign * own.rows[t, k]
            counts.kind[k, 0] += value
            if word >= 0:
                symbols.table[word, k] += value
                symbols.totals[k] += value
    for a in range(K):
        counts.root[a] += sign * own.roots[s, a]
        total, line, mine = 0.0, counts.rule[a], own.rules[s, a]
        for p in range(K * K):
            value = sign * mine[p]
            line[p] += value
            total += value
        counts.kind[a, 1] += total


@kernel
def predict_rules(counts, prior, kinds, grammar):
    """Posterior predictive weights; counts below zero are taken as zero. kinds (K, 2)."""
    K, total = kinds.shape[0], prior.root_rest
    for a in range(K):
        total += max(counts.root[a], 0.0) + prior.root[a]
    for a in range(K):
        grammar.root[a] = (max(counts.root[a], 0.0) + prior.root[a]) / total
        emits = max(counts.kind[a, 0], 0.0) + prior.kind[a, 0]
        splits = max(counts.kind[a, 1], 0.0) + prior.kind[a, 1]
        kinds[a, 0], kinds[a, 1] = emits / (emits + splits), splits / (emits + splits)
        line, ours, theirs = grammar.rule[a], counts.rule[a], prior.rule[a]
        of_rules = prior.rule_rest[a]
        for p in range(K * K):
            line[p] = max(ours[p], 0.0) + theirs[p]
        for p in range(K * K):
            of_rules += line[p]
        factor = kinds[a, 1] / of_rules if of_rules > 0.0 else 0.0
        for p in range(K * K):
            line[p] *= factor


@kernel
def predict_words(symbols, units, lo, n, kinds, out):
    """Out (n, K) = predictive weights of words times that of emitting, the largest of a row one.

    Returns the sum of the logs of the largest.
    """
    K, total = kinds.shape[0], 0.0
    for i in range(n):
        word, top = units.words[lo + i], 0.0
        for k in range(K):
            value = kinds[k, 0]
            if word >= 0:
                value *= max(symbols.table[word, k], 0.0) + symbols.base
                value /= max(symbols.totals[k], 0.0) + symbols.base_total
            if units.sets.shape[0] > 0:
                value *= units.legal[units.sets[lo + i], k]
            out[i, k] = value
            top = max(top, value)
        if not top > 0.0:
            return -np.inf
        for k in range(K):
            out[i, k] /= top
        total += np.log(top)
    return total


@kernel
def log_of(values):
    """Values (m,) become their logarithms."""
    for i in range(values.shape[0]):
        values[i] = np.log(values[i])


@kernel
def infer_unit(grammar, evidence, units, s, n, room, gather, absent):
    """Log Z of scaled evidence; expected counts of rules in gather (K, K K), and what is absent."""
    brackets, lo, hi = units.brackets, units.ends[s], units.ends[s + 1]
    fill(gather.reshape(-1), 0.0)
    log_z = infer_sentence(grammar, evidence, brackets, lo, hi, n, 1.0, room, gather)
    if np.isnan(log_z):
        fill(gather.reshape(-1), 0.0)
        root, rule, logs = grammar.root.copy(), grammar.rule.copy(), evidence[:n].copy()
        log_of(root)
        log_of(rule.reshape(-1))
        log_of(logs.reshape(-1))
        log_z = infer_in_logs(root, rule, logs, brackets, lo, hi, n, 1.0, room, gather)
        if log_z > -np.inf and absent.rows.shape[0] > 0:
            absent_in_logs(rule, n, room, absent)
        return log_z
    if absent.rows.shape[0] > 0:
        absent_spans(grammar, n, room, absent)
    for a in range(gather.shape[0]):
        for p in range(gather.shape[1]):
            gather[a, p] *= grammar.rule[a, p]
    return log_z


@kernel
def keep_sentence(units, s, n, room, gather, absent, own):
    """Own = what was found."""
    K, lo, last = own.rows.shape[1], units.offsets[s], span_at(n, n, 0)
    for k in range(K):
        own.roots[s, k] = room.inside[last, k] * room.outside[last, k]
    for i in range(n):
        for k in range(K):
            own.rows[lo + i, k] = room.inside[i, k] * room.outside[i, k]
    for a in range(K):
        mine, found = own.rules[s, a], gather[a]
        for p in range(K * K):
            mine[p] = found[p]
    for a in range(absent.rows.shape[0]):
        own.absent_rows[s, a] = log_absent(absent.rows[a])
        for p in range(K * K):
            own.absent[s, a, p] = log_absent(absent.rules[a, p])


@kernel
def pair_sentence(grammar, evidence, n, room, gather):
    """Sum of expected counts times log weights, of scaled evidence."""
    K, total, last = grammar.root.shape[0], 0.0, span_at(n, n, 0)
    for k in range(K):
        share = room.inside[last, k] * room.outside[last, k]
        if share > 0.0:
            total += share * np.log(grammar.root[k])
    for i in range(n):
        for k in range(K):
            share = room.inside[i, k] * room.outside[i, k]
            if share > 0.0:
                total += share * np.log(evidence[i, k])
    for a in range(K):
        for p in range(K * K):
            if gather[a, p] > 0.0:
                total += gather[a, p] * np.log(grammar.rule[a, p])
    return total


@kernel
def sweep_sentences(
    symbols, counts, prior, units, own, block, is_part, is_measured, out_symbols, out, out_found
):
    """Every sentence once, in order. Returns the first without a possible tree, or -1.

    symbols, counts : of all data, of which own are part if `is_part`; they then change with every
        sentence, else they stay as they are
    block : sentences that share an exclusion
    own : counts of each sentence, replaced
    out_symbols, out : += the lane's new counts
    out_found (2,) : sum of log predictives, and of the entropies of trees if `is_measured`
    """
    K, n_units, longest = own.rows.shape[1], units.offsets.shape[0] - 1, longest_of(units.offsets)
    room, evidence, kinds = make_room(longest, K), np.empty((longest, K)), np.empty((K, 2))
    gather, absent = np.empty((K, K * K)), make_absent(K, own.absent.shape[0] > 0)
    grammar = Grammar(np.empty(K), np.empty((K, K * K)), False)
    for first in range(0, n_units, block):
        last = min(first + block, n_units)
        for s in range(first, last):
            if is_part and units.is_used[s]:
                move_sentence(units, s, -1.0, own, symbols, counts)
        if is_part or first == 0:
            predict_rules(counts, prior, kinds, grammar)
        for s in range(first, last):
            if units.is_used[s]:
                lo, n = units.offsets[s], units.offsets[s + 1] - units.offsets[s]
                top = predict_words(symbols, units, lo, n, kinds, evidence)
                log_z = -np.inf
                if top > -np.inf:
                    log_z = infer_unit(grammar, evidence, units, s, n, room, gather, absent)
                if log_z == -np.inf:
                    return s
                out_found[0] += top + log_z
                if is_measured:
                    out_found[1] += log_z - pair_sentence(grammar, evidence, n, room, gather)
                keep_sentence(units, s, n, room, gather, absent, own)
                move_sentence(units, s, 1.0, own, out_symbols, out)
        for s in range(first, last):
            if is_part and units.is_used[s]:
                move_sentence(units, s, 1.0, own, symbols, counts)
    return -1


@kernel
def count_sentences(units, own, out_symbols, out):
    """Counts of sentences as they are."""
    for s in range(units.offsets.shape[0] - 1):
        if units.is_used[s]:
            move_sentence(units, s, 1.0, own, out_symbols, out)


@kernel
def random_trees(units, seeds, own):
    """Own = posteriors of trees under random weights of rules and words; seeds (S,) uint64."""
    K, longest = own.rows.shape[1], longest_of(units.offsets)
    room, evidence, gather = make_room(longest, K), np.empty((longest, K)), np.empty((K, K * K))
    grammar = Grammar(np.ones(K), np.empty((K, K * K)), False)
    absent = make_absent(K, own.absent.shape[0] > 0)
    for s in range(units.offsets.shape[0] - 1):
        lo, n, state = units.offsets[s], units.offsets[s + 1] - units.offsets[s], seeds[s]
        for a in range(K):
            for p in range(K * K):
                grammar.rule[a, p] = max(uniform_of(state), LEAST_DRAWN)
                state += GOLDEN
        for i in range(n):
            for k in range(K):
                evidence[i, k] = max(uniform_of(state), LEAST_DRAWN)
                state += GOLDEN
                if units.sets.shape[0] > 0:
                    evidence[i, k] *= units.legal[units.sets[lo + i], k]
        if not units.is_used[s]:
            continue
        if infer_unit(grammar, evidence, units, s, n, room, gather, absent) > -np.inf:
            keep_sentence(units, s, n, room, gather, absent, own)
