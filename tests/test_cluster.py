"""The command on a cluster: the same survey, the same evaluation, rows that stay where they are."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

import dask
import numpy as np
import pandas as pd
import psutil
import pyarrow.parquet as pq
import pytest
from distributed import LocalCluster
from sklearn.pipeline import make_pipeline

import pril.dask
from pril.dask.client import connected
from pril.errors import InputError
from pril.tables.arrow import to_batch
from pril.tables.cluster import ClusterRun
from pril.tables.encoder import ColumnEncoder
from pril.tables.files import TableError, TableWarning
from pril.tables.label_columns import LabelEnds
from pril.tables.opening import open_table
from pril.tables.runs import run_of
from pril.tables.survey import LEARN, Task
from tables import (
    GRADES,
    assert_same_model,
    features_and_labels,
    make_rows,
    write,
    write_parquet,
)

TASK = Task(LabelEnds(("low", "high")), tuple(GRADES), drop=("id", "grade"), epochs=4)


def write_parts(folder, suffix, rows, n=4):
    """Write rows to n files of the same size."""
    size = len(rows) // n
    for part in range(n):
        write(folder / f"{part}.{suffix}", rows[size * part : size * (part + 1)])


@pytest.fixture(params=["parquet", "csv", "jsonl"])
def folder(request, tmp_path):
    """Four files of 150 rows."""
    write_parts(tmp_path, request.param, make_rows(600))
    return tmp_path


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """Write files to a folder b, which messages then call so."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()

    def write_all(*tables, suffix="csv"):
        for part, rows in enumerate(tables):
            write(tmp_path / "b" / f"{part}.{suffix}", rows)

    return write_all


def start(place, task, client):
    return ClusterRun(open_table(str(place)), task, client, shows_progress=False)


def test_pieces_are_the_table(tmp_path, monkeypatch):
    write_parquet(tmp_path / "a.parquet", make_rows(100), row_group_size=30)
    write_parquet(tmp_path / "b.parquet", make_rows(10), row_group_size=30)
    table = open_table(str(tmp_path))
    assert [rows for _, _, rows in table.pieces()] == [100, 10]
    monkeypatch.setattr("pril.tables.files.PIECE_ROWS", 60)
    sizes = [(own.files[0].name, first, rows) for own, first, rows in table.pieces()]
    assert sizes == [("a.parquet", 0, 60), ("a.parquet", 60, 40), ("b.parquet", 0, 10)]
    monkeypatch.setattr("pril.tables.files.PIECE_ROWS", 1)
    assert [rows for _, _, rows in table.pieces()] == [30, 30, 30, 10, 10]


def test_classes_weigh_the_same_on_a_cluster(tmp_path, client):
    """One piece is one process; balanced weights are those of the whole table."""
    task = replace(TASK, class_weight="balanced", holdout=0.0)
    write_parts(tmp_path, "csv", make_rows(300), n=1)
    other = start(tmp_path, task, client)()[-1]
    alone = run_of(open_table(str(tmp_path)), task, lambda *_: None)()[-1]
    plain = start(tmp_path, replace(task, class_weight=None), client)()[-1]
    assert other.class_weight == alone.class_weight
    assert_same_model(other, alone)
    assert not np.allclose(other.coef_, plain.coef_)
    assert len(set(other.class_weight.values())) == 4


def test_merged_encoders_have_seen_all_rows(tmp_path):
    table = open_table(str(write(tmp_path / "t.parquet", make_rows(300))))
    block = next(table.blocks(["size", "age", "town"]))[1]
    whole = ColumnEncoder(bounded=True).fit(block)
    for cuts in ([0, 300], [0, 1, 300], [0, 50, 50, 170, 300]):
        parts = [block.slice(a, b - a) for a, b in pairwise(cuts)]
        merged = ColumnEncoder(bounded=True).fit(parts[0])
        for part in parts[1:]:
            merged.merge(ColumnEncoder(bounded=True).fit(part))
        np.testing.assert_allclose(merged.transform(block), whole.transform(block), atol=1e-12)
        assert merged.words_ == whole.words_
    many = (
        ColumnEncoder(most_words=1)
        .fit(block.slice(0, 0))
        .merge(ColumnEncoder(most_words=1).fit(block))
    )
    assert many.left_out_ == ["town"]
    assert ColumnEncoder(most_words=2).fit(block.slice(0, 1)).merge(whole).left_out_ == ["town"]


