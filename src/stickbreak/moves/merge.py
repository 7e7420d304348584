"""Merge: two components become one, counts added.

Exact, because the lap tracks the entropy of the chosen pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stickbreak.data import Batch
from stickbreak.inference.proposals import BaseMove, Outcome, Proposal, require_start
from stickbreak.inference.scene import Scene
from stickbreak.parameters import require_whole
from stickbreak.protocols import Array, Local, Potentials, Watch
from stickbreak.stats import Edit, Field, Fields, Summary
from stickbreak.stats import Merge as MergeEdit

from .trials import try_fit, try_sweeps

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["Merge", "MergeWatch", "pair_scores"]

ALL_PAIRS = 40  # largest K for which every pair is scored; beyond it, only nearest neighbors
NEAREST = 10
LEAST_PAIRS = 10  # watched in one lap by default, however few components there are
MOST_OF_ONE = 5  # most pairs of one component that a lap watches
N_TRIALS, N_PASSES = 8, 50  # of trials on all data, where merges are not tracked
SLACK = (
    100.0  # nats that a pair may seem to cost before sweeps: these change what the bound leaves out
)
HOPELESS = -100.0  # nats; pairs that would lose more are not scored again until they change
# A pair whose rows would lose more than so many times, or nats beyond, what the prior has given any
# better pair is not scored.
TIMES_GIVEN, BEYOND_GIVEN = 2.0, 50.0


@dataclass(frozen=True)
class MergeWatch:
    """Collects the effect of merging each pair on the local bound and on tracked fields.

    pairs (M, 2) : positions
    """

    pairs: Array
    name: str = "merge"

    def at(self, model: Model, counts: Summary, batch: Batch, rule: Any) -> MergeWatch:
        """The watch itself: it is the same for every visit."""
        return self

    def empty_side(self, model: Model, potentials: Potentials) -> Summary:
        """Gain (M,), cross (M, M), and the merged value of every tracked field."""
        tracked = [n for n, f in model.layout().items() if f.merge == "tracked"]
        layout = {n: Field(("pair",), nonnegative=False) for n in ("gain", *tracked)}
        layout["cross"] = Field(("pair", "pair"), nonnegative=False)
        return Summary(
            layout, {n: np.zeros((len(self.pairs),) * len(f.axes)) for n, f in layout.items()}
        )

    def observe(
        self,
        model: Model,
        potentials: Potentials,
        block: Batch,
        raw: Batch,
        local: Local,
        side: Summary,
    ) -> Summary:
        """Add a block's terms."""
        model.structure.merge_terms(potentials, block, local, self.pairs, dict(side.arrays))
        return side


