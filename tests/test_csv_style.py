"""CSV as other programs write it: decimal commas, groups of digits, encodings."""

import csv
import io as streams
import json
import re
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

import pril
from pril.errors import InputError, RowError
from pril.labels.brackets import GROUPS
from pril.tables.opening import open_table
from pril.tables.text import CsvStyle, Transcoded, csv_blocks

STYLES = [
    CsvStyle(decimal=decimal, thousands=thousands)
    for decimal in ".,"
    for thousands in GROUPS
    if thousands != decimal
]
GERMAN = CsvStyle(";", ",", ".", "cp1252")
OPTIONS = ("--delimiter", ";", "--decimal", ",", "--thousands", ".", "--encoding", "cp1252")
FIT = ("--label", "grade", "--classes", "bad,fair,good", "-q")


def flats(n=120, seed=0):
    """Return rows with numbers of all sizes, and towns that are not ASCII."""
    rng = np.random.default_rng(seed)
    price, size = rng.uniform(500, 3_000_000, n).round(2), rng.normal(0, 2, n).round(4)
    rank = np.digitize(price / 1e6 + size, [0.5, 2.0])
    towns = rng.choice(["Köln", "Łódź", "Bern, alt"], n)
    grades = np.array(["bad", "fair", "good"])[rank]
    cells = zip(price.tolist(), size.tolist(), towns.tolist(), grades.tolist(), strict=True)
    return [dict(zip(("price", "size", "town", "grade"), row, strict=True)) for row in cells]


def numeral(number, style):
    """Return a number as a style writes it, by Python's own grouping."""
    text = f"{number:,}" if style.thousands else f"{number}"
    return text.translate({ord(","): style.thousands, ord("."): style.decimal})


def write_styled(path, rows, style):
    """Write CSV of a style with the standard library."""
    with path.open("w", newline="", encoding=style.encoding) as file:
        writer = csv.writer(file, delimiter=style.delimiter)
        writer.writerow(rows[0])
        for row in rows:
            numbers = [isinstance(cell, float) for cell in row.values()]
            pairs = zip(row.values(), numbers, strict=True)
            writer.writerow([numeral(cell, style) if is_one else cell for cell, is_one in pairs])
    return path


def in_cp1252(rows):
    return [row | {"town": row["town"].replace("Łódź", "Zürich")} for row in rows]


# --- Numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", STYLES)
@given(number=st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: abs(x) < 1e15))
def test_a_number_in_any_style_is_that_number(style, number):
    read = style.read_numbers(pa.array([f" {numeral(number, style)}", "", None]), "x")
    np.testing.assert_array_equal(read, [number, np.nan, np.nan])


MISSING = ("", "NA", "nan", "-nan", "NaN")


