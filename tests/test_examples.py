"""The examples run, warn of nothing, and leave what they promise."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the examples draw; pip install stickbreak[plot]")

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PROMISES = {
    "demo.py": ({"demo.html", "demo.png"}, "loaded again, its score is the same"),
}
MAX_LINES = 80


def run_example(name: str, folder: Path) -> str:
    """What an example prints, run in a folder of its own. One BLAS thread: the tests themselves run
    side by side.
    """
    sources = os.pathsep.join(
        p for p in (str(EXAMPLES.parent / "src"), os.environ.get("PYTHONPATH")) if p
    )
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment = {
        **os.environ,
        **one_thread,
        "MPLBACKEND": "Agg",
        "PYTHONPATH": sources,
        "PYTHONIOENCODING": "utf-8",
    }
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(EXAMPLES / name)],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISES)
def test_example_runs_and_leaves_what_it_promises(name: str, tmp_path: Path) -> None:
    files, words = PROMISES[name]
    printed = run_example(name, tmp_path)
    assert words in " ".join(printed.split())
    assert {p.name for p in tmp_path.iterdir()} == files


def test_every_example_is_short_and_is_run() -> None:
    found = sorted(EXAMPLES.glob("*.py"))
    assert {p.name for p in found} == set(PROMISES)
    assert max(len(p.read_text(encoding="utf-8").splitlines()) for p in found) < MAX_LINES


# ---- the gallery: run inside this process, so that each costs its fit and its drawing only -------

PAGES = {"shared_pages": ("mixture", "chain", "topics", "comparison")}
GALLERY = sorted((EXAMPLES / "gallery").glob("*.py"))
BUILD = runpy.run_path(str(EXAMPLES.parent / "docs" / "build_gallery.py"))


@pytest.mark.parametrize(
    "script",
    [  # one that is quick; the documentation runs all of them
        pytest.param(path, marks=() if path.stem == "stream" else pytest.mark.slow, id=path.stem)
        for path in GALLERY
    ],
)
def test_gallery_script_is_short_and_ends_in_a_picture(script: Path, tmp_path: Path) -> None:
    from matplotlib import image

    title, words, first = BUILD["read_script"](script)
    assert title
    assert len(words) > 80
    BUILD["run_script"](script, tmp_path)
    found = {p.name: p.stat().st_size for p in tmp_path.iterdir()}
    pages = PAGES.get(script.stem, ())
    assert set(found) == {f"{script.stem}.png", *(f"{script.stem}-{name}.html" for name in pages)}
    assert all(size <= 450_000 for name, size in found.items() if name.endswith(".html"))
    picture = image.imread(tmp_path / f"{script.stem}.png")
    assert np.ptp(picture[..., :3]) > 0.5  # not an empty sheet
    assert 10 <= len(script.read_text(encoding="utf-8").splitlines()) - first + 1 <= 40


def test_gallery_pages_are_written_once_and_name_their_code(tmp_path: Path) -> None:
    scripts, folder = tmp_path / "scripts", tmp_path / "pages"
    scripts.mkdir()
    code = "from matplotlib import pyplot as plt\nprint('seen')\nplt.figure().savefig('line.png')\n"
    (scripts / "line.py").write_text('"""A line\n\nThat is all.\n"""\n\n' + code, encoding="utf-8")
    BUILD["build_gallery"](scripts, folder, 0.0)
    page = (folder / "line.md").read_text(encoding="utf-8")
    assert "# A line" in page
    assert "seen" in page
    assert "../../examples/gallery/line.py" in page
    assert "line.png" in (folder / "index.md").read_text(encoding="utf-8")
    written = (folder / "line.png").stat().st_mtime_ns
    BUILD["build_gallery"](scripts, folder, 0.0)
    assert (folder / "line.png").stat().st_mtime_ns == written
    (scripts / "bad.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"bad\.py needs a docstring"):
        BUILD["build_gallery"](scripts, folder, 0.0)
