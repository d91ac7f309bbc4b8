"""Learning from tables: the same as in memory, and the same after any crash."""

import re
from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.pipeline import make_pipeline

import pril
from learners import EXACT_ONLY
from pril.core.registry import BY_COMMAND
from pril.core.words import StepsSoFar
from pril.errors import InputError, InputTypeError
from pril.io import model_files
from pril.metrics import interval_absolute_error, interval_accuracy
from pril.tables import files, training
from pril.tables.checkpoints import Checkpoint
from pril.tables.encoder import ColumnEncoder
from pril.tables.files import TableError
from pril.tables.label_columns import LabelEnds
from pril.tables.opening import open_table
from pril.tables.runs import run_of
from pril.tables.survey import CALIBRATE, EVALUATE, LEARN, Task
from tables import (
    GRADES,
    assert_same_model,
    features_and_labels,
    make_rows,
    snapshot,
    write,
    write_parquet,
)

RANGES = Task(
    labels=LabelEnds(("low", "high")),
    classes=tuple(GRADES),
    model="pril",
    drop=("id", "grade"),
    epochs=3,
)


def start(place, task=RANGES, **changes):
    task = Task(**{**vars(task), **changes})
    return run_of(open_table(str(place)), task, lambda *_: None)


def learner_of(name, **more):
    """Return the learner that a run learns with."""
    passes = {} if BY_COMMAND[name].maximises else {"max_iter": RANGES.epochs}
    return BY_COMMAND[name].load()(classes=GRADES, random_state=0, **passes, **more)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(files, "BLOCK_ROWS", 37)


@pytest.mark.parametrize(
    "name", [name for name, own in BY_COMMAND.items() if own.name not in EXACT_ONLY and own.online]
)
@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_a_table_of_one_block_is_fit_in_memory(tmp_path, name, suffix):
    rows = make_rows()
    run = start(write(tmp_path / f"t.{suffix}", rows), model=name, holdout=0.0)
    fitted = run()
    X, y = features_and_labels(rows)
    encoder = ColumnEncoder(bounded=name == "mpril")
    twin = make_pipeline(encoder, learner_of(name)).fit(X, y)
    assert (fitted.predict(X) == twin.predict(X)).all()
    if name != "kernel":  # fit merges a row's repeated visits, a stream cannot
        assert_same_model(fitted[-1], twin[-1])


def test_blocks_are_learned_in_order(tmp_path, small_blocks):
    rows = make_rows()
    run = start(write(tmp_path / "t.csv", rows), holdout=0.0, shuffle=False)
    fitted = run()
    X, y = features_and_labels(rows)
    learner = pril.PRIL(classes=GRADES)
    for _ in range(3):
        learner.partial_fit(fitted[:-1].transform(X), y)
    assert_same_model(fitted[-1], learner)


def test_formats_give_the_same_model(tmp_path, small_blocks):
    rows = make_rows()
    models = [
        start(write(tmp_path / f"t.{s}", rows))() for s in ("csv", "tsv", "jsonl.gz", "parquet")
    ]
    for other in models[1:]:
        assert_same_model(other[-1], models[0][-1])
    (tmp_path / "parts").mkdir()
    for part in range(3):
        write_parquet(tmp_path / "parts" / f"{part}.parquet", rows[part * 100 : part * 100 + 100])
    assert_same_model(start(tmp_path / "parts")()[-1], models[0][-1])


@pytest.mark.parametrize("is_dense", [True, False])
def test_rows_kept_in_memory_are_those_of_the_file(tmp_path, small_blocks, monkeypatch, is_dense):
    rows = [
        row if is_dense else row | {"town": f"town {k % 20}"} for k, row in enumerate(make_rows())
    ]
    path, task, readings = write(tmp_path / "t.csv", rows), RANGES, []

    def read(self, columns=None, start=0, blocks=files.Table.blocks):
        readings.append(start)
        return blocks(self, columns, start)

    monkeypatch.setattr(files.Table, "blocks", read)
    run = start(path, task)
    run()
    assert readings == [0]  # surveyed; all passes are from memory
    counts = []
    for power in range(9, 20):  # bytes for all, for the cells only, for nothing
        monkeypatch.setattr(training, "CACHE_BYTES", 1 << power)
        readings.clear()
        other = start(path, task)
        assert_same_model(other()[-1], run.model)
        assert other.describe() == run.describe()
        counts.append(len(readings))
    assert set(readings) == {0}
    assert {counts[0], *counts} == {5, 4, 1} or {counts[0], *counts} == {5, 1}
    assert counts == sorted(counts, reverse=True)


