"""Labels of words in the place of shares, for samplers: how they are drawn and counted."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.kernels.collapsed_draws import draw_words
from stickbreak.protocols import Array, Local, Out, Potentials
from stickbreak.stats import draw_log_dirichlet, draw_tables

from ..base import row_evidence

__all__ = ["count_labels", "document_rng", "draw_labels", "require_whole_counts"]


def require_whole_counts(block: Batch) -> None:
    """Raise ValueError unless every occurrence of a word can have a label of its own."""
    repeats, times = block.repeats_or_ones(), block.times
    if (np.rint(repeats) != repeats).any():
        bad = repeats[np.rint(repeats) != repeats][0]
        raise ValueError(
            "samplers draw a label for each occurrence of a word, so counts must be whole numbers; "
            f"got {bad:g}: round them, or use a variational engine such as BatchVB"
        )
    if times is not None and ((times != 0) & (times != 1)).any():
        bad = times[(times != 0) & (times != 1)][0]
        raise ValueError(
            "samplers draw labels for each document, so weights of documents must be 0 or 1; got "
            f"{bad:g}: repeat such documents instead, or use a variational engine such as BatchVB"
        )


def document_rng(seeds: Array) -> np.random.Generator:
    """Random numbers of some documents as a whole; seeds (n,) of their words."""
    return np.random.default_rng([len(seeds), *(int(seed) for seed in seeds[:1])])


def count_labels(
    counts: Array, times: Array, pseudo: Array, rng: np.random.Generator, out: Out
) -> None:
    """Add what documents with counts (S, K) of labels say of the prior: see `LabelCounts`."""
    counts = counts * times[:, None]
    length, prior = counts.sum(1), pseudo.sum()
    rises = gammaln(counts + pseudo) - gammaln(pseudo)
    out["log_labels"] += rises.sum() - (gammaln(length + prior) - gammaln(prior)).sum()
    if "tables" in out:
        concentration = np.broadcast_to(pseudo, counts.shape)
        out["tables"] += draw_tables(counts, concentration, rng).sum(0)


def draw_labels(
    potentials: Potentials,
    block: Batch,
    evidence: tuple[Array, Array, Array],
    held: Array | None,
    uniforms: Array,
    out: Out,
) -> tuple[Local, Array]:
    """Labels of all words given the documents' shares, and these given counts held (S, K).

    evidence : see `word_evidence`. held : None for the prior's mean shares
    Returns counts (n, K) of the labels as shares, and those of the documents (S, K).
    """
    assert block.offsets is not None
    require_whole_counts(block)
    (table, index, top), offsets = evidence, block.offsets
    pseudo, seeds = np.asarray(potentials["pseudo"]), (uniforms * 2.0**53).astype(np.uint64)
    rng, times = document_rng(seeds), np.ones(block.n_spans) if block.times is None else block.times
    if held is None:
        log_shares = np.tile(np.log(pseudo / pseudo.sum()), (block.n_spans, 1))
    else:
        log_shares = draw_log_dirichlet(held + pseudo, None, rng)
    units = np.repeat(np.arange(block.n_spans), np.diff(offsets))
    repeats, labels = block.repeats_or_ones() * times[units], np.empty((block.n_rows, len(pseudo)))
    lost, log_z = draw_words(table, index, repeats, offsets, np.exp(log_shares), seeds, labels)
    shift = top[index]
    if lost >= 0:  # its weights underflow: draw in logs
        logits = row_evidence(potentials, block) + log_shares[units]
        shift = logits.max(1)
        if not np.isfinite(shift).all():
            raise NumericalError(
                f"document {block.unit_at + units[~np.isfinite(shift)][0]} has a word that no "
                "component can have; check the prior"
            )
        even = np.ones_like(log_shares)
        linear = np.exp(logits - shift[:, None])
        _, log_z = draw_words(linear, np.arange(len(linear)), repeats, offsets, even, seeds, labels)
    counts = np.zeros((block.n_spans, len(pseudo)))
    np.add.at(counts, units, labels)
    out["share"] += counts.sum(0)
    count_labels(counts, times, pseudo, rng, out)
    return Local(float(log_z + repeats @ shift), labels), counts
