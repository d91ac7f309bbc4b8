"""Labels that are ranges of numbers, such as incomes: `--edges` turns them into brackets."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import pril
from pril.io import model_files
from pril.labels import from_bounds
from pril.labels.brackets import Spelling
from pril.tables.checkpoints import Checkpoint
from pril.tables.cluster import ClusterRun
from pril.tables.label_columns import BracketTexts, Edges, LabelEnds
from pril.tables.opening import open_table
from pril.tables.runs import run_of
from pril.tables.survey import Task
from tables import assert_same_model, make_rows, write

EDGES = [20, 35.5, 50, 80]
NAMES = ("below 20", "20 to 35.5", "35.5 to 50", "50 to 80", "80 or more")
BOUNDS = ["--lower", "from", "--upper", "until"]
DROP = "--drop=id,low,high,grade,rent"


def make_incomes(n=300):
    """Return rows with bounds, some open or missing, and the same labels as brackets in words."""
    rng = np.random.default_rng(1)
    rows = make_rows(n)
    for row in rows:
        rent = float((row["size"] or 50.0) + rng.normal(0, 5))
        low, high = rent - rng.integers(0, 20), rent + rng.integers(0, 20)
        row["rent"] = rent
        row["from"] = low if rng.random() > 0.1 else None
        row["until"] = high if rng.random() > 0.1 else None
    return rows


def in_words(rows):
    """Return the rows with the brackets that `from_bounds` finds, as words."""
    bins = from_bounds([row["from"] for row in rows], [row["until"] for row in rows], EDGES)
    words = []
    for row, (lo, hi) in zip(rows, bins, strict=True):
        known = row["from"] is not None or row["until"] is not None
        ends = (NAMES[int(lo)], NAMES[int(hi)]) if known else (None, None)
        words.append(row | dict(zip(("from", "until"), ends, strict=True)))
    return words


def same_model(one, other):
    """Tell whether two model files hold the same model."""
    one, other = pril.load(one)[-1], pril.load(other)[-1]
    assert one.order_.tolist() == other.order_.tolist()
    return (
        one.coef_.tobytes() == other.coef_.tobytes()
        and one.thresholds_.tobytes() == other.thresholds_.tobytes()
    )


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet", "csv.gz"])
def test_bounds_are_the_brackets_of_from_bounds(good, tmp_path, suffix):
    rows = make_incomes()
    write(tmp_path / f"numbers.{suffix}", rows)
    write(tmp_path / f"words.{suffix}", in_words(rows))
    edges = ["--edges", ",".join(map(str, EDGES))]
    found = json.loads(
        good("fit", f"numbers.{suffix}", *BOUNDS, *edges, DROP, "-o", "a.pril", "--json")
    )
    classes = ["--classes", ",".join(NAMES)]
    wanted = json.loads(
        good("fit", f"words.{suffix}", *BOUNDS, *classes, DROP, "-o", "b.pril", "--json")
    )
    assert same_model("a.pril", "b.pril")
    for part in ("classes", "widths", "unlabelled_rows", "holdout", "learned_rows", "mistakes"):
        assert found[part] == wanted[part]
    # The model file knows the edges.
    evaluated = good("evaluate", "a.pril", f"numbers.{suffix}", "--json")
    assert evaluated == good("evaluate", "b.pril", f"words.{suffix}", "--json")
    assert "below 20 < 20 to 35.5 < 35.5 to 50" in good("show", "a.pril")


def test_edges_as_far_apart_as_floats_go():
    assert from_bounds([0.0], [1.0], [-1.7e308, 1.7e308]).tolist() == [[1, 1]]


def test_exact_numbers_have_one_bracket(good, tmp_path):
    rows = make_incomes()
    write(tmp_path / "t.csv", rows)
    names = "--classes=A,B,C,D,E"
    drop = "--drop=id,low,high,grade,from,until"
    report = json.loads(
        good("fit", "t.csv", "--label=rent", "--edges=20,35.5,50,80", names, drop, "--json")
    )
    counts = np.bincount(np.searchsorted(EDGES, [row["rent"] for row in rows], "right"))
    assert [entry["exact"] for entry in report["classes"]] == counts.tolist()
    assert [entry["class"] for entry in report["classes"]] == list("ABCDE")


def test_more_different_bounds_than_a_rating_has(good, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(0, 10, 12_000)
    rows = [{"x": a, "y": a + b} for a, b in zip(x, rng.normal(0, 1, len(x)), strict=True)]
    write(tmp_path / "t.parquet", rows)
    report = json.loads(good("fit", "t.parquet", "--label=y", "--edges=-5,0,5", "--json"))
    assert report["holdout"]["interval_accuracy"] > 0.9


def test_a_stream_reads_the_bounds(good, feed, tmp_path):
    rows = make_incomes()
    write(tmp_path / "numbers.jsonl", rows)
    write(tmp_path / "words.jsonl", in_words(rows))
    options = [*BOUNDS, DROP, "--holdout=0"]
    good("fit", "numbers.jsonl", *options, "--edges=20,35.5,50,80", "-o", "a.pril")
    good("fit", "words.jsonl", *options, "--classes", ",".join(NAMES), "-o", "b.pril")
    answers = []
    for model, table in (("a", "numbers"), ("b", "words")):
        feed((tmp_path / f"{table}.jsonl").read_bytes())
        answers.append(good("stream", f"{model}.pril", "-o", f"{model}2.pril", "--quiet"))
    assert answers[0] == answers[1]
    assert same_model("a2.pril", "b2.pril")
    assert not same_model("a.pril", "a2.pril")
    # What a stream has written still knows the edges.
    again = json.loads(good("evaluate", "a2.pril", "numbers.jsonl", "--json"))
    assert again == json.loads(good("evaluate", "b2.pril", "words.jsonl", "--json"))


@pytest.mark.slow
def test_a_cluster_reads_the_bounds(tmp_path, client):
    numbers = Task(Edges(("from", "until"), tuple(EDGES)), drop=("id", "low", "high", "grade"))
    words = replace(numbers, labels=LabelEnds(("from", "until")), classes=NAMES)
    rows = make_incomes(600)
    models = []
    for task, table in ((numbers, rows), (words, in_words(rows))):
        for part in range(3):
            write(tmp_path / f"{part}.csv", table[200 * part : 200 * (part + 1)])
        run = ClusterRun(open_table(str(tmp_path)), task, client, shows_progress=False)
        model = run()[-1]
        models.append((model.coef_, model.thresholds_, run.describe()))
    for one, other in zip(*models, strict=True):
        if isinstance(one, dict):
            for differing in ("options", "contents", "labels"):
                assert one.pop(differing) != other.pop(differing)
            assert one == other
        else:
            np.testing.assert_array_equal(one, other)


def test_edges_are_part_of_a_run(tmp_path):
    write(tmp_path / "t.csv", make_incomes())
    task = Task(Edges(("from", "until"), (20.0, 50.0)))
    table = open_table(str(tmp_path / "t.csv"))
    origin = run_of(table, task, print).origin()
    assert origin == json.loads(json.dumps(origin))
    other = replace(task, labels=Edges(("from", "until"), (20.0, 60.0)))
    assert origin != run_of(table, other, print).origin()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--edges=5,2"], "--edges 5,2: expected ascending numbers"),
        (["--edges=2,2"], "--edges 2,2: expected ascending numbers"),
        (["--edges=2,nan"], "ascending numbers"),
        (["--edges=2,inf"], "ascending numbers"),
        (["--edges=2,x"], "--edges 2,x: expected ascending numbers"),
        (["--edges="], "--edges : expected ascending numbers"),
        (["--edges=2,5", "--classes=a,b"], "2 edges make 3 brackets, but there are 2 classes"),
        (["--edges=2,5", "--text=from"], "the column 'from' cannot be read as words"),
    ],
)
def test_wrong_edges_are_refused(bad, tmp_path, options, said):
    write(tmp_path / "t.csv", make_incomes())
    assert said in bad("fit", "t.csv", *BOUNDS, *options)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_wrong_bounds_are_named(bad, tmp_path, suffix):
    rows = make_incomes()
    rows[41] |= {"from": 41.5, "until": 14.0}
    write(tmp_path / f"t.{suffix}", rows)
    said = bad("fit", f"t.{suffix}", *BOUNDS, "--edges=20,50")
    assert said == f"t.{suffix}, row 42: columns 'from', 'until': 41.5 is above upper, 14.0"
    rows[41] |= {"from": "much"}
    if suffix != "parquet":
        write(tmp_path / f"t.{suffix}", rows)
        said = bad("fit", f"t.{suffix}", *BOUNDS, "--edges=20,50")
        assert "row 42" in said
        assert "'from'" in said
        assert "much" in said
        assert suffix == "jsonl" or "--text" not in said
    said = bad("fit", f"t.{suffix}", "--label=town", "--edges=20,50", "--features=age")
    assert "'town'" in said
    assert "not a number" in said


def test_edges_of_a_forged_file_are_refused(good, bad, tmp_path):
    write(tmp_path / "t.csv", make_incomes())
    good("fit", "t.csv", *BOUNDS, "--edges=20,50", DROP)
    model, about = model_files.read(tmp_path / "t.pril", kind="model")
    for edges in ([1.0], "20,50", [50, 20], 3, [None, 2], {"a": 1}):
        notes = about.notes | {"labels": about.notes["labels"] | {"edges": edges}}
        model_files.write(model, tmp_path / "forged.pril", kind="model", notes=notes)
        said = bad("evaluate", "forged.pril", "t.csv")
        assert re.match("forged.pril is damaged: its (notes|edges): .*edges", said)


def test_no_answers_of_a_forged_file_are_refused(good, bad, tmp_path):
    write(tmp_path / "t.csv", make_survey())
    good("fit", "t.csv", "--label=income", "--brackets", *SILENT, "--features=size")
    model, about = model_files.read(tmp_path / "t.pril", kind="model")
    for missing in (None, "text", [1], {"a": 1}):
        notes = about.notes | {"labels": about.notes["labels"] | {"missing": missing}}
        model_files.write(model, tmp_path / "forged.pril", kind="model", notes=notes)
        said = bad("evaluate", "forged.pril", "t.csv")
        assert re.match("forged.pril is damaged: its notes: .*missing", said)
    assert "in one column" in bad("evaluate", "t.pril", "t.csv", *BOUNDS)


def test_bad_bounds_in_a_stream(good, call, feed, tmp_path):
    write(tmp_path / "t.csv", make_incomes())
    good("fit", "t.csv", *BOUNDS, "--edges=20,50", DROP)
    rows = [{"size": 5, "age": 3, "from": 6}, {"size": 5, "age": 3, "from": 9, "until": 7}]
    feed("".join(json.dumps(row) + "\n" for row in rows).encode())
    code, out, err = call("stream", "t.pril")
    assert code == 2
    assert out.count("\n") == 1
    assert "<stdin>, row 2: columns 'from', 'until': 9.0 is above upper, 7.0" in err


# --- Brackets as people write them ---------------------------------------------------------------


def make_survey(n=200):
    """Return rows with an income as people write it, and the same as a range of numbers."""
    rng = np.random.default_rng(3)
    # Texts, and their ends; the edges are 20, 50 and 100 thousand.
    texts = {
        "<20k": (None, 20_000),
        "20-50k": (20_000, 50_000),
        "50,000 \u2013 100,000": (50_000, 100_000),
        "under 50k": (None, 50_000),
        "100k+": (100_000, None),
        "60000": (60_000, 60_000),
        "Prefer not to say": (None, None),
        "none of your business": (None, None),
    }
    rows = []
    for text in rng.choice(list(texts), n):
        low, high = texts[str(text)]
        size = rng.normal((low or 0) + (high or 150_000), 20_000)
        rows.append({"size": size, "income": str(text), "from": low, "until": high})
    return rows


SILENT = ["--missing", "None of your  business", "--thousands", ","]
SURVEY = BracketTexts(
    ("income",), missing=("none of your business",), spelling=Spelling(thousands=",")
)
INCOMES = ["below 20000", "20000 to 50000", "50000 to 100000", "100000 or more"]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("edges", [[], ["--edges=20000,50000,100000"]])
def test_texts_are_the_brackets_of_numbers(good, tmp_path, suffix, edges):
    write(tmp_path / f"t.{suffix}", make_survey())
    texts = ["--label=income", "--brackets", *SILENT, "--features=size", *edges]
    found = json.loads(good("fit", f"t.{suffix}", *texts, "-o", "a.pril", "--json"))
    numbers = [*BOUNDS, "--edges=20000,50000,100000", "--features=size"]
    wanted = json.loads(good("fit", f"t.{suffix}", *numbers, "-o", "b.pril", "--json"))
    assert same_model("a.pril", "b.pril")
    assert pril.load("a.pril")[-1].order_.tolist() == INCOMES
    for part in ("classes", "widths", "unlabelled_rows", "holdout", "learned_rows", "mistakes"):
        assert found[part] == wanted[part]
    assert found["labels"]["edges"] == [20_000, 50_000, 100_000]
    evaluated = good("evaluate", "a.pril", f"t.{suffix}", "--json")
    assert evaluated == good("evaluate", "b.pril", f"t.{suffix}", "--json")


def test_texts_give_the_same_model_in_every_format(good, tmp_path):
    models = []
    for suffix in ("csv", "tsv", "jsonl", "parquet"):
        write(tmp_path / f"t.{suffix}", make_survey())
        texts = ["--label=income", "--brackets", *SILENT, "--features=size"]
        good("fit", f"t.{suffix}", *texts, "-o", f"{suffix}.pril")
        models.append(f"{suffix}.pril")
    assert all(same_model(models[0], other) for other in models[1:])


def test_a_stream_reads_texts(good, feed, tmp_path):
    rows = make_survey()
    file = write(tmp_path / "t.jsonl", rows)
    good("fit", file, "--label=income", "--brackets", *SILENT, "--features=size", "-o", "a.pril")
    good("fit", file, *BOUNDS, "--edges=2e4,5e4,1e5", "--features=size", "-o", "b.pril")
    answers = []
    for model in "ab":
        feed(file.read_bytes())
        answers.append(good("stream", f"{model}.pril", "-o", f"{model}2.pril", "--quiet"))
    assert answers[0] == answers[1]
    assert same_model("a2.pril", "b2.pril")
    assert not same_model("a.pril", "a2.pril")


def test_a_report_reads_texts(good, tmp_path):
    write(tmp_path / "t.csv", make_survey())
    good("fit", "t.csv", "--label=income", "--brackets", *SILENT, "--features=size")
    good("report", "t.pril", "t.csv", "-o", "report.html")
    assert "50000 to 100000" in (tmp_path / "report.html").read_text()


def test_brackets_that_are_numbers(good, tmp_path):
    rows = [{"x": t % 7, "kids": t % 3 if t % 4 else "3+"} for t in range(80)]
    for suffix in ("csv", "jsonl"):
        write(tmp_path / f"t.{suffix}", rows)
        good("fit", f"t.{suffix}", "--label=kids", "--brackets", "-o", f"{suffix}.pril")
    assert same_model("csv.pril", "jsonl.pril")
    names = ["below 1", "1 to 2", "2 to 3", "3 or more"]
    assert pril.load("csv.pril")[-1].order_.tolist() == names


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_all_texts_that_cannot_be_read_are_named(good, bad, tmp_path, monkeypatch, suffix):
    rows = make_survey()
    write(tmp_path / f"good.{suffix}", rows)
    fit = ["--label=income", "--brackets", *SILENT, "--features=size"]
    good("fit", f"good.{suffix}", *fit, "-o", "m.pril")
    rows[11]["income"] = rows[150]["income"] = "a lot"
    rows[120]["income"] = "about average"
    write(tmp_path / f"t.{suffix}", rows)
    monkeypatch.setattr("pril.tables.files.BLOCK_ROWS", 64)
    said = bad("fit", f"t.{suffix}", *fit)
    assert said.startswith(f"t.{suffix}, row 12: column 'income': 'a lot' cannot be read: ")
    advice = (
        "; correct the text, say how its numbers are written by --bracket-decimal and "
        "--bracket-thousands, name it by "
    )
    said, _, more = said.partition(advice)
    assert more == (
        "--missing if it is no answer, or put the ends into two columns of numbers: --lower, "
        "--upper, --edges"
    )
    assert said.endswith("; nor can these be read: row 121: 'about average'")
    assert bad("fit", f"t.{suffix}", *fit, "--edges=20000,50000").partition(advice)[0] == said
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert bad("evaluate", "m.pril", f"t.{suffix}") == said


def test_texts_of_many_files_are_named_with_their_file(bad, tmp_path):
    rows = make_survey()
    rows[11]["income"], rows[120]["income"] = "a lot", "average"
    (tmp_path / "parts").mkdir()
    write(tmp_path / "parts" / "a.csv", rows[:100])
    write(tmp_path / "parts" / "b.csv", rows[100:])
    said = bad("fit", "parts", "--label=income", "--brackets", *SILENT)
    assert said.startswith("parts/a.csv, row 12: column 'income': 'a lot' cannot be read")
    assert "nor can these be read: parts/b.csv, row 21: 'average'; correct" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([*BOUNDS, "--brackets"], "--brackets reads one column of texts: pass it by --label"),
        (
            ["--label=income", *SILENT[:2]],
            "--missing is for brackets as text: pass --brackets too",
        ),
        (["--label=one", "--brackets"], "t.csv, row 1: column 'one': there is only one bracket"),
        (["--label=none", "--brackets"], "t.csv: column 'none': no row has a label"),
        (
            ["--label=income", "--brackets", *SILENT, "--classes=low,high"],
            "3 edges make 4 brackets, but there are 2 classes",
        ),
    ],
)
def test_brackets_that_make_no_sense_are_refused(bad, tmp_path, options, said):
    rows = [row | {"one": "20-50k", "none": "refused"} for row in make_survey()]
    write(tmp_path / "t.csv", rows)
    assert said in bad("fit", "t.csv", *options)


def write_ages(path, unit):
    """Write a table of ages in some unit, which may stand before the number."""
    before = ["<{}18", "{}18-64", "{}65+"]
    forms = before if unit in {"$", "\u20ac"} else ["<18 {}", "18-64 {}", "65+ {}"]
    rows = [{"x": t % 5, "age": forms[t % 3].format(unit).strip()} for t in range(60)]
    return write(path, rows)


@pytest.mark.parametrize(("unit", "other"), [("years", "months"), ("$", "\u20ac"), ("km", "")])
def test_a_model_refuses_another_unit(good, bad, call, feed, tmp_path, unit, other):
    file = write_ages(tmp_path / "one.jsonl", unit)
    good("fit", file, "--label=age", "--brackets", "-o", "m.pril")
    wrong = write_ages(tmp_path / "other.jsonl", other)
    good("evaluate", "m.pril", file)
    assert "write all in one unit" in bad("evaluate", "m.pril", wrong)
    assert "write all in one unit" in bad("report", "m.pril", wrong, "-o", "report.html")
    assert not (tmp_path / "report.html").exists()
    feed(wrong.read_bytes())
    code, out, err = call("stream", "m.pril", "-o", "m2.pril", "--quiet")
    assert (code, out) == (2, "")
    assert "<stdin>, row 1: column 'age'" in err
    assert "write all in one unit" in err


@pytest.mark.parametrize(
    "spelling",
    [None, "years", [1], {"decimal": ";"}, {"thousands": "."*2}, {"unit": 3}, {"shares": 1},
     {"step": "1"}, {"step": -1.0}],
    ids=str,
)  # fmt: skip
def test_a_forged_spelling_is_refused(good, bad, tmp_path, spelling):
    file = write_ages(tmp_path / "t.jsonl", "years")
    good("fit", file, "--label=age", "--brackets", "-o", "m.pril")
    model, about = model_files.read(tmp_path / "m.pril", kind="model")
    if isinstance(spelling, dict):
        spelling = about.notes["labels"]["spelling"] | spelling
    notes = about.notes | {"labels": about.notes["labels"] | {"spelling": spelling}}
    model_files.write(model, tmp_path / "forged.pril", kind="model", notes=notes)
    said = bad("evaluate", "forged.pril", file)
    assert said.startswith("forged.pril is damaged: ")
    assert "spelling" in said or "how its texts are written" in said


GERMAN = ["--decimal", ",", "--thousands", "."]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_marks_of_numbers_are_those_of_brackets_too(good, bad, feed, tmp_path, suffix):
    """German rents: the model keeps how they are written, and options can say otherwise."""
    forms = ["unter 300 \u20ac", "300 bis unter 4.500 \u20ac", "ab 4.500 \u20ac"]
    rows = [{"x": t % 3, "rent": forms[t % 3]} for t in range(60)]
    file = write(tmp_path / f"t.{suffix}", rows)
    fit = ["fit", file, "--label=rent", "--brackets", "--holdout=0", "-o", "m.pril"]
    said = bad(*fit)
    assert "row 2: column 'rent': '300 bis unter 4.500 \u20ac' cannot be read: 4.500 may" in said
    one = "4500 with --bracket-decimal ',' and --bracket-thousands '.'"
    assert f"; 4.500 is {one}, or 4.5 with --bracket-decimal '.' and --bracket-thous" in said
    said = bad(*fit, "--bracket-thousands=,")
    assert "4.500 is not a number" not in said
    assert "it ends below its start" in said
    assert "--bracket-decimal ';': expected" in bad(*fit, "--bracket-decimal=;")
    assert "--decimal ;: expected" in bad(*fit, "--decimal=;").replace("'", "")
    own = json.loads(good(*fit, "--bracket-thousands=.", "--json"))
    found = json.loads(good(*fit, *GERMAN, "--json"))
    assert own["labels"]["edges"] == found["labels"]["edges"]
    assert found["labels"]["edges"] == [300.0, 4500.0]
    evaluated = json.loads(good("evaluate", "m.pril", file, "--json"))
    assert evaluated["rows"] == 60
    feed("".join(json.dumps(row) + "\n" for row in rows).encode())
    good("stream", "m.pril", "-o", "m2.pril", "--quiet")
    english = [{"x": t % 3, "rent": "\u20ac 3,000+"} for t in range(9)]
    table = write(tmp_path / f"english.{suffix}", english)
    assert "it is the decimal mark too" in bad("evaluate", "m.pril", table, "--decimal=.")
    good("evaluate", "m.pril", table, "--decimal=.", "--thousands=,")


def test_marks_are_refused_where_nothing_has_them(bad, good, tmp_path):
    rows = [{"x": t % 3, "y": t % 2} for t in range(30)]
    file = write(tmp_path / "t.jsonl", rows)
    said = bad("fit", file, "--label=y", *GERMAN)
    assert said.endswith("the decimal is for CSV, and this is jsonl")
    good("fit", file, "--label=y", "-o", "m.pril")
    assert bad("evaluate", "m.pril", file, *GERMAN) == said


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_numbers_of_a_table_stay_numbers(good, feed, tmp_path, suffix):
    """As text, 123.456 may be thousands, and 1e-05 looked like a range."""
    numbers = [123.456, 1e-05, 0.0, 5e-05, 7]
    rows = [{"x": t % 7, "v": numbers[t % 5]} for t in range(70)]
    file = write(tmp_path / f"t.{suffix}", rows)
    options = [file, "--label=v", "--edges=2e-5,10", "--holdout=0"]
    found = json.loads(good("fit", *options, "--brackets", "-o", "a.pril", "--json"))
    wanted = json.loads(good("fit", *options, "-o", "b.pril", "--json"))
    assert found["classes"] == wanted["classes"]
    assert same_model("a.pril", "b.pril")
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    answers = []
    for model in "ab":
        feed(lines)
        answers.append(good("stream", f"{model}.pril", "-o", f"{model}2.pril", "--quiet"))
    assert answers[0] == answers[1]
    assert same_model("a2.pril", "b2.pril")


def test_blocks_are_read_with_what_the_whole_column_tells(good, tmp_path, monkeypatch):
    """Only the last texts say that 1-2k begins at 1k, and that there are steps."""
    forms = ["1-2k", "3k or more", "over 2k", "under 1k"]
    rows = [{"x": t % 5, "v": forms[min(t // 40, 3)]} for t in range(160)]
    write(tmp_path / "t.csv", rows)
    monkeypatch.setattr("pril.tables.files.BLOCK_ROWS", 16)
    found = json.loads(good("fit", "t.csv", "--label=v", "--brackets", "--json", "--holdout=0"))
    assert found["labels"]["edges"] == [1000.0, 3000.0]
    assert [entry["exact"] for entry in found["classes"]] == [40, 40, 80]


def test_a_checkpoint_keeps_texts(tmp_path):
    write(tmp_path / "t.csv", make_survey())
    task = Task(SURVEY, seed=1)
    stops = iter(range(1000))

    def progress(*_):
        if next(stops) == 2:  # in the second pass
            raise KeyboardInterrupt

    table = open_table(str(tmp_path / "t.csv"))
    whole = run_of(table, task, lambda *_: None)
    wanted = whole()
    checkpoint = Checkpoint(tmp_path / "c.pril", 50)
    with pytest.raises(KeyboardInterrupt):
        run_of(open_table(str(tmp_path / "t.csv")), task, progress)(checkpoint)
    run = run_of(open_table(str(tmp_path / "t.csv")), task, lambda *_: None)
    assert_same_model(run(checkpoint)[-1], wanted[-1])
    assert run.describe() == whole.describe()


def test_a_cluster_reads_texts(tmp_path, client):
    rows = make_survey(300)
    for part in range(2):
        write(tmp_path / f"{part}.csv", rows[150 * part : 150 * (part + 1)])
    shared = {"features": ("size",)}
    texts = Task(SURVEY, **shared)
    numbers = Task(Edges(("from", "until"), (2e4, 5e4, 1e5)), **shared)
    one, other = (
        ClusterRun(open_table(str(tmp_path)), task, client, shows_progress=False)()[-1]
        for task in (texts, numbers)
    )
    assert_same_model(one, other)
