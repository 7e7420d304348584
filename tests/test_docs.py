"""Every Python block of the README and of the guides runs, and prints what the page says
it prints.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOW_TO = sorted(
    p.relative_to(ROOT).as_posix()
    for p in (ROOT / "docs" / "how-to").glob("*.md")
    if "```python" in p.read_text()
)
FIRST = ("README.md", "docs/index.md", "docs/quickstart.md", "docs/api.md")  # read by everyone
PAGES = (*FIRST, *HOW_TO)
BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:\s*(?:^prints[^\n]*\n\s*)?^```text\n(.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)


def blocks(page: str) -> list[tuple[int, str, str]]:
    """Line, code and promised output (from the text block right after it, if any) of each Python
    block.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start()) + 1, m[1], m[2] or "") for m in BLOCK.finditer(text)]


def squeeze(text: str) -> list[str]:
    """Lines without what differs from run to run: the share of the time that moves took."""
    steady = re.sub(r"\d+% of the time", "so much of the time", text)
    return [line.rstrip() for line in steady.strip().splitlines()]


@pytest.mark.parametrize(
    "page",
    [*FIRST[:-1], pytest.param(FIRST[-1], marks=pytest.mark.slow)],  # names every model
)
def test_python_blocks_run_and_print_what_they_promise(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", HOW_TO)
def test_python_blocks_of_guides_run_and_print_what_they_promise(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(page)


def run_blocks(page: str) -> None:
    """Run the blocks of a page in turn, as a reader would who types them in."""
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
