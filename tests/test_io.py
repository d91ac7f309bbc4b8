"""Model files: what comes back, and what is refused. Real files throughout."""

import copy
import io
import json
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import tracemalloc
import types
import warnings
import zipfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit
from sklearn.neighbors import KNeighborsTransformer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils.fixes import parse_version

import learners
import pril
from pril.io.model_files import FORMAT, read, replace_file, write
from pril.metrics import interval_accuracy_scorer

pytestmark = pytest.mark.filterwarnings("ignore::pril.errors.FeatureRangeWarning")

rng = np.random.default_rng(0)
X, MORE = rng.uniform(-1, 1, (2, 60, 4))
LABELS = np.sort(rng.integers(1, 5, (60, 2)), axis=1)
EXACT = LABELS[:, 0]
CLASSES = [1, 2, 3, 4]
TABLE = pd.DataFrame(X, columns=list("abcd")).assign(
    a=np.where(X[:, 0] > 0.8, np.nan, X[:, 0]), e=np.where(X[:, 1] > 0, "up", "down")
)
DAMAGED = "is damaged or not a model file of pril: "


def columns():
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["e"]),
        remainder="passthrough",
    )


def arrow_table(rows):
    """A table with numbers and words."""
    words = [f"{word}{k % 3}" for k, word in enumerate(["up", "down"] * rows)][:rows]
    columns = {"n": pa.array(range(rows), pa.float64()), "w": pa.array(words, pa.string())}
    return pa.table(columns)


def pipeline(*steps):
    return make_pipeline(*steps, pril.PRIL(random_state=0))


def frozen():
    return FrozenEstimator(pril.PRIL(random_state=0).fit(X, LABELS))


# Every learner, every other type, every layout of rows.
MODELS = {cls.__name__: cls(random_state=0) for cls in learners.ALL} | {
    "last iterate": pril.PRIL(average=False, random_state=0),
    "unsigned": pril.MPRIL(signed=False, classes=CLASSES, random_state=0),
    "half-life": pril.OrderedLogit(half_life=20, random_state=0),
    "names": pril.PRIL(random_state=0),
    "budget": pril.KernelPRIL(budget=7, kernel_params={"gamma": 0.5}, random_state=0),
    "polynomial": pril.KernelPRIL(kernel="poly", average=False, random_state=0),
    "sparse": pril.KernelPRIL(random_state=0),
    "float32": pril.KernelPRIL(random_state=0),
    "Fortran": pril.KernelPRIL(random_state=0),
    "precomputed": pril.KernelPRIL(kernel="precomputed", random_state=0),
    "map": pipeline(pril.PolynomialMap(degree=2)),
    "map, pandas": pipeline(pril.PolynomialMap(coef0=0).set_output(transform="pandas")),
    "landmarks": pipeline(pril.LandmarkFeatures(5, random_state=0)),
    "landmarks, sparse": pipeline(pril.LandmarkFeatures(5, random_state=0)),
    "encoder": pipeline(pril.ColumnEncoder()),
    "encoder, bounded": pipeline(pril.ColumnEncoder(bounded=True, words=("w",))),
    "ranges": pril.PredictionRanges(pril.PRIL(random_state=0), random_state=0),
    "frozen ranges": pril.PredictionRanges(frozen()),
    "ranges by class": pril.PredictionRanges(
        frozen(), coverage=0.3, guarantee="contain", by="class"
    ),
    "ranges by a column": pril.PredictionRanges(frozen(), coverage=0.3, guarantee="touch", by=0),
    "frozen": frozen(),
}
FOREIGN = {  # with steps of other libraries
    "scaler": pipeline(StandardScaler()),
    "table": pipeline(columns()),
    "table, pandas": pipeline(columns().set_output(transform="pandas")),
    "frozen scaler": pipeline(FrozenEstimator(StandardScaler().fit(X))),
    "nested": make_pipeline(StandardScaler(), pipeline(pril.PolynomialMap())),
    "ranges in front": make_pipeline(StandardScaler(), pril.PredictionRanges(frozen())),
    "neighbours": pipeline(KNeighborsTransformer(n_neighbors=3)),  # it keeps a sparse matrix
    "learners inside": pipeline(
        FeatureUnion([("map", pril.PolynomialMap()), ("scaled", StandardScaler())]),
        SelectFromModel(pril.OrderedLogit(random_state=0), threshold=-np.inf),
    ),
}
ROWS = {
    **dict.fromkeys(("half-life", "sparse", "landmarks, sparse", "neighbours"), csr_array(X)),
    **dict.fromkeys(("names", "map, pandas"), TABLE[["b", "c"]]),
    **dict.fromkeys(("encoder", "encoder, bounded"), arrow_table(60)),
    **dict.fromkeys(("table", "table, pandas"), TABLE),
    "float32": X.astype(np.float32),
    "Fortran": np.asfortranarray(X),
    "precomputed": X @ X.T,
}


