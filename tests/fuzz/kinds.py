"""What is attacked. A new kind is one function here, with the decorator: see `models`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.inference import Callback

from .campaign import Attack, Maker
from .data_files import mutate_file, sound_files, write_models
from .mutations import mutate_checkpoint, mutate_model

Mutate = Callable[[bytes, int], bytes]
Attacks = tuple[list[Attack], Callable[[int], Attack]]
KINDS: dict[str, Maker] = {}


def kind(maker: Maker) -> Maker:
    """Make it known to `python -m tests.fuzz` by its name."""
    KINDS[maker.__name__] = maker
    return maker


def in_turn(good: list[Attack], mutate: Mutate) -> Attacks:
    """Attack the good files in turn: `mutate` changes the content of one."""

    def attack(number: int) -> Attack:
        chosen = good[number % len(good)]
        return replace(chosen, payload=mutate(chosen.payload, number))

    return good, attack


# ---- data ----------------------------------------------------------------------------------------

ROWS = 40
RNG = np.random.default_rng(0)
GROUPS = np.arange(ROWS) % 2
TABLES = {
    "blobs": 9.0 * GROUPS[:, None] * [1.0, -1.0] + RNG.normal(size=(ROWS, 2)),
    "counts": RNG.poisson(np.where(GROUPS[:, None], [5, 1, 1, 2], [1, 4, 3, 0])),
    "bits": (RNG.random((ROWS, 4)) < np.where(GROUPS[:, None], 0.9, 0.2)).astype(int),
    "symbols": RNG.integers(0, 3, (ROWS, 3)),
}
LINES = {
    "pairs": ["the cat ||| le chat", "a cat ||| un chat", "the dog ||| le chien"] * 3,
    "tags": ["DET NOUN VERB", "NOUN VERB DET NOUN", "NOUN VERB"] * 3,
}


def write_tables(folder: Path) -> None:
    for name, rows in TABLES.items():
        names = ",".join(f"{name}{d}" for d in range(rows.shape[1]))
        lines = [",".join(map(repr, row)) for row in rows.tolist()]
        (folder / f"{name}.csv").write_text("\n".join([names, *lines, ""]))
    documents = [{w: int(n) for w, n in enumerate(row) if n} for row in TABLES["counts"]]
    lines = [" ".join([str(len(bag)), *(f"{w}:{n}" for w, n in bag.items())]) for bag in documents]
    (folder / "docs.ldac").write_text("\n".join([*lines, ""]))
    for name, text in LINES.items():
        (folder / f"{name}.txt").write_text("\n".join([*text, ""]))


def name_of(data: str) -> str:
    return "docs.ldac" if data == "docs" else f"{data}.{'txt' if data in LINES else 'csv'}"


def open_data(folder: Path, data: str) -> Any:
    """The data as the command line opens them."""
    path = folder / name_of(data)
    readers = {"docs": sb.read_corpus, "pairs": sb.read_bitext, "tags": lambda _: LINES["tags"]}
    return readers.get(data, sb.open_table)(path)


# ---- model files ---------------------------------------------------------------------------------


@kind
def models(folder: Path) -> Attacks:
    """Model files of every family and structure, read by `show`, `predict` and `score`."""
    write_tables(folder)
    made = [
        ("blobs", sb.Mixture(2)),
        ("blobs", sb.DPMixture(3, family="diagonal")),
        ("blobs", sb.Mixture(2, family=sb.FixedVarianceGaussian(variance=[1.0, 2.0]))),
        ("blobs", sb.Mixture(2, family="zero-mean")),
        ("blobs", sb.Mixture(2, family=sb.Product([("gaussian", [0]), ("diagonal", [1])]))),
        ("blobs", sb.HMM(2)),
        ("blobs", sb.HDPHMM(3)),
        ("blobs", sb.HMM(2, family=sb.AutoregressiveGaussian(order=1))),
        ("counts", sb.Mixture(2, family="multinomial")),
        ("counts", sb.Mixture(2, family="poisson", inference="em")),
        ("bits", sb.Mixture(2, family="bernoulli")),
        ("symbols", sb.DPMixture(3, family="categorical")),
        ("docs", sb.LatentDirichletAllocation(2)),
        ("docs", sb.HDPTopicModel(2)),
        ("blobs", sb.HSMM(2, max_duration=8)),
        ("blobs", sb.HDPHSMM(2, duration_inference="embedded")),
        ("pairs", sb.IBM1()),
        ("pairs", sb.HMMAligner()),
        ("tags", sb.DMV()),
        ("tags", sb.PCFG(2)),
        ("tags", sb.HDPPCFG(2)),
    ]
    good, file = [], "m.stickbreak"
    for data, model in made:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sb.StickbreakWarning)
            model.set_params(random_state=0).fit(open_data(folder, data)).save(folder / file)
        commands = (
            ("show", file, "--json"),
            ("show", file),
            ("predict", file, name_of(data), *([] if data in LINES else ["--proba"]), "--quiet"),
            ("score", file, name_of(data), "--quiet"),
        )
        good.append(Attack(file, (folder / file).read_bytes(), commands))
    return in_turn(good, lambda payload, number: mutate_model([payload], number))


# ---- checkpoints ---------------------------------------------------------------------------------


class StopAt(Callback):
    """Ends a fit in the middle of a lap, as a power cut would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, info: object) -> None:
        if info.step == self.step:  # type: ignore[attr-defined]
            raise InterruptedError


