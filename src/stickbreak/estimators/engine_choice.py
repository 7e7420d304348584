"""Which engine a fit runs, with which moves and laps, and how many components it begins with."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stickbreak.errors import StickbreakWarning
from stickbreak.inference import (
    ENGINES,
    CollapsedVB,
    Draw,
    DrawOwn,
    Engine,
    Hard,
    MeanLog,
    Mode,
    StochasticCollapsedVB,
)
from stickbreak.models import Model
from stickbreak.priors import is_learned

if TYPE_CHECKING:
    from .base import Estimator

__all__ = [
    "NAMED_ROOTS", "TABLE_LAPS", "TRUNCATION", "check_learning", "count_first", "make_engine",
    "pick_engine", "require_sweeps", "suit_engine",
]  # fmt: skip

NAMED_ROOTS = ("beta", "point")  # of every engine
TABLE_LAPS = 1000  # of the default engine of root="tables": needless components die out slowly
TRUNCATION = 25  # components of an unbounded model that does not begin with one


def pick_engine(estimator: Estimator, on_disk: bool) -> Engine:
    """The estimator's engine, with the moves and the laps that the estimator asks for."""
    engine = make_engine(estimator.inference, estimator._default_engine(on_disk))
    if estimator.max_iter is not None:
        engine = replace(engine, max_iter=estimator.max_iter)
    if estimator.tol is not None:
        engine = replace(engine, tol=estimator.tol)
    return engine.with_moves(estimator._recommended_moves())


def require_sweeps(estimator: Estimator, root: Any, *, may_step: bool = False) -> None:
    """Raise ValueError if a root of table counts is asked of another engine than collapsed ones.

    may_step : whether stochastic steps will do
    """
    engine, able = pick_engine(estimator, False), "'collapsed'"
    kinds: tuple[type[Engine], ...] = (CollapsedVB,)
    if may_step:
        kinds, able = (CollapsedVB, StochasticCollapsedVB), f"{able} or 'stochastic-collapsed'"
    if root not in NAMED_ROOTS and not isinstance(engine, kinds):
        raise ValueError(f"root={root!r} needs inference={able}; got {engine!r}")


def count_first(estimator: Estimator, n_items: int, can_move: bool) -> int:
    """How many components a fit begins with: n_components.

    A model that would find their number from one, by moves, cannot without: it begins at a
    truncation, and says so. n_items : rows or documents, which limit the truncation
    """
    n = int(estimator.n_components)
    if can_move and pick_engine(estimator, False).mover().moves:
        return n
    if n > 1 or not estimator._is_unbounded:
        return n
    n_first, noun = max(1, min(TRUNCATION, n_items)), estimator._noun
    engine = type(pick_engine(estimator, False)).__name__
    what = f"{engine} has no moves and" if can_move else "A step of stochastic inference"
    warnings.warn(
        f"{what} cannot change the number of {noun}s, so the fit begins with {n_first} instead of "
        f"n_components={n} and leaves those it does not need empty (n_effective_ counts the "
        f"others). Give n_components to choose another truncation, or use an engine with moves: "
        "inference=sb.MemoizedVB()",
        StickbreakWarning,
        stacklevel=6,
    )
    return n_first


def check_learning(estimator: Estimator) -> None:
    """Raise ValueError for a prior that the family or the engine cannot learn."""
    learn_prior, family = estimator.learn_prior, estimator._make_family()
    if not isinstance(learn_prior, bool):
        raise ValueError(f"learn_prior must be True or False; got {learn_prior!r}")
    if learn_prior and not family.can_learn:
        raise ValueError(
            f"{type(family).__name__} has no method `learn`, so its prior cannot be "
            "learned; use learn_prior=False"
        )
    prior, engine = estimator._prior_of(estimator), pick_engine(estimator, False)
    numbers = [f"{n}={v!r}" for n, v in prior.items() if is_learned(v)]
    learned = ["learn_prior=True"] * learn_prior + numbers
    can_sweep = isinstance(engine, CollapsedVB | StochasticCollapsedVB)
    is_by_tables = can_sweep and estimator._learns_collapsed(family)
    may_learn = is_by_tables and learned == ["learn_prior=True"]
    if learned and not isinstance(engine.rule(), MeanLog) and not may_learn:
        raise ValueError(
            f"{learned[0]} needs a variational engine (batch, memoized, stochastic); got {engine!r}"
        )


def make_engine(inference: Any, default: Engine) -> Engine:
    """An engine by its name, the given engine, or the default for None."""
    if inference is None:
        return default
    if isinstance(inference, str):
        if inference not in ENGINES:
            raise ValueError(
                f"unknown inference {inference!r}; choose one of {', '.join(sorted(ENGINES))}, or "
                "give an engine object"
            )
        return ENGINES[inference]()
    if not isinstance(inference, Engine):
        raise ValueError(
            "inference must be a name or an engine object such as sb.MemoizedVB(); "
            f"got {inference!r}"
        )
    return inference


def suit_engine(model: Model, engine: Engine) -> Model:
    """The model in the form that the engine's rule can fit."""
    rule = engine.rule()
    if isinstance(rule, Draw | DrawOwn):
        return replace(model, prior=model.prior.for_draws())
    if isinstance(rule, Mode | Hard):
        return replace(model, prior=model.prior.for_modes())
    return model