# --- The maximum of a likelihood ---


@pytest.mark.parametrize(("suffix", "size"), [("csv", 64), ("parquet", 128)])
@pytest.mark.parametrize(
    ("changes", "parameters"),
    [
        ({}, {}),  # a mechanism is learned
        ({"labels": LabelEnds(("grade",)), "classes": None}, {"alpha": 0.0}),
        ({"weight": "w"}, {"half_life": 40.0}),
        ({"class_weight": "balanced"}, {"coarsening": "random"}),
        ({"class_weight": {"poor": 2.0, "fair": 0.0, "great": 0.0}}, {"coarsening": "random"}),
        ({"text": ("age",)}, {"coarsening": "random"}),  # sparse
    ],
)
def test_the_maximum_has_the_bits_of_rows_in_memory(
    tmp_path, small_blocks, monkeypatch, suffix, size, changes, parameters
):
    monkeypatch.setattr("pril.likelihood.rows.BLOCK_ROWS", size)
    monkeypatch.setattr("pril.likelihood.rows.FAN_IN", 2)
    monkeypatch.setattr("pril.likelihood.fitting.MOST_COMPARED", 100)
    monkeypatch.setattr(training, "CACHE_BYTES", 0)
    rows, weights = (part[:160] for part in weighted_rows())
    drop = ("id", "grade", "low", "high", "w")
    task = Task(**{**vars(RANGES), "model": "ordered-logit", "holdout": 0.0} | changes)
    drop = [name for name in drop if name not in task.columns]
    path = write(tmp_path / f"t.{suffix}", rows)
    fitted = start(path, task, drop=tuple(drop), parameters=parameters)()
    X = fitted[:-1].transform(pd.DataFrame(rows))
    y = pd.DataFrame(rows)[list(task.labels.columns)].astype(object).squeeze()
    classes = None if task.classes is None else GRADES
    twin = pril.OrderedLogit(classes=classes, class_weight=task.class_weight, **parameters)
    twin.fit(X, y, weights if task.weight else None)
    assert_same_model(fitted[-1], twin)
    assert (fitted[-1].loglik_, fitted[-1].n_iter_) == (twin.loglik_, twin.n_iter_)
    for part, own in fitted[-1].memory_.parts().items():
        np.testing.assert_array_equal(own, twin.memory_.parts()[part])


def test_many_features_are_learned_from_rows_in_memory(tmp_path, small_blocks, monkeypatch):
    monkeypatch.setattr(training, "CACHE_BYTES", 0)
    rows = [row | {"word": f"w{k % 1100}"} for k, row in enumerate(make_rows(1200))]
    path = write(tmp_path / "t.csv", rows)
    options = {"model": "ordered-logit", "holdout": 0.0, "parameters": {"coarsening": "random"}}
    options["features"] = ("size", "word")
    fitted = start(path, **options)()
    X, y = fitted[:-1].transform(pd.DataFrame(rows)), features_and_labels(rows)[1]
    assert X.shape[1] > 1000
    assert_same_model(fitted[-1], learner_of("ordered-logit", coarsening="random").fit(X, y))
    monkeypatch.setattr("pril.tables.runs.available_memory", lambda: 20_000)
    with pytest.raises(TableError, match=r"rows of 1,101 features take about .* 20,000 are avail"):
        start(path, **options)()


