"""Quotes in CSV: no row is lost, no cell is changed."""

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pril.errors import RowError
from pril.tables.opening import open_table
from pril.tables.text import csv_blocks


def is_well_formed(text):
    """Read text byte by byte, as RFC 4180 says; quotes inside plain cells are allowed."""
    state = "start"
    for byte in text:
        if state == "start":
            state = "inside" if byte == '"' else "start" if byte in ",\r\n" else "plain"
        elif state == "plain":
            state = "start" if byte in ",\r\n" else "plain"
        elif state == "inside":
            state = "closed" if byte == '"' else "inside"
        elif byte == '"':
            state = "inside"
        elif byte in ",\r\n":
            state = "start"
        else:
            return False
    return state != "inside"


@given(st.text('"",\n\rab\ufeff', max_size=30), st.integers(1, 8))
@example("\ufeffa\n\ufeffb", 2)
@example('"a""', 1)
@example('""x', 1)
@example('a"b,"', 2)
def test_the_check_is_that_of_rfc_4180_in_any_chunks(text, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pril.tables.text.READ_BYTES", size)
        try:
            read = b"".join(csv_blocks(io.BytesIO(b"a\n" + text.encode()), ","))
        except RowError:
            assert not is_well_formed(text)
        else:
            assert is_well_formed(text)
            assert read.decode().removesuffix("\n") == f"a\n{text}".removesuffix("\n")


@st.composite
def written(draw, cells):
    """Return a cell as a file may have it: in quotes, or plain where that can be read."""
    cell = draw(cells)
    if draw(st.booleans()) or cell.startswith('"') or set(cell) & set(",\n"):
        cell = cell.replace('"', '""')
        return f'"{cell}"'
    return cell


@given(
    st.lists(
        st.tuples(written(st.text('",\n b;\ufeff', max_size=4)), written(st.text('", 1'))),
        min_size=1,
    )
)
@example([("\ufeff1", "1")])
def test_files_are_read_as_the_standard_library_reads_them(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    raw = "\n".join(["x,y", *(f"{one},{two}" for one, two in cells), ""])
    path.write_text(raw, newline="")
    blocks = [block.to_pylist() for _, block in open_table(str(path)).blocks()]
    expected = [row for row in csv.reader(io.StringIO(raw, newline=""), strict=True) if row][1:]
    assert [[row["x"], row["y"]] for block in blocks for row in block] == expected


@pytest.mark.parametrize("options", [["--features", "a,b"], ["--drop", "d"], ["--no-one-hot"]])
@pytest.mark.parametrize("cell", ['"he said', '""xxx', '"a"b'])
def test_a_wrong_quote_in_a_column_that_is_not_read(bad, tmp_path, options, cell):
    rows = [f"{k % 2},{k},{k * k % 7},w" for k in range(400)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "p.csv").write_text("\n".join(["y,a,b,d", *rows, ""]))
    rows[200] = f"1,2,3,{cell}"
    (tmp_path / "in" / "q.csv").write_text("\n".join(["y,a,b,d", *rows, ""]))
    for place in ("in/q.csv", "in"):
        said = bad("fit", place, "--label", "y", *options)
        assert said.startswith("in/q.csv, row 201: ")
        assert "quote" in said