def by_hand(text, style):
    """Return what a text is worth in a style, None if it is no number of that style.

    Groups of digits are those that Python's own formatting makes.
    """
    text = text.strip(" ")
    if text in MISSING:
        return np.nan
    sign, text = (text[:1], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if text.lower() in ("inf", "infinity"):
        return float(f"{sign}inf")
    mantissa, e, power = text.replace("E", "e").partition("e")
    whole, _, fraction = mantissa.partition(style.decimal)
    digits = "".join(mark for mark in whole if mark not in GROUPS[style.thousands])
    exponent = power[1:] if power[:1] in ("+", "-") else power
    if not re.fullmatch("[0-9]+", digits + fraction) or (
        e and not re.fullmatch("[0-9]+", exponent)
    ):
        return None
    if digits != whole:
        commas = re.sub(f"[{GROUPS[style.thousands]}]", ",", whole)
        if e or f"{int(digits or 0):,}" != commas:
            return None
    return float(f"{sign}{digits}.{fraction}e{power or 0}")


NOISE = st.lists(st.sampled_from([*"0123456789.,'_+-eEx ()", "\u00a0", "nan", "inf"]), max_size=9)
PIECES = st.lists(
    st.tuples(st.text("0123456789", max_size=4), st.sampled_from([*".,'_ \u00a0\u2019", ""])),
    max_size=4,
)
ALMOST_NUMBERS = st.builds(
    lambda sign, pieces, end: sign + "".join(map("".join, pieces)) + end,
    st.sampled_from(["", "-", "+", " "]),
    PIECES,
    st.sampled_from(["", "0", "123", "1e5", "12E-3", "e", " "]),
)


@pytest.mark.parametrize("style", STYLES)
@given(text=st.one_of(NOISE.map("".join), ALMOST_NUMBERS))
@settings(max_examples=100)
@example("1.234")
@example("0.123")
@example("-0,250")
@example("1,23")
@example("12,345.6")
@example("1.234e5")
@example("-.5e-3")
@example("1,234,5")
@example("nan(1)")
def test_what_is_no_number_of_a_style_is_refused(style, text):
    """A closed grammar: a text has the value that it has by hand, or none at all."""
    expected = by_hand(text, style)
    try:
        [read] = style.read_numbers(pa.array([text]), "x").tolist()
    except RowError:
        assert expected is None
    else:
        assert expected is not None
        np.testing.assert_equal(read, expected)


WORDS = st.sampled_from(
    ["0x10", " ", " NA", "Köln", 'a "b"', "\n", " 2020-01-31", "1990-05-06T07:08"]
)


@given(
    cells=st.lists(st.one_of(ALMOST_NUMBERS, WORDS), min_size=1, max_size=4),
    style=st.sampled_from(STYLES),
    delimiter=st.sampled_from(",;\t| '"),
    encoding=st.sampled_from(["utf-8", "cp1252", "utf-16"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
@example([" ", "Köln"], CsvStyle(), ",", "utf-8", csv.QUOTE_MINIMAL)
def test_a_file_is_read_as_it_is_written(
    tmp_path_factory, cells, style, delimiter, encoding, quoting
):
    """The first cell that is not missing tells what a column is, and cells stay."""
    style = replace(style, delimiter=delimiter, encoding=encoding)
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter, quoting=quoting).writerows(
            [["x", "n"], *((cell, row) for row, cell in enumerate(cells))]
        )
    table = open_table(str(path), style=style)
    [(_, block)] = table.blocks(as_written=True)
    assert block.column("n").to_pylist() == [str(row) for row in range(len(cells))]
    assert block.column("x").to_pylist() == cells
    first = next((cell.strip(" \n") for cell in cells if cell.strip(" \n") not in MISSING), "")
    kind = "date32[day]" if first[4:5] == first[7:8] == "-" else "string"
    if kind == "string" and by_hand(first, style) is not None:
        kind = "double" if first else "null"
    assert str(table.schema.field("x").type) == kind


@pytest.mark.parametrize(
    ("cell", "number"),
    {
        **dict.fromkeys(["0x10", "0X1F", "1_000", "nan(1)", "NAN", "\uff11\uff12"]),
        **{"1e2": 100, "+5": 5, " 6": 6, "7.0": 7, "infinity": np.inf},
    }.items(),
)
def test_one_text_is_a_number_everywhere_or_nowhere(call, good, tmp_path, cell, number):
    """As a feature, as a label, as the name of a class, and in what predict copies."""
    is_finite = number is not None and np.isfinite(number)
    rows = [{"x": f"{t % 7}", "y": f"{t % 2}", "z": f"{t}"} for t in range(20)]
    write_styled(tmp_path / "t.csv", rows, CsvStyle())
    good("fit", "t.csv", "--label", "y", "--features", "x", "-q", "-o", "m.pril")
    refused = "row 4: column '{}' is {!r}, not a number" if number is None else "row 4: "
    rows[3]["x"] = cell
    write_styled(tmp_path / "x.csv", rows, CsvStyle())
    code, _, said = call("predict", "m.pril", "x.csv", "-o", "x.jsonl")
    assert code == (0 if is_finite else 2)
    assert code == 0 or refused.format("x", cell) in said
    rows[3] |= {"x": "3", "y": cell, "z": cell}
    write_styled(tmp_path / "y.csv", rows, CsvStyle())
    code, _, said = call("fit", "y.csv", "--label", "y", "--features", "x", "-q", "-o", "y.pril")
    assert code == (0 if is_finite else 2)
    assert code == 0 or "row 4: column 'y' is " in said
    assert code != 0 or pril.load("y.pril").classes_.tolist() == [0, 1, number]
    good("predict", "m.pril", "y.csv", "-q", "-o", "z.jsonl")
    copied = [json.loads(line)["z"] for line in (tmp_path / "z.jsonl").read_text().splitlines()]
    if is_finite:
        assert copied == [*range(3), number, *range(4, 20)]
    else:
        assert copied == [*map(str, range(3)), cell, *map(str, range(4, 20))]
    classes = ("--classes", f"0,1,{cell}")
    assert call("fit", "t.csv", "--label", "y", *classes, "-q")[0] == (0 if is_finite else 2)


def test_a_first_group_of_thousands_is_no_zero(bad, good, tmp_path):
    """0.123 is 0.123 to the one who wrote it: it is neither 123 nor copied as 0123."""
    rows = in_cp1252(flats(40))
    write_styled(tmp_path / "t.csv", rows, GERMAN)
    good("fit", "t.csv", *FIT, *OPTIONS, "-o", "m.pril")
    rows[4]["price"] = "-0.250"
    write_styled(tmp_path / "t.csv", rows, GERMAN)
    reason = "column 'price' is '-0.250', not a number with the decimal mark ',' and '.' between"
    for command in (
        ("fit", "t.csv", *FIT, *OPTIONS),
        ("predict", "m.pril", "t.csv", "-o", "t.jsonl"),
    ):
        assert bad(*command).startswith(f"t.csv, row 5: {reason} thousands")


def test_words_made_of_digits_are_copied_as_words(good, tmp_path):
    """What was learned as a word is no number in the copy, least of all of another style."""
    rows = [row | {"town": f"{1 + t % 3}.234"} for t, row in enumerate(flats(30))]
    rows = [row | {"code": ["1.234", "2,5", "n.v."][t % 3]} for t, row in enumerate(rows)]
    rows = [row | {"count": "1.234,5" if t % 5 else " NA"} for t, row in enumerate(rows)]
    write_styled(tmp_path / "t.csv", rows, GERMAN)
    given = (*FIT, *OPTIONS, "--text", "town", "--drop", "code,count")
    good("fit", "t.csv", *given, "-o", "m.pril")
    good("predict", "m.pril", "t.csv", "-q", "-o", "t.jsonl")
    copied = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    for name in ("town", "price", "code"):
        assert [row[name] for row in copied] == [row[name] for row in rows]
    assert [row["count"] for row in copied] == [1234.5 if t % 5 else None for t in range(30)]


@pytest.mark.parametrize(
    "given",
    [
        *({"decimal": mark} for mark in ("", ",,", ";", "é", "1", " ")),
        *({"thousands": mark} for mark in ("..", "1", ";", "x", "\n", "  ")),
        *({"decimal": ",", "thousands": ","}, {"thousands": "."}),
        *(
            {"encoding": name}
            for name in ("", "utf-9", "hex", "rot13", "\0", "\ud800", "undefined")
        ),
        *({"delimiter": mark} for mark in ("", ";;", '"', "\n", "\0", "é")),
    ],
)
def test_a_style_that_cannot_be_is_refused(bad, tmp_path, given):
    write_styled(tmp_path / "t.csv", flats(20), CsvStyle())
    with pytest.raises(InputError, match="|".join(given)):
        CsvStyle(**given)
    if "\0" not in "".join(given.values()):
        options = [word for name, value in given.items() for word in (f"--{name}", value)]
        said = bad("fit", "t.csv", *FIT, *options)
        assert any(said.startswith(f"--{name} ") for name in given)


# --- The commands --------------------------------------------------------------------------------


def test_a_style_changes_no_model_and_is_kept(good, tmp_path):
    """Said once, in fit: predict, evaluate and report read the table as it is written."""
    rows, new = in_cp1252(flats()), in_cp1252(flats(50, seed=1))
    for name, some in (("t", rows), ("new", new)):
        write_styled(tmp_path / f"{name}.csv", some, CsvStyle())
        write_styled(tmp_path / f"{name}-de.csv", some, GERMAN)
    good("fit", "t.csv", *FIT, "-o", "m.pril")
    good("fit", "t-de.csv", *FIT, *OPTIONS, "-o", "de.pril")
    plain, german = pril.load("m.pril")[-1], pril.load("de.pril")[-1]
    np.testing.assert_array_equal(plain.coef_, german.coef_)
    np.testing.assert_array_equal(plain.thresholds_, german.thresholds_)
    # A table that is copied keeps its style: cells as they are written, added numbers like them.
    here = list(csv.reader(good("predict", "m.pril", "new.csv").splitlines()))
    good("predict", "de.pril", "new-de.csv", "-q", "-o", "rated.csv")
    text = (tmp_path / "rated.csv").read_text("cp1252")
    there = list(csv.reader(text.splitlines(), delimiter=";"))
    assert [row[-1].replace(".", ",") for row in here] == [row[-1] for row in there]
    assert [row[2:-1] for row in here] == [row[2:-1] for row in there]
    asked = list(
        csv.reader((tmp_path / "new-de.csv").read_text("cp1252").splitlines(), delimiter=";")
    )
    assert [row[:4] for row in there] == asked
    # As JSON, numbers are numbers.
    good("predict", "de.pril", "new-de.csv", "-q", "-o", "rated.jsonl")
    found = [json.loads(line) for line in (tmp_path / "rated.jsonl").read_text().splitlines()]
    assert [(row["price"], row["size"]) for row in found] == [
        (row["price"], row["size"]) for row in new
    ]
    # What was written is read again, without a word.
    evaluated = {
        table: json.loads(good("evaluate", model, table, "--json"))
        for model, table in (
            ("m.pril", "new.csv"),
            ("de.pril", "new-de.csv"),
            ("de.pril", "rated.csv"),
        )
    }
    assert evaluated["new.csv"] == evaluated["new-de.csv"] == evaluated["rated.csv"]
    good("report", "de.pril", "new-de.csv", "-o", "page.html", "-q")
    # An option overrides what is kept; other formats need none of it.
    same = ("--delimiter", ",", "--decimal", ".", "--thousands", "", "--encoding", "utf-8")
    assert (
        json.loads(good("evaluate", "de.pril", "new.csv", *same, "--json")) == evaluated["new.csv"]
    )
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in new))
    assert json.loads(good("evaluate", "de.pril", "new.jsonl", "--json")) == evaluated["new.csv"]


@pytest.mark.parametrize("style", [CsvStyle("\t"), GERMAN])
def test_a_model_reads_what_it_wrote(good, tmp_path, style):
    """Whatever the format was that it read; a suffix says .tsv, and the model says the rest."""
    rows = [row | {"price": round(row["price"] / 1e3, 3)} for row in in_cp1252(flats())]
    write_styled(tmp_path / "t.csv", rows, style)
    write_styled(tmp_path / "t.tsv", rows, replace(style, delimiter="\t"))
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = pa.Table.from_pylist(rows)
    exact = pc.cast(pc.cast(table["price"], pa.string()), pa.decimal128(12, 3))
    pq.write_table(table.set_column(0, "price", exact), tmp_path / "t.parquet")
    options = [word for name, value in asdict(style).items() for word in (f"--{name}", value)]
    good("fit", "t.csv", *FIT, *options, "-o", "m.pril")
    expected = json.loads(good("evaluate", "m.pril", "t.csv", "--json"))
    for source in ("t.csv", "t.tsv", "t.jsonl", "t.parquet"):
        for copy in ("copy.csv", "copy.tsv"):
            good("predict", "m.pril", source, "-q", "-o", copy)
            again = json.loads(good("evaluate", "m.pril", copy, "--json"))
            assert {**again, "learned_rows": expected["learned_rows"]} == expected


@pytest.mark.parametrize("option", ["delimiter", "decimal", "thousands", "encoding"])
def test_a_style_is_for_csv_alone(bad, tmp_path, option):
    value = {"delimiter": ";", "decimal": ",", "thousands": "'", "encoding": "cp1252"}[option]
    rows = flats(30)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "t.jsonl").write_text(text)
    said = bad("fit", "t.jsonl", *FIT, f"--{option}", value)
    assert said == f"t.jsonl: the {option} is for CSV, and this is jsonl"


