"""Reports: the numbers are those of the model, and no text of a table becomes markup."""

import base64
import json
import re
import shutil
from collections import Counter
from contextlib import chdir
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pril
from pril.cli.main import main
from pril.core.registry import LEARNERS
from pril.core.words import count, some_of
from pril.metrics import Outcomes, calibration_error, interval_absolute_error, interval_accuracy
from pril.reporting import Report, contents
from pril.tables import files
from tables import GRADES, make_rows, write

ENDS = ("--lower", "low", "--upper", "high")
LEARN = (*ENDS, "--classes", ",".join(GRADES), "--drop", "id,grade")
EVIL = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7*7 }}{% raw %}"]


class Read(HTMLParser):
    """A page as a browser reads it: tags with attributes, texts, tables, pictures."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts, self.tables, self.sources, self.headings = [], [], {}, [], []
        self._text = None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, *(name for name, _ in attributes)))
        if tag == "img":
            self.sources.append(dict(attributes)["src"])
        if tag == "tr":
            self.tables.setdefault(self.headings[-1], []).append([])
        if tag in ("p", "td", "th", "h1", "h2", "h3", "li", "figcaption", "title"):
            self._text = ""

    def handle_data(self, data):
        if self._text is not None:
            self._text += data

    def handle_endtag(self, tag):
        if self._text is None:
            return
        if tag in ("p", "figcaption"):
            self._text = " ".join(self._text.split())
        self.texts.append(self._text)
        if tag in ("td", "th"):
            self.tables[self.headings[-1]][-1].append(self._text)
        if tag in ("h1", "h2"):
            self.headings.append(self._text)
        self._text = None

    @property
    def drawings(self):
        """The pictures as they are written in SVG."""
        return [base64.b64decode(source.partition(",")[2]).decode() for source in self.sources]


def read(path):
    return Read(path.read_text(encoding="utf-8"))


def survey(n=300, seed=0):
    """Return features and ranges, some of them exact, the last one without a label."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    rank = np.digitize(X @ [2.0, 1.0, 0.0] + rng.logistic(size=n), [-2, 0, 2])
    lo, hi = (
        np.maximum(rank - rng.integers(0, 2, n), 0),
        np.minimum(rank + rng.integers(0, 2, n), 3),
    )
    y = np.array(GRADES, dtype=object)[np.column_stack([lo, hi])]
    y[-1] = None
    return X, y


@pytest.fixture(scope="module")
def folder_of_flats(tmp_path_factory):
    """Write two tables, and a model of the first."""
    folder = tmp_path_factory.mktemp("flats")
    write(folder / "flats.csv", make_rows(400))
    write(folder / "more.csv", make_rows(150, seed=1))
    with chdir(folder), pytest.raises(SystemExit, match="0"):
        main(["fit", "flats.csv", *LEARN, "-q"])
    return folder


@pytest.fixture
def flats(folder_of_flats, tmp_path):
    """Copy the tables and the model, which is fitted once for all tests."""
    shutil.copytree(folder_of_flats, tmp_path, dirs_exist_ok=True)
    return tmp_path / "flats.pril"


# --- The numbers ---


def test_the_command_and_the_function_show_the_numbers_of_evaluate(good, flats, tmp_path):
    evaluated = json.loads(good("evaluate", flats, "more.csv", "--json"))
    said = json.loads(good("report", flats, "more.csv", "-o", "one.html", "--json"))
    assert said == {**evaluated, "report": "one.html"}
    table = pd.read_csv("more.csv")
    ends = table[["low", "high"]].astype(object).where(table[["low", "high"]].notna(), None)
    assert pril.report(pril.load(flats), table, ends, "other.html") == evaluated
    one, other = read(tmp_path / "one.html"), read(tmp_path / "other.html")
    assert one.sources == other.sources
    for heading in ("Hits by the width of the label", "Hits by predicted class", "Hits by label"):
        assert one.tables[heading] == other.tables[heading]
    worst, same = (page.tables["The worst rows"] for page in (one, other))
    assert [row[1:5] for row in worst] == [row[1:5] for row in same]
    assert [int(row[0]) for row in worst[1:]] == [int(row[0]) + 1 for row in same[1:]]
    first = good("evaluate", flats, "more.csv").splitlines()[0]
    assert f"{first}." in one.texts
    assert f"{first}." in other.texts
    assert f"{evaluated['interval_accuracy']:.1%}" in first
    assert "percentage points more often (95% interval" in " ".join(one.texts)


