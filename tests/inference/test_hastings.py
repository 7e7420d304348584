"""Whole trees drawn given those of all other sentences: exact posteriors of small problems."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from inference.test_golden_grammars import flat_counts, small
from oracles.annotation import cells_of
from oracles.dependency import all_trees, counts_of

import stickbreak as sb
from stickbreak.data import Sequences, as_trees, binarize, list_rules, number_trees
from stickbreak.families.listed import ListedWords
from stickbreak.families.tags import Tags
from stickbreak.inference import CollapsedGibbs, Start, run
from stickbreak.models import Model, annotated_grammar, dependency_model
from stickbreak.reading import Stack

EXACT = [2.960471, 2.992948, 0.828011, 2.377092, 2.669489, 0.218570, 2.622908, 3.330511]
PIECE = 50  # laps, enough to forget their beginning


def sampled(
    model: Model, data: Sequences, start: Start, n_laps: int, flat: Callable[[Any], Any]
) -> tuple[np.ndarray, float]:
    """Mean counts (n_laps / PIECE, m) of pieces of a run, and the acceptance of all laps."""
    found, accepted = [], []
    for lap in range(n_laps):
        result = run(model, CollapsedGibbs(max_iter=1), data, start, seed=lap)
        start = Start(result.counts, result.params, warm=result.warm())
        found.append(flat(result.counts))
        accepted.append(result.trace.acceptance[-1])
    assert np.isnan(accepted[0])  # the first trees are all taken
    return np.mean(np.reshape(found, (-1, PIECE, len(found[0]))), 1), float(np.mean(accepted[1:]))


def distances(means: np.ndarray, exact: Any) -> np.ndarray:
    """How far the mean of independent pieces is from what it should be, in standard errors."""
    errors = means.std(0, ddof=1) / np.sqrt(len(means))
    return np.abs(means.mean(0) - exact) / errors


@pytest.mark.parametrize("n_laps", [600, pytest.param(20_000, marks=pytest.mark.slow)])
def test_trees_of_a_small_grammar(n_laps: int) -> None:
    means, acceptance = sampled(*small(), n_laps, flat_counts)
    assert (distances(means, EXACT) < 3.0).all()
    assert acceptance > 0.9  # 0.916 was published


def two_sentences() -> tuple[Model, Sequences, Start, np.ndarray]:
    """Four and three tags; the exact mean counts come last."""
    model = dependency_model(Tags(2), concentration=0.3, stop_concentration=0.4)
    tags = np.array([0, 1, 1, 0, 1, 0, 0])
    data = Sequences(tags[:, None], offsets=np.array([0, 4, 7]))
    params, total, mean = model.start_params(2), 0.0, 0.0
    for first, second in product(all_trees(4), all_trees(3)):
        ours, theirs = counts_of(first, tags[:4], 2), counts_of(second, tags[4:], 2)
        counts = {name: ours[name] + theirs[name] for name in ours}
        weight = np.exp(model.prior.log_rise(counts, params))
        total, mean = total + weight, mean + weight * flat_tags(counts)
    return model, data, Start(model.zeros(2), params), np.asarray(mean / total)


def flat_tags(counts: Any) -> np.ndarray:
    return np.concatenate([np.ravel(counts[name]) for name in ("root", "stop", "attach")])


@pytest.mark.parametrize("n_laps", [600, pytest.param(20_000, marks=pytest.mark.slow)])
def test_dependency_trees(n_laps: int) -> None:
    *problem, exact = two_sentences()
    means, acceptance = sampled(*problem, n_laps, flat_tags)
    varies = means.std(0) > 0
    np.testing.assert_allclose(means[:, ~varies].mean(0), exact[~varies], atol=0.02)
    # of sixteen numbers the largest is expected near two
    assert (distances(means[:, varies], exact[varies]) < 3.5).all()
    assert acceptance > 0.6


SENTENCES = ["a b", "a b a b", "a a b b", "b", "a b a a b b"] * 4


@pytest.mark.parametrize("estimator", [sb.PCFG(3, random_state=0), sb.DMV(random_state=0)])
def test_estimators_draw_trees(estimator: Any) -> None:
    cooled = CollapsedGibbs(max_iter=20, temperature=(2.0, 0.1))
    model = estimator.set_params(inference=cooled).fit(SENTENCES)
    assert np.nanmin(model.trace_.acceptance) >= 0.0
    assert 0.3 < np.nanmean(model.trace_.acceptance) <= 1.0
    counts = model._fitted.counts.arrays
    assert all((array == np.round(array)).all() for array in counts.values())
    assert counts["root"].sum() == len(SENTENCES)
    again = estimator.set_params(inference=cooled).fit(SENTENCES)
    np.testing.assert_array_equal(again.trace_.bound, model.trace_.bound)


def test_a_hierarchical_root_is_refused() -> None:
    with pytest.raises(ValueError, match="samplers draw no root of a grammar; use PCFG"):
        sb.HDPPCFG(3, inference="collapsed-gibbs").fit(SENTENCES)


def two_trees() -> tuple[Model, Any, Start, np.ndarray]:
    """Given trees with two subtypes; the exact mean counts of all rules come last."""
    trees = ["(S (A a) (A a))", "(S (S (A a) (B b)) (B b))"]
    model, data = annotated(trees)
    params, total, mean = model.start_params(2), 0.0, 0.0
    found = [list(annotations(data.companion.of(s))) for s in range(2)]
    for first, second in product(*found):
        counts = model.zeros(2)
        for name, *at in (*first, *second):
            counts[name][tuple(at)] += 1.0
        weight = np.exp(model.prior.log_rise(counts, params))
        total, mean = total + weight, mean + weight * flat_rules(counts)
    return model, data, Start(model.zeros(2), params), np.asarray(mean / total)


def annotated(trees: list[str]) -> tuple[Model, Any]:
    """A model of these trees with two subtypes, and the trees."""
    made = [binarize(tree) for tree in as_trees("".join(trees))]
    listing = list_rules(made, rare=0)
    names = ("symbols", "words", "tops", "binary", "unary", "emits")
    family = ListedWords(**{name: getattr(listing, name) for name in names})
    given = number_trees(made, listing)
    counts = {"concentration": 0.3, "word_concentration": 0.4, "root_concentration": 0.5}
    words = listing.emits[given.rows[:, 0], 1][:, None]
    data = Stack(words, offsets=given.offsets, companion=given)
    return annotated_grammar(family, **counts), data


def annotations(nodes: np.ndarray) -> Any:
    """The entries of the tables that each annotation of a tree uses."""
    cells = cells_of(nodes)
    names = sorted({v for _, _, variables in cells for v in variables})
    for values in product(range(2), repeat=len(names)):
        of = dict(zip(names, values, strict=True))
        yield [(name, rule, *(of[v] for v in variables)) for name, rule, variables in cells]


def flat_rules(counts: Any) -> np.ndarray:
    names = ("root", "binary_rule", "unary_rule", "word_rule")
    return np.concatenate([np.ravel(counts[name]) for name in names])


@pytest.mark.parametrize("n_laps", [600, pytest.param(20_000, marks=pytest.mark.slow)])
def test_subtypes_of_given_trees(n_laps: int) -> None:
    *problem, exact = two_trees()
    means, acceptance = sampled(*problem, n_laps, flat_rules)
    varies = means.std(0) > 0
    np.testing.assert_allclose(means[:, ~varies].mean(0), exact[~varies], atol=0.02)
    # of forty numbers the largest is expected above two, and more from the errors of twelve pieces
    most = 6.0 if n_laps == 600 else 3.7
    assert (distances(means[:, varies], exact[varies]) < most).all()
    assert acceptance > 0.6