# --- Numbers that would be words -----------------------------------------------------------------

LIKE_NUMBERS = {
    "3,14": "--decimal ','",
    "1.234,5": "--decimal ','",
    "1,234": "--thousands",
    "1 234": "--thousands",
    "1 234,56": "--decimal ','",
    "1'234.5": "--thousands",
    "12%": "write them without %",
    "12,5 %": "write them without %",
    "$1,200": "write them without $",
    "15 €": "write them without €",
}


@pytest.mark.parametrize(("spelling", "advice"), LIKE_NUMBERS.items())
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_words_that_are_numbers_but_for_marks_are_refused(
    bad, call, tmp_path, spelling, advice, suffix
):
    """Also if a few cells are missing, whole, or no numbers at all."""
    digit = re.search("[0-9](?=[^0-9]*$)", spelling).start()
    rows = flats(60)
    for t, row in enumerate(rows):
        row["area"] = f"{spelling[:digit]}{t % 10}{spelling[digit + 1 :]}"
    rows[3]["area"], rows[5]["area"], rows[7]["area"] = "", "unknown", "7"
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        write_styled(path, rows, CsvStyle())
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = bad("fit", path.name, *FIT)
    assert said.startswith(f"t.{suffix}, row 1: column 'area' is {rows[0]['area']!r}")
    assert "look like numbers" in said
    assert "numbers, or ask" not in said  # half a sentence
    if suffix == "csv" or advice.startswith("write"):
        assert advice in said
    else:
        assert "--decimal" not in said
    assert "if they are words" in said
    assert "as text" in said
    assert call("fit", path.name, *FIT, "--text", "area")[0] == 0
    assert call("fit", path.name, *FIT, "--drop", "area")[0] == 0