def test_tables_of_hits_and_of_the_worst_rows_against_loops(tmp_path):
    X, y = survey()
    model = pril.PRIL(classes=GRADES, max_iter=1, random_state=0).fit(X, y)
    pril.report(model, X, y, tmp_path / "report.html")
    page = read(tmp_path / "report.html")
    rows = []
    for t, (label, said, score) in enumerate(zip(y[:-1], model.predict(X), model.latent(X))):  # noqa: B905
        lo, hi, at = GRADES.index(label[0]), GRADES.index(label[1]), GRADES.index(said)
        cut = [-np.inf, *model.thresholds_, np.inf]
        beyond = max(cut[lo] - score, score - cut[hi + 1], 0.0)
        rows.append((max(lo - at, at - hi, 0), beyond, t, lo, hi, at))
    _, *widths = page.tables["Hits by the width of the label"]
    counted = Counter((hi - lo + 1, loss == 0) for loss, _, _, lo, hi, _ in rows)
    for name, total, hits, share, _ in widths:
        width = 1 if name == "exact" else int(name.split()[0])
        assert int(hits) == counted[width, True]
        assert int(total) == counted[width, True] + counted[width, False]
        assert share == f"{int(hits) / int(total):.1%}"
    assert sum(int(total) for _, total, *_ in widths) == len(rows)
    _, *predicted = page.tables["Hits by predicted class"]
    _, *exact = page.tables["Hits by label"]
    for k, name in enumerate(GRADES):
        own = [loss == 0 for loss, *_, at in rows if at == k]
        sure = [at == k for *_, lo, hi, at in rows if lo == hi == k]
        assert predicted[k] == [name, str(len(own)), f"{np.mean(own):.1%}"]
        assert exact[k] == [name, str(len(sure)), f"{np.mean(sure):.1%}"]
    assert f"Learned: {model.t_} rounds, {model.n_mistakes_} mistakes" in page.texts
    _, *worst = page.tables["The worst rows"]
    wanted = sorted((-loss, -beyond, t) for loss, beyond, t, *_ in rows if loss)[:10]
    assert [int(row[0]) for row in worst] == [t for *_, t in wanted]
    assert [float(row[5]) for row in worst] == pytest.approx([X[t, 0] for *_, t in wanted], 1e-4)


def test_it_says_how_the_model_was_learned(good, flats, tmp_path):
    """In words, with the numbers that `pril fit` printed; no dicts of the file."""
    said = good("fit", "flats.csv", *LEARN, "-o", "again.pril", "--coverage", "0.8").splitlines()
    good("report", "again.pril", "more.csv", "-o", "r.html", "-q")
    page = read(tmp_path / "r.html")
    for line in said:
        kind, fact = line[:10].strip(), line[10:]
        if kind in ("read", "labels", "numbers", "learned", "held out", "coverage"):
            fact = f"{kind.capitalize()}: {fact}"
            assert any(text == fact or text.startswith(f"{fact}; ") for text in page.texts)
    held_out = next(text for text in page.texts if text.startswith("Held out: "))
    assert "with an exact label" in held_out
    classes = [line.split() for line in said if line.strip().split(" ")[0] in GRADES]
    assert page.tables["How the model was learned"][1:] == classes
    options = next(text for text in page.texts if text.startswith("Options: "))
    assert "epochs 10, holdout 0.2, seed 0, coverage 0.8, guarantee exact" in options
    text = " ".join(page.texts)
    assert not re.search(r"None|none|\{|interval_accuracy", text.replace("=None", ""))


def test_names_and_styles_of_brackets_are_words(good, tmp_path):
    """Names such as "below 1000" read well in sentences; no field of a style reaches the page."""
    rng = np.random.default_rng(0)
    texts = ["unter 1000 \u20ac", "1000 bis 2000 \u20ac", "2000 bis 3000 \u20ac", "ab 3000 \u20ac"]
    rank = rng.integers(0, 4, 200)
    frame = pd.DataFrame({"size": rank + rng.normal(size=200).round(2)})
    frame["income"] = [texts[k] for k in rank]
    frame.loc[:40, "income"] = "ab 2000 \u20ac"
    frame.to_csv(tmp_path / "t.csv", index=False)
    good("fit", "t.csv", "--label", "income", "--brackets", "-o", "t.pril", "-q")
    good("report", "t.pril", "t.csv", "-o", "r.html", "-q")
    page = read(tmp_path / "r.html")
    options = next(text for text in page.texts if text.startswith("Options: "))
    assert "edges 1000 2000 3000, brackets as text, in \u20ac" in options
    assert not re.search(r"False|True|None|'|\?|shares|step|foreign|range texts", options)
    assert "below below" not in "".join(page.drawings)
    assert "\u201cbelow 1000\u201d or lower" in "".join(page.drawings)
    labels = {row[1] for row in page.tables["The worst rows"][1:]}
    assert "2000 to 3000 \u2013 3000 or more" in labels
    pril.report(pril.load("t.pril"), frame, rank_names(rank), "python.html")
    assert "below below" not in "".join(read(tmp_path / "python.html").drawings)


