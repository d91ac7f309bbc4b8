"""The experiments: their numbers, for any number of jobs, and verdicts of every kind."""

import csv
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import reference
from pril import PRIL, WidrowHoff
from pril.paper import experiments
from pril.paper.experiments import SYNTHETIC, Curve, Settings, Trial


@pytest.fixture
def data():
    if not Path(os.environ.get("PRIL_DATA", "nowhere"), "abalone.data").is_file():
        pytest.skip("the UCI files are not in the folder PRIL_DATA")


def test_a_curve_is_the_mean_of_running_means_with_its_standard_error():
    """Row by row, by hand."""
    settings = Settings(runs=3, seed=5)
    (curve,) = experiments.curves(SYNTHETIC, [Trial("PRIL", PRIL(average=False))], settings)
    means = []
    for run in range(3):
        X, y = experiments.stream(SYNTHETIC, [5, 0, run])
        model, losses = PRIL(average=False, classes=range(1, 6)), []
        for x, label in zip(X[:40, np.newaxis], y, strict=False):
            predicted = model.predict(x)[0] if losses else 5  # a model without a round predicts K
            losses.append(abs(predicted - label))
            model.partial_fit(x, [label])
        means.append(np.cumsum(losses) / np.arange(1, 41))
    early = curve.rounds <= 40
    at = curve.rounds[early] - 1
    np.testing.assert_allclose(curve.mean[early], np.mean(means, axis=0)[at])
    np.testing.assert_allclose(curve.error[early], np.std(means, axis=0, ddof=1)[at] / math.sqrt(3))


def test_another_seed_gives_other_curves():
    trials = experiments.fraction_trials()[:1]
    one, other = (experiments.curves(SYNTHETIC, trials, Settings(runs=1, seed=k)) for k in (0, 1))
    assert not np.array_equal(one[0].mean, other[0].mean)


def test_no_learner_beats_the_best_possible_one():
    """On Synthetic that one is off by 0.1526; a learner below it would have seen the answer."""
    for curve in experiments.figure3(Settings(runs=2), (SYNTHETIC,)):
        assert curve.mean[-1] > 0.1526


def test_the_best_step_of_widrow_hoff_is_the_best_of_the_sweep():
    found = {c.name: c for c in experiments.figure3(Settings(runs=2), (SYNTHETIC,))}
    swept = [
        c.mean[-1]
        for name, c in found.items()
        if name.startswith("Widrow-Hoff, ") and "best" not in name
    ]
    assert found["Widrow-Hoff, best step"].mean[-1] == min(swept)
    assert np.isinf(max(swept))  # the largest step overflows


def test_only_a_step_that_overflows_has_an_infinite_loss():
    wrong = Trial("wrong", WidrowHoff(rate=-1.0))
    with pytest.raises(ValueError, match="The 'rate' parameter of WidrowHoff must be"):
        experiments.curves(SYNTHETIC, [wrong], Settings(runs=1))
    large = Trial("large", WidrowHoff(rate=100.0, normalize=False))
    (curve,) = experiments.curves(SYNTHETIC, [large], Settings(runs=1))
    assert np.isinf(curve.mean).all()


def test_figure_3_runs_the_algorithms_as_their_papers_have_them():
    """Their last iterates, on exact labels; PRIL on the ranges of its label type."""
    found = {c.name: c for c in experiments.figure3(Settings(runs=1), (SYNTHETIC,))}
    X, y = experiments.stream(SYNTHETIC, [0, 0, 0])
    X, y = X[:400], y[:400]
    exact, constant = np.column_stack([y, y]), np.column_stack([X, np.ones(400)])
    step = {"rate": 0.01, "normalize": False}
    twins = {
        "PRank": reference.pril(X, exact, 5, skip_correct=True),
        "MCP": reference.multiclass(X, exact, 5),
        "MCP with intercept": reference.multiclass(constant, exact, 5),
        "Widrow-Hoff, step 0.01": reference.widrow_hoff(X, exact, 5, **step),
        "Widrow-Hoff with intercept, step 0.01": reference.widrow_hoff(constant, exact, 5, **step),
        "Widrow-Hoff, normalised step 0.3": reference.widrow_hoff(X, exact, 5, 0.3, True),
    }
    for name, (predictions, _) in twins.items():
        rounds = found[name].rounds[found[name].rounds <= 400]
        means = np.cumsum(np.abs(np.array(predictions) - y))[rounds - 1] / rounds
        np.testing.assert_allclose(found[name].mean[: len(rounds)], means, err_msg=name)
    averaged = [c.mean for name, c in found.items() if name.startswith("averaged PRIL")]
    assert not any(np.array_equal(mean, found["PRIL, Type 1"].mean) for mean in averaged)


