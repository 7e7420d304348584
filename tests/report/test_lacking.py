"""Pages say what they lack: a sampler, a bound; and what a fit did is replayed from its moves."""

from __future__ import annotations

import re

import numpy as np
import pytest
from report.test_estimators import ROWS, SEQUENCES, block
from report.test_pages import parse, text_of

import stickbreak as sb
from docs.skeletons.family import Exponential


class Unsampled(Exponential):
    """A family that cannot draw rows."""

    def sample(self, counts, labels, rng):
        raise ValueError("there is no sampler")


def told_of(model, data):
    return re.sub(r"\s+", " ", text_of(parse(model.report(data).html)))


def test_a_model_without_a_sampler_says_that_draws_are_missing():
    X = np.random.default_rng(0).exponential(2.0, (60, 2))
    family = Unsampled(shape=2.5, rate=1.3)
    told = told_of(sb.Mixture(2, family=family, random_state=0).fit(X), X)
    assert "no checks against draws from the model: its family has no sampler" in told
    assert "Columns are not compared with draws from the model: its family has no" in told
    told = told_of(sb.HMM(2, family=family, random_state=0).fit([X]), [X])
    assert "no checks against draws from the model: its family has no sampler" in told


def test_missing_values_and_autoregressions_say_that_draws_are_missing():
    model, holes = sb.Mixture(2, random_state=0).fit(ROWS), ROWS.copy()
    holes[3, 1] = np.nan
    assert "no checks against draws from the model: some values are missing" in told_of(
        model, holes
    )
    assert "no checks against draws" not in told_of(model, ROWS)
    model = sb.HMM(2, family="autoregressive", random_state=0).fit(SEQUENCES)
    assert "draws from the model: rows of autoregressions" in told_of(model, SEQUENCES)


@pytest.mark.parametrize("inference", ["em", sb.Gibbs(max_iter=5)])
def test_engines_without_a_bound_say_what_the_curve_is(inference):
    model = sb.Mixture(2, inference=inference, random_state=0).fit(ROWS)
    told = told_of(model, ROWS)
    assert "This engine has no bound on the evidence" in told
    assert "shown is the log joint, which is not to be compared with bounds" in told
    assert "Bound per row" not in told


@pytest.mark.parametrize(("n", "init"), [(1, "k-means++"), (8, "random")])
def test_moves_replayed_give_the_permanent_ids_of_the_result(n, init):
    """Ids that no birth made are those of the start; then each accepted move in its order."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(m, 1, (60, 2)) for m in (-9, -3, 3, 9)])
    engine = sb.MemoizedVB(moves=(sb.Birth(), sb.Merge(), sb.Delete()))
    model = sb.DPMixture(n, inference=engine, init=init, random_state=0).fit(X)
    kept = [record for record in model.trace_.moves if record.is_accepted]
    assert kept
    made = {i for r in kept if r.kind == "birth" for i in r.children if i not in r.parents}
    alive = {i for r in kept for i in r.parents if i not in made}
    for record in kept:
        gone = record.parents[:1] if record.kind == "delete" else record.parents
        assert set(gone) <= alive
        alive = alive.difference(gone) | set(record.children)
    assert alive == set(model.component_ids_)


def test_no_row_of_a_sequence_is_in_a_private_page():
    model = sb.HMM(2, random_state=0).fit(SEQUENCES)
    shown, private = model.report(SEQUENCES).html, model.report(SEQUENCES, data="none").html
    assert "x0 after a state begins" in shown
    assert "x0 after a state begins" not in private
    assert "course-0" not in private
    assert block(private)["courses"] == []
    assert 'id="strips"' in shown  # the state of each row
    for word in ('id="strips"', "The first 200 stays", 'class="unsure"'):
        assert word not in private
    assert "States over time are left out" in private
    for part in SEQUENCES:
        for value in part.ravel():
            assert repr(float(value)) not in private
