"""Tables: every format gives the same rows, from any row on, and says where it is broken."""

import csv
import ctypes
import gzip
import io
import json
import math
import os
import pickle
import sys
import threading
from datetime import datetime

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pril.errors import ClassOrderWarning, RowError
from pril.tables import files, text
from pril.tables.arrow import read_numbers, read_words
from pril.tables.files import Table, TableError, in_blocks, read_ahead
from pril.tables.opening import open_table
from pril.tables.writing import TableWriter
from tables import make_rows, write

SUFFIXES = ["csv", "csv.gz", "tsv", "tsv.bz2", "jsonl", "jsonl.zst", "parquet"]


def read(table, columns=None, start=0):
    """Return rows as the encoder sees them: numbers, words, gaps."""
    rows = []
    for _, block in table.blocks(columns, start):
        names = block.schema.names
        cells = [
            read_numbers(block.column(n), n).tolist()
            if n in ("size", "age", "grade", "label")
            else read_words(block.column(n), n).to_pylist()
            for n in names
        ]
        rows += [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]
    return [{n: None if v != v else v for n, v in row.items()} for row in rows]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(files, "BLOCK_ROWS", 7)
    monkeypatch.setattr(text, "READ_BYTES", 500)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_formats_agree_from_any_row_on(tmp_path, suffix, small_blocks):
    rows = make_rows(40)
    table = open_table(str(write(tmp_path / f"t.{suffix}", rows)))
    assert read(table) == rows
    assert [block.num_rows for _, block in table.blocks()] == [7] * 5 + [5]
    assert [first for first, _ in table.blocks(["age"], 14)] == [14, 21, 28, 35]
    for start in (0, 1, 7, 39, 40):
        assert read(table, ["age", "town"], start) == [
            {"age": row["age"], "town": row["town"]} for row in rows[start:]
        ]
    assert table.where(39) == f"{tmp_path}/t.{suffix}, row 40"