def rank_names(rank):
    return np.array(["below 1000", "1000 to 2000", "2000 to 3000", "3000 or more"], object)[rank]


def test_the_worst_rows_of_blocks_are_those_of_all_rows():
    """Scores are whole numbers and do not tell the ranks, so that every kind of tie comes up."""
    rng = np.random.default_rng(0)
    X, y = survey(50)
    model = pril.PRIL(classes=GRADES, random_state=0).fit(X, y)
    cut = np.array([-np.inf, *model.thresholds_, np.inf])
    lo, hi = np.sort(rng.integers(0, 4, (2, 300)), axis=0)
    rank, score = rng.integers(0, 4, 300), rng.integers(-3, 4, 300).astype(float)
    loss = np.maximum(np.maximum(lo - rank, rank - hi), 0)
    beyond = np.maximum(np.maximum(cut[lo] - score, score - cut[hi + 1]), 0.0)
    report = Report(model, "rows", "")
    for block in np.split(np.arange(300), [7, 8, 90]):
        outcomes = Outcomes(np.column_stack([lo, hi])[block], rank[block], score[block])
        report.add(outcomes, lambda rows, block=block: [(str(t), {}) for t in block[rows]])
    wanted = sorted(range(300), key=lambda t: (-loss[t], -beyond[t], t))[:10]
    assert [int(row.texts[0]) for row in report.worst] == wanted
    assert [row.order[2] for row in report.worst] == wanted
    assert report.n_rows == len(report.rows.rank) == 300


def test_the_loss_along_the_rows():
    X, y = survey(50)
    model = pril.PRIL(classes=GRADES, random_state=0).fit(X, y)
    rng = np.random.default_rng(0)
    rank, labels = rng.integers(0, 4, (2, 90))
    report = Report(model, "rows", "")
    report.add(
        Outcomes(np.column_stack([labels, labels]), rank, np.zeros(90)),
        lambda rows: [(str(t), {}) for t in rows],
    )
    [ax] = contents(report, {}, {})["running_loss"].axes
    loss = np.abs(rank - labels)
    running, constant = ax.lines
    n = np.arange(1, 91)
    np.testing.assert_allclose(running.get_xydata(), np.column_stack([n, np.cumsum(loss) / n]))
    best = min(np.abs(labels - k).mean() for k in range(4))
    np.testing.assert_allclose(constant.get_ydata(), best)
    [stretches] = ax.patches
    values, edges, _ = stretches.get_data()
    assert (edges[0], edges[-1], len(values)) == (0, 90, 20)
    found = [loss[int(a) : int(b)].mean() for a, b in pairwise(edges)]
    np.testing.assert_allclose(values, found)


@pytest.mark.parametrize(
    ("n", "said"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1e3, "1,000 rows")]
)
def test_numbers_of_things(n, said):
    assert count(int(n), "row") == said


def test_long_lists_are_shortened():
    names = [f"c{k}" for k in range(13)]
    assert some_of(names[:12]) == ", ".join(names[:12])
    assert some_of(names) == ", ".join([*names[:12], "and 1 more"])


def test_blocks_of_a_table_give_the_same_bytes(good, flats, tmp_path, monkeypatch):
    good("report", flats, "more.csv", "-o", "whole.html", "-q")
    monkeypatch.setattr(files, "BLOCK_ROWS", 7)
    good("report", flats, "more.csv", "-o", "blocks.html", "-q")
    assert (tmp_path / "blocks.html").read_bytes() == (tmp_path / "whole.html").read_bytes()


def test_a_model_of_brackets_reads_its_labels_as_it_learned(good, tmp_path):
    rows = [{"size": t / 2, "low": 3 * t, "high": 3 * t + 4} for t in range(60)]
    write(tmp_path / "flats.csv", rows)
    good("fit", "flats.csv", *ENDS, "--edges", "50,100", "-q")
    said = json.loads(good("report", "flats.pril", "flats.csv", "-o", "r.html", "--json"))
    assert said == {
        **json.loads(good("evaluate", "flats.pril", "flats.csv", "--json")),
        "report": "r.html",
    }
    assert len(read(tmp_path / "r.html").tables["Hits by predicted class"]) == 4


