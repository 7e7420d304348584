"""Parts by object or by name: families, engines, seeds; and which of them go together."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from stickbreak.families.names import FAMILIES, make_family
from stickbreak.inference import ENGINES, BatchVB, Engine, MeanLog, MemoizedVB
from stickbreak.moves import Birth, Delete, Merge
from stickbreak.parameters import require_positive
from stickbreak.priors import GammaPrior
from stickbreak.protocols import LearningFamily

__all__ = ["FAMILIES", "check_concentration", "check_learning", "make_engine", "make_family", "make_seed"]


def check_concentration(concentration: Any) -> Any:
    """The concentration, if it is a positive number or a GammaPrior of such numbers."""
    if isinstance(concentration, GammaPrior):
        concentration.check()
    else:
        require_positive(concentration=concentration)
    return concentration


def check_learning(learn_prior: Any, family: Any, concentration: Any, engine: Engine) -> None:
    """Raise ValueError for a prior that family or engine cannot learn."""
    if not isinstance(learn_prior, bool):
        raise ValueError(f"learn_prior must be True or False; got {learn_prior!r}")
    if learn_prior and not isinstance(family, LearningFamily):
        raise ValueError(f"{type(family).__name__} has no method `learn`, so its prior cannot be learned; use learn_prior=False")
    if (learn_prior or isinstance(concentration, GammaPrior)) and not isinstance(engine.rule(), MeanLog):
        what = "learn_prior=True" if learn_prior else f"concentration={concentration!r}"
        raise ValueError(f"{what} needs a variational engine (batch, memoized, stochastic); got {engine!r}")


def make_engine(inference: Any, *, prefer_memoized: bool, is_unbounded: bool) -> Engine:
    """An engine from its name, the object itself, or the default.

    That is batch in memory, memoized on disk, and memoized with all moves for unbounded models.
    """
    if inference is None:
        if is_unbounded:
            return MemoizedVB(moves=(Birth(), Merge(), Delete()))
        return MemoizedVB() if prefer_memoized else BatchVB()
    if isinstance(inference, str):
        if inference not in ENGINES:
            raise ValueError(
                f"unknown inference {inference!r}; choose one of {', '.join(sorted(ENGINES))}, or give an engine object"
            )
        return ENGINES[inference]()
    if not isinstance(inference, Engine):
        raise ValueError(f"inference must be a name or an engine object such as sb.MemoizedVB(); got {inference!r}")
    return inference


def make_seed(random_state: Any) -> int:
    """One whole number from an int, None, a RandomState or a Generator."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        return int(np.random.RandomState(int(random_state)).randint(2**31 - 1))
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(2**31 - 1))