def fitted(name):
    """Return a fitted model, the rows and the labels that it learned from."""
    model, rows = copy.deepcopy((MODELS | FOREIGN)[name]), ROWS.get(name, X)
    labels = EXACT if name == "PRank" else LABELS
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "every range is the full scale")
        return model.fit(rows, labels), rows, labels


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The bytes of a file for each model."""
    path = tmp_path_factory.mktemp("files") / "model.pril"
    found = {}
    for name in MODELS | FOREIGN:
        pril.save(fitted(name)[0], path)
        found[name] = path.read_bytes()
    return found


@pytest.fixture(scope="module")
def data(files):
    return files["PRIL"]


@pytest.fixture(scope="module")
def small():
    return fitted("PRIL")[0]


@pytest.fixture(scope="module")
def spot(tmp_path_factory):
    """A path to write over and over."""
    return tmp_path_factory.mktemp("spot") / "file.pril"


def same(one, other):
    """Bit for bit, the sign of zero included."""
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


def learner_of(model):
    while not hasattr(model, "partial_fit"):
        model = model.steps[-1][1] if hasattr(model, "steps") else model.estimator
    return model


def run(script, *arguments, **options):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout


# --- What comes back -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS | FOREIGN)
def test_a_loaded_model_predicts_and_learns_on_the_same(name, files, spot):
    model, rows, labels = fitted(name)
    spot.write_bytes(files[name])
    again = pril.load(spot)
    learner_of(model).classes = learner_of(again).classes  # which come back as an array
    assert re.sub("0x\\w+", "", repr(again)) == re.sub("0x\\w+", "", repr(model))
    assert same(again.predict(rows), model.predict(rows))
    if "ranges" in name:
        if name != "ranges in front":
            assert same(again.predict_range(rows), model.predict_range(rows))
            assert again.coverage_report(rows, labels) == model.coverage_report(rows, labels)
        return
    assert same(again.decision_function(rows), model.decision_function(rows))
    if name == "precomputed":
        return
    steps = model[:-1] if hasattr(model, "steps") and len(model) > 1 else None
    features = rows if steps is None else steps.transform(rows)
    if name == "nested":
        features = model[-1][:-1].transform(features)
    for one in (model, again):
        learner_of(one).partial_fit(features, labels)
    pril.save(again, spot)
    for one in (again, pril.load(spot)):
        assert same(one.decision_function(rows), model.decision_function(rows))


@pytest.mark.parametrize("name", MODELS)
def test_equal_models_give_equal_bytes(name, files, spot):
    spot.write_bytes(files[name])
    again = pril.load(spot)
    for one in (again, copy.deepcopy(again), pickle.loads(pickle.dumps(again))):  # noqa: S301
        pril.save(one, spot)
        assert spot.read_bytes() == files[name]


@pytest.mark.slow
def test_every_process_writes_the_same_bytes(files, tmp_path):
    script = (
        "import sys, runpy, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "module = runpy.run_path(sys.argv[1])\n"
        "for name in ('PRIL', 'budget', 'encoder', 'frozen ranges', 'last iterate', 'scaler'):\n"
        "    module['pril'].save(module['fitted'](name)[0], f'{sys.argv[2]}/{name}')\n"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    options = {"env": {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": path}}
    run(script, __file__, tmp_path, **options)
    for name in os.listdir(tmp_path):
        written = (tmp_path / name).read_bytes()
        if name == "scaler":  # skops gives other bytes in every process; all the rest is equal
            one, other = members_of(written), members_of(files[name])
            skops = [members_of(file.pop("foreign.skops")) for file in (one, other)]
            assert len(skops[0]) == len(skops[1])
            assert one == other
        else:
            assert written == files[name]


@pytest.mark.parametrize(
    "classes",
    [
        range(1, 5),
        CLASSES,
        tuple(CLASSES),
        np.array(CLASSES, dtype=np.uint8),
        [np.int64(one) for one in CLASSES],
        [1.0, 2.5, 3.25, 4.0],
        np.array([1, 2, 3, 4], dtype=np.float16),
        pd.Index(CLASSES),
        pd.Series(CLASSES),
        pd.Index(["bad", "fair", "good", "déjà vu"]),
        pd.Series(["bad", "fair", "good", "best"], dtype="category"),
        np.array(["bad", "fair", "good", "best"]),
        [np.str_("bad"), "fair", "good", "best"],
        [False, True],
        pd.IntervalIndex.from_breaks([0, 1, 2, 3]),
        pd.IntervalIndex.from_breaks([-np.inf, 0.1, 0.2, np.inf], closed="left"),
    ],
    ids=repr,
)
def test_classes_of_any_kind_come_back(classes, tmp_path):
    named = list(classes)
    labels = np.array([named[0], named[-1]], dtype=None if isinstance(named[0], str) else object)
    labels = labels if isinstance(named[0], pd.Interval) else [named[0], named[-1]]
    model = pril.PRIL(classes=classes).fit(X[:2], labels)
    pril.save(model, tmp_path / "model.pril")
    again = pril.load(tmp_path / "model.pril")
    assert type(again.classes) is np.ndarray
    assert again.classes.tolist() == named
    assert again.classes_.dtype == model.classes_.dtype
    assert again.order_.tolist() == named
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert same(again.partial_fit(X[:2], labels).coef_, model.partial_fit(X[:2], labels).coef_)
    pril.save(model, tmp_path / "model.pril")
    pril.save(pril.load(tmp_path / "model.pril"), tmp_path / "again.pril")
    assert (tmp_path / "again.pril").read_bytes() == (tmp_path / "model.pril").read_bytes()


@pytest.mark.parametrize("number", [0.5, np.float64(0.5), np.float32(0.1), 3, np.int16(3)])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_numbers_of_numpy_come_back_as_those_of_python(number, kernel, tmp_path):
    """To a learner they are the same: neither makes float32 rows float64."""
    rows = X.astype(np.float32)
    model = pril.KernelPRIL(kernel=kernel, gamma=number, random_state=0).fit(rows, LABELS)
    pril.save(model, tmp_path / "model.pril")
    again = pril.load(tmp_path / "model.pril")
    assert type(again.gamma) in (int, float)
    assert again.gamma == number
    assert same(again.latent(rows), model.latent(rows))


def test_a_file_says_what_it_is(files, spot):
    model = fitted("table")[0]
    write(model, spot, kind="model", notes={"rows": 60, "share": 0.5})
    _, about = read(spot, kind="model")
    ours = {"pril", "numpy", "scipy", "scikit-learn", "numba", "python"}
    assert about.versions["pril"] == pril.__version__
    assert set(about.versions) == {*ours, "skops"}
    assert about.notes == {"rows": 60, "share": 0.5}
    spot.write_bytes(files["frozen ranges"])
    _, about = read(spot, kind="model")
    assert set(about.versions) == ours


def test_a_checkpoint_holds_more_than_a_model(data, spot, tmp_path):
    spot.write_bytes(data)
    model = pril.load(spot)
    content = {
        "model": model,
        "new": pril.PRIL(),
        "type": [1, 2.5, "three", None, True, [float("inf"), float("-inf")], 10**30, "\ud800"],
        "content": {"type": "foreign", "items": {}},
        "numpy": [np.float64(0.1), np.int8(-3), np.bool_(True), np.uint64(2**64 - 1)],
        "array": np.arange(3, dtype=np.uint32),
        "encoder": pril.ColumnEncoder(words=("a",)),
    }
    write(content, tmp_path / "check", kind="checkpoint", notes={"at": 7})
    again, about = read(tmp_path / "check", kind="checkpoint")
    assert list(again) == list(content)
    for name in ("type", "content", "numpy"):
        assert again[name] == content[name]
    assert list(map(type, again["numpy"])) == [float, int, bool, int]
    assert same(again["array"], content["array"])
    assert vars(again["new"]) == vars(content["new"])
    assert again["encoder"].words == ("a",)
    assert not hasattr(again["encoder"], "numbers_")
    assert same(again["model"].predict(X), model.predict(X))
    assert about.notes == {"at": 7}
    with pytest.raises(ValueError, match="is a checkpoint, not a model"):
        pril.load(tmp_path / "check")
    with pytest.raises(ValueError, match="is a model, not a checkpoint"):
        read(spot, kind="checkpoint")


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_a_kernel_without_support_comes_back(kind, tmp_path):
    model = pril.KernelPRIL(classes=CLASSES).partial_fit(kind(X[:2]), [(1, 4), (1, 4)])
    pril.save(model, tmp_path / "model.pril")
    again = pril.load(tmp_path / "model.pril")
    assert len(again.dual_coef_) == 0
    for one in (model, again):
        one.partial_fit(kind(X), LABELS)
    assert same(again.latent(X), model.latent(X))


def test_a_support_row_without_features_comes_back(tmp_path):
    rows = csr_array(np.vstack([np.zeros_like(X[:1]), X]))
    model = pril.KernelPRIL(classes=CLASSES).partial_fit(rows, [1, *LABELS[:, 0]])
    assert model.support_[0] == 0
    pril.save(model, tmp_path / "model.pril")
    assert same(pril.load(tmp_path / "model.pril").latent(X), model.latent(X))


@pytest.mark.parametrize("rows", [0, 1, 12])
def test_an_encoder_comes_back_and_learns_on(rows, tmp_path):
    encoder = pril.ColumnEncoder(bounded=True).partial_fit(arrow_table(rows))
    write({"encoder": encoder}, tmp_path / "check", kind="checkpoint")
    again = read(tmp_path / "check", kind="checkpoint")[0]["encoder"]
    for one in (encoder, again):
        one.partial_fit(arrow_table(17))
    assert again.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
    one, other = (coder.transform(arrow_table(20)).toarray() for coder in (encoder, again))
    assert same(one, other)


SCORED_BY_LEARNER = pytest.param(
    None,
    marks=pytest.mark.skipif(
        parse_version(sklearn.__version__) < parse_version("1.8"),
        reason="before 1.8 such a search holds types that a file may not hold",
    ),
)


@pytest.mark.parametrize("scoring", [SCORED_BY_LEARNER, "accuracy", interval_accuracy_scorer])
@pytest.mark.parametrize("cv", [3, KFold(3, shuffle=True, random_state=0), TimeSeriesSplit(3)])
def test_a_search_is_kept_with_its_results(scoring, cv, spot):
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = pipeline(StandardScaler())
    search = GridSearchCV(model, {"pril__max_iter": [1, 5]}, scoring=scoring, cv=cv).fit(X, y)
    pril.save(search, spot)
    again = pril.load(spot)
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    assert again.best_params_ == search.best_params_
    found = [one.cv_results_["mean_test_score"] for one in (again, search)]
    np.testing.assert_array_equal(*found)
    assert again.score(X, y) == search.score(X, y)


def test_trusted_types_are_our_estimators_and_those_of_scikit_learn():
    ours = [name for name in pril.io.trusted_types() if name.startswith("pril.")]
    for name in ours:
        module, _, kind = name.rpartition(".")
        found = getattr(__import__(module, fromlist=[kind]), kind)
        assert hasattr(found, "get_params") or module == "pril.metrics", name


def test_reading_imports_no_more_than_it_needs(files, tmp_path):
    (tmp_path / "linear").write_bytes(files["PRIL"])
    (tmp_path / "table").write_bytes(files["encoder"])
    script = (
        "import pril, sys\n"
        "imported = lambda: [n for n in sys.argv[3:] if n in sys.modules]\n"
        "pril.io\n"
        "print(*imported())\n"
        "pril.load(sys.argv[1])\n"
        "print(*imported())\n"
        "pril.load(sys.argv[2])\n"
        "print(*imported())\n"
    )
    names = [
        "sklearn",
        "numba",
        "pril.learners.linear",
        "sklearn.pipeline",
        "sklearn.preprocessing",
    ]
    names += ["pril.tables", "pril.learners.kernel_pril", "dask", "skops", "importlib.metadata"]
    said = run(script, tmp_path / "linear", tmp_path / "table", *names).splitlines()
    assert said[0] == ""
    # Newer versions of scikit-learn import the last one.
    assert {*said[1].split()} - {"importlib.metadata"} == {"sklearn", "pril.learners.linear"}
    assert not {"pril.learners.kernel_pril", "dask", "skops"} & set(said[2].split())


def test_only_foreign_steps_need_skops(files, tmp_path):
    (tmp_path / "own").write_bytes(files["PRIL"])
    (tmp_path / "foreign").write_bytes(files["scaler"])
    said = run(
        "import sys; sys.modules['skops'] = None\n"
        "import pril\n"
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import StandardScaler\n"
        "model = pril.load(sys.argv[1])\n"
        "pril.save(model, sys.argv[1])\n"
        "for call in (lambda: pril.save(make_pipeline(StandardScaler(), model), sys.argv[1]),\n"
        "             lambda: pril.load(sys.argv[2])):\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n",
        tmp_path / "own",
        tmp_path / "foreign",
    ).splitlines()
    assert (
        said
        == ["steps of other libraries need skops: in a clone of pril run pip install '.[io]'"] * 2
    )


# Dicts whose keys are the user's, or scikit-learn's.
FREE = {"words", "counts", "ranks", "learned_with", "sklearn_output_config", "kernel_params"}
# A digest of what files of a format hold. If it changes, so must FORMAT: else older files are called
# damaged. Add a line for the new number; never change that of a format that was released.
SCHEMAS = {6: "14c1d4eb8546c9f8"}


def described(name, data):
    """Yield the places of a file, each with the type of what is there."""
    members = members_of(data)
    for path, item in places(json.loads(members["pril.json"])["content"]):
        keys = [key for key in path if isinstance(key, str)]
        kind = type(item).__name__
        if kind == "str" and item in members:
            array = np.load(io.BytesIO(members[item]))
            is_linear = name in {cls.__name__ for cls in learners.LINEAR}
            kind = f"{array.dtype} {array.shape if is_linear else array.ndim}"
        elif keys[-1] in ("type", "dtype"):
            kind = item
        if not FREE & {*keys} and keys[-1] != "transform_input":  # as old as scikit-learn 1.6
            yield f"{name} {'.'.join(keys)}: {kind}\n"


def test_a_new_schema_has_a_new_number(files, spot):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pril.save(pril.OrderedBoosting(max_iter=2, random_state=0).fit(TABLE[["b"]], EXACT), spot)
    own = {name: files[name] for name in MODELS} | {"boosting": spot.read_bytes()}
    lines = sorted({line for name, data in own.items() for line in described(name, data)})
    digest = sha256("".join(lines).encode()).hexdigest()[:16]
    assert SCHEMAS.get(FORMAT) == digest, "files hold something else: raise FORMAT, see SCHEMAS"


def test_every_key_is_documented(files):
    text = (Path(__file__).parents[1] / "docs" / "reference" / "model-files.md").read_text()
    for name in MODELS:
        header = json.loads(members_of(files[name])["pril.json"])
        for path, _ in places(header["content"]):
            is_free = path[-2:-1] == ("items",) and path[-3] in FREE
            if isinstance(path[-1], str) and "parameters" not in path[-2:-1] and not is_free:
                assert f"`{path[-1]}`" in text, path


# --- Damaged files -------------------------------------------------------------------------------


def refused(spot, data, match=DAMAGED):
    spot.write_bytes(data)
    with pytest.raises(ValueError, match=match) as caught:
        pril.load(spot)
    message = str(caught.value)
    assert message.startswith(str(spot))
    assert type(caught.value) is pril.errors.InputError
    assert "\n" not in message
    return message


@pytest.mark.slow
def test_truncated_flipped_and_added_bytes(data, spot):
    for i in range(len(data)):
        refused(spot, data[:i])
        refused(spot, data[:i] + bytes([data[i] ^ (1 << i % 8)]) + data[i + 1 :])
    for extra in (b"\0", b"\n", data):
        refused(spot, data + extra)
        refused(spot, extra + data)


@given(garbage=st.binary(max_size=300))
def test_any_bytes(garbage, spot):
    refused(spot, garbage)
    body = b"PK\3\4" + garbage + b"pril sha256 "
    refused(spot, body + sha256(body).hexdigest().encode())


@pytest.mark.parametrize("start", [b"", b"PK\3\4", b"5.1,3.5,1.4,0.2\n"])
def test_a_huge_file_that_is_no_model_is_not_read(start, tmp_path):
    path = tmp_path / "huge"
    path.write_bytes(start)
    os.truncate(path, 2**36)  # 64 GiB of nothing: reading them would take minutes, or all memory
    with pytest.raises(ValueError, match="it is not a zip archive of pril"):
        pril.load(path)


def test_a_large_file_is_in_memory_once(data, tmp_path):
    path = tmp_path / "large"
    path.write_bytes(data[:4])
    os.truncate(path, 2**28)
    with path.open("ab") as file:
        file.write(data[-76:])
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="its checksum is wrong"):
            pril.load(path)
        assert tracemalloc.get_traced_memory()[1] < 1.1 * 2**28
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "pipe"])
def test_devices_and_pipes_are_not_read(device, tmp_path):
    if device == "pipe":
        device = tmp_path / "pipe"
        os.mkfifo(device)
    with pytest.raises(ValueError, match="it is not a regular file"):
        pril.load(device)


# --- Files made by hand, with the right checksum -------------------------------------------------


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members, compression=zipfile.ZIP_STORED, comment=b""):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.comment = comment
        for name, member in members.items():
            archive.writestr(name, member)
    return buffer.getvalue()


def sealed(members, compression=zipfile.ZIP_STORED):
    body = zipped(members, compression, b"pril sha256 " + b"0" * 64)[:-64]
    return body + sha256(body).hexdigest().encode()


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def places(tree, path=()):
    """Yield every place of a header with what is there."""
    for key, item in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield (*path, key), item
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def changed(tree, path, edit):
    """Return a copy of a header in which `edit` was called with a container and a key."""
    tree = item = copy.deepcopy(tree)
    for key in path[:-1]:
        item = item[key]
    edit(item, path[-1])
    return tree


def refused_or_harmless(spot, members, header, rows):
    """Load a file; one that is not refused must work. Return the message, None if it works."""
    text = json.dumps(header)
    kept = {name: member for name, member in members.items() if f'"{name}"' in text}
    if "foreign.skops" in members:
        kept["foreign.skops"] = members["foreign.skops"]
    spot.write_bytes(sealed({**kept, "pril.json": text.encode()}))
    try:
        model = pril.load(spot)
    except ValueError as error:
        message = str(error)
        assert message.startswith(str(spot)), message
        assert "\n" not in message
        return message
    with suppress(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert len(model.predict(rows)) == rows.shape[0]
    return None


# Of every model some places, which differ from model to model; slowly, all of them.
SOME = pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])


@SOME
@pytest.mark.parametrize("name", MODELS)
def test_every_value_of_a_header_replaced(name, step, files, spot):
    """Values of other types, a key left out, a key too many: refused with the place, or right."""
    members, rows = members_of(files[name]), ROWS.get(name, X)
    header = json.loads(members.pop("pril.json"))
    odd = [None, True, -1, 2**70, 1.5, "x", [], {}, {"type": "dict", "items": {}}]

    def put(value):
        return lambda item, key: item.__setitem__(key, value)

    for number, (path, before) in enumerate(places(header), list(MODELS).index(name)):
        if number % step:
            continue
        for value in odd[number // step % 8 :: 8]:  # the same place of another model gets others
            if type(value) is not type(before):
                message = refused_or_harmless(
                    spot, members, changed(header, path, put(value)), rows
                )
                # What is not a parameter, a note or absent is of one type only.
                if path[0] == "content" and "learned" in path and before is not None:
                    is_number = isinstance(before, int | float) and isinstance(value, int | float)
                    is_free = "values" in path or path[-1] in ("margin", "rows")
                    is_free |= path[-1] == "items" and before == {} and value == []  # no pairs
                    assert message or is_number or is_free or value is None, (path, value)
                assert message is None or DAMAGED in message or "format" in message
        if isinstance(before, dict) and path[0] != "notes":
            message = refused_or_harmless(
                spot, members, changed(header, path, lambda i, k: i[k].update(more=1)), rows
            )
            assert message or path == ("versions",) or path[-1] == "items", path
        is_free = "items" in path[-2:-1] and path[-3] not in ("memory", "base", "moments")
        if isinstance(path[-1], str) and path[0] != "versions" and not is_free:
            removed = changed(header, path, lambda item, key: item.__delitem__(key))
            assert refused_or_harmless(spot, members, removed, rows), path


NOT_NEGATIVE = {"clock", "counts", "size", "slopes", "turns", "kinds", "table", "source", "count"}
NOT_NEGATIVE |= {"squares", "variance", "scale", "indices", "indptr"}
NOT_NEGATIVE |= {"seen", "labels", "at_random", "chosen"}


LISTS = {"unbounded", "growing", "separated"}  # of what rows do not determine: of any length


@SOME
@pytest.mark.parametrize("name", MODELS)
def test_every_array_damaged(name, step, files, spot):
    members = members_of(files[name])
    header = json.loads(members["pril.json"])
    arrays = {item: path for path, item in places(header) if str(item).endswith(".npy")}
    assert set(arrays) == set(members) - {"pril.json"}
    for member, path in arrays.items():
        array = np.load(io.BytesIO(members[member]))
        key = path[-2] if path[-1] == "member" else path[-1]
        other = np.float32 if array.dtype == np.float64 else np.float64
        other = np.uint32 if {"rows", "landmarks"} & set(path) else other
        wrong = {
            "another type": array.astype(other),
            "another byte order": array.astype(array.dtype.newbyteorder(">")),
            "objects": array.astype(object),
            "one dimension more": array[np.newaxis],
            "one more": np.concatenate([array, np.ones_like(array, shape=(1, *array.shape[1:]))]),
        }
        if array.dtype.kind == "f" and array.size:
            wrong["NaN"] = np.full_like(array, np.nan)
            if key not in ("low", "high"):
                wrong["infinite"] = np.full_like(array, np.inf)
        if key in NOT_NEGATIVE and array.size:
            wrong["negative"] = -1 - np.abs(array)
        if key in ("n", "mean_n") and array.size > 1:
            wrong["out of order"] = np.arange(len(array)) * (1e6 if key == "n" else -1e200)
        if key == "projection":
            wrong["Fortran's order"] = np.asfortranarray(array)
        for number, (way, value) in enumerate(wrong.items(), list(MODELS).index(name)):
            if number % step:
                continue
            if way == "one more" and key in LISTS:
                continue
            if way == "out of order" and not np.any(array):  # no round was learned
                continue
            message = refused(spot, sealed({**members, member: npy(value)}))
            assert "content" in message, (path, way)
            if way in ("NaN", "infinite", "negative", "another type"):
                assert str(key) in message, (path, way, message)
        rest = {other: members[other] for other in members if other != member}
        assert str(key) in refused(spot, sealed(rest))
    assert "x.npy" in refused(spot, sealed({**members, "x.npy": npy(np.zeros(3))}))


@pytest.mark.parametrize(
    ("name", "key", "last"),
    [
        ("PRIL", "n_iter", 2**63 - 1),
        ("KernelPRIL", "origin", 2**53),
    ],
)
def test_numbers_at_their_limits(name, key, last, files, spot):
    members = members_of(files[name])
    header = json.loads(members["pril.json"])
    [path] = [path for path, _ in places(header) if path[-1] == key]
    for value, is_right in (
        (0, name != "KernelPRIL"),
        (last, True),
        (-1, False),
        (last + 1, False),
    ):
        forged = changed(header, path, lambda item, key, value=value: item.update({key: value}))
        data = sealed({**members, "pril.json": json.dumps(forged).encode()})
        if is_right:
            spot.write_bytes(data)
            assert len(pril.load(spot).predict(X)) == len(X)
        else:
            assert key in refused(spot, data)


def test_sparse_rows_made_by_hand(files, spot):
    members = members_of(files["sparse"])
    header = json.loads(members["pril.json"])
    [name] = [name for path, name in places(header) if path[-1] == "indptr"]
    right = np.load(io.BytesIO(members[name]))
    for wrong in (right[:0], right + 1, np.concatenate([[0], right[-1:], right[1:-2], right[-1:]])):
        assert "indptr must ascend from 0" in refused(spot, sealed({**members, name: npy(wrong)}))
    for wrong in (right[:-1], np.append(right, right[-1] + 1)):
        message = refused(spot, sealed({**members, name: npy(wrong)}))
        assert "as many indices as numbers" in message


def test_one_class_and_one_named_feature_come_back(tmp_path):
    model = pril.PRIL().fit(TABLE[["b"]], [3] * 60)
    pril.save(model, tmp_path / "model.pril")
    again = pril.load(tmp_path / "model.pril")
    assert again.predict(TABLE[["b"]]).tolist() == [3] * 60
    assert (again.order_.tolist(), again.feature_names_in_.tolist()) == ([3], ["b"])


def test_a_polynomial_of_the_largest_degree(spot):
    pril.save(pipeline(pril.PolynomialMap(degree=1000, coef0=0)).fit(X[:, :1], LABELS), spot)
    assert pril.load(spot)[0].degree == 1000
    with pytest.raises(TypeError, match="1 features to the degree 1001"):
        pril.save(pipeline(pril.PolynomialMap(degree=1001, coef0=0)).fit(X[:, :1], LABELS), spot)


def test_a_file_made_by_hand_can_be_right(data, spot):
    spot.write_bytes(sealed(members_of(data)))
    assert same(pril.load(spot).predict(X), fitted("PRIL")[0].predict(X))


def test_thresholds_may_be_out_of_order_by_rounding(data, spot):
    members = members_of(data)
    found = list(places(json.loads(members["pril.json"])))
    names = {key: item for path, item in found for key in path[-2:] if str(item).endswith(".npy")}
    n = np.zeros_like(np.load(io.BytesIO(members[names["n"]])))
    members[names["mean_n"]] = npy(n)
    for error in (1e-4, 1e-2):
        n[:] = 1e6 + np.arange(len(n)) * error  # they should not increase
        forged = sealed({**members, names["n"]: npy(n)})
        if error < 1e-3:
            spot.write_bytes(forged)
            assert (np.diff(pril.load(spot).thresholds_) >= 0.0).all()
        else:
            assert "memory.n must not increase" in refused(spot, forged)


def test_headers_that_are_none(data, spot):
    members = members_of(data)
    text = members["pril.json"]
    for wrong, said in {
        b"{": "Expecting property name",
        b"[2]": "",
        b'"format"': "",
        b"\xff\xfe{}": "",
        b"[" * 10**6: "recursion",
        b"[" * 10**5 + b"]" * 10**5: "recursion",
        b'{"format": ' + b"1" * 5000 + b"}": "4300 digits",
        text.replace(b'"notes"', b'"notes": {}, "notes"'): "header was not written by pril",
        text.replace(
            b'"average": true', b'"average": false, "average": true'
        ): "header was not written by pril",
        text.replace(b'"tol": null', b'"tol": 1e999'): "",
        text.replace(b'"tol": null', b'"tol": NaN'): "",
        text.replace(b'"tol": null', b'"tol": 1.00'): "header was not written by pril",
        text.replace(b'"tol": null', b' "tol": null'): "header was not written by pril",
    }.items():
        assert wrong != text
        assert said in refused(spot, sealed({**members, "pril.json": wrong}))
    for members in ({}, {"a.json": b"{}"}, {"pril.json": b"[]"}, {"pril.json": b"{}"}):
        refused(spot, sealed(members))


def test_other_formats(data, spot):
    members = members_of(data)
    for number, said in {
        FORMAT
        + 1: rf"newer version of pril \(format {FORMAT + 1}\); this one reads format {FORMAT}: upgrade",
        FORMAT
        - 1: rf"was written by an earlier version of pril \(format {FORMAT - 1}\); this one reads"
        f" format {FORMAT}: learn the model again",
        1: r"earlier version of pril \(format 1\)",
    }.items():
        header = json.loads(members["pril.json"]) | {"format": number, "more": "new"}
        refused(spot, sealed({**members, "pril.json": json.dumps(header).encode()}), said)


def test_archives_that_are_larger_than_they_look(data, spot):
    members = members_of(data)
    assert "a member is compressed" in refused(spot, sealed(members, zipfile.ZIP_DEFLATED))
    bomb = sealed({**members, "bomb.npy": bytes(10**8)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 10**6
    assert "a member is compressed" in refused(spot, bomb)
    # All entries of the directory point at one member: small to store, large to read.
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.comment = b"pril sha256 " + b"0" * 64
        archive.writestr("0.npy", npy(np.zeros(1000)))
        for i in range(1, 100):
            twin = zipfile.ZipInfo(f"{i}.npy")
            for field in ("CRC", "file_size", "compress_size", "header_offset"):
                setattr(twin, field, getattr(archive.infolist()[0], field))
            archive.filelist.append(twin)
    body = buffer.getvalue()[:-64]
    assert "larger than the file" in refused(spot, body + sha256(body).hexdigest().encode())


def test_members_with_odd_names(data, spot):
    for name in ("../evil.npy", "/etc/evil.npy", "a/b.npy", "..", "c:evil", "é.npy"):
        assert "odd names" in refused(spot, sealed({**members_of(data), name: b""}))
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.filterwarnings("ignore", "Duplicate name")
        archive.comment = b"pril sha256 " + b"0" * 64
        for name, member in [*members_of(data).items(), ("0.npy", b"")]:
            archive.writestr(name, member)
    body = buffer.getvalue()[:-64]
    assert "odd names" in refused(spot, body + sha256(body).hexdigest().encode())


def test_sizes_are_lengths_of_what_is_in_the_file(files, spot):
    """The shape in an array's header is compared with its size before anything is reserved."""
    members = members_of(files["PRIL"])
    for lie in (b"(9**99,)", b"(10**18,)", b"(1000000000000000000,)", b"(-1, -2)", b"(3, 0)", b"3"):
        text = b"{'descr': '<f8', 'fortran_order': False, 'shape': " + lie + b", }"
        head = b"\x93NUMPY\x01\x00" + b"\x76\x00" + text.ljust(117) + b"\n"
        refused(spot, sealed({**members, "0.npy": head + members["0.npy"][128:]}))
    refused(spot, sealed({**members, "0.npy": npy(np.zeros(3), allow_pickle=False)[:-1]}))
    refused(spot, sealed({**members, "0.npy": npy(np.array([len], object), allow_pickle=True)}))
    refused(spot, sealed({**members, "0.npy": b"\x93NUMPY\x02\x00" + members["0.npy"][8:]}))
    refused(spot, sealed({**members, "0.npy": b""}))
    sizes = {"n_features_in", "n_output_features", "degree", "columns"}
    for name in ("PRIL", "KernelPRIL", "map", "landmarks"):
        members = members_of(files[name])
        header = json.loads(members["pril.json"])
        for path, _ in places(header):
            if path[-1] in sizes and (path[-1] != "degree" or name == "map"):
                forged = changed(header, path, lambda item, key: item.__setitem__(key, 10**12))
                tracemalloc.start()
                refused(spot, sealed({**members, "pril.json": json.dumps(forged).encode()}))
                assert tracemalloc.get_traced_memory()[1] < 2**24
                tracemalloc.stop()


