"""Model files: what is saved is what is loaded, every release reads the first format, and bad files
give one clear error.
"""

from __future__ import annotations

import ast
import errno
import json
import os
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from estimator_cases import CASES, NAMES, blobs
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

import stickbreak as sb
from stickbreak import persist
from stickbreak.persist import _digest

GOLDEN = Path(__file__).parent / "golden" / "mixture_v1.stickbreak"
X = blobs(60)
HUGE = 10**13


@pytest.fixture(scope="module")
def payload(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("model") / "m.stickbreak"
    sb.Mixture(2, random_state=0).fit(X).save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def counts_payload(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("model") / "m.stickbreak"
    sb.Mixture(2, family="multinomial", random_state=0).fit(CASES["multinomial"].rows).save(path)
    return path.read_bytes()


# ---- round trips ---------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cls", [sb.Mixture, sb.DPMixture])
def test_a_loaded_model_answers_with_the_same_bits(cls, name, tmp_path):
    case = CASES[name]
    model = cls(3, family=name, random_state=0).fit(case.rows)
    model.save(tmp_path / "m.stickbreak")
    loaded = sb.load(tmp_path / "m.stickbreak")
    assert type(loaded) is cls
    for method in ("score_samples", "predict", "predict_proba"):
        np.testing.assert_array_equal(
            getattr(loaded, method)(case.new), getattr(model, method)(case.new)
        )
    np.testing.assert_array_equal(
        loaded.sample(20, random_state=3)[0], model.sample(20, random_state=3)[0]
    )
    for attribute in (
        "weights_",
        "counts_",
        "component_ids_",
        "lower_bound_",
        "n_iter_",
        "converged_",
        "n_components_",
    ):
        np.testing.assert_array_equal(getattr(loaded, attribute), getattr(model, attribute))
    np.testing.assert_array_equal(loaded.trace_.bound, model.trace_.bound)
    assert loaded.get_params(deep=False) == model.get_params(deep=False)
    model.partial_fit(case.new)
    # and goes on alike
    np.testing.assert_array_equal(loaded.partial_fit(case.new).counts_, model.counts_)


@pytest.mark.parametrize("engine", ["batch", "memoized", "stochastic", "em", "hard-em"])
def test_the_fitted_rule_is_kept(engine, tmp_path):
    model = sb.Mixture(3, inference=engine, random_state=0).fit(X)
    model.save(tmp_path / "m.stickbreak")
    np.testing.assert_array_equal(
        sb.load(tmp_path / "m.stickbreak").predict_proba(X), model.predict_proba(X)
    )


def test_settings_labels_and_names_are_kept(tmp_path):
    family = sb.Gaussian(mean=np.array([1.0, 2.0]), covariance=np.eye(2), dof=7.0)
    inference = sb.MemoizedVB(n_batches=2, max_iter=50)
    model = sb.DPMixture(
        3,
        family=family,
        inference=inference,
        concentration=2.5,
        random_state=np.random.default_rng(0),
    )
    labels = np.where(X[:, 0] > 5, 1, -1)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model.fit(frame, labels=labels)
    model.save(tmp_path / "m.stickbreak")
    loaded = sb.load(tmp_path / "m.stickbreak")
    assert loaded.feature_names_in_.tolist() == ["a", "b"]
    assert repr(loaded.inference) == repr(inference)
    np.testing.assert_array_equal(loaded.family.mean, family.mean)
    assert loaded.concentration == 2.5
    assert loaded.random_state is None  # a generator belongs to its program
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    with pytest.raises(AttributeError, match=r"labels_ are not kept in files; use predict\(X\)"):
        _ = loaded.labels_


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "m.stickbreak"
    for k in (1, 2):
        sb.Mixture(k, random_state=0).fit(X).save(str(path))
    assert sb.load(str(path)).n_components_ == 2
    assert [p.name for p in tmp_path.iterdir()] == ["m.stickbreak"]


# ---- the first format ----------------------------------------------------------------------------


GOLDEN_COUNTS = [2.9999999843111875, 4.000000015688813]
GOLDEN_WEIGHTS = [0.444444442701243, 0.5555555572987569]
GOLDEN_MEANS = [[1.0000000027306224, 0.7142857139464129], [7.777777752023898, -2.555555543891671]]
GOLDEN_SCORES = [-3.7822162605496596, -2.8796509066406215, -5.382115905704317]
GOLDEN_BOUND = -33.29354054277869


def make_golden() -> sb.Mixture:
    """The model of tests/golden/mixture_v1.stickbreak. The file was written once; it is never
    written again.
    """
    rows = np.array(
        [[0.0, 1.0], [0.5, 1.5], [1.0, 0.5], [8.0, -3.0], [8.5, -2.0], [9.0, -3.5], [7.5, -2.5]]
    )
    family = sb.Gaussian(
        mean=[4.0, -1.0], mean_strength=0.5, dof=6.0, covariance=[[1.5, 0.25], [0.25, 2.0]]
    )
    return sb.Mixture(2, family=family, concentration=2.0, random_state=0).fit(
        rows, labels=[0, -1, -1, 1, -1, -1, -1]
    )


def test_the_first_format_is_still_read():
    model = sb.load(GOLDEN)
    assert isinstance(model, sb.Mixture)
    assert model.get_params()["family__dof"] == 6.0
    assert (model.n_components_, model.n_features_in_, model.concentration) == (2, 2, 2.0)
    np.testing.assert_allclose(model.counts_, GOLDEN_COUNTS, rtol=1e-12)
    np.testing.assert_allclose(model.weights_, GOLDEN_WEIGHTS, rtol=1e-12)
    np.testing.assert_allclose(model.means_, GOLDEN_MEANS, rtol=1e-12)
    assert model.lower_bound_ == pytest.approx(GOLDEN_BOUND, rel=1e-14)
    np.testing.assert_allclose(
        model.score_samples([[0.0, 0.0], [8.0, -3.0], [4.0, -1.0]]), GOLDEN_SCORES, rtol=1e-10
    )
    assert model.predict([[0.0, 0.0], [8.0, -3.0]]).tolist() == [0, 1]


def test_the_golden_model_fits_to_the_same_numbers():
    np.testing.assert_allclose(make_golden().lower_bound_, GOLDEN_BOUND, rtol=1e-9)


# ---- bad files -----------------------------------------------------------------------------------


def rewrite(payload: bytes, *, metadata=None, header=None) -> bytes:
    """The same file with changed metadata (a dict) or with header entries set (path: value)."""
    (size,) = struct.unpack("<Q", payload[:8])
    table = json.loads(payload[8 : 8 + size])
    for path, value in (header or {}).items():
        inner = json.loads(table["__metadata__"]["header"])
        at = inner
        *route, last = path.split(".")
        for key in route:
            at = at[key]
        at[last] = value
        table["__metadata__"]["header"] = json.dumps(inner)
        table["__metadata__"]["digest"] = _digest(
            table["__metadata__"]["header"], load_tensors(payload)
        )
    table["__metadata__"].update(metadata or {})
    text = json.dumps(table).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + payload[8 + size :]


def with_arrays(payload: bytes, **arrays) -> bytes:
    """The same file with arrays replaced; None drops one. Names have / for __."""
    (size,) = struct.unpack("<Q", payload[:8])
    found = dict(load_tensors(payload))
    for name, value in arrays.items():
        name = name.replace("__", "/").replace("family_", "family.")
        found.pop(name)
        if value is not None:
            found[name] = np.asarray(value, dtype=float)
    metadata = json.loads(payload[8 : 8 + size])["__metadata__"]
    return save_tensors(found, {**metadata, "digest": _digest(metadata["header"], found)})


def test_one_changed_bit_of_the_arrays_is_noticed(tmp_path):
    path = tmp_path / "m.stickbreak"
    make_golden().save(path)
    payload = bytearray(path.read_bytes())
    payload[-3] ^= 0x08
    path.write_bytes(bytes(payload))
    with pytest.raises(sb.ModelFileError, match="digest"):
        sb.load(path)


def nested(depth: int) -> list:
    out: list = []
    for _ in range(depth):
        out = [out]
    return out


FITTED = "fitted.family.params"
BAD = {
    "empty": (lambda p: b"", "bytes are too few"),
    "few bytes": (lambda p: p[:5], "bytes are too few"),
    "cut in the header": (lambda p: p[:100], "header claims"),
    "cut in the arrays": (lambda p: p[:-8], "is damaged"),
    "longer": (lambda p: p + b"12345678", "is damaged"),
    "header claims more": (lambda p: struct.pack("<Q", 10**9) + p[8:],
    "header claims 1000000000 bytes"),
    "header claims all memory": (lambda p: b"\xff" * 8 + p[8:],
    "header claims 18446744073709551615 bytes"),
    "text": (lambda p: b"a,b\n1,2\n" * 20, "header claims"),
    "pickle": (lambda p: b"\x80\x04\x95" + p, "header claims"),
    "foreign": (lambda p: save_tensors({"w": np.ones(2)}), "is not a stickbreak file"),
    "other metadata": (lambda p: save_tensors({"w": np.ones(2)}, {"format": "pt"}),
    "is not a stickbreak file"),
    "garbage": (lambda p: p[:8] + b"x" * (len(p) - 8), "is not a stickbreak file"),
    "deep garbage": (lambda p: struct.pack("<Q", 200_000) + b"[" * 200_000,
    "is not a stickbreak file"),
    "future": (lambda p: rewrite(p, metadata={"version": "99"}),
    "format version '99'; this release reads up to 1: upgrade"),
    "no version": (lambda p: rewrite(p, metadata={"version": "one"}), "format version 'one'"),
    "odd version": (lambda p: rewrite(p, metadata={"version": "\u00b2"}), "format version"),
    "long version": (lambda p: rewrite(p, metadata={"version": "9" * 5000}), "format version"),
    "kind": (lambda p: rewrite(p, metadata={"kind": "checkpoint"}),
    "is a 'checkpoint' file; expected a 'model' file"),
    "header text": (lambda p: rewrite(p, metadata={"header": "{"}), "is damaged"),
    "header list": (lambda p: rewrite(p, metadata={"header": "[]"}), "header is not an object"),
    "header deep": (lambda p: rewrite(p, metadata={"header": "[" * 100_000}), "is damaged"),
    "estimator": (lambda p: rewrite(p, header={"estimator": "Forest"}),
    "unknown estimator 'Forest'"),
    "estimator type": (lambda p: rewrite(p, header={"estimator": ["Mixture"]}), "damaged"),
    "part": (lambda p: rewrite(p, header={"fitted.family.class": "Cauchy"}),
    "unknown part 'Cauchy'"),
    "wrong part": (lambda p: rewrite(p, header={"fitted.family": {"class": "BatchVB",
    "params": {}}}), "damaged"),
    "argument": (lambda p: rewrite(p, header={f"{FITTED}.colour": 1}), "colour"),
    "deep argument": (lambda p: rewrite(p, header={"params.verbose": nested(900)}), "damaged"),
    "infinite id": (lambda p: rewrite(p, header={"fitted.next_id": float("inf")}), "damaged"),
    "too many ids": (lambda p: rewrite(p, header={"fitted.ids": [0, 1, 2]}),
    "components"),
    "no ids": (lambda p: rewrite(p, header={"fitted.ids": []}), "damaged"),
    "no fit": (lambda p: rewrite(p, header={"fitted": {}}), "damaged|lacks"),
    "open prior": (lambda p: rewrite(p, header={f"{FITTED}.dof": None}), "damaged"),
    "trace": (lambda p: rewrite(p, header={"fitted.trace": {}}), "damaged"),
    "concentration": (lambda p: rewrite(p, header={"fitted.prior.concentration": float("nan")}),
    "damaged"),
    "missing counts": (lambda p: with_arrays(p, counts__share=None), "counts/share"),
    "missing prior": (lambda p: with_arrays(p, family_mean=None), "family.mean"),
    "shape of counts": (lambda p: with_arrays(p, counts__moments=np.zeros((2, 5))),
    r"moments has shape \(2, 5\)"),
    "shape of prior": (lambda p: with_arrays(p, family_mean=np.zeros((7, 2))), "damaged"),
    "nan counts": (lambda p: with_arrays(p, counts__share=[np.nan, 1.0]),
    "share holds values that are not finite"),
    "nan prior": (lambda p: with_arrays(p, family_covariance=np.full((2, 2), np.nan)), "damaged"),
    "negative counts": (lambda p: with_arrays(p, counts__share=[-50.0, 110.0]), "damaged"),
}  # fmt: skip


def assert_refused(path: Path, payload: bytes, message: str) -> None:
    path.write_bytes(payload)
    with pytest.raises(sb.ModelFileError, match=message) as caught:
        sb.load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


# arrays that make no sense are tried before they are refused
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_gives_one_clear_error(case, payload, tmp_path):
    make, message = BAD[case]
    assert_refused(tmp_path / "m.stickbreak", make(payload), message)


def test_a_header_that_asks_for_all_memory_is_refused(counts_payload, tmp_path):
    assert_refused(
        tmp_path / "m.stickbreak",
        rewrite(counts_payload, header={f"{FITTED}.n_symbols": HUGE}),
        "damaged",
    )


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such file: .*none.stickbreak"):
        sb.load(tmp_path / "none.stickbreak")
    with pytest.raises(FileNotFoundError, match="no such file"):
        sb.load(tmp_path)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(3))
def test_random_damage_is_refused_or_harmless(seed, payload, counts_payload, tmp_path):
    rng, path, n_loaded = np.random.default_rng(seed), tmp_path / "m.stickbreak", 0
    for i in range(100):
        damaged = bytearray(payload if i % 2 else counts_payload)
        for at in rng.integers(0, len(damaged), rng.integers(1, 3)):
            damaged[at] = (
                rng.integers(256)
                if rng.random() < 0.5
                else rng.choice(list(b'0123456789"{}[],:.eE-'))
            )
        if rng.random() < 0.2:
            del damaged[rng.integers(len(damaged)) :]
        path.write_bytes(bytes(damaged))
        with suppress(sb.ModelFileError):  # any other error fails the test
            n_loaded += sb.load(path).n_components_ > 0
    assert n_loaded < 5  # a change that does not touch the contents, such as in padding, may pass


# ---- no pickle, no half-written files ------------------------------------------------------------


def test_no_pickle_anywhere(payload):
    (size,) = struct.unpack("<Q", payload[:8])
    # JSON, then raw numbers
    assert json.loads(payload[8 : 8 + size])["__metadata__"]["format"] == "stickbreak"
    for word in (
        b"pickle",
        b"cnumpy",
        b"numpy.core",
        b"__reduce__",
        b"\x80\x04\x95",
        b"\x80\x05\x95",
    ):
        assert word not in payload
    source = Path(persist.__file__).parent
    rooms = ("estimators", "inference", "reading", "data", "cli")
    for file in (
        source / "persist.py",
        *(f for room in rooms for f in (source / room).glob("*.py")),
    ):
        tree = ast.parse(file.read_text())
        names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        names |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert not names & {"pickle", "joblib", "marshal", "shelve", "dill", "cloudpickle"}, (
            file.name
        )
        assert "allow_pickle=True" not in file.read_text()


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(broken, payload, tmp_path, monkeypatch):
    path = tmp_path / "m.stickbreak"
    path.write_bytes(payload)

    def fail(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(OSError, match="No space left"):
        sb.Mixture(3, random_state=0).fit(X).save(path)
    monkeypatch.undo()
    assert path.read_bytes() == payload
    assert [p.name for p in tmp_path.iterdir()] == ["m.stickbreak"]


FULL = """
import resource, signal, sys
import numpy as np, stickbreak as sb
model = sb.Mixture(3, family="multinomial", random_state=0).fit(np.eye(400))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    model.save(sys.argv[1])
except OSError as error:
    print("refused", error.errno)
"""


@pytest.mark.slow  # a process of its own
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_a_disk_that_fills_while_writing_leaves_the_old_file(payload, tmp_path):
    path = tmp_path / "m.stickbreak"
    path.write_bytes(payload)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout.startswith("refused"), done.stderr
    assert path.read_bytes() == payload
    assert [p.name for p in tmp_path.iterdir()] == ["m.stickbreak"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        sb.Mixture(1).fit(X).save(tmp_path / "none" / "m.stickbreak")
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_many_columns_is_read_without_a_warning(tmp_path):
    """Warnings are errors here: that of few rows for many columns belongs to the fit."""
    rows = np.random.default_rng(0).normal(size=(400, 13))
    with pytest.warns(sb.ConvergenceWarning):
        model = sb.Mixture(2, max_iter=2, random_state=0).fit(rows)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(sb.load(tmp_path / "m").predict(rows), model.predict(rows))
