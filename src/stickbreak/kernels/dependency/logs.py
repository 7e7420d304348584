"""The charts of `charts.py` in logarithms: for sums that underflow, best trees and drawn trees."""

from __future__ import annotations

import numpy as np

from ..compile import kernel
from ..draws import choose
from .charts import GO, STOP

__all__ = ["infer_in_logs", "join_trees", "pick_tree"]


@kernel
def plus(a, b):
    """log(exp a + exp b)."""
    top, low = (a, b) if a > b else (b, a)
    return top if low == -np.inf else top + np.log1p(np.exp(low - top))


@kernel
def larger_or_sum(a, b, is_best):
    """The larger of two logs, or the log of the sum."""
    return max(a, b) if is_best else plus(a, b)


@kernel
def join_trees(w, n, is_best, c):
    """Fill charts of logs; returns the log of the sum of all trees, or of the best one."""
    half, push, shut, arc = c.half, c.push, c.shut, c.arc
    for h in range(n):
        half[h, h] = 0.0
        for s in range(2):
            push[s, h, h] = w.choice[h, s, 0, GO]
            shut[s, h, h] = w.choice[h, s, 0, STOP]
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            right, left = -np.inf, -np.inf
            for k in range(i, j):
                right = larger_or_sum(right, push[1, i, k] + shut[0, j, k + 1], is_best)
                left = larger_or_sum(left, shut[1, i, k] + push[0, j, k + 1], is_best)
            arc[i, j], arc[j, i] = right + w.attach[i, j], left + w.attach[j, i]
            right, left = -np.inf, -np.inf
            for k in range(i, j):
                right = larger_or_sum(right, arc[i, k + 1] + shut[1, k + 1, j], is_best)
                left = larger_or_sum(left, arc[j, k] + shut[0, k, i], is_best)
            half[i, j], half[j, i] = right, left
            push[1, i, j] = right + w.choice[i, 1, 1, GO]
            shut[1, i, j] = right + w.choice[i, 1, 1, STOP]
            push[0, j, i] = left + w.choice[j, 0, 1, GO]
            shut[0, j, i] = left + w.choice[j, 0, 1, STOP]
    total = -np.inf
    for h in range(n):
        total = larger_or_sum(total, w.root[h] + shut[0, h, 0] + shut[1, h, n - 1], is_best)
    return total


@kernel
def differentiate_logs(w, n, total, c, d):
    """Fill the logs d of the derivatives of log total with respect to the charts."""
    for h in range(n):
        for e in range(n):
            d.arc[h, e] = -np.inf
            for s in range(2):
                d.push[s, h, e] = d.shut[s, h, e] = -np.inf
    for h in range(n):
        d.shut[0, h, 0] = plus(d.shut[0, h, 0], w.root[h] + c.shut[1, h, n - 1] - total)
        d.shut[1, h, n - 1] = plus(d.shut[1, h, n - 1], w.root[h] + c.shut[0, h, 0] - total)
    for width in range(n - 1, 0, -1):
        for i in range(n - width):
            j = i + width
            right = plus(
                d.shut[1, i, j] + w.choice[i, 1, 1, STOP], d.push[1, i, j] + w.choice[i, 1, 1, GO]
            )
            left = plus(
                d.shut[0, j, i] + w.choice[j, 0, 1, STOP], d.push[0, j, i] + w.choice[j, 0, 1, GO]
            )
            for k in range(i, j):
                d.arc[i, k + 1] = plus(d.arc[i, k + 1], right + c.shut[1, k + 1, j])
                d.shut[1, k + 1, j] = plus(d.shut[1, k + 1, j], right + c.arc[i, k + 1])
                d.arc[j, k] = plus(d.arc[j, k], left + c.shut[0, k, i])
                d.shut[0, k, i] = plus(d.shut[0, k, i], left + c.arc[j, k])
            right, left = d.arc[i, j] + w.attach[i, j], d.arc[j, i] + w.attach[j, i]
            for k in range(i, j):
                d.push[1, i, k] = plus(d.push[1, i, k], right + c.shut[0, j, k + 1])
                d.shut[0, j, k + 1] = plus(d.shut[0, j, k + 1], right + c.push[1, i, k])
                d.shut[1, i, k] = plus(d.shut[1, i, k], left + c.push[0, j, k + 1])
                d.push[0, j, k + 1] = plus(d.push[0, j, k + 1], left + c.shut[1, i, k])


