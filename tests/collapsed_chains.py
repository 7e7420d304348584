"""Small chains of symbols, and collapsed sweeps of them in plain loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np

from stickbreak.data import Sequences
from stickbreak.families import Categorical
from stickbreak.models import finite_hmm, hdp_hmm
from stickbreak.stats import Fields, Summary

K, V = 3, 5


def words(n: int = 8, seed: int = 0, gaps: bool = False) -> Sequences:
    """Sequences of one to six symbols; with gaps, some are missing and some sequences count 0."""
    rng = np.random.default_rng(seed)
    lengths = np.r_[1, rng.integers(2, 7, n - 1)]
    rows = rng.integers(0, V, lengths.sum())
    repeats = None
    if gaps:
        rows[rng.random(len(rows)) < 0.2] = -1
        repeats = np.repeat((np.arange(n) % 4 != 2).astype(float), lengths)
    return Sequences(rows[:, None], repeats, offsets=np.r_[0, lengths.cumsum()])


def dictionary(data: Sequences) -> tuple[Sequences, np.ndarray]:
    """Which states a symbol may have: 0 only the first, 1 all but the last, others all."""
    legal = np.ones((3, K))
    legal[1, 1:] = legal[2, -1] = 0.0
    sets = np.select([data.rows[:, 0] == 0, data.rows[:, 0] == 1], [1, 2], 0)
    return replace(data, sets=sets), legal


FAMILY = replace(Categorical(0.4), n_symbols=(V,))
MODELS = {
    "hmm": lambda: finite_hmm(FAMILY, concentration=0.3, start_concentration=0.7),
    "sticky": lambda: finite_hmm(FAMILY, concentration=0.3, stickiness=2.0),
    "impossible": lambda: finite_hmm(
        FAMILY, start_prior=np.ones(K), transition_prior=np.triu(np.ones((K, K)))
    ),
    "hdp": lambda: hdp_hmm(FAMILY, stickiness=1.5, concentration=0.8),
    "tables": lambda: hdp_hmm(FAMILY, root="tables"),
    "base": lambda: hdp_hmm(FAMILY, root="tables", learns=True),
}


def in_doubles(own: Fields) -> Fields:
    """The same own counts in float64, so that sweeps can be compared to the last digits."""
    return replace(own, arrays={n: a.astype(float) for n, a in own.arrays.items()})


def plain_sweep(model, rule, counts: Summary, params, data: Sequences, own: Fields, block: int = 1):
    """Counts - own -> potentials -> local step -> counts + own, through the contract alone."""
    batch, log_z, bound = data.whole(), 0.0, 0.0
    weights = batch.repeats_or_ones()
    for first in range(0, batch.n_spans, block):
        units = [batch.part(u, u + 1) for u in range(first, min(first + block, batch.n_spans))]
        old = []
        for unit in units:
            out = dict(counts.empty().arrays)
            mine, at = own.cut(**unit.cut), unit.cut["row"]
            shares = mine["rows"] * weights[at][:, None]
            out["start"] = out["start"] + shares[0]
            out["transition"] = out["transition"] + mine["pairs"][0] * weights[at][0]
            rule.pick(model.family)(counts).collect(
                model.family.prepare(unit.rows), np.asfortranarray(shares), out
            )
            old.append(replace(counts.empty(), arrays=out))
        for part in old:
            counts = counts - part
        potentials = rule.potentials(model, counts, params)
        for unit in units:
            new = model.local_step(potentials, unit.alone())[0]
            mine = own.cut(**unit.cut)
            if unit.n_observations:
                mine["rows"][...] = model.shares(potentials, unit.alone())
                mine["pairs"][0] = new["transition"]
            counts, log_z, bound = counts + new, log_z + new.log_z, bound + new.local_bound
    return counts, log_z, bound


def chances_of_symbols(data: Sequences, base: float):
    """Predictives (m, K) of the rows `at`, given the posteriors q of the rows `others`."""
    symbols = data.rows[:, 0]

    def chances(q, others, at):
        found = np.ones((len(at), K))
        for i, v in enumerate(symbols[at]):
            if v >= 0:
                mine, seen = others[symbols[others] == v], others[symbols[others] >= 0]
                found[i] = (q[mine].sum(0) + base) / (q[seen].sum(0) + V * base)
        return found

    return chances


def chances_of_rows(family, rows):
    """The same for the rows of any family."""

    def chances(q, others, at):
        out = family.zeros(K)
        scores = family.mean_log(out)
        scores.collect(family.prepare(rows[others]), np.asfortranarray(q[others]), out)
        return np.exp(family.log_mean(out).evidence(family.prepare(rows[at])))

    return chances


def plain_tokens(prior, data: Sequences, q, legal, chances):
    """The formula, with every count summed anew over the steps that it may know."""
    ends, log_z = data.offsets, 0.0
    is_first = np.isin(np.arange(data.n_rows), ends[:-1])
    is_used = np.ones(data.n_rows) if data.repeats is None else data.repeats
    into = [t for t in range(data.n_rows) if not is_first[t] and is_used[t]]
    rest = np.zeros(K) if prior.transition_rest is None else prior.transition_rest
    total = prior.transition.sum(1) + rest

    def steps(*left_out):
        kept = [t for t in into if t not in left_out]
        return q[[t - 1 for t in kept]].T @ q[kept]

    for lo, hi in pairwise(ends):
        at = lambda t, lo=lo, hi=hi: q[t] if lo <= t < hi else np.zeros(K)
        for t in range(lo, hi if is_used[lo] else lo):
            a, b = at(t - 1), at(t + 1)
            if t == lo:
                others = [s for s in ends[:-1] if s != t and is_used[s]]
                weight = q[others].sum(0) + prior.start
            else:
                weight = a @ (steps(t - 1, t, t + 1) + prior.transition) + at(t - 2) * a
            if t < hi - 1:
                out = (steps(t, t + 1, t + 2) + prior.transition) @ b + b * at(t + 2)
                weight = weight * (out + a * b) / (steps(t, t + 1).sum(1) + total + a)
            if legal is not None:
                weight = weight * legal[data.sets[t]]
            before = weight.sum()
            others = np.flatnonzero((is_used > 0) & (np.arange(len(q)) != t))
            weight = weight * chances(q, others, np.array([t]))[0]
            log_z += np.log(weight.sum() / before)
            q[t] = weight / weight.sum()
    return log_z


def plain_blocks(prior, data: Sequences, q, pairs, length, guards, chances, form="plain"):
    """Block by block, every count summed anew, every path of a block enumerated.

    form : of guards="counts" and even prior counts; "published" divides these by the guard's
        chances, "misprinted" has the denominator of the guard's row
    """
    bounds = data.whole().in_blocks(length)
    ends, joins = bounds.offsets, ~bounds.windows.is_first
    total = prior.transition.sum(1) + (
        0.0 if prior.transition_rest is None else prior.transition_rest
    )
    n_blocks = len(ends) - 1
    follows = lambda s: 0 < s < n_blocks and joins[s]

    def steps(*left_out):
        kept = [s for s in range(n_blocks) if s not in left_out]
        found = prior.transition + pairs[kept].sum(0)
        for s in kept:
            if follows(s) and s - 1 in kept:
                found = found + np.outer(q[ends[s] - 1], q[ends[s]])
        return found

    rows = lambda table: table / (table.sum(1) + total - prior.transition.sum(1))[:, None]
    for s in range(n_blocks):
        lo, hi = ends[s], ends[s + 1]
        others = np.r_[0:lo, hi : len(q)]
        first = [ends[r] for r in range(n_blocks) if r != s and not joins[r]]
        left, right = q[first].sum(0) + prior.start, np.ones(K)
        if follows(s):
            table = steps(s - 1, s)
            left = q[lo - 1] @ (table if guards == "counts" else rows(table))
        if follows(s + 1):
            table = steps(s, s + 1)
            right = rows(table) @ q[hi]
            if form == "misprinted":
                right = table @ (q[hi] / table.sum(1))
        if form == "published":
            with_prior = lambda found, chance: found + prior.transition * (1 / (K * chance) - 1)
            if follows(s):
                left = q[lo - 1] @ with_prior(steps(s - 1, s), q[lo - 1][:, None])
            if follows(s + 1):
                right = with_prior(table, q[hi][None]) @ q[hi] / table.sum(1)
        theta, phi = rows(steps(s)), chances(q, others, np.arange(lo, hi))
        found, weights = np.zeros((hi - lo, K)), np.zeros((K, K))
        for path in product(range(K), repeat=hi - lo):
            weight = left[path[0]] * right[path[-1]] * np.prod(phi[range(hi - lo), path])
            weight *= np.prod([theta[i, j] for i, j in pairwise(path)])
            found[range(hi - lo), path] += weight
            for i, j in pairwise(path):
                weights[i, j] += weight
        z = found[0].sum()
        q[lo:hi], pairs[s] = found / z, weights / z