def test_a_step_is_told_with_its_likelihood_and_the_time_left(tmp_path, small_blocks, monkeypatch):
    monkeypatch.setattr(
        "pril.likelihood.fitting.MOST_COMPARED", 50
    )  # steps to choose look at so many rows
    path, said = write(tmp_path / "t.csv", make_rows()), []
    task = Task(**{**vars(RANGES), "model": "ordered-logit"})
    run = run_of(open_table(str(path)), task, lambda name, *more: said.append((name, *more)))
    run()
    names = list(dict.fromkeys(name for name, *_ in said))
    assert names[:5] == ["reading", "preparing", "preparing, pass 2", "step 1", "step 1, pass 2"]
    steps = [(done, most, note) for name, done, most, note in (s for s in said if len(s) == 4)]
    assert [done for done, *_ in steps] == list(range(1, len(steps) + 1))
    assert {most for _, most, _ in steps} == {100}
    form = r"penalised log-likelihood (-[\d.]+), (at least \d+|\d+ to \d+) s left"
    values = [float(re.fullmatch(form, note)[1]) for *_, note in steps]
    assert len(values) > 2
    assert values == sorted(values)
    report = run.describe()
    assert (report["passes"], report["steps"]) == (None, run.model.n_iter_)
    assert report["log_likelihood"] == run.model.loglik_


def test_the_time_left_follows_from_what_steps_gain(monkeypatch):
    """Of steps that gain a tenth of the one before, the k-th from here gains 10^-k of the last."""
    now = 0.0
    monkeypatch.setattr("pril.core.words.time.monotonic", lambda: now)
    steps, value = StepsSoFar(100, 1e-8), -1000.0
    for k in range(8):
        now += 2.0
        value += 10.0 ** (2 - k)
        said = steps.add(value)
        assert said.endswith("at least 2 s left" if k < 2 else f"2 to {2 * (10 - k)} s left")


def test_features_too_large_for_sums_are_refused(tmp_path, small_blocks):
    rows = [
        row | {"w": 1e100, "size": 1e140 if k == 70 else 1.0} for k, row in enumerate(make_rows())
    ]
    options = {"model": "ordered-logit", "weight": "w", "scale": False, "holdout": 0.0}
    run = start(write(tmp_path / "t.csv", rows), **options)
    with pytest.raises(TableError, match=r"t.csv, row 71: X is finite, but OrderedLogit overflow"):
        run()


# --- Weights ---


def weighted_rows(seed=0):
    weights = np.random.default_rng(seed).integers(0, 4, 300) / 2
    return [{**row, "w": weight} for row, weight in zip(make_rows(), weights, strict=True)], weights


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, entry in BY_COMMAND.items()
        if entry.name not in EXACT_ONLY and (entry.mixes or entry.maximises)
    ],
)
def test_a_column_of_weights_is_sample_weight(tmp_path, name):
    rows, weights = weighted_rows()
    run = start(write(tmp_path / "t.csv", rows), model=name, weight="w", holdout=0.0)
    fitted = run()
    assert "w" not in fitted[0].feature_names_in_
    X, y = features_and_labels(rows)
    X = fitted[0].transform(X)
    assert_same_model(fitted[-1], learner_of(name).fit(X, y, weights))


@pytest.mark.parametrize("name", ["ordered-logit", "pril"])
def test_weights_of_classes_are_those_of_the_learner(tmp_path, name):
    rows = make_rows()
    path = write(tmp_path / "t.csv", rows)
    X, y = features_and_labels(rows)
    for given, weights in (
        ({"poor": 3.0, "great": 0.0}, {"poor": 3.0, "great": 0.0}),
        ("balanced", "balanced"),
    ):
        fitted = start(path, model=name, holdout=0.0, class_weight=given)()
        twin = make_pipeline(ColumnEncoder(), learner_of(name, class_weight=weights)).fit(X, y)
        np.testing.assert_allclose(fitted[-1].coef_, twin[-1].coef_, rtol=1e-9)
        np.testing.assert_allclose(fitted[-1].thresholds_, twin[-1].thresholds_, rtol=1e-9)
        assert list(fitted[-1].class_weight) == GRADES


def test_a_row_of_weight_zero_defines_no_class(tmp_path):
    rows = [{"x": k, "y": 1 + k % 2, "w": 1} for k in range(20)] + [{"x": 5, "y": 9, "w": 0}]
    run = start(write(tmp_path / "t.csv", rows), Task(LabelEnds(("y",)), weight="w", holdout=0.0))
    assert run()[-1].classes_.tolist() == [1, 2]


