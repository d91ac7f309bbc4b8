"""The command on a cluster: the same survey, the same evaluation, rows that stay where they are."""

import io as streams
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise

import dask
import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster

import pril.dask
from pril.cli.main import main
from pril.io import model_files as io
from pril.tables.cluster import ClusterRun, Piece, connected, read_piece
from pril.tables.encoder import ColumnEncoder
from pril.tables.files import TableError
from pril.tables.label_columns import LabelColumns
from pril.tables.opening import open_table
from pril.tables.training import Run, Task
from tables import GRADES, make_rows, write, write_parquet

TASK = Task(("low", "high"), tuple(GRADES), drop=("id", "grade"), epochs=4)


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(params=["parquet", "csv", "jsonl"])
def folder(request, tmp_path):
    """Four files of 150 rows; the Parquet ones in row groups of 40."""
    rows = make_rows(600)
    for part in range(4):
        some = rows[150 * part : 150 * (part + 1)]
        path = tmp_path / f"{part}.{request.param}"
        if request.param == "parquet":
            write_parquet(path, some, row_group_size=40)
        else:
            write(path, some)
    return tmp_path


def test_pieces_are_the_table(tmp_path):
    write_parquet(tmp_path / "a.parquet", make_rows(100), row_group_size=30)
    write_parquet(tmp_path / "b.parquet", make_rows(10), row_group_size=30)
    table = open_table(str(tmp_path))
    sizes = [(file.name, first, rows) for file, first, rows in table.pieces(60)]
    assert sizes == [("a.parquet", 0, 60), ("a.parquet", 60, 40), ("b.parquet", 0, 10)]
    assert [rows for _, _, rows in table.pieces(1)] == [30, 30, 30, 10, 10]
    assert [rows for _, _, rows in table.pieces()] == [100, 10]


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
    table = open_table(str(folder))
    alone = Run(table, TASK, lambda *_: None)
    alone()
    run = ClusterRun(open_table(str(folder)), TASK, client, progress=False)
    fitted = run()
    assert run.n_rows == alone.n_rows == 600
    for mine, yours in zip(run.encode_labels(), alone.encode_labels(), strict=True):
        assert mine.tolist() == yours.tolist()
    assert fitted[0].words_ == alone.encoder.words_
    evaluation, other = run.evaluate(), alone.evaluate()
    labelled = 600 - run.counts.n_unlabelled()
    assert evaluation.rows + run.model.t_ // run.epoch == labelled
    assert abs(evaluation.hits / evaluation.rows - other.hits / other.rows) < 0.1


def test_landmarks_and_ranges_on_a_cluster(folder, client, tmp_path):
    task = replace(TASK, model="ordered-logit", nonlinear=20, coverage=0.8)
    run = ClusterRun(open_table(str(folder)), task, client, progress=False)
    sample = run.reservoir
    fitted, evaluation = run(), run.evaluate()
    assert len(sample.keys) == 200
    encoder, front, learner = (step for _, step in fitted.estimator_.steps)
    features = encoder.transform(sample.rows())
    twin = pril.LandmarkFeatures(20, random_state=0).fit(features)
    np.testing.assert_array_equal(front.landmarks_, twin.landmarks_)
    assert learner.n_features_in_ == features.shape[1] + 20
    rows = evaluation.rows + evaluation.unlabelled
    assert abs(rows - 120) < 50
    report = run.describe(evaluation)
    assert report["learned_rows"] == learner.t_ // run.epoch
    assert 0 < report["ranges"]["calibration_rows"] < 120
    again = ClusterRun(open_table(str(folder)), task, client, progress=False)()
    assert again.margin_ == fitted.margin_
    io.write(fitted, tmp_path / "m.pril", kind="model")


