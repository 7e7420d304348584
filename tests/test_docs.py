"""Every Python block of the README and of the guides runs, and prints what the page says
it prints.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.checks import check_family, check_model, check_structure
from stickbreak.data import Table, measure
from stickbreak.inference import MeanLog, run
from stickbreak.initialize import from_plusplus
from stickbreak.models import Model
from stickbreak.structures import Independent

ROOT = Path(__file__).resolve().parent.parent
HOW_TO = sorted(
    p.relative_to(ROOT).as_posix()
    for p in (ROOT / "docs" / "how-to").glob("*.md")
    if "```python" in p.read_text()
)
PAGES = ("README.md", "docs/index.md", "docs/quickstart.md", "docs/api.md", *HOW_TO)
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\s*^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)


def blocks(page: str) -> list[tuple[int, str, str]]:
    """Line, code and promised output (from the text block right after it, if any) of each Python
    block.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start()) + 1, m[1], m[2] or "") for m in BLOCK.finditer(text)]


def squeeze(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run_and_print_what_they_promise(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks(page)
    assert found, f"{page} has no Python block"
    names: dict[str, object] = {"__name__": "__main__"}
    for line, code, promised in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + code, page, "exec"), names)
        if promised:
            assert squeeze(printed.getvalue()) == squeeze(promised), f"{page}, line {line}"


LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_to_files_point_somewhere(page: str) -> None:
    links = LINK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []


# ---- skeletons: what contributors copy must work -------------------------------------------------


def skeleton(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "skeletons" / f"{name}.py"))


def waiting_times() -> Any:
    rng = np.random.default_rng(0)
    return np.concatenate(
        [rng.exponential((1.0, 20.0), (150, 2)), rng.exponential((30.0, 1.0), (100, 2))]
    )


def test_family_skeleton_passes_the_battery() -> None:
    check_family(skeleton("family")["Exponential"](), waiting_times())


def test_family_skeleton_fits_and_finds_its_components() -> None:
    family = skeleton("family")["Exponential"]()
    model = sb.Mixture(2, family=family, random_state=0).fit(waiting_times())
    assert np.diff(model.trace_.bound).min() >= -1e-10 * abs(model.lower_bound_)
    # the clusters overlap a little
    np.testing.assert_allclose(np.sort(model.counts_), [100, 150], atol=10)


def test_structure_and_prior_skeletons_pass_the_batteries() -> None:
    table = Table(waiting_times())
    family, prior = (
        skeleton("family")["Exponential"]().resolve(measure(table)),
        skeleton("prior")["EqualShares"](),
    )
    model = Model(skeleton("structure")["Alone"](), family, prior)
    start = from_plusplus(model, table, 2, np.random.default_rng(0))
    check_structure(
        model, model.potentials(start.seed, start.params, MeanLog()), table.take(np.arange(5))
    )
    check_model(model, table, start)
    mine = run(model, sb.BatchVB(), table, start)
    ours = run(Model(Independent(), family, prior), sb.BatchVB(), table, start)
    assert mine.bound == pytest.approx(ours.bound, rel=1e-9)  # the same algorithm with another exp
