"""The paper's data sets: facts about them, and all ways to find or not to find their files."""

import http.server
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from pril.paper import datasets
from pril.paper.datasets import load_abalone, load_parkinsons, make_synthetic

CUTS = np.array([-1, -0.1, 0.25, 1])


REAL = os.environ.get("PRIL_DATA", "nowhere")


def real_folder():
    folder = Path(REAL)
    if not (folder / "abalone.data").is_file():
        pytest.skip("the UCI files are not in the folder PRIL_DATA")
    return folder


# --- Synthetic ---


def test_synthetic_ranks_have_the_known_frequencies():
    n = 200_000
    _, y = make_synthetic(n, random_state=0)
    expected = np.array([0.1183, 0.3111, 0.2284, 0.2239, 0.1183])
    found = np.bincount(y, minlength=6)[1:] / n
    assert (np.abs(found - expected) < 4 * np.sqrt(expected / n) + 1e-4).all()


def test_the_best_predictor_and_the_best_constant():
    """The median rank of each point's own distribution, and of all."""
    X, y = make_synthetic(200_000, random_state=1)
    score = 10 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)
    below = norm.cdf((CUTS - score[:, np.newaxis]) / 0.125)  # P(rank <= r)
    best = 1 + (below < 0.5).sum(axis=1)
    errors = np.abs(best - y)
    assert errors.mean() == pytest.approx(0.1526, abs=4 * errors.std() / np.sqrt(len(y)))
    assert np.abs(y - np.median(y)).mean() == pytest.approx(1.0083, abs=0.01)


def test_noise_is_a_standard_deviation_and_the_seed_counts():
    X, y = make_synthetic(1000, noise=0.0, random_state=0)
    exact = 1 + (10 * (X[:, :1] - 0.5) * (X[:, 1:] - 0.5) > CUTS).sum(axis=1)
    np.testing.assert_array_equal(y, exact)
    # A row changes its rank when the noise carries it over a threshold.
    X, y = make_synthetic(200_000, noise=0.5, random_state=0)
    score = 10 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)
    for k, cut in enumerate(CUTS, start=1):
        chance = norm.cdf((cut - score) / 0.5)  # of a rank of at most k
        error = np.sqrt((chance * (1 - chance)).sum()) / len(y)
        assert (y <= k).mean() == pytest.approx(chance.mean(), abs=4 * error)
    once, again, other = (make_synthetic(50, random_state=seed) for seed in (3, 3, 4))
    for part in (0, 1):
        np.testing.assert_array_equal(once[part], again[part])
        assert not np.array_equal(once[part], other[part])


# --- Real data ---


def test_abalone():
    folder = real_folder()
    X, y = load_abalone(folder=folder)
    assert X.shape == (4177, 8)
    assert np.bincount(y)[1:].tolist() == [839, 1257, 1388, 693]
    assert np.bincount(X[:, 0].astype(int)).tolist() == [1528, 1307, 1342]  # M, F, I
    one_hot, _ = load_abalone(sex="one-hot", folder=folder)
    np.testing.assert_array_equal(one_hot[:, :3].argmax(axis=1), X[:, 0])
    np.testing.assert_array_equal(one_hot[:, 3:], X[:, 1:])


def test_parkinsons():
    folder = real_folder()
    X, y = load_parkinsons(folder=folder)
    assert X.shape == (5875, 20)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(X.std(axis=0), 1)
    assert set(y) == set(range(1, 11))
    other, _ = load_parkinsons(drop="motor", folder=folder)
    leaks = [np.abs(np.corrcoef(table.T, y)[-1, :-1]).max() for table in (X, other)]
    assert leaks[0] > 0.9 > 0.5 > leaks[1]
    _, deciles = load_parkinsons(parts="deciles", folder=folder)
    assert np.ptp(np.bincount(deciles)[1:]) < 60


