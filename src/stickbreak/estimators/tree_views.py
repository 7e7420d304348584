"""Pictures of grammars: a sentence's tree, arcs or segments, and rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .views import draw_view, make_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .tree_models import TreeEstimator

__all__ = ["plot_trees"]


def plot_trees(
    self: TreeEstimator, panel: str | None = None, X: Any = None, *, ax: Axes | None = None
) -> Figure | Axes:
    """Draw what was found (extra `plot`); show it by `matplotlib.pyplot.show()`.

    Parameters
    ----------
    panel : of `DMV` "dependencies" (arcs from heads to words), of `TemplateGrammar` "segments", of
        grammars "tree" (the best tree) or "components"; "rules" (those most often used), "trace" or
        "weights". Default: all of them, as one figure; trees only if X is given.
    X : one sentence: a list of words, or a string; one string for `TemplateGrammar`.
    ax : the Axes to draw one panel into. Default: those of a new figure.

    Returns
    -------
    The Axes of one panel, or the Figure of all.

    Examples
    --------
    >>> import stickbreak as sb
    >>> from matplotlib import pyplot as plt
    >>> model = sb.DMV(random_state=0).fit(["DET NOUN VERB", "NOUN VERB DET NOUN"] * 5)
    >>> ax = model.plot("dependencies", "DET NOUN VERB")
    >>> ax.get_title(loc="left")
    'heads of words'
    >>> plt.close(ax.figure)
    """
    view = make_view(self, self._require_fitted(), panel, ax)
    view = replace(view, rules=self.top_rules(15), unit=self._row_noun)
    return draw_view(view if X is None else replace(view, **self._parsed(X)), panel, ax)