def test_all_rows_make_the_encoder(folder, client):
    task = replace(TASK, holdout=0.0, epochs=1)
    alone = Run(open_table(str(folder)), task, lambda *_: None)
    fitted, other = alone(), ClusterRun(open_table(str(folder)), task, client, progress=False)()
    for mine, yours in zip(other[0]._moments, fitted[0]._moments, strict=True):
        np.testing.assert_allclose(mine, yours)
    assert other[-1].t_ == fitted[-1].t_ == 600 - alone.counts.n_unlabelled()


def test_a_piece_is_its_rows(tmp_path):
    rows = make_rows(100)
    path = tmp_path / "t.parquet"
    write_parquet(path, rows, row_group_size=10)
    task = Task(("grade",), drop=("id", "low", "high"), holdout=0.0)
    encoder = ColumnEncoder(scale=False).fit(next(open_table(str(path)).blocks(["age"]))[1])
    for first, n in ((0, 100), (40, 30), (90, 10), (0, 10)):
        piece = Piece(str(path), "t", "parquet", first, n, 0, None)
        X, y, _ = read_piece(piece, task, encoder, LabelColumns(("grade",), text=False))
        assert X[:, 0].tolist() == [row["age"] for row in rows[first : first + n]]
        assert y.values[:, 0].tolist() == [row["grade"] for row in rows[first : first + n]]


@pytest.mark.parametrize("phase", ["_survey", "_learn", "_calibrate", "evaluate"])
@pytest.mark.parametrize("change", ["grow", "relabel"])
def test_a_table_that_changes_during_a_run(folder, client, monkeypatch, phase, change):
    table = open_table(str(folder))
    run = ClusterRun(table, replace(TASK, coverage=0.8), client, progress=False)
    work = getattr(ClusterRun, phase)
    rows = make_rows(160) if change == "grow" else [r | {"low": "odd"} for r in make_rows(150)]

    def change_then_work(self):
        write(table.files[2], rows)
        return work(self)

    monkeypatch.setattr(ClusterRun, phase, change_then_work)
    with pytest.raises(TableError, match=f"{table.files[2].name} has changed while it was read"):
        run.describe(run() and run.evaluate())


def test_the_model_is_that_of_mixing_in_memory(folder, client, tmp_path):
    run = ClusterRun(open_table(str(folder)), TASK, client, progress=False)
    fitted = run()
    blocks = [read_piece(piece, TASK, fitted[0], run.labels) for piece in run.pieces]
    from dask import delayed

    twin = pril.dask.fit_blocks(
        pril.PRIL(classes=GRADES, max_iter=4, random_state=0), [delayed(block) for block in blocks]
    )
    np.testing.assert_array_equal(fitted[-1].coef_, twin.coef_)
    np.testing.assert_array_equal(fitted[-1].thresholds_, twin.thresholds_)
    again = ClusterRun(open_table(str(folder)), TASK, client, progress=False)()
    for model, name in ((fitted, "a"), (again, "b")):
        io.write(model, tmp_path / name, kind="model")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def complaints(place, task, client):
    """Return what one process and the cluster say of a table that cannot be learned."""
    said = []
    for run in (
        Run(open_table(place), task, lambda *_: None),
        ClusterRun(open_table(place), task, client, progress=False),
    ):
        try:
            run()
        except ValueError as error:
            said.append(str(error))
    assert len(said) == 2
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
def test_a_bad_cell_is_named(tmp_path, monkeypatch, client, cells, said, suffix):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    for part in range(3):
        rows = make_rows(50)
        if part == 2:
            rows[30].update(cells)
        write(tmp_path / "b" / f"{part}.{suffix}", rows)
    alone, cluster = complaints("b", TASK, client)
    assert alone == cluster
    assert cluster.startswith(f"b/2.{suffix}, row 31: ")
    assert said in cluster


def test_standard_input_has_its_name(tmp_path, monkeypatch, client):
    rows = make_rows(50)
    rows[30]["size"] = float("inf")
    data = write(tmp_path / "t.csv", rows).read_bytes()
    monkeypatch.setattr(sys, "stdin", streams.TextIOWrapper(streams.BytesIO(data)))
    run = ClusterRun(open_table("-"), TASK, client, progress=False)
    with pytest.raises(TableError, match=r"^<stdin>, row 31: column 'size' is inf"):
        run()


