"""A fitted estimator for readers: pictures, and a labeled data set."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak._version import __version__
from stickbreak.data import Table
from stickbreak.extras import require_extra
from stickbreak.stats import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Views", "choose_rows"]

MAX_ROWS = 2000  # rows in a picture: enough to see the shape, few enough to draw at once
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
}  # of the summaries that families give, after the component's


class Views:
    """`plot` and `to_xarray`."""

    n_features_in_: int
    feature_names_in_: Array

    if TYPE_CHECKING:  # of the estimator

        def __getattr__(self, name: str) -> Any: ...

    def plot(
        self,
        panel: str | None = None,
        X: Any = None,
        *,
        columns: Sequence[int | str] | None = None,
        ax: Axes | None = None,
    ) -> Figure | Axes:
        """Draw what was found (extra `plot`). Shows nothing by itself: use
        `matplotlib.pyplot.show()` or `figure.savefig`.

        Components are named by their permanent ids and come with the largest first; those without a
        row are left out, with a note.

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
        self._check_picture(panel, ax)
        rows = labels = None
        if X is not None:
            table = self._rows(X)
            rows = table.rows[choose_rows(table.n_rows)]
            labels = self._model.decode(self._potentials(), Table(rows).whole())
        return self._draw(panel, ax, rows=rows, labels=labels, columns=columns)

    def _check_picture(self, panel: Any, ax: Any) -> None:
        """Refuse a picture that cannot be drawn, before data are read for it."""
        self._require_fitted()
        require_extra("matplotlib", "plot", "plot")
        from stickbreak import plots

        names = plots.panels_of(self._model.structure)
        _check_panel(panel, list(names))
        if panel is None and ax is not None:
            raise ValueError(f"ax takes one panel; name it: {', '.join(map(repr, names))}")

    def _draw(
        self, panel: str | None, ax: Any, *, columns: Sequence[int | str] | None, **more: Any
    ) -> Any:
        """One panel or all; `more` are the rest of what a picture is drawn from, see
        plots.Fitted.
        """
        from stickbreak import plots

        fitted = self._fitted_view(plots.Fitted, columns, more)
        return plots.draw_figure(fitted) if panel is None else plots.draw_panel(fitted, panel, ax)

    def _fitted_view(
        self, make: Any, columns: Sequence[int | str] | None, more: dict[str, Any]
    ) -> Any:
        return make(
            structure=self._model.structure,
            family=self._model.family,
            trace=self.trace_,
            weights=self.weights_,
            counts=self.counts_,
            ids=self.component_ids_,
            posterior=self.posterior_,
            names=self._column_names(),
            objective=self._rule.objective,
            is_converged=self.converged_,
            columns=None if columns is None else tuple(self._positions(columns)),
            noun=self._noun,
            **more,
        )

    def _summary_values(self, axis: str) -> dict[str, Any]:
        """Posterior summaries of the components, with the names of their axes."""
        n = self.n_features_in_
        return {
            name: ((axis, *summary_axes(name, array.shape[1:], n)), array)
            for name, array in self.posterior_.items()
        }

    def _chain_values(self, axis: str) -> dict[str, Any]:
        """What else a model has to show, with the names of its axes."""
        return {}

    def _column_names(self) -> list[str]:
        if hasattr(self, "feature_names_in_"):
            return [str(name) for name in self.feature_names_in_]
        return [f"x{d}" for d in range(self.n_features_in_)]

    def _positions(self, columns: Sequence[int | str]) -> list[int]:
        """Columns by name or position, as positions."""
        if isinstance(columns, str) or len(columns) == 0:
            raise ValueError(f"columns must be a list of names or positions; got {columns!r}")
        known = {name: d for d, name in enumerate(self._column_names())}
        found = []
        for column in columns:
            if (
                isinstance(column, Integral)
                and not isinstance(column, bool)
                and 0 <= int(column) < len(known)
            ):
                found.append(int(column))
            elif isinstance(column, str) and column in known:
                found.append(known[column])
            else:
                raise ValueError(
                    f"columns holds {column!r}; positions are 0 to {len(known) - 1}, "
                    f"names {_some(known)}"
                )
        return found

    def to_xarray(self) -> Any:
        """Posterior summaries, weights and trace as an `xarray.Dataset` with named axes (extra
        `xarray`).

        Axes: `component` (permanent ids), `feature` (names of the columns, or their positions),
        `lap`; `other_feature` for the columns of covariances, `symbol` for those of categorical
        tables, `value` and `context` for autoregressions. Topic models have the axes `topic` and
        `word` instead of `component` and `feature`.

        Examples
        --------
        >>> import numpy as np, stickbreak as sb
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(-5, 1, (50, 2)), rng.normal(5, 1, (50, 2))])
        >>> found = sb.Mixture(2, random_state=0).fit(X).to_xarray()
        >>> dict(found.sizes)
        {'component': 2, 'feature': 2, 'other_feature': 2, 'lap': 2}
        >>> found["mean"].sel(component=0).round().values.tolist()
        [-5.0, -5.0]
        """
        self._require_fitted()
        xarray = require_extra("xarray", "xarray", "to_xarray")
        axis = self._model.axis
        values: dict[str, Any] = {"weight": (axis, self.weights_), "count": (axis, self.counts_)}
        values |= self._summary_values(axis) | self._chain_values(axis)
        trace = self.trace_
        values |= {name: ("lap", getattr(trace, name)) for name in ("bound", "log_z", "seconds")}
        values["n_components"] = ("lap", trace.n_components.astype(np.int64))
        features = (
            self.feature_names_in_.astype(str)
            if hasattr(self, "feature_names_in_")
            else np.arange(self.n_features_in_)
        )
        known = {
            axis: self.component_ids_,
            f"next_{axis}": self.component_ids_,
            "feature": features,
            "other_feature": features,
            "word": features,
            "lap": 1 + np.arange(len(trace)),
        }
        used = {
            d for dims, _ in values.values() for d in ((dims,) if isinstance(dims, str) else dims)
        }
        about = {
            "estimator": repr(self),
            "family": type(self._model.family).__name__,
            "lower_bound": float(self.lower_bound_),
            "objective": self._rule.objective,
            "converged": int(self.converged_),  # files of xarray know no booleans
            "stickbreak": __version__,
        }
        return xarray.Dataset(
            values, coords={name: known[name] for name in known if name in used}, attrs=about
        )


