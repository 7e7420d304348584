"""Checkpoints that are whole files and say wrong things: one error, before a kernel sees them."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import stickbreak as sb
from stickbreak import persist
from stickbreak.persist import read_file, write_file

MOVES = (sb.Birth(n_newborn=3, n_passes=5), sb.Merge(), sb.Delete(n_passes=5))
rng = np.random.default_rng(0)
BLOBS = 9.0 * (np.arange(60) % 3)[:, None] * [1.0, -1.0] + rng.normal(size=(60, 2))
COUNTS = rng.poisson(np.where((np.arange(40) % 2)[:, None], [5, 1, 1, 2, 0], [1, 4, 3, 0, 2]))
# documents of their own words: batches count these alone
WORDS = sparse.csr_array(np.kron(np.eye(4), COUNTS[:10]).astype(float))


class Stop(sb.Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, info: Any) -> None:
        if info.step == self.step:
            raise InterruptedError


def stopped(path: Path, model: Any, X: Any, step: int, **fit: Any) -> None:
    """A fit that ends in the middle of a lap, with its checkpoint."""
    engine = model.inference
    engine.set_params(checkpoint=path, checkpoint_every=0.0, callbacks=(Stop(step),))
    with pytest.raises(InterruptedError):
        model.fit(X, **fit)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, Any, Any]]:
    """Checkpoints by name: content, data, arguments of `fit`."""
    folder = tmp_path_factory.mktemp("checkpoints")
    memoized = lambda n, **own: sb.MemoizedVB(n_batches=n, max_iter=4, tol=0.0, **own)
    labels = np.where(np.arange(60) < 6, np.arange(60) % 3, -1)
    cases = {
        "moves": (
            sb.DPMixture(5, random_state=1, inference=memoized(3, moves=MOVES)),
            BLOBS, 5, {},
        ),
        "words": (
            sb.DPMixture(3, family="multinomial", random_state=0, inference=memoized(4)),
            WORDS, 6, {},
        ),
        "topics": (sb.LatentDirichletAllocation(2, random_state=0, inference=memoized(2)),
                   COUNTS, 4, {}),
        "labels": (sb.Mixture(3, random_state=0, inference=memoized(2)), BLOBS, 4,
                   {"labels": labels}),
    }  # fmt: skip
    made = {}
    for name, (model, X, step, fit) in cases.items():
        stopped(folder / name, model, X, step, **fit)
        made[name] = (folder / name).read_bytes(), X, fit
    return made


def first(names: Any, start: str) -> str:
    return next(name for name in sorted(names) if name.startswith(start))


def change(header: dict[str, Any], place: str, value: Any) -> None:
    *path, last = place.split("/")
    for key in path:
        header = header[int(key) if isinstance(header, list) else key]
    header[int(last) if isinstance(header, list) else last] = value  # type: ignore[call-overload]


def merge_at(header: dict[str, Any]) -> int:
    kinds = [kind for kind, _ in header["moves"]["proposals"]]
    return kinds.index("merge")


Break = Callable[[dict[str, Any], dict[str, Any]], None]


def shape(start: str, *new: int) -> Break:
    def act(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[first(arrays, start)] = np.zeros(new)

    return act


def value(start: str, number: float, dtype: str = "f8") -> Break:
    def act(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        name = first(arrays, start)
        arrays[name] = arrays[name].astype(dtype)
        arrays[name].reshape(-1)[0] = number

    return act


def entry(place: str, new: Any) -> Break:
    return lambda header, arrays: change(header, place, new)


def merge(key: str, new: Any) -> Break:
    def act(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        header["moves"]["proposals"][merge_at(header)][1][key] = new

    return act


def every_merge(key: str, new: Any) -> Break:
    def act(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        for kind, proposal in header["moves"]["proposals"]:
            if kind == "merge":
                proposal[key] = new(proposal[key])

    return act


BROKEN: dict[str, tuple[str, Break]] = {
    "shape of the total": ("moves", shape("total/moments", 2, 2)),
    "more components": ("moves", entry("ids", [0, 1, 2, 3, 4, 5, 6, 7, 8])),
    "float32": ("moves", value("total/moments", 1.0, "f4")),
    "not finite": ("moves", value("total/moments", np.nan)),
    "negative": ("moves", value("total/share", -1.0)),
    "sign of a batch": ("moves", value("memory/0/share", -1.0)),
    "shape of a batch": ("moves", shape("memory/0/moments", 1, 6)),
    "shape of a side": ("moves", shape("total.side.", 1, 1)),
    "meaning of a field": ("moves", entry("total/layout/share/axes", [None])),
    "pairs beyond the components": ("moves", every_merge(
        "pairs", lambda pairs: [[0, 10**6] for _ in pairs])),
    "a pair of one": ("moves", every_merge("pairs", lambda pairs: [[1, 1] for _ in pairs])),
    "pair that is not watched": ("moves", merge("pair", 10**6)),
    "slots beyond": ("moves", merge("slots", [0, 10**6])),
    "gain": ("moves", merge("expected", float("nan"))),
    "gain without end": ("moves", merge("expected", float("inf"))),
    "planned for others": ("moves", entry("moves/planned_ids", [7, 8, 9])),
    "failures": ("moves", entry("moves/attempts", [["birth", [0], 10**13, 1, [1.0]]])),
    "failures of no size": ("moves", entry("moves/attempts", [["birth", [0], 1, 1, []]])),
    "a lap ahead": ("moves", entry("lap", 3)),
    "a position beyond": ("moves", entry("position", 3)),
    "more steps than numbers": ("moves", entry("n_steps", 2**63)),
    "another number of batches": ("moves", entry("n_batches", 2)),
    "next id": ("moves", entry("next_id", 0)),
    "a stranger has settled": ("moves", entry("settled", [99])),
    "visits": ("moves", entry("visits", [[float("inf"), 1, 0, 0], [0, 0, 0, 0]])),
    "bound": ("moves", entry("total/local_bound", float("inf"))),
    "no name of an estimator": ("moves", entry("settings/estimator", {})),
    "a limit that is text": ("moves", entry(
        "settings/arguments/params/inference/params/memory_limit", "much")),
    "names that are no text": ("moves", entry("settings/columns", [[], {}])),
    "a seed below zero": ("moves", entry("settings/seed", -1)),
    "units": ("moves", entry("total/n_units", -5)),
    "a symbol beyond": ("words", value("memory/0.index", 10**6, "i8")),
    "symbols of another shape": ("words", shape("memory/0.index", 1)),
    "words of a batch": ("words", shape("memory/0/emission", 9, 3)),
    "values of documents": ("topics", shape("memory/0/warm/counts", 1, 2)),
    "values of no document": ("topics", value("memory/0/warm/counts", np.nan)),
    "fewer legal sets": ("labels", shape("params/legal", 1, 3)),
    "legal sets of others": ("labels", shape("params/legal", 4, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_checkpoint_that_says_wrong_things_is_refused(
    name: str, files: dict[str, tuple[bytes, Any, Any]], tmp_path: Path
) -> None:
    which, break_it = BROKEN[name]
    payload, X, fit = files[which]
    path = tmp_path / "fit.checkpoint"
    path.write_bytes(payload)
    header, arrays = read_file(path, "checkpoint")
    header, own = json.loads(json.dumps(header)), dict(arrays.items())
    break_it(header, own)
    write_file(path, "checkpoint", header, own)
    with pytest.raises((sb.CheckpointError, sb.ModelFileError), match=r"fit\.checkpoint") as caught:
        sb.resume(path, X, **fit)
    assert "\n" not in str(caught.value)


def test_what_is_refused_above_is_resumed_unchanged(
    files: dict[str, tuple[bytes, Any, Any]], tmp_path: Path
) -> None:
    for payload, X, fit in files.values():
        (tmp_path / "c").write_bytes(payload)
        with pytest.warns(sb.ConvergenceWarning):
            assert np.isfinite(sb.resume(tmp_path / "c", X, **fit).lower_bound_)


def test_a_merge_that_is_unlikely_to_gain_is_resumed(
    files: dict[str, tuple[bytes, Any, Any]], tmp_path: Path
) -> None:
    """A component without a row is proposed with a score of -inf."""
    payload, X, fit = files["moves"]
    path = tmp_path / "c"
    path.write_bytes(payload)
    header, arrays = read_file(path, "checkpoint")
    header, own = json.loads(json.dumps(header)), dict(arrays.items())
    merge("expected", -np.inf)(header, own)
    write_file(path, "checkpoint", header, own)
    with pytest.warns(sb.ConvergenceWarning):
        assert np.isfinite(sb.resume(path, X, **fit).lower_bound_)


# ---- one file, several writers -------------------------------------------------------------------


def test_a_checkpoint_is_read_from_one_file(
    files: dict[str, tuple[bytes, Any, Any]], tmp_path: Path
) -> None:
    """Another one takes its name in the middle: what was begun is read to its end."""
    path, other = tmp_path / "c", tmp_path / "other"
    path.write_bytes(files["moves"][0])
    other.write_bytes(files["words"][0])
    header, arrays = read_file(path, "checkpoint")
    os.replace(other, path)
    assert all(arrays[name].shape is not None for name in arrays)
    assert "total/moments" in arrays
    assert "moments" in header["total"]["layout"]


def test_readers_never_see_half_of_two_checkpoints(
    files: dict[str, tuple[bytes, Any, Any]], tmp_path: Path
) -> None:
    path, done = tmp_path / "c", threading.Event()
    path.write_bytes(files["moves"][0])

    def replace_again_and_again() -> None:
        payloads = [files["moves"][0], files["words"][0]]
        for i in range(10**6):
            if done.is_set():
                return
            (tmp_path / "new").write_bytes(payloads[i % 2])
            os.replace(tmp_path / "new", path)

    writer = threading.Thread(target=replace_again_and_again)
    writer.start()
    try:
        for _ in range(200):
            read_file(path, "checkpoint")  # any error fails the test
    finally:
        done.set()
        writer.join()


def test_resume_reads_its_checkpoint_once(
    files: dict[str, tuple[bytes, Any, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload, X, fit = files["moves"]
    (tmp_path / "c").write_bytes(payload)
    read, real = [], persist.read_file

    def counted(path: Any, kind: str) -> Any:
        read.append(path)
        return real(path, kind)

    monkeypatch.setattr("stickbreak.inference.checkpoints.read_file", counted)
    with pytest.warns(sb.ConvergenceWarning):
        sb.resume(tmp_path / "c", X, **fit)
    assert len(read) == 1


# ---- the checkpoint of another fit ---------------------------------------------------------------


def fit_with(path: Path, n: int = 2, X: Any = BLOBS, seed: int | None = 0, **own: Any) -> Any:
    engine = sb.MemoizedVB(n_batches=2, max_iter=3, checkpoint=path, checkpoint_every=0.0, **own)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        return sb.Mixture(n, inference=engine, random_state=seed).fit(X)


def test_the_same_fit_may_be_run_again(tmp_path: Path) -> None:
    """As a script does that is run twice; its random seed may be another each time."""
    for seed in (0, 0, 1, None, None):
        fit_with(tmp_path / "c", seed=seed)


@pytest.mark.parametrize(
    ("own", "what"),
    [({"n": 3}, "n_components=2"), ({"X": BLOBS + 1.0}, "other data"), ({"tol": 0.1}, "tol=")],
)
def test_the_checkpoint_of_another_fit_is_not_overwritten(
    own: dict[str, Any], what: str, tmp_path: Path
) -> None:
    path = tmp_path / "fit.checkpoint"
    fit_with(path)
    before = path.read_bytes()
    with pytest.raises(sb.CheckpointError, match=rf"fit\.checkpoint.*{what}.*delete it"):
        fit_with(path, **own)
    assert path.read_bytes() == before
    path.unlink()
    fit_with(path, **own)


@pytest.mark.parametrize("payload", [b"", b"a,b\n1,2\n", b"\x93NUMPY" + bytes(99)])
def test_a_file_that_is_no_checkpoint_is_not_overwritten(payload: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(payload)
    with pytest.raises(ValueError, match=r"rows\.csv.*not overwritten.*another name"):
        fit_with(path)
    assert path.read_bytes() == payload


def test_a_model_is_not_overwritten_by_a_checkpoint(tmp_path: Path) -> None:
    sb.Mixture(2, random_state=0).fit(BLOBS).save(tmp_path / "m")
    with pytest.raises(ValueError, match=r"'model' file.*not overwritten"):
        fit_with(tmp_path / "m")


def test_another_fit_that_comes_later_is_not_overwritten_either(tmp_path: Path) -> None:
    """Two fits with one name: the first writes, the second says so and goes on without."""
    path, own = tmp_path / "c", tmp_path / "own"
    fit_with(path, n=3)
    payload = path.read_bytes()
    path.unlink()

    class Late(sb.Callback):
        def on_step(self, info: Any) -> None:
            if info.step == 3:
                own.write_bytes(payload)
                os.replace(own, path)

    with pytest.warns(sb.StickbreakWarning, match="another fit"):
        model = fit_with(path, callbacks=(Late(),))
    assert np.isfinite(model.lower_bound_)
    assert path.read_bytes() == payload


# ---- no path in a file ---------------------------------------------------------------------------


def test_files_say_nothing_of_where_they_were(tmp_path: Path) -> None:
    folder = tmp_path / "secret-folder"
    folder.mkdir()
    model = fit_with(folder / "c")
    model.save(tmp_path / "m")
    for path in (tmp_path / "m", folder / "c"):
        assert b"secret-folder" not in path.read_bytes()
    assert sb.load(tmp_path / "m").inference.checkpoint is None


def test_a_model_file_does_not_choose_where_fits_write(tmp_path: Path) -> None:
    """Also one of an earlier release, which holds the name of its checkpoint."""
    fit_with(tmp_path / "c").save(tmp_path / "m")
    header, arrays = read_file(tmp_path / "m", "model")
    for engine in (header["params"]["inference"], header["fitted"]["engine"]):
        engine["params"]["checkpoint"] = str(tmp_path / "elsewhere")
    write_file(tmp_path / "m", "model", header, dict(arrays.items()))
    loaded = sb.load(tmp_path / "m")
    assert loaded.inference.checkpoint is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        loaded.fit(BLOBS)
    assert not (tmp_path / "elsewhere").exists()