def test_of_several_mistakes_the_first_is_named(tmp_path, monkeypatch, client):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    rows = make_rows(20_000)
    rows[-1]["size"] = "x"  # found last, since the others have few rows
    write(tmp_path / "b" / "0.csv", rows)
    for part in range(1, 4):
        write(tmp_path / "b" / f"{part}.csv", [{**row, "size": "x"} for row in make_rows(5)])
    alone, cluster = complaints("b", TASK, client)
    assert alone == cluster
    assert cluster.startswith("b/0.csv, row 20000: ")


def test_what_a_learner_refuses_has_file_and_row(tmp_path, monkeypatch, client):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    exact = [{**row, "low": "fair", "high": "fair"} for row in make_rows(50)]
    for part in range(4):
        rows = [dict(row) for row in exact]
        if part:
            rows[10 - part]["high"] = "good"
        write(tmp_path / "b" / f"{part}.csv", rows)
    task = replace(TASK, model="prank", holdout=0.0)
    alone, cluster = complaints("b", task, client)
    assert alone == cluster
    assert cluster.startswith("b/1.csv, row 10: columns 'low', 'high': PRank learns from exact")
    task = replace(TASK, model="prank")  # rows held out are not learned: its row is not 10 less
    assert complaints("b/1.csv", task, client)[1].startswith("b/1.csv, row 10: ")


def test_an_overflow_has_its_file(tmp_path, monkeypatch, client):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    for part in range(4):
        write(tmp_path / "b" / f"{part}.csv", make_rows(50))
    task = replace(TASK, model="widrow-hoff", parameters={"rate": 1e308})
    alone, cluster = complaints("b", task, client)
    for said in (alone, cluster):
        assert re.match(r"b/\d\.csv, row \d+: X is finite, but WidrowHoff overflowed", said)
    assert cluster.startswith("b/0.csv")


def test_an_overflow_of_the_mixed_model_names_the_table(tmp_path, monkeypatch, client):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    for part in range(2):
        write(tmp_path / "b" / f"{part}.csv", make_rows(50, seed=part))
    # It diverges: one pass over 50 rows is finite, a few rounds are not.
    parameters = {"rate": 30.0, "normalize": False}
    task = replace(TASK, model="widrow-hoff", parameters=parameters, holdout=0.0, epochs=50)
    run = ClusterRun(open_table("b"), task, client, progress=False)
    with pytest.raises(TableError, match=r"^b: each part can be learned alone, but not mixed"):
        run()


def test_labels_are_limited_over_all_pieces(tmp_path, monkeypatch, client):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    for part in range(2):
        rows = [{"x": 1, "y": 6000 * part + k} for k in range(6000)]
        write(tmp_path / "b" / f"{part}.csv", rows)
    alone, cluster = complaints("b", Task(labels=("y",)), client)
    assert alone == cluster
    assert cluster.startswith("b: column 'y': over 10000 different labels")
    write(tmp_path / "b" / "2.csv", [{"x": 1, "y": k} for k in range(10_001)])
    (tmp_path / "b" / "0.csv").unlink()
    alone, cluster = complaints("b", Task(labels=("y",)), client)
    assert alone == cluster


def test_all_rows_may_be_held_out(tmp_path, client):
    path = str(write(tmp_path / "t.csv", make_rows(20)))
    alone, cluster = complaints(path, replace(TASK, holdout=0.9999999), client)
    assert alone == cluster == f"{path}: every row was held out"


def test_a_file_that_workers_do_not_see(tmp_path, client):
    path = write(tmp_path / "t.csv", make_rows(20))
    run = ClusterRun(open_table(str(path)), TASK, client, progress=False)
    path.unlink()
    with pytest.raises(TableError, match=r"t\.csv: a worker does not find this file"):
        run()