def test_blocks_of_wide_tables_have_fewer_rows(tmp_path):
    for width, rows in ((1, 1 << 15), (128, 1 << 15), (1000, (1 << 22) // 1000)):
        table = open_table(str(write(tmp_path / "t.csv", [{f"x{j}": 1 for j in range(width)}])))
        assert table.block_rows == rows


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_many_files_are_one_table(tmp_path, suffix, small_blocks):
    rows = make_rows(40)
    for part, start in enumerate((0, 3, 17)):
        stop = (3, 17, 40)[part]
        write(tmp_path / f"part-{part}.{suffix}", rows[start:stop])
    (tmp_path / "README.md").write_text("not a table")
    for place in (str(tmp_path), f"{tmp_path}/part-*.{suffix}"):
        table = open_table(place)
        assert read(table) == rows
        assert read(table, None, 20) == rows[20:]
        assert table.where(17) == f"{tmp_path}/part-2.{suffix}, row 1"
    assert len(table.fingerprint()) == 3


def test_row_groups_before_the_start_are_not_read(tmp_path, monkeypatch):
    rows = make_rows(100)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=10)
    seen = []
    real = pq.ParquetFile.iter_batches

    def spy(self, size, row_groups, **options):
        seen.extend(row_groups)
        return real(self, size, row_groups=row_groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    assert read(open_table(str(path)), None, 75) == rows[75:]
    assert seen == [7, 8, 9]


def test_kinds_are_found_behind_empty_beginnings(tmp_path, small_blocks):
    rows = [{"a": "", "b": k, "c": "", "d": "1"} for k in range(200)]
    rows[150]["a"] = "x"
    rows[160]["c"] = "2"
    table = open_table(str(write(tmp_path / "t.csv", rows)))
    assert [str(field.type) for field in table.schema] == ["string", "double", "double", "double"]
    empty = open_table(str(write(tmp_path / "e.csv", [{"a": "", "b": 1}])))
    assert [str(field.type) for field in empty.schema] == ["null", "double"]


def test_the_first_value_decides_what_a_column_holds(tmp_path):
    table = open_table(str(write(tmp_path / "t.csv", [{"a": "", "b": "x"}, {"a": 1, "b": 2}])))
    assert [str(field.type) for field in table.schema] == ["double", "string"]
    (tmp_path / "t.csv").write_bytes(b"a\n\xff\n")
    with pytest.raises(
        TableError, match=r"t.csv, row 1: column 'a' is b'\\xff', which is not UTF-8"
    ):
        open_table(str(tmp_path / "t.csv"))


def test_quotes_newlines_and_bom(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbfname,x\r\n"a\nb, ""c""",1\r\nplain,2\r\n')
    table = open_table(str(path))
    assert table.schema.names == ["name", "x"]
    assert [block.column("name").to_pylist() for _, block in table.blocks()] == [
        ['a\nb, "c"', "plain"]
    ]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", "t.csv is empty"),
        ("t.csv", b"a,b\n1,2\n3\n", r"t.csv, row 2: 1 cells where the header has 2: '3'"),
        ("t.csv", b"a,b\n1,2,3\n", r"row 1: 3 cells where the header has 2: '1,2,3'"),
        ("t.csv", b"\xff,b\n1,2\n", "the header has b'.xff', which is not UTF-8"),
        ("t.csv", b"a,a\n1,2\n", "the column 'a' occurs twice"),
        ("t.csv", b"a;b\n1;2\n", "the header is one name, 'a;b', if cells are separated by commas"),
        ("t.csv", b'a,b\n1,2\n3,"x\n4,5\n', "t.csv, row 2: a quote opens a cell in this row, and nothing closes it"),
        ("t.csv.gz", b"no gzip", "t.csv.gz, after row 0: .*incorrect header"),
        ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 9, mtime=0)[:-9], "t.csv.gz, after row 0: "),
        ("t.parquet", b"PAR1 and then nothing", "t.parquet is damaged, or not a Parquet file"),
        ("t.jsonl", b"\n\n", "t.jsonl is empty"),
        ("t.jsonl", b'{"a": 1}\n{"a": \n', r"t.jsonl, row 2: not a JSON object .*'{\"a\": '"),
        ("t.jsonl", b'{"a": 1}\n\n[1]\n', r"t.jsonl, row 2: not a JSON object: '\[1\]'"),
        ("t.jsonl", b'{"a": "\xff"}\n', "row 1: not UTF-8"),
        ("t.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 9, mtime=0)[:-9], "t.jsonl.gz, after row 0"),
        ("t.jsonl", b'{"w": "a"}\n{"w": "\\ud800"}\n', r"row 2: column 'w' is '\\ud800', an unpaired surrogate"),
        ("t.dat", b"?", "unknown format"),
    ],
)  # fmt: skip
def test_broken_files_are_explained(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError, match=said):
        list(open_table(str(tmp_path / name)).blocks())


