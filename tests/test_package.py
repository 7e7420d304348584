"""What importing costs and touches: nothing heavy, nothing beside the source, nobody else's
settings.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stickbreak as sb

SOURCE = Path(sb.__file__).parent
HEAVY = (
    "numpy",
    "scipy",
    "numba",
    "sklearn",
    "safetensors",
    "threadpoolctl",
    "rich",
    "typer",
    "pandas",
    "polars",
    "matplotlib",
    "xarray",
)

KERNEL = """
import json, sys
import numba, numpy as np
before = numba.config.CACHE_DIR
from stickbreak.kernels.rows import best_rows
unchanged = numba.config.CACHE_DIR == before
K, n = 2, 3
best_rows(np.zeros((K, n)), np.zeros(K), np.empty(n, dtype=np.int64), np.empty(n))
hits = sum(best_rows.stats.cache_hits.values())
print(json.dumps({"unchanged": unchanged, "hits": hits, "from": str(numba.__file__)}))
"""


def run(
    code: str,
    *,
    environment: dict[str, str] | None = None,
    where: Path = SOURCE.parent,
    drop: tuple[str, ...] = (),
) -> str:
    """Output of a fresh interpreter that finds the package in `where` and writes no bytecode."""
    variables = {k: v for k, v in os.environ.items() if k not in drop}
    variables |= {"PYTHONPATH": str(where), "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=variables,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def files_in(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_importing_the_package_imports_nothing_heavy():
    code = f"import sys, stickbreak; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run(code).strip() == "[]"


def test_estimators_of_words_import_no_linear_algebra_of_scipy() -> None:
    slow = ["scipy.linalg", "scipy.optimize", "scipy.spatial", "numba"]
    code = "import sys, stickbreak; stickbreak.IBM1; "
    assert run(code + f"print([m for m in {slow!r} if m in sys.modules])").strip() == "[]"


def test_errors_can_be_named_without_importing_anything_heavy():
    code = (
        f"import sys, stickbreak; stickbreak.ModelFileError; print([m for m in {HEAVY!r} if m in "
        "sys.modules])"
    )
    assert run(code).strip() == "[]"


def test_all_public_names_can_be_had_and_are_listed():
    assert set(sb.__all__) <= set(dir(sb))
    for name in sb.__all__:
        assert getattr(sb, name) is not None
    code = "from stickbreak import *; print(Mixture, Gaussian, BatchVB, load)"
    assert run(code).count("stickbreak.") == 3


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'stickbreak' has no attribute 'Mixtur'"):
        _ = sb.Mixtur
    with pytest.raises(ImportError, match="cannot import name 'Mixtur'"):
        from stickbreak import Mixtur  # noqa: F401


def test_the_version_is_one_of_ours():
    assert [part.isdigit() for part in sb.__version__.split(".")[:2]] == [True, True]


@pytest.mark.parametrize("name", [n for n in sb.__all__ if not n.startswith("__")])
def test_every_public_name_has_a_docstring(name):
    thing = getattr(sb, name)
    assert thing.__doc__
    assert len(thing.__doc__.split()) > 3
    if not isinstance(thing, type) or issubclass(thing, Exception):
        return
    for attribute, value in vars(thing).items():
        is_public = not attribute.startswith("_") and (
            callable(value) or isinstance(value, property)
        )
        if is_public:
            assert getattr(thing, attribute).__doc__, f"{name}.{attribute}"


def test_the_package_is_typed():
    assert (SOURCE / "py.typed").is_file()


# ---- compiled kernels ----------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path) -> Path:
    """The package alone in a folder of its own, as an installation has it."""
    shutil.copytree(
        SOURCE, tmp_path / "site" / "stickbreak", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path / "site"


@pytest.mark.skipif(
    sys.platform in ("win32", "darwin"),
    reason="the folder is named by XDG_CACHE_HOME on other systems only",
)
def test_kernels_are_kept_in_the_users_cache_and_found_by_the_next_process(copy, tmp_path):
    """Never beside the source, so a read-only installation works."""
    before, cache = files_in(copy), tmp_path / "cache"
    settings = {
        "environment": {"XDG_CACHE_HOME": str(cache)},
        "where": copy,
        "drop": ("NUMBA_CACHE_DIR",),
    }
    first = json.loads(run(KERNEL, **settings))
    kept = files_in(cache)
    assert first["hits"] == 0
    assert any(name.endswith(".nbi") for name in kept)
    assert all(name.startswith(os.path.join("stickbreak", "numba")) for name in kept)
    second = json.loads(run(KERNEL, **settings))
    assert second["hits"] == 1  # loaded, not compiled
    assert files_in(cache) == kept
    assert files_in(copy) == before
    assert first["unchanged"]
    assert second["unchanged"]


@pytest.mark.slow  # as the tests around it, in a process of its own
def test_a_cache_folder_of_the_users_choice_is_respected(copy, tmp_path):
    chosen, other = tmp_path / "chosen", tmp_path / "other"
    found = json.loads(
        run(
            KERNEL,
            environment={"NUMBA_CACHE_DIR": str(chosen), "XDG_CACHE_HOME": str(other)},
            where=copy,
        )
    )
    assert found["unchanged"]
    assert any(name.endswith(".nbi") for name in files_in(chosen))
    assert not other.exists()


def test_where_no_cache_can_be_made_a_temporary_one_serves(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    code = "from stickbreak.kernels.compile import cache_folder; print(cache_folder())"
    blocked = {
        "XDG_CACHE_HOME": str(tmp_path / "file"),
        "HOME": str(tmp_path / "file"),
        "LOCALAPPDATA": str(tmp_path / "file"),
    }
    blocked |= {"TMPDIR": str(tmp_path), "TEMP": str(tmp_path)}
    folder = Path(run(code, environment=blocked, drop=("NUMBA_CACHE_DIR",)).strip())
    assert folder.is_relative_to(tmp_path)
    assert not folder.is_relative_to(tmp_path / "file")


@pytest.mark.slow
def test_functions_of_the_user_keep_their_own_cache(tmp_path):
    """Importing stickbreak must not move where numba keeps other people's functions."""
    user = tmp_path / "user_functions.py"
    user.write_text(
        "import numba\nimport stickbreak.kernels.rows\n\n@numba.njit(cache=True)\ndef "
        "twice(x):\n    return 2 * x\n"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import user_functions; "
        "print(user_functions.twice(3))"
    )
    out = run(
        code, environment={"XDG_CACHE_HOME": str(tmp_path / "cache")}, drop=("NUMBA_CACHE_DIR",)
    )
    assert out.strip() == "6"
    kept = files_in(tmp_path)
    assert any(name.startswith("__pycache__") and "twice" in name for name in kept)
    assert not any("twice" in name for name in kept if name.startswith("cache"))
