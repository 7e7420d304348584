"""Documents in several files: the same bits as in memory, read by those who infer them."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import processes
from scipy import sparse

import stickbreak as sb
from stickbreak.data import batches, document_shards, picked_rows
from stickbreak.data.document_shards import DocumentFile
from stickbreak.errors import ShardError
from stickbreak.metrics import completion

RNG = np.random.default_rng(0)
WORDS = RNG.poisson(0.5, (90, 25)) + np.eye(90, 25, dtype=int)
WORDS[7] = 0  # a document without words
SIZES = (20, 40, 30)
pytestmark = pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")


def parts() -> list[Any]:
    return np.split(WORDS, np.cumsum(SIZES)[:-1])


def write(folder: Path, kind: str) -> str:
    """Files of a kind; words have the numbers of all."""
    for i, part in enumerate(parts()):
        rows = [[(int(v), int(row[v])) for v in np.flatnonzero(row)] for row in part]
        if kind == "npz":
            sparse.save_npz(folder / f"docs{i}.npz", sparse.csr_array(part))
        elif kind == "ldac":
            lines = [" ".join([str(len(r)), *(f"{v}:{n}" for v, n in r)]) for r in rows]
            (folder / f"docs{i}.ldac").write_text("\n".join(lines) + "\n")
        else:
            entries = [f"{d + 1} {v + 1} {n}" for d, r in enumerate(rows) for v, n in r]
            head = [str(len(rows)), "25", str(len(entries))]
            (folder / f"docword{i}.txt").write_text("\n".join([*head, *entries]) + "\n")
    return str(folder / "doc*")


@pytest.fixture(autouse=True)
def small_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes of 200 entries: 5 of each 1,000."""
    monkeypatch.setattr(batches, "SHARD_LANE_ROWS", 200)


@pytest.mark.parametrize("kind", ["npz", "ldac", "docword"])
def test_files_of_all_kinds_hold_the_documents(tmp_path: Path, kind: str) -> None:
    shards = sb.open_shards(write(tmp_path, kind), n_words=25)
    assert (shards.n_documents, shards.n_words) == (90, 25)
    documents = shards.documents
    found = sparse.csr_array(
        (np.asarray(documents.repeats), np.asarray(documents.rows)[:, 0], documents.offsets),
        shape=(90, 25),
    )
    np.testing.assert_array_equal(found.toarray(), WORDS)
    assert documents.n_observations == WORDS.sum()
    whole = documents.whole()
    for lane in whole.lanes():
        own = lane.loaded()
        assert lane.n_observations == own.n_observations
        assert len(lane.rows.files) == 1
        assert len(pickle.dumps(lane)) < 2_500


def fit(documents: Any, **more: Any) -> Any:
    engine = sb.BatchVB(max_iter=4, tol=0.0)
    how = {"init": "documents", "random_state": 0, "inference": engine, **more}
    return sb.LatentDirichletAllocation(3, **how).fit(documents)


def contents(model: Any) -> Any:
    counts = model._require_fitted().counts
    return {name: counts[name].tobytes() for name in counts}, model.lower_bound_


def test_the_bits_are_those_of_documents_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = sb.open_shards(write(tmp_path, "npz"))
    alone = [part.n_spans for part in shards.documents.whole().lanes()]
    with monkeypatch.context() as patch:
        patch.setattr(
            batches.Batch,
            "lanes",
            lambda self, *a, **k: (
                self._cut_at(np.cumsum(alone)[:-1]) if self.n_spans == 90 else [self]
            ),
        )
        here = contents(fit(sparse.csr_array(WORDS)))
        shares = fit(WORDS).transform(WORDS)
    model = fit(shards)
    assert contents(model) == here
    np.testing.assert_array_equal(model.transform(shards), shares)
    assert model.score(shards) == model.score(WORDS)
    np.testing.assert_allclose(model.score_samples(shards), model.score_samples(WORDS), rtol=1e-12)


