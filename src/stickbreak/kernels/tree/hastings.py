"""Whole trees drawn given those of all other sentences, and accepted by Metropolis-Hastings.

A tree is proposed with the posterior predictive weights of the other sentences, in which the rules
of the tree do not see each other. With p the exact probability of a tree given the others, in which
they do, and q the product of these weights, a tree takes the place of the last one with probability
min(1, p(new) q(last) / (p(last) q(new))) [JGG07].

A sentence keeps the category of every word, states (n,), and at the first word of every right
child its parent, nodes (n, 3): begin, end and category. Its first word has none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile import kernel
from ..draws import GOLDEN, choose, uniform_of
from .charts import Grammar, inside_sums, make_room, span_at
from .logs import join_in_logs, pick_tree
from .sentences import longest_of
from .sweeps import log_of, predict_rules, predict_words

__all__ = ["Trees", "draw_sentences"]


class Trees(NamedTuple):
    """Trees of sentences: states (n,), nodes (n, 3); see the module."""

    states: np.ndarray
    nodes: np.ndarray


@kernel
def category_of(trees, lo, begin, end):
    """Category of the span begin to end of the sentence whose words begin at lo."""
    if end == begin + 1:
        return trees.states[lo + begin]
    for i in range(begin + 1, end):
        if trees.nodes[lo + i, 0] == begin and trees.nodes[lo + i, 1] == end:
            return trees.nodes[lo + i, 2]
    return 0


@kernel
def move_tree(units, s, sign, trees, at, symbols, counts, prior, rule_totals):
    """Counts += sign * those of a tree, whose sentence begins at `at` in trees.

    Returns the log of its probability given the counts before, if sign is 1, up to the number of
    sentences. rule_totals (K,) : prior counts of all pairs of a category.
    """
    lo, n, K, value = (
        units.offsets[s],
        units.offsets[s + 1] - units.offsets[s],
        len(counts.root),
        0.0,
    )
    top = category_of(trees, at, 0, n)
    value += np.log(counts.root[top] + prior.root[top])
    counts.root[top] += sign
    for i in range(n):
        a, word = trees.states[at + i], units.words[lo + i]
        kinds, theirs = counts.kind[a], prior.kind[a]
        value += np.log((kinds[0] + theirs[0]) / (kinds[0] + kinds[1] + theirs[0] + theirs[1]))
        kinds[0] += sign
        if word >= 0:
            total = symbols.totals[a] + symbols.base_total
            value += np.log((symbols.table[word, a] + symbols.base) / total)
            symbols.table[word, a] += sign
            symbols.totals[a] += sign
    for i in range(1, n):
        begin, end, a = trees.nodes[at + i, 0], trees.nodes[at + i, 1], trees.nodes[at + i, 2]
        p = category_of(trees, at, begin, i) * K + category_of(trees, at, i, end)
        kinds, theirs = counts.kind[a], prior.kind[a]
        value += np.log((kinds[1] + theirs[1]) / (kinds[0] + kinds[1] + theirs[0] + theirs[1]))
        value += np.log((counts.rule[a, p] + prior.rule[a, p]) / (kinds[1] + rule_totals[a]))
        kinds[1] += sign
        counts.rule[a, p] += sign
    return value


@kernel
def weigh_tree(grammar, evidence, n, trees, at):
    """Log of the product of the weights of a tree's root, rules and words."""
    K, value = grammar.root.shape[0], np.log(grammar.root[category_of(trees, at, 0, n)])
    for i in range(n):
        value += np.log(evidence[i, trees.states[at + i]])
    for i in range(1, n):
        begin, end, a = trees.nodes[at + i, 0], trees.nodes[at + i, 1], trees.nodes[at + i, 2]
        p = category_of(trees, at, begin, i) * K + category_of(trees, at, i, end)
        value += np.log(grammar.rule[a, p])
    return value


@kernel
def raise_weights(grammar, evidence, n, power):
    """Weights to a power, for temperatures other than one."""
    for i in range(grammar.root.shape[0]):
        grammar.root[i] = grammar.root[i] ** power
        for p in range(grammar.rule.shape[1]):
            grammar.rule[i, p] = grammar.rule[i, p] ** power
        for t in range(n):
            evidence[t, i] = evidence[t, i] ** power


@kernel
def draw_tree(grammar, n, room, state, weights, todo, out):
    """Out = a tree by its share, from the charts of `inside_sums`; state : of random numbers."""
    inside, scale, K = room.inside, room.scale, room.inside.shape[1]
    for k in range(K):
        weights[k] = grammar.root[k] * inside[span_at(n, n, 0), k]
    todo[0, 0], todo[0, 1] = 0, n
    todo[0, 2], n_todo = choose(weights[:K], uniform_of(state)), 1
    while n_todo > 0:
        n_todo -= 1
        i, w, a = todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2]
        if w == 1:
            out.states[i] = a
            continue
        s = span_at(n, w, i)
        for p in range(K * K):
            weights[p] = grammar.rule[a, p] * room.joint[s, p]
        state += GOLDEN
        p = choose(weights[: K * K], uniform_of(state))
        top = -np.inf
        for u in range(1, w):
            top = max(top, scale[span_at(n, u, i)] + scale[span_at(n, w - u, i + u)])
        for u in range(1, w):
            left, right = span_at(n, u, i), span_at(n, w - u, i + u)
            both = inside[left, p // K] * inside[right, p % K]
            weights[u - 1] = both * np.exp(scale[left] + scale[right] - top)
        state += GOLDEN
        u = choose(weights[: w - 1], uniform_of(state)) + 1
        node = out.nodes[i + u]
        node[0], node[1], node[2] = i, i + w, a
        todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2] = i + u, w - u, p % K
        todo[n_todo + 1, 0], todo[n_todo + 1, 1], todo[n_todo + 1, 2] = i, u, p // K
        n_todo += 2


