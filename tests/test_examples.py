"""The scripts in examples/ that are no pages of the gallery, and what notebooks show."""

import runpy
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pril import OrderedLogit
from pril.inference import infer
from pril.paper.theory import audit

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def said(capsys):
    def run(name):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_words_gaps_and_ranges_as_text(said):
    lines = said("text_columns").splitlines()
    assert float(lines[0].split()[2]) < 0.6  # classes; always "good" is off by more
    assert "shared offsets" in lines[1]


def test_a_competition(said):
    first, *_, last = said("submission").splitlines()
    assert float(first.split()[1]) > 0.6
    assert float(last.split()[1]) > 0.6


class Cells(HTMLParser):
    """The texts of cells and paragraphs of a piece of HTML, which must be closed in order."""

    def __init__(self, source):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(source)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        assert self.open[-1] in ("td", "th", "p")
        self.texts.append(data)


def test_notebooks_show_tables():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a < b & c": rng.normal(size=300)})
    y = np.digitize(X["a < b & c"] + rng.logistic(size=300), [-1.0, 1.0])
    y = np.column_stack([y, np.minimum(y + rng.integers(0, 2, 300), 2)])
    model = OrderedLogit(alpha=0).fit(X, y)
    result = infer(model, X, y)
    texts = Cells(result._repr_html_()).texts
    wanted = [cell for line in result.cells() for cell in line if cell]
    assert texts == [*wanted, *result.notes]
    assert "a < b & c" in texts
    chances = result.probabilities(X)
    for table, more in ((result.marginal_effects(X), 0), (chances, chances.estimate.size - 20)):
        *texts, last = Cells(table._repr_html_()).texts
        assert last == f"and {more} more, see to_frame()" if more else f"{table.upper.flat[-1]:.4g}"
        lines = table.to_frame().head(20)
        assert texts[: len(lines.columns)] == [*lines.columns]
        shown = [*texts, last][len(lines.columns) :][: lines.size]
        estimates = shown[len(table.columns) :: len(lines.columns)]
        assert estimates == [f"{value:.4g}" for value in lines["estimate"]]
        assert str(table).splitlines()[1].split()[-1] == f"{table.upper.flat[0]:.4g}"
    sentence, *cells = Cells(model.coarsening_._repr_html_()).texts
    assert sentence == str(model.coarsening_)
    assert cells[:4] == ["rank of the label", "class 0", "class 1", "class 2"]
    shares = [f"{share:.0%}" for _, row in sorted(model.coarsening_.table.items()) for share in row]
    assert [cell for cell in cells if "%" in cell] == shares
    found = audit(X, y)
    texts = Cells(found._repr_html_()).texts
    assert {bound.name for bound in found.bounds} <= set(texts)
    assert f"rounds: {found.facts['rounds']}" in texts


@pytest.mark.slow
def test_a_stream_is_killed_and_goes_on(said):
    out = said("stream_service")
    assert "goes on with row 1000" in out  # the last checkpoint
    assert "learned until row 2999" in out
    assert '"event": "alarm", "row": 20' in out  # the drift is at row 2000
    assert "refused: x lacks the column 'price'" in out


@pytest.mark.slow
def test_river(said):
    *_, last = (line for line in said("river_stream").splitlines() if "IntervalMAE" in line)
    assert float(last.split("IntervalMAE: ")[1].split(",")[0]) < 1.0
