"""Nothing is lost: locks, leftovers, disks that fail and tables that change."""

import errno
import json

import pytest
from filelock import FileLock

import pril
from pril import io
from pril.tables import files, formats
from pril.tables.locks import lock_of
from tables import GRADES, make_rows, write

RANGES = ["--lower", "low", "--upper", "high", "--classes", ",".join(GRADES), "--drop", "id,grade"]


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "t.csv", make_rows())


def test_an_output_that_is_the_checkpoint_is_refused(good, bad, table):
    keep = ["--checkpoint", "state"]
    said = bad("fit", "t.csv", *RANGES, *keep, "-o", "state/../state/checkpoint.pril")
    assert "there is no folder" in said  # before the first run
    good("fit", "t.csv", *RANGES, *keep)
    said = bad("fit", "t.csv", *RANGES, *keep, "-o", "state/checkpoint.pril")
    assert said == "state/checkpoint.pril is the checkpoint itself: write the model to another file"
    assert "is the checkpoint itself" in bad(
        "stream", "t.pril", *keep, "-o", "state/checkpoint.pril"
    )


def test_a_checkpoint_folder_belongs_to_one_run(good, bad, table, tmp_path):
    (tmp_path / "state").mkdir()
    others = tmp_path / "state" / ".pril-0123456789abcdef-of-another-run.tmp"
    others.write_bytes(b"half of a model")
    with FileLock(tmp_path / "state" / "checkpoint.lock"):
        said = bad("fit", "t.csv", *RANGES, "--checkpoint", "state")
    assert said == "the checkpoint state is in use by another pril: wait until it has ended"
    good("fit", "t.csv", *RANGES, "--checkpoint", "state", "--every", 1)
    assert list((tmp_path / "state").iterdir()) == [others]


def test_two_streams_do_not_write_one_model(good, bad, table, tmp_path):
    good("fit", "t.csv", *RANGES)
    with FileLock(lock_of(tmp_path / "t.pril")):
        assert bad("stream", "t.pril", "-o", "t.pril").startswith("t.pril is in use")


def test_leftovers_of_killed_runs_are_removed(good, table, tmp_path):
    good("fit", "t.csv", *RANGES)
    killed, left = io._create_temporary(tmp_path / "out.csv")
    left.close()
    other, abandoned = io._create_temporary(tmp_path / "other.csv")
    abandoned.close()
    running, busy = io._create_temporary(tmp_path / "out.csv")
    with busy:
        good("predict", "t.pril", "t.csv", "-o", "out.csv")
        assert not killed.exists()
        assert running.exists()  # somebody writes it now
        assert other.exists()  # it belongs to another output
    io.remove_leftovers(tmp_path / "out.csv")
    assert not running.exists()


class FailingStream:
    """A file on a disk that fails after so many bytes."""

    def __init__(self, stream, most):
        self.stream, self.most = stream, most

    def read(self, size=-1):
        if self.stream.tell() >= self.most:
            raise OSError(errno.EIO, "Input/output error")
        return self.stream.read(size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()

    def __getattr__(self, name):
        return getattr(self.stream, name)


def test_a_failing_disk_is_no_mistake_of_the_table(good, call, tmp_path, monkeypatch):
    table = write(tmp_path / "t.csv", make_rows())
    keep = ["--checkpoint", "state", "--every", 1]
    monkeypatch.setattr(files, "BLOCK_ROWS", 37)
    monkeypatch.setattr(formats, "READ_BYTES", 1000)
    good("fit", "t.csv", *RANGES, "-o", "whole.pril")
    opened = formats._opened
    with monkeypatch.context() as patch:
        patch.setattr(formats, "_opened", lambda file: FailingStream(opened(file), 9_000))
        code, _, err = call("fit", "t.csv", *RANGES, *keep)
    assert (code, err.count("\n")) == (2, 1)
    assert "Input/output error" in err
    assert (tmp_path / "state" / "checkpoint.pril").exists()
    good("fit", "t.csv", *RANGES, *keep)  # once the disk works, the run goes on
    assert (tmp_path / "t.pril").read_bytes() == (tmp_path / "whole.pril").read_bytes()
    assert table.exists()


def test_a_failing_disk_under_parquet(tmp_path, monkeypatch):
    path = write(tmp_path / "t.parquet", make_rows())
    table = formats.Parquet([path], str(path))

    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(formats.pa.parquet.ParquetFile, "iter_batches", fail)
    with pytest.raises(OSError, match="Input/output error") as caught:
        list(table.blocks())
    assert not isinstance(caught.value, files.TableError)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "svm"])
@pytest.mark.parametrize("command", ["fit", "evaluate", "predict"])
def test_a_table_that_changes_during_a_run(good, call, tmp_path, monkeypatch, suffix, command):
    path = write(tmp_path / f"t.{suffix}", make_rows())
    labels = ["--label", "label"] if suffix == "svm" else RANGES
    good("fit", path.name, *labels)
    good("fit", path.name, *labels, "-o", "m.pril")
    read = files.Table.begin_file

    def grow(self, file, row):
        read(self, file, row)
        more = write(tmp_path / f"more.{suffix}", make_rows(310))
        path.write_bytes(more.read_bytes())

    monkeypatch.setattr(files.Table, "begin_file", grow)
    rest = labels if command == "fit" else []
    given = [path.name] if command == "fit" else ["m.pril", path.name]
    code, _, err = call(command, *given, *rest)
    assert code == 2
    assert f"t.{suffix} has changed while it was read" in err or "damaged" in err
    assert pril.load("m.pril")


def test_a_table_that_grows_between_two_passes(call, tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", make_rows())
    monkeypatch.setattr("pril.tables.training.CACHE_BYTES", 0)
    from pril.tables.training import Run

    learn = Run._learn

    def grow(self):
        write(path, make_rows(310))
        learn(self)

    monkeypatch.setattr(Run, "_learn", grow)
    code, out, err = call("fit", "t.csv", *RANGES, "--json")
    assert (code, out) == (2, "")
    assert "t.csv has changed while it was read" in err
    assert json.loads(json.dumps(out)) == ""
