"""Views of a `Fitted` for readers: the values that pictures are drawn from, a labeled data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak._version import __version__
from stickbreak.data import Sequences, Table
from stickbreak.extras import require_extra
from stickbreak.parameters import require_whole
from stickbreak.reading import Rows, Values
from stickbreak.stats import SERIAL, Array

from .fitted import Fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from stickbreak.plots import View

    from .base import Estimator
    from .mixtures import MixtureEstimator
    from .sequence_fits import SequenceEstimator
    from .topic_fits import TopicEstimator

__all__ = [
    "MAX_DOCUMENTS", "Labeled", "choose_evenly", "choose_rows", "draw_view", "make_dataset",
    "make_view", "plot_chain", "plot_mixture", "plot_topics", "summary_values", "top_words",
]  # fmt: skip

MAX_DOCUMENTS = 60  # in a picture; more columns cannot be told apart
MAX_ROWS = 2000  # in a picture; enough to see the shape, few enough to draw quickly
AXES = {
    "mean": ("feature",),
    "variance": ("feature",),
    "rate": ("feature",),
    "covariance": ("feature", "other_feature"),
    "probability": ("feature", "symbol"),
    "coefficients": ("value", "context"),
    "intercept": ("value",),
    "context_mean": ("context",),
    "context_covariance": ("context", "other_context"),
}  # axes of the families' summaries, after the component axis

Labeled = dict[str, tuple[str | tuple[str, ...], Array]]
"""Arrays by name, with the names of their axes."""


# ---------------------------------------------------------------------------------------- pictures
# Each function is the method `plot` of the estimator that its first argument names.


def plot_mixture(
    self: MixtureEstimator,
    panel: str | None = None,
    X: Rows | None = None,
    *,
    columns: Sequence[int | str] | None = None,
    ax: Axes | None = None,
) -> Figure | Axes:
    """Draw what was found (extra `plot`); show it by `matplotlib.pyplot.show()`.

    Components are named by their numbers, as in `predict`, the largest first; those without a row
    are left out, with a note.

    Parameters
    ----------
    panel : "trace" (the bound after each lap), "weights" or "components". Default: all of them,
        as one figure.
    X : rows (n, D) to draw with the components; of more than 2,000, that many are drawn at
        random.
    columns : names or positions of the columns to draw. Default: those that tell components
        apart best.
    ax : the Axes to draw one panel into. Default: those of a new figure.

    Returns
    -------
    The Axes of one panel, or the Figure of all.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> from matplotlib import pyplot as plt
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-5, 1, (50, 2)), rng.normal(5, 1, (50, 2))])
    >>> model = sb.Mixture(2, random_state=0).fit(X)
    >>> model.plot(X=X).savefig("clusters.png")  # doctest: +SKIP
    >>> ax = model.plot("weights")
    >>> ax.get_ylabel()
    'weight'
    >>> plt.close(ax.figure)
    """
    fitted = self._require_fitted()
    view = make_view(self, fitted, panel, ax, columns)
    if X is not None:
        table = self._use(self._given(X))[1]
        rows = table.rows[choose_rows(table.n_rows)]
        labels = fitted.model.decode(fitted.potentials(), Table(rows).whole())
        view = replace(view, rows=rows, labels=labels)
    return draw_view(view, panel, ax)


def plot_chain(
    self: SequenceEstimator,
    panel: str | None = None,
    X: Rows | None = None,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
    columns: Sequence[int | str] | None = None,
    ax: Axes | None = None,
) -> Figure | Axes:
    """Draw what was found (extra `plot`); show it by `matplotlib.pyplot.show()`.

    States are named by their numbers, as in `predict`, the largest first; those without a row
    are left out, with a note.

    Parameters
    ----------
    panel : "segmentation" (states over time, a strip for each of the first 20 sequences),
        "trace" (the bound after each lap), "weights", "transitions", "durations" or
        "components". Default: all of them, as one figure.
    X, lengths, sequence_id, context : sequences to draw; default: those of the fit, where it
        kept them (rows are drawn with the components only if given).
    columns, ax : as in `Mixture.plot`, and so is what is returned.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> from matplotlib import pyplot as plt
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([-5.0, 5.0, -5.0], 20)[:, None] + rng.normal(size=(60, 1))
    >>> ax = sb.HMM(2, random_state=0).fit(X).plot("segmentation")
    >>> ax.get_title(loc="left")
    'states over time'
    >>> plt.close(ax.figure)
    """
    fitted = self._require_fitted()
    view = make_view(self, fitted, panel, ax, columns)
    view = replace(view, transition=self.transmat_, **self._stays())
    shape, states = fitted.shape, fitted.labels
    if X is not None:
        given = self._given(X, lengths=lengths, sequence_id=sequence_id, context=context)
        table = self._use(given)[1]
        potentials, chosen = self._potentials_of(fitted, "fitted"), choose_rows(table.n_rows)
        shape, states = table.shape, self._decode(fitted, potentials, table.whole(), SERIAL)
        view = replace(view, rows=table.rows[chosen], labels=states[chosen])
    if shape is not None and states is not None:
        view = replace(view, paths=replace(shape, is_list=True).answer(states))
    return draw_view(view, panel, ax)


def plot_topics(
    self: TopicEstimator,
    panel: str | None = None,
    X: Rows | None = None,
    *,
    n_words: int = 10,
    ax: Axes | None = None,
) -> Figure | Axes:
    """Draw what was found (extra `plot`); show it by `matplotlib.pyplot.show()`.

    Topics are named by their numbers, as in `predict`, the largest first; those without a word
    are left out, with a note.

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
    fitted = self._require_fitted()
    view = make_view(self, fitted, panel, ax)
    require_whole(n_words=n_words)
    view = replace(view, n_words=int(n_words), unit="word")
    if X is not None:
        documents = self._use(self._given(X))[1]
        chosen = choose_evenly(documents.n_spans, MAX_DOCUMENTS)
        batch = Sequences.take(documents, chosen)  # with the vocabulary of the fit
        potentials = self._with_legal(fitted, fitted.potentials())
        shares = fitted.model.unit_shares(potentials, batch)
        view = replace(view, shares=shares, documents=chosen, n_documents=documents.n_spans)
    return draw_view(view, panel, ax)