def test_a_cluster_reads_what_one_process_reads(folder, client):
    alone, run = run_of(open_table(str(folder)), TASK, lambda *_: None), start(folder, TASK, client)
    alone()
    run()
    report, other = run.describe(), alone.describe()
    differing = ("steps", "log_likelihood", "learned_rows", "holdout")
    for name in report.keys() - differing:
        assert report[name] == other[name], name
    assert report["learned_rows"] == run.model.t_
    accuracy = [said["holdout"]["interval_accuracy"] for said in (report, other)]
    assert abs(accuracy[0] - accuracy[1]) < 0.1


def test_a_cluster_holds_out_the_groups_that_one_process_holds_out(tmp_path, client):
    """Those of all files: the reports are the same, but for the sum of the log-likelihood."""
    rows = [row | {"household": t % 40} for t, row in enumerate(make_rows(600))]
    write_parts(tmp_path, "csv", rows)
    task = replace(TASK, groups="household", coverage=0.8)
    runs = [run_of(open_table(str(tmp_path)), task, lambda *_: None), start(tmp_path, task, client)]
    for run in runs:
        run()
    one, other = (run.describe() for run in runs)
    assert one.pop("log_likelihood") == pytest.approx(other.pop("log_likelihood"))
    assert one == other
    with pytest.raises(InputError, match="cannot keep the groups in 'household' together"):
        start(tmp_path, replace(task, model="boosting"), client)