@pytest.mark.parametrize("guarantee", ["exact", "contain", "touch"])
def test_probabilities_and_ranges_are_measured(guarantee, tmp_path):
    X, y = survey(600)
    logit = pril.OrderedLogit(classes=GRADES, random_state=0)
    learner = make_pipeline(StandardScaler(), logit)
    model = pril.PredictionRanges(learner, guarantee=guarantee, coverage=0.8, random_state=0)
    model.fit(X[:400], y[:400])
    pril.report(model, X[400:], y[400:], tmp_path / "report.html")
    page = read(tmp_path / "report.html")
    text = " ".join(page.texts)
    proba = model.estimator_.predict_proba(X[400:])
    assert (
        f"dotted line in ten bins, is {calibration_error(y[400:], proba, classes=GRADES):.3f}"
        in text
    )
    measured = model.coverage_report(X[400:], y[400:])
    assert f"on these rows it did for {measured[guarantee]:.1%}" in text
    assert f"A range has {measured['mean_width']:.2f} classes" in text
    lines = page.tables["Do the predicted ranges hold?"][1:]
    counted = "exact_rows" if guarantee == "exact" else "rows"
    assert sum(int(line[1]) for line in lines) == measured[counted]  # those whose share is shown
    holds = {}
    for (low, high), (lower, upper) in zip(model.predict_range(X[400:-1]), y[400:-1], strict=True):
        low, high, lo, hi = map(GRADES.index, (low, high, lower, upper))
        hits = holds.setdefault(high - low + 1, [])
        if guarantee == "touch":
            hits.append(low <= hi and lo <= high)
        elif guarantee == "contain" or lo == hi:
            hits.append(low <= lo and hi <= high)
    shown = {int(line[0].split()[0]): line[2] for line in lines}
    assert shown == {
        width: f"{np.mean(hits):.1%}" if hits else "-" for width, hits in holds.items()
    }
    assert len(shown) > 1
    by_class = model.coverage_report(X[400:], y[400:], by="class")["groups"]
    kind = "exact_rows" if guarantee == "exact" else "rows"
    assert page.tables["Do they hold for each class?"][1:] == [
        [name, str(by_class[name][kind]), f"{by_class[name][guarantee]:.1%}"] for name in GRADES
    ]
    assert "The guarantee is for all rows together." in text


def test_ranges_by_class_are_told_so(tmp_path):
    X, y = survey(600)
    logit = pril.OrderedLogit(classes=GRADES, random_state=0)
    model = pril.PredictionRanges(logit, coverage=0.5, by="class", random_state=0).fit(X, y)
    pril.report(model, X, y, tmp_path / "report.html")
    text = " ".join(read(tmp_path / "report.html").texts)
    assert "The guarantee is for each class." in text
    assert "The guarantee is for all rows together." not in text