MOVES = (sb.Birth(n_newborn=3, n_passes=5), sb.Merge(), sb.Delete(n_passes=5))


@kind
def checkpoints(folder: Path) -> Attacks:
    """Checkpoints from the first lap, the middle of a lap with moves, and the last, resumed."""
    write_tables(folder)
    few = {"max_iter": 3, "tol": 0.0, "checkpoint_every": 0.0}
    memoized = lambda n, *moves: sb.MemoizedVB(n_batches=n, moves=moves, **few)
    made = [
        ("blobs", 2, sb.DPMixture(3, inference=memoized(3))),
        ("blobs", 8, sb.DPMixture(2, inference=memoized(3, *MOVES))),
        ("blobs", 5, sb.DPMixture(4, inference=memoized(2, *MOVES))),
        (
            "counts", 8, sb.DPMixture(3, family="multinomial", learn_prior=True,
                                      inference=memoized(3, *MOVES)),
        ),
        ("docs", 5, sb.LatentDirichletAllocation(2, inference=memoized(2))),
        ("docs", 6, sb.HDPTopicModel(3, inference=memoized(2))),
        ("blobs", 3, sb.HMM(2, inference=sb.BatchVB(**few))),
        ("blobs", 3, sb.HDPHMM(3, inference=sb.BatchVB(**few))),
        ("blobs", 3, sb.HMM(2, inference=sb.Gibbs(**few))),
        (
            "symbols", 3, sb.Mixture(2, family="categorical",
                                     inference=sb.StochasticVB(batch_size=10, **few)),
        ),
        ("symbols", 3, sb.Mixture(2, family="categorical", inference=sb.CollapsedVB(**few))),
        ("docs", 3, sb.LatentDirichletAllocation(2, inference=sb.CollapsedVB(**few))),
        ("blobs", 3, sb.HSMM(2, max_duration=8, inference=sb.BatchVB(**few))),
        ("pairs", 2, sb.IBM1(directions="forward", inference=sb.CollapsedVB(**few))),
        ("tags", 3, sb.DMV(inference=sb.BatchVB(**few))),
        ("tags", 3, sb.PCFG(2, inference=sb.CollapsedVB(**few))),
    ]  # fmt: skip
    good = []
    for i, (data, step, model) in enumerate(made):
        file = f"{i}.checkpoint"
        model.set_params(random_state=0)
        model.inference.set_params(checkpoint=folder / file, callbacks=(StopAt(step),))
        with contextlib.suppress(InterruptedError):
            model.fit(open_data(folder, data))
        commands = (("resume", file, name_of(data), "--quiet"),)
        good.append(Attack(file, (folder / file).read_bytes(), commands))
    return in_turn(good, mutate_checkpoint)


# ---- data files ----------------------------------------------------------------------------------


@kind
def data(folder: Path) -> Attacks:
    """Tables and documents of every format, fitted, or given to a model."""
    write_models(folder)
    files = sound_files()

    def attack(number: int) -> Attack:
        name, payload, command = mutate_file(files, number)
        return Attack(name, payload, (tuple(command),))

    warm = (
        ("fit", "mixture", "sound.csv", "--columns", "a,b", "-q"),
        ("score", "topics.stickbreak", "sound.ldac"),
    )
    return [Attack("sound.ldac", (folder / "sound.ldac").read_bytes(), warm)], attack
