"""Step sizes of stochastic inference."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PowerDecay"]


@dataclass(frozen=True)
class PowerDecay:
    """rate(t) = (delay + t) ** -kappa for steps t = 1, 2, ...; converges for 0.5 < kappa <= 1.

    Examples
    --------
    >>> round(PowerDecay(kappa=0.9, delay=10.0).rate(1), 6)
    0.115544
    """

    kappa: float = 0.6
    delay: float = 10.0

    def rate(self, step: int) -> float:
        """Step size of the given step, in (0, 1]."""
        return float((self.delay + step) ** -self.kappa)
