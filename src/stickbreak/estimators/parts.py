"""Parts by object or by name: families, engines, seeds; and which of them go together."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np

from stickbreak.families.names import FAMILIES, make_family
from stickbreak.inference import ENGINES, Engine, MeanLog
from stickbreak.parameters import require_positive
from stickbreak.priors import GammaPrior

__all__ = [
    "FAMILIES",
    "check_concentration",
    "check_learning",
    "make_engine",
    "make_family",
    "make_seed",
]


def check_concentration(concentration: Any) -> Any:
    """The concentration, if it is a positive number or a GammaPrior of such numbers."""
    if isinstance(concentration, GammaPrior):
        concentration.check()
    else:
        require_positive(concentration=concentration)
    return concentration


def check_learning(
    learn_prior: Any, family: Any, numbers: Mapping[str, Any], engine: Engine
) -> None:
    """Raise ValueError for a prior, of the family or one of these numbers, that family or engine
    cannot learn.
    """
    if not isinstance(learn_prior, bool):
        raise ValueError(f"learn_prior must be True or False; got {learn_prior!r}")
    if learn_prior and not family.can_learn:
        raise ValueError(
            f"{type(family).__name__} has no method `learn`, so its prior cannot be "
            "learned; use learn_prior=False"
        )
    learned = ["learn_prior=True"] * learn_prior + [
        f"{n}={v!r}" for n, v in numbers.items() if isinstance(v, GammaPrior)
    ]
    if learned and not isinstance(engine.rule(), MeanLog):
        raise ValueError(
            f"{learned[0]} needs a variational engine (batch, memoized, stochastic); got {engine!r}"
        )


def make_engine(inference: Any, default: Engine) -> Engine:
    """An engine from its name, the object itself, or the default where there is neither."""
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


def make_seed(random_state: Any) -> int:
    """One whole number from an int, None, a RandomState or a Generator."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        return int(np.random.RandomState(int(random_state)).randint(2**31 - 1))
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(2**31 - 1))
