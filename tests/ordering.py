"""In which order files are tested, and which of them by one process.

Half of the time of a first run is spent compiling kernels. A process finds on disk what another
has compiled, but not what it is compiling: two that begin with the same models do all twice. So
the files of a group, which share kernels, are tested by one process.
"""

from __future__ import annotations

from pathlib import PurePosixPath

GROUPS: dict[str, tuple[str, ...]] = {
    # kernels of sweeps, for every family; what needs no chains first
    "collapsed": (
        "inference/test_collapsed_rows.py",
        "inference/test_gibbs_documents.py",
        "kernels/test_live.py",
        "inference/test_collapsed_every_cell.py",
        "inference/test_collapsed_families.py",
        "inference/test_collapsed_bound.py",
        "inference/test_collapsed_tables.py",
        "inference/test_collapsed_gibbs.py",
        "inference/test_collapsed_golden.py",
        "inference/test_collapsed_chains.py",
        "kernels/test_absent.py",
        "priors/test_tables.py",
        "estimators/test_collapsed_bad_input.py",
        "estimators/test_handover.py",
        "cli/test_collapsed.py",
    ),
    "trees": (
        "kernels/test_tree.py",
        "kernels/test_dependency.py",
        "structures/test_tree.py",
        "structures/test_dependency.py",
        "inference/test_golden_grammars.py",
        "estimators/test_grammars.py",
        "cli/test_sentences.py",
        "test_tree_experiments.py",
    ),
    "segments": (
        "kernels/test_semimarkov.py",
        "kernels/test_semimarkov_stages.py",
        "structures/test_semimarkov.py",
        "estimators/test_semi_markov.py",
        "plots/test_segment_pictures.py",
    ),
    "alignment": (
        "kernels/test_alignment.py",
        "kernels/test_fertility.py",
        "models/test_alignment.py",
        "estimators/test_aligners.py",
        "estimators/test_aligner_runs.py",
        "cli/test_bitexts.py",
        "plots/test_alignment_pictures.py",
    ),
}

# Then what takes long: a long file that is begun last would run while the other process has
# nothing left to do.
LONG = (
    "kernels/chain/test_merges.py",
    "moves/test_partial_trials.py",
    "checks/test_checks.py",
    "cli/test_commands.py",
    "moves/test_fits.py",
    "estimators/test_sequences.py",
    "test_package.py",
    "inference/test_full_disk.py",
    "fuzz/test_files.py",
    "cli/test_help.py",
    "test_docs.py",
    "test_experiments.py",
)

_GROUP_OF = {file: group for group, files in GROUPS.items() for file in files}
_RANKS = {file: i for i, file in enumerate((*_GROUP_OF, *LONG))}


def rank(path: str) -> int:
    """Files of a lower rank come first, others in the order of their names."""
    return _RANKS.get(_within_tests(path), len(_RANKS))


def scope(nodeid: str) -> str:
    """Tests of one scope are run by one process."""
    path = nodeid.split("::", 1)[0]
    return _GROUP_OF.get(_within_tests(path), path)


def _within_tests(path: str) -> str:
    parts = PurePosixPath(path).parts
    return "/".join(parts[parts.index("tests") + 1 :]) if "tests" in parts else path
