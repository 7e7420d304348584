"""Pictures of pages: the same again, changed by a selection only where it marks, and as stored.

Stored pictures are compared where the fonts are those they were drawn with: Debian's
fonts-dejavu-core, and no others. They are drawn anew by
`PYTHONPATH=tests python tests/report/test_pictures.py`.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from report.browsing import ARGUMENTS, CHROMIUM, PAGES
from report.subjects import make_rows

from stickbreak.report import write_page

pytestmark = pytest.mark.slow
STORED = Path(__file__).with_name("pictures")
FONTS = Path("/usr/share/fonts/truetype/dejavu")
DIGESTS = {
    "DejaVuSans.ttf": "abdc775b21b1bc470d50c97e790d276f2054b7504e56e5bd3e64f48d68582322",
    "DejaVuSans-Bold.ttf": "0d977336a6d5fba34eab8e3199eb218327161b5143749f802982c2bc34df0c96",
    "DejaVuSansMono.ttf": "0f5db4f1749979d961019838b160bec74abdf7f9eca69553fe1aa856bbff49a4",
}
ALIAS = "<alias><family>{}</family><prefer><family>{}</family></prefer></alias>"
CONFIG = f"""<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{FONTS}</dir><cachedir prefix="xdg">fontconfig</cachedir>
{ALIAS.format("system-ui", "DejaVu Sans")}{ALIAS.format("sans-serif", "DejaVu Sans")}
{ALIAS.format("ui-monospace", "DejaVu Sans Mono")}{ALIAS.format("monospace", "DejaVu Sans Mono")}
</fontconfig>"""
VIEWS = {"wide-light": (1280, "light"), "narrow-dark": (400, "dark")}
KINDS = ("rows", "chain", "topics", "trees", "strings", "alignment", "comparison")
PICTURES = [(kind, "wide-light") for kind in KINDS] + [("rows", "narrow-dark")]
GRAYS, MOST_OFF = 8, 0.005  # levels of stored pictures; share of pixels that may differ
NEAR = 32  # of 255, by which a pixel may be off: rounding to levels, and edges of letters


def pinned_fonts():
    """Whether the fonts of the stored pictures are here."""
    files = [FONTS / name for name in DIGESTS]
    return all(
        file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == DIGESTS[file.name]
        for file in files
    )


def start(playwright, folder):
    """A browser that knows no other fonts, whose pages are half as large."""
    (folder / "fonts.conf").write_text(CONFIG)
    env = {**os.environ, "FONTCONFIG_FILE": str(folder / "fonts.conf"),
           "XDG_CACHE_HOME": str(folder)}  # fmt: skip
    flags = [*ARGUMENTS, "--font-render-hinting=none", "--disable-lcd-text"]
    return playwright.chromium.launch(executable_path=CHROMIUM, args=flags, env=env)


def take(browser, file, view):
    """(height, width) gray levels 0 to 255 of a whole page."""
    from PIL import Image

    width, theme = VIEWS[view]
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme,
                                  device_scale_factor=0.5)  # fmt: skip
    page = context.new_page()
    page.goto(file.as_uri())
    picture = page.screenshot(full_page=True)
    context.close()
    return np.asarray(Image.open(io.BytesIO(picture)).convert("L")).astype(int)


def share_off(one, other):
    """Share of pixels that differ; all, if the pictures have other sizes."""
    if one.shape != other.shape:
        return 1.0
    return float((np.abs(one - other) > NEAR).mean())


def read(kind, view):
    from PIL import Image

    return np.asarray(Image.open(STORED / f"{kind}-{view}.png").convert("L")).astype(int)


@pytest.fixture(scope="module")
def pinned(playwright, tmp_path_factory):
    if not pinned_fonts():
        pytest.skip("other fonts than those of the stored pictures: fonts-dejavu-core of Debian")
    started = start(playwright, tmp_path_factory.mktemp("fonts"))
    yield started
    started.close()


@pytest.mark.parametrize(("kind", "view"), PICTURES)
def test_pages_look_as_they_did(kind, view, pinned, tmp_path):
    now = take(pinned, PAGES[kind]().save(tmp_path / "page.html"), view)
    off = share_off(now, read(kind, view))
    told = f"{100 * off:.2f} % of the pixels differ: if that is wanted, draw the pictures anew"
    assert off <= MOST_OFF, told


def test_a_changed_page_is_found(pinned, tmp_path):
    """One more column in the profiles, another color: each is above what may differ."""
    before = read("rows", "wide-light")
    html = write_page(make_rows()).html
    for old, new in (("font: 15px/1.5", "font: 15.5px/1.5"), ("--c0: #0072b2", "--c0: #9fd8ff")):
        assert old in html
        file = tmp_path / "page.html"
        file.write_text(html.replace("style-src", "x-src").replace("default-src 'none'; ", "")
                        .replace(old, new), encoding="utf-8")  # fmt: skip
        assert share_off(take(pinned, file, "wide-light"), before) > MOST_OFF


def test_pictures_are_the_same_again(opened):
    page, _ = opened(PAGES["rows"]())
    first = page.screenshot(full_page=True)
    page.reload()
    assert page.screenshot(full_page=True) == first


def test_a_selection_changes_figures_with_marks_and_no_others(opened):
    page, _ = opened(PAGES["rows"]())
    page.evaluate("document.querySelectorAll('nav').forEach(e => { e.style.position = 'static'; })")
    figures = page.locator("svg[role=img]")
    before = [figure.screenshot() for figure in figures.all()]
    page.evaluate("document.querySelector('a[data-pick=\"1\"]').click()")
    page.evaluate("document.querySelectorAll('svg *').forEach(e => e.getAnimations()"
                  ".forEach(a => a.finish()))")  # fmt: skip
    after = [figure.screenshot() for figure in figures.all()]
    has_marks = figures.evaluate_all("all => all.map(e => e.querySelector('[data-k]') !== null)")
    changed = [a != b for a, b in zip(before, after, strict=True)]
    assert changed == has_marks
    assert 0 < sum(changed) < len(changed)


def draw_anew():
    """Store pictures of all pages."""
    import tempfile

    from PIL import Image
    from playwright.sync_api import sync_playwright

    if not pinned_fonts():
        sys.exit("other fonts than those of the stored pictures: fonts-dejavu-core of Debian")
    STORED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        browser = start(playwright, folder)
        for kind, view in PICTURES:
            file = PAGES[kind]().save(folder / "page.html", force=True)
            levels = np.rint(take(browser, file, view) / 255 * (GRAYS - 1)).astype(np.uint8)
            picture = Image.fromarray(levels)
            picture.putpalette([v for g in range(GRAYS) for v in [g * 255 // (GRAYS - 1)] * 3])
            picture.save(STORED / f"{kind}-{view}.png", optimize=True, bits=4)
        browser.close()


if __name__ == "__main__":
    draw_anew()