def test_a_model_that_learned_nothing_is_told_so(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.choice([1, 2], 200, p=[0.1, 0.9])
    model = pril.PRIL(classes=[1, 2]).partial_fit(X[:2], [1, 2])
    pril.report(model, X, y, tmp_path / "report.html")
    text = " ".join(read(tmp_path / "report.html").texts)
    found = re.search(r"points less often \(95% interval (\S+) to (\S+)\) than", text)
    low, high = map(float, found.groups())
    assert 0 < low < 100 * np.mean((y == 2) * 1 - (model.predict(X) == y)) < high
    assert "The model is worse than a constant prediction: on average, its" in text
    assert "than always predicting 2." in text


def test_a_model_that_is_nearer_but_not_inside_more_often_helps(tmp_path):
    """It is off by less than a constant, and inside its range as often."""
    X = np.tile([[-1.0], [0.0], [1.0]], (100, 1))
    model = pril.PRIL(classes=[1, 2, 3, 4, 5], random_state=0).fit(X, np.tile([2, 3, 4], 100))
    np.testing.assert_array_equal(model.predict(X[:3]), [2, 3, 4])
    said = pril.report(model, X, np.tile([1, 3, 5], 100), tmp_path / "report.html")
    assert said["interval_accuracy"] == said["constant_accuracy"] == pytest.approx(1 / 3)
    assert said["interval_absolute_error"] == pytest.approx(2 / 3)
    assert said["nearest_constant"] == 3
    assert said["nearest_constant_error"] == pytest.approx(4 / 3)
    text = " ".join(read(tmp_path / "report.html").texts)
    assert "better than any constant" in text
    assert "always 3 1.3333" in text
    found = re.search(r"0.67 ranks closer to the label \(95% interval (\S+) to (\S+)\)", text)
    gain = np.tile([1, 0, 1], 100)
    error = 1.96 * gain.std() / np.sqrt(len(gain))
    ends = [gain.mean() - error, gain.mean() + error]
    np.testing.assert_allclose([float(end) for end in found.groups()], ends, atol=0.01)


def test_the_constants_are_the_best_of_all(tmp_path):
    rng = np.random.default_rng(0)
    n, classes = 60, [1, 2, 3, 4, 5, 6]
    X, y = rng.normal(size=(n, 2)), np.sort(rng.integers(2, 6, (n, 2)), axis=1).astype(float)
    y[:, 0] = np.minimum(y[:, 0], 4)
    y[-1] = np.nan
    model = pril.PRIL(classes=classes, random_state=0).fit(X, y)
    said = pril.report(model, X, y, tmp_path / "report.html")
    known = {"classes": classes}
    share = [interval_accuracy(y, [k] * n, **known) for k in classes]
    error = [interval_absolute_error(y, [k] * n, **known) for k in classes]
    assert said["constant"] == classes[np.argmax(share)]
    assert said["constant_accuracy"] == pytest.approx(max(share))
    assert said["nearest_constant"] == classes[np.argmin(error)]
    assert said["nearest_constant_error"] == pytest.approx(min(error))
    exact, predicted = y[:, 0] == y[:, 1], model.predict(X)
    assert (said["rows"], said["unlabelled_rows"], said["exact_rows"]) == (n - 1, 1, exact.sum())
    assert said["exact_absolute_error"] == pytest.approx(
        interval_absolute_error(y[exact], predicted[exact], **known)
    )


def test_chance_is_not_called_a_gain(tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 2)), rng.integers(1, 4, 60)
    model = pril.PRIL(random_state=0).fit(X[:30], y[:30])
    pril.report(model, X[30:], y[30:], tmp_path / "report.html")
    assert "better than any constant" not in " ".join(read(tmp_path / "report.html").texts)


# --- Every model, every kind of rows ---


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.name)
def test_every_learner_has_a_report(learner, tmp_path):
    X, y = survey()
    model = learner.load()(classes=GRADES, random_state=0).fit(X / 10, y[:, 0])
    pril.report(model, X / 10, y, tmp_path / "report.html")
    headings = read(tmp_path / "report.html").headings
    assert ("Where the rows lie" in headings) == hasattr(model, "thresholds_")
    has_weights = hasattr(model, "coef_") or hasattr(model, "feature_importances_")
    assert ("What moves the score" in headings) == has_weights
    assert ("Can the probabilities be trusted?" in headings) == hasattr(model, "predict_proba")


@pytest.mark.parametrize("cls", [pril.PRIL, pril.OrderedLogit, pril.OrderedBoosting])
def test_it_says_how_classes_become_ranges(cls, tmp_path):
    """If the learner learns that, and there were ranges."""
    X, y = survey()
    model = cls(classes=GRADES, random_state=0)
    for labels in (y, y[:, 0]):
        pril.report(model.fit(X / 10, labels), X, y, tmp_path / "report.html")
        said = [text for text in read(tmp_path / "report.html").texts if "Coarsening: " in text]
        learns = hasattr(model, "coarsening_") and labels is y
        assert said == ([f"Coarsening: {model.coarsening_}"] if learns else [])


def test_the_weights_of_a_class_stand_under_its_name(tmp_path):
    X, y = survey()
    model = pril.MulticlassPerceptron(classes=GRADES, random_state=0).fit(X, y)
    pril.report(model, X, y, tmp_path / "report.html")
    (_, *names), *rows = read(tmp_path / "report.html").tables["What moves the score"]
    weights = dict(zip(model.classes_, model.coef_, strict=True))
    assert sorted(names) == sorted(GRADES)
    for j, *cells in rows:
        assert cells == [f"{weights[name][int(j)]:.4g}" for name in names]
    largest = np.argsort(-np.abs(model.coef_).max(axis=0), kind="stable")
    assert [int(j) for j, *_ in rows] == largest.tolist()


