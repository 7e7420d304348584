"""Fitted models side by side."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from html import escape
from itertools import combinations
from typing import Any

import numpy as np

from stickbreak.errors import DataWarning
from stickbreak.extras import require_extra
from stickbreak.protocols import Array
from stickbreak.report.comparing import (
    NO_ROWS,
    Compared,
    Flow,
    Report,
    partners_of,
    write_comparison,
)

__all__ = ["ComparedModel", "Comparison", "compare"]

TITLES = {
    "n_components": "K",
    "n_effective": "in use",
    "bound_per_row": "bound/row",
    "score": "held-out",
    "n_iter": "laps",
}
MOST_CHANGED = 50  # rows in the page of a comparison
DIGITS = {"rows": 0, "bound": 2, "bound_per_row": 4, "score": 4, "seconds": 2}


@dataclass(frozen=True)
class ComparedModel:
    """One line of a comparison.

    rows : training rows, a weighted row counted as often as its weight says
    n_components, n_effective : components, and those with at least one row
    objective : what `bound` is: "bound" (on the log evidence), "log joint" for EM, "" where there
        is none
    bound, bound_per_row : in nats; NaN where there is none
    score : mean log predictive density per row of X; NaN without X
    n_iter, seconds : laps and time of the start that won
    """

    name: str
    model: str
    family: str
    rows: float
    n_components: int
    n_effective: int
    objective: str
    bound: float
    bound_per_row: float
    score: float
    n_iter: int
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """A table of models, in the order given; text in a terminal, HTML in a notebook.

    models : the lines
    notes : what cannot be compared, and why
    best : place of the best bound and of the best held-out score, where they can be compared
    """

    models: tuple[ComparedModel, ...]
    notes: tuple[str, ...] = ()
    best: Mapping[str, int] = field(default_factory=dict)
    _flow: Callable[[], Flow] | None = field(default=None, repr=False, compare=False)

    def report(self, *, title: str = "Models compared") -> Report:
        """A page with the table; of two models that were given X, also the flow of rows.

        Which components were split, which joined, and the mean difference of the log predictive
        densities of rows with its standard error.

        Returns
        -------
        Report, with `save(path)`, `show()` and `html`.
        """
        titles, cells = self._cells(without=("seconds",))  # the same models give the same page
        flow = None if self._flow is None else self._flow()
        compared = Compared(titles, cells, self.notes, flow, title, self._told_bounds())
        return write_comparison(compared)

    def _told_bounds(self) -> str:
        """A sentence on how far the best bound is above the next; empty if there is none."""
        if "bound" not in self.best:
            return ""
        best = self.models[self.best["bound"]]
        others = [line for line in self.models if line is not best and not math.isnan(line.bound)]
        second = max(others, key=lambda line: line.bound)
        gain = best.bound - second.bound
        told = f"The {best.objective} of {best.name} is {gain:,.4g} nats above that of "
        return f"{told}{second.name}. "

    def __len__(self) -> int:
        return len(self.models)

    def __iter__(self) -> Iterator[ComparedModel]:
        return iter(self.models)

    def __getitem__(self, index: int) -> ComparedModel:
        return self.models[index]

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`, models by name."""
        pandas = require_extra("pandas", None, "to_pandas")
        return pandas.DataFrame([asdict(line) for line in self.models]).set_index("name")

    def _shared(self) -> dict[str, str]:
        """What all models have in common, in words: said once, above the table."""
        words = {
            name: {_write(line, name) for line in self.models}
            for name in ("model", "family", "rows")
        }
        return {
            name: min(found) + " rows" * (name == "rows")
            for name, found in words.items()
            if len(self) > 1 == len(found)
        }

    def _cells(self, without: Sequence[str] = ()) -> tuple[list[str], list[list[str]]]:
        """Titles and texts, without columns in which no model has anything of its own."""
        shared = self._shared()
        names = [
            f.name
            for f in fields(ComparedModel)
            if any(_write(line, f.name) for line in self.models)
            and f.name not in (*shared, *without)
        ]
        if all(line.objective in ("bound", "") for line in self.models):
            names = [name for name in names if name != "objective"]
        marks = {
            name: [" *" if i == place else "  " for i in range(len(self))]
            for name, place in self.best.items()
        }
        cells = [
            [_write(line, n) + marks.get(n, [""] * len(self))[i] for n in names]
            for i, line in enumerate(self.models)
        ]
        return [TITLES.get(name, name) for name in names], cells

    def __repr__(self) -> str:
        titles, cells = self._cells()
        widths = [max(len(row[j]) for row in [titles, *cells]) for j in range(len(titles))]
        is_text = [all(not _is_number(row[j]) for row in cells) for j in range(len(titles))]
        texts = [_join(row, widths, is_text) for row in [titles, ["-" * w for w in widths], *cells]]
        shared = ", ".join(self._shared().values())
        return "\n".join([shared] * bool(shared) + texts + list(self.notes))

    def _repr_html_(self) -> str:
        titles, cells = self._cells()
        head = "".join(f"<th>{escape(title)}</th>" for title in titles)
        body = "".join(
            "<tr>"
            + "".join(
                f"<td><b>{escape(c[:-2])}</b></td>"
                if c.endswith(" *")
                else f"<td>{escape(c.rstrip())}</td>"
                for c in row
            )
            + "</tr>"
            for row in cells
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        caption = f"<caption>{escape(', '.join(self._shared().values()))}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def _join(row: Sequence[str], widths: Sequence[int], is_text: Sequence[bool]) -> str:
    """One line: words to the left, numbers to the right."""
    cells = zip(row, widths, is_text, strict=True)
    return "  ".join(
        cell.ljust(width) if left else cell.rjust(width) for cell, width, left in cells
    ).rstrip()


def _is_number(cell: str) -> bool:
    return cell.rstrip(" *").replace(",", "").replace(".", "").replace("-", "").isdigit()


def _write(line: ComparedModel, name: str) -> str:
    value = getattr(line, name)
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:,.{DIGITS[name]}f}"
    return str(value)


