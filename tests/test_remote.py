"""Tables on web servers and in object stores, read by the command."""

import csv
import functools
import http.server
import json
import os
import re
import subprocess
import threading
from pathlib import Path
from urllib.parse import unquote

import dask
import pytest

import pril
from pril.errors import UnavailableError
from pril.tables.cluster import Piece, returning_errors
from pril.tables.files import Table
from pril.tables.label_columns import LabelEnds
from pril.tables.survey import Task
from tables import GRADES, make_rows, write

LABELS = ("--lower", "low", "--upper", "high", "--classes", ",".join(GRADES), "--drop", "id,grade")


@pytest.fixture
def server(tmp_path):
    """Serve the files of a folder; yield the folder and its URL."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    folder = tmp_path / "www"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("localhost", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield folder, f"http://localhost:{running.server_port}"
        running.shutdown()


def same_model(one, other):
    return pril.load(one)[-1].coef_.tolist() == pril.load(other)[-1].coef_.tolist()


@pytest.mark.parametrize("name", ["flats.csv.gz", "flats.parquet"])
def test_a_table_on_a_web_server(server, good, name):
    """It gives the model and the predictions of the same table on this machine."""
    folder, url = server
    rows = make_rows(200)
    write(folder / name, rows)
    good("fit", f"{url}/{name}", *LABELS, "-q")  # the model is named after the table
    good("fit", folder / name, *LABELS, "-q", "-o", "local.pril")
    assert same_model("flats.pril", "local.pril")
    there, here = (
        good("predict", "flats.pril", place) for place in (f"{url}/{name}", folder / name)
    )
    assert there == here
    there, here = (
        json.loads(good("evaluate", "flats.pril", place, "--json"))
        for place in (f"{url}/{name}", folder / name)
    )
    assert there == here
    assert there["rows"] == sum(row["low"] is not None or row["high"] is not None for row in rows)


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # urllib's, on Python 3.13
def test_errors_name_the_url_and_the_row(server, bad, tmp_path):
    folder, url = server
    rows = make_rows(20)
    rows[11]["low"] = "splendid"
    write(folder / "flats.csv", rows)
    said = bad("fit", f"{url}/flats.csv", *LABELS)
    assert said.startswith(f"{url}/flats.csv, row 12: ")
    assert "splendid" in said
    assert bad("fit", f"{url}/none.csv", *LABELS) == (
        f"{url}/none.csv cannot be read: HTTP Error 404: File not found"
    )
    assert "cannot be read: " in bad("fit", "http://localhost:9/flats.csv", *LABELS)


@pytest.fixture
def odd_server():
    """A web server that answers as it is told; yield its URL, and a list of what to answer."""
    answers = []

    class Told(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, headers, body = answers[-1](self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("localhost", 0), Told) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://localhost:{running.server_port}", answers
        running.shutdown()


@pytest.fixture(scope="module")
def flats(tmp_path_factory):
    return write(tmp_path_factory.mktemp("flats") / "flats.csv", make_rows(60)).read_bytes()


@pytest.mark.parametrize(
    "name",
    [
        "a[1].csv",
        "a*.csv",
        "a[.csv",
        "[x]/a.csv",
        "h%C3%A4user.csv",
        "häuser.csv",
        "wohn ung.csv",
        "a%3Fb.csv",
        "state=AK/a.csv",
    ],
)
def test_a_web_table_of_any_name(odd_server, good, flats, name):
    """No character of a URL is a wildcard, and none is too odd to be asked for."""
    url, answers = odd_server
    asked = []

    def answer(path):
        asked.append(path)
        return 200, {}, flats

    answers.append(answer)
    good("fit", f"{url}/{name}", *LABELS, "-q", "-o", "m.pril")
    assert unquote(asked[0]) == f"/{unquote(name)}"
    assert asked[0].isascii()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("name", ["a[1].csv", "a*.csv", "[.csv", "plain.csv"])
def test_a_pipe_of_any_name(good, flats, tmp_path, name):
    os.mkfifo(tmp_path / name)
    writer = threading.Thread(target=(tmp_path / name).write_bytes, args=(flats,))
    writer.start()
    good("fit", tmp_path / name, *LABELS, "--format", "csv", "-q", "-o", "m.pril")
    writer.join()


@pytest.mark.parametrize(
    "date", ["yesterday", "", "Thu, 99 Foo 2020", "Mon, 01 Jan 0001 00:00:00 GMT", "-1", "\x01"]
)
def test_a_date_that_is_none_does_not_matter(odd_server, good, flats, date):
    url, answers = odd_server
    answers.append(lambda _: (200, {"Last-Modified": date}, flats))
    good("fit", f"{url}/t.csv", *LABELS, "-q", "-o", "m.pril")


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (206, {"Content-Range": "bytes 0-99/1000"}, "the server answered 206 Partial Content"),
        (203, {}, "the server answered 203"),
        (200, {"Content-Encoding": "gzip"}, "sent it as 'gzip', which was not asked for"),
        (200, {"Content-Length": "99999999"}, "IncompleteRead|ended after"),
        (404, {}, "HTTP Error 404"),
        (503, {}, "HTTP Error 503"),
        (302, {"Location": "file:///etc/passwd"}, "HTTP Error 302"),
        (302, {"Location": "/t.csv"}, "HTTP Error 302"),
    ],
)
def test_an_answer_that_is_not_the_table_is_refused(odd_server, bad, flats, status, headers, said):
    url, answers = odd_server
    answers.append(lambda _: (status, headers, flats))
    assert re.search(f"^{re.escape(url)}/t.csv.*({said})", bad("fit", f"{url}/t.csv", *LABELS))


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1/x.csv",
        "http://::1]/x.csv",
        "http://host:port/x.csv",
        "http://host:99999/x.csv",
        "http:///x.csv",
        "http://[v1.a/x.csv",
        "s3://[/x.csv",
        "gs://",
        "https://ho\u2100st/x.csv",
        f"http://{'a' * 70}é.example/x.csv",
        "http://localhost:9/\ud800.csv",
        "http://key:secret@[::1/x.csv?token=secret",
    ],
)
def test_what_is_no_url_is_refused(bad, url):
    said = bad("fit", url, *LABELS)
    assert re.search("is not a URL|cannot be read", said)
    assert "secret" not in said
    assert "token" not in said


def test_a_store_that_does_not_answer_is_given_up(odd_server, bad, monkeypatch):
    """Google's client would try for a quarter of an hour."""
    url, answers = odd_server
    asked = []

    def answer(path):
        asked.append(path)
        return 503, {}, b""

    answers.append(answer)
    monkeypatch.setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", url)
    monkeypatch.setenv("GCE_METADATA_ROOT", url.removeprefix("http://"))
    monkeypatch.setattr("pril.tables.opening.LOOK_SECONDS", 1)
    said = bad("fit", "gs://flats/t.csv", *LABELS)
    assert said.startswith("gs://flats/t.csv cannot be read: ")
    assert asked


