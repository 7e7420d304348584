"""Files under attack: mutated model files, checkpoints and tables give one clear error or a result;
nothing runs, hangs or crashes.

The default suite drives 500 files of each kind through the command line, in a process that is
watched, and some inside this one, where nothing may be unpickled or run; `-m slow` tries thousands.
"""

from __future__ import annotations

import sys
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from estimator_cases import CASES, blobs
from fuzz.campaign import run_campaign
from fuzz.kinds import KINDS
from fuzz.mutations import data_files, mutate_data, mutate_model, npy_bytes, npz_bytes
from timing import time_limit

import stickbreak as sb

MODEL_FILES, DATA_FILES = 10_000, 2_000
LONGEST = 5.0  # seconds for one small file
FORBIDDEN = {
    "pickle.find_class",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "subprocess.Popen",
    "socket.connect",
}
X = blobs(40)

_seen: list[str] = []
_is_watching = False


def _is_numba() -> bool:
    """Whether numba is reading its own cache of compiled kernels, which it pickles."""
    frame = sys._getframe()
    while frame is not None and Path(frame.f_code.co_filename).parts[-3:] != (
        "numba",
        "core",
        "caching.py",
    ):
        frame = frame.f_back
    return frame is not None


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if _is_watching and event in FORBIDDEN and not _is_numba():
        _seen.append(f"{event} {arguments}")


sys.addaudithook(_audit)  # cannot be removed, only told to look away


@contextmanager
def watched() -> Iterator[list[str]]:
    """What is unpickled or run meanwhile."""
    global _is_watching
    _seen.clear()
    _is_watching = True
    try:
        yield _seen
    finally:
        _is_watching = False


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[bytes]:
    """Saved models: all kinds of families and priors, labels, weights, names."""
    folder = tmp_path_factory.mktemp("models")
    made = [
        sb.Mixture(2, random_state=0).fit(X),
        sb.DPMixture(
            3, family="diagonal", inference=sb.MemoizedVB(n_batches=2), random_state=0
        ).fit(X),
        sb.Mixture(2, family="multinomial", random_state=0).fit(CASES["multinomial"].rows),
        sb.DPMixture(3, family="categorical", random_state=0).fit(CASES["categorical"].rows),
        sb.Mixture(2, family="poisson", inference="em", random_state=0).fit(CASES["poisson"].rows),
        sb.Mixture(2, family="bernoulli", random_state=0).fit(
            CASES["bernoulli"].rows, labels=np.arange(150) % 3 - 1
        ),
        sb.Mixture(2, family=sb.FixedVarianceGaussian(variance=[1.0, 2.0]), random_state=0).fit(X),
        sb.Mixture(2, family="zero-mean", random_state=0).fit(X),
    ]
    payloads = []
    for i, model in enumerate(made):
        model.save(folder / f"{i}.stickbreak")
        payloads.append((folder / f"{i}.stickbreak").read_bytes())
        use(sb.load(folder / f"{i}.stickbreak"))
    return payloads


def use(model) -> None:
    """What a reader of the file would do next."""
    rows = np.zeros((3, model.n_features_in_))
    (
        model.predict(rows),
        model.predict_proba(rows),
        model.score(rows),
        model.sample(2, random_state=0),
    )
    assert model.weights_.shape == (model.n_components_,)
    repr(model), model.posterior_, model.trace_.bound


def is_one_line(error: ValueError) -> bool:
    return "\n" not in str(error) and len(str(error)) < 1000


def attack_model(path: Path, payload: bytes) -> str:
    """How a mutated model ends: refused when loaded, or used. Anything else is an error."""
    path.write_bytes(payload)
    with time_limit(LONGEST), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = sb.load(path)
        except sb.ModelFileError as error:
            return "refused" if is_one_line(error) else "refused at length"
        try:
            use(model)
        except ValueError as error:
            if "too far for squares from the rows of the fit" not in str(error):
                return f"refused when used: {error}"  # such a model is sound, and far away
    return "used"


def run_models(models: list[bytes], numbers: range, folder: Path) -> Counter[str]:
    """Every file is loaded and used; the outcomes, counted. A failure names the number that makes
    the file again.
    """
    outcomes: Counter[str] = Counter()
    with watched() as seen:
        for number in numbers:
            try:
                outcomes[attack_model(folder / "m.stickbreak", mutate_model(models, number))] += 1
            except BaseException as error:
                error.add_note(f"mutate_model number {number}")
                raise
    assert seen == []
    return outcomes


def run_data(numbers: range, folder: Path) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    marker = folder / "unpickled"
    files = data_files(str(marker))
    with watched() as seen:
        for number in numbers:
            name, payload = mutate_data(files, number)
            path = folder / name
            path.write_bytes(payload)
            try:
                with time_limit(LONGEST):
                    table = sb.open_table(path)
                    assert table.rows.ndim == 2
                    np.asarray(table.rows).sum()
                    outcomes["read"] += 1
            except ValueError as error:
                outcomes["refused" if is_one_line(error) else f"refused at length: {number}"] += 1
            except BaseException as error:
                error.add_note(f"mutate_data number {number}, {name}")
                raise
            finally:
                path.unlink()
    assert seen == []
    assert not marker.exists()
    return outcomes


