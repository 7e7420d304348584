"""Parameters by name, as in scikit-learn, for frozen objects (families, engines)."""

from __future__ import annotations

import math
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, Self

__all__ = ["Parameters", "require_positive", "require_prior_count", "require_whole"]

# Prior counts (concentrations, strengths). Beyond these limits their digammas and eighth powers
# leave the range of floats.
LEAST, MOST = 1e-300, 1e30


def require_whole(**values: Any) -> None:
    """Raise ValueError for a setting that is not a whole number of at least 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")


def require_positive(**values: Any) -> None:
    """Raise ValueError for a number that is not positive and finite."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 < float(value) < math.inf):
            raise ValueError(f"{name} must be a positive number; got {value!r}")


def require_prior_count(least: float = LEAST, most: float = MOST, **values: Any) -> None:
    """Raise ValueError for a prior count (a concentration, a strength) that is out of range."""
    require_positive(**values)
    for name, value in values.items():
        if not least <= value <= most:
            raise ValueError(
                f"{name} must be from {least:g} to {most:g}; got {value!r}: beyond, rounding would "
                "drown what the data say"
            )


class Parameters:
    """Mixin for frozen dataclasses: `get_params`, `set_params`, and a repr without defaults.

    Frozen objects are values; `set_params` exists because grid searches set nested parameters on a
    fresh clone.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All constructor arguments by name."""
        found: dict[str, Any] = {}
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            found[f.name] = value
            if deep and isinstance(value, Parameters):
                found.update(
                    {f"{f.name}__{key}": inner for key, inner in value.get_params().items()}
                )
        return found

    def set_params(self, **params: Any) -> Self:
        """Set arguments by name; `outer__inner` sets an argument of a nested object."""
        own = self.get_params(deep=False)
        for name in set(self.__dict__) - set(own):
            del self.__dict__[name]  # cached values, computed from the old arguments
        for key, value in params.items():
            name, _, inner = key.partition("__")
            if name not in own:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {sorted(own)}"
                )
            if inner:
                own[name].set_params(**{inner: value})
            else:
                object.__setattr__(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = []
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if value is not f.default and repr(value) != repr(f.default):
                shown.append(f"{f.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"
