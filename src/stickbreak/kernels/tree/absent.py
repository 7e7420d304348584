"""Rules that a tree does not use: q(no span splits by a rule), for expected table counts.

The splits of one span exclude each other, so their sum is the posterior of the rule at the span.
Spans are taken as independent of each other:

    q(no a -> b c)  =  product over spans of 1 - q(a splits into b c at the span)

and q(a never splits) likewise. Results are logs, at least LEAST for a sentence.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compile import kernel
from .charts import fill, n_spans

__all__ = ["LEAST", "Absent", "absent_in_logs", "absent_spans", "log_absent", "make_absent"]

LEAST = -40.0  # of a log, for one sentence
FLOOR = math.exp(LEAST)


class Absent(NamedTuple):
    """Probabilities of one sentence: rules (K, K K), rows (K,); without lines if not wanted."""

    rules: np.ndarray
    rows: np.ndarray


@kernel
def make_absent(K, is_wanted):
    """Room for one sentence."""
    lines = K if is_wanted else 0
    return Absent(np.ones((lines, K * K)), np.ones(lines))


@kernel
def log_absent(probability):
    """Log of a probability, from LEAST to 0."""
    return min(math.log(max(probability, FLOOR)), 0.0)


@kernel
def absent_spans(grammar, n, room, out):
    """Out = products over the spans of a sentence, from the charts of `infer_sentence`."""
    K, inside, outside = out.rows.shape[0], room.inside, room.outside
    fill(out.rules.reshape(-1), 1.0)
    fill(out.rows, 1.0)
    for s in range(n, n_spans(n)):
        joint = room.joint[s]
        for a in range(K):
            x = outside[s, a]
            if x > 0.0:
                rule, line = grammar.rule[a], out.rules[a]
                out.rows[a] *= max(1.0 - x * inside[s, a], 0.0)
                for p in range(K * K):
                    line[p] *= max(1.0 - x * rule[p] * joint[p], 0.0)


@kernel
def absent_in_logs(rule, n, room, out):
    """As `absent_spans`, from log rules (K, K K) and the charts of `infer_in_logs`."""
    K = out.rows.shape[0]
    fill(out.rules.reshape(-1), 1.0)
    fill(out.rows, 1.0)
    for s in range(n, n_spans(n)):
        for a in range(K):
            share = room.inside[s, a] * room.outside[s, a]
            if not share > 0.0:
                continue
            logs, top, total = rule[a] + room.joint[s], -np.inf, 0.0
            for p in range(K * K):
                top = max(top, logs[p])
            for p in range(K * K):
                total += math.exp(logs[p] - top)
            out.rows[a] *= max(1.0 - share, 0.0)
            for p in range(K * K):
                out.rules[a, p] *= max(1.0 - share * math.exp(logs[p] - top) / total, 0.0)
