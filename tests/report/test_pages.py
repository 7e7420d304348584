"""Pages are whole, strict, safe, private, and the same each time."""

from __future__ import annotations

import errno
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from report.subjects import (
    HOSTILE,
    KINDS,
    Unknown,
    make_chain,
    make_rows,
    make_subject,
    make_topics,
    make_trace,
)
from small_disks import limited

from stickbreak.checks.reports import read_page
from stickbreak.families import DiagonalGaussian
from stickbreak.inference import MoveRecord, Trace
from stickbreak.report import CHAPTERS, write_page
from stickbreak.report.history import lives_of
from stickbreak.report.markup import clean

parse = read_page
SHEET = 718, 1039  # of A4 less margins, at 96 dots an inch


def text_of(tree):
    """All text that a reader sees with scripts off."""
    parts = []
    for element in tree.iter():
        if element.tag in ("script", "style"):
            continue
        parts += [element.text or "", element.tail or ""]
    return " ".join(parts)


@pytest.mark.parametrize("kind", KINDS)
def test_six_facts_are_at_the_top(kind):
    tree = parse(write_page(KINDS[kind]()).html)
    assert len({title.text for title in tree.iter("dt")}) == 6


@pytest.mark.parametrize("kind", KINDS)
def test_page_is_strict_and_tells_the_story_in_its_order(kind):
    tree = parse(write_page(KINDS[kind]()).html)
    assert [h.text for h in tree.iter("h2")] == list(CHAPTERS.values())
    text = text_of(tree)
    assert "3 " in text
    assert "The largest is" in text
    assert "What this file holds" in text
    for image in tree.iter("{http://www.w3.org/2000/svg}svg"):
        assert image.get("aria-label") or image.get("aria-hidden") == "true"


@pytest.mark.parametrize("kind", KINDS)
def test_page_parses_without_an_error(kind):
    html5lib = pytest.importorskip("html5lib", reason="pip install html5lib")
    parser = html5lib.HTMLParser(strict=True)
    parser.parse(write_page(KINDS[kind]()).html)


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_hostile_text_stays_text(at):
    bad = HOSTILE[at]
    for kind in ("rows", "chain"):
        subject = KINDS[kind](columns=[bad, f"{bad} 2"], names={0: bad}, title=bad)
        tree = parse(write_page(subject).html)
        assert tree.find("body/header/h1").text == clean(bad)[:1999] + "\u2026" * (len(bad) > 2000)
    tree = parse(write_page(make_topics(words=(bad, "dog", "salt", "pan"), title=bad)).html)
    assert not [e for e in tree.iter() if e.tag in ("img", "iframe", "base", "object", "link")]


def test_policy_allows_one_script_and_one_style():
    html = write_page(make_subject()).html
    policy = re.search(r'Policy" content="([^"]*)"', html)[1]
    assert policy.startswith("default-src &#x27;none&#x27;; script-src &#x27;sha256-")
    assert "unsafe" not in policy


@pytest.mark.parametrize("kind", ["rows", "chain", "topics"])
def test_all_that_is_of_components_is_found_by_a_selection(kind):
    """Figures and tables without a mark are of all components, or of none."""
    tree = parse(write_page(KINDS[kind]()).html)
    bare = []
    for part in (*tree.iter("figure"), *tree.iter("table")):
        title = part.find(".//h3") if part.tag == "figure" else part.find("caption")
        if not any(e.get("data-k") or e.get("data-ks") for e in part.iter()):
            bare.append("".join(title.itertext()))
    allowed = re.compile(
        r"Certainty|height|width|Laps|Moves|Versions|Columns ranked|Shares |Stays of state"
        r"|largest gap"
    )
    assert [title for title in bare if not allowed.match(title)] == []


def test_pairs_and_columns_have_marks_of_their_own():
    tree = parse(write_page(make_chain()).html)
    pairs = next(t for t in tree.iter("table") if "share most" in "".join(t[0].itertext()))
    assert {row.get("data-ks") for row in pairs.find("tbody")} == {"0 1", "0 2", "1 2"}
    use = next(t for t in tree.iter("table") if "by sequence" in "".join(t[0].itertext()))
    assert [e.get("data-k") for e in use.find("colgroup")] == [None, None, "0", "1", "2"]
    assert [e.get("data-k") for e in use.find("thead/tr")] == [None, None, "0", "1", "2"]


