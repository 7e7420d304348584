"""`warmup`: compiles every kernel once, in the forms that fits of arrays and of files need."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.families.names import FAMILIES
from stickbreak.inference.remote import DaskPlace, current_place
from stickbreak.kernels.compile import cache_folder
from stickbreak.progress import Phase

from .output import configure_logs, print_json, print_lines

__all__ = ["compile_kernels"]

SWEEPS = sb.CollapsedVB(max_iter=2)


def compile_kernels(families: list[str] | None, options: dict[str, Any]) -> None:
    """Fit and use a tiny model of each family, from an array and from a file."""
    verbose = configure_logs(options)
    for name in families or ():
        if name not in FAMILIES:
            raise ValueError(
                f"unknown family {name!r}; choose one of {', '.join(sorted(FAMILIES))}"
            )
    chosen, began = families or sorted(FAMILIES), time.monotonic()
    place, is_whole = current_place(), families is None
    with Phase("compiling", bool(verbose)) as phase:
        if isinstance(place, DaskPlace):
            folders = place.run_on_hosts(partial(compile_here, chosen, is_whole))
        else:
            folders = {"": compile_here(chosen, is_whole, phase.update)}
    seconds = time.monotonic() - began
    kept = sorted(set(folders.values()))
    if options["json"]:
        found = {"families": chosen, "seconds": round(seconds, 3), "folder": ", ".join(kept)}
        print_json(found if "" in folders else {**found, "hosts": sorted(folders)})
        return
    where = "" if "" in folders else f" on {', '.join(sorted(folders))}"
    what = f"compiled {len(chosen)} families in {seconds:.1f} s{where}"
    print_lines([f"{what}; kept in {', '.join(kept)}"])


def compile_here(
    families: list[str], is_whole: bool, report: Callable[[int, int], None] | None = None
) -> str:
    """Compile in this process; the folder of its cache.

    is_whole : whether models of documents, segments, groups, pairs and sentences, too
    """
    others = (_use_documents, _use_segments, _use_groups, _use_pairs, _use_sentences)
    steps = len(families) + len(others)
    with tempfile.TemporaryDirectory(prefix="stickbreak-") as folder:
        path = Path(folder) / "rows.csv"
        path.write_text("a,b\n" + "".join(f"{i % 2},{i % 3 % 2}\n" for i in range(40)))
        for i, name in enumerate(families):
            _use(name, path)
            if report is not None:
                report(i + 1, steps)
        for i, use in enumerate(others if is_whole else ()):
            use()
            if report is not None:
                report(len(families) + i + 1, steps)
    return str(cache_folder())


def _use(name: str, path: Path) -> None:
    rows = np.array(sb.open_table(path).rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)  # a toy table does not converge
        for X in (rows, path):
            for inference in ("batch", "memoized", "stochastic", "em", "hard-em"):
                engine = type(sb.Mixture(inference=inference)._engine(False))(max_iter=2)
                model = sb.Mixture(2, family=name, inference=engine, random_state=0).fit(X)
            model.predict(X), model.predict_proba(X), model.score(X)
        sb.Mixture(2, family=name, inference=SWEEPS, random_state=0).fit(rows)
        for cls in (sb.HMM, sb.HDPHMM):
            chain = cls(2, family=name, inference=sb.MemoizedVB(max_iter=2), random_state=0).fit(
                rows, lengths=[12, 28]
            )
            (
                chain.predict(rows),
                chain.score(rows),
                chain.decode(rows),
                chain.predict_proba(rows),
                chain.sample(5),
            )
        for engine in (sb.HardEM(max_iter=2), SWEEPS):
            chain = sb.HMM(2, family=name, inference=engine, random_state=0)
            chain.fit(rows, lengths=[12, 28])
        sb.DPMixture(
            2, family=name, init="k-means||", random_state=0, inference=sb.MemoizedVB(max_iter=2)
        ).fit(path)


def _use_documents() -> None:
    documents = [["one", "two", "two"], ["three", "four"]] * 10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        for inference in ("batch", "memoized", "stochastic", "em"):
            engine = type(sb.Mixture(inference=inference)._engine(False))(max_iter=2)
            sb.LatentDirichletAllocation(2, inference=engine, random_state=0).fit(documents)
        sb.LatentDirichletAllocation(2, inference=SWEEPS, random_state=0).fit(documents)
        model = sb.HDPTopicModel(random_state=0).fit(documents)
        model.transform(documents), model.score(documents), model.score_samples(documents)


def _use_segments() -> None:
    X = np.random.default_rng(0).standard_normal((60, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        for cls in (sb.HSMM, sb.HDPHSMM):
            for engine in (sb.BatchVB(max_iter=2), sb.EM(max_iter=2), SWEEPS):
                how: Any = {"max_duration": 5, "inference": engine, "random_state": 0}
                model = cls(2, **how).fit(X, lengths=[20, 40])
            model.predict(X), model.score(X)


def _use_groups() -> None:
    X, lengths = np.random.default_rng(0).standard_normal((60, 2)), [10] * 6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        for engine in (sb.BatchVB(max_iter=2), sb.CollapsedVB(n_batches=2, max_iter=2)):
            model = sb.HDPMixture(2, inference=engine, random_state=0).fit(X, lengths=lengths)
        model.predict(X, lengths=lengths), model.score(X, lengths=lengths)


def _use_pairs() -> None:
    pairs = [("one two", "eins zwei"), ("two three four", "zwei drei vier")] * 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        for cls in (sb.IBM1, sb.HMMAligner):
            for engine in (sb.BatchVB(max_iter=2), sb.EM(max_iter=2), SWEEPS):
                model = cls(inference=engine, random_state=0).fit(pairs)
            model.predict(pairs), model.score(pairs)


def _use_sentences() -> None:
    sentences = [["a", "dog", "sees", "a", "cat"], ["dogs", "see"], ["a", "cat", "sees"]] * 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        for make in (partial(sb.PCFG, 2), partial(sb.HDPPCFG, 2), sb.DMV, sb.TemplateGrammar):
            for engine in (sb.BatchVB(max_iter=2), sb.EM(max_iter=2), SWEEPS):
                model: Any = make(inference=engine, random_state=0).fit(sentences)
            model.predict(sentences), model.score(sentences)
        trees = ["(S (NP dog) (VP (V sees) (NP cat)))", "(S (NP cat) (VP (V sees) (NP dog)))"] * 5
        for engine in (sb.BatchVB(max_iter=2), sb.EM(max_iter=2)):
            sb.LatentPCFG(2, inference=engine, random_state=0).fit(trees)