def test_a_column_of_numbers_that_begins_with_a_word_is_refused(bad, tmp_path):
    rows = flats(60)
    rows[0]["size"] = "-"
    write_styled(tmp_path / "t.csv", rows, CsvStyle())
    assert bad("fit", "t.csv", *FIT).startswith("t.csv, row 1: column 'size' is '-', and would be")


def test_points_where_commas_were_asked_for_are_refused(bad, good, tmp_path):
    """No number is read in two ways."""
    rows = flats(60)
    write_styled(tmp_path / "t.csv", rows, CsvStyle(decimal=","))
    good("fit", "t.csv", *FIT, "--decimal", ",", "-o", "m.pril")
    rows[41]["size"] = "3.14"
    write_styled(tmp_path / "t.csv", rows, CsvStyle(decimal=","))
    reason = "column 'size' is '3.14', not a number with the decimal mark ','"
    for command in (("fit", "t.csv", *FIT, "--decimal", ","), ("predict", "m.pril", "t.csv"),
                    ("evaluate", "m.pril", "t.csv")):  # fmt: skip
        assert bad(*command).startswith(f"t.csv, row 42: {reason}")


@pytest.mark.parametrize("cell", ["3,14", "1 234", "1.234,5"])
def test_a_number_with_marks_is_refused_by_every_command(bad, good, tmp_path, cell):
    rows = flats(60)
    write_styled(tmp_path / "t.csv", rows, CsvStyle())
    good("fit", "t.csv", *FIT, "-o", "m.pril")
    rows[11]["size"] = cell
    write_styled(tmp_path / "t.csv", rows, CsvStyle())
    reason = f"column 'size' is '{cell}', not a number"
    for command in (("fit", "t.csv", *FIT), ("predict", "m.pril", "t.csv"),
                    ("evaluate", "m.pril", "t.csv")):  # fmt: skip
        said = bad(*command)
        way = "say how they are written: --decimal '.' --thousands ' '" if cell == "1 234" else ""
        way = way or "write all in one way"  # no marks are those of all cells
        assert said == f"t.csv, row 12: {reason}; if these are numbers, {way}"
    for row in rows:
        row["size"] = cell
    write_styled(tmp_path / "t.csv", rows, CsvStyle())
    wanted = {"3,14": "',' --thousands ''", "1 234": "'.' --thousands ' '",
              "1.234,5": "',' --thousands '.'"}[cell]  # fmt: skip
    said = bad("predict", "m.pril", "t.csv")
    assert said.endswith(f"say how they are written: --decimal {wanted}")


