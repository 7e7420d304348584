"""`show`: a model in words and numbers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.estimators.sequence_fits import SequenceEstimator
from stickbreak.parameters import require_whole
from stickbreak.stats import Array

from .bitexts import aligner_facts, aligner_lines
from .models import reads_documents, reads_pairs, reads_sentences
from .output import format_table, print_json, print_lines
from .sentences import MOST_RULES, rule_lines
from .topic_words import topic_lines, topics

__all__ = ["component_lines", "facts", "show_model"]

MOST_COLUMNS, MOST_COMPONENTS = 8, 50  # in a table for people; JSON has all
TOP_WORDS = 10


def show_model(
    path: Path, top_words: int | None, word: str | None, options: dict[str, Any]
) -> None:
    """Print components, bound and settings."""
    model = sb.load(path)
    name = type(model).__name__
    if top_words is not None and not reads_documents(name) and not reads_pairs(name):
        raise ValueError(f"--top-words is for topic models and aligners; {path} holds a {name}")
    if word is not None and not reads_pairs(name):
        raise ValueError(f"--word is for aligners; {path} holds a {name}")
    n = TOP_WORDS if top_words is None else top_words
    require_whole(top_words=n)
    found = sb.diagnose(model) if options["checks"] else []
    told = {"checks": [asdict(f) for f in found]} if options["checks"] else {}
    lines = [str(finding) for finding in found]
    if reads_pairs(name):
        if options["json"]:
            print_json({**aligner_facts(model, n, word), "settings": settings(model), **told})
        else:
            print_lines([*aligner_lines(model, n, word), _setting_line(model), *lines])
        return
    if options["json"]:
        more = {} if reads_documents(type(model).__name__) else {"components": components(model)}
        print_json({**facts(model, n), "settings": settings(model), **more, **told})
        return
    print_lines([*component_lines(model, n), _setting_line(model), *lines])


def _setting_line(model: Any) -> str:
    shown = ", ".join(f"{name}={value}" for name, value in settings(model).items())
    return f"settings: {shown}"


def facts(model: Any, n_words: int = TOP_WORDS) -> dict[str, Any]:
    """Facts about the whole model; for topics also the n_words most probable words."""
    if reads_pairs(type(model).__name__):
        return aligner_facts(model, n_words)
    is_of_documents = reads_documents(type(model).__name__)
    return {
        "model": type(model).__name__,
        "family": type(model.family_).__name__,
        **(
            {"n_words": model.n_features_in_}
            if is_of_documents
            else {"columns": column_names(model)}
        ),
        "n_components": model.n_components_,
        "component_ids": model.component_ids_,
        "n_effective": model.n_effective_,
        "lower_bound": model.lower_bound_,
        **({"log_predictive": found[1]} if (found := _monitored(model)) is not None else {}),
        "converged": model.converged_,
        "n_iter": model.n_iter_,
        "moves": _moves(model),
        **_chain_facts(model),
        **({"topics": topics(model, n_words)} if is_of_documents else {}),
        **_rule_facts(model),
    }


def _rule_facts(model: Any) -> dict[str, Any]:
    """The rules most often used, for models of trees."""
    if not reads_sentences(type(model).__name__):
        return {}
    return {"rules": [rule._asdict() for rule in model.top_rules(MOST_RULES)]}


def _chain_facts(model: Any) -> dict[str, Any]:
    """Start and transition probabilities, for models that have them."""
    return (
        {"start": model.startprob_, "transition": model.transmat_}
        if isinstance(model, SequenceEstimator)
        else {}
    )


def _moves(model: Any) -> dict[str, dict[str, int]]:
    """How many moves of each kind were tried on all data, and how many accepted."""
    found: dict[str, dict[str, int]] = {}
    for record in model.trace_.judged:
        entry = found.setdefault(record.kind, {"tried": 0, "accepted": 0})
        entry["tried"] += 1
        entry["accepted"] += int(record.is_accepted)
    return found


def column_names(model: Any) -> list[str]:
    """Names of the columns, or their positions if they have none."""
    if hasattr(model, "feature_names_in_"):
        return [str(name) for name in model.feature_names_in_]
    return [str(i) for i in range(model.n_features_in_)]


def settings(model: Any) -> dict[str, Any]:
    """Arguments of the estimator that differ from their defaults."""
    defaults = type(model)().get_params(deep=False)
    given = model.get_params(deep=False)
    return {
        name: value
        for name, value in given.items()
        if repr(value) != repr(defaults[name]) and name != "verbose"
    }


def components(model: Any) -> list[dict[str, Any]]:
    """Each component with all that is known of it."""
    posterior = model.posterior_
    stays = model._mean_durations() if isinstance(model, SequenceEstimator) else None
    return [
        {
            "component": k,
            "weight": float(model.weights_[k]),
            "rows": float(model.counts_[k]),
            **({} if stays is None else {"duration": float(stays[k])}),
            **{name: values[k] for name, values in posterior.items()},
        }
        for k in range(model.n_components_)
    ]


def component_lines(model: Any, n_words: int = TOP_WORDS) -> list[str]:
    """A table of the components that hold rows, the largest first; then the bound and the moves."""
    name = type(model).__name__
    if reads_pairs(name):
        return aligner_lines(model, n_words)
    if reads_sentences(name):
        lines = rule_lines(model)
    elif reads_documents(name):
        lines = topic_lines(model, n_words, MOST_COMPONENTS)
    else:
        lines = _table_lines(model)
    state = f"{'converged' if model.converged_ else 'not converged'} after {model.n_iter_} laps"
    if np.isfinite(model.lower_bound_):  # stochastic steps have no bound, streams no laps
        lines.append(f"bound {model.lower_bound_:.2f} nats{f', {state}' if model.n_iter_ else ''}")
    found = _monitored(model)
    if found is not None:
        lines.append(f"{found[0]} {found[1]:.4f} nats per {model._row_noun}, by which the fit ends")
    return lines + move_lines(model)


def _monitored(model: Any) -> tuple[str, float] | None:
    """What a fit ends by in place of the bound, and its value in the last lap; None for others."""
    what, trace = model._require_fitted().rule.monitor, model.trace_
    return (what, float(trace[-1].log_z)) if what and len(trace) else None


def _table_lines(model: Any) -> list[str]:
    order = np.argsort(-model.counts_, kind="stable")
    order = order[model.counts_[order] >= 1.0]
    what, cells = _cells(model)
    names = column_names(model)[:MOST_COLUMNS]
    stays = model._mean_durations() if isinstance(model, SequenceEstimator) else None
    header = [
        model._noun,
        "rows",
        "weight",
        *(["stay"] if stays is not None else []),
        *(names if cells is not None else []),
    ]
    rows = []
    for k in order[:MOST_COMPONENTS]:
        inner = [] if stays is None else [f"{stays[k]:.1f}"]
        inner += [] if cells is None else list(cells[k][:MOST_COLUMNS])
        rows.append([str(k), f"{model.counts_[k]:.1f}", f"{model.weights_[k]:.4f}", *inner])
    lines = [
        f"{type(model).__name__} of {model.n_effective_} {model._noun}s with rows "
        f"({model.n_components_} in all), "
        f"{type(model.family_).__name__}; {what}",
        *format_table(header, rows),
    ]
    left_out = [f"{len(order) - MOST_COMPONENTS} more {model._noun}s"] * (
        len(order) > MOST_COMPONENTS
    )
    left_out += [f"{model.n_features_in_ - MOST_COLUMNS} more columns"] * (
        model.n_features_in_ > MOST_COLUMNS
    )
    if left_out:
        lines.append(f"{' and '.join(left_out)}: see --json")
    return lines


def move_lines(model: Any) -> list[str]:
    """A line on the moves tried on all data; no line if there were none."""
    found = [
        f"{own['accepted']} of {own['tried']} {kind}s"
        for kind, own in _moves(model).items()
        if own["tried"]
    ]
    return [f"moves kept: {', '.join(found)}"] if found else []


def _cells(model: Any) -> tuple[str, list[list[str]] | None]:
    """What the table shows for each component and column, and the numbers (K, D) as text."""
    posterior = model.posterior_
    spread = _deviation(posterior)
    for name in ("mean", "rate", "probability"):
        values = posterior.get(name)
        if values is not None and values.ndim == 2 and values.shape[1] == model.n_features_in_:
            if name == "mean" and spread is not None:
                pairs = zip(values, spread, strict=True)
                return "mean ± deviation", [
                    [f"{m:.4g} ± {s:.2g}" for m, s in zip(*pair, strict=True)] for pair in pairs
                ]
            return name, [[f"{v:.4g}" for v in row] for row in values]
    if spread is not None and spread.shape[1] == model.n_features_in_:
        return "deviation", [[f"{s:.4g}" for s in row] for row in spread]
    return "parameters: see --json", None


def _deviation(posterior: dict[str, Array]) -> Array | None:
    """(K, D) standard deviations; None without variances."""
    if "variance" in posterior:
        return np.sqrt(posterior["variance"])
    if "covariance" in posterior:
        return np.sqrt(np.diagonal(posterior["covariance"], axis1=1, axis2=2))
    return None
