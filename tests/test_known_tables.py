"""A model knows the table that it learned from, by its contents, and says so."""

import gzip
import json
import os
import re

import pytest

from tables import GRADES, make_rows, write, write_csv

ENDS = ("--lower", "low", "--upper", "high", "--classes", ",".join(GRADES), "--drop", "id")
NOTE = "note: the model learned"


def note_of(out):
    return [line for line in out.splitlines() if line.startswith("note: ")]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "csv.gz"])
def test_evaluate_and_report_say_so_whatever_the_file_is_called(good, tmp_path, suffix):
    table = write(tmp_path / f"flats.{suffix}", make_rows())
    fitted = json.loads(good("fit", table, *ENDS, "-o", "m.pril", "--json"))
    held_out = fitted["holdout"]
    table = table.rename(tmp_path / f"renamed.{suffix}")
    os.utime(table, (0, 0))
    [said] = note_of(good("evaluate", "m.pril", table))
    learned = fitted["learned_rows"]
    assert said.startswith(f"{NOTE} {learned} of the 300 rows of this table, so the numbers are")
    assert f"on the {held_out['rows']} rows that were held out" in said
    assert f"inside the range for {held_out['interval_accuracy']:.1%}" in said
    assert f"off by {held_out['interval_absolute_error']:.4f} ranks" in said
    assert json.loads(good("evaluate", "m.pril", table, "--json"))["learned_rows"] == learned
    assert note_of(good("report", "m.pril", table, "-o", "page.html")) == [said]
    page = (tmp_path / "page.html").read_text()
    assert f"The model learned {learned} of the 300 rows of this table" in page
    assert "valid only if the model has not learned" not in page


def test_a_model_without_rows_held_out(good, tmp_path):
    rows = [row for row in make_rows() if row["low"] or row["high"]]
    write_csv(tmp_path / "flats.csv", rows)
    good("fit", "flats.csv", *ENDS, "--holdout", 0, "-o", "m.pril")
    assert note_of(good("evaluate", "m.pril", "flats.csv")) == [
        f"{NOTE} from this table, so the numbers are better than on new rows; take rows that it "
        "has not seen"
    ]


def test_other_tables_are_not_taken_for_it(good, tmp_path):
    write_csv(tmp_path / "flats.csv", make_rows())
    good("fit", "flats.csv", *ENDS, "-o", "m.pril")
    before = (tmp_path / "flats.csv").read_bytes()
    times = os.stat("flats.csv")
    digit = re.search(rb"\d", before[len(before) // 2 :]).start() + len(before) // 2
    other = bytes([before[digit] ^ 1])
    changes = {
        "one digit": before[:digit] + other + before[digit + 1 :],
        "a row less": before[: before[:-2].rindex(b"\n") + 1],
        "a row more": before + before[: before.rindex(b"\n")].splitlines(keepends=True)[-1] + b"\n",
    }
    for change, content in changes.items():
        (tmp_path / "flats.csv").write_bytes(content)
        os.utime("flats.csv", ns=(times.st_atime_ns, times.st_mtime_ns))
        out = good("evaluate", "m.pril", "flats.csv")
        assert note_of(out) == [], change
        out = json.loads(good("evaluate", "m.pril", "flats.csv", "--json"))
        assert "learned_rows" not in out
    good("report", "m.pril", "flats.csv", "-o", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "valid only if the model has not learned from these rows" in page


def test_files_of_a_folder_in_any_order(good, tmp_path):
    (tmp_path / "parts").mkdir()
    rows = make_rows()
    write_csv(tmp_path / "parts/a.csv", rows[:100])
    write_csv(tmp_path / "parts/b.csv", rows[100:])
    good("fit", "parts", *ENDS, "-o", "m.pril")
    (tmp_path / "parts/a.csv").rename(tmp_path / "parts/z.csv")
    assert len(note_of(good("evaluate", "m.pril", "parts"))) == 1
    assert note_of(good("evaluate", "m.pril", "parts/b.csv")) == []


def test_a_table_from_a_pipe(good, feed, tmp_path):
    write_csv(tmp_path / "flats.csv", make_rows())
    feed((tmp_path / "flats.csv").read_bytes())
    good("fit", "-", *ENDS, "-o", "m.pril")
    assert len(note_of(good("evaluate", "m.pril", "flats.csv"))) == 1


def test_a_file_larger_than_the_samples(good, tmp_path, monkeypatch):
    """Of a large file, samples are compared: the size, and a change in a sample, are seen."""
    monkeypatch.setattr("pril.tables.text.READ_BYTES", 64)
    monkeypatch.setattr("pril.tables.files.MANY_SAMPLES", 7)
    write_csv(tmp_path / "flats.csv", make_rows())
    good("fit", "flats.csv", *ENDS, "-o", "m.pril")
    assert len(note_of(good("evaluate", "m.pril", "flats.csv"))) == 1
    lines = (tmp_path / "flats.csv").read_text().splitlines(keepends=True)
    lines[-1] = lines[-1].replace("flat 299", "flat 298")
    (tmp_path / "flats.csv").write_text("".join(lines))
    assert note_of(good("evaluate", "m.pril", "flats.csv")) == []


def test_a_compressed_copy_is_another_file(good, tmp_path):
    """Contents are compared as they are stored: this is documented."""
    write_csv(tmp_path / "flats.csv", make_rows())
    good("fit", "flats.csv", *ENDS, "-o", "m.pril")
    (tmp_path / "copy.csv.gz").write_bytes(gzip.compress((tmp_path / "flats.csv").read_bytes()))
    assert note_of(good("evaluate", "m.pril", "copy.csv.gz")) == []


def test_a_damaged_note(good, bad, tmp_path):
    from pril.io import model_files

    write_csv(tmp_path / "t.csv", make_rows(60))
    good("fit", "t.csv", *ENDS, "-o", "m.pril")
    model, about = model_files.read("m.pril", kind="model")
    for contents in ({"bytes": "many", "sha256": ""}, {"bytes": 3}, 7):
        notes = about.notes | {"contents": contents}
        model_files.write(model, "m.pril", kind="model", notes=notes)
        assert "m.pril is damaged: its notes" in bad("evaluate", "m.pril", "t.csv")