@pytest.mark.parametrize("kind", ["npz", "ldac", "docword"])
def test_workers_read_the_files_that_are_opened(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern, readers = write(tmp_path, kind), []
    read = document_shards.read_words_of
    monkeypatch.setattr(
        document_shards,
        "read_words_of",
        lambda *given: readers.append(threading.current_thread()) or read(*given),
    )
    here = sb.open_shards(pattern).documents
    assert set(readers) == {threading.main_thread()}
    readers.clear()
    with sb.workers(lambda: ThreadPoolExecutor(2)):
        there = sb.open_shards(pattern).documents
        (tmp_path / "docs9.npz").write_text("no matrix")
        with pytest.raises(ShardError, match=r"docs9\.npz cannot be opened"):
            sb.open_shards([*sorted(tmp_path.iterdir())])
    assert threading.main_thread() not in readers
    assert there.rows.files == here.rows.files
    np.testing.assert_array_equal(there.offsets, here.offsets)
    assert there.n_observations == here.n_observations


@pytest.mark.parametrize("n_workers", [0, 2])
def test_answers_go_to_a_file_for_each_shard(
    n_workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = WORDS.copy()
    words[19] = 0  # the last document of the first file
    monkeypatch.setattr(sys.modules[__name__], "WORDS", words)
    shards = sb.open_shards(write(tmp_path, "npz"))
    model = fit(shards)
    place = sb.workers(lambda: ThreadPoolExecutor(2)) if n_workers else nullcontext()
    with place:
        for name in ("transform", "predict", "score_samples"):
            paths = getattr(model, name)(shards, out=tmp_path / name)
            assert [path.name for path in paths] == ["docs0.npy", "docs1.npy", "docs2.npy"]
            found = [np.load(path) for path in paths]
            assert tuple(map(len, found)) == SIZES
            np.testing.assert_array_equal(np.concatenate(found), getattr(model, name)(shards))
            assert sorted((tmp_path / name).iterdir()) == paths
        with pytest.raises(ValueError, match="out= is for shards"):
            model.transform(words, out=tmp_path / "other")
        with pytest.raises(ValueError, match="holds the shards themselves"):
            model.predict(shards, out=tmp_path)


def test_many_documents_are_taken_by_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = sb.open_shards(write(tmp_path, "npz"), n_words=25).documents
    chosen = np.sort(RNG.choice(np.flatnonzero(WORDS.any(1)), 40, replace=False))
    few = documents.take(chosen)
    assert not few.is_by_reference
    monkeypatch.setattr(picked_rows, "FEW_ROWS", 100)
    assert not documents.take(chosen).is_by_reference
    many = documents.pick(chosen)
    assert many.is_by_reference
    assert many.n_observations == few.n_observations == WORDS[chosen].sum()
    lanes = many.lanes()
    assert sum(lane.n_observations for lane in lanes) == few.n_observations
    assert len(pickle.dumps(lanes[0])) < 3_000
    loaded = many.loaded()
    np.testing.assert_array_equal(few.symbols[few.rows], loaded.rows)
    np.testing.assert_array_equal(few.repeats, loaded.repeats)
    np.testing.assert_array_equal(few.offsets, loaded.offsets)


def test_workers_score_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards, model = sb.open_shards(write(tmp_path, "npz")), fit(WORDS)
    monkeypatch.setattr(completion, "PART", 16)
    read, words = [], DocumentFile.words
    here = threading.current_thread
    monkeypatch.setattr(
        DocumentFile,
        "words",
        lambda self: read.append(here() is threading.main_thread()) or words(self),
    )
    with sb.workers(lambda: ThreadPoolExecutor(2)):
        assert model.score(shards) == model.score(WORDS)
    assert read
    assert not any(read)


@pytest.mark.parametrize("init", ["documents", "local", "collapsed"])
def test_workers_find_the_same_bits(tmp_path: Path, init: str) -> None:
    shards = sb.open_shards(write(tmp_path, "npz"))
    here = fit(shards, init=init)
    with sb.workers(lambda: ThreadPoolExecutor(2), lanes=2):
        there = fit(shards, init=init)
        np.testing.assert_array_equal(there.transform(shards), here.transform(shards))
    assert contents(there) == contents(here)
    np.testing.assert_array_equal(here.labels_, there.labels_)


@pytest.mark.parametrize(
    "engine",
    [
        sb.MemoizedVB(n_batches=2, max_iter=3, tol=0),
        sb.StochasticVB(batch_size=20, max_iter=2),
        sb.EM(max_iter=2, tol=0),
    ],
    ids=["memoized", "stochastic", "em"],
)
def test_engines_find_the_same_bits_on_workers(tmp_path: Path, engine: Any) -> None:
    shards = sb.open_shards(write(tmp_path, "npz"))
    here = contents(fit(shards, inference=engine))
    with sb.workers(lambda: ThreadPoolExecutor(2)):
        assert contents(fit(shards, inference=engine)) == here


def test_workers_in_processes_read_the_files(tmp_path: Path) -> None:
    shards = sb.open_shards(write(tmp_path, "ldac"))
    with processes(2) as executor, sb.workers(executor):
        there = contents(fit(shards))
    assert contents(fit(shards)) == there


def test_moves_run_on_shards_of_documents(tmp_path: Path) -> None:
    shards = sb.open_shards(write(tmp_path, "npz"))
    engine = sb.MemoizedVB(n_batches=2, max_iter=3, tol=0)
    how: dict[str, Any] = {"init": "local", "random_state": 0, "inference": engine}
    here = contents(sb.HDPTopicModel(4, **how).fit(shards))
    with sb.workers(lambda: ThreadPoolExecutor(2)):
        assert contents(sb.HDPTopicModel(4, **how).fit(shards)) == here


@pytest.mark.slow
def test_trials_of_many_documents_leave_them_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, made = np.random.default_rng(0), []
    words = rng.dirichlet(np.full(60, 0.1), 6)
    shares = rng.dirichlet(np.full(6, 0.2), 400)
    counts = rng.multinomial(80, shares @ words)
    for i in range(4):
        sparse.save_npz(tmp_path / f"docs{i}.npz", sparse.csr_array(counts[100 * i :][:100]))
    shards = sb.open_shards(str(tmp_path / "*.npz"))
    monkeypatch.setattr(picked_rows, "FEW_ROWS", 500)
    between = picked_rows.PickedRows.between
    monkeypatch.setattr(picked_rows.PickedRows, "between", lambda *a: made.append(1) or between(*a))
    engine = sb.MemoizedVB(n_batches=2, max_iter=60)
    how: dict[str, Any] = {"init": "local", "random_state": 0, "inference": engine}
    here = sb.HDPTopicModel(3, **how).fit(shards)
    assert made
    assert any(move.is_accepted for move in here.trace_.moves)
    with sb.workers(lambda: ThreadPoolExecutor(2), scratch=tmp_path):
        there = sb.HDPTopicModel(3, **how).fit(shards)
    assert contents(there) == contents(here)


def test_a_checkpoint_knows_the_documents(tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    pattern = write(tmp_path, "npz")
    before = sb.open_shards(pattern).documents.fingerprint()
    for i in range(3):
        (tmp_path / f"docs{i}.npz").rename(tmp_path / "moved" / f"docs{i}.npz")
    moved = sb.open_shards(str(tmp_path / "moved" / "*.npz"))
    assert moved.documents.fingerprint() == before
    sparse.save_npz(tmp_path / "moved" / "docs1.npz", sparse.csr_array(parts()[1] + 1))
    changed = sb.open_shards(str(tmp_path / "moved" / "*.npz"))
    assert changed.documents.fingerprint() != before


def test_what_is_no_shard_of_documents_is_named(tmp_path: Path) -> None:
    pattern = write(tmp_path, "ldac")

    def refuses(message: str, files: Any = pattern, error: Any = ValueError, **how: Any) -> None:
        with pytest.raises(error, match=message):
            sb.open_shards(files, **how)

    refuses("columns= is not for shards of documents", columns=["a"])
    refuses(
        r"docs0\.ldac, line 1: word 21 is not in a vocabulary of 20", n_words=20, error=ShardError
    )
    refuses("n_words=3 but `words` has 2 words", words=["a", "b"], n_words=3)
    np.save(tmp_path / "rows.npy", np.zeros((3, 2)))
    refuses("tables .* and documents", [tmp_path / "docs0.ldac", tmp_path / "rows.npy"])
    refuses("words= is not for shards of tables", str(tmp_path / "rows.npy"), words=["a"])
    (tmp_path / "text.txt").write_text("one two\nthree\n")
    refuses(r"text\.txt holds words as text", str(tmp_path / "text.txt"), ShardError)
    (tmp_path / "odd.npz").write_bytes(b"PK")
    refuses(r"odd\.npz is no sparse matrix", str(tmp_path / "odd.npz"), ShardError)
    sparse.save_npz(tmp_path / "minus.npz", sparse.csr_array([[1.0, -2.0]]))
    refuses(r"minus\.npz holds counts that are neg", str(tmp_path / "minus.npz"), ShardError)
    sparse.save_npz(tmp_path / "none.npz", sparse.csr_array((3, 2)))
    refuses(r"none\.npz has no words: leave it out", str(tmp_path / "none.npz"), ShardError)
    shards = sb.open_shards(pattern, n_words=25)
    model = fit(shards)
    with pytest.raises(ValueError, match="sample_weight= is not for shards"):
        model.fit(shards, sample_weight=np.ones(90))
    with pytest.raises(ValueError, match=r"X has 30 features, but .* is expecting 25"):
        model.transform(sb.open_shards(pattern, n_words=30))
    document_shards._OPEN.clear()
    os.truncate(tmp_path / "docs1.ldac", 50)
    with pytest.raises(ShardError, match=r"docs1\.ldac has 50 bytes"):
        fit(shards)
    assert isinstance(shards.documents.rows.files[0], DocumentFile)
