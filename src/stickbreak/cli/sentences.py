"""Files of sentences on the command line: text, CoNLL-U and brackets in; trees out."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from stickbreak import targets
from stickbreak.data import ConlluSentence, iter_conllu, iter_trees
from stickbreak.data.conllu import COLUMNS, format_conllu
from stickbreak.data.sentence_lines import iter_lines

from .models import ModelEntry
from .output import check_target, configure_logs, format_table, print_json, print_lines

__all__ = ["fit_sentences", "predict_sentences", "rule_lines", "score_sentences", "training_data"]

BRACKETS = (".mrg", ".ptb", ".brackets")
TREE_FILES, WORD_FILES = (".mrg", ".ptb", ".brackets", ".txt"), (".conllu",)
MOST_RULES, LEAST_TIMES = 20, 0.1


class Sentences(NamedTuple):
    """words of each sentence; lines : the same of a CoNLL-U file, with all of its columns."""

    words: list[list[str]]
    lines: list[ConlluSentence] | None = None


def member_of(path: Path) -> tuple[Path, str | None]:
    """The file to open, and what to read of an archive: bank.zip/wsj/*.mrg is a path."""
    if path.suffix.lower() == ".zip":
        raise ValueError(f"{path} has members; name one, or a pattern: {path}/NAME")
    for parent in path.parents:
        if parent.suffix.lower() == ".zip" and parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return path, None


def read_file(path: Path, column: str | None, is_of_tags: bool) -> Sentences:
    """Sentences of a file; column : what to read of CoNLL-U files and brackets.

    is_of_tags : whether it is the tags, by default
    """
    file, member = member_of(path)
    suffix = path.with_suffix("").suffix if path.suffix.lower() == ".gz" else path.suffix
    suffix = suffix.lower()
    if suffix == ".conllu":
        chosen = column or ("upos" if is_of_tags else "form")
        if chosen not in COLUMNS:
            raise ValueError(f"--column {chosen}: CoNLL-U has {', '.join(COLUMNS)}")
        lines = list(iter_conllu(file, member=member))
        found = Sentences([sentence.column(chosen) for sentence in lines], lines)
    elif suffix in BRACKETS:
        chosen = column or ("tag" if is_of_tags else "word")
        if chosen not in ("word", "tag"):
            raise ValueError(f"--column {chosen}: brackets have word and tag")
        trees = [t.cleaned() for t in iter_trees(file, member=member)]
        kept = [tree for tree in trees if tree is not None]
        found = Sentences([tree.tags if chosen == "tag" else tree.words for tree in kept])
    elif column is not None:
        raise ValueError(f"--column is for CoNLL-U files and brackets; {path} is neither")
    else:
        lines_of = iter_lines(file, member=member)
        found = Sentences([words for line in lines_of if (words := line.text.split())])
    if not found.words:
        raise ValueError(f"{path} has no sentences")
    return found


def is_of_tags(model: Any) -> bool:
    """Whether a model finds heads of words, and so reads tags."""
    return bool(model.finds_heads)


def training_data(model: Any, path: Path, column: str | None) -> list[Any]:
    """What a model is fitted to: trees, or the words or tags of sentences."""
    if not model.learns_from_trees:
        return sentences_of(model, path, column)
    if column is not None:
        raise ValueError(f"--column does not apply: {type(model).__name__} reads whole trees")
    file, member = member_of(path)
    trees: list[Any] = list(iter_trees(file, member=member))
    if not trees:
        raise ValueError(f"{path} has no trees")
    return trees


def sentences_of(model: Any, path: Path, column: str | None) -> list[Any]:
    """Words or tags of sentences; or strings, whose spaces are left out."""
    words = read_file(path, column, is_of_tags(model)).words
    return ["".join(own) for own in words] if model.cuts_strings else list(words)


def fit_sentences(entry: ModelEntry, data: Path, out: Path | None, options: dict[str, Any]) -> None:
    """Fit, save, and report."""
    from .fitting import interruptible, make_model, report

    check_target(out)
    verbose = configure_logs(options)
    model = make_model(entry, options, verbose)
    began = time.monotonic()
    sentences = training_data(model, data, options["column"])
    interruptible(lambda: model.fit(sentences), options["checkpoint"], data, options)
    report(model, len(sentences), time.monotonic() - began, out, options)


def predict_sentences(model: Any, data: Path, out: Path | None, options: dict[str, Any]) -> None:
    """The best trees: CoNLL-U of heads, or brackets; strings with spaces between segments."""
    if model.cuts_strings:
        _predict_strings(model, data, out, options)
        return
    is_heads = is_of_tags(model)
    check_target(out, WORD_FILES if is_heads else TREE_FILES)
    given = read_file(data, options.get("column"), is_heads)
    trees = model.parse(given.words)
    if options["json"]:
        print_json({"n_sentences": len(trees), "trees": [_plain(tree) for tree in trees]})
        return
    lines = given.lines or [_as_conllu(words) for words in given.words]
    texts: Iterable[str] = (f"{tree}\n" for tree in trees)
    if is_heads:
        pairs = zip(lines, trees, strict=True)
        texts = (format_conllu(line.with_heads(heads)) + "\n" for line, heads in pairs)
    _write(texts, out)


def _predict_strings(model: Any, data: Path, out: Path | None, options: dict[str, Any]) -> None:
    check_target(out, (".txt",))
    found = model.parse(sentences_of(model, data, options.get("column")))
    if options["json"]:
        segments = [[{"name": part.name, "text": part.text} for part in own] for own in found]
        print_json({"n_sentences": len(found), "segments": segments})
        return
    _write((" ".join(part.text for part in own) + "\n" for own in found), out)


def _write(texts: Iterable[str], out: Path | None) -> None:
    """To a file, or to stdout."""
    if out is None:
        sys.stdout.writelines(texts)
        sys.stdout.flush()
        return
    with targets.replacing(out) as file:
        for text in texts:
            file.write(text.encode())


def _plain(tree: Any) -> Any:
    return tree.tolist() if hasattr(tree, "tolist") else str(tree)


def _as_conllu(words: list[str]) -> ConlluSentence:
    rows = [(str(i), w, "_", "_", "_", "_", "_", "_", "_", "_") for i, w in enumerate(words, 1)]
    return ConlluSentence((), tuple(rows))


def score_sentences(model: Any, data: Path, per_row: bool, options: dict[str, Any]) -> None:
    """Nats per word, or letter, or of each sentence."""
    words = sentences_of(model, data, options.get("column"))
    values = model.score_sequences(words)
    if per_row:
        found = {"n_sentences": len(words), "log_probabilities": values}
        lines = ["log_probability", *map(repr, values.tolist())]
    else:
        mean = float(values.sum() / sum(map(len, words)))
        found, lines = (
            {"score": mean, "n_sentences": len(words)},
            [f"{mean!r} nats per {model._row_noun}"],
        )
    print_json(found) if options["json"] else print_lines(lines)


def rule_lines(model: Any) -> list[str]:
    """The rules most often used, with how often."""
    rows = []
    for rule in (r for r in model.top_rules(MOST_RULES) if r.times >= LEAST_TIMES):
        rows.append([str(rule), f"{rule.probability:.3f}", f"{rule.times:.1f}"])
    title = (
        f"{type(model).__name__} of {model.n_effective_} {model._plural} in use "
        f"({model.n_components_} in all); rules most often used"
    )
    return [title, *format_table(["rule", "probability", "times"], rows)]
