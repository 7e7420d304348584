"""Pages about fitted models: how large they are, what they cost, how soon a browser shows them."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA

import stickbreak as sb

from .anonymous import AnonymousPeak
from .report import Report, Row

MOST_KB, MOST_GALLERY_KB, MOST_READY, MOST_SELECTION, MOST_STEP = 2000, 450, 600.0, 50.0, 10.0
NOTE = """\
CPU seconds of `report`, against those of `predict` (or `transform`) and `score_samples` of the same
data, doubled, plus one: the least of three, after one that compiles. Fits are short: what is
measured is the page. The browser is Chromium with a new context for each of five loads; a selection
and a step of the slider are timed with the layout that they cause, the median of 20. Ready: until
the scripts of the page have run."""

READY = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
TIMED = """act => {
  const times = [];
  for (let i = 0; i < 20; i += 1) {
    const began = performance.now();
    act(i);
    document.documentElement.getBoundingClientRect();
    times.push(performance.now() - began);
  }
  return times.sort((a, b) => a - b)[10];
}"""
SELECT = f"""() => {{
  const picks = [...document.querySelectorAll('[data-pick]')];
  return picks.length && ({TIMED})(i => picks[i % picks.length].click());
}}"""
SLIDE = f"""() => {{
  const slider = document.querySelector('#relevance input');
  return slider ? ({TIMED})(i => {{
    slider.value = (i % 20) / 20;
    slider.dispatchEvent(new Event('input'));
  }}) : null;
}}"""


def _wine() -> tuple[Any, Any]:
    X = load_wine().data
    return sb.DPMixture(random_state=0).fit(X), X


def _digits() -> tuple[Any, Any]:
    X = PCA(8, random_state=0).fit_transform(load_digits().data)
    return sb.DPMixture(random_state=0).fit(X), X


def _large() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = (
        rng.normal(size=(200_000, 20))
        + 4 * rng.normal(size=(20, 20))[rng.integers(20, size=200_000)]
    )
    return sb.Mixture(20, max_iter=5, random_state=0).fit(X), X


def _wide() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1000)) + rng.normal(size=(8, 1000))[rng.integers(8, size=2000)]
    return sb.Mixture(8, family="diagonal", max_iter=5, random_state=0).fit(X), X


def _topics(n_topics: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(8000, 0.02), n_topics)
    words = rng.dirichlet(np.full(n_topics, 0.05), 2000) @ topics
    X = np.stack([rng.multinomial(150, p / p.sum()) for p in words])
    return sb.LatentDirichletAllocation(n_topics, max_iter=5, random_state=0).fit(X), X


def _mocap(name: str) -> tuple[Any, Any]:
    file = next((Path(os.environ["STICKBREAK_DATA"]) / "sequences" / name).glob("*.npz"))
    with np.load(file, allow_pickle=False) as found:
        X, ends = found["X"], found["doc_range"].astype(int)
    parts = np.split(X, ends[1:-1])
    engine = sb.MemoizedVB(max_iter=20)
    return sb.HDPHMM(30, stickiness=100, inference=engine, random_state=0).fit(parts), parts


def _sentences() -> tuple[Any, Any]:
    """Sentences of two kinds of phrases, over 20 tags."""
    rng = np.random.default_rng(0)
    X = [
        [f"t{v}" for phrase in rng.integers(4, size=rng.integers(1, 4))
         for v in (5 * phrase + rng.integers(5), 5 * phrase + rng.integers(3))]
        for _ in range(500)
    ]  # fmt: skip
    return sb.PCFG(5, max_iter=5, random_state=0).fit(X), X


def _pairs() -> tuple[Any, Any]:
    """Pairs whose target is the source in other words, in another order."""
    rng = np.random.default_rng(0)
    sources = [rng.zipf(1.3, rng.integers(3, 20)) % 3000 for _ in range(2000)]
    X = [([f"s{v}" for v in s], [f"t{v}" for v in rng.permutation(s)]) for s in sources]
    return sb.HMMAligner(random_state=0).fit(X), X


CASES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "mixture of wines": _wine,
    "mixture of digits": _digits,
    "mixture, 200,000 x 20": _large,
    "mixture, 1,000 columns": _wide,
    "topics, K=100": lambda: _topics(100),
    "topics, K=300": lambda: _topics(300),
    "six motion captures": lambda: _mocap("mocap6"),
    "119 motion captures": lambda: _mocap("cmu_mocap"),
    "grammar, 500 sentences": _sentences,
    "aligner, 2,000 pairs": _pairs,
}
SMALL = ("mixture of wines", "mixture of digits", "six motion captures")
REAL = ("six motion captures", "119 motion captures")


def cpu(act: Callable[[], Any]) -> float:
    """CPU seconds: the least of three."""
    times = []
    for _ in range(3):
        began = time.process_time()
        act()
        times.append(time.process_time() - began)
    return min(times)


def answers(model: Any, X: Any) -> None:
    if isinstance(model, sb.PCFG | sb.HMMAligner):
        model.predict(X)
        model.score(X)
        return
    (model.transform if hasattr(model, "transform") else model.predict_proba)(X)
    model.score_samples(X)


def in_browser(pages: dict[str, Any]) -> dict[str, tuple[float, float, float | None]]:
    """Milliseconds until ready, of a selection and of a step of the slider."""
    from playwright.sync_api import sync_playwright

    found = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for name, page in pages.items():
            file = page.save(Path(folder) / "page.html", force=True)
            ready = []
            for _ in range(5):
                context = browser.new_context(viewport={"width": 1280, "height": 900})
                shown = context.new_page()
                shown.goto(file.as_uri())
                ready.append(shown.evaluate(READY))
                times = shown.evaluate(SELECT), shown.evaluate(SLIDE)
                context.close()
            found[name] = (statistics.median(ready), *times)
        browser.close()
    return found


class OnDisk(NamedTuple):
    """Of a page about rows of a file: peak anonymous MB and before, KB, CPU seconds; of answers."""

    peak: float
    before: float
    size: float
    ours: float
    peer: float


def on_disk(n_rows: int) -> OnDisk:
    """A page about rows of a file."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        out = np.lib.format.open_memmap(path, mode="w+", dtype=float, shape=(n_rows, 4))
        for lo in range(0, n_rows, 100_000):
            size = min(100_000, n_rows - lo)
            out[lo : lo + size] = rng.normal(size=(size, 4)) + 5 * rng.integers(3, size=(size, 1))
        out.flush()
        model = sb.Mixture(3, random_state=0).fit(np.array(out[:10_000]))
        with AnonymousPeak() as memory:
            began = time.process_time()
            page = model.report(path)
            ours = time.process_time() - began
        size = len(page.html.encode()) / 1000
        began = time.process_time()
        answers(model, path)
        return OnDisk(memory.peak, memory.before, size, ours, time.process_time() - began)


