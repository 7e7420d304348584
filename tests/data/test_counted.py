"""Files of documents too large for memory: the same counts and fits from temporary files."""

from __future__ import annotations

import numpy as np
import pytest
from data.test_corpora import as_docword, as_ldac, as_words

import stickbreak as sb
from stickbreak.data import Documents, is_on_disk, spool
from stickbreak.data.counted import CountedDocuments
from stickbreak.data.documents import own_vocabulary

WORDS = tuple(f"w{v:02d}" for v in range(30))


def draw(n: int = 90, seed: int = 0) -> np.ndarray:
    """Counts of documents of three topics, one without words."""
    rng = np.random.default_rng(seed)
    topics, shares = rng.dirichlet(np.full(30, 0.1), 3), rng.dirichlet(np.full(3, 0.3), n)
    counts = rng.multinomial(25, shares @ topics)
    counts[4] = 0
    return counts


COUNTS = draw()
FORMATS = {
    "docs.ldac": as_ldac(COUNTS),
    "docword.txt": as_docword(COUNTS),
    "docs.txt": as_words(COUNTS, WORDS),
}


@pytest.fixture
def on_disk(monkeypatch) -> None:
    """As if hardly anything could be held; pieces of a few documents."""
    monkeypatch.setattr(spool, "HELD", 100)
    monkeypatch.setattr("stickbreak.data.lines.PIECE_BYTES", 300)
    monkeypatch.setattr("stickbreak.data.document_formats.WORD_BYTES", 300)
    monkeypatch.setattr("stickbreak.data.counted.STEP", 50)


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("name", FORMATS)
def test_counts_in_files_are_those_in_memory(name, tmp_path):
    (tmp_path / name).write_text(FORMATS[name])
    found = sb.read_corpus(tmp_path / name)
    seen = COUNTS.sum(0) > 0
    assert is_on_disk(found.counts.data)
    assert is_on_disk(found.counts.indices)
    if name == "docs.txt":
        assert found.words == tuple(np.array(WORDS)[seen])
        np.testing.assert_array_equal(found.counts.toarray(), COUNTS[:, seen])
        known = sb.read_corpus(tmp_path / name, words=WORDS)
        np.testing.assert_array_equal(known.counts.toarray(), COUNTS)
    else:
        np.testing.assert_array_equal(found.counts.toarray(), COUNTS[:, : found.counts.shape[1]])
    assert found.counts.has_canonical_format
    assert (found.counts.data > 0).all()


@pytest.mark.usefixtures("on_disk")
def test_entries_in_any_order_are_held_until_the_end(tmp_path):
    header, lines = as_docword(COUNTS).split("\n")[:3], as_docword(COUNTS).split("\n")[3:-1]
    order = np.r_[np.arange(200), 200 + np.random.default_rng(0).permutation(len(lines) - 200)]
    (tmp_path / "docword.txt").write_text("\n".join([*header, *(lines[i] for i in order)]) + "\n")
    found = sb.read_corpus(tmp_path / "docword.txt")
    np.testing.assert_array_equal(found.counts.toarray(), COUNTS)


def test_words_given_twice_are_added_up_and_zeros_left_out(tmp_path):
    (tmp_path / "docs.ldac").write_text("3 1:2 0:1 1:3\n2 2:0 4:1\n")
    found = sb.read_corpus(tmp_path / "docs.ldac").counts
    assert found.toarray().tolist() == [[1, 5, 0, 0, 0], [0, 0, 0, 0, 1]]
    assert found.nnz == 3


def test_renumbered_words_are_in_order():
    made, rng = CountedDocuments(), np.random.default_rng(0)
    for row in COUNTS:
        symbols = np.flatnonzero(row)
        made.add(np.array([len(symbols)]), symbols, row[symbols])
    rank = rng.permutation(30)
    found = made.renumbered(rank.__getitem__, 30)
    np.testing.assert_array_equal(found.toarray()[:, rank], COUNTS)
    assert found.has_sorted_indices


@pytest.mark.usefixtures("on_disk")
def test_batches_have_the_vocabularies_that_they_have_in_memory(tmp_path):
    (tmp_path / "docs.ldac").write_text(FORMATS["docs.ldac"])
    counts = sb.read_corpus(tmp_path / "docs.ldac", n_words=30).counts
    large, small = Documents.from_counts(counts), Documents.from_counts(COUNTS)
    for a, b in zip(large.batches(4), small.batches(4), strict=True):
        assert is_on_disk(a.rows)
        np.testing.assert_array_equal(a.rows, b.rows)
        np.testing.assert_array_equal(a.symbols, b.symbols)
        np.testing.assert_array_equal(a.repeats, b.repeats)
    rows = np.concatenate([batch.rows for batch in large.in_order()])
    np.testing.assert_array_equal(rows, small.rows)
    assert sum(part.n_spans for part in large.parts()) == large.n_spans


def test_symbols_in_several_columns_keep_their_numbers():
    batch = Documents(np.array([[3, 5], [7, 5]]), offsets=np.array([0, 2])).whole()
    assert own_vocabulary(batch) is batch
    missing = Documents(np.array([[3], [-1]]), offsets=np.array([0, 2])).whole()
    assert own_vocabulary(missing) is missing


@pytest.mark.parametrize(
    "engine",
    [sb.MemoizedVB(n_batches=3), sb.StochasticVB(batch_size=20, max_iter=10, tol=1e-1)],
    ids=["memoized", "stochastic"],
)
@pytest.mark.filterwarnings("ignore::stickbreak.errors.ConvergenceWarning")
def test_fits_from_files_are_those_of_counts_in_memory(engine, tmp_path, monkeypatch):
    path = tmp_path / "docs.ldac"
    path.write_text(FORMATS["docs.ldac"])
    expected = sb.LatentDirichletAllocation(3, inference=engine, random_state=0)
    expected.fit(sb.read_corpus(path))
    monkeypatch.setattr(spool, "HELD", 100)
    found = sb.LatentDirichletAllocation(3, inference=engine, random_state=0).fit(path)
    np.testing.assert_array_equal(found.topic_word_, expected.topic_word_)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.transform(path), expected.transform(path))
    assert found.score(path) == expected.score(path)


@pytest.mark.usefixtures("on_disk")
def test_default_fits_streams_and_resumed_fits_take_files(tmp_path):
    path, saved = tmp_path / "docs.ldac", tmp_path / "fit.checkpoint"
    path.write_text(FORMATS["docs.ldac"])
    model = sb.HDPTopicModel(random_state=0).fit(path)
    assert isinstance(model._require_fitted().engine, sb.MemoizedVB)
    assert len(model.labels_) == 90
    stream = sb.LatentDirichletAllocation(3, random_state=0).partial_fit(path)
    assert stream.counts_.sum() == pytest.approx(COUNTS.sum())

    class Stop(sb.Callback):
        def on_lap(self, record) -> None:
            if record.lap == 3:
                raise KeyboardInterrupt

    def make(**more):
        saving = {"checkpoint": saved, "checkpoint_every": 0.0}
        engine = sb.MemoizedVB(n_batches=3, max_iter=30, tol=1e-9, memory_limit=0, **saving, **more)
        return sb.LatentDirichletAllocation(3, inference=engine, random_state=0)

    whole = make().fit(path)
    saved.unlink()
    with pytest.raises(KeyboardInterrupt):
        make(callbacks=(Stop(),)).fit(path)
    np.testing.assert_array_equal(make().resume(path).topic_word_, whole.topic_word_)