# --- Steps of other libraries --------------------------------------------------------------------


def node(module, name, loader, **more):
    return {"__class__": name, "__module__": module, "__loader__": loader, **more}


def constant(value):
    return node("builtins", "str", "JsonNode", content=json.dumps(value))


def scaler_edited(data, edit):
    """Return a file in which skops' description of the scaler's attributes was edited."""
    members = members_of(data)
    inside = members_of(members["foreign.skops"])
    schema = json.loads(inside["schema.json"])
    edit(schema["content"][0]["content"]["content"])
    inside["schema.json"] = json.dumps(schema).encode()
    return sealed({**members, "foreign.skops": zipped(inside)})


def test_foreign_steps_made_by_hand_can_be_right(files, spot):
    spot.write_bytes(scaler_edited(files["scaler"], lambda attributes: None))
    assert pril.load(spot).predict(X).shape == (60,)


@pytest.mark.parametrize(
    ("named", "text"),
    [
        (node("os", "system", "FunctionNode"), "os.system"),
        (node("os", "system", "ConstructorFromReduceNode", content=constant(["x"])), "os.system"),
        (node("trap_module", "Trap", "ObjectNode", content=constant({})), "trap_module.Trap"),
        (node("trap_module", "Trap", "TypeNode"), "trap_module.Trap"),
        (
            node("operator", "methodcaller", "OperatorFuncNode", attrs=constant(["x"])),
            "operator.methodcaller",
        ),
    ],
)
def test_an_unknown_type_is_named_and_not_imported(named, text, files, spot, tmp_path, monkeypatch):
    marker = tmp_path / "marker"
    (tmp_path / "trap_module.py").write_text(f"open({str(marker)!r}, 'w')\nclass Trap: pass")
    monkeypatch.syspath_prepend(str(tmp_path))
    trap = scaler_edited(files["scaler"], lambda attributes: attributes.update(copy=named))
    assert text in refused(spot, trap, "which pril does not load")
    assert not marker.exists()


