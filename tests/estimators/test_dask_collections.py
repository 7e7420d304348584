"""dask arrays and data frames: the same bits as shards and tables, read where they are held."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import cluster

import stickbreak as sb
from stickbreak.data import batches

da = pytest.importorskip("dask.array", reason="needs the extra dask")

RNG = np.random.default_rng(0)
X = RNG.choice([-5.0, 0.0, 5.0], (1200, 1)) + RNG.standard_normal((1200, 2))
LENGTHS = [30] * 40
SIZES = (300, 150, 450, 300)
pytestmark = pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster(2, is_current=False) as found:
        yield found


@pytest.fixture(autouse=True)
def small_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "SHARD_LANE_ROWS", 75)
    monkeypatch.setattr(batches, "LANE_ROWS", 75)


def mixture(rows: Any, **more: Any) -> Any:
    engine = sb.BatchVB(max_iter=3)
    return sb.Mixture(3, inference=engine, random_state=0, **more).fit(rows)


def chain(rows: Any, **where: Any) -> Any:
    return sb.HMM(3, max_iter=3, random_state=0).fit(rows, **where)


def contents(model: Any) -> Any:
    fitted = model._require_fitted()
    counts = {name: fitted.counts[name].tobytes() for name in fitted.counts}
    return counts, [(lap.bound, lap.log_z) for lap in model.trace_.laps]


def in_files(folder: Path) -> Any:
    for i, part in enumerate(np.split(X, np.cumsum(SIZES)[:-1])):
        np.save(folder / f"rows{i}.npy", part)
    return sb.open_shards(str(folder / "*.npy"))


def as_array(**more: Any) -> Any:
    return da.from_array(X, chunks=(SIZES, 1), **more)  # chunks of columns are joined


def as_frame(n_cut: int = 0) -> Any:
    """Partitions of SIZES rows with ids; the first is cut `n_cut` rows early."""
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe", reason="needs pyarrow")
    from dask import delayed

    ids = np.repeat([f"s{i}" for i in range(40)], LENGTHS)
    whole = pd.DataFrame({"a": X[:, 0], "who": ids, "b": X[:, 1]})
    cuts = np.cumsum(SIZES)[:-1] - np.array([n_cut, 0, 0])
    parts = [whole.iloc[i] for i in np.split(np.arange(len(X)), cuts)]
    return dd.from_delayed([delayed(part) for part in parts], meta=whole.iloc[:0])


def test_arrays_files_and_memory_have_the_same_bits(client: Any, tmp_path: Path) -> None:
    files = contents(mixture(in_files(tmp_path)))
    assert contents(mixture(as_array())) == files  # read here
    with sb.workers(client):
        assert contents(mixture(as_array())) == files
        assert contents(mixture(in_files(tmp_path))) == files
    assert contents(mixture(X)) == files  # cut into the same 16 lanes


def test_the_current_client_is_used(client: Any, tmp_path: Path) -> None:
    files = contents(mixture(in_files(tmp_path)))
    with client.as_current():
        model = mixture(as_array(), init="k-means||")
        assert model.labels_.shape == (len(X),)
    assert contents(model) == contents(mixture(in_files(tmp_path), init="k-means||"))
    assert contents(mixture(as_array())) == files


def test_partitions_are_computed_once_and_let_go(client: Any, tmp_path: Path) -> None:
    from dask import delayed

    def make(at: int) -> Any:
        with (tmp_path / str(at)).open("a") as file:
            file.write("computed")
        return X[300 * at : 300 * at + 300]

    parts = [da.from_delayed(delayed(make)(i), (300, 2), X.dtype) for i in range(4)]
    with sb.workers(client):
        model = mixture(da.concatenate(parts))
        model.labels_  # noqa: B018
    assert [(tmp_path / str(at)).read_text() for at in range(4)] == ["computed"] * 4
    del model
    gc.collect()
    client.nthreads()  # the loop of the client lets go of futures before it answers
    assert not client.futures


def test_frames_of_sequences_have_the_same_bits(client: Any, tmp_path: Path) -> None:
    shards = in_files(tmp_path)
    files = contents(chain(shards, lengths=LENGTHS))
    assert contents(chain(as_frame(), sequence_id="who")) == files
    with sb.workers(client):
        found = chain(as_frame(), sequence_id="who")
        assert contents(found) == files
        assert contents(chain(as_array(), lengths=LENGTHS)) == files
        assert list(found.feature_names_in_) == ["a", "b"]


def test_empty_partitions_and_unknown_sizes_work(client: Any, tmp_path: Path) -> None:
    files = contents(mixture(in_files(tmp_path)))
    frame = as_frame()[["a", "b"]]
    unknown = frame.to_dask_array()  # rows of chunks are not known
    assert np.isnan(unknown.chunks[0][0])
    empty = da.concatenate([as_array(), da.zeros((0, 2))])
    with sb.workers(client):
        for rows in (frame, unknown, empty):
            assert contents(mixture(rows)) == files
    assert contents(mixture(empty)) == files


@pytest.mark.parametrize("here", [True, False])
def test_sequences_that_partitions_cut_are_named(client: Any, here: bool) -> None:
    def both() -> None:
        with pytest.raises(ValueError, match=r"sequence 's9' is in partition 0 and again in .* 1"):
            chain(as_frame(n_cut=5), sequence_id="who")
        with pytest.raises(ValueError, match=r"sequence 7 goes on after partition 0 .*row 300"):
            chain(as_array(), lengths=[40] * 30)

    if here:
        both()
    else:
        with sb.workers(client):
            both()


def test_columns_that_hold_no_numbers_are_named() -> None:
    with pytest.raises(ValueError, match=r"column 'who' of the dask DataFrame holds \S+, not num"):
        mixture(as_frame())
    with pytest.raises(ValueError, match="has no column 'id', which sequence_id names"):
        chain(as_frame(), sequence_id="id")
    with pytest.raises(ValueError, match="holds <U1, not numbers"):
        mixture(da.from_array(np.array([["a", "b"]] * 8)))
    with pytest.raises(ValueError, match=r"shape \(8,\); expected a table"):
        mixture(da.zeros(8))
    with pytest.raises(ValueError, match="sequence_id of a dask array is not read by partitions"):
        chain(as_array(), sequence_id=np.repeat(np.arange(40), 30))


@pytest.mark.parametrize("here", [True, False])
def test_other_dtypes_of_a_partition_are_named(client: Any, here: bool) -> None:
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe", reason="needs pyarrow")
    from dask import delayed

    parts = [pd.DataFrame({"a": [1.0, 2.0]}), pd.DataFrame({"a": [1, 2]})]
    frame = dd.from_delayed([delayed(p) for p in parts], meta=parts[0], verify_meta=False)
    told = r"partition 1 of the dask DataFrame holds int64 in column 'a'"
    if here:
        with pytest.raises(ValueError, match=told):
            mixture(frame)
    else:
        with sb.workers(client), pytest.raises(ValueError, match=told):
            mixture(frame)


def test_executors_do_not_read_collections() -> None:
    with sb.workers(lambda: ThreadPoolExecutor(2)), pytest.raises(ValueError, match="workers of"):
        mixture(as_array())


# ------------------------------------------------------------------------------------ answers

ANSWERS = ("predict", "predict_proba", "score_samples")


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_about_arrays_are_lazy_and_the_same(client: Any, name: str) -> None:
    model, states = mixture(X), chain(X, lengths=LENGTHS)
    lazy = getattr(model, name)(as_array())
    of_chains = getattr(states, name)(as_array(), lengths=LENGTHS)
    assert isinstance(lazy, da.Array)
    assert isinstance(of_chains, da.Array)
    assert lazy.chunks[0] == of_chains.chunks[0] == SIZES
    expected = getattr(model, name)(X), getattr(states, name)(X, lengths=LENGTHS)
    for found, values in zip((lazy, of_chains), expected, strict=True):
        assert found.dtype == values.dtype
        assert found.shape == values.shape
        np.testing.assert_array_equal(found.compute(scheduler="sync"), values)
    with client.as_current():
        np.testing.assert_array_equal(lazy.compute(), expected[0])
    assert model.score(as_array()) == model.score(X)


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_about_frames_are_lazy_and_keep_the_index(name: str) -> None:
    frame = as_frame()
    model, states = mixture(frame[["a", "b"]]), chain(frame, sequence_id="who")
    whole = frame.compute()
    for fitted, rows, kept, where in (
        (model, frame[["a", "b"]], whole[["a", "b"]], {}),
        (states, frame, whole, {"sequence_id": "who"}),
    ):
        lazy = getattr(fitted, name)(rows, **where)
        assert lazy.npartitions == 4
        found = lazy.compute(scheduler="sync")
        np.testing.assert_array_equal(found.to_numpy(), getattr(fitted, name)(kept, **where))
        assert found.index.equals(whole.index)


def test_answers_about_unknown_and_empty_chunks(tmp_path: Path) -> None:
    model = mixture(X)
    unknown = as_frame()[["a", "b"]].to_dask_array()
    empty = da.concatenate([as_array(), da.zeros((0, 2))])
    for rows in (unknown, empty):
        found = model.predict_proba(rows).compute(scheduler="sync")
        np.testing.assert_array_equal(found, model.predict_proba(X))
    states = chain(X, lengths=LENGTHS)
    with pytest.raises(ValueError, match=r"unknown size.*compute_chunk_sizes"):
        states.predict(unknown, lengths=LENGTHS)
    with pytest.raises(ValueError, match=r"sequence 7 goes on after partition 0 .*row 300"):
        states.predict(as_array(), lengths=[40] * 30)
    with pytest.raises(ValueError, match="lengths sums to 30 but X has 1200 rows"):
        states.predict(as_array(), lengths=[30])
    with pytest.raises(ValueError, match="X has 3 features, but Mixture is expecting 2"):
        model.predict(da.zeros((5, 3)))
    with pytest.raises(ValueError, match="out= is for shards; predict of a dask collection"):
        model.predict(as_array(), out=tmp_path)


def test_shares_of_topics_are_lazy() -> None:
    words = RNG.poisson(0.6, (60, 20)) + np.eye(60, 20, dtype=int)
    topics = sb.LatentDirichletAllocation(3, random_state=0, max_iter=3).fit(words)
    for name in ("transform", "predict", "score_samples"):
        found = getattr(topics, name)(da.from_array(words, chunks=(25, 20)))
        values = getattr(topics, name)(words)
        np.testing.assert_allclose(found.compute(scheduler="sync"), values, rtol=1e-12)


# ------------------------------------------------------------------------------------ out=


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_about_shards_are_written_by_those_who_read_them(
    client: Any, tmp_path: Path, name: str
) -> None:
    (tmp_path / "in").mkdir()
    shards, model, states = in_files(tmp_path / "in"), mixture(X), chain(X, lengths=LENGTHS)
    expected = getattr(model, name)(X), getattr(states, name)(X, lengths=LENGTHS)
    here = getattr(model, name)(shards, out=tmp_path / "here")
    with sb.workers(client):
        there = getattr(model, name)(shards, out=tmp_path / "there")
        of_chains = getattr(states, name)(shards, lengths=LENGTHS, out=str(tmp_path / "chains"))
    for paths, values in ((here, expected[0]), (there, expected[0]), (of_chains, expected[1])):
        assert [path.name for path in paths] == [f"rows{i}.npy" for i in range(4)]
        assert sorted(paths[0].parent.iterdir()) == paths  # and nothing else
        np.testing.assert_array_equal(np.concatenate([np.load(path) for path in paths]), values)


def test_folders_that_cannot_take_answers_are_named(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    shards, model = in_files(tmp_path), mixture(X)
    with pytest.raises(ValueError, match="holds the shards themselves"):
        model.predict(shards, out=tmp_path)
    with pytest.raises(ValueError, match="out= is for shards: give predict what open_shards"):
        model.predict(X, out=tmp_path / "out")
    np.save(tmp_path / "other" / "rows0.npy", X)
    twice = sb.open_shards([tmp_path / "rows0.npy", tmp_path / "other" / "rows0.npy"])
    with pytest.raises(ValueError, match="2 of them are called rows0"):
        model.predict(twice, out=tmp_path / "out")


@pytest.mark.slow
def test_partitions_of_a_dead_worker_are_computed_again(tmp_path: Path) -> None:
    here = contents(mixture(in_files(tmp_path)))

    class Kill(sb.Callback):
        def on_lap(self, record: Any) -> None:
            if record.lap == 1:
                worker = next(iter(client.nthreads()))
                os.kill(client.run(os.getpid, workers=[worker])[worker], signal.SIGKILL)

    engine = sb.BatchVB(max_iter=3, callbacks=[Kill()])
    with cluster(2, apart=True, silence_logs=50) as client, sb.workers(client):
        model = sb.Mixture(3, inference=engine, random_state=0).fit(as_array())
    assert contents(model) == here


def test_models_that_need_all_rows_are_fitted_in_memory(client: Any) -> None:
    words = RNG.poisson(0.6, (60, 20)) + np.eye(60, 20, dtype=int)
    lags = sb.AutoregressiveGaussian()
    cases = (
        (lambda rows: sb.HMM(2, family=lags, max_iter=2, random_state=0).fit(rows), X[:300]),
        (lambda rows: sb.LatentDirichletAllocation(2, max_iter=2, random_state=0).fit(rows), words),
        (
            lambda rows: sb.HDPMixture(2, max_iter=2, random_state=0).fit(rows, lengths=[30] * 10),
            X[:300],
        ),
    )
    with client.as_current():
        for fit, rows in cases:
            one, two = (fit(each) for each in (da.from_array(rows, chunks=(150, -1)), rows))
            assert one.lower_bound_ == pytest.approx(two.lower_bound_, rel=1e-12)