@pytest.mark.parametrize("load", [load_abalone, load_parkinsons])
def test_scikit_learns_forms_of_a_data_set(load):
    X, y = load(folder=real_folder())
    bunch = load(folder=real_folder(), return_X_y=False)
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, y)
    assert len(bunch.feature_names) == X.shape[1]
    assert len(bunch.target_names) == len(set(y))
    frame, series = load(folder=real_folder(), as_frame=True)
    np.testing.assert_array_equal(frame, X)
    assert frame.columns.tolist() == bunch.feature_names
    np.testing.assert_array_equal(series, y)
    whole = load(folder=real_folder(), return_X_y=False, as_frame=True).frame
    assert whole.columns.tolist() == [*bunch.feature_names, "rank"]


def test_columns_have_the_names_of_the_files():
    frame, _ = load_parkinsons(folder=real_folder(), as_frame=True)
    raw = pd.read_csv(real_folder() / "parkinsons_updrs.data")
    for name in frame:
        assert np.corrcoef(frame[name], raw[name])[0, 1] > 1 - 1e-9
    assert (
        load_parkinsons(drop="motor", folder=real_folder(), as_frame=True)[0].columns[0]
        == "subject#"
    )
    shells, _ = load_abalone(sex="one-hot", folder=real_folder(), as_frame=True)
    assert shells[["sex=M", "sex=F", "sex=I"]].sum().tolist() == [1528, 1307, 1342]
    assert (shells["whole_weight"] > shells["shell_weight"]).mean() > 0.99


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_abalone(sex="both"), "sex must be 'code' or 'one-hot', got 'both'"),
        (lambda: load_parkinsons(drop="age"), "drop must be 'subject' or 'motor', got 'age'"),
        (lambda: load_parkinsons(parts="ten"), "parts must be 'width' or 'deciles', got 'ten'"),
    ],
)
def test_readings_are_checked(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- Finding files ---


def test_a_damaged_or_missing_file_is_named(tmp_path, monkeypatch):
    (tmp_path / "abalone.data").write_text("M,1,2\n")
    with pytest.raises(ValueError, match=r"abalone.data is not the file that the paper used"):
        load_abalone(folder=tmp_path)
    monkeypatch.setenv("PRIL_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="is not the file"):
        load_abalone()
    with pytest.raises(FileNotFoundError, match=r"there is no parkinsons_updrs.data in"):
        load_parkinsons(folder=tmp_path)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serve a folder on loopback in the UCI repository's place, with an empty cache."""
    site = tmp_path / "site"
    (site / "abalone").mkdir(parents=True)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(site))

        def log_message(self, *arguments):
            self.server.asked += 1

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as running:
        running.asked = 0
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        monkeypatch.setattr(datasets, "UCI", f"http://127.0.0.1:{running.server_port}/")
        monkeypatch.setenv("PRIL_CACHE", str(tmp_path / "cache"))
        monkeypatch.delenv("PRIL_DATA", raising=False)
        yield running, site
        running.shutdown()
        thread.join()


def test_a_file_is_fetched_once_and_then_cached(server):
    running, site = server
    source = Path(REAL, "abalone.data")
    if not source.is_file():
        pytest.skip("abalone.data is not in the folder PRIL_DATA, to be served from there")
    shutil.copy(source, site / "abalone" / "abalone.data")
    assert load_abalone()[0].shape == (4177, 8)
    assert running.asked == 1
    assert load_abalone()[0].shape == (4177, 8)
    assert running.asked == 1


def test_a_wrong_or_missing_file_at_the_server_is_an_error_with_the_way_out(server, tmp_path):
    _, site = server
    with pytest.raises(OSError, match=r"could not fetch abalone.data .* set PRIL_DATA"):
        load_abalone()
    (site / "abalone" / "abalone.data").write_text("not the data")
    with pytest.raises(OSError, match=r"could not fetch abalone.data .*hash"):
        load_abalone()
    assert not list((tmp_path / "cache").glob("abalone*"))


def test_without_a_network_the_error_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets, "UCI", "http://127.0.0.1:9/")
    monkeypatch.setenv("PRIL_CACHE", str(tmp_path))
    monkeypatch.delenv("PRIL_DATA", raising=False)
    with pytest.raises(OSError, match=r"download it by hand from http://127.0.0.1:9/abalone"):
        load_abalone()