@pytest.mark.parametrize("cell", ["-1", "inf", "", "much", "1e200"])
def test_weights_that_are_none_are_refused(tmp_path, cell):
    rows = [{"x": k, "y": 1 + k % 2, "w": cell if k == 3 else 1} for k in range(20)]
    with pytest.raises(TableError, match=r"t.csv, row 4: column 'w'( is|:) "):
        start(write(tmp_path / "t.csv", rows), Task(LabelEnds(("y",)), weight="w"))()


def test_held_out_rows_teach_nothing(tmp_path, small_blocks):
    rows = make_rows()
    path = write(tmp_path / "t.csv", rows)
    run = start(path, holdout=0.3, shuffle=False)
    fitted, evaluation = run(), run.describe()["holdout"]
    block = pa.RecordBatch.from_pylist(rows)
    learning = run.task.uses(0, block) == LEARN
    assert 60 < (~learning).sum() < 120
    each = [run.task.uses(k, block.slice(k, 1)) == LEARN for k in range(300)]
    assert (np.concatenate(each) == learning).all()
    kept = [row for row, chosen in zip(rows, learning, strict=True) if chosen]
    alone = start(write(tmp_path / "kept.csv", kept), holdout=0.0, shuffle=False)()
    np.testing.assert_allclose(fitted[-1].coef_, alone[-1].coef_)
    held = [row for row, chosen in zip(rows, learning, strict=True) if not chosen]
    X, y = features_and_labels([row for row in held if row["low"] or row["high"]])
    said = fitted.predict(X)
    assert evaluation["rows"] == len(X)
    assert evaluation["unlabelled_rows"] == len(held) - len(X)
    assert evaluation["interval_accuracy"] == pytest.approx(
        interval_accuracy(y, said, classes=GRADES)
    )
    assert evaluation["interval_absolute_error"] == pytest.approx(
        interval_absolute_error(y, said, classes=GRADES)
    )
    bottom = y["low"].isna() & (y["high"] == "poor")
    top = y["high"].isna() & (y["low"] == "great")
    exact = ((y["low"] == y["high"]) | bottom | top).to_numpy()
    assert evaluation["exact_rows"] == exact.sum()
    assert evaluation["exact_absolute_error"] == pytest.approx(
        interval_absolute_error(y[exact], said[exact], classes=GRADES)
    )


def test_numbers_as_labels(tmp_path):
    rows = make_rows()
    for row in rows:
        row["grade"] = f"{row['grade']}.0"  # as pandas writes integers with gaps
    path = write(tmp_path / "t.csv", rows)
    fitted = start(path, labels=LabelEnds(("grade",)), classes=None, drop=("id", "low", "high"))()
    assert fitted.classes_.tolist() == [1, 2, 3, 4]
    assert fitted.classes_.dtype == np.int64
    five = start(
        path, labels=LabelEnds(("grade",)), classes=("1", "2", "3", "4", "5"), drop=("id",)
    )()
    assert five.classes_.tolist() == [1, 2, 3, 4, 5]


def test_a_pass_without_mistakes_is_the_last(tmp_path):
    rows = [{"x": x, "y": 1 + (x > 0)} for x in (-2, -1, 1, 2)] * 5
    run = start(
        write(tmp_path / "t.csv", rows),
        Task(LabelEnds(("y",)), model="pril", holdout=0.0, epochs=50),
    )
    assert run()[-1].n_mistakes_ < 20
    assert run.epoch < 50


# --- Ranges --------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", ["exact", "contain", "touch"])
def test_ranges_are_calibrated_on_rows_kept_apart(tmp_path, small_blocks, guarantee):
    rows = make_rows(600)
    path = write(tmp_path / "t.csv", rows)
    options = {"coverage": 0.8, "guarantee": guarantee, "model": "ordered-logit"}
    run = start(path, shuffle=False, **options)
    fitted = run()
    uses = run.task.uses(0, pa.RecordBatch.from_pylist(rows))
    learning, held_out, calibration = (uses == use for use in (LEARN, EVALUATE, CALIBRATE))
    assert abs(held_out.mean() - 0.2) < 0.05
    assert abs(calibration.mean() - 0.16) < 0.05
    X, y = features_and_labels(rows)
    twin = pril.PredictionRanges(fitted.estimator_, coverage=0.8, guarantee=guarantee)
    twin.fit(X[calibration], y[calibration])
    assert fitted.margin_ == pytest.approx(twin.margin_)
    assert fitted.n_calibration_ == twin.n_calibration_
    kept = [row for row, used in zip(rows, learning, strict=True) if used]
    alone = start(
        write(tmp_path / "kept.csv", kept), model="ordered-logit", holdout=0.0, shuffle=False
    )()
    np.testing.assert_allclose(fitted.estimator_[-1].coef_, alone[-1].coef_)
    report = run.describe()
    labelled = [bool(row["low"] or row["high"]) for row in rows]
    assert report["learned_rows"] == sum(np.array(labelled)[learning])
    assert report["ranges"] == {
        "coverage": 0.8,
        "guarantee": guarantee,
        "by": None,
        "calibration_rows": twin.n_calibration_,
        "other_rows": sum(np.array(labelled)[calibration]) - twin.n_calibration_,
    }