@pytest.mark.parametrize("labels", [FIT[:4], ("--label", "rent", "--brackets")])
def test_marks_that_are_not_those_of_a_cell_are_not_advised_again(bad, good, tmp_path, labels):
    """Numbers have points, and brackets have marks of their own."""
    rents = ["unter 1.000 \u20ac", "1.000 bis unter 1.500 \u20ac", "ab 1.500 \u20ac"]
    rows = [row | {"rent": rents[t % 3]} for t, row in enumerate(flats(60))]
    write_styled(tmp_path / "t.csv", rows, CsvStyle())
    features = ("--features", "price,size", "-q")
    said = bad("fit", "t.csv", *labels, *features, "--decimal", ",", "--thousands", ".")
    start, _, advice = said.partition("; if these are numbers, say how they are written: ")
    assert start.startswith(f"t.csv, row 1: column 'price' is '{rows[0]['price']}'")
    assert advice.partition(";")[0] == "--decimal '.' --thousands ''"
    assert advice.endswith("say how brackets are written") == ("--brackets" in labels)
    if "--brackets" not in labels:
        said = bad("fit", "t.csv", *labels, *features, "--bracket-decimal", ",")
        assert said == "--bracket-decimal is for brackets as text: pass --brackets too"
        return
    german = ("--bracket-decimal", ",", "--bracket-thousands", ".")
    said = json.loads(good("fit", "t.csv", *labels, *features[:2], *german, "--json"))
    assert said["labels"]["edges"] == [1000.0, 1500.0]
    assert [entry["exact"] for entry in said["classes"]] == [20, 20, 20]
    assert said["columns"]["numbers"] == ["price", "size"]