def test_color_is_never_alone():
    """Each piece of a strip has its number or a title, and so has each band between two models."""
    subject = make_chain()
    path = np.arange(600) % 3
    observed = replace(subject.observed, paths=[path, path], unsure=[path[:0]] * 2)
    tree = parse(write_page(replace(subject, observed=observed)).html)
    strips = next(e for e in tree.iter() if e.get("id") == "strips")
    pieces = [e for e in strips if e.tag.endswith("}g")]
    assert len(pieces) == 1200
    for piece in pieces:
        assert piece.get("data-k") in "".join(piece.itertext())


def test_topics_without_room_for_their_number_have_a_title():
    n = 60
    topics = np.full((n, 4), 0.25) + 1e-4 * np.random.default_rng(0).random((n, 4))
    subject = make_topics()
    more = {
        "topic_word": topics,
        "overall": np.log(topics[0]),
        "apart": dict.fromkeys(range(n), ""),
    }
    subject = replace(subject, weights=np.full(n, 1 / n), counts=np.full(n, 9.0), observed=None,
                      ids=tuple(range(n)), more=more)  # fmt: skip
    tree = parse(write_page(subject).html)
    image = next(e for e in tree.iter() if "Map of 60" in (e.get("aria-label") or "")
                 and e.tag.endswith("svg"))  # fmt: skip
    groups = [e for e in image if e.tag.endswith("}g")]
    assert len(groups) == n
    for group in groups:
        assert group.get("data-k") in "".join(group.itertext())
    assert sum(e.tag.endswith("title") for e in image.iter()) > 1


def test_data_none_and_no_texts_leave_nothing_of_the_data():
    subject = make_rows(keeps="none")
    observed = replace(subject.observed, worst=(), typical={})
    subject = replace(subject, observed=observed)
    html = write_page(subject).html
    assert 'class="points' in write_page(make_rows()).html
    assert 'class="points' not in html
    assert json.loads(re.search(r'id="data">([^<]*)<', html)[1])["scatter"]["rows"] == []
    hidden = make_topics(keeps="none", shows_texts=False)
    assert "commonest words" not in write_page(hidden).html


def test_numbers_of_the_data_block_are_those_of_the_model():
    subject = make_rows()
    found = json.loads(re.search(r'id="data">([^<]*)<', write_page(subject).html)[1])["page"]
    assert found["weights"] == subject.weights.tolist()
    assert found["sizes"] == subject.observed.sizes.tolist()
    assert found["bound"] == subject.bound


def test_largest_200_of_5000_components_are_shown():
    n = 5000
    weights = np.arange(n, 0, -1) / (n * (n + 1) / 2)
    subject = make_subject(
        weights=weights, counts=weights * 1e9, ids=tuple(range(n)), structure=Unknown(),
        family=Unknown(), posterior={},
    )  # fmt: skip
    html = write_page(subject).html
    parse(html)
    assert html.count('id="k=') == 200
    assert "4,800 smaller components" in html
    assert len(html) < 2_000_000


def test_components_without_rows_still_give_a_page():
    subject = make_subject(counts=np.zeros(3), structure=Unknown())
    assert "2 without rows" in write_page(subject).html


def test_stream_has_no_curve_and_says_why():
    html = write_page(make_subject(trace=type(make_trace())())).html
    assert "there are no laps to show" in html


def test_fit_without_a_bound_says_so():
    trace = make_trace()
    laps = [replace(lap, bound=None) for lap in trace]
    html = write_page(make_subject(trace=replace(trace, laps=laps), bound=float("nan"))).html
    assert "no bound of all data" in html


def test_lives_replayed_give_the_components_of_the_result():
    lives = lives_of(make_trace().moves, (0, 3, 4))
    assert {life.id for life in lives if life.end is None} == {0, 3, 4}
    by_id = {life.id: life for life in lives}
    assert (by_id[3].begin, by_id[3].came) == (2, 1)
    assert (by_id[2].end, by_id[2].went) == (4, 1)
    assert by_id[1].end == 5


def test_refused_moves_are_told_as_evidence():
    html = write_page(make_subject()).html
    assert "Joining 0 and 1 would cost 12.3 nats" in html