def test_descriptions_that_no_computer_can_walk(files, spot):
    foreign = files["scaler"]
    nested = constant(1)
    for _ in range(300 if sys.version_info < (3, 12) else 600):  # from 3.12 on, C calls count apart
        nested = node("builtins", "list", "ListNode", content=[nested])
    refused(spot, scaler_edited(foreign, lambda attributes: attributes.update(copy=nested)))
    inner = node("builtins", "str", "JsonNode", content="[" * 10**6)
    refused(spot, scaler_edited(foreign, lambda attributes: attributes.update(copy=inner)))
    # Lists of twice the same list, thirty deep, each described once and then referred to.
    lists = [node("builtins", "list", "ListNode", content=[constant(1)], __id__=1)]
    for i in range(2, 32):
        again = node(None, None, "CachedNode", __id__=i - 1)
        lists.append(node("builtins", "list", "ListNode", content=[lists[-1], again], __id__=i))
    bomb = scaler_edited(foreign, lambda attributes: attributes.update(copy=lists[-1]))
    assert "share an id" in refused(spot, bomb)


def test_foreign_members_that_do_not_fit(files, spot):
    members = members_of(files["scaler"])
    for other in (b"", b"PK\3\4", zipped({}), zipped({"schema.json": b"[" * 10**6})):
        refused(spot, sealed({**members, "foreign.skops": other}))
    packed = zipped(members_of(members["foreign.skops"]), zipfile.ZIP_DEFLATED)
    bomb = zipped({"data.npy": npy(np.zeros(10**7))}, zipfile.ZIP_DEFLATED)
    inside = zipped({**members_of(members["foreign.skops"]), "x.npz": bomb})
    for other in (packed, inside):
        message = refused(spot, sealed({**members, "foreign.skops": other}))
        assert "a member is compressed" in message
    two = members_of(files["learners inside"])["foreign.skops"]
    message = refused(spot, sealed({**members, "foreign.skops": two}))
    assert "nothing uses foreign step 1" in message
    del members["foreign.skops"]
    message = refused(spot, sealed(members))
    assert "must be the number of a foreign step that nothing else uses, not 0" in message