def make_view(
    estimator: Estimator,
    fitted: Fitted,
    panel: str | None,
    ax: Axes | None,
    columns: Sequence[int | str] | None = None,
) -> View:
    """The values that pictures are drawn from, without data. Raises for invalid requests."""
    require_extra("matplotlib", "plot", "plot")
    from stickbreak import plots

    names = estimator._column_names(fitted)
    known = list(plots.panels_of(fitted.model.structure))
    _check_panel(panel, known)
    if panel is None and ax is not None:
        raise ValueError(f"ax takes one panel; name it: {', '.join(map(repr, known))}")
    return plots.View(
        structure=fitted.model.structure,
        family=fitted.model.family,
        trace=fitted.trace,
        weights=fitted.weights,
        counts=np.array(fitted.model.prior.sizes(fitted.counts)),
        posterior=fitted.posterior(),
        names=names,
        objective=fitted.rule.objective,
        is_converged=fitted.is_converged,
        columns=None if columns is None else _positions(columns, names),
        noun=estimator._noun,
    )


def draw_view(view: View, panel: str | None, ax: Axes | None) -> Figure | Axes:
    """One panel, or the figure of all."""
    from stickbreak import plots

    return plots.draw_figure(view) if panel is None else plots.draw_panel(view, panel, ax)


def choose_rows(n: int, most: int = MAX_ROWS) -> Array:
    """Which of n rows to draw; the same rows each time."""
    return np.sort(np.random.default_rng(0).choice(n, min(n, most), replace=False))