def test_saved_completely_or_not_at_all(tmp_path):
    page = write_page(make_subject())
    page.save(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == page.html
    with pytest.raises(ValueError, match="exists; give another name"):
        page.save(tmp_path / "a.html")
    page.save(tmp_path / "a.html", force=True)
    with pytest.raises(ValueError, match="is a folder"):
        page.save(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        page.save(tmp_path / "none" / "a.html")
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"]


def refuse(*_args):
    raise PermissionError(errno.EACCES, "Permission denied", ".a.html.0123")


def test_a_refused_permission_leaves_nothing_and_is_a_sentence(tmp_path, monkeypatch):
    """A folder that may not be written to refuses the file when it is opened."""
    (tmp_path / "a.html").write_text("old")
    monkeypatch.setattr("stickbreak.targets._open_private", refuse)
    with pytest.raises(PermissionError, match=r"a\.html cannot be written: Permission denied\. "):
        write_page(make_subject()).save(tmp_path / "a.html", force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"]
    assert (tmp_path / "a.html").read_text() == "old"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_a_disk_that_fills_leaves_the_old_page(tmp_path):
    """The page is larger than what a file may have, so writing ends in its midst."""
    (tmp_path / "a.html").write_text("old")
    page = write_page(make_rows())
    assert len(page.html) > 4096
    with (
        limited(4096),
        pytest.raises(OSError, match=r"cannot be written: .* Nothing is left"),
    ):
        page.save(tmp_path / "a.html", force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"]
    assert (tmp_path / "a.html").read_text() == "old"


@pytest.mark.parametrize(("lives", "columns"), [(200, 2), (20, 2), (3, 60)])
def test_no_figure_is_higher_than_a_sheet_of_paper(lives, columns):
    """Figures are not divided between sheets: those wider than the paper are made as wide."""
    rng = np.random.default_rng(0)
    n = 60
    births = [MoveRecord(1 + i % 5, "birth", (0,), (0, i), 1.0, 1.0, True) for i in range(1, lives)]
    trace = Trace(laps=make_trace().laps, moves=births)
    subject = make_chain()
    more = {**subject.more, "transition": np.full((n, n), 1 / n), "durations": np.ones(n),
            "laws": np.full((n, 9), 1 / 9),
            "courses": (["a"], [[np.arange(9.0)] * 30], np.ones((1, n, 20)))}  # fmt: skip
    posterior = {"mean": rng.normal(size=(n, columns)), "variance": np.ones((n, columns))}
    paths = [np.arange(90) % n] * 30
    observed = replace(
        subject.observed, paths=paths, unsure=[np.zeros(0, int)] * 30, rows=None, groups={},
        sizes=np.ones(n, int), overlap=np.full((n, n), 1 / n),
    )  # fmt: skip
    subject = replace(
        subject, trace=trace, weights=np.full(n, 1 / n), counts=np.full(n, 9.0), more=more,
        ids=tuple(range(n)), posterior=posterior, observed=observed, replica=None, replicas=(),
        family=DiagonalGaussian(), columns=[f"x{d}" for d in range(columns)],
    )  # fmt: skip
    tree = parse(write_page(subject).html)
    images = [e for e in tree.iter() if e.tag.endswith("svg") and e.get("role") == "img"]
    assert len(images) > 12
    for image in images:
        width, height = float(image.get("width")), float(image.get("height"))
        assert height * min(1.0, SHEET[0] / width) <= SHEET[1], image.get("aria-label")


def test_notebook_shows_the_page_in_a_sandbox():
    shown = write_page(make_subject())._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts"')
    assert "<script" not in shown


def test_long_sequences_are_binned_to_at_most_4000_marks_and_the_page_says_so():
    subject = make_chain()
    rng = np.random.default_rng(0)
    paths = [rng.integers(0, 3, 9000) for _ in range(25)]
    unsure = [np.flatnonzero(rng.random(9000) < 0.2) for _ in paths]
    observed = replace(subject.observed, paths=paths, unsure=unsure, n_units=25, n_rows=225_000)
    html = write_page(replace(subject, observed=observed)).html
    strips = next(e for e in parse(html).iter() if e.get("id") == "strips")
    marks = [e for e in strips.iter() if e.tag.rpartition("}")[2] in ("rect", "circle")]
    assert 2000 < len(marks) <= 4000
    assert "Long sequences: the commonest state of every 52 rows." in html
    assert "At most 25 dots in a strip." in html
    assert "5 more sequences are not drawn." in html


def test_all_columns_are_compared_with_draws_as_numbers():
    tree = parse(write_page(make_rows()).html)
    lines = next(t for t in tree.iter("table") if "largest gap" in "".join(t.itertext()))
    assert {row[0].text for row in lines.find("tbody")} == {"height", "width"}