def test_ranges_on_a_cluster(folder, client, tmp_path):
    task = replace(TASK, model="ordered-logit", coverage=0.8)
    run = start(folder, task, client)
    fitted = run()
    learner = fitted.estimator_[-1]
    report = run.describe()
    held_out = report["holdout"]
    assert abs(held_out["rows"] + held_out["unlabelled_rows"] - 120) < 50
    assert report["learned_rows"] == learner.t_
    assert 0 < report["ranges"]["calibration_rows"] < 120
    for name, model in (("a", fitted), ("b", start(folder, task, client)())):
        pril.save(model, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_cluster_warns_of_row_ids(tmp_path, client):
    rows = [{"flat_id": k, **row} for k, row in enumerate(make_rows(200))]
    write_parts(tmp_path, "csv", rows, 2)
    with pytest.warns(TableWarning, match="the column 'flat_id' looks like a row id"):
        start(tmp_path, TASK, client)()


def test_all_rows_make_the_encoder(folder, client):
    task = replace(TASK, holdout=0.0)
    alone, other = run_of(open_table(str(folder)), task, print)(), start(folder, task, client)()
    X = pd.DataFrame(make_rows(600))[["size", "age", "town"]]
    np.testing.assert_allclose(other[0].transform(X), alone[0].transform(X), atol=1e-12)
    assert other[-1].t_ == alone[-1].t_


@pytest.mark.parametrize("doing", ["reading the table", "taking a step", "evaluating"])
@pytest.mark.parametrize("change", ["grow", "relabel"])
def test_a_table_that_changes_during_a_run(tmp_path, client, monkeypatch, doing, change):
    write_parts(tmp_path, "csv", make_rows(600))
    table, compute = open_table(str(tmp_path)), pril.dask.Cluster.compute
    rows = make_rows(160) if change == "grow" else [r | {"low": "odd"} for r in make_rows(150)]

    def change_then_compute(self, task, now):
        if now.startswith(doing):
            write(table.files[2], rows)
        return compute(self, task, now)

    monkeypatch.setattr(pril.dask.Cluster, "compute", change_then_compute)
    monkeypatch.setattr(
        "pril.likelihood.fitting.MOST_COMPARED", 100
    )  # else, no step is on the cluster
    run = ClusterRun(table, replace(TASK, coverage=0.8), client, shows_progress=False)
    with pytest.raises(TableError, match=f"{table.files[2].name} has changed while it was read"):
        run()


def test_workers_with_too_little_memory_for_pieces_are_refused(tmp_path, client, monkeypatch):
    """Before any of them reads the rows again, with any model."""
    write_parts(tmp_path, "csv", make_rows(300), n=2)
    monkeypatch.setattr("pril.dask.client.WORKER_BYTES", 1e18)
    for model in ("ordered-logit", "pril", "boosting"):
        run = start(tmp_path, replace(TASK, model=model), client)
        with pytest.raises(InputError, match=r"needs about .* MB for 1 thread and blocks of 150 r"):
            run()


def test_the_model_is_that_of_mixing_in_memory(tmp_path, client, monkeypatch):
    """A piece is a block: here 80 rows, two row groups of a file."""
    monkeypatch.setattr("pril.tables.files.PIECE_ROWS", 80)
    rows = pd.DataFrame(make_rows(300))
    for part in range(2):
        some = make_rows(300)[150 * part : 150 * (part + 1)]
        write_parquet(tmp_path / f"{part}.parquet", some, row_group_size=40)
    fitted = start(tmp_path, replace(TASK, model="pril"), client)()
    blocks = []
    for k, (a, b, first) in enumerate([(0, 80, 0), (80, 150, 80), (150, 230, 0), (230, 300, 80)]):
        own = rows[a:b]
        own = own[replace(TASK, seed=k).uses(first, to_batch(own)) == LEARN]
        X = fitted[0].transform(own[["size", "age", "town"]])
        blocks.append(dask.delayed((X, own[["low", "high"]].astype(object))))
    learner = pril.PRIL(classes=GRADES, max_iter=4, random_state=0)
    twin = pril.dask.fit_blocks(learner, blocks)
    assert_same_model(fitted[-1], twin)


def test_workers_fit_the_same_pipeline_as_dask(tmp_path, client):
    """To the last bit, as in memory; 20 pieces are merged in a tree of two levels."""
    rows, task = make_rows(400), replace(TASK, holdout=0.0)
    write_parts(tmp_path, "csv", rows, n=20)
    fitted = start(tmp_path, task, client)()
    read = [pd.read_csv(file) for file in open_table(str(tmp_path)).files]
    blocks = [
        dask.delayed((part[["size", "age", "town"]], part[["low", "high"]].astype(object)))
        for part in read
    ]
    learner = pril.OrderedLogit(classes=GRADES)
    twin = pril.dask.fit_blocks(make_pipeline(ColumnEncoder(), learner), blocks)
    X, y = features_and_labels(pd.concat(read))  # files are read in the order of their names
    assert_same_model(twin[-1], learner.fit(twin[0].transform(X), y))
    np.testing.assert_array_equal(fitted[0].transform(X), twin[0].transform(X))
    assert fitted[0].counts_ == twin[0].counts_
    assert_same_model(fitted[-1], twin[-1])


def complaints(place, task, client):
    """Return what one process and the cluster say of a table that cannot be learned."""
    said = []
    for run in (run_of(open_table(place), task, lambda *_: None), start(place, task, client)):
        with pytest.raises(ValueError) as refused:  # noqa: PT011
            run()
        said.append(str(refused.value))
    assert not any(client.processing().values())
    return said


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"low": "great", "high": "poor"}, "lower end 'great' is above upper end 'poor'"),
        ({"low": "bad"}, "'bad' is not one of the classes"),
        ({"size": float("inf")}, "column 'size' is inf, which is not finite"),
    ],
)
def test_a_bad_cell_is_named(parts, client, cells, said, suffix):
    rows = make_rows(50)
    bad = [{**row, **cells} if k == 30 else row for k, row in enumerate(rows)]
    parts(rows, rows, bad, suffix=suffix)
    alone, cluster = complaints("b", TASK, client)
    assert alone == cluster
    assert cluster.startswith(f"b/2.{suffix}, row 31: ")
    assert said in cluster


def test_a_bad_label_among_many_pieces_is_named(parts, client, monkeypatch):
    """Each file is two pieces; a label is found to be wrong when all of them are known."""
    monkeypatch.setattr("pril.tables.files.PIECE_ROWS", 10)
    tables = [make_rows(20, seed) for seed in range(10)]
    tables[8][15]["low"] = "bad"
    parts(suffix="parquet")
    for k, rows in enumerate(tables):
        write_parquet(Path("b") / f"{k}.parquet", rows, row_group_size=10)
    alone, cluster = complaints("b", TASK, client)
    assert alone == cluster
    assert cluster.startswith("b/8.parquet, row 16: ")


def test_standard_input_has_its_name(tmp_path, feed, client):
    rows = make_rows(50)
    rows[30]["size"] = float("inf")
    feed(write(tmp_path / "t.csv", rows).read_bytes())
    with pytest.raises(TableError, match=r"^<stdin>, row 31: column 'size' is inf"):
        start("-", TASK, client)()


def test_of_several_mistakes_the_first_is_named(parts, client):
    rows = make_rows(20_000)
    rows[-1]["size"] = "x"  # found last, since the others have few rows
    parts(rows, *3 * [[{**row, "size": "x"} for row in make_rows(5)]])
    alone, cluster = complaints("b", TASK, client)
    assert alone == cluster
    assert cluster.startswith("b/0.csv, row 20000: ")