@pytest.mark.parametrize(
    ("container", "names", "shown"),
    [
        (list, ["feature 0", "feature 1", "feature 2"], ["-9", "0", "4.5"]),
        (sparse.csr_array, ["features"], ["0:-9 2:4.5"]),
        (lambda X: pd.DataFrame(X, columns=list("abc")), ["a", "b", "c"], ["-9", "0", "4.5"]),
    ],
    ids=["list", "sparse", "frame"],
)
def test_every_kind_of_rows_shows_its_cells(container, names, shown, tmp_path):
    X, y = survey(40)
    model = pril.PRIL(classes=GRADES, random_state=0).fit(container(X), y)
    X[3] = [-9.0, 0.0, 4.5]
    y[3] = "great"
    pril.report(model, container(X), y, tmp_path / "report.html")
    header, *rows = read(tmp_path / "report.html").tables["The worst rows"]
    assert next(row for row in rows if row[0] == "3")[5:] == shown
    assert header[5:] == names


def test_arrow_rows_show_their_cells(good, flats, tmp_path):
    rows = pa.Table.from_pylist(make_rows(60, seed=3))
    ends = rows.select(["low", "high"]).to_pandas()
    pril.report(pril.load(flats), rows, ends.astype(object).where(ends.notna(), None), "a.html")
    header, *_ = read(tmp_path / "a.html").tables["The worst rows"]
    assert header[5:] == ["id", "size", "age", "town", "low", "high"]


@pytest.mark.parametrize(
    ("container", "said"),
    [(list, "leaves out 3 further columns."), (sparse.csr_array, "\u2026")],
)
def test_columns_of_the_worst_rows_that_are_left_out_are_counted(container, said, tmp_path):
    X, y = survey(40)
    X = np.hstack([X, X, X])
    model = pril.PRIL(classes=GRADES, random_state=0).fit(container(X), y)
    y[3] = "great" if model.predict(container(X[3:4]))[0] == "poor" else "poor"
    pril.report(model, container(X), y, tmp_path / "report.html")
    page = read(tmp_path / "report.html")
    header, *rows = page.tables["The worst rows"]
    assert len(header) == (5 + 6 if container is list else 5 + 1)
    assert said in " ".join([*page.texts, *(cell for row in rows for cell in row)])


@pytest.mark.parametrize("n_classes", [1, 2, 300])
def test_few_and_many_classes_make_a_page(n_classes, tmp_path):
    X = np.linspace(-1, 1, 3 * n_classes).reshape(-1, 1)
    y = np.repeat(np.arange(n_classes), 3)
    model = pril.PRIL(random_state=0, max_iter=2).fit(X, y)
    pril.report(model, X, y, tmp_path / "report.html")
    page = read(tmp_path / "report.html")
    assert len(page.tables["Hits by predicted class"]) == min(n_classes, 40) + 1
    said = " ".join(page.texts)
    assert ("further class" in said) == (n_classes > 40)
    assert n_classes <= 40 or f"{n_classes - 40} further classes left out" in said
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)


# --- Hostile text ---


def hostile_pages(good, tmp_path):
    """Return the pages of two equal tables; in one, names, classes and cells are markup."""
    pages = []
    for evil in (["x", "y", "z"], EVIL):
        names = {"size": evil[0], "town": evil[1], "age": evil[2]}
        grades = dict(zip(GRADES, [*evil, "$x_{<b>$"] if evil is EVIL else GRADES, strict=True))
        rows = [
            {
                **{names.get(name, name): cell for name, cell in row.items()},
                **{end: grades.get(row[end]) for end in ("low", "high")},
                names["town"]: row["town"]
                and (f"{row['town']}{evil[0]}" if evil is EVIL else row["town"]),
            }
            for row in make_rows(200)
        ]
        stem = f"table{len(pages)}"
        write(tmp_path / f"{stem}.jsonl", rows)
        classes = ",".join('"' + name.replace('"', '""') + '"' for name in grades.values())
        good("fit", f"{stem}.jsonl", *ENDS, "--classes", classes, "--drop", "id,grade", "-q")
        good("report", f"{stem}.pril", f"{stem}.jsonl", "-o", f"{stem}.html", "-q")
        pages.append(read(tmp_path / f"{stem}.html"))
    return pages


