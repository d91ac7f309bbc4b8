"""The scripts in examples/ that are no pages of the gallery: walks that users take."""

import runpy
from pathlib import Path

import pytest

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
