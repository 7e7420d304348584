"""CPU seconds of importing, of the first look at an estimator, and of a first fit, each in a fresh process."""

from __future__ import annotations

from .child import run_python
from .report import Report, Row, milliseconds

CODE = """
import json, time
began = time.process_time()
import stickbreak as sb
imported = time.process_time()
sb.Mixture
found = time.process_time()
import numpy as np
X = np.random.default_rng(0).normal(size=(1000, 2))
X[:500] += 4.0
ready = time.process_time()
sb.Mixture(8, random_state=0).fit(X)
fitted = time.process_time()
print(json.dumps([imported - began, found - began, fitted - ready]))
"""
TARGETS = [("import stickbreak", 0.3), ("import stickbreak, sb.Mixture", 1.5), ("first fit, 1000 x 2, K=8, beyond imports", 1.0)]


def run(quick: bool = False) -> Report:
    run_python(CODE)  # warms numba's cache
    found = [run_python(CODE) for _ in range(2 if quick else 5)]
    best = [min(column) for column in zip(*found, strict=True)]
    rows = [Row(what, milliseconds(s), target=f"under {t} s", met=s < t) for (what, t), s in zip(TARGETS, best, strict=True)]
    return Report("Imports and first fit", rows, ("CPU time, fresh processes, warm cache of compiled kernels, least of five.",))