def test_a_new_column_of_a_stream_is_no_number_in_disguise(call, feed):
    feed(b'{"area": "3,14", "y": 1}\n')
    code, _, err = call("stream", "new.pril", "--label", "y", "--classes", "1,2", "-q")
    assert code == 2
    assert "<stdin>, row 1: column 'area' is '3,14', which looks like a number" in err


@pytest.mark.parametrize("words", [["3,5", "4,5"], ["10%", "20%"]])
def test_labels_are_no_numbers_in_disguise(bad, call, tmp_path, words):
    rows = [{"a": float(t % 7), "y": words[t % 2]} for t in range(40)]
    write_styled(tmp_path / "t.csv", rows, CsvStyle())
    assert f"column 'y' is '{words[0]}'" in bad("fit", "t.csv", "--label", "y", "-q")
    named = ("--classes", ",".join(f'"{word}"' for word in words))
    assert call("fit", "t.csv", "--label", "y", "-q", *named)[0] == 0


# --- Words that are hardly ever alike ------------------------------------------------------------


@pytest.mark.parametrize("n", [12, 200, 1500])
def test_a_column_of_names_is_warned_of(call, tmp_path, n):
    rows = [row | {"name": f"flat {t - t % 10 // 9}"} for t, row in enumerate(flats(n))]
    write_styled(tmp_path / "t.csv", rows, CsvStyle())
    code, _, err = call("fit", "t.csv", *FIT)
    assert code == 0
    n_different = len({row["name"] for row in rows})
    assert err.startswith(
        f"pril: warning: t.csv: the column 'name' has {n_different:,} different words in {n:,} rows"
    )
    assert err.endswith("; leave it out with --drop\n")
    assert ("it is left out" in err) == (n_different > 1000)
    for asked in (("--drop", "name"), ("--text", "name")):
        assert call("fit", "t.csv", *FIT, *asked)[2] == ""


