"""What a report says of rows in groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.inference import workers
from stickbreak.reading import Rows, Values

from .group_answers import densities
from .observed_rows import MOST_ROWS, Seen, tell_rows
from .reports import group_shares, make_subject
from .views import choose_rows

if TYPE_CHECKING:
    from stickbreak.report import Report, Subject

    from .groups import HDPMixture

__all__ = ["observe_groups", "report_groups"]


def report_groups(
    self: HDPMixture,
    X: Rows | None = None,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    title: str | None = None,
    names: Mapping[int, str] | None = None,
    by: Any = None,
    data: str = "sample",
    texts: bool = True,
) -> Report:
    """A page about the fitted model: one HTML file to look at, share and keep.

    Parameters
    ----------
    X, lengths, sequence_id : groups to show with the model, as in `predict`.
    title, names, data, texts : as in `Mixture.report`.
    by : one value for each group: how the shares of components differ.

    Returns
    -------
    Report, with `save(path)`, `show()` and `html`.
    """
    from stickbreak.report import write_page

    where = {"lengths": lengths, "sequence_id": sequence_id}
    subject = make_subject(self, X, names=names, by=by, data=data, texts=texts, where=where)
    return write_page(replace(subject, title=str(title or "")))


def observe_groups(
    self: HDPMixture,
    subject: Subject,
    X: Rows,
    by: Any,
    where: Mapping[str, Values] | None = None,
) -> Subject:
    """The subject with what the model says of groups."""
    fitted, table = self._use(self._given(X, **(where or {})))
    seen = Seen(len(fitted.ids), choose_rows(table.n_rows, MOST_ROWS), False)
    potentials, scores = fitted.potentials(), densities(self, table)
    with workers(self.n_jobs) as pool:
        shares = fitted.local_model.shares(potentials, table.whole(), pool)
        largest = fitted.model.unit_shares(potentials, table.whole(), pool).argmax(1)
    seen.add(table.rows, shares, scores)
    groups = group_shares(subject, by, np.asarray(largest), "group")
    return tell_rows(self, subject, table, seen, table.n_spans, groups)[0]
