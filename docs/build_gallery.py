"""Runs the scripts of examples/gallery when the documentation is built, and writes a page for each:
words, picture, code.
"""

from __future__ import annotations

import ast
import contextlib
import io
import runpy
from pathlib import Path

HEADER = """# Gallery

Short scripts that end in a picture; the tests run every one of them. A click on a picture leads to
its code.
"""
CARD = """
## {title}

```{{image}} {name}.png
:alt: {title}
:target: {name}.html
:width: {width}%
```

{words} [Code]({name}.md)
"""
PAGE = """---
orphan: true
---

# {title}

{words}

```{{image}} {name}.png
:alt: {title}
```

```{{literalinclude}} {source}
:language: python
:lines: {first}-
```

{printed}
"""


def read_script(path: Path) -> tuple[str, str, int]:
    """Title and words of a script's docstring, and the line of code after it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    title, _, words = (ast.get_docstring(tree) or "").partition("\n")
    if not title or not words.strip():
        raise ValueError(
            f"{path.name} needs a docstring: a title, an empty line, and what the picture shows"
        )
    return title, " ".join(words.split()), tree.body[1].lineno


def run_script(path: Path, folder: Path) -> str:
    """Run a script inside `folder`, where it must leave a picture of its own name; returns what it
    prints.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        runpy.run_path(str(path))
    plt.close("all")
    if not (folder / f"{path.stem}.png").is_file():
        raise ValueError(f"{path.name} left no picture {path.stem}.png")
    return printed.getvalue()


def move_pages(name: str, folder: Path) -> str:
    """Move the pages that a script wrote to where Sphinx takes them from as they are.

    Returns links to them.
    """
    target = folder.parent / "_pages" / folder.name
    target.mkdir(parents=True, exist_ok=True)
    links = []
    for page in sorted(folder.glob(f"{name}-*.html")):
        page.replace(target / page.name)
        title = page.stem.removeprefix(f"{name}-")
        links.append(f'<a href="{page.name}">{title}</a>')
    return f"<p>Its pages: {', '.join(links)}.</p>\n\n" if links else ""


def build_gallery(scripts: Path, folder: Path, newest_source: float) -> None:
    """Pages and pictures of all scripts in `folder`; those that are newer than script and library
    are kept.
    """
    folder.mkdir(exist_ok=True)
    cards = []
    for path in sorted(scripts.glob("*.py")):
        title, words, first = read_script(path)
        page, picture = folder / f"{path.stem}.md", folder / f"{path.stem}.png"
        cards.append(CARD.format(title=title, name=path.stem, words=words, width=70))
        is_fresh = (
            page.is_file()
            and picture.is_file()
            and page.stat().st_mtime > max(path.stat().st_mtime, newest_source)
        )
        if is_fresh:
            continue
        printed = run_script(path, folder)
        block = f"It prints:\n\n```text\n{printed.rstrip()}\n```" if printed else ""
        block = move_pages(path.stem, folder) + block
        source = f"../../examples/gallery/{path.name}"
        page.write_text(
            PAGE.format(
                title=title, words=words, name=path.stem, source=source, first=first, printed=block
            ),
            encoding="utf-8",
        )
    (folder / "index.md").write_text(HEADER + "".join(cards), encoding="utf-8")
