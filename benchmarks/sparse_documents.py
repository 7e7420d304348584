"""Documents that use a few topics each: a step over them against our own dense one."""

from __future__ import annotations

from collections.abc import Callable

from stickbreak.data import Batch, Documents
from stickbreak.families import Categorical
from stickbreak.inference import MeanLog
from stickbreak.models import Model, ModelPotentials, lda
from stickbreak.stats import Fields

from .documents import N_WORDS, TOKENS, Corpus
from .report import Report, Row, fastest, milliseconds

N_DOCUMENTS, PRIOR, WEIGHT = 2000, 0.1, 2000.0
TOPICS = 1.0  # concentration of a document: it then has some five topics
TARGET = 3.0
CASES = ((500, 8), (200, 8))
NOTE = f"""\
{{n}} documents of {TOKENS} words on average, V={N_WORDS}, drawn from K topics, which are known
({WEIGHT:.0f} words each); shares of a document are Dirichlet({TOPICS:g} / K). Documents have been
visited three times and continue from their counts.
Step over documents: their fixed points, and the counts of words that follow from them. Local step:
the same with what a visit does besides, on tables of V x K numbers: empty and summed counts, and
the pairing with potentials. Lost: nats of the bound a word, at the same topics."""


def visited(model: Model, potentials: ModelPotentials, batch: Batch) -> Fields:
    """Values of the documents after three visits."""
    warm = None
    for _ in range(3):
        _, warm = model.local_step(potentials, batch, warm)
    assert warm is not None
    return warm


def documents_step(
    model: Model, potentials: ModelPotentials, batch: Batch, warm: Fields
) -> Callable[[], object]:
    """Inference and counts of all documents, block by block, without what is done once a lane."""
    out = dict(potentials.empty.empty().arrays)

    def step() -> None:
        kept = warm.copy()
        for block in batch.blocks(model.block_rows(potentials.empty.size(model.axis))):
            local = model.structure.infer(potentials, block, kept.cut(**block.cut), out)
            potentials.scores.collect(block.rows, local.shares, out)

    return step


def compare(K: int, L: int, n: int, quick: bool) -> list[Row]:
    corpus = Corpus(K, n, sharing=TOPICS / K)
    batch = Documents.from_counts(corpus.counts).whole()
    dense = lda(Categorical(PRIOR, n_symbols=(N_WORDS,)), PRIOR)
    few, counts = dense.sparse(L), dense.zeros(K)
    topics = WEIGHT * corpus.table[:, :K] / corpus.table[:, :K].sum(0)
    counts["emission"][...], counts["emission_total"][...] = topics, WEIGHT
    potentials = dense.potentials(counts, dense.start_params(K), MeanLog())
    kept = {name: visited(model, potentials, batch) for name, model in (("f", few), ("d", dense))}
    steps = [documents_step(*given) for given in (
        (few, potentials, batch, kept["f"]), (dense, potentials, batch, kept["d"])
    )]  # fmt: skip
    visits = [
        lambda: few.local_step(potentials, batch, kept["f"]),
        lambda: dense.local_step(potentials, batch, kept["d"]),
    ]
    rows, rounds = [], 2 if quick else 5
    for name, pair, target in (("step over documents", steps, TARGET), ("local step", visits, 0)):
        ours, peer = fastest(*pair, rounds=rounds)
        is_goal = target and CASES[0] == (K, L)
        met = peer / ours >= target if is_goal and not quick else None
        goal = f"{target}x" if is_goal else "-"
        figures = milliseconds(ours), milliseconds(peer), f"{peer / ours:.1f}x", goal, met
        rows.append(Row(f"{name}, K={K}, L={L}", *figures))
    bounds = []
    for visit in visits:
        found = visit()[0]
        bounds.append(found.local_bound + potentials.pair(found.arrays))
    lost = (bounds[1] - bounds[0]) / corpus.counts.sum()
    return [*rows, Row(f"K={K}, L={L}: lost", f"{lost:.1e}")]


def run(quick: bool = False) -> Report:
    n = N_DOCUMENTS // 10 if quick else N_DOCUMENTS
    cases = ((40, 8),) if quick else CASES
    rows = [row for K, L in cases for row in compare(K, L, n, quick)]
    return Report(
        "Documents with few topics each", rows, (NOTE.format(n=n),), ours="few topics", peer="dense"
    )