def test_files_that_do_not_belong_together(tmp_path):
    write(tmp_path / "a.csv", [{"x": 1}])
    write(tmp_path / "b.csv", [{"y": 1}])
    with pytest.raises(TableError, match=r"b.csv has other columns than .*a.csv"):
        open_table(str(tmp_path))
    (tmp_path / "b.csv").unlink()
    write(tmp_path / "c.jsonl", [{"x": 1}])
    with pytest.raises(TableError, match="unknown format"):
        open_table(str(tmp_path))
    pq.write_table(pa.table({"x": [1]}), tmp_path / "d.parquet")
    pq.write_table(pa.table({"x": ["1"]}), tmp_path / "e.parquet")
    said = r"e.parquet has other columns or types than .*d.parquet: x: int64; x: string$"
    with pytest.raises(TableError, match=said):
        open_table(f"{tmp_path}/*.parquet")
    with pytest.raises(FileNotFoundError, match=r"nowhere.csv: no such file"):
        open_table(str(tmp_path / "nowhere.csv"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(TableError, match="no file in this folder"):
        open_table(str(tmp_path / "empty"))


def test_a_table_without_rows_is_refused_when_it_is_opened(tmp_path):
    none, one = pa.table({"x": pa.array([], pa.int64())}), pa.table({"x": [1]})
    pq.write_table(none, tmp_path / "a.parquet")
    with pytest.raises(TableError, match=r"a\.parquet has no rows$"):
        open_table(str(tmp_path / "a.parquet"))
    pq.write_table(one, tmp_path / "b.parquet")
    assert open_table(f"{tmp_path}/*.parquet").n_rows == 1


def test_a_column_changes_its_type(tmp_path, small_blocks):
    rows = [{"x": k, "w": "a"} for k in range(100)]
    path = write(tmp_path / "t.jsonl", [*rows, {"x": "b", "w": "a"}])
    with pytest.raises(TableError, match=r"t.jsonl, row 101: column 'x' is 'b', not a number"):
        list(open_table(str(path)).blocks())
    path = write(tmp_path / "t.jsonl", [*rows, {"x": 1, "w": 2}])  # a word, as it is in CSV
    assert [block["w"].to_pylist()[-1] for _, block in open_table(str(path)).blocks()][-1] == "2"
    path = write(tmp_path / "t.jsonl", [*rows, {"x": 1, "w": [2]}])
    with pytest.raises(TableError, match=r"t.jsonl, row 101: column 'w' is \[2\], not text"):
        list(open_table(str(path)).blocks())


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_damage_never_hangs_or_crashes(tmp_path_factory, data):
    """A file cut short, or with bytes changed, is read as some table or refused, nothing else."""
    folder = tmp_path_factory.mktemp("fuzz")
    suffix = data.draw(st.sampled_from(SUFFIXES))
    path = write(folder / f"t.{suffix}", make_rows(20))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        for _, block in open_table(str(path)).blocks():
            for name in block.schema.names:
                if pa.types.is_string(block.column(name).type):
                    read_words(block.column(name), name)
    except (ValueError, TypeError, OSError) as error:
        said = str(error)
        assert said


def test_fingerprints_tell_tables_apart(tmp_path):
    rows = make_rows(40)
    first = open_table(str(write(tmp_path / "a.csv", rows))).fingerprint()
    assert first == open_table(str(tmp_path / "a.csv")).fingerprint()
    status = (tmp_path / "a.csv").stat()
    os.utime(tmp_path / "a.csv", ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert first != open_table(str(tmp_path / "a.csv")).fingerprint()  # it may differ unsampled
    rows[20]["age"] = (rows[20]["age"] + 1) % 10
    assert first != open_table(str(write(tmp_path / "a.csv", rows))).fingerprint()


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 8))
def test_rebatching_keeps_the_rows(sizes, rows):
    start, batches = 0, []
    for size in sizes:
        batches.append(pa.RecordBatch.from_pydict({"x": list(range(start, start + size))}))
        start += size
    blocks = list(in_blocks(batches, rows))
    assert [x for block in blocks for x in block.column("x").to_pylist()] == list(range(start))
    assert all(block.num_rows == rows for block in blocks[:-1])
    assert all(0 < block.num_rows <= rows for block in blocks)


def test_reading_ahead_passes_errors_on_and_stops():
    def broken():
        yield 1
        raise OSError("disk")

    items = read_ahead(broken())
    assert next(items) == 1
    with pytest.raises(OSError, match="disk"):
        next(items)
    before = threading.active_count()
    endless = read_ahead(iter(int, 1))
    next(endless)
    endless.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_what_is_written_is_read_again(tmp_path, kind):
    rows = make_rows(30)
    table = open_table(str(write(tmp_path / f"t.{kind}", rows)))
    path = tmp_path / f"again.{kind}"
    with path.open("wb") as file:
        writer = TableWriter(file, kind)
        for start in (0, 20):
            for _, block in table.blocks(None, start):
                writer.write(block.slice(0, 20 if start == 0 else 10), {})
        writer.close()
    assert read(open_table(str(path))) == rows


def test_csv_is_copied_verbatim():
    cells = {"a": ["0.10", "NA"], "b": ["", "x,y"], "c": ['say "hi"', "two\nlines"]}
    file = io.BytesIO()
    TableWriter(file, "csv").write(pa.RecordBatch.from_pydict(cells), {})
    assert list(csv.reader(io.StringIO(file.getvalue().decode(), newline=""))) == [
        ["a", "b", "c"], ["0.10", "", 'say "hi"'], ["NA", "x,y", "two\nlines"],
    ]  # fmt: skip
    file = io.BytesIO()
    TableWriter(file, "csv").write(
        pa.RecordBatch.from_pydict({"a": ["0.10"]}), {"score": pa.array([0.5])}
    )
    assert file.getvalue() == b"a,score\n0.10,0.5\n"


def test_json_has_no_nan_anywhere_and_one_form_of_times():
    times = [datetime(2020, 1, 2, 3, 4)]
    cells = {"of_ns": pa.array(times, pa.timestamp("ns")), "of_us": pa.array(times)}
    batch = pa.RecordBatch.from_pydict({"x": [math.nan], "many": [[1.0, math.inf]], **cells})
    file = io.BytesIO()
    TableWriter(file, "jsonl").write(batch, {})
    row = json.loads(file.getvalue(), parse_constant=pytest.fail)
    time = "2020-01-02T03:04:00"
    assert row == {"x": None, "many": [1.0, None], "of_ns": time, "of_us": time}


@given(st.lists(st.lists(st.text('ab1 ,"\n\r\t', max_size=4), min_size=2, max_size=2), min_size=1))
def test_any_cells_are_written_as_csv_that_reads_the_same(rows):
    for kind, delimiter in (("csv", ","), ("tsv", "\t")):
        file = io.BytesIO()
        columns = dict(zip(('a"', "b,"), map(list, zip(*rows, strict=True)), strict=True))
        TableWriter(file, kind).write(pa.RecordBatch.from_pydict(columns), {})
        text = io.StringIO(file.getvalue().decode(), newline="")
        assert list(csv.reader(text, delimiter=delimiter)) == [['a"', "b,"], *rows]


def quoted(cell, delimiter):
    """Return a cell as CSV writes it: the slow twin of the writer."""
    text = cell or ""
    if any(mark in text for mark in (delimiter, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    return text


COLUMNS = {
    'na"m\u00e9,\t%s%': (pa.string(), st.text('ab1 ,"\n\r\t%\u00e9', max_size=5)),
    "number": (pa.float64(), st.floats()),
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "truth": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), st.dates()),
    "code": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["x", "y,z", 'q"'])),
}
CELLS = st.tuples(*(st.none() | cells for _, cells in COLUMNS.values()))


