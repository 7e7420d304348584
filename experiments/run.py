"""Run all experiments, or the ones named: `python -m experiments.run [--quick] [NAME ...]`. Writes
experiments/RESULTS.md.

`--quick` shows the tables and writes none; the larger experiments then run two seeds, some on fewer
rows.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")  # pictures go to files

from stickbreak import __version__

from .frame import QUICK, Experiment, MissingDataError

EXPERIMENTS = (
    "faithful", "galaxies", "asterisk", "digits", "overfitting",
    "one_gaussian", "search_mixtures",
    "edge_patches", "mnist", "bars", "alphabet", "documents", "patches", "patch_births",
    "toy_states", "mocap6", "cmu_mocap", "chromatin", "chromosome", "vowels",
    "earthquakes", "one_pass", "noisy_steps", "subchains", "surrogate",
    "state_counting", "absent_steps", "many_states", "learned_bases",
    "search_chains", "durations", "recorded_segments",
    "collapsed_starts", "topic_bars", "ap_topics", "news_topics", "topic_starts", "topic_peers",
    "joint_predictive", "part_of_speech", "text_prediction",
    "swedish_links", "hansards", "hansards_equal", "hansards_streams",
    "hansards_laps",
    "hansards_priors", "hansards_others", "rare_words", "alignment_speed", "alignment_growth",
    "dependencies", "unlabelled_trees", "grammar_sizes", "latent_annotations", "segmentation",
    "report_checks", "many_workers",
)  # fmt: skip
RESULTS = Path(__file__).parent / "RESULTS.md"


def write_section(name: str, experiment: Experiment) -> str:
    """One experiment as Markdown."""
    lines = [
        f"## {experiment.title}",
        "",
        experiment.setting,
        "",
        f"Command: `make experiments ONLY={name}`",
        "",
    ]
    lines += ["| figure | ours | published | peer |", "|---|---|---|---|"]
    lines += [
        f"| {row.what} | {row.ours} | {row.published or '-'} | {row.peer or '-'} |"
        for row in experiment.rows
    ]
    if experiment.found:
        lines += ["", experiment.found]
    if experiment.picture:
        lines += ["", f"Picture, drawn by the run: `{experiment.picture}`"]
    return "\n".join(lines) + "\n"


def read_sections() -> dict[str, str]:
    """Sections of the last run, by the name in their command."""
    if not RESULTS.is_file():
        return {}
    found = {}
    for section in RESULTS.read_text().split("\n## ")[1:]:
        name = section.split("ONLY=")[1].split("`")[0]
        found[name] = "## " + section.rstrip() + "\n"
    return found


def main(names: list[str]) -> int:
    """Run what is asked; what cannot run for want of data keeps its last figures, with a note on
    the screen.
    """
    is_quick = "--quick" in names
    os.environ[QUICK] = "1" if is_quick else "0"
    names = [name for name in names if name != "--quick"]
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        print(
            f"unknown experiment {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}",
            file=sys.stderr,
        )
        return 2
    for name in names or EXPERIMENTS:
        try:
            section = write_section(name, importlib.import_module(f"experiments.{name}").run())
        except MissingDataError as missing:
            print(f"{name}: left out ({missing})")
            continue
        print(section, flush=True)
        if not is_quick:
            keep_section(name, section)
    return 0


def keep_section(name: str, section: str) -> None:
    """Put a section into its place in the file, as soon as it is there: other runs may be writing
    theirs.
    """
    sections = {**read_sections(), name: section}
    kept = [sections[name] for name in EXPERIMENTS if name in sections]
    title = (
        f"# Experiments\n\nWritten by `make experiments`, stickbreak {__version__}. Figures are in "
        "nats unless they say so.\n\n"
    )
    RESULTS.write_text(title + "\n".join(kept))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
