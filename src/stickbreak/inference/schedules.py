"""Step sizes of stochastic inference."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PowerDecay"]


@dataclass(frozen=True)
class PowerDecay:
    """rate(t) = first ((delay + 1) / (delay + t)) ** kappa for steps t = 1, 2, ...

    Converges for 0.5 < kappa <= 1.

    first : first step size, in (0, 1]; None for (delay + 1) ** -kappa, which gives
        rate(t) = (delay + t) ** -kappa. With 1, about `delay` steps replace most of the total
        before rates fall.

    Examples
    --------
    >>> round(PowerDecay(kappa=0.9, delay=10.0).rate(1), 6)
    0.115544
    >>> [PowerDecay(kappa=1.0, delay=3.0, first=1.0).rate(t) for t in (1, 5)]
    [1.0, 0.5]
    """

    kappa: float = 0.6
    delay: float = 10.0
    first: float | None = None

    def rate(self, step: int) -> float:
        """Step size of the given step, in (0, 1]."""
        if self.first is None:
            return float((self.delay + step) ** -self.kappa)
        return float(self.first * ((self.delay + 1.0) / (self.delay + step)) ** self.kappa)