@kernel
def infer_in_logs(w, n, c, d, found):
    """As `infer_tree`, for log weights; -inf if no tree is possible."""
    total = join_trees(w, n, False, c)
    if total == -np.inf:
        return total
    differentiate_logs(w, n, total, c, d)
    for a in range(n):
        found.head[a, 0] = np.exp(w.root[a] + c.shut[0, a, 0] + c.shut[1, a, n - 1] - total)
        for h in range(n):
            found.head[a, h + 1] = 0.0 if h == a else np.exp(c.arc[h, a] + d.arc[h, a])
    for h in range(n):
        for s in range(2):
            first, last = (0, h) if s == 0 else (h + 1, n)
            go, stop = 0.0, 0.0
            for e in range(first, last):
                go += np.exp(c.push[s, h, e] + d.push[s, h, e])
                stop += np.exp(c.shut[s, h, e] + d.shut[s, h, e])
            found.choice[h, s, 0, GO] = np.exp(c.push[s, h, h] + d.push[s, h, h])
            found.choice[h, s, 0, STOP] = np.exp(c.shut[s, h, h] + d.shut[s, h, h])
            found.choice[h, s, 1, GO], found.choice[h, s, 1, STOP] = go, stop
    return total


@kernel
def pick(logs, n, uniform, room):
    """The largest of n logs if uniform is negative (the first of equals), else one by its share."""
    best = 0
    for k in range(1, n):
        if logs[k] > logs[best]:
            best = k
    if uniform < 0.0:
        return best
    top = logs[best]
    for k in range(n):
        room[k] = np.exp(logs[k] - top)
    return choose(room[:n], uniform)


@kernel
def pick_tree(w, n, c, uniforms, heads):
    """Heads (n,) of a tree, 0 for the root, from the top down; charts are those of `join_trees`.

    uniforms (2 n,) : in [0, 1) for a tree by its share, negative for the best one
    """
    logs, room, todo = np.empty(n), np.empty(n), np.empty((2 * n + 2, 2), dtype=np.int64)
    for h in range(n):
        logs[h] = w.root[h] + c.shut[0, h, 0] + c.shut[1, h, n - 1]
    top = pick(logs, n, uniforms[0], room)
    heads[top] = 0
    todo[0, 0], todo[0, 1], todo[1, 0], todo[1, 1] = top, 0, top, n - 1
    n_todo, n_used = 2, 1
    while n_todo > 0:
        n_todo -= 1
        h, e = todo[n_todo, 0], todo[n_todo, 1]
        if h == e:
            continue
        is_right = e > h
        lo, hi = (h, e) if is_right else (e, h)
        for k in range(lo, hi):
            logs[k - lo] = (
                c.arc[h, k + 1] + c.shut[1, k + 1, e]
                if is_right
                else (c.arc[h, k] + c.shut[0, k, e])
            )
        at = lo + pick(logs, hi - lo, uniforms[n_used], room)
        a = at + 1 if is_right else at
        heads[a] = h + 1
        lo, hi = (h, a) if is_right else (a, h)
        for k in range(lo, hi):
            logs[k - lo] = (
                c.push[1, h, k] + c.shut[0, a, k + 1]
                if is_right
                else (c.shut[1, a, k] + c.push[0, h, k + 1])
            )
        k = lo + pick(logs, hi - lo, uniforms[n_used + 1], room)
        n_used += 2
        first, second = (h, a) if is_right else (a, h)
        todo[n_todo, 0], todo[n_todo, 1] = a, e
        todo[n_todo + 1, 0], todo[n_todo + 1, 1] = first, k
        todo[n_todo + 2, 0], todo[n_todo + 2, 1] = second, k + 1
        n_todo += 3