def test_a_learner_as_a_step_before_the_last(data, spot):
    members = members_of(data)
    header = json.loads(members["pril.json"])
    one = header["content"]
    steps = [["a", one], ["b", {**one, "learned": None}]]
    options = {"steps": steps, "transform_input": None, "memory": None, "verbose": False}
    header["content"] = {
        "type": "estimator",
        "name": "Pipeline",
        "parameters": options,
        "learned": {},
    }
    message = refused(spot, sealed({**members, "pril.json": json.dumps(header).encode()}))
    assert "transformers" in message
    assert "PRIL(random_state=0)" in message


def test_a_learner_inside_a_foreign_step_is_checked(files, spot):
    """Its arrays are skops' business, but the compiled loop trusts them as it does all others."""
    members = members_of(files["learners inside"])
    inside = members_of(members["foreign.skops"])
    names = [name for name in inside if name.endswith(".npy")]
    n_refused = 0
    for name in names:
        for wrong in (np.zeros((1, 3)), np.full(3, np.nan)):
            forged = zipped({**inside, name: npy(wrong)})
            spot.write_bytes(sealed({**members, "foreign.skops": forged}))
            try:
                pril.load(spot).predict(X)
            except ValueError as error:
                n_refused += "memory." in str(error)
    assert n_refused >= 10  # each array of the memory, both ways