def test_figure_1_is_the_first_sequence():
    X, y = experiments.figure1(Settings(seed=3))
    mapped, ranks = experiments.stream(SYNTHETIC, [3, 0, 0])
    np.testing.assert_array_equal(y, ranks)
    np.testing.assert_allclose(mapped @ mapped[0], (X @ X[0] + 1) ** 2)


# --- Verdicts ---


def flat(data, name, last, first=None):
    rounds = np.array([10, 100, 1000])
    mean = np.array([first or last + 1, last + 0.5, last])
    return Curve(data, name, rounds, mean, np.full(3, 0.01))


def hand_made(**changed):
    """Return curves on which every claim holds, except where they are changed."""
    values = {"Type": 1.0, "PRIL": 0.5, "PRank": 0.5, "MCP": 0.8, "Widrow-Hoff": 0.9} | changed
    second = [
        flat(data, f"Type {kind}, {share:.0%}", values["Type"] - 0.5 * share)
        for data in experiments.DATA_SETS
        for kind in experiments.TYPES
        for share in experiments.FRACTIONS
    ]
    third = []
    for data in experiments.DATA_SETS:
        third += [flat(data, f"PRIL, Type {kind}", values["PRIL"]) for kind in (1, 2)]
        third.append(flat(data, "PRank", values["PRank"]))
        for suffix in ("", " with intercept"):
            own = values.get("with intercept") if suffix else None
            third.append(flat(data, f"MCP{suffix}", own or values["MCP"]))
            for step in ("best step", experiments.DEFAULT_STEP):
                third.append(
                    flat(data, f"Widrow-Hoff{suffix}, {step}", own or values["Widrow-Hoff"])
                )
    return second, third


def verdicts(**changed):
    return {v.claim: v.verdict for v in experiments.judge(*hand_made(**changed))}


def test_claims_can_hold():
    assert verdicts() == dict.fromkeys(["C1", "C2", "C3", "C4", "C5", "C6"], "holds")


def test_claims_can_fail_or_hold_in_part():
    worse = verdicts(PRIL=1.5)
    assert [worse[claim] for claim in ("C3", "C4", "C5")] == ["fails"] * 3
    part = verdicts(**{"with intercept": 0.4})
    assert part["C3"].startswith(
        "holds in 12 of 24 cases: Synthetic, Type 1, against Widrow-Hoff, best"
    )
    assert "with intercept" not in part["C3"]
    assert part["C4"].startswith("holds in 4 of 8 cases")
    second, third = hand_made()
    rising = [curve._replace(mean=curve.mean[::-1]) for curve in second]
    found = {v.claim: v.verdict for v in experiments.judge(rising, third)}
    assert found["C1"] == "fails"
    backwards = [curve._replace(mean=2 - curve.mean) for curve in second]
    found = {v.claim: v.verdict for v in experiments.judge(backwards, third)}
    assert (found["C2"], found["C6"]) == ("fails", "fails")


def test_a_difference_within_the_error_decides_nothing():
    assert verdicts(MCP=0.51)["C4"] == "fails"


# --- What is written ---


@pytest.mark.slow
def test_everything_is_written_and_the_report_stands_alone(data, tmp_path):
    """The number of jobs changes no byte."""
    found = experiments.reproduce(tmp_path, "all", Settings(runs=2))
    again = tmp_path.parent / "again"
    experiments.reproduce(again, "all", Settings(runs=2, jobs=2))
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name
    assert [verdict.claim for verdict in found] == ["C1", "C2", "C3", "C4", "C5", "C6"]
    names = {path.name for path in tmp_path.iterdir()}
    figures = {f"figure{k}.{suffix}" for k in (1, 2, 3) for suffix in ("png", "svg")}
    assert names == figures | {
        "figure2.csv",
        "figure3.csv",
        "variants.csv",
        "report.md",
        "report.html",
    }
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert 'src="http' not in page
    assert "nan" not in page.replace("data:image", "").lower().split("base64")[0]
    text = (tmp_path / "report.md").read_text()
    for verdict in found:
        assert f"| {verdict.claim} | {verdict.text} | {verdict.verdict} |" in text
    with (tmp_path / "figure2.csv").open() as file:
        rows = list(csv.DictReader(file))
    last = [row for row in rows if (row["data"], row["curve"]) == ("Abalone", "Type 2, 60%")][-1]
    assert f"{float(last['mean']):.4f} ± {float(last['standard_error']):.4f}" in text