@given(st.lists(CELLS, min_size=1), st.integers(0, 3))
def test_rows_are_written_as_their_slow_twins(rows, skip):
    rows = [dict(zip(COLUMNS, cells, strict=True)) for cells in rows]
    schema = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
    batch = pa.RecordBatch.from_pylist([rows[0]] * skip + rows, schema=schema).slice(skip)
    for kind, delimiter in (("csv", ","), ("tsv", "\t")):
        file = io.BytesIO()
        TableWriter(file, kind).write(batch, {})
        columns = [cells.cast(pa.string()).to_pylist() for cells in batch.columns]
        lines = [list(rows[0]), *zip(*columns, strict=True)]
        slow = [delimiter.join(quoted(cell, delimiter) for cell in line) + "\n" for line in lines]
        assert file.getvalue().decode() == "".join(slow)
    file = io.BytesIO()
    TableWriter(file, "jsonl").write(batch, {})
    for line, row in zip(file.getvalue().decode().split("\n")[:-1], rows, strict=True):
        number, day = row["number"], row["day"]
        finite = number if number is not None and math.isfinite(number) else None
        expected = row | {"number": finite, "day": day and str(day)}
        assert json.loads(line) == expected
        assert list(json.loads(line)) == list(row)
        assert "\\u00e9" not in line


def copied(path, kind):
    """Copy a table to another format; return the new file."""
    table = open_table(str(path))
    out = path.parent / f"copied.{kind}"
    with out.open("wb") as file:
        writer = TableWriter(file, kind)
        for _, used, block in table.blocks_to_copy(table.schema.names[:1], kind):
            writer.write(block, {"n": pa.array(range(used.num_rows))})
        writer.close()
    return out


