"""The contents of a model file, checked before they are used: one clear error, when it is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stickbreak import families
from stickbreak.data import Scale
from stickbreak.errors import ModelFileError
from stickbreak.families.base import BaseFamily
from stickbreak.inference.checked_snapshots import check_array
from stickbreak.models import ModelPotentials
from stickbreak.parameters import Parameters
from stickbreak.stats import Array, Fields

from .fitted import Fitted

__all__ = ["check_arrays", "check_columns", "check_components", "columns_of", "try_out"]

MANY_ROWS = 1e12  # so that no family warns of too few
MOST_DRAWN = 1 << 20  # numbers of the counts; drawing rows from larger ones takes seconds


def columns_of(family: BaseFamily) -> int:
    """Columns of a row. Raises ModelFileError if the family does not say."""
    try:
        return int(family.n_columns)
    except NotImplementedError:
        raise ModelFileError(
            f"{type(family).__name__} has no property `n_columns`, the number of columns of a "
            "row, which model files need"
        ) from None


def check_components(ids: tuple[int, ...], next_id: int) -> None:
    """Raise ValueError for ids of components that repeat, or that are still to be given."""
    if not ids or len(set(ids)) != len(ids) or min(ids) < 0 or max(ids) >= next_id:
        raise ValueError(f"the model has components {ids[:9]} with next_id={next_id}")


def check_columns(fitted: Fitted, n_columns: int) -> None:
    """Raise ValueError if the family of a file does not fit its columns."""
    columns = columns_of(fitted.model.family)
    if n_columns != columns:
        raise ValueError(
            f"the model says {fitted.schema.n_features} columns, its family has {columns}"
        )
    for label, values in fitted.schema.categories.items():
        if fitted.model.family.names_components and len(values) != len(fitted.ids):
            raise ValueError(
                f"{label!r} has {len(values)} categories for {len(fitted.ids)} components"
            )
    # raises if the members of a Product do not cover the columns
    fitted.model.family.locate(None, columns)
    check_family(fitted.model.family)


def check_family(family: BaseFamily) -> None:
    """Raise ValueError if a family of the library has arguments that no data could give it.

    It is made anew from its arguments, as for a user. Families of others are only tried out:
    theirs may always look at the data.
    """
    if getattr(families, type(family).__name__, None) is type(family):
        made = family.resolve(_unit_scale(columns_of(family)))
        _require_form("family", family, made)


def _unit_scale(n_columns: int) -> Scale:
    """The scale of columns with mean 0 and variance 1, of enough rows for any number of them."""
    ones, zeros = np.ones(n_columns), np.zeros(n_columns)
    seen = np.full(n_columns, MANY_ROWS)

    def look(change: Callable[[Any], Any]) -> Scale:
        return _unit_scale(np.shape(change(np.zeros((1, n_columns))))[1])

    return Scale(n_columns, MANY_ROWS, seen, zeros, ones, ones, -ones, look_again=look)


def _require_form(name: str, own: Any, made: Any) -> None:
    """Raise ValueError unless `own` has arrays of the same shapes in the same places as `made`."""
    if isinstance(made, Parameters):
        given = own.get_params(deep=False)
        optional = getattr(made, "optional", ())  # arguments that older files lack
        for inner, value in made.get_params(deep=False).items():
            if given[inner] is not None or inner not in optional:
                _require_form(inner, given[inner], value)
    elif isinstance(made, tuple | list):
        for one, other in zip(own, made, strict=True):
            _require_form(name, one, other)
    elif isinstance(made, np.ndarray) and made.dtype.kind == "f":
        check_array(np.asanyarray(own), made.shape, name, largest=np.inf)


def check_arrays(fitted: Fitted) -> None:
    """Raise ValueError if a file's arrays do not fit each other, because kernels trust them."""
    model, K = fitted.model, len(fitted.ids)
    legal = fitted.params.arrays.get("legal")
    if legal is not None and (legal.ndim != 2 or legal.shape[1] != K):
        raise ValueError(f"legal has shape {legal.shape} for {K} components")
    _require_like(fitted.params, model.start_params(K, legal))
    _require_like(fitted.counts, model.zeros(K))
    numbers = fitted.counts.local_bound, fitted.counts.log_z, fitted.counts.n_units
    if not all(map(math.isfinite, numbers)) or fitted.counts.n_units < 0:
        raise ValueError(f"the model has local_bound, log_z, n_units = {numbers}")
    found = {"weights": model.prior.mean(fitted.counts, fitted.params), **fitted.posterior()}
    for name, array in found.items():
        if not np.isfinite(array).all():
            raise ValueError(f"the {name} that follow from the arrays are not finite")


def _require_like(found: Fields, expected: Fields) -> None:
    for name, array in expected.arrays.items():
        nonnegative = expected.layout[name].nonnegative
        check_array(found[name], array.shape, name, nonnegative=nonnegative)


def try_out(fitted: Fitted) -> None:
    """Raise ValueError if the model has no answer for a row of zeros, or draws no rows.

    That needs every argument of the family, which the file may have changed to anything.
    """
    family, K = fitted.model.family, len(fitted.ids)
    row = family.prepare(np.zeros((1, columns_of(family))))
    fitting, predictive = fitted.potentials(), fitted.predictive()
    _require_answers(fitting, fitting.scores.evidence(row))
    evidence = predictive.scores.evidence(row)
    _require_answers(predictive, evidence)
    if np.isneginf(evidence).all():  # posterior predictives rule nothing out
        raise ValueError("the density of a row of zeros is zero")
    can_draw = type(family).sample is not BaseFamily.sample
    if can_draw and sum(array.size for array in fitted.counts.arrays.values()) <= MOST_DRAWN:
        family.sample(fitted.counts, np.arange(K), np.random.default_rng(0))


def _require_answers(potentials: ModelPotentials, evidence: Array) -> None:
    for name, table in potentials.tables.items():
        if np.isnan(table).any():
            raise ValueError(f"the potentials {name!r} that follow from the arrays are not numbers")
    if np.isnan(evidence).any() or (evidence == np.inf).any():
        raise ValueError("the evidence of a row of zeros is not a number")
