"""What a part must define by itself, as its base class says."""

from __future__ import annotations

from typing import Any

__all__ = ["FAMILY", "PRIOR", "SCORES", "STRUCTURE", "defines", "require_methods"]

FAMILY = (
    "n_columns", "resolve", "prepare", "fields", "zeros", "log_marginal", "log_mode", "mean_log",
    "log_mean", "mode", "smoothed_mean", "bregman", "divergence", "describe",
)  # fmt: skip
SCORES = ("evidence", "collect", "pair")
STRUCTURE = ("infer", "count", "log_evidence")
PRIOR = ("fields", "zeros", "sizes", "potentials", "predictive", "mean", "bound")


def defines(part: Any, base: type[Any], name: str) -> bool:
    """Whether a part has more than the base class to say under this name."""
    return getattr(type(part), name) is not getattr(base, name)


def require_methods(part: Any, base: type[Any], names: tuple[str, ...]) -> None:
    """AssertionError for a part of another kind, or one that lacks some of these names."""
    kind = type(part).__name__
    assert isinstance(part, base), f"{kind} must be a subclass of {base.__name__}"
    lacking = [name for name in names if not defines(part, base, name)]
    assert not lacking, f"{kind} must define {', '.join(lacking)}: see {base.__name__}"
