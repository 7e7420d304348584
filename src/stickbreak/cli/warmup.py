"""`warmup`: compiles every kernel once, in the forms that fits of arrays and of files need."""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import stickbreak as sb
from stickbreak.families.names import FAMILIES
from stickbreak.kernels.compile import cache_folder
from stickbreak.progress import Phase

from .output import configure_logs, print_json, print_lines

__all__ = ["compile_kernels"]


def compile_kernels(families: list[str] | None, options: dict[str, Any]) -> None:
    """Fit and use a tiny model of each family, from an array and from a file."""
    verbose = configure_logs(options)
    for name in families or ():
        if name not in FAMILIES:
            raise ValueError(
                f"unknown family {name!r}; choose one of {', '.join(sorted(FAMILIES))}"
            )
    chosen = families or sorted(FAMILIES)
    began = time.monotonic()
    with (
        Phase("compiling", bool(verbose)) as phase,
        tempfile.TemporaryDirectory(prefix="stickbreak-") as folder,
    ):
        path = Path(folder) / "rows.csv"
        path.write_text("a,b\n" + "".join(f"{i % 2},{i % 3 % 2}\n" for i in range(40)))
        for i, name in enumerate(chosen):
            _use(name, path)
            phase.update(i + 1, len(chosen) + 1)
        if families is None:
            _use_documents()
    seconds = time.monotonic() - began
    if options["json"]:
        print_json(
            {"families": chosen, "seconds": round(seconds, 3), "folder": str(cache_folder())}
        )
    else:
        print_lines(
            [f"compiled {len(chosen)} families in {seconds:.1f} s; kept in {cache_folder()}"]
        )


def _use(name: str, path: Path) -> None:
    rows = np.array(sb.open_table(path).rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)  # a toy table does not converge
        for X in (rows, path):
            for inference in ("batch", "memoized", "stochastic", "em", "hard-em"):
                engine = type(sb.Mixture(inference=inference)._engine(False))(max_iter=2)
                model = sb.Mixture(2, family=name, inference=engine, random_state=0).fit(X)
            model.predict(X), model.predict_proba(X), model.score(X)
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
        sb.HMM(2, family=name, inference=sb.HardEM(max_iter=2), random_state=0).fit(rows)
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
        model = sb.HDPTopicModel(random_state=0).fit(documents)
        model.transform(documents), model.score(documents), model.score_samples(documents)
