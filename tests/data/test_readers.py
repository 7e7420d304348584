"""Files as tables: every kind gives the same numbers and leaves nothing behind; a bad one gives one
clear error.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import stickbreak as sb
from stickbreak.data import find_runs, is_on_disk, open_like, read_runs, room, spool, text

NAMES = ("height", "weight", "age")
ROWS = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 1e9, 1e-9]


@pytest.fixture
def files(tmp_path) -> dict[str, Path]:
    """The same rows in every kind of file."""
    frame = pl.DataFrame(ROWS, schema=list(NAMES))
    paths = {kind: tmp_path / f"rows.{kind}" for kind in ("npy", "npz", "csv", "tsv", "parquet")}
    np.save(paths["npy"], ROWS)
    np.savez_compressed(paths["npz"], rows=ROWS, labels=np.arange(500))
    frame.write_csv(paths["csv"])
    frame.write_csv(paths["tsv"], separator="\t")
    frame.write_parquet(paths["parquet"])
    return paths


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(path: Path, **options) -> str:
    """The one line of the ValueError."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        sb.open_table(path, **options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    return str(caught.value)


# ---- what is read --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "tsv", "parquet"])
def test_every_kind_of_file_gives_the_same_bits(files, kind):
    table = sb.open_table(files[kind])
    np.testing.assert_array_equal(table.rows, ROWS)
    assert is_on_disk(table.rows)
    assert not table.rows.flags.writeable
    assert table.names == (None if kind in ("npy", "npz") else NAMES)
    assert sb.open_table(str(files[kind])).n_rows == 500


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "tsv", "parquet"])
def test_columns_are_chosen_by_name_or_position_in_the_order_asked_for(files, kind):
    table = sb.open_table(files[kind], columns=[2, 0])
    np.testing.assert_array_equal(table.rows, ROWS[:, [2, 0]])
    if kind in ("npy", "npz"):
        assert table.names is None
        np.testing.assert_array_equal(
            sb.open_table(files[kind], columns=["2", "0"]).rows, table.rows
        )
    else:
        assert table.names == ("age", "height")
        np.testing.assert_array_equal(
            sb.open_table(files[kind], columns=["age", "height"]).rows, table.rows
        )


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "tsv", "parquet"])
def test_pieces_add_up_to_the_table_and_need_no_temporary_file(files, kind, monkeypatch):
    monkeypatch.setattr(text, "CHUNK", 1000)
    monkeypatch.setattr("stickbreak.data.archives.PIECE_VALUES", 64)
    monkeypatch.setattr("stickbreak.data.parquet.PIECE_VALUES", 64)
    monkeypatch.setattr("stickbreak.data.readers.PIECE_ROWS", 70)
    monkeypatch.setattr(room, "spool_folder", lambda: pytest.fail("a temporary file"))
    pieces = list(
        sb.read_pieces(files[kind], columns=[0, 1, 2])
        if kind != "npy"
        else sb.read_pieces(files[kind])
    )
    assert len(pieces) > 5
    assert max(len(p.rows) for p in pieces) <= 100
    np.testing.assert_array_equal(np.concatenate([p.rows for p in pieces]), ROWS)
    assert {p.names for p in pieces} == {None if kind in ("npy", "npz") else NAMES}


