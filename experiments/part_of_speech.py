"""Parts of speech of the Wall Street Journal: hidden Markov models with a dictionary of tags, and
without.

One engine and few seeds:
`python -m experiments.part_of_speech --engine batch --seeds 2 --task d=1`.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import v_measure_score

import stickbreak as sb

from .frame import Experiment, Row, data_folder, is_quick, seeds

N_SCORED, N_HELD = 1_000, 1_000  # sentences that are tagged; those after them choose the prior
N_SEEDS = 10
GRID = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # prior count of a step, and of a word
QUICK_GRID = (0.03, 0.3)
SWEEPS = 2_000  # of samplers, whatever the laps of the others
Sentence = list[tuple[str, str]]


class Task(NamedTuple):
    """least : words with fewer tokens may have any tag; None for no dictionary at all"""

    least: int | None
    laps: int
    published: Mapping[str, str]


TASKS = {
    "d=1": Task(1, 50, {"baseline": "65.1", "batch": "T: collapsed by sequence 5.0 above"}),
    "d=3": Task(3, 50, {"batch": "T: collapsed by sequence 13.0 above"}),
    "unsupervised": Task(None, 200, {"collapsed, sequence": "T: 32.5, 50.5, 5.32, 44.4"}),
}


def make_engines() -> dict[str, Callable[[int], Any]]:
    """Engines by name, from the number of laps; those that this version lacks are left out."""
    exact = {"tol": 0.0}  # as many laps as the definition says
    found: dict[str, Callable[[int], Any]] = {
        "em": lambda laps: sb.EM(max_iter=laps, **exact),
        "batch": lambda laps: sb.BatchVB(max_iter=laps, **exact),
        "collapsed, sequence": lambda laps: sb.CollapsedVB(
            granularity="sequence", max_iter=laps, **exact
        ),
        "collapsed, token": lambda laps: sb.CollapsedVB(
            granularity="token", max_iter=laps, **exact
        ),
    }
    sampler = getattr(sb, "CollapsedGibbs", None)
    if sampler is not None:
        found["collapsed-gibbs"] = lambda laps: sampler(
            max_iter=60 if is_quick() else SWEEPS, temperature=(2.0, 0.08)
        )
    return found


# ---------------------------------------------------------------------------------------- data


def read_treebank() -> list[Sentence]:
    """Words and tags of all trees, in the order of the files, without traces."""
    found: list[Sentence] = []
    with zipfile.ZipFile(data_folder() / "tagged" / "treebank.zip") as archive:
        names = (n for n in archive.namelist() if re.fullmatch(r".*/combined/wsj_\d+\.mrg", n))
        for name in sorted(names):
            found += read_trees(archive.read(name).decode("latin-1"))
    return found


def read_trees(text: str) -> Iterator[Sentence]:
    """The leaves (tag word) of bracketed trees, one after another."""
    depth, sentence = 0, []
    for part in re.findall(r"\(\s*[^\s()]+\s+[^\s()]+\s*\)|[()]", text):
        if part in "()":
            depth += 1 if part == "(" else -1
        else:
            tag, word = part.strip("() \n\t").split()
            sentence += [(word, tag)] if tag != "-NONE-" else []
        if depth == 0 and sentence:
            yield sentence
            sentence = []


def read_chunks(part: str) -> list[Sentence]:
    """Sentences of conll2000, with the treebank's names of brackets."""
    with zipfile.ZipFile(data_folder() / "tagged" / "conll2000.zip") as archive:
        text = archive.read(f"conll2000/{part}.txt").decode("latin-1")
    names = {"(": "-LRB-", ")": "-RRB-"}
    blocks = (block.splitlines() for block in re.split(r"\n\s*\n", text) if block.strip())
    return [
        [(word, names.get(tag, tag)) for word, tag, *_ in (line.split() for line in block)]
        for block in blocks
    ]


def make_dictionary(
    pool: Iterable[Sentence], scored: Sequence[Sentence], tags: Sequence[str], least: int
) -> dict[str, list[int]]:
    """Tags, by number, that each word has anywhere; words with few tokens here may have any."""
    seen: dict[str, set[str]] = defaultdict(set)
    for sentence in pool:
        for word, tag in sentence:
            seen[word].add(tag)
    tokens = Counter(word for sentence in scored for word, _ in sentence)
    return {
        word: sorted(tags.index(tag) for tag in seen[word])
        for word, count in tokens.items()
        if count >= least
    }


class Data(NamedTuple):
    """Sentences to tag, as words and as numbers of their tags; words (n, 1) that choose the prior,
    None where the others lack them, and their sentences' lengths; legal tags of words, or None.
    """

    words: list[list[str]]
    truth: list[list[int]]
    held: np.ndarray
    lengths: list[int]
    allowed: dict[str, list[int]] | None
    n_tags: int


def load(least: int | None) -> Data:
    treebank = read_treebank()
    pool = [*treebank, *read_chunks("train"), *read_chunks("test")]
    return cut(pool, treebank[: N_SCORED + N_HELD], N_SCORED, least)


def cut(pool: list[Sentence], used: list[Sentence], n_scored: int, least: int | None) -> Data:
    """The first sentences are tagged, the rest choose the prior."""
    tags = sorted({tag for sentence in pool for _, tag in sentence})
    scored, held = used[:n_scored], used[n_scored:]
    known = {word for sentence in scored for word, _ in sentence}
    return Data(
        [[word for word, _ in sentence] for sentence in scored],
        [[tags.index(tag) for _, tag in sentence] for sentence in scored],
        np.array([[w if w in known else None] for s in held for w, _ in s], dtype=object),
        [len(sentence) for sentence in held],
        None if least is None else make_dictionary(pool, scored, tags, least),
        len(tags),
    )


