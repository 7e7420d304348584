"""Pictures of groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stickbreak.data import Sequences
from stickbreak.reading import Rows, Values
from stickbreak.stats import SERIAL

from .views import MAX_DOCUMENTS, choose_evenly, choose_rows, draw_view, make_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .groups import HDPMixture

__all__ = ["plot_groups"]


def plot_groups(
    self: HDPMixture,
    panel: str | None = None,
    X: Rows | None = None,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    columns: Sequence[int | str] | None = None,
    ax: Axes | None = None,
) -> Figure | Axes:
    """Draw what was found (extra `plot`); show it by `matplotlib.pyplot.show()`.

    Parameters
    ----------
    panel : "groups" (shares of components in the groups X), "trace" (the bound after each lap),
        "weights" or "components". Default: all of them, as one figure; "groups" only if X is given.
    X, lengths, sequence_id : groups to draw; of more than 60, that many, at even distances, and of
        more than 2,000 rows, that many at random.
    columns, ax : as in `Mixture.plot`, and so is what is returned.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> from matplotlib import pyplot as plt
    >>> groups = list(np.random.default_rng(0).normal(size=(6, 20, 2)))
    >>> ax = sb.HDPMixture(random_state=0).fit(groups).plot("groups", groups)
    >>> ax.get_title(loc="left")
    'shares of components in groups'
    >>> plt.close(ax.figure)
    """
    fitted = self._require_fitted()
    view = make_view(self, fitted, panel, ax, columns)
    if X is not None:
        given = self._given(X, lengths=lengths, sequence_id=sequence_id)
        table, potentials = self._use(given)[1], fitted.potentials()
        chosen, some = choose_rows(table.n_rows), choose_evenly(table.n_spans, MAX_DOCUMENTS)
        labels = self._decode(fitted, potentials, table.whole(), SERIAL)
        shares = fitted.model.unit_shares(potentials, Sequences.take(table, some))
        view = replace(view, rows=table.rows[chosen], labels=labels[chosen], shares=shares)
        view = replace(view, documents=some, n_documents=table.n_spans)
    return draw_view(view, panel, ax)