def test_mutated_models_are_refused_or_harmless(models, tmp_path):
    outcomes = run_models(models, range(0, MODEL_FILES, 129), tmp_path)
    assert outcomes["refused"] > 38
    assert set(outcomes) <= {"refused", "used"}
    assert [p.name for p in tmp_path.iterdir()] == ["m.stickbreak"]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_mutated_models(models, part, tmp_path):
    size = MODEL_FILES // 10
    outcomes = run_models(models, range(part * size, (part + 1) * size), tmp_path)
    assert sum(outcomes.values()) == size
    assert outcomes["refused"] > size // 2
    assert set(outcomes) <= {"refused", "used"}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # sums of numbers that were made large
def test_mutated_tables_are_refused_or_read(tmp_path):
    outcomes = run_data(range(0, DATA_FILES, 7), tmp_path)
    assert set(outcomes) == {"refused", "read"}
    assert min(outcomes.values()) > 15
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_two_thousand_mutated_tables(tmp_path):
    outcomes = run_data(range(DATA_FILES), tmp_path)
    assert sum(outcomes.values()) == DATA_FILES
    assert set(outcomes) == {"refused", "read"}
    assert min(outcomes.values()) > 100


@pytest.mark.skipif(not Path("/proc").exists(), reason="the workers' memory is read there")
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_through_the_command_line(kind):
    """500 of each; `python -m tests.fuzz` tries as many as you like."""
    report = run_campaign(KINDS[kind], range(500))
    assert report.bad == []
    assert report.ends.total() == 500
    assert report.ends["refused"] > 75
    assert report.ends["answered"] > 7
    # when the file is read, not when it is used; another name of a column may be right
    assert report.ends["refused later"] <= 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="the workers' memory is read there")
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_more_through_the_command_line(kind):
    assert run_campaign(KINDS[kind], range(500, 3500)).bad == []


# ---- on purpose ----------------------------------------------------------------------------------


def test_an_archive_that_claims_more_than_there_is_room_for(tmp_path):
    """A forged size in the directory of the archive agrees with a forged header; the disk is asked
    before anything is written.
    """
    header = npy_bytes(np.zeros((1, 1)))[:128].replace(b"(1, 1)", b"(%d, 1)" % 10**15, 1)
    header = header.replace(b" " * 15 + b"\n", b"\n")
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "x.npy",
            header[:8] + (len(header) - 10).to_bytes(2, "little") + header[10:] + b"\0" * 1000,
        )
        archive.getinfo("x.npy").file_size = 8 * 10**15 + 1000
    with (
        time_limit(LONGEST),
        pytest.raises(
            ValueError,
            match=r"claims|temporary space|damaged|not "
            r"an array",
        ),
    ):
        sb.open_table(path)


def test_a_small_archive_of_a_large_table_takes_little_memory(tmp_path):
    """32 MB of zeros in 32 kB: read through, in pieces."""
    import tracemalloc

    path = tmp_path / "zeros.npz"
    path.write_bytes(npz_bytes(zipfile.ZIP_DEFLATED, x=npy_bytes(np.zeros((1_000_000, 4)))))
    assert path.stat().st_size < 50_000
    tracemalloc.start()
    try:
        table = sb.open_table(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert table.rows.shape == (1_000_000, 4)
    assert peak < 20e6  # some pieces of 4 MB


@pytest.mark.parametrize("name", ["rows.npy", "rows.npz", "rows.csv", "m.stickbreak"])
def test_pickles_are_never_opened(name, tmp_path):
    import pickle

    from fuzz.mutations import Bomb

    marker, path = tmp_path / "unpickled", tmp_path / name
    path.write_bytes(pickle.dumps(Bomb(str(marker))))
    with watched() as seen, pytest.raises(ValueError, match=name):
        sb.load(path) if name.endswith("stickbreak") else sb.open_table(path)
    assert seen == []
    assert not marker.exists()


def test_the_trap_works(tmp_path):
    """The marker and the watch both see an unpickled object: silence above means that there was
    none.
    """
    import pickle

    from fuzz.mutations import Bomb

    payload = pickle.dumps(Bomb(str(tmp_path / "unpickled")))
    with watched() as seen:
        pickle.loads(payload)
    assert (tmp_path / "unpickled").exists() or sys.platform == "win32"
    assert len(seen) == 2


@pytest.mark.parametrize(
    "content", ["a,b\n1,2\n", "", "{}", "hello " * 1000], ids=["csv", "empty", "json", "text"]
)
def test_files_of_other_kinds_are_called_by_their_name(content, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text(content)
    with pytest.raises(sb.ModelFileError, match=r"notes.txt is (not a stickbreak file|damaged)"):
        sb.load(path)