def compare(
    models: Sequence[Any],
    X: Any = None,
    *,
    lengths: Any = None,
    names: Sequence[str] | None = None,
) -> Comparison:
    """Put fitted models side by side: bounds, held-out scores, sizes, time.

    Bounds of models of the same data may be compared; where the number of rows or columns, the kind
    of objective, or the kind of data (densities against probabilities) differ, a note below the
    table says so, with a DataWarning.

    Parameters
    ----------
    models : fitted estimators.
    X : held-out rows; each model's `score` of them becomes a column.
    lengths : of sequences, if X are stacked rows of these.
    names : one for each model. Default: class and number of components.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-5, 1, (50, 2)), rng.normal(5, 1, (50, 2))])
    >>> found = sb.compare([sb.Mixture(k, random_state=0).fit(X[::2]) for k in (1, 2)], X[1::2])
    >>> [(line.name, line.n_effective, round(line.bound_per_row, 1)) for line in found]
    [('Mixture(1)', 1, -5.1), ('Mixture(2)', 2, -3.9)]
    """
    models = list(models)
    if not models:
        raise ValueError("models is empty; give at least one fitted estimator")
    if names is not None and len(names) != len(models):
        raise ValueError(f"names has {len(names)} entries for {len(models)} models")
    for model in models:
        if not hasattr(model, "_require_fitted"):
            raise ValueError(f"models must be fitted estimators of stickbreak; got {model!r}")
        model._require_fitted()
    chosen = _default_names(models) if names is None else [str(name) for name in names]
    where = {} if lengths is None else {"lengths": lengths}
    lines = tuple(
        _measure(model, name, X, where) for model, name in zip(models, chosen, strict=True)
    )
    of_both, of_bounds = _differences(models, lines)
    notes = (*of_both, *of_bounds)
    if notes:
        warnings.warn(" ".join(notes), DataWarning, stacklevel=2)
    places = {
        "bound": None if notes else _place_of_best(lines, "bound"),
        "score": None if of_both else _place_of_best(lines, "score"),
    }
    found = {name: place for name, place in places.items() if place is not None}
    has_flow = len(models) == 2 and X is not None
    flow = partial(_flow_between, models, chosen, X, where) if has_flow else None
    return Comparison(lines, notes, found, flow)


