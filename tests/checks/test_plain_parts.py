"""The public batteries pass for parts that define what they must and nothing else, and say what a
part lacks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from registers import FAMILIES

import stickbreak as sb
from docs.skeletons.estimator import FlatMixture, register
from docs.skeletons.family import Exponential
from docs.skeletons.prior import FlatShares
from docs.skeletons.structure import Alone
from stickbreak.checks import check_estimator, check_family, check_model, check_structure
from stickbreak.checks.requirements import FAMILY, PRIOR, STRUCTURE
from stickbreak.data import Table
from stickbreak.estimators import register_part
from stickbreak.families.base import BaseFamily, BaseScores
from stickbreak.inference import MeanLog
from stickbreak.initialize import from_plusplus
from stickbreak.models import Model
from stickbreak.priors import BasePrior
from stickbreak.structures import BaseStructure

ROWS = FAMILIES["skeleton"].rows


class PlainStructure(BaseStructure):
    """The skeleton's three methods that a structure must define."""

    infer, count, log_evidence = Alone.infer, Alone.count, Alone.log_evidence
    _logits = staticmethod(Alone._logits)


class PlainPrior(BasePrior):
    """The skeleton's seven methods that a prior must define."""

    concentration, _pseudo = 1.0, FlatShares._pseudo
    fields, zeros, sizes = FlatShares.fields, FlatShares.zeros, FlatShares.sizes
    potentials, predictive = FlatShares.potentials, FlatShares.predictive
    mean, bound = FlatShares.mean, FlatShares.bound


@register_part
class PlainFamily(sb.DiagonalGaussian):
    """Without draws of rows, or of parameters."""

    draws, learned = False, ()
    sample, draw, learn = BaseFamily.sample, BaseFamily.draw, BaseFamily.learn


@register
class PlainMixture(FlatMixture):
    """Made of nothing but plain parts."""

    PRIOR = ()

    def _make_model(self, family: Any, prior: Any) -> Model:
        return Model(PlainStructure(), family, PlainPrior())


def plain_model() -> Model:
    return Model(PlainStructure(), FAMILIES["skeleton"].family, PlainPrior())


def check_its_structure(model: Model) -> None:
    start = from_plusplus(plain_model(), Table(ROWS), 3, np.random.default_rng(0))
    potentials = model.potentials(start.seed, start.params, MeanLog())
    check_structure(model, potentials, Table(ROWS).take(np.arange(5)))


# ---- what is enough ------------------------------------------------------------------------------
def test_families_need_not_sample() -> None:
    check_family(PlainFamily(), FAMILIES["diagonal"].rows)
    with pytest.raises(ValueError, match="PlainFamily has no method `sample`"):
        sb.Mixture(2, family=PlainFamily(), random_state=0).fit(ROWS).sample(3)


def test_structures_need_three_methods_and_priors_seven() -> None:
    model = plain_model()
    check_its_structure(model)
    check_model(model, Table(ROWS), from_plusplus(model, Table(ROWS), 3, np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("inference", "words"),
    [
        ("hard-em", "HardEM is not for PlainStructure; use EM"),
        ("em", "EM is not for PlainPrior; use BatchVB"),
        ("gibbs", "PlainStructure has no method `infer_drawn`"),
    ],
)
def test_engines_that_need_more_refuse(inference: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PlainMixture(2, inference=inference, random_state=0).fit(ROWS)


@pytest.mark.slow
def test_estimators_of_plain_parts_pass() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 2))
    found = check_estimator(PlainMixture(2, family=PlainFamily(), random_state=0), rows)
    assert not [check for check in found if check["status"] == "failed"]


# ---- what is not ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", FAMILY)
def test_a_family_that_lacks_a_method_is_told_which(name: str) -> None:
    lacking = type("Lacking", (Exponential,), {name: getattr(BaseFamily, name)})
    with pytest.raises(AssertionError, match=f"Lacking must define {name}: see BaseFamily"):
        check_family(lacking(), ROWS)


def test_scores_that_lack_a_method_are_told_which() -> None:
    class Silent(Exponential):
        def mode(self, counts: Any) -> Any:
            return type("Scores", (BaseScores,), {"evidence": None, "collect": None})()

    with pytest.raises(AssertionError, match="Scores must define pair: see BaseScores"):
        check_family(Silent(), ROWS)


@pytest.mark.parametrize("name", STRUCTURE)
def test_a_structure_that_lacks_a_method_is_told_which(name: str) -> None:
    lacking = type("Lacking", (Alone,), {name: getattr(BaseStructure, name)})
    with pytest.raises(AssertionError, match=f"Lacking must define {name}: see BaseStructure"):
        check_its_structure(replace(plain_model(), structure=lacking()))


@pytest.mark.parametrize("name", PRIOR)
def test_a_prior_that_lacks_a_method_is_told_which(name: str) -> None:
    lacking, model, table = (
        type("Lacking", (FlatShares,), {name: getattr(BasePrior, name)}),
        plain_model(),
        Table(ROWS),
    )
    start = from_plusplus(model, table, 3, np.random.default_rng(0))
    with pytest.raises(AssertionError, match=f"Lacking must define {name}: see BasePrior"):
        check_model(replace(model, prior=lacking()), table, start)


def test_a_part_of_no_base_class_is_refused() -> None:
    with pytest.raises(AssertionError, match="object must be a subclass of BaseFamily"):
        check_family(object(), ROWS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"draws": True}, "draws is True; it must say whether there is a method `infer_drawn`"),
        ({"has_best": False}, "has_best is False; it must say whether there is"),
        ({"best": BaseStructure.best}, "must define best"),
        ({"tracks": frozenset({"merge"})}, "must define merge_terms"),
        ({"tracks": frozenset({"split"})}, "tracks holds 'split'"),
        ({"is_ordered": True}, "must define filter, viterbi, walk"),
        ({"cuts_units": True}, "must define infer_long"),
        ({"log_evidence": lambda self, p, b: np.zeros(1)}, "log_evidence gave shape"),
        ({"best": lambda self, p, b: np.zeros(5, dtype=int)}, "best must give the labeling"),
    ],
)
def test_a_structure_that_declares_what_it_cannot_do_is_caught(changes: Any, words: str) -> None:
    broken = type("Broken", (Alone,), changes)
    with pytest.raises(AssertionError, match=words):
        check_its_structure(replace(plain_model(), structure=broken()))


def test_a_family_that_declares_draws_it_has_not_is_caught() -> None:
    with pytest.raises(AssertionError, match="draws is True; it must say whether"):
        check_family(type("Broken", (Exponential,), {"draws": True})(), ROWS)