@pytest.mark.parametrize("dtype", ["f4", ">f8", "f2", "i1", "u8", ">i4", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_other_types_and_orders(dtype, order, tmp_path, monkeypatch):
    monkeypatch.setattr("stickbreak.data.archives.PIECE_VALUES", 64)
    rows = np.asarray((ROWS[:, [0, 0, 0]] * 50) % 100, dtype=dtype, order=order)
    np.save(tmp_path / "rows.npy", rows)
    np.savez(tmp_path / "rows.npz", rows)
    for path in (tmp_path / "rows.npy", tmp_path / "rows.npz"):
        for columns in (None, [1]):
            table = sb.open_table(path, columns=columns)
            np.testing.assert_array_equal(
                table.rows,
                rows.astype(float) if columns is None else rows[:, columns].astype(float),
            )
            assert table.rows.dtype.isnative
            assert table.rows.dtype.kind in "fiu"


def test_missing_values_are_nan(tmp_path):
    expected = [[1.0, np.nan], [np.nan, 2.0], [3.0, np.nan], [np.nan, np.nan]]
    path = write(tmp_path / "rows.csv", "a,b\n1,\nNA,2\n3,NaN\n,nan\n")
    np.testing.assert_array_equal(sb.open_table(path).rows, expected)
    pl.DataFrame({"a": [1.0, None, 3.0, None], "b": [None, 2, None, None]}).write_parquet(
        tmp_path / "rows.parquet"
    )
    np.testing.assert_array_equal(sb.open_table(tmp_path / "rows.parquet").rows, expected)


HEADERS = {
    "words": ("a,b\n1,2\n", ("a", "b"), [[1, 2]]),
    "quoted words": ('"a, b","c\nd"\n1,2\n', ("a, b", "c\nd"), [[1, 2]]),
    "a name missing": (",b\n1,2\n", ("", "b"), [[1, 2]]),
    "none": ("1,2\n3,4\n", None, [[1, 2], [3, 4]]),
    "none, values missing": ("NA,\n3,4\n", None, [[np.nan, np.nan], [3, 4]]),
    "none, one row": ("1,2", None, [[1, 2]]),
    "byte order mark": ("\ufeffa,b\n1,2\n", ("a", "b"), [[1, 2]]),
    "byte order mark, none": ("\ufeff1,2\n", None, [[1, 2]]),
    "blank lines": ("\n \na,b\n\n1,2\n\n", ("a", "b"), [[1, 2]]),
    "carriage returns": ("a,b\r\n1,2\r\n", ("a", "b"), [[1, 2]]),
    "blanks": (" a , b \n 1 , 2 \n", ("a", "b"), [[1, 2]]),
    "one column": ("a\n1\n2\n", ("a",), [[1], [2]]),
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_are_found(case, tmp_path):
    content, names, rows = HEADERS[case]
    table = sb.open_table(write(tmp_path / "rows.csv", content))
    assert table.names == names
    np.testing.assert_array_equal(table.rows, rows)


def test_a_header_of_numbers_is_one_when_told_so(tmp_path):
    path = write(tmp_path / "rows.csv", "2019,2020\n1,2\n")
    assert sb.open_table(path).n_rows == 2
    table = sb.open_table(path, header=True)
    assert table.names == ("2019", "2020")
    np.testing.assert_array_equal(table.rows, [[1, 2]])
    assert "row 1, column 1 of 2: 'a' is not a number; is this row a header?" in refused(
        write(path, "a,b\n1,2\n"), header=False
    )


def test_text_that_is_not_wanted_is_passed_over(tmp_path):
    path = write(tmp_path / "rows.csv", 'who,x,why\n"Ann, B.",1,"said ""so""\nand left"\nbob,2,\n')
    table = sb.open_table(path, columns=["x"])
    np.testing.assert_array_equal(table.rows, [[1], [2]])


def test_long_and_odd_numbers_are_read_as_python_reads_them(tmp_path):
    words = [
        "1" * 300,
        "0." + "3" * 400,
        "1e-320",
        "1e308",
        "1e999",
        "-inf",
        "+Infinity",
        '" 7 "',
        "12345678901234567890",
    ]
    table = sb.open_table(write(tmp_path / "rows.csv", "x\n" + "\n".join(words) + "\n"))
    assert table.rows[:, 0].tolist() == [float(w.strip('"')) for w in words]


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_the_size_of_a_chunk_does_not_matter(chunk, tmp_path, monkeypatch):
    monkeypatch.setattr(text, "CHUNK", chunk)
    monkeypatch.setattr(text, "MAX_ODD", 2)
    content = "a,b\n" + "".join(
        f'{i},"{i}.5"\n' if i % 3 else f'\n{i},"1e-32{i % 3}"\n' for i in range(40)
    )
    table = sb.open_table(write(tmp_path / "rows.csv", content))
    np.testing.assert_array_equal(table.rows[:, 0], np.arange(40))
    np.testing.assert_array_equal(
        table.rows[:, 1], [i + 0.5 if i % 3 else 1e-320 for i in range(40)]
    )


def test_a_model_finds_its_columns_by_name(files, tmp_path):
    model = sb.Mixture(2, inference=sb.MemoizedVB(tol=0.01), random_state=0)
    model.fit(sb.open_table(files["csv"], columns=["age", "height"]))
    assert model.feature_names_in_.tolist() == ["age", "height"]
    expected = model.predict(pd.DataFrame(ROWS[:, [2, 0]], columns=["age", "height"]))
    for kind in ("csv", "tsv", "parquet"):
        np.testing.assert_array_equal(model.predict(files[kind]), expected)
    np.save(tmp_path / "two.npy", ROWS[:, [2, 0]])
    # a file without names goes by position
    np.testing.assert_array_equal(model.predict(tmp_path / "two.npy"), expected)
    with pytest.raises(ValueError, match="X has 3 features, but Mixture is expecting 2 features"):
        model.predict(files["npy"])
    with pytest.raises(ValueError, match="no column 'age'; it has 'height', 'size'"):
        model.predict(write(tmp_path / "other.csv", "height,size\n1,2\n"))
    with pytest.raises(
        ValueError,
        match=r"has the columns \['height', 'age'\], the model was "
        r"fitted to \['age', 'height'\]",
    ):
        model.predict(sb.open_table(files["csv"], columns=["height", "age"]))
    assert not hasattr(model.fit(files["npy"]), "feature_names_in_")
    assert open_like(files["csv"], None).names == NAMES


@pytest.mark.slow
def test_fits_of_all_kinds_of_files_are_the_same_bits(files):
    engine = sb.MemoizedVB(n_batches=3, moves=None)
    bounds = {
        k: sb.DPMixture(3, inference=engine, random_state=0).fit(p).lower_bound_
        for k, p in files.items()
    }
    assert len(set(bounds.values())) == 1
    whole = sb.Mixture(2, random_state=0).partial_fit(files["csv"])
    assert whole.counts_.sum() == pytest.approx(500)


def test_partial_fit_sees_a_file_in_batches_and_pieces_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr("stickbreak.data.table.BATCH_ROWS", 100)
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(1000, 2)) + np.where(rng.random((1000, 1)) < 0.5, -6.0, 6.0)
    pl.DataFrame(rows, schema=["x", "y"]).write_csv(tmp_path / "rows.csv")
    model = sb.Mixture(2, random_state=0).partial_fit(tmp_path / "rows.csv")
    assert model._fitted.n_steps == 10
    assert model.counts_.sum() == pytest.approx(1000)
    assert np.isfinite(model.lower_bound_)
    np.testing.assert_array_equal(model.labels_, model.predict(tmp_path / "rows.csv"))
    monkeypatch.setattr(text, "CHUNK", 4000)
    stream = sb.Mixture(2, random_state=0)
    for piece in sb.read_pieces(tmp_path / "rows.csv"):
        stream.partial_fit(piece)
    assert stream.counts_.sum() == pytest.approx(1000)
    assert stream.feature_names_in_.tolist() == ["x", "y"]
    # 500 rows of deviation 1: 0.045 each
    np.testing.assert_allclose(np.sort(stream.means_, 0), [[-6, -6], [6, 6]], atol=0.3)
    stochastic = sb.Mixture(2, random_state=0).partial_fit(
        tmp_path / "rows.csv", total_samples=5000
    )
    assert stochastic.counts_.sum() == pytest.approx(5000)


def test_progress_is_reported(files, monkeypatch):
    monkeypatch.setattr(text, "CHUNK", 5000)
    seen = []
    sb.open_table(files["csv"], report=lambda done, total: seen.append((done, total)))
    assert len(seen) > 3
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] == files["csv"].stat().st_size


# ---- temporary files -----------------------------------------------------------------------------

KILLED = """
import os, signal, sys
import stickbreak as sb
table = sb.open_table(sys.argv[1])
print(table.rows.sum(), len(os.listdir(os.environ["TMPDIR"])), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there the file has a name until it is closed")
def test_nothing_is_left_of_a_temporary_table_even_after_sigkill(files, tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(files["csv"])],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -9
    assert done.stdout.split() == [str(np.asarray(sb.open_table(files["csv"]).rows).sum()), "0"]
    assert list(folder.iterdir()) == []


def test_the_folder_for_temporary_tables(monkeypatch, tmp_path):
    monkeypatch.setattr(room.tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert room.spool_folder() == str(tmp_path)
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(room, "LARGE_FILES", str(tmp_path))
    assert room.spool_folder() == str(tmp_path)
    monkeypatch.setattr(room, "LARGE_FILES", str(tmp_path / "none"))
    monkeypatch.setattr(room.tempfile, "tempdir", None)
    assert Path(room.spool_folder()).is_dir()


def test_a_full_disk_is_a_clear_error(files, monkeypatch):
    monkeypatch.setattr(
        room.shutil, "disk_usage", lambda _: room.shutil._ntuple_diskusage(10**9, 10**9, 100)
    )
    assert "needs 12,000 bytes of temporary space" in refused(files["npz"])

    def fail(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "ascontiguousarray", fail)
    assert "no space left for a temporary table in" in refused(files["csv"])


def test_scratch_is_written_and_read(tmp_path):
    array = spool.scratch((1000, 3), np.float64)
    array[7] = 3.0
    assert array.sum() == 9.0
    assert is_on_disk(array)
    assert spool.scratch((0,), np.int32).shape == (0,)


# ---- what is refused -----------------------------------------------------------------------------

BAD_TEXT = {
    "empty": ("", "is empty"),
    "blank": ("\n \n\n", "is empty"),
    "header only": ("a,b\n", "has a header but no rows"),
    "header only, no newline": ("a,b", "has a header but no rows"),
    "a word": ("a,b\n1,2\n3,x\n", "rows.csv, row 3, column 'b': 'x' is not a number"),
    "a word after blank lines": ("a,b\n\n1,2\n\nx,3\n",
    "rows.csv, row 5, column 'a': 'x' is not a number"),
    "a word without header": ("1,2\n3,x\n", "rows.csv, row 2, column 2 of 2: 'x' is not a number"),
    "a word in the first row": ("1,x\n3,4\n",
    "row 1, .*'x' is not a number; is this row a header\\? Then say header=True"),
    "a date": ("day,x\n2020-01-01,3\n", "row 2, column 'day': '2020-01-01' is not a number"),
    "an underscore": ("a\n1_000\n", "row 2, column 'a': '1_000' is not a number"),
    "other digits": ("a\n\u0661\n", "row 2, column 'a': '\u0661' is not a number"),
    "a decimal comma": ('a\n"1,5"\n', "row 2, column 'a': '1,5' is not a number"),
    "junk after a quote": ('a\n"1"2\n', "row 2, column 'a': '\"1\"2' is not a number"),
    "semicolons": ("a;b\n1;2\n", "row 2, column 'a;b': '1;2' is not a number"),
    "too short": ("a,b\n1,2\n3\n", "row 3 has 1 columns; the first row has 2"),
    "too long": ("a,b\n\n1,2,3\n", "row 3 has 3 columns; the first row has 2"),
    "an open quote": ('a,b\n1,"2\n3,4\n', "row 2 has a quote that is never closed"),
    "an open quote in the header": ('a,"b\n1,2\n', "first row of .* cannot be read"),
    "twice the same name": ("a,a\n1,2\n", "two columns named 'a'"),
    "bytes": (b"a,b\n1,\xff\n", r"row 2, column 'b': '\\\\xff' is not a number"),
    "latin 1": ("h\u00f6he\n1\n".encode("latin1"), "is not UTF-8 text"),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), "is not UTF-8 text"),
    "zeros": (b"a,b\n1,2\n" + b"\0" * 100, "holds NUL bytes"),
    "a long cell": ("a\n" + "9" * 5000 + "\n",
    "row 2, column 'a': '9{40}\\.\\.\\.' is not a number"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TEXT)
def test_bad_text_is_refused_by_row_and_column(case, tmp_path):
    content, message = BAD_TEXT[case]
    path = write(tmp_path / "rows.csv", content)
    with pytest.raises(ValueError, match=message) as caught:
        sb.open_table(path)
    assert "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["rows.csv"]


def test_a_bad_cell_far_down_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "CHUNK", 1 << 12)
    lines = [f"{i},{i}" for i in range(5000)]
    lines[4321] = "1,oops"
    assert "row 4323, column 'b': 'oops'" in refused(
        write(tmp_path / "rows.csv", "\n".join(["a,b", *lines]))
    )
    lines[4321] = "1,2,3"
    assert "row 4323 has 3 columns" in refused(
        write(tmp_path / "rows.csv", "\n".join(["a,b", *lines]))
    )


def test_sizes_are_capped(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "CHUNK", 100)
    monkeypatch.setenv("STICKBREAK_MAX_LINE", "1000")
    monkeypatch.setenv("STICKBREAK_MAX_COLUMNS", "50")
    line = refused(write(tmp_path / "rows.csv", 'a\n"' + "1\n" * 2000))
    assert re.search(r"row 2 has 1,\d+ bytes or more, or a quote .* the limit is 1,000", line)
    line = refused(write(tmp_path / "rows.csv", "1" * 1001 + "\n"))
    assert "the first row of" in line
    assert "has more than 1,000 bytes; the limit is 1,000, and STICKBREAK_MAX_LINE" in line
    assert sb.open_table(write(tmp_path / "rows.csv", "1," * 49 + "1" * 902 + "\n")).n_rows == 1
    assert "has 60 columns; the limit is 50, and STICKBREAK_MAX_COLUMNS" in refused(
        write(tmp_path / "rows.csv", ",".join(f"a{i}" for i in range(60)) + "\n")
    )
    monkeypatch.setenv("STICKBREAK_MAX_COLUMNS", "2")
    np.savez(tmp_path / "rows.npz", ROWS)
    assert "has 3 columns; the limit is 2" in refused(tmp_path / "rows.npz")
    monkeypatch.setenv("STICKBREAK_MAX_COLUMNS", "many")
    assert "STICKBREAK_MAX_COLUMNS must be a whole number" in refused(tmp_path / "rows.npz")


def test_missing_columns_and_options_that_do_not_apply(files):
    for kind in ("csv", "tsv", "parquet"):
        assert "has no column 'size'; it has 'height', 'weight', 'age'" in refused(
            files[kind], columns=["height", "size"]
        )
        assert "names a column twice" in refused(files[kind], columns=["age", "age"])
        assert "columns must be a list" in refused(files[kind], columns="age")
        assert "columns must be a list" in refused(files[kind], columns=[])
        assert "array='x' does not apply" in refused(files[kind], array="x")
        assert "has no column 3" in refused(files[kind], columns=[3])
        assert "has no column -1" in refused(files[kind], columns=[-1])
    assert "has no column 'age'; its 3 columns have no names" in refused(
        files["npy"], columns=["age"]
    )
    assert "header=True does not apply" in refused(files["parquet"], header=True)
    assert "header=False does not apply" in refused(files["npy"], header=False)


def test_paths_that_cannot_be_read(tmp_path, files):
    assert "no such file" in refused(tmp_path / "none.csv")
    assert "is a folder" in refused(tmp_path)
    assert "files of kind '.txt' are not read; expected a path to a .npy" in refused(
        write(tmp_path / "a.txt", "1")
    )
    assert "files of kind '' are not read" in refused(write(tmp_path / "a", "1"))
    assert "cannot be opened" in refused(Path("a" * 5000 + ".csv"))
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.csv")
        assert "is a device" in refused(tmp_path / "pipe.csv")  # and does not wait for a writer
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        files["csv"].chmod(0)
        assert "may not be read: permission denied" in refused(files["csv"])


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members.items():
            out.writestr(f"{name}.npy", content)
    return path


def npy(shape: tuple[int, ...], payload: bytes = b"", descr: str = "<f8") -> bytes:
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + payload


ARCHIVES = {
    "claims too much": ({"x": npy((10**9, 2), b"\0" * 100)},
    "header of x.npy claims 16,000,000,000 bytes, 100 follow"),
    "claims beyond int64": ({"x": npy((2**62, 2**62), b"\0" * 100)}, "claims"),
    "a negative size": ({"x": npy((-1, 2), b"\0" * 100)}, "makes no sense"),
    "no rows": ({"x": npy((0, 2))}, r"0 sample\(s\)"),
    "endless nothing": ({"x": npy((10**18, 0))}, r"0 feature\(s\)"),
    "objects": ({"x": npy((1, 1), b"\x80\x04]\x94.", "|O")}, "never unpickled"),
    "records": ({"x": npy((1, 1), b"\0" * 16, "V16")}, "has 0 tables of numbers"),
    "complex": ({"x": npy((1, 1), b"\0" * 16, "<c16")},
    "has 0 tables of numbers, not one: x .* complex128"),
    "one dimension": ({"x": npy((2,), b"\0" * 16)}, "has 0 tables of numbers"),
    "two tables": ({"x": npy((1, 1), b"\0" * 8), "y": npy((1, 1), b"\0" * 8)},
    "has 2 tables of numbers, not one: x .*array="),
    "not an array": ({"x": b"hello"}, "x.npy is not an array of numbers"),
    "nothing": ({}, "has 0 tables of numbers, not one: it is empty"),
}  # fmt: skip


@pytest.mark.parametrize("case", ARCHIVES)
def test_bad_archives_are_refused(case, tmp_path):
    members, message = ARCHIVES[case]
    path = archive(tmp_path / "rows.npz", **members)
    with pytest.raises(ValueError, match=message):
        sb.open_table(path)


def test_one_array_of_an_archive(tmp_path):
    np.savez(tmp_path / "rows.npz", a=ROWS, b=ROWS[:2], labels=np.arange(3))
    np.testing.assert_array_equal(sb.open_table(tmp_path / "rows.npz", array="b").rows, ROWS[:2])
    assert "has no array 'c'; it has a, b, labels" in refused(tmp_path / "rows.npz", array="c")
    assert "is not a table (2 dimensions) of numbers: labels (3,) int64" in refused(
        tmp_path / "rows.npz", array="labels"
    )
    damaged = bytearray((tmp_path / "rows.npz").read_bytes())
    damaged[2000] ^= 0xFF
    assert "is damaged: a.npy: Bad CRC-32" in refused(
        write(tmp_path / "rows.npz", bytes(damaged)), array="a"
    )


def test_parquet_without_polars_or_with_other_columns(files, tmp_path, monkeypatch):
    pl.DataFrame({"x": [1.0], "who": ["ann"], "is": [True]}).write_parquet(
        tmp_path / "rows.parquet"
    )
    assert "column 'who' holds String, not numbers; choose others with columns=" in refused(
        tmp_path / "rows.parquet"
    )
    np.testing.assert_array_equal(
        sb.open_table(tmp_path / "rows.parquet", columns=["is", "x"]).rows, [[1.0, 1.0]]
    )
    pl.DataFrame({"x": []}, schema={"x": pl.Float64}).write_parquet(tmp_path / "rows.parquet")
    assert "has a header but no rows" in refused(tmp_path / "rows.parquet")
    assert "cannot be read as parquet" in refused(write(tmp_path / "rows.parquet", "a,b\n1,2\n"))
    monkeypatch.setitem(sys.modules, "polars", None)
    assert "needs polars; pip install 'stickbreak[parquet]'" in refused(files["parquet"])


@pytest.mark.parametrize("header", ["a,b\r", ""])
def test_lines_may_end_in_a_carriage_return_alone(tmp_path, header):
    path = tmp_path / "old.csv"
    path.write_bytes(f"{header}1,2\r3,4\r5.5,6".encode())
    table = sb.open_table(path)
    np.testing.assert_array_equal(np.asarray(table.rows), [[1, 2], [3, 4], [5.5, 6]])
    path.write_bytes(f"{header}1,2\r3,x\r".encode())
    with pytest.raises(ValueError, match=f"row {3 if header else 2}, .*'x' is not a number"):
        sb.open_table(path)


# ---- ids -----------------------------------------------------------------------------------------


def assert_runs(found, ids, starts, n_rows) -> None:
    assert found.ids == ids
    assert [type(value) for value in found.ids] == [type(value) for value in ids]
    assert found.starts.tolist() == starts
    assert found.n_rows == n_rows


IDS = {
    "words": ("ann,ann,bob,ann", ["ann", "bob", "ann"], [0, 2, 3]),
    "numbers": ("7,7.0,007,8,1e1", [7, 8, 10.0], [0, 3, 4]),
    "one word among numbers": ("7,7.0,b", ["7", "7.0", "b"], [0, 1, 2]),
    "large numbers": (
        "9007199254740993,9007199254740992",
        [9007199254740993, 9007199254740992],
        [0, 1],
    ),
    "missing": ("a,NA,,nan,b", ["a", None, "b"], [0, 1, 4]),
    "quotes": ('"a",a,"a ","a""b"', ["a", 'a"b'], [0, 3]),
}


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("chunk", [1, 7, 1 << 22])
def test_ids_in_text(name, chunk, tmp_path, monkeypatch):
    monkeypatch.setattr(text, "CHUNK", chunk)
    monkeypatch.setattr(text, "MAX_WORDS", 3)
    cells, ids, starts = IDS[name]
    cells = cells.split(",")
    path = write(tmp_path / "rows.csv", "x,who,y\n" + "".join(f"1,{cell},2\n" for cell in cells))
    assert_runs(read_runs(path, "who"), ids, starts, len(cells))


def test_ids_in_parquet(tmp_path, monkeypatch):
    monkeypatch.setattr("stickbreak.data.parquet.PIECE_VALUES", 2)
    columns = {
        "words": (["a", "a", "b", None, "a"], ["a", "b", None, "a"], [0, 2, 3, 4]),
        "whole": ([2**53, 2**53 + 1, 2**53 + 1, 1, 1], [2**53, 2**53 + 1, 1], [0, 1, 3]),
        "floats": ([1.0, 1.0, 1.0, np.nan, 2.5], [1.0, None, 2.5], [0, 3, 4]),
        "truth": ([True, True, False, False, False], [True, False], [0, 2]),
    }
    frame = pl.DataFrame({name: values for name, (values, _, _) in columns.items()}, strict=False)
    frame = frame.with_columns(
        pl.col("words").cast(pl.Categorical).alias("categories"),
        pl.Series("lists", [[1], [1], [2], [], [3]]),
    )
    frame.write_parquet(tmp_path / "rows.parquet")
    for name, (_, ids, starts) in {**columns, "categories": columns["words"]}.items():
        assert_runs(read_runs(tmp_path / "rows.parquet", name), ids, starts, 5)
    with pytest.raises(
        ValueError,
        match=r"column 'lists' holds List\(Int64\), which cannot name "
        r"sequences",
    ):
        read_runs(tmp_path / "rows.parquet", "lists")


def test_ids_of_many_rows_take_little_memory(tmp_path):
    import tracemalloc

    path = write(
        tmp_path / "rows.csv", "who,x\n" + "".join(f"sequence {s},1\n" * 100_000 for s in range(4))
    )
    read_runs(path, "who")
    tracemalloc.start()
    try:
        found = read_runs(path, "who")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert_runs(found, [f"sequence {s}" for s in range(4)], [0, 100_000, 200_000, 300_000], 400_000)
    assert peak < 40e6  # two chunks of 4 MB, copies of them, and the places of 65,536 cells


def test_ids_in_arrays():
    assert_runs(find_runs(np.array([3, 3, 1, 3])), [3, 1, 3], [0, 2, 3], 4)
    assert_runs(find_runs(np.array(["a", "b"])), ["a", "b"], [0, 1], 2)
    assert_runs(find_runs(np.array([1.0, np.nan, np.nan])), [1.0, None], [0, 1], 3)
    assert_runs(
        find_runs(np.array(["a", pd.NA, 1, None], dtype=object)),
        ["a", None, 1, None],
        [0, 1, 2, 3],
        4,
    )
    assert_runs(find_runs(np.array([])), [], [], 0)


def test_bad_ids_are_one_line(files, tmp_path):
    cases = {
        "no names": (
            files["npz"],
            "age",
            "the columns of .*npz have no names, so there is no 'age' among them",
        ),
        "no such column": (
            files["csv"],
            "who",
            "has no column 'who'; it has 'height', 'weight', 'age'",
        ),
        "long": (
            write(tmp_path / "l.csv", "who,x\nann,1\n" + "é" * 600 + ",2\n"),
            "who",
            "l.csv, row 3: 'é+\\.\\.\\.' is too long for an id",
        ),
        "ragged": (
            write(tmp_path / "r.csv", "who,x\nann,1\nbob\n"),
            "who",
            "r.csv, row 3 has 1 columns; the first row has 2",
        ),
        "open quote": (
            write(tmp_path / "q.csv", 'who,x\n"ann,1\n'),
            "who",
            "q.csv, row 2 has a quote that is never closed",
        ),
    }
    for path, column, message in cases.values():
        with pytest.raises(ValueError, match=message) as caught:
            read_runs(path, column)
        assert "\n" not in str(caught.value)
