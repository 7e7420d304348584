"""Windows of long chains: the posterior of their own rows and steps, given the rows around them.

A window receives the message of the rows before it, and the message of the rows after it:

    into first row    sum_i p(z_before = i | rows before) exp(transition[i, j])
    out of last row   sum_j exp(transition[i, j]) p(rows after | z_after = j)

So forward-backward runs over the window alone, and counts nothing else. In place of rows around it,
a window may be given the posteriors of the states next to it, its guards:

    into first row    sum_i q(z_before = i) exp(transition[i, j])
    out of last row   sum_j exp(transition[i, j]) q(z_after = j)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stickbreak.data import Batch, Windows, span_rows
from stickbreak.kernels.chain.paths import filtered
from stickbreak.kernels.chain.smooth import smooth
from stickbreak.protocols import Array, Potentials

__all__ = ["closed_windows", "smooth_windows"]

LEAST_BUFFER = 8  # initial rows of adaptive buffers


def smooth_windows(
    evidence_t: Array, potentials: Potentials, block: Batch, windows: Windows, out: dict[str, Array]
) -> tuple[Array, Array]:
    """Weighted log p(rows of the window | rows before) (S,), and shares (K, n).

    The shares are 0 outside of the windows. Adds counts to `out`.

    evidence_t (K, n) : of the units with their buffers
    """
    begins, ends = _edges(block, windows)
    weights = block.repeats_or_ones()[begins]
    at, offsets = span_rows(begins, ends)
    rows = np.take(evidence_t, at, axis=1)
    transition, nothing = potentials["transition"], np.zeros(len(evidence_t))
    sides = _sides(evidence_t, potentials, block, windows)
    rows[:, offsets[:-1]] += sides.enter().T
    log_z = np.add.reduceat(filtered(rows, nothing, transition, offsets)[1], offsets[:-1])
    rows[:, offsets[1:] - 1] += sides.leave().T
    smooth(
        rows,
        nothing,
        transition,
        offsets,
        weights,
        start=nothing.copy(),
        transition=out["transition"],
        out=rows,
    )
    out["start"] += rows[:, offsets[:-1][windows.has_start]].sum(1)
    shares = np.zeros_like(evidence_t)
    shares[:, at] = rows
    return weights * log_z, shares


def closed_windows(
    evidence_t: Array, potentials: Potentials, block: Batch, windows: Windows
) -> tuple[Array, Array]:
    """Evidence (K, m) of the rows of windows, with what comes in and goes out; offsets (S + 1,).

    Each is a chain of its own then, which may begin in every state.
    """
    at, offsets = span_rows(*_edges(block, windows))
    rows, sides = np.take(evidence_t, at, axis=1), _sides(evidence_t, potentials, block, windows)
    rows[:, offsets[:-1]] += sides.enter().T
    rows[:, offsets[1:] - 1] += sides.leave().T
    return rows, offsets


def _edges(block: Batch, windows: Windows) -> tuple[Array, Array]:
    """First rows of windows, and the rows after their last ones."""
    assert block.offsets is not None
    return block.offsets[:-1] + windows.lead, block.offsets[1:] - windows.trail


def _sides(
    evidence_t: Array, potentials: Potentials, block: Batch, windows: Windows
) -> _Sides | _Guards:
    """Where messages at the edges of windows come from."""
    if windows.edges is not None:
        return _Guards(potentials, windows, *windows.edges)
    return _Sides(evidence_t, potentials, windows, *_edges(block, windows))


class _Sides:
    """Log messages (S, K) from buffers to their windows; adaptive buffers use what they need."""

    def __init__(
        self,
        evidence_t: Array,
        potentials: Potentials,
        windows: Windows,
        begins: Array,
        ends: Array,
    ) -> None:
        self.evidence_t, self.potentials, self.windows = evidence_t, potentials, windows
        self.begins, self.ends = begins, ends
        top = potentials["transition"].max()
        self.top, self.rows = top, np.exp(potentials["transition"] - top)

    def enter(self) -> Array:
        """Into the first row of each window."""
        return self._settle(self._forward, self.windows.lead, self.evidence_t[:, self.begins].T)

    def leave(self) -> Array:
        """Out of the last row of each window."""
        return self._settle(self._backward, self.windows.trail, self.evidence_t[:, self.ends - 1].T)

    def _settle(
        self, message: Callable[[Array, Array], Array], available: Array, edge: Array
    ) -> Array:
        """The message of all available rows; of an adaptive buffer, as many as needed.

        An adaptive buffer doubles until the posterior of the edge row has settled.
        """
        everyone = np.arange(len(available))
        if self.windows.edge_tol is None:
            return message(everyone, available)
        used = np.minimum(available, LEAST_BUFFER)
        found = message(everyone, used)
        known, moving = _normalized(found + edge), np.flatnonzero(used < available)
        while len(moving):
            used[moving] = np.minimum(2 * used[moving], available[moving])
            found[moving] = message(moving, used[moving])
            new = _normalized(found[moving] + edge[moving])
            change = np.abs(new - known[moving]).sum(1)
            known[moving] = new
            moving = moving[(change > self.windows.edge_tol) & (used[moving] < available[moving])]
        return found

    def _forward(self, which: Array, used: Array) -> Array:
        """(m, K) messages from `used` (m,) rows before each window of `which`.

        The chain begins at its start if the rows reach back to it, else in any state.
        """
        is_start = self.windows.is_first[which] & (used == self.windows.lead[which])
        out = np.where(is_start[:, None], self.potentials["start"], self.potentials["window_start"])
        some = np.flatnonzero(used > 0)
        if len(some):
            ends = self.begins[which[some]]
            at, offsets = span_rows(ends - used[some], ends)
            rows = np.take(self.evidence_t, at, axis=1)
            rows[:, offsets[:-1]] += out[some].T
            out[some] = self._step(rows, offsets, self.potentials["transition"], self.rows)
        return out

    def _backward(self, which: Array, used: Array) -> Array:
        """(m, K) messages from `used` (m,) rows after each window of `which`, last row first."""
        out = np.zeros((len(which), len(self.evidence_t)))
        some = np.flatnonzero(used > 0)
        if len(some):
            begins = self.ends[which[some]]
            at, offsets = span_rows(-(begins + used[some] - 1), 1 - begins)
            rows = np.take(self.evidence_t, -at, axis=1)
            out[some] = self._step(
                rows, offsets, np.ascontiguousarray(self.potentials["transition"].T), self.rows.T
            )
        return out

    def _step(self, rows: Array, offsets: Array, log_transition: Array, transition: Array) -> Array:
        """(m, K) log message one step beyond the last row of each span."""
        last = filtered(rows, np.zeros(len(rows)), log_transition, offsets)[0][offsets[1:] - 1]
        with np.errstate(divide="ignore"):  # states that no path reaches
            return np.asarray(np.log(last @ transition) + self.top)


class _Guards:
    """Log messages (S, K) from the states before and after windows, whose weights are given."""

    def __init__(
        self, potentials: Potentials, windows: Windows, before: Array, after: Array
    ) -> None:
        if np.isneginf(potentials["transition"]).any():
            raise ValueError(
                "a block is inferred apart from the next one, which impossible steps do not allow; "
                "use StochasticCollapsedVB(granularity='auto'), or guards='none'"
            )
        self.potentials, self.windows, self.before, self.after = potentials, windows, before, after
        self.top = potentials["transition"].max()
        self.rows = np.exp(potentials["transition"] - self.top)

    def enter(self) -> Array:
        """Into the first row of each window: from the start of its sequence, or from its guard."""
        is_start = self.windows.has_start[:, None]
        return np.where(is_start, self.potentials["start"], self._log(self.before @ self.rows))

    def leave(self) -> Array:
        """Out of the last row of each window; nothing follows that of a sequence."""
        assert self.windows.is_last is not None
        is_last = self.windows.is_last[:, None]
        return np.where(is_last, 0.0, self._log(self.after @ self.rows.T))

    def _log(self, weights: Array) -> Array:
        with np.errstate(divide="ignore"):  # states that no path reaches
            return np.asarray(np.log(weights) + self.top)


def _normalized(log_weights: Array) -> Array:
    """(m, K) weights that sum to one."""
    weights = np.exp(log_weights - log_weights.max(1, keepdims=True))
    return np.asarray(weights / weights.sum(1, keepdims=True))
