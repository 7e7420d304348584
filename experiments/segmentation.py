"""Words of unsegmented speech, and morphemes of generated verbs, by `TemplateGrammar`."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import stickbreak as sb

from .frame import Experiment, Row, data_folder, is_quick, seeds

VERBS = "V | V M | SM V M | SM T V M | SM T OM V M"
SHARES = (0.05, 0.25, 0.3, 0.25, 0.15)
# how many morphemes of each name, and how many letters they have
MORPHEMES = {"SM": (12, 1, 2), "T": (6, 1, 2), "OM": (10, 1, 2), "V": (150, 2, 5), "M": (5, 1, 2)}
LETTERS, N_VERBS, N_SEEDS = "abdefghiklmnopqrstuw", 1671, 5
LAPS, SHORT, DRAWS = 60, 10, 1000


def make_verbs(rng: np.random.Generator) -> list[list[str]]:
    """Different verbs, each as its morphemes; those of a name are as frequent as 1 / rank."""
    lexicon = {}
    for name, (n, least, most) in MORPHEMES.items():
        found: dict[str, None] = {}
        while len(found) < n:
            size = int(rng.integers(least, most + 1))
            found["".join(rng.choice(list(LETTERS), size))] = None
        lexicon[name] = list(found)
    verbs: dict[str, list[str]] = {}
    while len(verbs) < (200 if is_quick() else N_VERBS):
        slots = VERBS.split(" | ")[int(rng.choice(len(SHARES), p=SHARES))].split()
        parts = []
        for name in slots:
            weights = 1.0 / np.arange(1, len(lexicon[name]) + 1)
            parts.append(str(rng.choice(lexicon[name], p=weights / weights.sum())))
        verbs.setdefault("".join(parts), parts)
    return list(verbs.values())


def read_brent() -> list[list[str]]:
    """Utterances to children, as phonemes, each as its words."""
    lines = (data_folder() / "segmentation" / "br-phono.txt").read_text().splitlines()
    found = [line.split() for line in lines if line.strip()]
    return found[:500] if is_quick() else found


def fit(gold: list[list[str]], **settings: Any) -> tuple[sb.TemplateGrammar, float, Any]:
    """A fit, its CPU seconds, and its scores."""
    strings = ["".join(parts) for parts in gold]
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sb.TemplateGrammar(**settings).fit(strings)
    spent = time.process_time() - began
    return model, spent, sb.metrics.segment_scores(gold, model.predict(strings))


def row(name: str, gold: list[Any], published: str = "", **settings: Any) -> Row:
    """One method: mean (sd) over seeds."""
    found = []
    for seed in seeds(N_SEEDS):
        own = gold[seed] if isinstance(gold[0][0], list) else gold
        model, spent, scores = fit(own, random_state=seed, **settings)
        accepted = model.trace_.acceptance
        found.append([
            *(100.0 * part.f1 for part in scores), spent, len(model.trace_),
            100.0 * float(np.mean(accepted[1:])),
        ])  # fmt: skip
    mean, spread = np.mean(found, 0), np.std(found, 0)
    text = (
        f"tokens {mean[0]:.1f} ({spread[0]:.1f}), boundaries {mean[1]:.1f}, lexicon {mean[2]:.1f}; "
        f"{mean[3]:.1f} CPU s, {mean[4]:.0f} laps"
    )
    if np.isfinite(mean[5]):
        text += f"; accepted {mean[5]:.1f} %"
    return Row(name, text, published)


def cut_at_random(gold: list[list[str]], rate: float, rng: np.random.Generator) -> Any:
    """Scores of boundaries at a given rate: 1 for every letter by itself."""
    found = []
    for parts in gold:
        text = "".join(parts)
        ends = [i for i in range(1, len(text)) if rng.random() < rate]
        found.append([text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)])
    return sb.metrics.segment_scores(gold, found)


def run() -> Experiment:
    """Both problems, expected counts against drawn segmentations."""
    verbs = [make_verbs(np.random.default_rng(seed)) for seed in seeds(N_SEEDS)]
    brent, rng = read_brent(), np.random.default_rng(0)
    rate = sum(len(parts) - 1 for parts in brent) / sum(len("".join(p)) - 1 for p in brent)
    drawn = sb.CollapsedGibbs(max_iter=20 if is_quick() else DRAWS)
    cooled = sb.CollapsedGibbs(max_iter=20 if is_quick() else 200, temperature=(5.0, 1.0))
    short = sb.CollapsedVB(max_iter=SHORT)
    expected, of_verbs = sb.CollapsedVB(max_iter=LAPS), {
        "templates": VERBS, "base": "uniform", "concentration": 1e-5,
    }  # fmt: skip
    rows = [
        row("verbs, collapsed", verbs, "29.8", inference=expected, **of_verbs),
        row("verbs, collapsed, local start", verbs, inference=expected, init="local", **of_verbs),
        row("verbs, draws", verbs, "31.3", inference=drawn, **of_verbs),
        Row("Brent, every phoneme", f"tokens {100 * cut_at_random(brent, 1.0, rng).tokens.f1:.1f}"),
        Row("Brent, random", f"tokens {100 * cut_at_random(brent, rate, rng).tokens.f1:.1f}"),
        row("Brent, collapsed", brent, inference=expected),
        row("Brent, collapsed, local start", brent, inference=expected, init="local"),
        row("Brent, collapsed, local start, 10 laps", brent, inference=short, init="local"),
        row("Brent, VB", brent, inference=sb.BatchVB(max_iter=LAPS)),
        row("Brent, VB, local start", brent, inference=sb.BatchVB(max_iter=LAPS), init="local"),
        row("Brent, EM", brent, inference=sb.EM(max_iter=LAPS)),
        row("Brent, draws, cooled", brent, "about 54", inference=cooled),
    ]
    return Experiment(
        "Words and morphemes of strings without spaces",
        f"{N_VERBS} verb types of five templates, generated, alpha 1e-5 (published: Sesotho); and "
        "Brent's utterances to children, spelling base, concentration 20. Percent F; mean (sd) of "
        f"seeds 0 to {N_SEEDS - 1}; CPU seconds with the start. Collapsed (`CollapsedVB`), VB and "
        f"EM: at most {LAPS} laps, from 20 cooled sweeps of the sampler, or from random weights "
        "where a local start is named. Draws: "
        f"`CollapsedGibbs`, {DRAWS} sweeps of verbs, 200 of Brent from temperature 5 to 1.",
        rows,
        "Collapsed weights know how probable it is that a segment is used at all, so that "
        "improbable uses of a long string do not add up: sweeps find in a few laps what a sampler "
        "needs hundreds for, from random weights too. Those end with a lower bound and a worse "
        "lexicon. EM puts long strings together.",
    )
