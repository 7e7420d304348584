"""How often the checks of reports fire: on data of the model itself, and with a planted fault.

`python -m experiments.report_checks FIRST COUNT FILE` runs some of the data sets and adds their
counts to FILE; `FILE` alone prints the table.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.stats import SYMBOL

from .frame import Experiment, Row, seeds

N_SETS, FIRST = 100, 200  # seeds that the checks were not written by
MEANS = np.array([[-4.0, 0.0, 2.0], [4.0, 3.0, -2.0], [0.0, -5.0, 0.0]])
FAULTS = {
    "20 outliers, moved after the fit": "Rows that the model does not explain",
    "20 outliers, fitted with the rest: any check": "",
    "a split component": "Two components may be one",
    "a skewed column": "do not fit|does not fit",
    "white flicker": "States flicker",
    "a doubled topic": "cannot be told apart",
}


# ------------------------------------------------------------------------------------------ data


def draw_rows(rng: np.random.Generator, n: int = 300) -> tuple[Any, Any]:
    """Three clusters of three correlated columns."""
    labels = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    turns = [rng.normal(size=(3, 3)) * 0.5 + np.eye(3) for _ in range(3)]
    noise = rng.normal(size=(n, 3))
    return np.stack([MEANS[k] + turns[k] @ e for k, e in zip(labels, noise, strict=True)]), labels


def draw_chains(rng: np.random.Generator, n: int = 6, length: int = 150) -> list[Any]:
    """Three states that are kept with probability 0.9, two columns."""
    found = []
    for _ in range(n):
        states = np.empty(length, dtype=int)
        states[0] = rng.integers(3)
        for t in range(1, length):
            keep = rng.random() < 0.9
            states[t] = states[t - 1] if keep else (states[t - 1] + rng.integers(1, 3)) % 3
        found.append(MEANS[states, :2] + rng.normal(size=(length, 2)))
    return found


def draw_documents(rng: np.random.Generator, n: int = 200, length: int = 60) -> Any:
    """Five topics over 100 words."""
    topics = rng.dirichlet(np.full(100, 0.1), 5)
    shares = rng.dirichlet(np.full(5, 0.3), n)
    return np.stack([rng.multinomial(length, share @ topics) for share in shares])


# ------------------------------------------------------------------------------------ models


def _mixture(seed: int) -> Any:
    return sb.Mixture(3, n_init=3, random_state=seed)


def _chain(seed: int) -> Any:
    return sb.HMM(3, n_init=3, random_state=seed)


def _topics(seed: int) -> Any:
    return sb.LatentDirichletAllocation(5, random_state=seed)


def _searched_mixture(seed: int) -> Any:
    return sb.DPMixture(random_state=seed)


def _searched_chain(seed: int) -> Any:
    return sb.HDPHMM(random_state=seed)


KINDS: dict[str, tuple[Callable[[np.random.Generator], Any], Callable[[int], Any]]] = {
    "mixture": (lambda rng: draw_rows(rng)[0], _mixture),
    "chain": (draw_chains, _chain),
    "topics": (draw_documents, _topics),
    "DPMixture": (lambda rng: draw_rows(rng)[0], _searched_mixture),
    "HDPHMM": (draw_chains, _searched_chain),
}


def clean(kind: str, seed: int) -> Counter[str]:
    """Checks that were made, and those that fired, on data of the model itself."""
    draw, make = KINDS[kind]
    data, model = draw(np.random.default_rng([seed, 1])), make(seed)
    return Counter(
        f"{kind}: {name}: look"
        for name, level in _levels(model.fit(data), data).items()
        if level == "look"
    )


def faulty(fault: str, seed: int) -> Counter[str]:
    """Whether the check that is for a planted fault fires."""
    model, data = PLANTED[fault](np.random.default_rng([seed, 2]), seed)
    found = _levels(model, data)
    hit = any(
        level == "look"
        and (any(part in title for part in FAULTS[fault].split("|")) or not FAULTS[fault])
        for title, level in found.items()
    )
    return Counter({f"{fault}: found": int(hit)})


def _levels(model: Any, data: Any) -> dict[str, str]:
    return {finding.title: finding.level for finding in sb.diagnose(model, data)}


def _contaminate(rng: np.random.Generator) -> Any:
    """20 of 300 rows, each moved 8 to 16 deviations in a direction of its own."""
    rows, _ = draw_rows(rng)
    away = rng.normal(size=(20, 3))
    away *= rng.uniform(8, 16, (20, 1)) / np.linalg.norm(away, axis=1, keepdims=True)
    rows[rng.choice(len(rows), 20, replace=False)] += away
    return rows


def _outliers(rng: np.random.Generator, seed: int) -> tuple[Any, Any]:
    rows = _contaminate(np.random.default_rng(seed))  # turned as those of the fit
    return _mixture(seed).fit(draw_rows(np.random.default_rng(seed))[0]), rows


def _fitted_outliers(rng: np.random.Generator, seed: int) -> tuple[Any, Any]:
    rows = _contaminate(rng)
    return _mixture(seed).fit(rows), rows


def _split(rng: np.random.Generator, seed: int) -> tuple[Any, Any]:
    """The rows of the largest cluster divided among two components at random."""
    rows, labels = draw_rows(rng)
    halves = np.where((labels == 0) & (rng.random(len(labels)) < 0.5), 3, labels)
    return sb.Mixture(4, random_state=seed).fit(rows, labels=halves), rows


def _skewed(rng: np.random.Generator, seed: int) -> tuple[Any, Any]:
    """One column is the exponential of a normal variable, in every cluster."""
    rows, labels = draw_rows(rng)
    rows[:, 1] = MEANS[labels, 1] + np.exp(rng.normal(size=len(rows)))
    return _mixture(seed).fit(rows), rows


def _flicker(rng: np.random.Generator, seed: int) -> tuple[Any, Any]:
    """Every tenth row, at random, is of another state for this row only."""
    sequences = draw_chains(rng)
    for rows in sequences:
        hit = rng.random(len(rows)) < 0.1
        rows[hit] = MEANS[rng.integers(3, size=hit.sum()), :2] + rng.normal(size=(hit.sum(), 2))
    return _chain(seed).fit(sequences), sequences


def _doubled(rng: np.random.Generator, seed: int) -> tuple[Any, Any]:
    """The words of one topic divided among two topics at random."""
    counts = draw_documents(rng)
    model = _topics(seed).fit(counts)
    fitted = model._require_fitted()
    own = fitted.counts.insert(fitted.model.axis, 1)
    for name, field in own.layout.items():
        if fitted.model.axis not in field.axes:
            continue
        slots = np.moveaxis(own.arrays[name], field.axes.index(fitted.model.axis), 0)
        share = (
            rng.beta(0.5 * slots[0] + 1e-9, 0.5 * slots[0] + 1e-9) if SYMBOL in field.axes else 0.5
        )
        slots[-1], slots[0] = slots[0] * share, slots[0] * (1 - share)
    params = fitted.params.insert(fitted.model.axis, 1)
    ids = (*fitted.ids, fitted.next_id)
    model._fitted = replace(fitted, counts=own, params=params, ids=ids, next_id=ids[-1] + 1)
    return model, counts


PLANTED: dict[str, Callable[[np.random.Generator, int], tuple[Any, Any]]] = {
    "20 outliers, moved after the fit": _outliers,
    "20 outliers, fitted with the rest: any check": _fitted_outliers,
    "a split component": _split,
    "a skewed column": _skewed,
    "white flicker": _flicker,
    "a doubled topic": _doubled,
}


def count(first: int, n: int) -> Counter[str]:
    """Counts over some data sets."""
    total: Counter[str] = Counter({"sets": n})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        for seed in range(first, first + n):
            for kind in KINDS:
                total.update(clean(kind, seed))
            for fault in FAULTS:
                total.update(faulty(fault, seed))
    return total


def rows_of(total: Counter[str]) -> list[Row]:
    """The table."""
    n = total["sets"]
    fired = {name: m for name, m in total.items() if name.endswith(": look")}
    found = []
    for kind in KINDS:
        own = {k.split(": ")[1]: m for k, m in fired.items() if k.startswith(f"{kind}: ")}
        told = "; ".join(f"{name}: {m}" for name, m in sorted(own.items())) or "none"
        found.append(Row(f"{kind}: checks that fired on {n} sets of its own data", told))
    for fault in FAULTS:
        found.append(Row(f"{fault}: found in {n} sets", str(total[f"{fault}: found"])))
    return found


def run() -> Experiment:
    """All data sets: ten minutes."""
    return Experiment(
        title="Checks of reports",
        setting="Data drawn from a mixture (300 rows, three clusters), a chain (six sequences of "
        "150 rows, three states) and a topic model (200 documents of 60 words, five topics), "
        "fitted again, rows and sequences also with the number of components searched by DPMixture "
        "and HDPHMM; and the same with a planted fault. Seeds 200 to 299; the checks "
        "were written with seeds below 200 in view.",
        rows=rows_of(count(FIRST, len(seeds(N_SETS)))),
    )


if __name__ == "__main__":
    file = Path(sys.argv[-1])
    total = Counter(json.loads(file.read_text()) if file.exists() else {})
    if len(sys.argv) > 2:
        total += count(int(sys.argv[1]), int(sys.argv[2]))
        file.write_text(json.dumps(total))
    for row in rows_of(total):
        print(f"| {row.what} | {row.ours} |")
