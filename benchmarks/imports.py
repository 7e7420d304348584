"""CPU seconds of importing, of the first look at an estimator, and of a first fit, each in a fresh
process.
"""

from __future__ import annotations

from statistics import median

from .child import run_python
from .report import Report, Row

CODE = """
import json, sys, time
if len(sys.argv) > 1: sys.modules["pandas"] = None
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
FLOOR = """
import json, sys, time
if len(sys.argv) > 1: sys.modules["pandas"] = None
began = time.process_time()
import sklearn.base
print(json.dumps(time.process_time() - began))
"""
TARGETS = [
    ("import stickbreak", 0.3),
    ("import stickbreak, sb.Mixture", 1.5),
    ("first fit, 1000 x 2, K=8, beyond imports", 1.0),
]


def run(quick: bool = False) -> Report:
    run_python(CODE)  # warms numba's cache
    rounds = 2 if quick else 15
    rows = []
    for case, arguments in (("pandas left out", ["without"]), ("pandas installed", [])):
        pairs = [
            (run_python(CODE, *arguments), run_python(FLOOR, *arguments)) for _ in range(rounds)
        ]
        found, floors = zip(*pairs, strict=True)
        columns = list(zip(*found, strict=True))
        peers = ["-", f"{min(floors):.2f} s, median {median(floors):.2f}", "-"]
        rows += [
            Row(
                f"{what}; {case}",
                f"{min(c):.3f} s, median {median(c):.3f}",
                peer,
                target=f"under {t} s",
                met=min(c) < t,
            )
            for (what, t), c, peer in zip(TARGETS, columns, peers, strict=True)
        ]
    note = (
        f"CPU time, fresh processes, compiled kernels found on disk, least and median of {rounds}; "
        "judged by the least. "
        "scikit-learn loads pandas when it is installed; we do not depend on it. "
        "Fitting an array imports no scikit-learn."
    )
    return Report("Imports and first fit", rows, (note,), peer="import sklearn.base")
