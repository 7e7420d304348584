"""Runs the benchmarks. All of them: writes benchmarks/RESULTS.md. Some of them, or quickly: prints
only.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from threadpoolctl import threadpool_info, threadpool_limits

from .report import load, machine

NAMES = (
    "threads",
    "chain_laps",
    "gaussian_lap",
    "chains",
    "documents",
    "sparse_documents",
    "table_sweeps",
    "sweeps",
    "chain_sweeps",
    "grammars",
    "semimarkov",
    "memoized_lap",
    "sparse_mixtures",
    "sparse_chains",
    "search_cost",
    "births",
    "search_threads",
    "scaling",
    "scale_out",
    "scale_memory",
    "scale_model",
    "on_disk",
    "corpora_on_disk",
    "out_of_core",
    "imports",
    "pages",
    "quality",
)  # those with threads first: they want an idle machine
RESULTS = Path(__file__).with_name("RESULTS.md")
HOW = """\
Written by `python -m benchmarks.run`. Ratios are taken in one run: CPU time of the process,
repetitions interleaved between the two sides, the least of several, one thread (BLAS and OpenMP
held to one) unless a table says otherwise. Absolute figures hold for the machine below; ratios
carry over, roughly."""
BUSY = """\
A load average well above 0 at the start means that others were working: CPU times are then too
long by amounts that vary (caches and cores are shared), ratios of laps of a few tens of ms have
differed by a fifth between two such runs, and the wall clock says little. Judge a target that is
missed or met by less than that on an idle machine."""


def import_all() -> None:
    """Load every BLAS and OpenMP before the limit: it holds only those that are loaded (SciPy and
    scikit-learn bring their own).
    """
    for name in ("scipy.linalg", "sklearn.mixture", "stickbreak.estimators"):
        importlib.import_module(name)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument(
        "--only",
        choices=NAMES,
        action="append",
        help="run this one (may be repeated); prints, writes nothing",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes, to see that it runs; prints, writes nothing",
    )
    options = parser.parse_args()
    sections = [
        "# Benchmarks",
        HOW,
        f"Machine: {machine()}; load average at the start {load()}.",
        BUSY,
    ]
    print("\n\n".join(sections), flush=True)
    chosen = [importlib.import_module(f"benchmarks.{name}") for name in options.only or NAMES]
    import_all()
    with threadpool_limits(1):
        assert all(library["num_threads"] == 1 for library in threadpool_info())
        for benchmark in chosen:
            sections.append(benchmark.run(options.quick).markdown())
            print(f"\n{sections[-1]}", flush=True)
    if not options.quick and not options.only:
        RESULTS.write_text("\n\n".join(sections) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
