"""CPU seconds of importing, of the first look at an estimator, and of a first fit, each in a fresh process."""

from __future__ import annotations

from .child import run_python
from .report import Report, Row, milliseconds

CODE = """
import json, sys, time
sys.modules["pandas"] = None
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
sys.modules["pandas"] = None
began = time.process_time()
import sklearn.base
print(json.dumps(time.process_time() - began))
"""
TARGETS = [("import stickbreak", 0.3), ("import stickbreak, sb.Mixture", 1.5), ("first fit, 1000 x 2, K=8, beyond imports", 1.0)]


def run(quick: bool = False) -> Report:
    run_python(CODE)  # warms numba's cache
    rounds = 2 if quick else 15
    found, floors = zip(*[(run_python(CODE), run_python(FLOOR)) for _ in range(rounds)], strict=True)
    best, floor = [min(column) for column in zip(*found, strict=True)], min(floors)
    peers = ["-", milliseconds(floor), "-"]
    rows = [
        Row(what, milliseconds(s), peer, target=f"under {t} s", met=s < t)
        for (what, t), s, peer in zip(TARGETS, best, peers, strict=True)
    ]
    note = (
        f"CPU time, fresh processes, compiled kernels found on disk, least of {rounds}; pandas, which scikit-learn loads when "
        "it is installed, is left out (we do not depend on it). `sb.Mixture` needs the peer's import."
    )
    return Report("Imports and first fit", rows, (note,), peer="import sklearn.base")
