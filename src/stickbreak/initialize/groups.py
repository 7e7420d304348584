"""Starts of groups of rows: that of a mixture of all rows, without their groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Table
from stickbreak.inference import Start
from stickbreak.protocols import Array

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["from_ungrouped"]


def from_ungrouped(
    model: Model,
    table: Table,
    n_units: float,
    make: Callable[[Model, Table], Start],
    legal: Array | None = None,
) -> Start:
    """The components that a start of a mixture has; what groups have of them is not known yet.

    table : the rows of all groups. n_units : number of groups
    make : the start of a Dirichlet process mixture of the same family
    """
    mixture = model.mixture()
    found = make(mixture, table).seed
    empty = model.zeros(found.size(mixture.axis))
    own = {name: found[name] for name in model.family.fields(model.axis)}
    sizes = np.array(mixture.prior.sizes(found), dtype=float)
    arrays = {**empty.arrays, **own, **model.prior.of_sizes(sizes)}
    params = model.start_params(len(sizes), legal)
    return Start(replace(empty, arrays=arrays, n_units=n_units), params)