def test_what_a_learner_refuses_has_file_and_row(parts, client):
    exact = [{**row, "low": "fair", "high": "fair"} for row in make_rows(50)]
    exact[0] |= {"low": "poor", "high": "poor"}
    tables = [[dict(row) for row in exact] for _ in range(4)]
    for part in (1, 2, 3):
        tables[part][10 - part]["high"] = "good"
    parts(*tables)
    task = replace(TASK, model="prank", holdout=0.0)
    alone, cluster = complaints("b", task, client)
    assert alone == cluster
    assert cluster.startswith("b/1.csv, row 10: columns 'low', 'high': PRank learns from exact")
    task = replace(TASK, model="prank")  # rows held out are not learned: its row is not 10 less
    assert complaints("b/1.csv", task, client)[1].startswith("b/1.csv, row 10: ")


def test_an_overflow_has_its_file(parts, client):
    parts(*4 * [make_rows(50)])
    task = replace(TASK, model="widrow-hoff", parameters={"rate": 1e308})
    alone, cluster = complaints("b", task, client)
    for said in (alone, cluster):
        assert re.match(r"b/\d\.csv, row \d+: X is finite, but WidrowHoff overflowed", said)
    assert cluster.startswith("b/0.csv")


def test_an_overflow_of_the_mixed_model_names_the_table(parts, client):
    parts(make_rows(50), make_rows(50, seed=1))
    # It diverges: one pass over 50 rows is finite, a few rounds are not.
    parameters = {"rate": 30.0, "normalize": False}
    task = replace(TASK, model="widrow-hoff", parameters=parameters, holdout=0.0, epochs=50)
    with pytest.raises(TableError, match=r"^b: each part can be learned alone, but not mixed"):
        start("b", task, client)()


def test_labels_are_limited_over_all_pieces(parts, client):
    parts(*([{"x": 1, "y": 6000 * part + k} for k in range(6000)] for part in range(2)))
    alone, cluster = complaints("b", Task(LabelEnds(("y",))), client)
    assert alone == cluster
    assert cluster.startswith("b: column 'y': over 10000 different labels")


def test_all_rows_may_be_held_out(tmp_path, client):
    """All, or all that have a label."""
    path = str(write(tmp_path / "t.csv", make_rows(20)))
    unlabelled = [{"x": k / 2, "y": 1 if k == 0 else ""} for k in range(20)]  # row 1 is held out
    other = str(write(tmp_path / "u.csv", unlabelled))
    for place, task in (
        (path, replace(TASK, holdout=0.9999999)),
        (other, Task(LabelEnds(("y",)), ("1", "2"), holdout=0.7)),
    ):
        alone, cluster = complaints(place, task, client)
        assert alone == cluster == f"{place}: every row was held out"


def test_a_file_that_workers_do_not_see(tmp_path, client):
    path = write(tmp_path / "t.csv", make_rows(20))
    run = start(path, TASK, client)
    path.unlink()
    with pytest.raises(TableError, match=r"t\.csv: a worker cannot find this file"):
        run()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workers", "2", "--model", "kernel"], "--model kernel cannot learn on a cluster: leave out --workers"),
        (["--cluster", "tcp://h:1", "--model", "kernel"], "leave out --cluster, or choose"),
        (["--cluster", ""], "--cluster is empty: pass the address of a scheduler"),
        (["--cluster", "", "--workers", "1"], "choose one"),
        (["--cluster", "tls://127.0.0.1:1"], "the address of the Dask scheduler, tls://127.0.0.1:1: TLS expects"),
        (["--cluster", "h"], "the address of the Dask scheduler, h: missing port number"),
    ],
)  # fmt: skip
def test_options_that_are_refused(bad, tmp_path, options, said):
    write(tmp_path / "t.csv", make_rows(20))
    assert said in bad("fit", "t.csv", "--label", "grade", "-o", "m.pril", *options)


# --- The cluster itself --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_cluster_that_is_not_there(tmp_path, monkeypatch):
    nobody = pytest.raises(OSError, match="no Dask scheduler answers")
    with nobody, connected("tcp://127.0.0.1:1", None, timeout="1s"):
        pass
    table = write(tmp_path / "t.csv", make_rows())
    idle = LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=":0")
    warned = pytest.warns(UserWarning, match=r"the Dask scheduler at tcp://\S+ has no workers yet")
    lost = pytest.raises(OSError, match=r"the Dask cluster went away, .* no worker for 1 s")
    monkeypatch.setattr("pril.dask.client.NO_WORKER_LIMIT", 1.0)
    with idle, lost, warned, connected(idle.scheduler_address, None, timeout="1s") as client:
        start(table, TASK, client)()