def _flow_between(
    models: Sequence[Any], names: Sequence[str], X: Any, where: Mapping[str, Any]
) -> Flow:
    """How the rows of X go from the components of one model to those of another.

    Without counts for models whose rows have no components, such as grammars and aligners.
    """
    gain = _gains(models, X, where)
    known = gain[np.isfinite(gain)]
    error = float(known.std() / math.sqrt(len(known))) if len(known) else math.nan
    mean = float(known.mean()) if len(known) else math.nan
    names_rows = all(model._names_rows for model in models)
    unit = "row" if models[0]._row_noun == "row" else "document" if names_rows else "sentence"
    flow = Flow((names[0], names[1]), NO_ROWS, mean, error, unit=unit)
    if not names_rows:
        return flow
    one, other = (
        np.concatenate([np.atleast_1d(p) for p in model.predict(X, **where)]) for model in models
    )
    if len(one) != len(other):
        return flow
    counts = np.zeros([model.n_components_ for model in models], dtype=np.int64)
    np.add.at(counts, (one, other), 1)
    gain = gain if len(gain) == len(one) else np.full(len(one), math.nan)
    partners = partners_of(counts)
    changed = np.flatnonzero(np.array([partners.get(int(k), -1) for k in range(len(counts))])[one]
                             != other)  # fmt: skip
    order = np.argsort(-np.nan_to_num(np.abs(gain[changed])), kind="stable")[:MOST_CHANGED]
    moved = [
        (int(i), int(one[i]), int(other[i]), float(gain[i]))
        for i in (int(changed[place]) for place in order)
    ]
    return replace(flow, counts=counts, moved=moved, n_moved=len(changed))


def _gains(models: Sequence[Any], X: Any, where: Mapping[str, Any]) -> Array:
    """What the second model gives rows more than the first, or documents, or sentences; in nats."""
    if len({model.family_.measure for model in models}) > 1:
        return np.zeros(0)
    for name in ("score_samples", "score_sequences"):
        if all(hasattr(model, name) for model in models):
            first, second = (
                np.concatenate([np.atleast_1d(p) for p in getattr(model, name)(X, **where)])
                for model in models
            )
            return second - first if len(first) == len(second) else np.zeros(0)
    return np.zeros(0)


def _place_of_best(lines: Sequence[ComparedModel], name: str) -> int | None:
    """Where the largest value stands; None when fewer than two models have one."""
    known = {
        i: getattr(line, name)
        for i, line in enumerate(lines)
        if not math.isnan(getattr(line, name))
    }
    return max(known, key=lambda i: known[i]) if len(known) > 1 else None


def _default_names(models: Sequence[Any]) -> list[str]:
    """Class and number of components, numbered where that says too little."""
    plain = [f"{type(m).__name__}({m.n_components_})" for m in models]
    return [
        name if plain.count(name) == 1 else f"{name} #{plain[: i + 1].count(name)}"
        for i, name in enumerate(plain)
    ]


def _measure(model: Any, name: str, X: Any, where: Mapping[str, Any]) -> ComparedModel:
    rows, bound = float(model.counts_.sum()), float(model.lower_bound_)
    return ComparedModel(
        name=name,
        model=type(model).__name__,
        family=type(model.family_).__name__,
        rows=rows,
        n_components=int(model.n_components_),
        n_effective=int(model.n_effective_),
        objective="" if math.isnan(bound) else model._require_fitted().rule.objective,
        bound=bound,
        bound_per_row=bound / rows if rows > 0 else math.nan,
        score=math.nan if X is None else float(model.score(X, **where)),
        n_iter=int(model.n_iter_),
        seconds=float(model.trace_.seconds[-1]) if len(model.trace_) else math.nan,
    )


def _differences(
    models: Sequence[Any], lines: Sequence[ComparedModel]
) -> tuple[list[str], list[str]]:
    """Sentences on why bounds and scores, and why bounds alone, cannot be compared."""
    both = [model.family_.measure for model in models]
    bounds = [
        [f"{line.rows:,.7g} rows" if line.objective else "" for line in lines],
        [
            f"{model.n_features_in_} columns" if line.objective else ""
            for model, line in zip(models, lines, strict=True)
        ],
        [f"the {line.objective}" if line.objective else "" for line in lines],
    ]
    of_both = _first_difference("Bounds and scores", lines, both)
    return [of_both] * bool(of_both), [
        n for told in bounds if (n := _first_difference("Bounds", lines, told))
    ]


def _first_difference(what: str, lines: Sequence[ComparedModel], told: Sequence[str]) -> str:
    """A sentence on the first two models that differ; empty when none do."""
    known = [(line.name, words) for line, words in zip(lines, told, strict=True) if words]
    for (first, one), (second, other) in combinations(known, 2):
        if one != other:
            return f"{what} of {first} ({one}) and {second} ({other}) cannot be compared."
    return ""
