"""A fitted topic model for readers: pictures of topics and documents, and a labeled data set of
words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import Sequences
from stickbreak.parameters import require_whole
from stickbreak.stats import Array

from .views import Views

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["TopicViews"]

MAX_DOCUMENTS = 60  # in a picture: more columns than that cannot be told apart


class TopicViews(Views):
    """`plot` and `to_xarray` of topics."""

    def plot(  # type: ignore[override]
        self,
        panel: str | None = None,
        X: Any = None,
        *,
        n_words: int = 10,
        ax: Axes | None = None,
    ) -> Figure | Axes:
        """Draw what was found (extra `plot`). Shows nothing by itself: use
        `matplotlib.pyplot.show()` or `figure.savefig`.

        Topics are named by their permanent ids and come with the largest first; those without a
        word are left out, with a note.

        Parameters
        ----------
        panel : "topics" (the most probable words of the 12 largest topics), "documents" (shares of
            topics in the documents X), "trace" (the bound after each lap) or "weights". Default:
            all of them, as one figure; "documents" only if X is given.
        X : documents, as in `fit`; of more than 60, that many are drawn, at even distances.
        n_words : words of each topic.
        ax : the Axes to draw one panel into; in a small one, topics are lines of words. Default:
            those of a new figure.

        Returns
        -------
        The Axes of one panel, or the Figure of all.

        Examples
        --------
        >>> import stickbreak as sb
        >>> from matplotlib import pyplot as plt
        >>> pets, cooking = ["cat", "dog", "cat", "fur"], ["salt", "soup", "salt", "pan"]
        >>> model = sb.LatentDirichletAllocation(2, random_state=0).fit([pets, cooking] * 20)
        >>> model.plot(X=[pets, cooking]).savefig("topics.png")  # doctest: +SKIP
        >>> ax = model.plot("topics", n_words=3)
        >>> ax.get_title(loc="left")
        'topics: the most probable words'
        >>> plt.close(ax.figure)
        """
        self._check_picture(panel, ax)
        require_whole(n_words=n_words)
        more = {} if X is None else self._some_shares(X)
        return self._draw(panel, ax, columns=None, n_words=int(n_words), unit="word", **more)

    def _some_shares(self, X: Any) -> dict[str, Any]:
        """Shares of the topics in at most MAX_DOCUMENTS documents, at even distances; see
        plots.Fitted.
        """
        documents = self._documents(X)
        chosen = choose_evenly(documents.n_spans, MAX_DOCUMENTS)
        batch = Sequences.take(documents, chosen)  # with the vocabulary of the fit
        shares = self._model.unit_shares(self._potentials(), batch)
        return {"shares": shares, "documents": chosen, "n_documents": documents.n_spans}

    def _column_names(self) -> list[str]:
        if hasattr(self, "feature_names_in_"):
            return [str(name) for name in self.feature_names_in_]
        return [f"word {v}" for v in range(self.n_features_in_)]

    def _summary_values(self, axis: str) -> dict[str, Any]:
        return {"probability": ((axis, "word"), self.topic_word_)}


def choose_evenly(n: int, most: int) -> Array:
    """(min(n, most),) positions among n, at even distances, with the first and the last."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)