def test_what_a_cluster_cannot_do(tmp_path, client):
    write(tmp_path / "t.svm", make_rows(20))
    with pytest.raises(TableError, match="sparse tables are not learned on a cluster"):
        ClusterRun(open_table(str(tmp_path / "t.svm")), Task(("label",)), client, progress=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workers", "2", "--model", "kernel"], "--model kernel is for one process: leave out --workers"),
        (["--cluster", "tcp://h:1", "--model", "kernel"], "leave out --cluster, or choose"),
        (["--cluster", ""], "--cluster is empty: pass the address of a scheduler"),
        (["--cluster", "", "--workers", "1"], "choose one"),
        (["--cluster", "tls://127.0.0.1:1"], "the address of the Dask scheduler, tls://127.0.0.1:1: TLS expects"),
        (["--cluster", "h"], "the address of the Dask scheduler, h: missing port number"),
    ],
)  # fmt: skip
def test_options_that_are_refused(tmp_path, capsys, options, said):
    table = write(tmp_path / "t.csv", make_rows(20))
    command = ["fit", str(table), "--label", "grade", "-o", str(tmp_path / "m.pril")]
    with pytest.raises(SystemExit) as ended:
        main([*command, *options])
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert not (tmp_path / "m.pril").exists()


# --- The cluster itself --------------------------------------------------------------------------


def test_a_cluster_that_is_not_there(tmp_path, monkeypatch):
    nobody = pytest.raises(OSError, match="no Dask scheduler answers")
    with nobody, connected("tcp://127.0.0.1:1", None, timeout="1s"):
        pass
    table = write(tmp_path / "t.csv", make_rows())
    idle = LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=":0")
    warned = pytest.warns(UserWarning, match=r"the Dask scheduler at tcp://\S+ has no workers yet")
    lost = pytest.raises(OSError, match=r"the Dask cluster went away, .* no worker for 1 s")
    monkeypatch.setattr("pril.dask.client.NO_WORKER_LIMIT", 1.0)
    run = ClusterRun(open_table(str(table)), TASK, None, progress=False)
    with idle, lost, warned, connected(idle.scheduler_address, None, timeout="1s") as run.client:
        run()


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
            while not file.exists():
                assert scheduler.poll() is None
                time.sleep(0.01)
            address = json.loads(file.read_text())["address"]
            lost = pytest.raises(OSError, match="the Dask cluster went away, or cancelled the work")
            with lost, connected(address, None) as client:
                killing = dask.delayed(os.kill)(scheduler.pid, signal.SIGKILL)
                pril.dask.Cluster(client, False).compute(killing, "waiting")
        finally:
            scheduler.kill()
            worker.kill()
    assert capfd.readouterr().err == ""


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


def test_ctrl_c_is_one_line(tmp_path):
    for part in range(4):
        write(tmp_path / f"{part}.csv", make_rows(100))
    ends = ["--lower", "low", "--upper", "high", "--classes", ",".join(GRADES)]
    command = ["fit", str(tmp_path), *ends, "--epochs", "100000", "-o", str(tmp_path / "m.pril")]
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from pril.cli.main import main; main()",
            *command,
            "--workers",
            "2",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a terminal sends Ctrl-C to all processes of its group
    ) as process:
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
    run = ClusterRun(open_table(str(tmp_path)), TASK, client, progress=False)
    assert "size" in run()[0].numbers_


def test_an_empty_file_is_no_harm(tmp_path, client):
    rows = make_rows(100)
    write_parquet(tmp_path / "a.parquet", rows)
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(tmp_path / "a.parquet").slice(0, 0), tmp_path / "0.parquet")
    run = ClusterRun(open_table(str(tmp_path)), TASK, client, progress=False)
    assert run()[-1].t_ > 0
    assert run.evaluate().rows > 0