@given(draws=st.data())
def test_any_edit_of_foreign_steps_is_refused_or_harmless(draws, files, spot):
    members = members_of(files["scaler"])
    inside = members_of(members["foreign.skops"])
    root = json.loads(inside["schema.json"])
    path = draws.draw(st.sampled_from([path for path, _ in places(root)]))
    odd = [None, 0, -1, 10**30, 1e308, "", "0.npy", "numpy", "PRIL", [], {}, [[]], True]
    value = draws.draw(st.sampled_from(odd))
    root = changed(root, path, lambda item, key: item.__setitem__(key, value))
    inside["schema.json"] = json.dumps(root).encode()
    spot.write_bytes(sealed({**members, "foreign.skops": zipped(inside)}))
    try:
        pril.load(spot)
    except ValueError as error:
        assert str(spot) in str(error)  # noqa: PT017


# --- What cannot be saved ------------------------------------------------------------------------


def product(a, b):
    return a @ b.T


class Mine(pril.PRIL):
    pass


def with_attribute(model):
    model.mine = 1
    return model


@pytest.mark.parametrize(
    ("model", "error", "match"),
    [
        (pril.PRIL(), NotFittedError, "not fitted"),
        (make_pipeline(StandardScaler(), pril.PRIL()), NotFittedError, "not fitted"),
        (
            pril.PredictionRanges(FrozenEstimator(pril.PRIL(random_state=0).fit(X, LABELS))),
            NotFittedError,
            "not fitted",
        ),
        (StandardScaler().fit(X), TypeError, "got StandardScaler"),
        (make_pipeline(pril.PRIL(), StandardScaler()), TypeError, "got StandardScaler"),
        (
            GridSearchCV(pril.PRIL(), {"max_iter": [1]}, cv=KFold(2), refit=False).fit(X, LABELS),
            TypeError,
            "a model must be a learner of pril",
        ),
        (
            BaggingClassifier(pril.PRIL(), n_estimators=2).fit(X, [1, 2] * (len(X) // 2)),
            TypeError,
            "got BaggingClassifier; save the learner inside it, or the whole by skops.io.dump",
        ),
        ({"a": 1}, TypeError, "got dict"),
        (None, TypeError, "got NoneType"),
        (
            pril.KernelPRIL(kernel=product).fit(X, LABELS),
            TypeError,
            "KernelPRIL cannot be saved: it holds <function product .* no code",
        ),
        (
            pipeline(pril.PolynomialMap()).fit(X, LABELS).set_params(memory="x"),
            TypeError,
            "memory: Expected null, got str",
        ),
        (with_attribute(pril.PRIL().fit(X, LABELS)), TypeError, "no file keeps the attribute mine"),
        (
            pipeline(FunctionTransformer(lambda X: X)).fit(X, LABELS),
            TypeError,
            r"Pipeline\(FunctionTransformer, PRIL\) cannot be saved: it holds .*<lambda>",
        ),
        (
            pril.PRIL(random_state=np.random.RandomState(0)).fit(X, LABELS),
            TypeError,
            "PRIL cannot be saved: it holds RandomState.* set the parameter, such as random_state, to",
        ),
        (Mine().fit(X, LABELS), TypeError, "Mine cannot be saved: it holds .*Mine, .*joblib"),
        (
            pril.PRIL().fit(X, pd.cut(pd.to_datetime(np.round(X[:, 0] * 1e9)), 3)),
            TypeError,
            "PRIL cannot be saved: it holds pandas.*Interval, and classes are kept as numbers",
        ),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(model, error, match, tmp_path):
    (tmp_path / "model.pril").write_bytes(b"old")
    with pytest.raises(error, match=match):
        pril.save(model, tmp_path / "model.pril")
    assert (tmp_path / "model.pril").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.pril"]


def test_rows_on_a_device(tmp_path):
    """What a kernel learner keeps if it learns rows of another kind; test_kernel.py has it learn."""
    xp = pytest.importorskip("array_api_strict")
    model = pril.KernelPRIL().fit(np.eye(3), [1, 2, 3])
    rows, coef, sums = map(xp.asarray, model.memory_[:3])
    model.memory_ = model.memory_._replace(rows=rows, coef=coef, sums=sums)
    with pytest.raises(TypeError, match="a file holds NumPy arrays"):
        pril.save(model, tmp_path / "model.pril")
    assert os.listdir(tmp_path) == []


# --- Paths ---------------------------------------------------------------------------------------
def test_paths_that_cannot_be_read_or_written(small, tmp_path):
    missing = tmp_path / "missing" / "model.pril"
    for function in (pril.load, lambda path: pril.save(small, path)):
        with pytest.raises(FileNotFoundError) as caught:
            function(missing)
        assert caught.value.filename == str(missing)
        with pytest.raises(IsADirectoryError) as caught:
            function(tmp_path)
        assert caught.value.filename == str(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Not a regular file"):
        pril.save(small, tmp_path / "pipe")
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(small, tmp_path):
    tmp_path.chmod(0o500)
    path = tmp_path / "model.pril"
    with pytest.raises(PermissionError) as caught:
        pril.save(small, path)
    assert caught.value.filename == str(path)


def test_text_paths_links_and_modes(small, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pril.save(small, "model.pril")
    usual = tmp_path / "usual"
    usual.touch()
    assert Path("model.pril").stat().st_mode == usual.stat().st_mode
    Path("model.pril").write_bytes(b"old")
    Path("model.pril").chmod(0o640)
    Path("link.pril").symlink_to("model.pril")
    pril.save(small, "link.pril")
    assert Path("link.pril").is_symlink()
    assert Path("model.pril").read_bytes() == data
    assert Path("model.pril").stat().st_mode & 0o777 == 0o640


def test_a_failure_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"old")
    for failure in (ZeroDivisionError(), KeyboardInterrupt(), OSError(2, "No such file", "input")):
        with pytest.raises(type(failure)) as caught, replace_file(path) as file:  # noqa: PT012
            file.write(b"new")
            raise failure
        assert caught.value is failure
    assert path.read_bytes() == b"old"
    with replace_file(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["table.csv"]


def test_a_full_disk(tmp_path, full_disk):
    (tmp_path / "model.pril").write_bytes(b"old")
    model = pril.PRIL().fit(np.eye(3, 5000), [1, 2, 3])
    with full_disk(10_000), pytest.raises(OSError, match="File too large") as refused:
        pril.save(model, tmp_path / "model.pril")
    assert refused.value.filename == str(tmp_path / "model.pril")
    assert (tmp_path / "model.pril").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.pril"]


SAVE_UNTIL_KILLED = """
import os, sys, numpy as np, pril
models = [pril.PRIL().fit(np.eye(n, 20_000), [1, 2, 3] * (n // 3)) for n in (3, 6)]
pril.save(models[0], sys.argv[1])
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        while True:
            for model in models:
                pril.save(model, sys.argv[1])
    print(child, flush=True)
    os.waitpid(child, 0)
    print("dead", flush=True)
"""


@pytest.mark.slow
def test_killed_while_saving(tmp_path):
    path = tmp_path / "model.pril"
    seen = set()

    def stamp():
        file = path.stat()
        return file.st_ino, file.st_mtime_ns

    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SAVE_UNTIL_KILLED, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as forge:
        for attempt in range(200):
            forge.stdin.write("go\n")
            forge.stdin.flush()
            child = int(forge.stdout.readline())
            for _ in range(1 + attempt % 2):  # the first model is in the file, or the second
                before = stamp()
                while stamp() == before:
                    pass
            with suppress(subprocess.TimeoutExpired):  # somewhere in the next saves
                forge.wait(random.uniform(0.0, 0.02))  # noqa: S311
            os.kill(child, signal.SIGKILL)
            assert forge.stdout.readline() == "dead\n"
            model = pril.load(path)
            assert model.n_features_in_ == 20_000
            seen.add(model.t_)
            if attempt >= 10 and len(seen) == 2:
                break
        forge.stdin.close()
    assert len(seen) == 2


# --- Whose fault it is ---------------------------------------------------------------------------


def test_a_dict_with_a_key_twice_is_refused(spot):
    """1 and true, and 1 and 1.0, are one key of a dict: one of the two would be lost."""
    write({"content": {1: "a", 2: "b"}}, spot, kind="checkpoint")
    members = members_of(spot.read_bytes())
    for second in (b"1", b"true", b"1.0"):
        text = members["pril.json"].replace(b'[2, "b"]', b'[%s, "b"]' % second)
        assert text != members["pril.json"]
        spot.write_bytes(sealed({**members, "pril.json": text}))
        with pytest.raises(pril.errors.InputError, match="a dict with different keys"):
            read(spot, kind="checkpoint")


@pytest.mark.parametrize("value", ['"x"', "[1]", "null", '{"type": "dict", "items": {}}'])
def test_parameters_of_a_kernel_are_numbers(files, spot, value):
    members = members_of(files["budget"])
    text = members["pril.json"].decode()
    forged = text.replace('{"gamma": 0.5}', f'{{"gamma": {value}}}')
    assert forged != text
    message = refused(spot, sealed({**members, "pril.json": forged.encode()}))
    assert "kernel_params" in message


LOAD_WITHIN = """
import resource, sys
from pathlib import Path
import pril
pril.load(sys.argv[1])  # so that all is imported and compiled
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 22), resource.RLIM_INFINITY))
try:
    pril.load(sys.argv[2])
except MemoryError:
    print("too little memory")
"""


def test_too_little_memory_is_no_damage(files, spot):
    """A real limit on a process of its own, which has no memory of other tests to spare."""
    pytest.importorskip("resource")
    if not Path("/proc/self/statm").exists():
        pytest.skip("the size of a process is not known here")
    pril.save(pril.PRIL(max_iter=1).fit(np.ones((2, 1 << 20)), [1, 2]), spot)
    small = spot.with_name("small.pril")
    small.write_bytes(files["PRIL"])
    given = [sys.executable, "-c", LOAD_WITHIN, str(small), str(spot)]
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    assert done.stdout == "too little memory\n", done.stderr
    assert pril.load(spot).n_features_in_ == 1 << 20


class Careless(StandardScaler):
    """A step of a user, whose errors are about the user's data."""

    def transform(self, X):
        raise ValueError("no such unit")


def test_bugs_of_ours_stay_bugs(monkeypatch, small, spot):
    """They are neither the fault of a user nor of a library that refuses what a user gave."""
    with pytest.raises(pril.errors.InputError, match="no such unit"), pril.errors.refusing():
        Careless().transform(X)
    with pytest.raises(pril.errors.InputError, match="feature"), pril.errors.refusing():
        StandardScaler().fit(X).transform(X[:, :2])
    bugs = {"pril.io.content.to_npy": lambda array: array.no_such_name}
    for name, bug in bugs.items():
        with monkeypatch.context() as patch:
            patch.setattr(
                name, types.FunctionType(bug.__code__, vars(sys.modules["pril.io.content"]))
            )
            with pytest.raises(AttributeError, match="no_such_name"):
                pril.save(small, spot)
    ours = types.FunctionType((lambda: int("x")).__code__, vars(pril.errors))
    with pytest.raises(ValueError, match="invalid literal") as caught, pril.errors.refusing():
        ours()
    assert not isinstance(caught.value, pril.errors.PrilError)


@pytest.mark.parametrize(
    "note",
    [{"labels": 3}, {"labels": {"kind": "ends", "columns": [1]}}, {"table": 1}, {"rows": "x"}],
)
def test_notes_that_are_none_are_named_by_the_command(bad, small, tmp_path, note):
    labels = {"kind": "ends", "columns": ["y"]}
    notes = {"table": "t.csv", "rows": 60, "labels": labels} | note
    write(small, tmp_path / "m.pril", kind="model", notes=notes)
    assert "m.pril is damaged: its notes: " in bad("show", "m.pril")


def test_classes_of_mixed_types_are_refused(spot):
    words = np.array(["bad", "fair", "good"], dtype=object)
    write(pril.PRIL(classes=words).fit(X, words[EXACT % 3]), spot, kind="model")
    members = members_of(spot.read_bytes())
    forged = members["pril.json"].replace(b'"good"', b"true")
    assert "all strings or all numbers" in refused(spot, sealed({**members, "pril.json": forged}))
