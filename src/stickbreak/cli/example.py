"""`example`: the table of the README, documents, or sentence pairs, as a file."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from stickbreak.targets import replacing

from .output import check_target, print_json, print_lines

__all__ = [
    "make_pairs", "write_bitext", "write_documents", "write_example", "write_sentences",
    "write_strings", "write_treebank",
]  # fmt: skip

CLUSTERS = (((-4.0, 0.0), 0.8, 300), ((3.0, 3.0), 0.5, 200), ((3.0, -3.0), 1.2, 400))
MOST_WORDS, DOCUMENT_WORDS = 300, 100  # words of a help page, and of a document
# vocabulary: a word must be in at least RARE documents, and in at most this fraction of them
RARE, COMMON = 8, 0.2

NOUNS = {
    "house": "Haus", "book": "Buch", "picture": "Bild", "child": "Kind", "animal": "Tier",
    "letter": "Schreiben", "song": "Lied", "ship": "Schiff", "window": "Fenster", "field": "Feld",
}  # fmt: skip
ADJECTIVES = {"old": "alte", "new": "neue", "small": "kleine", "green": "grüne", "dear": "liebe"}
VERBS = {
    "seen": "gesehen", "found": "gefunden", "loved": "geliebt", "painted": "gemalt",
    "sold": "verkauft", "forgotten": "vergessen", "bought": "gekauft", "heard": "gehört",
    "lost": "verloren", "shown": "gezeigt", "wanted": "gewollt", "built": "gebaut",
}  # fmt: skip
ADVERBS = {
    "today": "heute", "often": "oft", "again": "wieder", "here": "hier", "there": "dort",
    "soon": "bald",
}  # fmt: skip
SMALL = (
    (("we", "wir"), ("they", "sie")),
    (("have", "haben"), ("had", "hatten")),
    (("the", "das"), ("this", "dieses")),
)
N_PAIRS = 400


def write_example(path: Path, sequences: bool, options: dict[str, Any]) -> None:
    """900 rows in two columns from three groups; or 10 sequences of 90 rows.

    Sequences stay in a group for a while.
    """
    check_target(path, (".csv",))
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [rng.normal(center, width, (size, 2)) for center, width, size in CLUSTERS]
    )
    lines = ["x,y", *(f"{x!r},{y!r}" for x, y in rows.tolist())]
    if sequences:
        places, widths = (np.array([cluster[i] for cluster in CLUSTERS]) for i in (0, 1))
        states = np.cumsum(rng.random((10, 90)) < 0.08, axis=1) % len(CLUSTERS)
        rows = (places[states] + widths[states][..., None] * rng.normal(size=(10, 90, 2))).reshape(
            -1, 2
        )
        lines = [
            "sequence,x,y",
            *(f"{i // 90},{x!r},{y!r}" for i, (x, y) in enumerate(rows.tolist())),
        ]
    with replacing(path) as file:
        file.write(("\n".join(lines) + "\n").encode())
    if options["json"]:
        print_json({"out": str(path), "n_rows": len(rows)})
    else:
        print_lines([f"{len(rows)} rows written to {path}"])


def write_documents(path: Path, options: dict[str, Any]) -> None:
    """Starts of Python's help pages as about 150 documents (LDA-C), with their vocabulary."""
    check_target(path, (".ldac",))
    beside = path.with_suffix(".vocab.txt")
    check_target(beside)
    documents = _help_pages()
    n_with = Counter(word for document in documents for word in set(document))
    words = sorted(word for word, n in n_with.items() if RARE <= n <= COMMON * len(documents))
    ids = {word: i for i, word in enumerate(words)}
    bags = [Counter(ids[word] for word in document if word in ids) for document in documents]
    lines = [
        " ".join([str(len(bag)), *(f"{i}:{n}" for i, n in sorted(bag.items()))])
        for bag in bags
        if bag
    ]
    with replacing(path) as corpus, replacing(beside) as vocabulary:  # both or none
        corpus.write(("\n".join(lines) + "\n").encode())
        vocabulary.write(("\n".join(words) + "\n").encode())
    if options["json"]:
        print_json(
            {
                "out": str(path),
                "words": str(beside),
                "n_documents": len(lines),
                "n_words": len(words),
            }
        )
    else:
        print_lines(
            [f"{len(lines)} documents written to {path}, their {len(words)} words to {beside}"]
        )