def run(quick: bool = False) -> Report:
    warnings.simplefilter("ignore", sb.StickbreakWarning)
    names = SMALL[:2] if quick else CASES
    names = [n for n in names if n not in REAL or "STICKBREAK_DATA" in os.environ]
    rows, pages = [], {}
    if sys.platform.startswith("linux"):
        sizes = (50_000, 200_000) if quick else (2_500_000, 10_000_000)
        few, many = on_disk(sizes[0]), on_disk(sizes[1])
        what, most = f"{sizes[1]:,} rows from disk", 2 * many.peer + 1
        rows += [
            Row(f"{what}: peak anonymous memory", f"{many.peak:.0f} MB", f"{many.before:.0f} MB",
                target=f"as {sizes[0]:,}: {few.peak:.0f} MB", met=many.peak <= 1.1 * few.peak),
            Row(f"{what}: size", f"{many.size:.0f} KB", target=f"at most {MOST_KB} KB",
                met=many.size <= MOST_KB),
            Row(f"{what}: CPU, once", f"{many.ours:.1f} s", f"{many.peer:.1f} s",
                target=f"at most {most:.1f} s", met=many.ours <= most),
        ]  # fmt: skip
    for name in names:
        model, X = CASES[name]()
        pages[name] = model.report(X)
        answers(model, X)
        ours, peer = cpu(lambda m=model, x=X: m.report(x)), cpu(lambda m=model, x=X: answers(m, x))
        size, most = (
            len(pages[name].html.encode()) / 1000,
            MOST_GALLERY_KB if name in SMALL else MOST_KB,
        )
        rows.append(
            Row(f"{name}: size", f"{size:.0f} KB", target=f"at most {most} KB", met=size <= most)
        )
        told = f"at most {2 * peer + 1:.2f} s"
        rows.append(
            Row(
                f"{name}: CPU",
                f"{ours:.2f} s",
                f"{peer:.3f} s",
                target=told,
                met=ours <= 2 * peer + 1,
            )
        )
    try:
        found = in_browser(pages) if shutil.which("chromium") else {}
    except ImportError:
        found = {}
    for name, times in found.items():
        limits = (MOST_READY, MOST_SELECTION, MOST_STEP)
        for what, value, most in zip(
            ("ready", "a selection", "a step of the slider"), times, limits, strict=True
        ):
            if value is not None:
                rows.append(
                    Row(
                        f"{name}: {what}",
                        f"{value:.1f} ms",
                        target=f"at most {most:.0f} ms",
                        met=value <= most,
                    )
                )
    note = "" if found else " No Chromium, or no playwright: nothing was shown."
    return Report("Pages", rows, (NOTE + note,), peer="answers, or before")
