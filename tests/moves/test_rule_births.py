"""Births of categories of grammars: rules of newborns differ, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.moves.trials import _unlike


def test_rules_of_newborns_differ_and_all_others_stay() -> None:
    rules = np.ones((5, 5, 5))
    found = _unlike(rules, 2, np.random.default_rng(0))
    np.testing.assert_array_equal(found[:3, :3, :3], 1.0)
    assert found.sum() == pytest.approx(rules.sum())
    assert (found >= 0).all()
    assert not np.allclose(found[3], found[4])
    np.testing.assert_array_equal(_unlike(np.zeros((2, 2, 2)), 1, np.random.default_rng(0)), 0.0)


def sentences(n: int, seed: int) -> list[str]:
    """Noun phrases and verbs; either kind of word comes in four forms."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        kinds = "dn v dn" if rng.random() < 0.5 else "dn v"
        found.append(" ".join(f"{kind}{rng.integers(4)}" for kind in kinds.replace(" ", "")))
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::stickbreak.errors.ConvergenceWarning")
def test_births_from_one_category_find_others() -> None:
    X = sentences(200, 0)
    one = sb.HDPPCFG(1, random_state=0, max_iter=60, inference="memoized").fit(X)
    alone = sb.HDPPCFG(1, random_state=0, inference=sb.BatchVB(max_iter=20, moves=[sb.Delete()]))
    assert one.n_components_ >= 3
    assert one.lower_bound_ > alone.fit(X).lower_bound_ + 100.0
