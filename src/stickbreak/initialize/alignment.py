"""Where alignments begin: with links that are all alike, or where a simpler model ended."""

from __future__ import annotations

from stickbreak.data import Sequences
from stickbreak.inference.collapsed import count_own
from stickbreak.inference.rules import LogMean
from stickbreak.inference.state import Start
from stickbreak.models import Model
from stickbreak.protocols import Pool
from stickbreak.stats import SERIAL, Fields, Summary, Tally
from stickbreak.structures import BagAlignment

__all__ = ["after_bag", "even_links_start"]


def even_links_start(
    model: Model, data: Sequences, n_components: int, pool: Pool = SERIAL
) -> Start:
    """Counts of links that are shared evenly among all positions of their sentence.

    Where links are not held in memory, they are counted batch by batch, and no pair keeps any.
    """
    params, structure = model.start_params(n_components), model.structure
    assert isinstance(structure, BagAlignment)
    if data.companion is None or data.companion.links is None:
        none, total = model.zeros(n_components), Tally(model.zeros(n_components))
        flat = model.potentials(none, params, LogMean())
        for part in data.batches():
            total.add(model.local_step(flat, part, None, (), pool)[0])
        return Start(total.summary(), params)
    batch = data.whole()
    pseudo = model.prior.pseudo(params, n_components)
    chance = pseudo.null / pseudo.null.sum() if pseudo.learns else pseudo.chance
    own = structure.even_own(batch, chance)
    return Start(count_own(model, params, batch, own, pool), params, warm=own)


def after_bag(
    model: Model, counts: Summary, warm: Fields | None, data: Sequences, pool: Pool = SERIAL
) -> Start:
    """Counts and links of a fit of model 1, as those of a model with jumps, of which it has none.

    warm : what its pairs kept, if it was collapsed
    """
    structure = model.structure
    assert isinstance(structure, BagAlignment)
    batch, params = data.whole(), model.start_params(counts.size(model.axis))
    own = structure.own_after(batch, warm)
    seed = model.adopt(counts) if own is None else count_own(model, params, batch, own, pool)
    return Start(seed, params, warm=own)