def test_json_lines_are_copied_to_json_lines_as_they_are(tmp_path):
    lines = [
        '{"x": 1, "note": 5}',
        '{ "x": 2.0, "note": "a", "s": {"b": 2}, "id": 123456789012345678901234567890 }',
        '{"x":3,"half":"\\ud800","far":1e400,"nan":NaN,"s":[1, {"c": null}]}',
        "{}",
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("\ufeff" + "\n\n".join(lines) + "  \r\n")
    found = copied(path, "jsonl").read_text().splitlines()
    assert found[0] == '{"x": 1, "note": 5, "n": 0}'
    assert found[1] == lines[1][:-2] + ', "n": 1}'
    assert found[2] == lines[2][:-1] + ', "n": 2}'
    assert found[3] == '{"n": 3}'


def test_json_lines_of_many_kinds_are_copied_to_csv_and_parquet(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "READ_BYTES", 64)  # many blocks, each with other keys
    rows = [{"x": k, "mixed": 2**60 + k if k < 20 else "word"} for k in range(40)]
    rows[35] |= {
        "late": [1, {"\u00e9": None}],
        "whole": 2**60,
        "day": "2020-01-01",
        "real": 2**60 + 1,
    }
    rows[36] |= {"late": "text", "whole": 3, "ok": True, "real": 0.5, "long": 10**30}
    path = write(tmp_path / "t.jsonl", rows)
    expected = {
        "mixed": [str(2**60 + k) if k < 20 else "word" for k in range(40)],
        "late": {35: '[1, {"\u00e9": null}]', 36: "text"}, "whole": {35: 2**60, 36: 3},
        "day": {35: "2020-01-01"}, "ok": {36: True}, "real": {35: 2.0**60, 36: 0.5}, "long": {36: str(10**30)},
    }  # fmt: skip
    for frame in (
        pd.read_parquet(copied(path, "parquet")),
        pd.read_csv(copied(path, "csv"), dtype={"whole": "Int64", "long": str}),
    ):
        assert list(frame) == ["x", "mixed", "late", "whole", "day", "real", "ok", "long", "n"]
        assert frame["x"].tolist() == list(range(40))
        assert frame["mixed"].tolist() == expected["mixed"]
        for name in ("late", "day", "ok", "real", "long"):
            assert frame[name].dropna().to_dict() == expected[name]
    assert pq.read_table(tmp_path / "copied.parquet")["whole"].drop_null().to_pylist() == [
        2**60,
        3,
    ]


def test_csv_is_copied_to_typed_formats_with_its_numbers(tmp_path, small_blocks):
    rows = [
        {"x": k, "z": "" if k == 3 else k / 4, "id": "007" if k == 20 else k,
         "late": "NA" if k < 40 else 5, "big": 10**20 if k == 20 else k,
         "word": "" if k == 1 else "a"}
        for k in range(45)
    ]  # fmt: skip
    path = write(tmp_path / "t.csv", rows)
    for kind, read_back in (("parquet", pd.read_parquet), ("jsonl", read_json_lines)):
        frame = read_back(copied(path, kind))
        assert frame["x"].tolist() == list(range(45))
        assert frame["z"].isna().tolist() == [k == 3 for k in range(45)]
        assert frame["z"].dropna().tolist() == [k / 4 for k in range(45) if k != 3]
        assert frame["id"].tolist() == [str(row["id"]) for row in rows]
        assert frame["late"].dropna().tolist() == [5] * 5
        assert frame["big"].tolist() == [str(row["big"]) for row in rows]
        assert frame["word"].isna().tolist() == [k == 1 for k in range(45)]
    (tmp_path / "bad.csv").write_bytes(b"x,w\n" + b"1,a\n" * 40 + b"2,\xff\n")
    with pytest.raises(TableError, match=r"row 41: column 'w' is b'\\xff', which is not UTF-8"):
        copied(tmp_path / "bad.csv", "parquet")


def read_json_lines(path):
    return pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])