# ---------------------------------------------------------------------------------------- fits


def fit(data: Data, engine: Any, prior: tuple[float, float], seed: int) -> tuple[Any, float]:
    """The fitted model and its CPU seconds. Every engine has the same start: local chains."""
    step, word = prior
    model = sb.HMM(
        data.n_tags,
        family=sb.Categorical(word),
        inference=engine,
        concentration=step,
        start_concentration=step,
        allowed=data.allowed,
        init="local",
        random_state=seed,
    )
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        model.fit(data.words)
    return model, time.process_time() - began


def choose_prior(data: Data, make: Callable[[int], Any], laps: int) -> tuple[float, float]:
    """The prior under which the held-out words are likeliest, one seed each. No tag is looked at.

    With a dictionary the likelihood is that of the words given that they have legal tags.
    """
    grid = QUICK_GRID if is_quick() else GRID
    found = {}
    for prior in ((step, word) for step in grid for word in grid):
        model = fit(data, make(laps), prior, N_SEEDS)[0]
        found[prior] = model.score(data.held, lengths=data.lengths)
    return max(found, key=found.__getitem__)


def score(data: Data, labels: Sequence[Any]) -> dict[str, float]:
    """Agreement with the tags: accuracy for a dictionary, else by what states stand for."""
    truth, flat = np.concatenate(data.truth), np.concatenate([np.asarray(z) for z in labels])
    if data.allowed is not None:
        return {"accuracy": 100.0 * float((flat == truth).mean())} | {
            "V-measure": 100.0 * v_measure_score(truth, flat)
        }
    return {
        "one to one": 100.0 * sb.metrics.one_to_one(truth, flat),
        "many to one": 100.0 * sb.metrics.many_to_one(truth, flat, cross_validated=True),
        "information": sb.metrics.variation_of_information(truth, flat),
        "V-measure": 100.0 * v_measure_score(truth, flat),
        "states": float(len(np.unique(flat))),
    }


def baseline(data: Data) -> tuple[str, dict[str, float]]:
    """A legal tag at random, in expectation; or a state for each of the commonest words, and one
    for all others.
    """
    flat = [word for sentence in data.words for word in sentence]
    if data.allowed is not None:
        allowed = data.allowed
        sizes = [len(allowed[word]) if word in allowed else data.n_tags for word in flat]
        return "a random legal tag", {"accuracy": 100.0 * float(np.mean(1.0 / np.array(sizes)))}
    common = Counter(flat).most_common(data.n_tags - 1)
    number = {word: k for k, (word, _) in enumerate(common)}
    name = f"the {len(number)} commonest words, and the rest"
    return name, score(data, [[number.get(w, len(number)) for w in s] for s in data.words])


def write_scores(found: Sequence[Mapping[str, float]]) -> str:
    """Mean, and standard deviation if there are several, of each score."""
    parts = []
    for name in found[0]:
        values = np.array([scores[name] for scores in found])
        spread = f" ({values.std(ddof=1):.2f})" if len(values) > 1 else ""
        parts.append(f"{name} {values.mean():.2f}{spread}")
    return ", ".join(parts)


def rows_of(name: str, engines: Sequence[str], chosen: Iterable[int]) -> list[Row]:
    """One task: the baseline, and each engine with the prior that held-out words choose."""
    task, made, chosen = TASKS[name], make_engines(), list(chosen)
    data = load(task.least)
    what, scores = baseline(data)
    rows = [Row(f"{name}: {what}", write_scores([scores]), task.published.get("baseline", ""))]
    for engine in engines:
        if engine not in made:
            rows.append(Row(f"{name}: {engine}", "not in this version"))
            continue
        laps = 10 if is_quick() else task.laps
        prior = choose_prior(data, made[engine], laps)
        fits = [fit(data, made[engine](laps), prior, seed) for seed in chosen]
        figures = write_scores([score(data, model.labels_) for model, _ in fits])
        seconds = np.mean([spent for _, spent in fits])
        rows.append(
            Row(
                f"{name}: {engine}, prior {prior[0]:g} / {prior[1]:g}",
                f"{figures}; CPU s {seconds:.1f} a fit",
                task.published.get(engine, ""),
            )
        )
    return rows


ALL = ("em", "batch", "collapsed, sequence", "collapsed, token", "collapsed-gibbs")
TEXT = (
    "The first 1,000 sentences of the treebank (23,551 tokens, 45 tags). With a dictionary: every "
    "tag that a word has anywhere in treebank and conll2000, words with fewer than d tokens any; "
    "accuracy of the most probable tag of each token, 50 laps. Without: 45 states, 200 laps; "
    "greedy one to one, many to one cross-validated, variation of information in bits, V-measure. "
    "Mean (standard deviation) of ten seeds. All engines begin with the same random local chains. "
    "Prior counts of steps and words are those of a 6 x 6 grid under which the next 1,000 "
    "sentences are likeliest; no tag is looked at. Published figures (T) are of another "
    "dictionary, from 1.1 million tokens: only differences compare."
)


def run() -> Experiment:
    rows = [row for name in TASKS for row in rows_of(name, ALL, seeds(N_SEEDS))]
    return Experiment("Parts of speech", TEXT, rows)


def main() -> None:
    """Some engines and seeds, shown and not kept."""
    from .run import write_section

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=ALL, action="append", help="default: all")
    parser.add_argument("--task", choices=list(TASKS), action="append", help="default: all")
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    rows = [
        row
        for name in given.task or TASKS
        for row in rows_of(name, given.engine or ALL, range(given.seeds))
    ]
    print(write_section("part_of_speech", Experiment("Parts of speech", TEXT, rows)))


if __name__ == "__main__":
    main()
