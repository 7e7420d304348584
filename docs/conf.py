"""Settings of the documentation."""

import re
import runpy
import sys
from pathlib import Path

_root = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_root / "src"))  # the names of api.md are read from the source

project = "stickbreak"
author = "The stickbreak developers"
copyright = f"2026, {author}"
release = runpy.run_path(str(_root / "src" / "stickbreak" / "_version.py"))["__version__"]
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_pages", "skeletons"]
html_extra_path = ["_pages"]  # reports, copied as they are
(_root / "docs" / "_pages").mkdir(exist_ok=True)
html_copy_source = False
autodoc_typehints = "none"

html_theme = "furo"
html_title = f"stickbreak {release}"


def _literal(text):
    """Code in single backquotes, and words such as labels_ (a link in reStructuredText), as
    literals.
    """
    text = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", text)
    parts = re.split(r"(``.*?``)", text)
    marked = (
        p
        if p.startswith("``")
        else re.sub(r"(?<!\w)(\w+_)(?!\w)", r"``\1``", p.replace("*", r"\*"))
        for p in parts
    )
    return "".join(marked)


def _read_docstring(app, what, name, obj, options, lines):
    """Our docstrings say `name : what it is`; numpydoc and napoleon would take the words for a
    type.
    """
    out, at = [], 0
    while at < len(lines):
        line, below = lines[at], lines[at + 1] if at + 1 < len(lines) else ""
        entry = re.match(r"(\w[\w, ]*) : (.*)", line)
        if line and set(below) == {"-"}:
            out += ["", f"**{line}**", ""]
            at += 1
        elif entry:
            out += ["", f"* ``{entry[1]}``: {_literal(entry[2])}"]
        elif line.startswith("    ") and out and out[-1].startswith(("* ", "  ")):
            out.append("  " + _literal(line.strip()))
        else:
            out.append(line if line.lstrip().startswith(">>>") else _literal(line))
        at += 1
    lines[:] = out


def _build_gallery(app):
    """Run the gallery's scripts before pages are read."""
    sys.path.insert(0, str(_root / "docs"))
    from build_gallery import build_gallery

    newest = max(path.stat().st_mtime for path in (_root / "src").rglob("*.py"))
    build_gallery(_root / "examples" / "gallery", _root / "docs" / "gallery", newest)


def setup(app):
    """Called by Sphinx."""
    app.connect("builder-inited", _build_gallery)
    app.connect("autodoc-process-docstring", _read_docstring)