@pytest.mark.parametrize("depth", [400, 5_000, 100_000])
def test_nesting_of_any_depth_ends_in_a_sentence(tmp_path, depth):
    path = tmp_path / "t.jsonl"
    path.write_text('{"x": 1}\n{"x": 1, "d": ' + "[" * depth + "]" * depth + "}\n")
    if depth < (500 if sys.version_info < (3, 13) else 10_000):  # how deep Python reads JSON
        assert open_table(str(path)).schema.names == ["x", "d"]
        return
    with pytest.raises(TableError, match=r"t.jsonl, row 2: not a JSON object \(.*recursion"):
        open_table(str(path))


def test_words_where_numbers_were(tmp_path):
    path = write(tmp_path / "t.jsonl", [{"x": 5}, {"x": 1.5}, {"x": True}, {"x": "oops"}])
    table = open_table(str(path))
    table.read_as(["x", "nowhere"])
    [(_, block)] = table.blocks()
    assert block["x"].to_pylist() == ["5", "1.5", "true", "oops"]


@pytest.mark.parametrize(
    "error",
    [
        TableError("t.csv, row 2: bad", "text"),
        RowError("y", 1, "bad", hint="classes"),
        ClassOrderWarning("y: guessed: pass classes=", "guessed"),
    ],
)
def test_hints_reach_other_processes(error):
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
    assert copy.hint == error.hint


def test_stars_pass_over_what_is_hidden(tmp_path):
    for folder in ("a", "_tmp", ".git"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "t.csv", [{"x": 1}])
    for place in (f"{tmp_path}/*/t.csv", f"{tmp_path}/**/*.csv", str(tmp_path)):
        assert [file.parent.name for file in open_table(place).files] == ["a"]
    assert len(open_table(f"{tmp_path}/_tmp/*.csv").files) == 1


def test_many_partitions_are_found_without_searching(tmp_path):
    """The work for a table of many files grows with their number, not with its square."""
    compared = []

    class Counted(type(tmp_path)):
        def __eq__(self, other):
            compared.append(self)
            return super().__eq__(other)

        __hash__ = type(tmp_path).__hash__

    files = []
    for k in range(60):
        (tmp_path / f"k={k}").mkdir()
        (tmp_path / f"k={k}" / "a.csv").write_text(f"a\n{k}\n")
        files.append(Counted(tmp_path / f"k={k}" / "a.csv"))
    table = Table(files, "t", "csv").stamped().find_columns(tmp_path)
    compared.clear()
    [(_, block)] = table.blocks(["a", "k"])
    assert block.column("a") == block.column("k")
    assert len(compared) <= 4 * len(files)


def test_spaces_around_a_number_do_not_count_and_a_word_keeps_them(tmp_path):
    (tmp_path / "t.csv").write_text("x,town\n 1 ,NULL \nNULL ,NULL\n")
    [(_, block)] = open_table(str(tmp_path / "t.csv")).blocks()
    assert read_numbers(block["x"], "x").tolist() == [1.0, pytest.approx(math.nan, nan_ok=True)]
    assert read_words(block["town"], "town").to_pylist() == ["NULL ", None]


def _new_thread_id():
    """Return the id of a new thread: one more than that of the thread before it."""
    ids, python = [], ctypes.pythonapi
    python.PyThreadState_Get.restype = ctypes.c_void_p
    python.PyThreadState_GetID.restype = ctypes.c_uint64
    python.PyThreadState_GetID.argtypes = [ctypes.c_void_p]
    thread = threading.Thread(
        target=lambda: ids.append(python.PyThreadState_GetID(python.PyThreadState_Get()))
    )
    thread.start()
    thread.join()
    return ids[0]


def test_threads_of_pyarrow_hold_nothing_of_python(tmp_path):
    """Else they wait for the interpreter, and a process that ends meanwhile is aborted."""
    for k in range(300):
        (tmp_path / f"{k}.csv").write_text("size,town\n1,Oslo\n")
    table = open_table(str(tmp_path)).stamped()
    first = _new_thread_id()
    assert sum(batch.num_rows for batch in table.batches(["size", "town"])) == 300
    assert _new_thread_id() == first + 1