def choose_rows(n: int) -> Array:
    """Which of n rows to draw: the same each time."""
    return np.sort(np.random.default_rng(0).choice(n, min(n, MAX_ROWS), replace=False))


def summary_axes(name: str, shape: tuple[int, ...], n_features: int) -> tuple[str, ...]:
    """Names of the axes of a summary after the component's.

    A summary of some columns ("mean of height, weight") has axes of its own, and so has one that we
    do not know. One of values that are not all columns of a row speaks of values, not features.
    """
    kind, of, columns = name.partition(" of ")
    if len(AXES.get(kind, ())) >= len(shape):
        axes = AXES[kind][: len(shape)]
        if not of and shape[0] != n_features:
            axes = tuple(axis.replace("feature", "value") for axis in axes)
        return tuple(axis + of + columns for axis in axes)
    return tuple(f"{name}_{i}" for i in range(len(shape)))


def _check_panel(panel: Any, names: list[str]) -> None:
    if panel is None or (isinstance(panel, str) and panel in names):
        return
    given = (
        repr(panel)
        if isinstance(panel, str)
        else f"a {type(panel).__name__}: rows are given as plot(X=...)"
    )
    raise ValueError(
        f"panel must be one of {', '.join(map(repr, names))}, or None for all; got {given}"
    )


def _some(known: dict[str, int]) -> str:
    names = list(known)
    return ", ".join(map(repr, names[:6])) + (", ..." if len(names) > 6 else "")