@pytest.mark.parametrize("guarantee", ["exact", "contain"])
def test_ranges_by_class_are_those_of_the_rows_kept_apart(tmp_path, small_blocks, guarantee):
    rows = make_rows(900)
    options = {"coverage": 0.5, "guarantee": guarantee, "by": "class", "model": "ordered-logit"}
    run = start(write(tmp_path / "t.csv", rows), shuffle=False, **options)
    fitted = run()
    calibration = run.task.uses(0, pa.RecordBatch.from_pylist(rows)) == CALIBRATE
    X, y = features_and_labels(rows)
    twin = pril.PredictionRanges(fitted.estimator_, coverage=0.5, guarantee=guarantee, by="class")
    twin.fit(X[calibration], y[calibration])
    np.testing.assert_allclose(fitted.margin_, twin.margin_)
    np.testing.assert_array_equal(fitted.n_calibration_, twin.n_calibration_)


def test_ranges_without_a_guarantee_are_refused(tmp_path):
    path = write(tmp_path / "t.csv", make_rows())
    with pytest.raises(ValueError, match="perceptron has no thresholds"):
        start(path, model="perceptron", coverage=0.9)
    with pytest.raises(ValueError, match="coverage"):
        start(path, coverage=1.5)
    with pytest.warns(UserWarning, match="needs at least 999 rows"):
        start(path, coverage=0.999)()


# --- Crashes -------------------------------------------------------------------------------------


class Crash(Exception):  # noqa: N818
    pass


class CrashingCheckpoint(Checkpoint):
    """Saves as usual, and dies after so many saves."""

    lives = 0

    def save(self, state):
        super().save(state)
        self.lives -= 1
        if self.lives == 0:
            raise Crash


@pytest.mark.parametrize(
    ("name", "suffix", "step", "more"),
    [
        ("pril", "csv", 2, {}),
        ("mpril", "parquet", 9, {}),
        ("kernel", "jsonl", 9, {}),
        ("perceptron", "csv", 9, {}),
    ],
)
def test_a_crash_after_any_checkpoint_changes_nothing(
    tmp_path, name, suffix, step, more, small_blocks
):
    path = write(tmp_path / f"t.{suffix}", make_rows())
    whole = start(path, model=name, epochs=2, **more)
    pril.save(whole(), tmp_path / "expected.pril")
    for lives in range(1, 100, step):
        run = start(path, model=name, epochs=2, **more)
        keeper = CrashingCheckpoint(tmp_path / f"c{lives}.pril", 37)
        keeper.lives = lives
        try:
            run(keeper)
        except Crash:
            again = start(path, model=name, epochs=2, **more)
            pril.save(again(Checkpoint(keeper.path, 10**9)), tmp_path / "m.pril")
            found = snapshot(tmp_path)
            assert found[tmp_path / "m.pril"] == found[tmp_path / "expected.pril"]
            assert again.describe() == whole.describe()
        else:
            break
    assert 3 * 8 < lives <= 3 * 9 + step  # a survey and two passes, of eight blocks and a rest


