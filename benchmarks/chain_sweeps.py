"""A collapsed sweep over sentences, each inferred from all others, against laps of variational
Bayes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from experiments.frame import MissingDataError
from experiments.tagged import read_brown
from stickbreak.data import Batch, Sequences
from stickbreak.families import Categorical
from stickbreak.inference import ExcludeOwn, MeanLog
from stickbreak.initialize import from_local
from stickbreak.models import Model, finite_hmm
from stickbreak.protocols import Sweep
from stickbreak.stats import SERIAL

from .report import Report, Row, fastest, milliseconds

N_STATES, N_SENTENCES, PRIOR = 45, 5_000, 0.1
PUBLISHED, FASTER = 36_000, 20  # tokens a second, and how many times as many are wanted
NO_EXTRAS = {"is_measured": False, "keeps_last": False}
TARGETS = {"alone": 1.5, "side by side": 4.0}
NOTE = """\
{what}; K={K}, one thread, CPU time, laps in turn. A sweep takes the counts of a sentence out, makes
all predictives, infers its path, keeps its counts and puts them back: an engine's visit, without
the bound. Alone: the same forward-backward, a sentence at a time, from tables that are made once.
Side by side: the local step of variational Bayes, eight sentences at a time, potentials given."""


def read_sentences(quick: bool) -> tuple[Sequences, int, str]:
    """Sentences of Brown, or random ones; the size of the vocabulary; what they are."""
    n = N_SENTENCES // 20 if quick else N_SENTENCES
    try:
        found = [[word.lower() for word, _ in sentence] for sentence in read_brown()[:n]]
        what = f"The first {n:,} sentences of Brown"
    except MissingDataError:
        rng = np.random.default_rng(0)
        words = (rng.pareto(0.8, (n, 20)) * 4).astype(int) % 10_000
        found, what = [[str(word) for word in line] for line in words], f"{n:,} random sentences"
    words, symbols = np.unique(np.concatenate(found), return_inverse=True)
    offsets = np.r_[0, np.cumsum([len(sentence) for sentence in found])]
    data = Sequences(symbols[:, None].astype(np.int32), offsets=offsets)
    return data, len(words), f"{what}, {data.n_rows:,} tokens"


@dataclass(frozen=True)
class Including(ExcludeOwn):
    """The same sweep, from counts that nothing leaves."""

    def _how(self, model: Model, batch: Batch, is_part: bool) -> Sweep:
        return super()._how(model, batch, False)


def make_laps(data: Sequences, n_symbols: int) -> dict[str, Callable[[], None]]:
    """One sweep or lap after another, from the same random paths."""
    model, batch = finite_hmm(Categorical(PRIOR, (n_symbols,))), data.whole()
    start = from_local(model, data, N_STATES, np.random.default_rng(0))
    assert start.warm is not None
    rule, kept, own = ExcludeOwn(**NO_EXTRAS), {"counts": start.seed}, start.warm.copy()
    potentials = MeanLog().potentials(model, start.seed, start.params)

    def sweep() -> None:
        args = model, kept["counts"], start.params, batch
        kept["counts"], _ = rule.visit(*args, start.warm, (), SERIAL)

    def alone() -> None:
        Including(**NO_EXTRAS).visit(model, start.seed, start.params, batch, own, (), SERIAL)

    def side_by_side() -> None:
        model.local_step(potentials, batch, None, ())

    return {"sweep": sweep, "alone": alone, "side by side": side_by_side}


def run(quick: bool = False) -> Report:
    data, n_symbols, what = read_sentences(quick)
    laps = make_laps(data, n_symbols)
    fastest(*laps.values(), rounds=2)
    seconds = dict(zip(laps, fastest(*laps.values(), rounds=2 if quick else 7), strict=True))
    ours, wanted = seconds["sweep"], PUBLISHED * FASTER
    rate = data.n_rows / ours
    rows = [
        Row(
            "tokens a second", f"{rate:,.0f}", f"{PUBLISHED:,} (published)",
            f"{rate / PUBLISHED:.1f}x", f"at least {FASTER}x", None if quick else rate >= wanted,
        )
    ]  # fmt: skip
    for name, most in TARGETS.items():
        ratio = ours / seconds[name]
        figures = milliseconds(ours), milliseconds(seconds[name]), f"{ratio:.2f}x"
        is_met = None if quick else ratio <= most
        rows.append(Row(f"against sentences {name}", *figures, f"at most {most:g}x", is_met))
    note = NOTE.format(what=what, K=N_STATES)
    return Report("Sweeps of sentences", rows, (note,), ours="sweep", peer="lap")
