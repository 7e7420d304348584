"""Commands on sentence pairs: fit, links, scores, translations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak import targets
from stickbreak.data import Bitext, Links, read_gold
from stickbreak.metrics import alignment_scores
from stickbreak.progress import Phase

from .output import format_table, print_json, print_lines, write_rows

__all__ = [
    "aligner_facts",
    "aligner_lines",
    "open_bitext",
    "predict_links",
    "score_pairs",
    "write_links",
]

MOST_WORDS = 20  # source words in a table for people


def open_bitext(path: Path, options: dict[str, Any], verbose: int) -> Bitext:
    """The sentence pairs in a command's BITEXT."""
    with Phase(f"reading {path.name}", bool(verbose)) as phase:
        return sb.read_bitext(
            path,
            options["target"],
            encoding=options["encoding"] or "utf-8",
            report=phase.update,
        )


def write_links(path: Path, links: Links) -> None:
    """Pharaoh lines, all of them or none."""
    with targets.replacing(path) as file:
        file.writelines(f"{line}\n".encode() for line in links.lines())


def predict_links(
    model: Any, bitext: Bitext, symmetrize: str | None, out: Path | None, options: dict[str, Any]
) -> None:
    """Pharaoh lines, one for each pair."""
    links: Links = model.align(bitext, symmetrize=symmetrize)
    if out is not None:
        write_links(out, links)
    elif not options["json"]:
        print_lines(links.lines())
    if options["json"]:
        found = {"links": list(links.lines())} if out is None else {"out": str(out)}
        print_json({"n_pairs": len(links), "n_links": links.n_links, **found})


def score_pairs(
    model: Any,
    bitext: Bitext,
    per_row: bool,
    gold: Path | None,
    out: Path | None,
    options: dict[str, Any],
) -> None:
    """Nats per target word, or of each pair; and scores of the links where there is gold."""
    if gold is not None and per_row:
        raise ValueError("--gold and --per-row contradict each other")
    truth = None if gold is None else read_gold(gold, bitext)
    if per_row:
        scores = model.score_samples(bitext)
        if out is not None or not options["json"]:
            write_rows(out, iter([scores]), ["log_probability"], len(scores))
        if options["json"]:
            found = {"out": str(out)} if out is not None else {"log_probabilities": scores}
            print_json({"n_pairs": len(scores), **found})
        return
    facts: dict[str, Any] = {"score": model.score(bitext), "n_pairs": bitext.n_pairs}
    lines = [f"{facts['score']!r} nats per target word"]
    if truth is not None:
        rule = model._rule_of(options.get("symmetrize"))
        rates = alignment_scores(model.align(bitext, symmetrize=rule), truth)
        facts |= {"symmetrize": rule, **rates._asdict()}
        lines.append(
            f"{rule}: AER {rates.aer:.4f}, precision {rates.precision:.4f}, recall "
            f"{rates.recall:.4f}, F1 {rates.f1:.4f}, on {len(truth.pairs):,} pairs"
        )
    if options["json"]:
        print_json(facts)
    else:
        print_lines(lines)


def aligner_facts(model: Any, n_words: int, word: str | None = None) -> dict[str, Any]:
    """Facts about an aligner, with translations of the most frequent source words, or of one."""
    fitted = model._require_fitted()
    return {
        "model": type(model).__name__,
        "directions": "forward" if fitted.reverse is None else "both",
        "n_source_words": len(model.source_words_) - 1,
        "n_target_words": model.n_features_in_,
        "n_cells": int(model.translations_.nnz),
        "null_share": model.null_share_,
        "lower_bound": model.lower_bound_,
        "n_iter": model.n_iter_,
        "translations": _translations(model, n_words, word),
    }


def _translations(model: Any, n: int, word: str | None) -> dict[str, list[tuple[str, float]]]:
    """Source word to its most probable translations."""
    if word is not None:
        return {word: model.top_translations(word, n)}
    words, counts = model.source_words_, model.counts_
    order = np.argsort(-counts[: len(words)], kind="stable")[:MOST_WORDS]
    return {words[k]: model.top_translations(None if k == 0 else words[k], n) for k in order}


def aligner_lines(model: Any, n_words: int, word: str | None = None) -> list[str]:
    """A table of translations, and what is known of the fit."""
    facts = aligner_facts(model, n_words, word)
    rows = [
        [source, " ".join(f"{target} {100 * p:.0f}%" for target, p in found)]
        for source, found in facts["translations"].items()
    ]
    ahead = format_table(["source word"], [[row[0]] for row in rows])
    shown = ["translations", *(row[1] for row in rows)]
    lines = [
        f"{facts['model']}, {facts['directions']}: {facts['n_source_words']:,} source and "
        f"{facts['n_target_words']:,} target words, {facts['n_cells']:,} pairs of them; "
        f"{100 * facts['null_share']:.1f} % of target words from NULL",
        *(f"{left}  {right}" for left, right in zip(ahead, shown, strict=True)),
    ]
    if np.isfinite(model.lower_bound_):
        lines.append(f"bound {model.lower_bound_:.2f} nats after {model.n_iter_} laps")
    return lines
