"""Four ways to the probability that some step goes from one state to another: errors on random
chains, and during a fit of letters.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.data import Sequences
from stickbreak.inference import ExcludeOwn
from stickbreak.initialize import from_local
from stickbreak.models import hdp_hmm
from stickbreak.stats import SERIAL

from .frame import Experiment, Row, data_folder, is_quick, save_picture
from .sequences import as_sequences

N_DRAWS = (100, 1000)
ROWS = {10: (10, 100, 1000, 10_000), 50: (100, 1000)}  # of all random chains, by states
BLOCK, N_LETTERS = 100, 10_000
SWEEPS = (1, 10, 100, 300)
STATES = (10, 20)
PUBLISHED = {  # mean absolute error of independent pairs and of the mean field
    (10, 10): "1.3e-3, 1.3e-2", (10, 100): "6.6e-3, 1.6e-2", (10, 1000): "1e-5, 7e-6",
    (50, 100): "2.9e-5, 1.8e-3", (50, 1000): "2.1e-4, 3.9e-3",
}  # fmt: skip


@dataclass(frozen=True)
class Absent:
    """(K, K) log q(no such step), by each way."""

    exact: np.ndarray
    others: dict[str, np.ndarray]

    def errors(self) -> dict[str, float]:
        """Mean absolute errors of q(some such step)."""
        return {
            name: float(np.abs(np.exp(found) - np.exp(self.exact)).mean())
            for name, found in self.others.items()
        }


def random_chain(T: int, K: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """First state (K,) and steps (T - 1, K, K), each line random weights."""
    first, steps = rng.random(K), rng.random((T - 1, K, K))
    return first / first.sum(), steps / steps.sum(2, keepdims=True)


def infer_absent(first: np.ndarray, steps: np.ndarray, rng: np.random.Generator) -> Absent:
    """Logs of one chain."""
    K = len(first)
    shares = [first]
    for step in steps:
        shares.append(shares[-1] @ step)
    q = np.array(shares)
    pairs = np.log1p(-q[:-1, :, None] * steps).sum(0)
    kept, here = np.ones((K, K)), np.tile(q[0][:, None], K)
    mass = np.tile(q[0], (K, K, 1))
    index = np.arange(K)
    for t, step in enumerate(steps, 1):
        before = np.where(np.eye(K, dtype=bool), kept - here, kept)
        kept, here = kept - q[t][None, :] * here, q[t][:, None] * before
        moved = mass @ step
        moved[:, index, index] -= mass[index, :, index] * step
        mass = moved
    drawn = {f"{n} draws": draw_absent(first, steps, n, rng) for n in N_DRAWS}
    with np.errstate(divide="ignore"):
        logs = {"independent": pairs, "mean field": np.log(np.maximum(kept, 1e-300)), **drawn}
        return Absent(np.log(np.maximum(mass.sum(2), 1e-300)), logs)


def draw_absent(
    first: np.ndarray, steps: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """(K, K) log part of n drawn paths that lack a step."""
    K = len(first)
    state = rng.choice(K, size=n, p=first)
    seen = np.zeros((n, K, K), dtype=bool)
    for step in steps:
        after = (step.cumsum(1)[state] < rng.random(n)[:, None]).sum(1).clip(max=K - 1)
        seen[np.arange(n), state, after] = True
        state = after
    return np.log(np.maximum(1.0 - seen.mean(0), 1e-300))


def simulate(K: int, n_rows: int, seed: int = 0) -> Absent:
    """Sums over chains of at most BLOCK rows."""
    rng, parts = np.random.default_rng([seed, K, n_rows]), []
    for _ in range(max(1, n_rows // BLOCK)):
        parts.append(infer_absent(*random_chain(min(n_rows, BLOCK), K, rng), rng))
    others = {name: sum(p.others[name] for p in parts) for name in parts[0].others}
    return Absent(sum(p.exact for p in parts), others)


def read_letters(n: int = N_LETTERS) -> Sequences:
    """The first letters of Alice's Adventures in Wonderland: 26, and 0 for all between words."""
    path = data_folder() / "sequences" / "misc" / "alice.txt"
    text = path.read_text(encoding="utf-8-sig").lower()
    text = text[text.index("*** start of") :].split("\n", 1)[1]
    words = "".join(c if "a" <= c <= "z" else " " for c in text).split()
    codes = np.frombuffer(" ".join(words)[:n].encode(), dtype=np.uint8).astype(int)
    symbols = np.where(codes == 32, 0, codes - 96)[:, None]
    return as_sequences(np.array_split(symbols, max(2, n // BLOCK)))


def follow_letters(data: Sequences, K: int, sweeps: tuple[int, ...]) -> dict[int, Absent]:
    """Absent steps after some sweeps, all ways at the same posteriors."""
    family = sb.Categorical(1 / 27, (27,))
    model = hdp_hmm(family, root="tables", concentration=3.0, top_concentration=5.0)
    start, rule, batch = from_local(model, data, K, np.random.default_rng(0)), ExcludeOwn(), None
    batch, counts, own, params, found = data.whole(), start.seed, start.warm, start.params, {}
    ways = {"independent": {}, "mean-field": {}, "exact": {}}
    ways |= {f"{n} draws": {"existence": "sampled", "n_draws": n} for n in N_DRAWS}
    for sweep in range(1, sweeps[-1] + 1):
        counts, own = rule.visit(model, counts, params, batch, own, (), SERIAL)
        params = model.global_step(counts, params)
        if sweep in sweeps:
            potentials, logs = rule.potentials(model, counts, params), {}
            for name, how in ways.items():
                chain = replace(model.structure, **({"existence": name} | how))
                local, _ = replace(model, structure=chain).local_step(potentials, batch)
                logs[name] = local["log_absent"]
            found[sweep] = Absent(logs.pop("exact"), logs)
    return found


def row_of(what: str, found: Absent, published: str = "") -> Row:
    """Errors of each way, and how probable a step is on average."""
    errors = ", ".join(f"{name} {error:.1e}" for name, error in found.errors().items())
    present = -np.expm1(found.exact)
    figures = f"{errors}; mean q {present.mean():.3f}, {(present < 0.01).mean():.2f} below 0.01"
    return Row(what, figures, published)


def draw(random: dict[int, Absent], letters: dict[int, Absent]) -> str:
    """Errors on random chains by size, and which steps the letters' states take."""
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    for name in next(iter(random.values())).others:
        errors = [max(found.errors()[name], 1e-17) for found in random.values()]
        panels[0].loglog(list(random), errors, "o-", label=name)
    panels[0].set(
        xlabel="rows of random chains, K=10", ylabel="mean absolute error", ylim=(1e-8, 1)
    )
    panels[0].legend()
    first, last = min(letters), max(letters)
    for panel, sweep in zip(panels[1:], (first, last), strict=True):
        shown: Any = panel.imshow(-np.expm1(letters[sweep].exact), vmin=0, vmax=1, cmap="viridis")
        panel.set(title=f"letters, sweep {sweep}: q(some step)", xlabel="to", ylabel="from")
    figure.colorbar(shown, ax=panels[2])
    return save_picture(figure, "absent_steps")


def run() -> Experiment:
    """Random chains and letters."""
    data, rows, random, began = read_letters(), [], {}, time.process_time()
    for K, sizes in ROWS.items():
        for n in sizes[:2] if is_quick() else sizes:
            found = simulate(K, n)
            random |= {n: found} if min(ROWS) == K else {}
            known = f"{PUBLISHED[K, n]} (a re-run)" if (K, n) in PUBLISHED else ""
            rows.append(row_of(f"random chains, K={K}, {n:,} rows", found, known))
    for K in STATES:
        letters = follow_letters(data, K, SWEEPS[:2] if is_quick() else SWEEPS)
        for sweep, found in letters.items():
            published = "independent below 1e-3" if STATES[0] == K else ""
            rows.append(row_of(f"letters, K={K}, sweep {sweep}", found, published))
    setting = (
        "Mean absolute errors of q(some step from j to k) against messages of the chain without "
        f"the step. Random chains: lines of steps uniform, blocks of {BLOCK} rows; smaller than "
        "published (up to 10,000 rows, and 1,000 with 50 states; up to 1,000 draws), one seed. "
        f"Letters: the first {N_LETTERS:,} of Alice in Wonderland, 26 letters and space, in "
        f"sequences of {BLOCK}; top concentration 5, concentration 3, both learned, prior count "
        f"1/27; {STATES[1]} states in the place of 50, for which messages take hours. "
        f"{time.process_time() - began:.0f} CPU s in all."
    )
    return Experiment("Steps that are not taken", setting, rows, FOUND, draw(random, letters))


FOUND = (
    "Independent pairs are closest wherever errors matter. Of 1,000 rows and 10 states, where q is "
    "1 to five digits, mean field and 1,000 draws are closer by 5e-6. Letters: at first all steps "
    "are taken; later mean field is off by up to 0.2, and many steps between 20 states are hardly "
    "ever taken, so that q cannot be taken as 1."
)