@kernel
def draw_in_logs(grammar, evidence, units, s, n, room, state, out):
    """As `draw_tree`, with charts in logarithms. Returns log Z."""
    root, rule, logs = grammar.root.copy(), grammar.rule.copy(), evidence[:n].copy()
    log_of(root)
    log_of(rule.reshape(-1))
    log_of(logs.reshape(-1))
    ends = units.ends
    log_z = join_in_logs(root, rule, logs, units.brackets, ends[s], ends[s + 1], n, False, room)
    if log_z == -np.inf:
        return log_z
    uniforms, nodes = np.empty(n), np.empty((2 * n - 1, 4), dtype=np.int64)
    for i in range(n):
        uniforms[i] = uniform_of(state)
        state += GOLDEN
    pick_tree(root, rule, n, room, uniforms, nodes)
    for v in range(2 * n - 1):
        begin, end, split, a = nodes[v, 0], nodes[v, 1], nodes[v, 2], nodes[v, 3]
        if split < 0:
            out.states[begin] = a
        else:
            out.nodes[split, 0], out.nodes[split, 1], out.nodes[split, 2] = begin, end, a
    return log_z


@kernel
def draw_sentences(
    symbols, counts, prior, units, trees, is_part, seeds, power, accepted, out_symbols, out,
    out_log_z,
):  # fmt: skip
    """A tree for every sentence, in order. Returns the first without a possible tree, or -1.

    symbols, counts : of all data, of which trees are part if `is_part`; they then change with every
        sentence, else they stay as they are, and every tree is taken
    seeds (n,) : uint64, of which a sentence uses its first. power : of all probabilities
    trees, accepted (S,) : replaced; 1 for a new tree, 0 for the last one, -1 if there was none
    out_symbols, out : += the lane's new counts. out_log_z (1,) : += the sum of log predictives
    """
    K, longest = counts.root.shape[0], longest_of(units.offsets)
    room, evidence, kinds = make_room(longest, K), np.empty((longest, K)), np.empty((K, 2))
    grammar = Grammar(np.empty(K), np.empty((K, K * K)), False)
    weights, todo = np.empty(max(K * K, longest)), np.empty((longest + 1, 3), dtype=np.int64)
    new = Trees(np.empty(longest, dtype=np.int64), np.empty((longest, 3), dtype=np.int64))
    totals = prior.rule_rest.copy()
    for a in range(K):
        for p in range(K * K):
            totals[a] += prior.rule[a, p]
    for s in range(units.offsets.shape[0] - 1):
        if not units.is_used[s]:
            continue
        lo, n = units.offsets[s], units.offsets[s + 1] - units.offsets[s]
        if is_part:
            move_tree(units, s, -1.0, trees, lo, symbols, counts, prior, totals)
        predict_rules(counts, prior, kinds, grammar)
        top, log_z = predict_words(symbols, units, lo, n, kinds, evidence), -np.inf
        if power != 1.0:
            raise_weights(grammar, evidence, n, power)
        state, ends = seeds[lo] + GOLDEN, units.ends
        if top > -np.inf:
            log_z = inside_sums(grammar, evidence, units.brackets, ends[s], ends[s + 1], n, room)
            if np.isnan(log_z):
                log_z = draw_in_logs(grammar, evidence, units, s, n, room, state, new)
            else:
                draw_tree(grammar, n, room, state, weights, todo, new)
        if log_z == -np.inf:
            return s
        out_log_z[0] += top * power + log_z
        is_taken = True
        if is_part:
            theirs = move_tree(units, s, 1.0, trees, lo, symbols, counts, prior, totals)
            move_tree(units, s, -1.0, trees, lo, symbols, counts, prior, totals)
            ours = move_tree(units, s, 1.0, new, 0, symbols, counts, prior, totals)
            gain = power * (ours - theirs)
            gain += weigh_tree(grammar, evidence, n, trees, lo)
            gain -= weigh_tree(grammar, evidence, n, new, 0)
            is_taken = np.log(1.0 - uniform_of(seeds[lo])) < gain
            if not is_taken:
                move_tree(units, s, -1.0, new, 0, symbols, counts, prior, totals)
                move_tree(units, s, 1.0, trees, lo, symbols, counts, prior, totals)
        accepted[s] = int(is_taken) if is_part else -1
        if is_taken:
            for i in range(n):
                trees.states[lo + i] = new.states[i]
                for c in range(3):
                    trees.nodes[lo + i, c] = new.nodes[i, c]
        move_tree(units, s, 1.0, trees, lo, out_symbols, out, prior, totals)
    return -1