@pytest.mark.parametrize(("cache", "coarsening"), [(0, "random"), (1 << 29, "auto")])
def test_a_crash_after_any_step_changes_nothing(
    tmp_path, small_blocks, monkeypatch, cache, coarsening
):
    monkeypatch.setattr(training, "CACHE_BYTES", cache)
    monkeypatch.setattr("pril.likelihood.fitting.MOST_COMPARED", 50)  # steps to choose are not kept
    monkeypatch.setattr("pril.likelihood.rows.BLOCK_ROWS", 128)
    path = write(tmp_path / "t.csv", make_rows())
    options = {"model": "ordered-logit", "coverage": 0.5, "parameters": {"coarsening": coarsening}}
    whole = start(path, **options)
    pril.save(whole(), tmp_path / "expected.pril")
    for lives in range(2, 200, 7):
        run = start(path, **options)
        keeper = CrashingCheckpoint(tmp_path / f"c{lives}.pril", 37)
        keeper.lives = lives
        try:
            run(keeper)
        except Crash:
            again = start(path, **options)
            pril.save(again(Checkpoint(keeper.path, 10**9)), tmp_path / "m.pril")
            found = snapshot(tmp_path)
            assert found[tmp_path / "m.pril"] == found[tmp_path / "expected.pril"]
            assert again.describe() == whole.describe()
        else:
            break
    assert lives > 8  # after each step on the table, and between


def test_a_run_taken_up_again_ends_after_the_same_pass(tmp_path, small_blocks):
    rows = [{"x": x, "y": x // 4} for x in range(20)] * 6
    path, task = (
        write(tmp_path / "t.csv", rows),
        Task(LabelEnds(("y",)), model="pril", holdout=0.0, epochs=50),
    )
    whole = start(path, task)
    whole()
    assert 1 < whole.epoch < 50
    for lives in range(1, 4 * (1 + whole.epoch), 3):
        run = start(path, task)
        keeper = CrashingCheckpoint(tmp_path / f"c{lives}.pril", 37)
        keeper.lives = lives
        with suppress(Crash):
            run(keeper)
        again = start(path, task)
        again(Checkpoint(keeper.path, 10**9))
        assert again.epoch == whole.epoch


def test_a_checkpoint_of_another_run_is_refused(tmp_path, small_blocks):
    path = write(tmp_path / "t.csv", make_rows())
    run = start(path)
    keeper = CrashingCheckpoint(tmp_path / "c.pril", 37)
    keeper.lives = 10
    with pytest.raises(Crash):
        run(keeper)
    for changes, what in (
        ({"seed": 1}, "task"),
        ({"epochs": 4}, "task"),
        ({"scale": False}, "task"),
    ):
        other = start(path, **changes)
        with pytest.raises(ValueError, match=f"belongs to another run: the {what} differs"):
            other(Checkpoint(keeper.path, 37))
    state, about = model_files.read(keeper.path, kind="checkpoint")
    random = (*state["random"][:2], 10**9, *state["random"][3:])
    model_files.write(
        state | {"random": random}, tmp_path / "d.pril", kind="checkpoint", notes=about.notes
    )
    with pytest.raises(ValueError, match="damaged: random position 1000000000"):
        start(path)(Checkpoint(tmp_path / "d.pril", 37))
    write(path, make_rows(seed=1))
    other = start(path)
    with pytest.raises(ValueError, match="belongs to another run: the table differs"):
        other(Checkpoint(keeper.path, 37))
    keeper.path.write_bytes(keeper.path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="damaged"):
        run(Checkpoint(keeper.path, 37))


# --- Mistakes ------------------------------------------------------------------------------------


def spoiled(tmp_path, row, **cells):
    rows = make_rows()
    rows[row].update(cells)
    return write(tmp_path / "t.csv", rows)


@pytest.mark.parametrize("row", [5, 299])
@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (
            {"low": "great", "high": "poor"},
            "columns 'low', 'high': lower end 'great' is above upper",
        ),
        ({"low": "bad", "high": "good"}, "columns 'low', 'high': 'bad' is not one of the classes"),
        ({"size": "inf"}, "column 'size' is inf, which is not finite"),
        ({"age": "old"}, "column 'age' is 'old', not a number"),
    ],
)
def test_a_bad_cell_is_named(tmp_path, small_blocks, row, cells, said):
    # Held out or not, it is found in the survey, before anything is learned.
    for holdout in (0.0, 0.9):
        run = start(spoiled(tmp_path, row, **cells), holdout=holdout)
        with pytest.raises(TableError, match=rf"t.csv, row {row + 1}: {said}"):
            run()
        assert run.phase == "survey"