@pytest.mark.slow
def test_a_cluster_that_is_lost(tmp_path, capfd):
    part = [sys.executable, "-m"]
    file = tmp_path / "scheduler.json"
    options = ["--scheduler-file", str(file), "--no-dashboard"]
    log = (tmp_path / "log").open("wb")
    with (
        log,
        subprocess.Popen(
            [*part, "distributed.cli.dask_scheduler", "--port", "0", *options], stderr=log
        ) as scheduler,
        subprocess.Popen(
            [*part, "distributed.cli.dask_worker", "--no-nanny", *options], stderr=log
        ) as worker,
    ):
        try:
            while not (file.exists() and file.read_text().endswith("}")):  # written to its end
                assert scheduler.poll() is None
                time.sleep(0.01)
            address = json.loads(file.read_text())["address"]
            lost = pytest.raises(OSError, match="the Dask cluster went away, or cancelled the work")
            with lost, connected(address, None, timeout="100s") as client:
                killing = dask.delayed(os.kill)(scheduler.pid, signal.SIGKILL)
                pril.dask.Cluster(client, False).compute(killing, "waiting")
        finally:
            scheduler.kill()
            worker.kill()
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_workers_that_die():
    dead = pytest.raises(
        OSError, match=r"the Dask cluster went away, .*nothing was learned: .*died"
    )
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        dead,
        connected(None, 1) as client,
    ):
        pril.dask.Cluster(client, False).compute(dask.delayed(os._exit)(1), "dying")


@contextmanager
def endless_fit(folder, *options):
    """Start the command on four files; it learns until it is stopped."""
    write_parts(folder, "csv", make_rows(400))
    ends = ["--lower", "low", "--upper", "high", "--classes", ",".join(GRADES)]
    command = [
        "fit",
        str(folder),
        *ends,
        "--drop",
        "id,grade",
        "--model",
        "pril",
        "--epochs",
        "100000",
    ]
    command += ["-o", str(folder / "m.pril")]
    with subprocess.Popen(
        [sys.executable, "-c", "from pril.cli.main import main; main()", *command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a terminal sends Ctrl-C to all processes of its group
    ) as process:
        yield process


@pytest.mark.slow
def test_as_many_workers_as_asked_for_and_no_socket_for_others(tmp_path):
    with endless_fit(tmp_path, "--workers", "3", "--verbose") as process:
        for line in process.stderr:
            if b" rows: " in line:  # the survey is done, so all workers have started
                break
        command = psutil.Process(process.pid)
        sockets = [
            [one.laddr.ip for one in part.net_connections() if one.status == psutil.CONN_LISTEN]
            for part in (command, *command.children(recursive=True))
        ]
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    scheduler, *workers = filter(None, sockets)
    assert len(workers) == 3
    assert {*scheduler, *chain(*workers)} == {"127.0.0.1"}


@pytest.mark.slow
def test_ctrl_c_is_one_line(tmp_path):
    with endless_fit(tmp_path, "--workers", "2", "-q") as process:
        parts = []
        while sum(part.cpu_times().user > 1 for part in parts) < 2:  # two workers, at work
            assert process.poll() is None
            time.sleep(0.05)
            parts = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (1, b"", b"pril: stopped\n")
    left = psutil.wait_procs(parts, timeout=10)[1]
    assert [part for part in left if part.status() != psutil.STATUS_ZOMBIE] == []
    assert not (tmp_path / "m.pril").exists()


# --- Files ---------------------------------------------------------------------------------------


def test_files_may_have_different_keys(tmp_path, client):
    rows = make_rows(100)
    write(tmp_path / "a.jsonl", [{k: v for k, v in row.items() if k != "size"} for row in rows])
    write(tmp_path / "b.jsonl", rows)
    assert "size" in start(tmp_path, TASK, client)()[0].numbers_


def test_an_empty_file_is_no_harm(tmp_path, client):
    path = write(tmp_path / "a.parquet", make_rows(100))
    pq.write_table(pq.read_table(path).slice(0, 0), tmp_path / "0.parquet")
    run = start(tmp_path, TASK, client)
    assert run()[-1].t_ > 0
    assert run.describe()["holdout"]["rows"] > 0
