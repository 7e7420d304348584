"""Sentence pairs with gold links: Hansards, French and English, and English and Swedish."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

import stickbreak as sb
from stickbreak.data import Bitext, Gold, Links, as_links, number_pairs
from stickbreak.metrics import alignment_error_rate

from .frame import data_folder

RULES = ("intersection", "grow-diag", "grow-diag-final", "grow-diag-final-and")


class Pairs(NamedTuple):
    """A bitext with gold links of some of its pairs, English first."""

    bitext: Bitext
    gold: Gold


def read_hansards(n: int | None = None) -> Pairs:
    """25,447 pairs in small letters; people linked the first 447. n : only the first n pairs."""
    folder = data_folder() / "alignment" / "hansards"
    sides = [_lines(folder / f"combination25000.{side}.gz") for side in "ef"]
    bitext = number_pairs(list(zip(*sides, strict=True))[:n])
    gold = sb.read_gold(folder / "test.wa.nonullalign", bitext if n is None or n >= 447 else None)
    return Pairs(bitext, gold)


def _lines(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.lower().split() for line in file]


def read_swedish() -> Pairs:
    """1,164 pairs in small letters, all of them linked by people, all links sure."""
    folder, pairs, links = data_folder() / "alignment" / "en-sv", [], []
    for name in ("train", "valid"):
        with gzip.open(folder / f"swedish.{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            for line in file:
                found = json.loads(line)
                sides = (found["src_words"], found["tgt_words"])
                pairs.append(tuple([word.lower() for word in side] for side in sides))
                links.append([tuple(link) for link in found["alignment"]])
    sure = as_links(links)
    return Pairs(number_pairs(pairs), Gold(sure, sure, np.arange(len(pairs))))


def write_pairs(bitext: Bitext, folder: str | None = None) -> Path:
    """The pairs as a file with `source ||| target` on each line, for other tools."""
    path = Path(tempfile.mkdtemp(dir=folder)) / "pairs.txt"
    with path.open("w", encoding="utf-8") as file:
        for s in range(len(bitext)):
            source, target = bitext[s]
            file.write(f"{' '.join(source)} ||| {' '.join(target)}\n")
    return path


def error_rates(forward: Links, reverse: Links | None, gold: Gold) -> dict[str, float]:
    """Alignment error rates in per cent of both directions, and joined by each rule."""
    rate = lambda links: 100 * alignment_error_rate(links, gold)
    if reverse is None:
        return {"joined by the tool": rate(forward)}
    joined = {rule: rate(sb.symmetrize(forward, reverse, rule)) for rule in RULES}
    return {"forward": rate(forward), "reverse": rate(reverse), **joined}