def test_text_of_a_table_cannot_become_markup(good, tmp_path):
    plain, evil = hostile_pages(good, tmp_path)
    short = [[tag for tag in page.tags if tag[0] != "td"] for page in (plain, evil)]
    assert short[0] == short[1]
    assert [tag[0] for tag in plain.tags] == [tag[0] for tag in evil.tags]
    assert {name for _, *names in evil.tags for name in names} <= {
        *("lang", "charset", "name", "content", "http-equiv", "class", "tabindex", "alt", "src")
    }
    assert "script" not in {tag[0] for tag in evil.tags}
    text = " ".join(evil.texts)
    for attack in [*EVIL, "$x_{<b>$"]:
        assert attack in text
    _, *classes = evil.tables["Hits by predicted class"]
    assert [name for name, *_ in classes] == [*EVIL, "$x_{<b>$"]  # nothing was evaluated
    assert len(evil.drawings) == 5
    for drawing in evil.drawings:
        tags = {tag[0] for tag in Read(drawing[drawing.index("<svg") :]).tags}
        assert tags <= {"svg", "metadata", "defs", "style", "g", "path", "clippath", "rect", "use",
                        "text", "image", "rdf:rdf", "cc:work", "dc:type", "dc:format",
                        "dc:creator", "cc:agent", "dc:title", "tspan"}  # fmt: skip


def test_odd_letters_are_written(tmp_path):
    X, y = survey(40)
    names = ["差\x00\x1b", "é\n\ud800", "_" + "long" * 50, "$"]
    named = dict(zip(GRADES, names, strict=True))
    y = [(named.get(lower), named.get(upper)) for lower, upper in y]
    model = pril.OrderedLogit(classes=names, random_state=0).fit(X, y)
    pril.report(model, X, y, tmp_path / "report.html")
    page = read(tmp_path / "report.html")
    drawn = "".join(page.drawings)
    assert "差" in drawn
    assert "\u201c_longlong" in drawn
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", drawn)


# --- Refusals ---


def test_what_cannot_be_reported_is_refused(bad, good, flats, tmp_path):
    rows = make_rows(20)
    write(tmp_path / "none.csv", [{**row, "low": None, "high": None} for row in rows])
    (tmp_path / "empty.csv").write_text("id,size,age,town,low,high\n")
    (tmp_path / "old.html").write_text("<!doctype html>old")
    out = ("-o", "old.html")
    assert "none.csv: no row has a label" in bad("report", flats, "none.csv", *out)
    assert "empty.csv has a header, but no rows" in bad("report", flats, "empty.csv", *out)
    assert "no column 'x'" in bad("report", flats, "more.csv", "--label", "x", *out)
    assert "is the input" in bad("report", flats, "more.csv", "-o", "more.csv")
    assert "is the input" in bad("report", flats, "more.csv", "-o", flats)
    assert "--output" in bad("report", flats, "more.csv")
    pril.save(
        pril.PRIL(classes=[1, 2]).fit(pd.DataFrame({"size": [1.0, 2.0]}), [1, 2]), "bare.pril"
    )
    assert "pass --label" in bad("report", "bare.pril", "more.csv", *out)
    X, y = survey(20)
    model = pril.PRIL(classes=GRADES).fit(X, y)
    for rows, labels, reason in (
        (X, y[:-1], "y has 19 labels"),
        (X[-1:], y[-1:], "no row has a label"),
        (X, ["no such"] * 20, "no such"),
    ):
        with pytest.raises(ValueError, match=reason):
            pril.report(model, rows, labels, tmp_path / "old.html")
    with pytest.raises(NotFittedError, match="PRIL instance is not fitted yet"):
        pril.report(pril.PRIL(), X, y, tmp_path / "old.html")
    assert (tmp_path / "old.html").read_text() == "<!doctype html>old"


# --- In a browser ---


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_the_page(browser, good, flats, tmp_path, width):
    """No word on the console, no request, no script, pictures that can be seen."""
    hostile_pages(good, tmp_path)
    X, y = survey(600)
    logit = pril.OrderedLogit(classes=GRADES, random_state=0)
    model = pril.PredictionRanges(logit, random_state=0).fit(X, y)
    pril.report(model, X, y, tmp_path / "ranges.html")
    for name, pictures in (("table1.html", 5), ("ranges.html", 5)):
        page = (tmp_path / name).as_uri()
        tab = browser.new_page(viewport={"width": width, "height": 900})
        said, requested = [], []
        tab.on("console", lambda message, said=said: said.append(message.text))
        tab.on("pageerror", lambda error, said=said: said.append(str(error)))
        tab.on("dialog", lambda dialog, said=said: said.append(dialog.message))
        tab.on("request", lambda request, urls=requested: urls.append(request.url))
        tab.goto(page, wait_until="networkidle")
        assert said == []
        assert [url for url in requested if not url.startswith("data:image/")] == [page]
        sizes = tab.evaluate("Array.from(document.images, i => [i.naturalWidth, i.clientWidth])")
        assert len(sizes) == pictures
        assert all(natural > 300 and 300 < shown <= width for natural, shown in sizes)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.emulate_media(media="print")
        tab.set_viewport_size({"width": 680, "height": 1000})  # about that of a printed page
        cut = "Array.from(document.querySelectorAll('.box'), box => box.scrollWidth > 680)"
        assert not any(tab.evaluate(cut))
        tab.close()