def write_sentences(path: Path, options: dict[str, Any]) -> None:
    """120 sentences of tags: noun phrases around verbs."""
    check_target(path, (".txt",))
    rng = np.random.default_rng(0)
    nouns = ("DET NOUN", "DET ADJ NOUN", "NOUN", "PRON")
    lines = []
    for _ in range(120):
        first, second = (nouns[i] for i in rng.choice(4, 2, p=(0.5, 0.2, 0.15, 0.15)))
        ending = "" if rng.random() < 0.3 else f" {second}"
        lines.append(f"{first} VERB{ending}" + (" ADP DET NOUN" if rng.random() < 0.25 else ""))
    with replacing(path) as file:
        file.write(("\n".join(lines) + "\n").encode())
    if options["json"]:
        print_json({"out": str(path), "n_sentences": len(lines)})
    else:
        print_lines([f"{len(lines)} sentences written to {path}"])


def write_treebank(path: Path, options: dict[str, Any]) -> None:
    """120 trees in brackets: subjects are often pronouns, objects have a determiner."""
    check_target(path, (".mrg", ".ptb", ".brackets"))
    rng, lines = np.random.default_rng(0), []
    nouns, verbs = ("cat", "dog", "bird", "child"), ("sees", "hears", "likes")
    for _ in range(120):
        first, second, third = (f"(NP (DT the) (NN {noun}))" for noun in rng.choice(nouns, 3))
        subject = "(NP (PRP she))" if rng.random() < 0.6 else first
        inner = second if rng.random() < 0.7 else f"(NP {second} (PP (IN of) {third}))"
        lines.append(f"( (S {subject} (VP (VBZ {rng.choice(verbs)}) {inner}) (. .)))")
    with replacing(path) as file:
        file.write(("\n".join(lines) + "\n").encode())
    if options["json"]:
        print_json({"out": str(path), "n_trees": len(lines)})
    else:
        print_lines([f"{len(lines)} trees written to {path}"])


def write_strings(path: Path, options: dict[str, Any]) -> None:
    """300 sentences like `thedogseesacat`, without their spaces."""
    check_target(path, (".txt",))
    rng, lines = np.random.default_rng(0), []
    nouns, verbs = ("cat", "dog", "bird", "child"), ("sees", "hears", "likes", "finds")
    for _ in range(300):
        first, second = (f"{rng.choice(('the', 'a'))}{noun}" for noun in rng.choice(nouns, 2))
        lines.append(first + rng.choice(verbs) + (second if rng.random() < 0.7 else "it"))
    with replacing(path) as file:
        file.write(("\n".join(lines) + "\n").encode())
    if options["json"]:
        print_json({"out": str(path), "n_strings": len(lines)})
    else:
        print_lines([f"{len(lines)} strings written to {path}"])


def _help_pages() -> list[list[str]]:
    """Words of at least four letters from the pages of `help("topics")`.

    The start of each page is cut into documents.
    """
    from pydoc_data.topics import topics

    made = []
    for page in topics.values():
        words = re.findall(r"[a-z]{4,}", page.lower())[:MOST_WORDS]
        n = max(1, round(len(words) / DOCUMENT_WORDS))
        made += [words[i * len(words) // n : (i + 1) * len(words) // n] for i in range(n)]
    return made


def write_bitext(path: Path, options: dict[str, Any]) -> None:
    """English and German sentences, whose words are in another order, and their true links."""
    check_target(path, (".txt",))
    beside = path.with_suffix(".gold.txt")
    check_target(beside)
    pairs = make_pairs(N_PAIRS, np.random.default_rng(0))
    with replacing(path) as bitext, replacing(beside) as gold:  # both or none
        for source, target, links in pairs:
            bitext.write(f"{' '.join(source)} ||| {' '.join(target)}\n".encode())
            gold.write((" ".join(f"{i}-{j}" for i, j in sorted(links)) + "\n").encode())
    if options["json"]:
        print_json({"out": str(path), "gold": str(beside), "n_pairs": len(pairs)})
    else:
        print_lines([f"{len(pairs)} sentence pairs written to {path}, true links to {beside}"])


def make_pairs(
    n: int, rng: np.random.Generator
) -> list[tuple[list[str], list[str], list[tuple[int, int]]]]:
    """N pairs like `we have seen the old house today`, `wir haben das alte Haus heute gesehen`.

    Each with its links. The verb moves; adjectives and adverbs may be missing.
    """
    words = [list(table.items()) for table in (NOUNS, ADJECTIVES, VERBS, ADVERBS)]
    found = []
    for _ in range(n):
        noun, adjective, verb, adverb = (table[rng.integers(len(table))] for table in words)
        has_adjective, has_adverb = (rng.random(2) < 0.6).tolist()
        subject, tense, article = (kinds[rng.integers(2)] for kinds in SMALL)
        object_ = [article, *([adjective] * has_adjective), noun]
        late = [adverb] * has_adverb
        english = [subject, tense, verb, *object_, *late]
        german = [subject, tense, *object_, *late, verb]
        links = [(i, german.index(word)) for i, word in enumerate(english)]
        found.append(([e for e, _ in english], [g for _, g in german], links))
    return found
