"""Votes of raters and ranges as text, in the command: what `pril.labels` makes of them in Python."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pril
from pril.labels import from_strings, from_votes
from tables import GRADES, assert_same_model, make_rows, write, write_csv

CLASSES = ("--classes", ",".join(GRADES))
RATERS = ["ann", "bob", "eve"]
SUFFIXES = ["csv", "jsonl", "parquet"]


def features(row):
    return {name: row[name] for name in ("size", "age", "town")}


def with_votes(rows, seed=0, words=True):
    """Return rows with the votes of three raters, some of them missing."""
    rng = np.random.default_rng(seed)
    voted = []
    for row in rows:
        ranks = np.clip(row["grade"] - 1 + rng.integers(-1, 2, 3), 0, 3)
        votes = [GRADES[rank] if words else int(rank) + 1 for rank in ranks]
        gaps = rng.random(3) < 0.2
        cells = [None if gap else vote for vote, gap in zip(votes, gaps, strict=True)]
        voted.append(features(row) | dict(zip(RATERS, cells, strict=True)))
    return voted


def votes_of(rows):
    return [[row[name] for name in RATERS] for row in rows]


def with_ends(rows, y):
    """Return rows whose labels are two columns, as `pril.labels` makes them."""
    pairs = [[None if cell is None or cell != cell else cell for cell in ends] for ends in y]
    return [
        features(row) | {"low": low, "high": high}
        for row, (low, high) in zip(rows, pairs, strict=True)
    ]


def learner(path):
    return pril.load(path).steps[-1][1]


# --- The same model as in Python ---


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("trim", [0.0, 0.25, 0.5])
def test_votes_are_those_of_from_votes(good, tmp_path, suffix, trim):
    rows = with_votes(make_rows())
    y = from_votes(votes_of(rows), trim=trim, classes=GRADES)
    table = write(tmp_path / f"votes.{suffix}", rows)
    twin = write(tmp_path / f"ends.{suffix}", with_ends(rows, y.tolist()))
    trimmed = ("--trim", trim) if trim else ()
    out = good("fit", table, "--votes", "ann,bob,eve", *trimmed, *CLASSES, "-o", "votes.pril")
    assert "votes of ann, bob, eve" in out
    good("fit", twin, "--lower", "low", "--upper", "high", *CLASSES, "-o", "ends.pril")
    assert_same_model(learner("votes.pril"), learner("ends.pril"))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_classes_come_from_all_votes_also_from_those_left_out(good, tmp_path, suffix):
    rows = with_votes(make_rows(40), words=False)
    rows[7] |= {"ann": -1, "bob": 2, "eve": 9}  # its label is 2; -1 and 9 occur nowhere else
    table = write(tmp_path / f"votes.{suffix}", rows)
    out = json.loads(
        good("fit", table, "--votes", "ann,bob,eve", "--trim", 0.5, "-o", "m.pril", "--json")
    )
    y = from_votes(votes_of(rows), trim=0.5)
    assert [entry["class"] for entry in out["classes"]] == [-1, 1, 2, 3, 4, 9]
    widths = {}
    for low, high in y[~np.isnan(y[:, 0])]:
        width = str(1 + sum(low < k <= high for k in [-1, 1, 2, 3, 4, 9]))
        widths[width] = widths.get(width, 0) + 1
    assert out["widths"] == widths
    assert out["unlabelled_rows"] == int(np.isnan(y[:, 0]).sum())


def test_a_zero_among_votes_may_be_no_vote(call, good, tmp_path):
    rows = [row | {"ann": row["ann"] or 0} for row in with_votes(make_rows(60), words=False)]
    write(tmp_path / "t.csv", rows)
    options = ("fit", "t.csv", "--votes", "ann,bob,eve", "--features", "size,age", "-q")
    said = call(*options)[2]
    assert (
        "0 was taken for a vote, the lowest of [0, 1, 2, 3, 4]; if it means no vote, leave" in said
    )
    assert said.endswith("; pass --classes, lowest first\n")
    good(*options, "--classes", "0,1,2,3,4")


def test_ranges_of_votes_say_that_unanimous_rows_calibrate(call, good, tmp_path):
    """These are the easy rows: there is a warning, with their number and what to do instead."""
    rows = with_votes(make_rows(900))
    table = write(tmp_path / "t.csv", rows)
    fit = ("fit", table, "--votes", "ann,bob,eve", *CLASSES, "--coverage", 0.5, "-o", "t.pril")
    code, out, err = call(*fit)
    calibrating = [row for t, row in enumerate(rows) if is_calibrating(t)]
    votes = [{vote for vote in row if vote is not None} for row in votes_of(calibrating)]
    n_agreed, n = sum(len(own) == 1 for own in votes), sum(len(own) > 0 for own in votes)
    assert code == 0
    assert err == (
        f"pril: warning: {table}: the ranges are calibrated on {n_agreed} of {n} rows, those whose "
        "votes agree, which are easier than others: fewer of the others are covered; to cover the "
        "median vote pass --trim 0.5, to cover all votes --guarantee contain\n"
    )
    assert f"coverage  0.5 (exact), calibrated on {n_agreed} of {n} rows\n" in out
    out = good(*fit, "--guarantee", "contain")
    assert f"coverage  0.5 (contain), calibrated on {n} rows\n" in out
    for row in rows:  # an odd number of votes
        row["bob"] = row["eve"] = row["ann"] = row["ann"] or row["bob"] or row["eve"]
        row["eve"] = "fair" if row["ann"] else None
    write(tmp_path / "t.csv", rows)
    assert "calibrated on " in good(*fit, "--trim", 0.5)


def is_calibrating(t, holdout=0.2, share=0.2):
    """Tell whether a row calibrates, by the seed 0 of the command."""
    number = np.random.Generator(np.random.PCG64(0).advance(t)).random()
    return holdout <= number < holdout + share * (1 - holdout)


SPELLINGS = ["{a}-{b}", "{a} or {b}", "{a} to {b}", "at least {a}", "{b} or less", "{a}", ""]


def with_texts(rows, seed=0, words=True):
    rng = np.random.default_rng(seed)
    names = GRADES if words else [1, 2, 3, 4]
    written = []
    for row in rows:
        a, b = sorted(rng.integers(0, 4, 2))
        text = SPELLINGS[rng.integers(len(SPELLINGS))].format(a=names[a], b=names[b])
        written.append(features(row) | {"grade": text or None})
    return written


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("words", [True, False])
def test_ranges_are_those_of_from_strings(good, tmp_path, suffix, words):
    rows = with_texts(make_rows(), words=words)
    scale = GRADES if words else [1, 2, 3, 4]
    y = from_strings([row["grade"] for row in rows], scale)
    table = write(tmp_path / f"texts.{suffix}", rows)
    twin = write(tmp_path / f"ends.{suffix}", with_ends(rows, y.tolist()))
    classes = ("--classes", ",".join(map(str, scale)))
    good("fit", table, "--label", "grade", "--range-texts", *classes, "-o", "texts.pril")
    good("fit", twin, "--lower", "low", "--upper", "high", *classes, "-o", "ends.pril")
    assert_same_model(learner("texts.pril"), learner("ends.pril"))
    said = good("evaluate", "texts.pril", table)
    assert said == good("evaluate", "ends.pril", twin)


@given(
    st.lists(
        st.lists(st.sampled_from([None, 1, 2, 4, 5]), min_size=3, max_size=3),
        min_size=1,
        max_size=40,
    ),
    st.sampled_from([0.0, 0.1, 0.25, 0.4, 0.5]),
    st.sampled_from([None, (1, 2, 3, 4, 5)]),
)
def test_any_votes_in_any_blocks(votes, trim, classes):
    """Labels read block by block are those of `from_votes` on the whole."""
    import pyarrow as pa

    from pril.tables.label_columns import LabelColumns, Votes

    columns = LabelColumns(Votes(tuple(RATERS), trim), False, classes)
    arrays = [pa.array(cells, pa.int64()) for cells in zip(*votes, strict=True)]
    table = pa.RecordBatch.from_arrays(arrays, RATERS)
    whole = from_votes(np.array(votes, float), trim=trim, classes=[1, 2, 3, 4, 5])
    for size in (1, 3, len(votes)):
        parts = [columns.read(table.slice(start, size)) for start in range(0, len(votes), size)]
        rows = [part.row(t) for part in parts for t in range(len(part.values))]
        expected = [(None, None) if np.isnan(low) else (low, high) for low, high in whole]
        assert rows == expected


# --- The model file keeps them ---


def test_a_model_keeps_how_votes_are_read(good, tmp_path):
    rows = with_votes(make_rows())
    y = from_votes(votes_of(rows), trim=0.5, classes=GRADES)
    write_csv(tmp_path / "votes.csv", rows)
    write_csv(tmp_path / "ends.csv", with_ends(rows, y.tolist()))
    renamed = [
        {{"ann": "a", "bob": "b", "eve": "c"}.get(name, name): row[name] for name in row}
        for row in rows
    ]
    write_csv(tmp_path / "renamed.csv", renamed)
    good("fit", "votes.csv", "--votes", "ann,bob,eve", "--trim", 0.5, *CLASSES, "-o", "m.pril")
    expected = good("evaluate", "m.pril", "ends.csv", "--lower", "low", "--upper", "high")
    assert good("evaluate", "m.pril", "votes.csv", "--quiet") == ""
    assert expected in good("evaluate", "m.pril", "votes.csv")
    assert good("evaluate", "m.pril", "renamed.csv", "--votes", "a,b,c") == expected
    other = good("evaluate", "m.pril", "renamed.csv", "--votes", "a,b,c", "--trim", 0)
    assert other != expected
    good("report", "m.pril", "votes.csv", "-o", "page.html")
    assert "labels ann, bob, eve" in good("show", "m.pril")


@pytest.mark.parametrize("kind", ["votes", "ranges"])
def test_a_stream_reads_them_too(good, call, feed, tmp_path, kind):
    """A stream of votes or texts teaches what a stream of their two ends teaches."""
    make = with_votes if kind == "votes" else with_texts
    rows, more = make(make_rows(200)), make(make_rows(100, seed=5), seed=5)
    if kind == "votes":
        y = from_votes(votes_of(more), trim=0.5, classes=GRADES)
        options = ("--votes", "ann,bob,eve", "--trim", 0.5)
    else:
        y = from_strings([row["grade"] for row in more], GRADES)
        options = ("--label", "grade", "--range-texts")
    write(tmp_path / "table.csv", rows)
    good("fit", "table.csv", *options, *CLASSES, "-o", "m.pril")
    for given_again in ((), options):
        feed(write(tmp_path / "more.jsonl", more).read_bytes())
        assert call("stream", "m.pril", *given_again, "-o", "one.pril")[0] == 0
        feed(write(tmp_path / "ends.jsonl", with_ends(more, y.tolist())).read_bytes())
        ends = ("--lower", "low", "--upper", "high")
        assert call("stream", "m.pril", *ends, "-o", "two.pril")[0] == 0
        assert_same_model(learner("one.pril"), learner("two.pril"))
        assert learner("one.pril").t_ > learner("m.pril").t_


@pytest.mark.parametrize("kind", ["votes", "ranges"])
def test_a_new_model_keeps_them(good, call, feed, tmp_path, kind):
    make = with_votes if kind == "votes" else with_texts
    options = ("--label", "grade", "--range-texts")
    options = ("--votes", "ann,bob,eve", "--trim", 0.5) if kind == "votes" else options
    rows = make(make_rows(60))
    feed(write(tmp_path / "rows.jsonl", rows).read_bytes())
    assert call("stream", "new.pril", *options, *CLASSES)[0] == 0
    good("evaluate", "new.pril", "rows.jsonl")
    feed((tmp_path / "rows.jsonl").read_bytes())
    assert call("stream", "new.pril", "-o", "more.pril")[0] == 0
    assert learner("more.pril").t_ == 2 * learner("new.pril").t_


# --- What is refused ---


def test_options_that_contradict_each_other(bad, tmp_path):
    write_csv(tmp_path / "t.csv", with_votes(make_rows(20)))
    votes = ("--votes", "ann,bob,eve")
    assert "--votes names one column for each rater: leave out --label" in bad(
        "fit", "t.csv", *votes, "--label", "ann"
    )
    assert "leave out --range-texts" in bad("fit", "t.csv", *votes, "--range-texts")
    assert bad("fit", "t.csv", "--votes", "ann,bob,ann") == (
        "--votes ann,bob,ann: 'ann' is named twice"
    )
    assert "expected names separated by commas" in bad("fit", "t.csv", "--votes", "ann,,eve")
    assert "--trim is for votes" in bad("fit", "t.csv", "--label", "ann", "--trim", 0.5)
    assert "--trim" in bad("fit", "t.csv", *votes, "--trim", 0.6)
    assert "--trim" in bad("fit", "t.csv", *votes, "--trim", "nan")
    assert "--trim" in bad("fit", "t.csv", *votes, "--trim", "half")
    assert "pass it by --label" in bad("fit", "t.csv", *votes, "--brackets")
    assert "--edges is for labels that are numbers" in bad("fit", "t.csv", *votes, "--edges", "1,2")
    assert "pass it by --label" in bad(
        "fit", "t.csv", "--range-texts", "--lower", "a", "--upper", "b"
    )
    assert "choose one" in bad("fit", "t.csv", "--label", "ann", "--range-texts", "--brackets")
    assert "pass --classes, lowest first" in bad("fit", "t.csv", "--label", "ann", "--range-texts")
    assert "there is no column 'zoe'" in bad("fit", "t.csv", "--votes", "ann,zoe", *CLASSES)
    assert "'ann' is the label, not a feature" in bad(
        "fit", "t.csv", *votes, *CLASSES, "--features", "ann,age"
    )


def test_cells_that_are_no_votes(good, bad, tmp_path):
    rows = with_votes(make_rows(60))
    write_csv(tmp_path / "good.csv", rows)
    rows[10]["eve"], rows[11]["ann"] = "goood", "bad"
    write_csv(tmp_path / "bad.csv", rows)
    votes = ("--votes", "ann,bob,eve")
    said = "bad.csv, row 11: column 'eve': 'goood' is not one of the classes ['poor', 'fair', "
    assert bad("fit", "bad.csv", *votes, *CLASSES).startswith(said)
    good("fit", "good.csv", *votes, *CLASSES, "-o", "m.pril")
    assert bad("evaluate", "m.pril", "bad.csv").startswith(said)
    numbers = with_votes(make_rows(60), words=False)
    numbers[3]["bob"] = "many"
    write_csv(tmp_path / "numbers.csv", numbers)
    assert bad("fit", "numbers.csv", *votes).startswith(
        "numbers.csv, row 4: column 'bob' is 'many', not a number"
    )
    numbers[3]["bob"] = 2.5
    write_csv(tmp_path / "numbers.csv", numbers)
    assert "2.5" in bad("fit", "numbers.csv", *votes)
    mixed = [row | {"eve": k % 3} for k, row in enumerate(with_votes(make_rows(20)))]
    write_csv(tmp_path / "mixed.csv", mixed)
    assert "must all hold numbers or all hold words" in bad("fit", "mixed.csv", *votes)
    silent = [row | dict.fromkeys(RATERS) for row in rows]
    write_csv(tmp_path / "silent.csv", silent)
    assert "no row has a label" in bad("fit", "silent.csv", *votes, *CLASSES)


def test_texts_that_are_no_ranges(good, bad, feed, call, tmp_path):
    rows = with_texts(make_rows(60))
    write_csv(tmp_path / "good.csv", rows)
    for text in ("goood", "good-poor", "below poor", "poor or good or great"):
        rows[20]["grade"] = text
        write_csv(tmp_path / "bad.csv", rows)
        options = ("--label", "grade", "--range-texts", *CLASSES)
        said = f"bad.csv, row 21: column 'grade': {text!r} is neither one of the classes"
        assert bad("fit", "bad.csv", *options).startswith(said)
    good("fit", "good.csv", *options, "-o", "m.pril")
    assert bad("evaluate", "m.pril", "bad.csv").startswith(said)
    feed(write(tmp_path / "bad.jsonl", rows).read_bytes())
    code, _, err = call("stream", "m.pril", "-o", "n.pril", "--quiet")
    assert code == 2
    assert "row 21: column 'grade': 'poor or good or great' is neither" in err


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("text", ["3-4", "at least good"])
def test_ranges_that_are_not_called_so_are_no_classes(bad, tmp_path, suffix, text):
    rows = [row | {"grade": GRADES[row["grade"] - 1]} for row in make_rows(20)]
    rows[7]["grade"] = text
    table = write(tmp_path / f"t.{suffix}", rows)
    said = bad("fit", table, "--label", "grade", "-o", "m.pril")
    advice = "for brackets of a number pass --brackets, for ranges of classes --range-texts and --classes"
    assert f"row 8: column 'grade': {text!r} reads as a range, not as a class; {advice}" in said
    assert "alphabetical" not in said


def test_a_damaged_note_on_votes(good, bad, tmp_path):
    from pril.io import model_files

    write_csv(tmp_path / "t.csv", with_votes(make_rows(60)))
    good("fit", "t.csv", "--votes", "ann,bob,eve", *CLASSES, "-o", "m.pril")
    model, about = model_files.read("m.pril", kind="model")
    for trim in (0.7, "half", -1):
        notes = about.notes | {"labels": about.notes["labels"] | {"trim": trim}}
        model_files.write(model, "m.pril", kind="model", notes=notes)
        assert "m.pril is damaged: its notes" in bad("evaluate", "m.pril", "t.csv")
