"""Settings of the documentation."""

import runpy
from pathlib import Path

_root = Path(__file__).resolve().parent.parent

project = "stickbreak"
author = "The stickbreak developers"
copyright = f"2026, {author}"
release = runpy.run_path(str(_root / "src" / "stickbreak" / "_version.py"))["__version__"]
version = release

extensions = ["myst_parser", "sphinx.ext.mathjax"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "skeletons"]

html_theme = "furo"
html_title = f"stickbreak {release}"
