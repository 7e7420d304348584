"""In which order files are tested, and which of them by one process.

Half of the time of a first run is spent compiling kernels. A process finds on disk what another
has compiled, but not what it is compiling: two that begin with the same models do all twice.
"""

from __future__ import annotations

from pathlib import PurePosixPath

# Sweeps of collapsed fits have kernels of their own, for every family: one process takes all files
# of them, those that need no chains first.
COLLAPSED = (
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
)

# The other process begins with what takes long or compiles much; a long file that is begun last
# would run while the other process has nothing left to do.
LONG = (
    "kernels/chain/test_merges.py",
    "fuzz/test_files.py",
    "cli/test_help.py",
    "moves/test_partial_trials.py",
    "checks/test_checks.py",
    "cli/test_commands.py",
    "moves/test_fits.py",
    "estimators/test_sequences.py",
    "test_package.py",
    "inference/test_full_disk.py",
    "test_docs.py",
    "test_experiments.py",
)

_RANKS = {name: i for i, name in enumerate((*COLLAPSED, *LONG))}


def rank(path: str) -> int:
    """Files of a lower rank come first, others in the order of their names."""
    return _RANKS.get(_within_tests(path), len(_RANKS))


def scope(nodeid: str) -> str:
    """Tests of one scope are run by one process."""
    path = nodeid.split("::", 1)[0]
    return "collapsed" if _within_tests(path) in COLLAPSED else path


def _within_tests(path: str) -> str:
    parts = PurePosixPath(path).parts
    return "/".join(parts[parts.index("tests") + 1 :]) if "tests" in parts else path