# --- Titles, few rows, names of classes ---


def test_a_title(good, bad, flats, tmp_path):
    good("report", flats, "more.csv", "-o", "page.html", "--title", "Flats & <towns>", "-q")
    text = (tmp_path / "page.html").read_text()
    assert "<h1>Flats &amp; &lt;towns&gt;</h1>" in text
    assert "<title>Flats &amp; &lt;towns&gt;</title>" in text
    good("report", flats, "more.csv", "-o", "page.html", "-q")
    assert read(tmp_path / "page.html").headings[0] == "OrderedLogit on more.csv"
    assert "title must be a text" in bad(
        "report", flats, "more.csv", "-o", "p.html", "--title", " "
    )
    X, y = survey()
    model = pril.OrderedLogit(classes=GRADES, random_state=0).fit(X, y)
    pril.report(model, X, y, tmp_path / "own.html", title="Mine")
    assert read(tmp_path / "own.html").headings[0] == "Mine"
    with pytest.raises(ValueError, match="title must be a text, got 3"):
        pril.report(model, X, y, tmp_path / "own.html", title=3)


@pytest.mark.parametrize(("n", "bins"), [(20, 2), (75, 3), (249, 9), (250, 10), (400, 10)])
def test_few_rows_are_drawn_in_few_bins(tmp_path, n, bins):
    X, y = survey(600)
    model = pril.OrderedLogit(classes=GRADES, random_state=0).fit(X, y)
    exact = np.array([low is not None and low == high for low, high in y])
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(n, 3)), y[exact][rng.integers(0, exact.sum(), n), 0]
    pril.report(model, X, labels, tmp_path / "page.html")
    text = " ".join(" ".join(read(tmp_path / "page.html").texts).split())
    assert f"Rows are put into {bins} bins" in text
    assert "The vertical line through a dot is the 95% interval of its share" in text
    assert ("fewer bins than the usual ten" in text) == (bins < 10)
    display = pril.plotting.ReliabilityDisplay.from_estimator(model, X, labels)
    sorted_at = [model.classes_.tolist().index(grade) for grade in GRADES]
    below = np.cumsum(model.predict_proba(X)[:, sorted_at], axis=1)
    for k, curve in enumerate(display.curves):
        at = np.minimum((below[:, k] * bins).astype(int), bins - 1)
        rank = np.array([GRADES.index(label) for label in labels])
        seen = [(rank[at == j] <= k).mean() for j in range(bins) if (at == j).any()]
        np.testing.assert_allclose(curve.seen, seen)
    error = pril.metrics.calibration_error(labels, model.predict_proba(X), classes=GRADES)
    assert display.error == error


def test_axes_name_the_classes(good, flats, tmp_path):
    """On the axes of the scores, the weights and the hits, and in the legend of the curves."""
    good("report", flats, "more.csv", "-o", "page.html", "-q")
    page = read(tmp_path / "page.html")
    assert len(page.drawings) == 5
    for drawing in (page.drawings[k] for k in (0, 1, 2, 4)):
        names = GRADES[:-1] if "or lower" in drawing else GRADES
        assert all(name in drawing for name in names)


def test_show_groups_the_words_of_a_column(good, flats):
    lines = good("show", flats, "--top", 50).splitlines()
    at = next(k for k, line in enumerate(lines) if line[12:].strip() == "town")
    words = [line.split()[:-1] for line in lines[at + 1 : at + 4]]
    assert sorted(map(" ".join, words)) == ["Bern, old", "Oslo", "Rome"]
    assert all(line.startswith(" " * 14) for line in lines[at + 1 : at + 4])
    weights = [abs(float(line.split()[-1])) for line in lines[at + 1 : at + 4]]
    assert weights == sorted(weights, reverse=True)
    assert "town=Oslo" not in "\n".join(lines)
    shown = json.loads(good("show", flats, "--json"))["weights"]
    assert {"size", "age", "town=Oslo", "town=Rome", "town=Bern, old"} <= set(shown)