@pytest.mark.slow
def test_a_store_that_nobody_reaches_is_given_up_within_15_seconds(program):
    """Nobody listens at the port, as where there is no network."""
    away = {
        "CLOUD_STORAGE_EMULATOR_ENDPOINT": "http://127.0.0.1:9",
        "GCE_METADATA_ROOT": "127.0.0.1:9",
    }
    command = [*program, "fit", "gs://flats/t.csv", *LABELS]
    done = subprocess.run(
        command, env=os.environ | away, timeout=15, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"gs://flats/t.csv cannot be read: " in done.stderr


def _stop(_):
    raise KeyboardInterrupt


def test_a_run_goes_on_with_the_same_remote_table(server, good, call):
    """A checkpoint knows the table again, though each run has a copy of its own."""
    folder, url = server
    rows = make_rows(200)
    write(folder / "flats.csv", rows)
    stopped = ("--checkpoint", "saved", "--checkpoint-every", "1", "-q", "-o", "m.pril")
    command = ("fit", f"{url}/flats.csv", *LABELS, *stopped)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pril.tables.training.Run.describe", _stop)
        assert call(*command)[0] == 130
    said = call(*command, "--verbose")[2]
    assert "checkpoint: learn, continued" in said
    assert "step 1:" not in said  # all steps had been taken
    good("fit", folder / "flats.csv", *LABELS, "-q", "-o", "local.pril")
    assert same_model("m.pril", "local.pril")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "s3://key:secret@flats/t.csv",
            "s3://flats/t.csv: the URL has a user, a password or a query",
        ),
        ("https://key@host/t.csv", "https://host/t.csv: the URL has a user"),
        ("https://host/t.csv?X-Amz-Signature=secret", "https://host/t.csv: the URL has a user"),
        (
            "ftp://key:secret@host/t.csv",
            "ftp://host/t.csv: tables are read from local files, and from s3",
        ),
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(bad, url, said):
    found = bad("fit", url, *LABELS)
    assert found.startswith(said)
    assert "secret" not in found.replace("may be secret", "")
    assert "key" not in found


def test_outputs_are_local(bad, tmp_path):
    write(tmp_path / "t.csv", make_rows(20))
    said = bad("fit", "t.csv", *LABELS, "-o", "s3://flats/m.pril")
    assert said == "s3:/flats/m.pril is a URL: only local files are written"