def choose_evenly(n: int, most: int) -> Array:
    """(min(n, most),) evenly spaced positions among n, with the first and the last."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)


def _check_panel(panel: Any, names: list[str]) -> None:
    if panel is None or (isinstance(panel, str) and panel in names):
        return
    given = f"a {type(panel).__name__}: rows are given as plot(X=...)"
    raise ValueError(
        f"panel must be one of {', '.join(map(repr, names))}, or None for all; got "
        f"{repr(panel) if isinstance(panel, str) else given}"
    )


def _positions(columns: Sequence[int | str], names: Sequence[str]) -> tuple[int, ...]:
    """Positions of columns given by name or position."""
    if isinstance(columns, str) or len(columns) == 0:
        raise ValueError(f"columns must be a list of names or positions; got {columns!r}")
    known: dict[Any, int] = {name: d for d, name in enumerate(names)}
    shown = ", ".join(map(repr, names[:6])) + (", ..." if len(names) > 6 else "")
    found = []
    for column in columns:
        is_position = isinstance(column, Integral) and not isinstance(column, bool)
        at = int(column) if is_position else known.get(column, -1)
        if not 0 <= at < len(names):
            raise ValueError(
                f"columns holds {column!r}; positions are 0 to {len(names) - 1}, names {shown}"
            )
        found.append(at)
    return tuple(found)


# ---------------------------------------------------------------------------------------- values


def top_words(self: TopicEstimator, n: int = 10, *, relevance: float = 1.0) -> list[list[Any]]:
    """The most characteristic words of each topic; also the method `top_words` of topic models.

    Parameters
    ----------
    n : words of each topic.
    relevance : 1 ranks by probability in the topic; 0 by how much more probable a word is there
        than in all documents; between them, by `relevance * log p(word | topic) + (1 -
        relevance) * log(p(word | topic) / p(word))`.

    Returns
    -------
    One list of words (of their numbers, where words have no names) for each topic that has any,
    in the order of `weights_`, the largest first.
    """
    require_whole(n=n)
    if not 0 <= relevance <= 1:
        raise ValueError(f"relevance must be between 0 and 1; got {relevance!r}")
    probability = self.topic_word_
    lift = np.log(probability) - np.log(self.weights_ @ probability)
    rank = relevance * np.log(probability) + (1.0 - relevance) * lift
    names = self._require_fitted().schema.names or np.arange(probability.shape[1])
    order = [k for k in np.argsort(-self.weights_, kind="stable") if self.counts_[k] >= 1.0]
    return [[names[v] for v in np.argsort(-rank[k], kind="stable")[:n]] for k in order]


def make_dataset(fitted: Fitted, about: str, values: Labeled) -> Any:
    """An `xarray.Dataset` of weights, trace and these values. about : the estimator in words."""
    xarray = require_extra("xarray", "xarray", "to_xarray")
    axis, trace, schema = fitted.model.axis, fitted.trace, fitted.schema
    laps = {name: ("lap", getattr(trace, name)) for name in ("bound", "log_z", "seconds")}
    sizes = np.array(fitted.model.prior.sizes(fitted.counts))
    found: Labeled = {"weight": (axis, fitted.weights), "count": (axis, sizes)} | values | laps
    found["n_components"] = ("lap", trace.n_components.astype(np.int64))
    numbers, features = np.arange(len(fitted.ids)), np.arange(schema.n_features)
    if schema.names is not None:
        features = schema.name_array.astype(str)
    known: Mapping[str, Array] = {
        axis: numbers,
        f"next_{axis}": numbers,
        "feature": features,
        "other_feature": features,
        "word": features,
        "lap": 1 + np.arange(len(trace)),
    }
    used = {d for dims, _ in found.values() for d in ((dims,) if isinstance(dims, str) else dims)}
    attributes = {
        "estimator": about,
        "family": type(fitted.model.family).__name__,
        "lower_bound": float(fitted.bound),
        "objective": fitted.rule.objective,
        "converged": int(fitted.is_converged),  # xarray's files have no booleans
        "stickbreak": __version__,
    }
    coords = {name: known[name] for name in known if name in used}
    return xarray.Dataset(found, coords=coords, attrs=attributes)


def summary_values(fitted: Fitted) -> Labeled:
    """Posterior summaries of the components."""
    axis, n = fitted.model.axis, fitted.schema.n_features
    return {
        name: ((axis, *summary_axes(name, array.shape[1:], n)), array)
        for name, array in fitted.posterior().items()
    }


def summary_axes(name: str, shape: tuple[int, ...], n_features: int) -> tuple[str, ...]:
    """Names of the axes of a summary after the component axis.

    A summary of some columns ("mean of height, weight"), or an unknown one, has its own axes. If
    the values are not all columns of a row, the axis is called value, not feature.
    """
    kind, of, columns = name.partition(" of ")
    if len(AXES.get(kind, ())) >= len(shape):
        axes = AXES[kind][: len(shape)]
        if not of and shape[0] != n_features:
            axes = tuple(axis.replace("feature", "value") for axis in axes)
        return tuple(axis + of + columns for axis in axes)
    return tuple(f"{name}_{i}" for i in range(len(shape)))