@dataclass(frozen=True)
class MergeProposal:
    """Row `pair` of the watch: fold the later of two slots into the earlier."""

    slots: tuple[int, ...]
    pair: int
    watch: MergeWatch
    expected: float
    allowance: float = 0.0
    n_key: int = 2
    kind: str = "merge"

    def pack(self, prefix: str, arrays: MutableMapping[str, Array]) -> dict[str, Any]:
        """Plain values, for checkpoints."""
        pairs = self.watch.pairs.tolist()
        saved = {
            "slots": list(self.slots),
            "pair": self.pair,
            "expected": self.expected,
            "pairs": pairs,
        }
        return {**saved, "allowance": self.allowance}

    def edit(
        self, model: Model, positions: tuple[int, ...], size: int, done: Sequence[Proposal]
    ) -> Edit:
        """The edit that merges the pair, corrected for pairs merged before it."""
        keep, drop = sorted(positions)
        earlier = tuple(p.pair for p in done if isinstance(p, MergeProposal))
        return MergeEdit(model.axis, keep, drop, self.pair, earlier)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Merge(BaseMove):
    """Tries to join pairs of components.

    Parameters
    ----------
    max_pairs : pairs watched in one lap, at most; default half the number of components, of which
        each takes part in one accepted merge at most, and not less than ten.
    start : first lap in which pairs are watched, or "settled": none until a lap has gained less
        than the engine's `tol`. Components of a start that are alike at first then have time to
        become different. Trials of other moves wait until no pair is left to watch.
    allowance : nats of the bound that a merge may cost. Not for fits of whole data, whose bound
        would drop. It is for fits to a sample whose rows count several times, which overrate every
        component.
    max_trial_rows : as in `Birth`; nor are pairs watched in laps over more rows.
    """

    kind: ClassVar[str] = "merge"

    max_pairs: int | None = None
    start: int | str = 1
    allowance: float = 0.0
    max_trial_rows: int | None = None

    def unpack(self, saved: dict[str, Any], prefix: str, arrays: Mapping[str, Array]) -> Proposal:
        """A proposal, as `pack` saved it."""
        a, b = (int(k) for k in saved["slots"])
        watch = MergeWatch(np.array(saved["pairs"], dtype=np.int64).reshape(-1, 2))
        return MergeProposal(
            (a, b), int(saved["pair"]), watch, float(saved["expected"]), float(saved["allowance"])
        )

    def check_saved(
        self, proposal: Proposal, shared: Watch, model: Model, n_components: int
    ) -> None:
        """Its pair is one of those that are watched, all of them components."""
        assert isinstance(proposal, MergeProposal)
        assert isinstance(shared, MergeWatch)
        pairs = shared.pairs
        inside = (pairs >= 0).all() and (pairs < n_components).all()
        if not inside or (pairs[:, 0] == pairs[:, 1]).any():
            raise ValueError(f"pairs {pairs.tolist()[:9]} of {n_components} components")
        if not 0 <= proposal.pair < len(pairs) or set(pairs[proposal.pair]) != set(proposal.slots):
            raise ValueError(f"a merge of {proposal.slots} as pair {proposal.pair}")

    def check(self) -> None:
        """Settings are numbers in their ranges."""
        require_start(self.start)
        if not 0 <= self.allowance < np.inf:
            raise ValueError(f"allowance={self.allowance} must be a number of nats, 0 or more")
        if self.max_pairs is not None:
            require_whole(max_pairs=self.max_pairs)
        if self.max_trial_rows is not None:
            require_whole(max_trial_rows=self.max_trial_rows)

    def plan(self, scene: Scene) -> list[Proposal]:
        """Pairs that may belong together, by their counts alone; best first."""
        # In a stream, the entropy of rows seen before is no longer known.
        if not self.is_due(scene) or len(scene.ids) < 2 or scene.in_stream:
            return []
        if self.max_trial_rows is not None and scene.data.n_rows > self.max_trial_rows:
            return []
        if "merge" not in scene.model.structure.tracks:
            return []
        chosen = self._choose(scene)
        watch = MergeWatch(np.array([pair for pair, _ in chosen], dtype=np.int64).reshape(-1, 2))
        return [
            MergeProposal(pair, i, watch, expected, self.allowance)
            for i, (pair, expected) in enumerate(chosen)
        ]

    def _choose(self, scene: Scene) -> list[tuple[tuple[int, int], float]]:
        """Pairs of positions, with the nats that each should gain.

        This is the change of the bound without the change of the entropy. A merge never raises the
        entropy, so a pair with a negative value cannot be accepted.
        """
        budget = max(LEAST_PAIRS, len(scene.ids) // 2) if self.max_pairs is None else self.max_pairs
        pairs, scores = pair_scores(
            scene.model,
            scene.total,
            scene.params,
            lambda a, b: scene.may_try("merge", (a, b)),
            self.allowance,
        )
        scores = scores + self.allowance
        for at in np.flatnonzero((scores < HOPELESS) & np.isfinite(scores)):
            scene.give_up("merge", (int(pairs[at, 0]), int(pairs[at, 1])))
        chosen: list[tuple[tuple[int, int], float]] = []
        taken = np.zeros(len(scene.ids), dtype=int)
        # Components without a row score about zero, since they cost hardly anything: absorb them.
        is_idle = scene.sizes < 1.0
        for at in np.argsort(-scores, kind="stable"):
            a, b = (int(k) for k in pairs[at])
            if (scores[at] <= 0 and not is_idle[pairs[at]].any()) or len(chosen) >= budget:
                continue
            if taken[a] < MOST_OF_ONE and taken[b] < MOST_OF_ONE:
                chosen.append(((a, b), float(scores[at])))
                taken[[a, b]] += 1
        return chosen

    def targets(self, scene: Scene) -> list[tuple[int, ...]]:
        """For structures that do not track merges: the best few of the same pairs."""
        if "merge" in scene.model.structure.tracks or len(scene.ids) < 2:
            return []
        is_swept = scene.own is not None
        move = replace(self, allowance=max(self.allowance, SLACK)) if is_swept else self
        return [(scene.ids[a], scene.ids[b]) for (a, b), _ in move._choose(scene)[:N_TRIALS]]

    def try_out(self, scene: Scene, slots: tuple[int, ...]) -> Outcome | None:
        """Fit all data with the two components merged."""
        keep, drop = sorted(slots)
        edit = MergeEdit(scene.model.axis, keep, drop)
        ids = list(edit.rename(scene.ids, scene.next_id))
        total, params = edit(scene.total), edit(scene.params)
        if scene.own is not None:
            return try_sweeps(scene, total, params, edit(scene.own), tuple(ids), N_PASSES)
        return try_fit(scene, total, params, ids, N_PASSES)


def pair_scores(
    model: Model,
    total: Summary,
    params: Fields,
    may_try: Callable[[int, int], bool] | None = None,
    allowance: float = 0.0,
) -> tuple[Array, Array]:
    """Pairs (M, 2), a < b, and (M,) change of the bound if they merged without loss of entropy.

    may_try(a, b) : which pairs are of interest; default all
    allowance : nats that a merge may cost; pairs that would cost far more have no score

    The score of a pair that is not likely to gain may be -inf.
    """
    layout = model.family.fields(model.axis)
    counts = Fields(layout, {n: total[n] for n in layout})
    pairs = _candidates(model, counts)
    if may_try is not None:
        pairs = pairs[np.array([may_try(int(a), int(b)) for a, b in pairs], dtype=bool)]
    if len(pairs) == 0:
        return pairs, np.zeros(0)
    first, second = (counts.permute(model.axis, pairs[:, side].tolist()) for side in (0, 1))
    both = model.family.log_marginal(_joined(first, second))
    alone = model.family.log_marginal(counts)
    data = both - alone[pairs[:, 0]] - alone[pairs[:, 1]]
    return pairs, data + _prior_changes(model, total, params, pairs, data, allowance)


def _candidates(model: Model, counts: Fields) -> Array:
    K = counts.size(model.axis)
    if K <= ALL_PAIRS:
        return np.stack(np.triu_indices(K, 1), axis=1)
    means = model.family.smoothed_mean(counts)
    apart = model.family.bregman(means, means)
    apart = apart + apart.T
    np.fill_diagonal(apart, np.inf)
    near = np.argpartition(apart, NEAREST, axis=1)[:, :NEAREST]
    pairs = np.stack([np.repeat(np.arange(K), NEAREST), near.ravel()], axis=1)
    return np.unique(np.sort(pairs, axis=1), axis=0)


def _joined(first: Fields, second: Fields) -> Fields:
    """Sums slot by slot, with moments about the first's reference points."""
    return Summary(first.layout, first.arrays) + Summary(second.layout, second.arrays)


def _prior_changes(
    model: Model, total: Summary, params: Fields, pairs: Array, data: Array, allowance: float
) -> Array:
    """(M,) change of the prior's part; -inf for pairs that are unlikely to gain in all."""
    layout = model.prior.fields(model.axis)
    counts = Summary(layout, {n: total[n] for n in layout}, n_units=total.n_units)
    now = model.prior.bound(counts, params)
    out, given = np.full(len(pairs), -np.inf), 0.0
    for at in np.argsort(-data, kind="stable")[: 2 * total.size(model.axis) + 20]:
        if data[at] + allowance + max(TIMES_GIVEN * given, given + BEYOND_GIVEN) < 0.0:
            break
        edit = MergeEdit(model.axis, int(pairs[at, 0]), int(pairs[at, 1]))
        # The parameters are near their optimum here, so this is a close lower bound.
        out[at] = model.prior.bound(edit(counts), edit(params)) - now
        given = max(given, out[at])
    return out