def test_cells_separated_by_semicolons(good, bad, tmp_path):
    rows = make_rows(100)
    write(tmp_path / "commas.csv", rows)
    text = write(tmp_path / "tabs.tsv", rows).read_text()
    (tmp_path / "t.csv").write_text(text.replace("\t", ";"))
    for path, given, separator in (("t.csv", [], ";"), ("commas.csv", ["--delimiter", ";"], ",")):
        assert bad("fit", path, *LABELS, *given).endswith(
            f"; {separator!r} may separate them; pass the separator by --delimiter"
        )
    for mark in (";;", "", "é", '"', "\n"):
        assert "expected one ASCII character" in bad("fit", "t.csv", *LABELS, "--delimiter", mark)
    assert bad("fit", "tabs.tsv", *LABELS, "--delimiter", ";").endswith(
        "is for CSV, and this is tsv"
    )
    good("fit", "t.csv", *LABELS, "--delimiter", ";", "-q", "-o", "t.pril")
    good("fit", "commas.csv", *LABELS, "-q", "-o", "commas.pril")
    assert same_model("t.pril", "commas.pril")
    good("predict", "t.pril", "t.csv", "-q", "-o", "rated.csv")  # the model knows the delimiter
    assert "one name" in bad("predict", "t.pril", "commas.csv", "-q", "-o", "again.csv")
    good("predict", "t.pril", "commas.csv", "--delimiter", ",", "-q", "-o", "again.csv")
    rated, again = (
        list(csv.reader((tmp_path / name).read_text().splitlines(), delimiter=mark))
        for name, mark in (("rated.csv", ";"), ("again.csv", ","))
    )
    assert rated == again


# --- Object stores -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bucket():
    """A bucket of a real S3 server on this machine; the environment names the server."""
    moto = pytest.importorskip("moto.server", reason="pip install 'moto[server]'")
    boto3 = pytest.importorskip("boto3")
    server = moto.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        client = boto3.client("s3")
        client.create_bucket(Bucket="flats")
        yield lambda key, data: client.put_object(Bucket="flats", Key=key, Body=data)
    server.stop()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv.gz", "parquet", "jsonl"])
def test_a_table_in_an_object_store(bucket, good, tmp_path, suffix):
    path = write(tmp_path / f"t.{suffix}", make_rows(200))
    bucket(f"one/t.{suffix}", path.read_bytes())
    url = f"s3://flats/one/t.{suffix}"
    good("fit", url, *LABELS, "-q", "-o", "there.pril")
    good("fit", path, *LABELS, "-q", "-o", "here.pril")
    assert same_model("there.pril", "here.pril")
    assert good("predict", "here.pril", url) == good("predict", "here.pril", path)
    for secret in (b"AKIDEXAMPLE", b"wJalrXUtnFEMI"):
        assert secret not in (tmp_path / "there.pril").read_bytes()


@pytest.mark.slow
def test_a_folder_in_an_object_store(bucket, good, bad, tmp_path):
    """Folders name columns, hidden files are skipped, errors name the file and its row."""
    for state in ("AK", "NY"):
        (tmp_path / "t" / f"state={state}").mkdir(parents=True)
        path = write(tmp_path / "t" / f"state={state}" / "t.csv", make_rows(100, seed=len(state)))
        bucket(f"many/state={state}/t.csv", path.read_bytes())
    bucket("many/_temporary/t.csv", b"not,a,table\n")
    good("fit", "s3://flats/many", *LABELS, "-q", "-o", "there.pril")
    good("fit", "t", *LABELS, "-q", "-o", "here.pril")
    assert same_model("there.pril", "here.pril")
    bucket("bad/a.csv", path.read_bytes())
    bucket("bad/b.csv", path.read_bytes() + b"one cell\n")
    said = bad("fit", "s3://flats/bad/", *LABELS)
    assert said.startswith("s3://flats/bad/b.csv, row 101: 1 cells where the header has 7")
    assert bad("fit", "s3://flats/none.csv", *LABELS).startswith(
        "s3://flats/none.csv: no such file"
    )


@pytest.mark.slow
def test_workers_read_an_object_store(bucket, good, tmp_path):
    """They get the delimiter, too."""
    (tmp_path / "t").mkdir()
    for name in ("a", "b"):
        path = write(tmp_path / "t" / f"{name}.csv", make_rows(100, seed=ord(name)))
        text = write(tmp_path / "t.tsv", make_rows(100, seed=ord(name))).read_text()
        bucket(f"parts/{name}.csv", text.replace("\t", ";").encode())
    workers = ("--workers", "2", "-q", "-o")
    with dask.config.set({"distributed.worker.multiprocessing-method": "spawn"}):
        # Forked workers would have the environment of the first test that forks.
        good("fit", "s3://flats/parts", *LABELS, "--delimiter", ";", *workers, "there.pril")
    good("fit", path.parent, *LABELS, *workers, "here.pril")
    assert same_model("there.pril", "here.pril")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("ACCESS_DENIED"), "s3://b/a.csv: a worker cannot read this file: ACCESS_DENIED"),
        (FileNotFoundError(2, "gone"), "s3://b/a.csv: a worker cannot find this file; all workers"),
        (OSError(5, "Input/output error", "a.csv"), "[Errno 5] Input/output error: 'a.csv'"),
        (UnavailableError("no network"), "no network"),
    ],
)
def test_what_a_worker_cannot_read_is_named(error, said):
    @returning_errors
    def read(piece):
        raise error

    table = Table([Path("a.csv")], "s3://b/a.csv", "csv")
    piece = Piece(table, 0, None, Task(LabelEnds()))
    assert str(read(piece)).startswith(said)