# --- Encodings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "encoding", ["cp1252", "latin-1", "utf-16", "utf-16-le", "utf-8-sig", "gb18030", "cp037"]
)
def test_a_table_in_any_encoding_is_the_same_table(good, tmp_path, encoding):
    rows = in_cp1252(flats(40))
    style = CsvStyle(encoding=encoding)
    write_styled(tmp_path / "t.csv", rows, CsvStyle())
    write_styled(tmp_path / "other.csv", rows, style)
    good("fit", "t.csv", *FIT, "-o", "t.pril")
    good("fit", "other.csv", *FIT, "--encoding", encoding, "-o", "other.pril")
    one, other = pril.load("t.pril"), pril.load("other.pril")
    assert one[0].words_ == other[0].words_
    np.testing.assert_array_equal(one[-1].coef_, other[-1].coef_)
    good("predict", "t.pril", "t.csv", "-q", "-o", "a.csv")
    good("predict", "other.pril", "other.csv", "-q", "-o", "b.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text(encoding)


def test_a_table_in_utf_16_is_told_from_one_in_cp1252(bad, tmp_path):
    write_styled(tmp_path / "t.csv", flats(40), CsvStyle(encoding="utf-16"))
    said = bad("fit", "t.csv", *FIT)
    assert "which is not UTF-8: is it UTF-16?; pass its encoding, such as" in said
    assert said.endswith("--encoding utf-16")


def test_an_encoding_is_advised_and_bytes_are_named(bad, good, tmp_path):
    rows = in_cp1252(flats(40))
    rows[0]["town"] = rows[1]["town"] = rows[2]["town"] = "Bonn"
    rows[3]["town"] = "Köln"
    path = write_styled(tmp_path / "t.csv", rows, CsvStyle(encoding="cp1252"))
    said = bad("fit", "t.csv", *FIT)
    assert said.startswith("t.csv, row 4: column 'town' is b'K\\xf6ln', which is not UTF-8")
    assert said.endswith("; pass its encoding, such as --encoding cp1252 or --encoding utf-16")
    good("fit", "t.csv", *FIT, "--encoding", "cp1252", "-o", "t.pril")
    said = bad("fit", "t.csv", *FIT, "--encoding", "ascii")
    assert said.startswith("t.csv, row 4: it has the bytes b'\\xf6', not ascii; ")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"grade", b"gr\xe4de", 1))
    assert "which is not UTF-8; pass its encoding" in bad("fit", "t.csv", *FIT)
    assert "the header" in bad("fit", "t.csv", *FIT, "--encoding", "ascii")


@given(text=st.text("aä€\n", max_size=60), size=st.integers(1, 7), at=st.integers(0, 200))
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig", "shift_jis"])
def test_rows_before_bytes_that_cannot_be_decoded_are_read(encoding, text, size, at):
    """Whatever the pieces are, all whole rows come before the error, and no others."""
    bad = {
        "cp1252": b"\x81",
        "utf-16": b"\x00\xd8\x41\x00",
        "utf-8-sig": b"\xff",
        "shift_jis": b"\x80",
    }
    text = "h\n" + (text if encoding != "shift_jis" else text.replace("ä", "あ").replace("€", "い"))
    lines = text.splitlines(keepends=True)
    start = "".join(lines[: at % len(lines)]) or "h\n"
    stream = Transcoded(streams.BytesIO(start.encode(encoding) + bad[encoding]), encoding)
    pieces = []
    with pytest.raises(RowError, match=r"it has|it is"):
        pieces.extend(iter(partial(stream.read, size), b""))
    assert b"".join(pieces).decode() == start
    whole = Transcoded(streams.BytesIO(text.encode(encoding)), encoding)
    assert b"".join(csv_blocks(whole, ",")).decode().rstrip("\n") == text.rstrip("\n")
