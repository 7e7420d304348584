"""Rows of a finite chain: symmetric priors, stickiness, tables of the user with impossible
steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles import root as oracle

from stickbreak.inference import LogMean, MeanLog, Mode
from stickbreak.priors import ROWS, BasePrior, DirichletRows
from stickbreak.stats import Fields, Summary

NOTHING = Fields({}, {})
LEFT_TO_RIGHT = np.array([[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 0.0, 3.0]])
PRIORS: dict[str, Any] = {
    "symmetric": DirichletRows(0.3, 1.2),
    "sticky": DirichletRows(0.3, 1.2, stickiness=4.0),
    "tables": DirichletRows(
        start_prior=[1.0, 0.5, 0.1], transition_prior=np.arange(1.0, 10.0).reshape(3, 3)
    ),
    "zeros": DirichletRows(start_prior=[1.0, 0.0, 0.0], transition_prior=LEFT_TO_RIGHT),
}
every_prior = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())


def summary(start: Any, transition: Any) -> Summary:
    arrays = {
        "start": np.asarray(start, dtype=float),
        "transition": np.asarray(transition, dtype=float),
    }
    return Summary(DirichletRows().fields("state"), arrays)


def random_counts(prior: Any, seed: int = 0) -> Summary:
    """Counts of possible steps only."""
    rng, pseudo = np.random.default_rng(seed), prior.pseudo(NOTHING, 3)
    return summary(
        np.where(pseudo.start > 0, rng.gamma(1.0, 2.0, 3), 0.0),
        np.where(pseudo.transition > 0, rng.gamma(0.5, 9.0, (3, 3)), 0.0),
    )


def moved(counts: Summary, name: str, at: Any, by: float) -> Summary:
    arrays = {n: a.copy() for n, a in counts.arrays.items()}
    arrays[name][at] += by
    return Summary(counts.layout, arrays)


@every_prior
def test_keeps_the_contract(prior: Any) -> None:
    assert isinstance(prior, BasePrior)
    assert prior.order(random_counts(prior)) is None
    counts = random_counts(prior)
    assert prior.update(counts, prior.start(3, "state")) == prior.start(3, "state")


@every_prior
def test_bound_is_the_rows_evidence(prior: Any) -> None:
    counts, pseudo = random_counts(prior), prior.pseudo(NOTHING, 3)
    rows = [
        (counts["start"], pseudo.start),
        *zip(counts["transition"], pseudo.transition, strict=True),
    ]
    direct = sum(oracle.c_dir(p[p > 0]) - oracle.c_dir((n + p)[p > 0]) for n, p in rows)
    assert prior.bound(counts, NOTHING) == pytest.approx(direct, abs=1e-10)
    zeros = Summary(counts.layout, prior.zeros(3))
    assert prior.bound(zeros, NOTHING) == pytest.approx(0.0, abs=1e-12)


@every_prior
def test_laws(prior: Any) -> None:
    """mean_log is the derivative of the bound, log_mean its difference, mode the derivative of
    log_mode.
    """
    counts, pseudo, h = random_counts(prior), prior.pseudo(NOTHING, 3), 1e-4
    tables = {
        rule: prior.potentials(counts, NOTHING, rule) for rule in (MeanLog(), LogMean(), Mode())
    }
    for name, at in [("start", (k,)) for k in range(3)] + [
        ("transition", (j, k)) for j in range(3) for k in range(3)
    ]:
        found = [tables[rule][name][at] for rule in tables]
        if getattr(pseudo, name)[at] == 0:
            assert found == [-np.inf] * 3
            continue
        more, less, one = (moved(counts, name, at, by) for by in (h, -h, 1.0))
        slope = (prior.bound(more, NOTHING) - prior.bound(less, NOTHING)) / (2 * h)
        best = (prior.log_mode(more, NOTHING) - prior.log_mode(less, NOTHING)) / (2 * h)
        assert found[0] == pytest.approx(slope, rel=1e-6, abs=1e-7)
        assert found[1] == pytest.approx(
            prior.bound(one, NOTHING) - prior.bound(counts, NOTHING), abs=1e-9
        )
        assert found[2] == pytest.approx(best, rel=1e-6, abs=1e-7)


@every_prior
def test_expected_rows_sum_to_one(prior: Any) -> None:
    counts = random_counts(prior)
    for table in prior.predictive(counts, NOTHING).values():
        np.testing.assert_allclose(np.exp(table).sum(-1), 1.0, rtol=1e-12)
    assert prior.mean(counts, NOTHING).sum() == pytest.approx(1.0, abs=1e-12)


def test_mean_is_the_share_of_rows() -> None:
    # 9 rows in the first state, 11 in the second
    counts = summary([2.0, 0.0], [[6.0, 2.0], [1.0, 9.0]])
    np.testing.assert_allclose(DirichletRows(5.0, 0.5).mean(counts, NOTHING), [9.5 / 21, 11.5 / 21])


def test_a_tiny_concentration_gives_maximum_likelihood() -> None:
    counts = random_counts(DirichletRows())
    found = DirichletRows(1e-14, 1e-14).potentials(counts, NOTHING, Mode())
    for name in ("start", "transition"):
        np.testing.assert_allclose(
            np.exp(found[name]), counts[name] / counts[name].sum(-1, keepdims=True), rtol=1e-9
        )


def test_stickiness_is_added_to_the_diagonal() -> None:
    pseudo = DirichletRows(0.3, stickiness=4.0).pseudo(NOTHING, 3)
    np.testing.assert_allclose(pseudo.transition, 0.3 + 4.0 * np.eye(3))
    assert pseudo.transition_rest is None


def test_counts_of_impossible_steps_are_left_out() -> None:
    prior, counts = PRIORS["zeros"], random_counts(PRIORS["zeros"])
    wrong = moved(counts, "transition", (2, 0), 5.0)  # labels of a start may hold some
    assert prior.bound(wrong, NOTHING) == prior.bound(counts, NOTHING)
    np.testing.assert_array_equal(
        prior.potentials(wrong, NOTHING, MeanLog())["transition"],
        prior.potentials(counts, NOTHING, MeanLog())["transition"],
    )


def test_rest_is_one_more_outcome() -> None:
    rng = np.random.default_rng(1)
    counts, pseudo, rest = (
        rng.gamma(1.0, size=(2, 3)),
        rng.gamma(1.0, size=(2, 3)),
        rng.gamma(1.0, size=2),
    )
    whole = np.c_[counts, np.zeros(2)], np.c_[pseudo, rest]
    for method in ("log_partition", "log_best"):
        np.testing.assert_allclose(
            getattr(ROWS, method)(counts, pseudo, rest), getattr(ROWS, method)(*whole), rtol=1e-12
        )
    for method in ("mean_log", "log_mean", "mode"):
        np.testing.assert_allclose(
            getattr(ROWS, method)(counts, pseudo, rest),
            getattr(ROWS, method)(*whole)[:, :3],
            rtol=1e-12,
        )


def test_tables_refuse_other_numbers_of_states() -> None:
    prior, counts = PRIORS["tables"], random_counts(PRIORS["tables"])
    merged = counts.merge("state", 0, 2)
    for ask in (
        prior.bound,
        prior.mean,
        prior.log_mode,
        lambda c, p: prior.potentials(c, p, MeanLog()),
    ):
        with pytest.raises(
            ValueError, match="for 3 states, but there are 2; fit that many, and without moves"
        ):
            ask(merged, NOTHING)
    assert prior.n_states == 3
    assert DirichletRows().n_states is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"concentration": 0.0}, "concentration must be a positive number; got 0.0"),
        ({"start_concentration": -1}, "start_concentration must be a positive number; got -1"),
        ({"stickiness": -2.0}, "stickiness must be zero or a positive number; got -2.0"),
        ({"stickiness": float("inf")}, "stickiness must be zero or a positive number; got inf"),
        ({"start_prior": [[1.0]]}, r"start_prior must have shape \(K,\); got \(1, 1\)"),
        (
            {"transition_prior": np.ones((2, 3))},
            r"transition_prior must have shape \(K, K\); got "
            r"\(2, 3\)",
        ),
        ({"transition_prior": [[1.0, -0.5], [1.0, 1.0]]}, r"entry \(0, 1\) is -0.5"),
        ({"start_prior": [1.0, np.nan]}, "entry 1 is nan"),
        (
            {"transition_prior": [[1.0, 1.0], [0.0, 0.0]]},
            "transition_prior leaves nothing possible in row 1",
        ),
        ({"start_prior": [0.0, 0.0]}, "start_prior leaves nothing possible: give"),
        ({"transition_prior": np.ones((2, 2)), "stickiness": 1.0}, "add it to its diagonal"),
    ],
)
def test_bad_settings_name_the_value(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DirichletRows(**settings)


def test_tables_must_agree() -> None:
    with pytest.raises(ValueError, match="start_prior is for 2 states, transition_prior for 3"):
        DirichletRows(start_prior=[1.0, 1.0], transition_prior=np.ones((3, 3)))
