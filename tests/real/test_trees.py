"""Scores of trees against a reference evaluation, where that and the treebank are."""

from __future__ import annotations

import importlib
import os
import random
from pathlib import Path
from typing import Any

import pytest

import stickbreak as sb

DATA = Path(os.environ.get("STICKBREAK_DATA", "nowhere"))
REFERENCE = DATA.parent / "reference" / "evaluation" / "evalb_like.py"
pytestmark = pytest.mark.skipif(
    not (REFERENCE.exists() and (DATA / "tagged" / "treebank.zip").exists()),
    reason="STICKBREAK_DATA names no folder with the treebank beside the reference evaluation",
)


def mutated(tree: sb.ConstituentTree, rng: random.Random) -> sb.ConstituentTree:
    """The tree without some brackets, and with other labels of some."""
    children: list[Any] = []
    for child in tree.children:
        inner = child if isinstance(child, str) else mutated(child, rng)
        below = () if isinstance(inner, str) else inner.children
        is_phrase = any(not isinstance(part, str) for part in below)
        children += list(below) if is_phrase and rng.random() < 0.15 else [inner]
    label = tree.label
    if any(not isinstance(child, str) for child in children) and rng.random() < 0.2:
        label = rng.choice(["NP", "VP", "PRT", "ADVP", "ROOT", "X"])
    return sb.ConstituentTree(label, tuple(children))


def nested(tree: sb.ConstituentTree) -> list[Any]:
    """The tree as lists."""
    return [tree.label, *(c if isinstance(c, str) else nested(c) for c in tree.children)]


def test_labelled_scores_are_those_of_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANCHOR_DATA", str(DATA))
    monkeypatch.syspath_prepend(str(REFERENCE.parent))
    rng, score = random.Random(0), importlib.import_module("evalb_like").Score()
    read = sb.data.iter_trees(DATA / "tagged" / "treebank.zip", member="*combined/wsj_018*.mrg")
    trees = [tree for tree in (one.cleaned() for one in read) if tree is not None]
    assert len(trees) > 100
    guesses = [None if rng.random() < 0.03 else mutated(tree, rng) for tree in trees]
    for tree, guess in zip(trees, guesses, strict=True):
        score.add(nested(tree), None if guess is None else nested(guess))
    found = sb.metrics.span_scores(trees, guesses, labelled=True)
    ours = score.m / score.t, score.m / score.g, score.exact / score.n
    assert ours == pytest.approx((found.precision, found.recall, found.exact), rel=1e-12)
    assert 0.5 < found.f1 < 0.95
