"""What tests of pages ask a browser: contrast, places of text, targets, focus."""

from __future__ import annotations

import io
import os
import shutil

import pytest
from report.subjects import KINDS
from report.test_comparing import make_flow

from stickbreak.report import write_page
from stickbreak.report.comparing import write_comparison

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update",
]  # fmt: skip
PAGES = {**{kind: lambda kind=kind: write_page(KINDS[kind]()) for kind in KINDS},
         "comparison": lambda: write_comparison(make_flow())}  # fmt: skip


def skip(reason):
    """Skip what cannot be tested here; fail where a browser is required."""
    if os.environ.get("STICKBREAK_REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def n_sheets(page):
    """Sheets of A4 that a page prints on."""
    try:
        import pypdf
    except ImportError:
        skip('no pypdf: pip install "stickbreak[browser]"')
    return len(pypdf.PdfReader(io.BytesIO(page.pdf(format="A4"))).pages)


# Color of each text and of the ground below it, from the styles; halos are of the ground.
CONTRAST = """() => {
  const parse = text => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return found.length === 3 ? [...found, 1] : found;
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
  const light = color => {
    const part = color.slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const ground = element => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      layers.push(parse(getComputedStyle(e).backgroundColor));
    }
    let color = matchMedia('(prefers-color-scheme: dark)').matches ? [21, 23, 27] : [255, 255, 255];
    layers.reverse().forEach(layer => { color = over(layer, color); });
    return color;
  };
  const bad = [];
  let n = 0;
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(c => c.nodeType === 3 && c.textContent.trim());
    const box = element.getBoundingClientRect();
    if (!own || !box.width || element.closest('title, script, option, .hush, .skip')) continue;
    const style = getComputedStyle(element), isText = element.namespaceURI.endsWith('svg');
    // what is not selected is faint on purpose
    if (style.visibility === 'hidden' || element.closest('.selecting svg [data-k]:not(.on)')) {
      continue;
    }
    let below = ground(element);
    const isHaloed = isText && style.strokeWidth !== '0px' && style.stroke !== 'none';
    if (isHaloed) below = over(parse(style.stroke), below);
    const ink = over(parse(isText ? style.fill : style.color), below);
    const [a, b] = [light(ink), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    n += 1;
    if (ratio < 4.5) bad.push([element.outerHTML.slice(0, 90), ratio.toFixed(2)]);
  }
  return [n, bad];
}"""

# Texts of figures that are small, outside of their figure, or on marks without a halo.
TEXTS = """() => {
  const bad = [];
  const shared = (a, b) => Math.min(Math.min(a.right, b.right) - Math.max(a.left, b.left),
                                    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) - 2);
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect();
    if (!frame.width) continue;
    const scale = frame.width / (svg.viewBox.baseVal.width || frame.width);
    const marks = [...svg.querySelectorAll('rect, circle, path')]
      .filter(e => getComputedStyle(e).fill !== 'none').map(e => e.getBoundingClientRect());
    for (const text of svg.querySelectorAll('text')) {
      if (!text.textContent.trim()) continue;
      const box = text.getBoundingClientRect();
      const size = parseFloat(getComputedStyle(text).fontSize) * scale;
      if (size < 9) bad.push(['small', text.textContent, size.toFixed(1)]);
      const out = Math.max(frame.left - box.left, box.right - frame.right,
                           frame.top - box.top, box.bottom - frame.bottom);
      if (out > 1.5) bad.push(['outside by ' + out.toFixed(1), text.textContent, svg.ariaLabel]);
      const style = getComputedStyle(text);
      if (style.stroke !== 'none' && style.strokeWidth !== '0px') continue;
      if (marks.some(mark => shared(box, mark) > 1)) bad.push(['on a mark', text.textContent]);
    }
  }
  return bad;
}"""

TARGETS = """() => [...document.querySelectorAll('a, button, summary, select, input')]
  .filter(e => e.getClientRects().length && !e.closest('.skip'))
  .map(e => [e.outerHTML.slice(0, 90), e.getBoundingClientRect()])
  .filter(([, box]) => Math.min(box.width, box.height) < 23.99)
  .map(([text, box]) => [text, box.width, box.height])"""

# Shows what is folded.
UNFOLD = "() => document.querySelectorAll('details').forEach(e => { e.open = true; })"

# What can have the focus, in the order of the document.
FOCUSABLE = """[...document.querySelectorAll(
    'a, button, summary, select, input, [tabindex="0"]')]
  .filter(e => e.getClientRects().length && !e.closest('details:not([open]) > :not(summary)'))"""

# The focused element, its place in that order, and whether its focus can be seen.
FOCUSED = f"""() => {{
  const e = document.activeElement, style = getComputedStyle(e);
  return [e === document.body ? '' : e.tagName + '|' + e.textContent.slice(0, 40),
          {FOCUSABLE}.indexOf(e),
          style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2];
}}"""

# Texts of figures that are too small on paper.
PRINTED = """() => [...document.querySelectorAll('svg[role=img]')].flatMap(svg => {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return [...svg.querySelectorAll('text')].filter(text => scale && text.textContent.trim())
    .map(text => [parseFloat(getComputedStyle(text).fontSize) * scale, text.textContent])
    .filter(([px]) => px < 9);
})"""
