"""Tables that people have: what is read, what is left out, and what is asked."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet

from constructions import InputError
from verify.audit import audit
from verify.audit.columns import How
from verify.audit.reading import Table, read_dataset, read_frame, read_table
from verify.cli import main
from verify.console import CommandError


def read(folder: Path, data: str | bytes, **how: Any) -> Table:
    path = folder / "x.csv"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_table(path, how=How(**how))


# text -> what to say, values, columns that are left out
READ: dict[str, tuple[dict[str, Any], list[list[Any]], list[str]]] = {
    ",x,y\n0,1,2\n1,3,4\n2,5,6\n": ({}, [[1, 2], [3, 4], [5, 6]], ["column 1"]),
    "id,x,y\n1,1,2\n2,3,4\n3,5,7\n": ({}, [[1, 2], [3, 4], [5, 7]], ["id"]),
    "x,Unnamed: 0,y\n1,0,2\n9,1,4\n5,2,7\n": ({}, [[1, 2], [9, 4], [5, 7]], ["Unnamed: 0"]),
    "7,x\n1,2\n3,4\n": ({"header": True}, [[1, 2], [3, 4]], []),
    "0,1\n5.1,3.5\n4.9,3.0\n": ({}, [[5.1, 3.5], [4.9, 3]], []),
    "0\t1\n5\t3\n2\t9\n": ({"header": False}, [[0, 1], [5, 3], [2, 9]], []),
    "1,5;2,5\n": ({}, [[1.5, 2.5]], []),
    "1,5\n": ({"decimal": ","}, [[1.5]], []),
    "1,5\n2,7": ({"delimiter": ","}, [[1, 5], [2, 7]], []),
    "x,y\n1,5\n": ({}, [[1, 5]], []),
    "x\n1,5\n2,5\n": ({}, [[1.5], [2.5]], []),
    '"1,000",2\n3,4\n': ({"thousands": ","}, [[1000, 2], [3, 4]], []),
    "1.000,92;2\n3;4\n": ({"thousands": "."}, [[1000.92, 2], [3, 4]], []),
    "1,250;2\n": ({"decimal": ","}, [[1.25, 2]], []),
    "# x y z\n5.1e0  3.5 1\n2 -3 4\n": ({}, [[5.1, 3.5, 1], [2, -3, 4]], []),
    "# made by tool\n1,2.5\n3,4\n": ({}, [[1, 2.5], [3, 4]], []),
    "1 2.5 # first\n\n3 4\n# end\n": ({}, [[1, 2.5], [3, 4]], []),
    "4;2;3;Label 1\n5;2;4;Label 2\n": ({}, [[4, 2, 3], [5, 2, 4]], ["column 4"]),
    "x\ty\tkind\n1\t2\ta b\n3\t4\tc\n": ({}, [[1, 2], [3, 4]], ["kind"]),
    "1;2;\n3;4;\n": ({}, [[1, 2], [3, 4]], []),
    "x;y;\r\n1;2;\r\n3;4;\r\n": ({}, [[1, 2], [3, 4]], []),
    'a b\n"r1" 5.1 3.5\n"r2" 3.1 2.5\n': ({}, [[5.1, 3.5], [3.1, 2.5]], ["column 1"]),
    "x,y\n1,2\n3,\nNA,4\n5,6\n": ({"missing": "drop"}, [[1, 2], [5, 6]], []),
    "a,b,c\n1,2,u\n3,4,v\n": ({"columns": "b,1"}, [[2, 1], [4, 3]], ["c"]),
    "p,q,r\n1,2,3\n4,5,7\n": ({"columns": "2-3", "drop": "r"}, [[2], [5]], ["p", "r"]),
    "id,x\n1,5\n2,6\n3,9\n": ({"columns": "id,x"}, [[1, 5], [2, 6], [3, 9]], []),
    "0|1.5\n2|3\n": ({}, [[0, 1.5], [2, 3]], []),
}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "1,5\n2,5\n": ({}, "--delimiter , or --decimal ,"),
    "1,2,3\n4,5,6\n9,8,7\n": ({}, "Say --header or --no-header"),
    '"1,000",2\n3,4\n': ({}, "--thousands ,"),
    "1,000;2,500\n": ({}, "say --decimal , or --thousands ,"),
    "1.000,92;2\n": ({}, "--thousands '.'"),
    "5 000,5;6 000,1\n1,5;2,5\n": ({}, "thousands"),
    "x,y\n1,2\n3,\n4,?\n": ({}, "2 values are missing, the first in line 3, column y"),
    "x,y\n1,\n,2\n": ({"missing": "drop"}, "no row is left"),
    "x,y\n1,2\n3\n": ({}, "line 3: the number of fields is 1, but 2"),
    "x,y\n1,2\n3,abc\n": ({}, "line 3, column y: 'abc' is not a number"),
    "a,b\n1,u\n2,v\n": ({"columns": "b"}, "--columns b: holds text, such as 'u'"),
    "a,b\n1,2\n3,5\n": ({"columns": "c"}, "--columns c: no such column; allowed: names ('a', 'b')"),
    "a,b\n1,2\n3,4\n": ({"columns": "1-3"}, "numbers from 1 to 2"),
    "a,a\n1,2\n3,4\n": ({"columns": "a"}, "2 columns have this name"),
    "a,b\n1,2\n3,9\n": ({"drop": "a,b"}, "no column is left"),
    "a,b\n1,2\n": ({"encoding": "klingon"}, "--encoding klingon: unknown"),
    "a,b\nu,v\n": ({}, "no line of numbers"),
}


@pytest.mark.parametrize("text", list(READ))
def test_read(text: str, tmp_path: Path) -> None:
    how, values, left = READ[text]
    table = read(tmp_path, text, **how)
    assert table.values.tolist() == values
    assert [c["column"] for c in table.about["left_out"]] == left
    assert table.about["rows"] == len(values)
    assert list(table.columns) == table.about["columns"]
    again = read(tmp_path, text.replace("\n", "\r\n").encode("utf-16"), **how)
    assert again.values.tolist() == values


@pytest.mark.parametrize("text", list(REFUSED))
def test_refused(text: str, tmp_path: Path) -> None:
    how, message = REFUSED[text]
    with pytest.raises(CommandError) as refusal:
        read(tmp_path, text, **how)
    assert message in refusal.value.message


@given(
    st.lists(
        st.lists(st.floats(-1e6, 1e6).map(lambda v: round(v, 3)), min_size=3, max_size=3),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([",", ";", "\t", "|", "  "]),
    st.sampled_from([".", ","]),
)
def test_what_a_program_writes_is_read_or_asked(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[float]], between: str, mark: str
) -> None:
    """Whatever the numbers, no other numbers come out."""
    quote = '"' if between == mark else ""
    lines = [between.join(quote + f"{v:.3f}".replace(".", mark) + quote for v in r) for r in rows]
    try:
        table = read(tmp_path_factory.mktemp("x"), f"u{between}v{between}w\n" + "\n".join(lines))
    except CommandError as error:
        question = error.message
    else:
        question = ""
        assert table.values.tolist() == rows
    assert not question or "--thousands" in question


def test_packed_and_encoded(tmp_path: Path) -> None:
    plain = b"x,y\n1,2.5\n3,4\n"
    zstd = pa.BufferOutputStream()
    with pa.CompressedOutputStream(zstd, "zstd") as stream:
        stream.write(plain)
    packed = [gzip.compress(plain), bz2.compress(plain), lzma.compress(plain)]
    for data in (*packed, zstd.getvalue().to_pybytes(), b"\xef\xbb\xbf" + plain):
        assert read(tmp_path, data).values.tolist() == [[1, 2.5], [3, 4]]
    for data in packed:
        with pytest.raises(CommandError, match="damaged"):
            read(tmp_path, data[:-9])
    latin = "größe;b\n1;2\n".encode("latin-1")
    assert read(tmp_path, latin, encoding="latin-1").columns == ("größe", "b")
    with pytest.raises(CommandError, match="line 1: not UTF-8 text"):
        read(tmp_path, latin)
    with pytest.raises(CommandError, match="utf-16-le"):
        read(tmp_path, "a,b\n1,2\n".encode("utf-16-le"))


def test_tables_of_arrow(tmp_path: Path) -> None:
    table = pa.table({"x": [0.5, 1.0], "kind": ["a", "b"], "y": [2**60, 1]})
    for write in (parquet.write_table, feather.write_feather):
        write(table, tmp_path / "x")
        found = read_table(tmp_path / "x")
        assert found.columns == ("x", "y")
        assert found.values.tolist() == [[0.5, 2**60], [1.0, 1]]


def test_centers_have_the_coordinates_of_the_points(tmp_path: Path) -> None:
    points = read(tmp_path, "id,x,y,kind\n1,5,6,a\n2,7,9,b\n3,4,4,c\n")
    for text in ("0,1.0\n1,5\n2,7\n", "y,x\n1.0,0\n5,1\n7,2\n", "k,x,y\n7,0,1.0\n7,1,5\n8,2,7\n"):
        (tmp_path / "c").write_text(text)
        found = read_table(tmp_path / "c", how=points.how, points=points).values.tolist()
        assert found == [[0, 1], [1, 5], [2, 7]], text


def test_written_decimals_are_exact(tmp_path: Path) -> None:
    text = "x,y\n5.1,-.25e1\n3,1e-3\n"
    written = read(tmp_path, text, values="written").values.tolist()
    assert written == [[Fraction(51, 10), Fraction(-5, 2)], [3, Fraction(1, 1000)]]
    assert read(tmp_path, text).values.tolist() == [[5.1, -2.5], [3.0, 0.001]]
    stored, exact = (
        audit(read_dataset("iris").values, 3, steps=1, values=values)["exact"]["steps"][0]
        for values in ("stored", "written")
    )
    assert stored["tied_points"] == 0
    assert exact["tied_points"] > 0  # what is a tie on paper is none in float64
    assert stored["margin"]["value"] < 1e-15


def test_standard_input_and_what_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = b"id;x;y;kind\n1;0,5;1;a\n2;0,25;;b\n3;4;5;a\n4;9;9;b\n"
    for options in ((), ("--json",)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        arguments = ["audit", "-", "--k", "2", "--steps", "1", "--missing", "drop", *options]
        monkeypatch.setattr(sys, "argv", ["leanlloyd", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out = capsys.readouterr().out
        assert not stop.value.code
        if options:
            about = json.loads(out)["data"]["reading"]
            assert about["columns"] == ["x", "y"]
            assert about["rows_left_out"] == 1
            assert [c["column"] for c in about["left_out"]] == ["id", "kind"]
            assert (about["delimiter"], about["decimal"]) == (";", ",")
        else:
            assert out.startswith("standard input: n = 3 points")
            assert "Read 3 rows of 2 columns: x, y (values as stored" in out
            assert "Left out: id, an index: it counts from 1." in out
            assert "Left out: kind, holds text, such as 'a'." in out
            assert "Left out: 1 row with missing values." in out
    monkeypatch.setattr(sys, "argv", ["leanlloyd", "audit", "x", "-k", "2", "--delimiter", "ab"])
    with pytest.raises(SystemExit):
        main()
    assert "allowed: one character" in capsys.readouterr().err


COLUMNS = {
    "id": [1, 2, 3, 4],
    "x": [0.1, 1.5, 9.0, 8.0],
    "y": [1, 2, 7, 8],
    "kind": ["a", "b", "a", "b"],
    "good": [True, False, True, True],
}


def frame(library: str) -> Any:
    if library == "pyarrow":
        return pa.table(COLUMNS)
    return pytest.importorskip(library).DataFrame(COLUMNS)


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_frames_and_arrays_give_one_report(library: str, tmp_path: Path) -> None:
    X = np.array([COLUMNS["x"], COLUMNS["y"]]).T
    of_frame = audit(frame(library), 2, steps=2)
    assert [c["column"] for c in of_frame["data"]["reading"]["left_out"]] == ["id", "kind", "good"]
    for data in (X, torch.tensor(X, requires_grad=True), X.tolist(), X.astype(np.float64)[:, ::1]):
        found = audit(data, 2, steps=2)
        assert found["exact"] == of_frame["exact"]
    assert audit(frame(library), 2, steps=1, columns="id,y")["data"]["d"] == 2
    for bad in (frame(library)[:0] if library != "pyarrow" else pa.table({}), "text", X[0]):
        with pytest.raises(InputError):
            audit(bad, 2)


def test_missing_values_of_frames() -> None:
    pandas = pytest.importorskip("pandas")
    gaps = pandas.DataFrame(
        {"x": pandas.array([2**60, None, 3, 5], dtype="Int64"), "y": [1.0, 2.0, np.nan, 4.0]}
    )
    with pytest.raises(CommandError, match="2 values are missing, the first in row 1"):
        read_frame(gaps)
    found = read_frame(gaps, How(missing="drop"))
    assert found.values.tolist() == [[2**60, 1.0], [5, 4.0]]
    assert found.about["rows_left_out"] == 2