def test_other_mistakes(tmp_path):
    path = write(tmp_path / "t.csv", make_rows())
    for changes, said in (
        (
            {"labels": LabelEnds(("low", "hi"))},
            r"there is no column 'hi'; the columns are 'id', 'size'",
        ),
        ({"drop": ("x",)}, "there is no column 'x'"),
        ({"features": ("size", "low")}, "the column 'low' is the label"),
        ({"labels": LabelEnds(("low", "grade"))}, "must both hold numbers or both hold words"),
        ({"features": ("town",), "one_hot": False}, "'town' cannot be a feature: text"),
        ({"drop": ("id", "grade", "size", "age", "town")}, "no column is left"),
    ):
        with pytest.raises(TableError, match=said):
            start(path, **changes)
    for changes, said in (
        (
            {"parameters": {"etta": 1}},
            "the parameter 'etta' cannot be set for PRIL: choose one of average",
        ),
        ({"parameters": {"max_iter": 1}}, "the parameter 'max_iter' cannot be set for PRIL"),
        ({"parameters": {"average": 3}}, "'average' parameter of PRIL must be"),
        (
            {"labels": LabelEnds(("grade",)), "classes": ("low", "high")},
            "labels are numbers, the classes",
        ),
        ({"model": "prank"}, "columns 'low', 'high': PRank learns from exact labels only"),
        ({"holdout": 0.9999999}, "every row was held out"),
        ({"labels": LabelEnds(("size",)), "classes": None}, "Unknown label type: continuous"),
    ):
        with pytest.raises(ValueError, match=said):
            start(path, **changes)()
    (tmp_path / "h.csv").write_text("size,low,high\n")
    with pytest.raises(TableError, match=r"h\.csv has a header, but no rows"):
        start(tmp_path / "h.csv", drop=())()
    many = write(tmp_path / "m.csv", [{"x": 1, "y": k} for k in range(10_002)])
    with pytest.raises(TableError, match="over 10000 different labels"):
        start(many, Task(LabelEnds(("y",))))()


@pytest.mark.parametrize("model", ["ordered-logit", "pril", "boosting"])
def test_python_learns_what_the_command_learns(good, tmp_path, model):
    """From a file, bit for bit."""
    rows = [row | {"w": 1 + t % 3, "household": t // 4} for t, row in enumerate(make_rows())]
    path = write(tmp_path / "t.parquet", rows)
    chosen = {"max_iter": 20, "learning_rate": 0.8} if model == "boosting" else {}
    given = ["--holdout=0", "--lower=low", "--upper=high", "--classes", ",".join(GRADES)]
    given += ["--drop=id,grade", "--weight=w", "--groups=household", f"--model={model}", "--seed=3"]
    good("fit", path, *given, *(f"--set={name}={own}" for name, own in chosen.items()))
    fitted = pril.fit_table(
        path,
        lower="low",
        upper="high",
        classes=GRADES,
        model=model,
        parameters=chosen,
        drop=["id", "grade"],
        weight="w",
        groups="household",
        random_state=3,
    )
    frame, other = pd.DataFrame(rows), pril.load("t.pril")
    scores = [own[-1].latent(own[0].transform(frame)) for own in (fitted, other)]
    np.testing.assert_array_equal(*scores)
    assert_same_model(fitted[-1], other[-1])


def test_fit_table_refuses_what_it_cannot_know(tmp_path):
    path = write(tmp_path / "t.csv", make_rows())
    for given in ({}, {"lower": "low"}, {"label": "grade", "upper": "high"}):
        with pytest.raises(InputError, match="where are the labels"):
            pril.fit_table(path, **given)
    with pytest.raises(InputError, match=r"model must be one of pril, .*, not 'forest'"):
        pril.fit_table(path, label="grade", model="forest")
    for name in ("classes", "features", "drop"):
        with pytest.raises(InputTypeError, match=f"{name} must be a list of names, got 'size'"):
            pril.fit_table(path, label="grade", **{name: "size"})
    with pytest.raises(TableError, match="there is no column 'mark'"):
        pril.fit_table(path, label="mark")
    with pytest.raises(InputError, match="the parameter 'depth' cannot be set"):
        pril.fit_table(path, label="grade", parameters={"depth": 3})