def test_a_page_holds_the_same_as_html_and_as_markdown(tmp_path):
    experiments.reproduce(tmp_path, "figure1", Settings(runs=1))
    text = (tmp_path / "report.md").read_text()
    page = (tmp_path / "report.html").read_text()
    heading, settings, second, picture = text.rstrip().split("\n\n")
    assert settings.startswith("1 repetition, seed 0: a fresh sequence")
    assert f"<h1>{heading.removeprefix('# ')}</h1>" in page
    assert f"<p>{settings}</p>" in page
    assert f"<h2>{second.removeprefix('## ')}</h2>" in page
    assert picture == "![figure1](figure1.png)"
    assert 'alt="figure1" src="data:image/png;base64,' in page


# --- The command ---


def test_help_is_light_and_shows_an_example(good):
    installed = [Path(sys.executable).parent / "pril", "--help"]
    assert "reproduce" in subprocess.check_output(installed, text=True)
    assert "Example: pril reproduce --quick" in good("reproduce", "--help")
    loaded = subprocess.check_output(
        [sys.executable, "-c", "import sys, pril.cli; print(*sys.modules)"], text=True
    )
    assert not {"numba", "sklearn", "numpy"} & set(loaded.split())


def test_a_figure_by_command(tmp_path, good):
    assert "report.html" in good("reproduce", "figure1", "--out", "new").replace("\n", "")
    assert (tmp_path / "new" / "figure1.svg").is_file()
    assert good("reproduce", "figure1", "--quiet", "--out", "again") == ""


def test_progress_counts_repetitions(call, monkeypatch):
    monkeypatch.setattr("pril.cli.printing.PROGRESS_SECONDS", 0.0)
    code, _, err = call("reproduce", "figure2", "--runs", 1, "--jobs", 1, "--out", "new")
    assert code == 0
    lines = [line for line in err.splitlines() if line.startswith("running: ")]
    assert lines
    form = r"running: [\d,]+ repetitions? \(\d+%\), [\d,.]+ repetitions/s"
    assert all(re.fullmatch(form, line) for line in lines), lines


def test_without_a_network_the_synthetic_part_runs(tmp_path, program):
    nowhere = dict.fromkeys(["HTTPS_PROXY", "https_proxy"], "http://127.0.0.1:9")
    nowhere |= {"PRIL_DATA": "", "PRIL_CACHE": str(tmp_path), "NO_PROXY": "", "no_proxy": ""}
    done = subprocess.run(  # its own process: data sets are kept
        [*program, "reproduce", "--runs", "1", "--jobs", "1", "--out", "new"],
        cwd=tmp_path,
        env=os.environ | nowhere,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("pril: ")]
    assert len(said) == 1
    for data, name in (("Parkinsons", "parkinsons_updrs.data"), ("Abalone", "abalone.data")):
        assert f"{data} was left out: could not fetch {name}" in said[0]
        assert f"{data} was left out" in (tmp_path / "new" / "report.md").read_text()
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith("C")] == [
        "C1", "C2", "C3", "C4", "C6",
    ]  # fmt: skip
    lines = done.stdout.splitlines()
    assert [line.startswith("   ") for line in lines] == [False, True] * 5 + [False]
    with (tmp_path / "new" / "figure3.csv").open(newline="") as file:
        assert {row["data"] for row in csv.DictReader(file)} == {"Synthetic"}


def test_a_users_mistake_is_one_line_and_exit_code_2(tmp_path, bad, program):
    (tmp_path / "abalone.data").write_text("damaged")
    (tmp_path / "parkinsons_updrs.data").write_text("damaged")
    done = subprocess.run(
        [*program, "reproduce", "--out", "new"],
        cwd=tmp_path,
        env=os.environ | {"PRIL_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is not the file that the paper used" in done.stderr
    assert not (tmp_path / "new").exists()
    assert "figure9" in bad("reproduce", "figure9")
    assert "--runs" in bad("reproduce", "--runs", "0")


def test_runs_do_not_begin_without_a_folder_for_them(tmp_path):
    """Else hours of work would be lost."""
    (tmp_path / "output").write_text("a file")

    def begin(total):
        pytest.fail("the runs have begun")

    with pytest.raises(OSError, match="output"):
        experiments.reproduce(tmp_path / "output", "figure1", progress=begin)
