"""Model files: what comes back, and what is refused. Real files throughout."""

import importlib
import inspect
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
import warnings
import zipfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import pril
from pril.io import FORMAT, fields, learner_of, read, replace_file, schema, write
from pril.metrics import interval_accuracy_scorer

rng = np.random.default_rng(0)
X, MORE = rng.uniform(-1, 1, (2, 60, 4))
LABELS = np.sort(rng.integers(1, 5, (60, 2)), axis=1)
EXACT = LABELS[:, 0]
CLASSES = [1, 2, 3, 4]
TABLE = pd.DataFrame(X, columns=list("abcd")).assign(
    a=np.where(X[:, 0] > 0.8, np.nan, X[:, 0]), e=np.where(X[:, 1] > 0, "up", "down")
)

LEARNERS = {
    "pril": pril.PRIL(random_state=0),
    "pril, last iterate": pril.PRIL(average=False, random_state=np.random.RandomState(0)),
    "ordered logit": pril.OrderedLogit(random_state=0),
    "mpril": pril.MPRIL(random_state=0),
    "mpril, unsigned": pril.MPRIL(signed=False, classes=(1, 2, 3, 4), random_state=0),
    "prank": pril.PRank(random_state=0),
    "widrow-hoff": pril.WidrowHoff(random_state=0),
    "multiclass": pril.MulticlassPerceptron(classes=np.array(CLASSES), random_state=0),
    "kernel": pril.KernelPRIL(random_state=0),
    "kernel, budget": pril.KernelPRIL(budget=7, kernel_params={"gamma": 0.5}, random_state=0),
    "kernel, polynomial": pril.KernelPRIL(kernel="poly", degree=2, average=False, random_state=0),
}


def columns():
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["e"]),
        remainder="passthrough",
    )


FRONTS = {
    "alone": None,
    "scaler": StandardScaler(),
    "table": columns(),
    "table, pandas out": columns().set_output(transform="pandas"),
    "map": pril.PolynomialMap(degree=2),
    "landmarks": pril.LandmarkFeatures(9, random_state=0),
    "frozen": FrozenEstimator(StandardScaler().fit(X)),
}


def same(one, other):
    """Bit for bit, the sign of zero included."""
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


def written(model):
    """A model's parameters as text; its classes, which come back as an array, as a list."""
    learner = learner_of(model)
    if learner.classes is not None:
        learner.classes = np.asarray(learner.classes).tolist()
    return re.sub("0x\\w+", "", repr(model))


def fitted(learner, front):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pril.errors.FeatureRangeWarning)
        model = learner if front is None else make_pipeline(front, learner)
        labels = EXACT if isinstance(learner, pril.PRank) else LABELS
        return model.fit(TABLE if "ColumnTransformer" in repr(front) else X, labels)


@pytest.fixture(scope="module")
def small():
    return pril.PRIL(random_state=0).fit(X[:, :1], LABELS)


@pytest.fixture(scope="module")
def data(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "small.pril"
    pril.save(small, path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def spot(tmp_path_factory):
    """A path to write over and over."""
    return tmp_path_factory.mktemp("spot") / "file.pril"


# --- What comes back -----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pril.errors.FeatureRangeWarning")
@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_loaded_model_predicts_and_learns_on_the_same(learner, front, tmp_path):
    model = fitted(clone(LEARNERS[learner]), FRONTS[front])
    path = tmp_path / "model.pril"
    pril.save(model, path)
    again = pril.load(path)
    assert written(again) == written(model)
    table = TABLE if front.startswith("table") else X
    labels = EXACT if learner == "prank" else LABELS
    assert same(again.predict(table), model.predict(table))
    for step in (0, 1):
        assert same(again.decision_function(table), model.decision_function(table)), step
        if front == "alone":
            for one in (model, again):
                one.partial_fit(MORE, labels)
        else:
            rows = model[:-1].transform(table)
            for one in (model, again):
                one[-1].partial_fit(rows[::-1] if isinstance(rows, np.ndarray) else rows, labels)
    pril.save(again, path)
    onward = pril.load(path)
    assert same(onward.decision_function(table), model.decision_function(table))


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        (pril.KernelPRIL(random_state=0), csr_array(X)),
        (pril.KernelPRIL(random_state=0), X.astype(np.float32)),
        (pril.KernelPRIL(random_state=0), np.asfortranarray(X)),
        (pril.KernelPRIL(random_state=0, budget=5), TABLE[["b", "c"]]),
        (pril.KernelPRIL(kernel="cosine", random_state=0), np.broadcast_to(X[:1], X.shape)),
        (pril.KernelPRIL(kernel="precomputed", random_state=0), X @ X.T),
        (pril.PRIL(random_state=0), csr_array(X)),
        (pril.PRIL(random_state=0), TABLE[["b", "c"]]),
        (FrozenEstimator(pril.PRIL(random_state=0).fit(X, LABELS)), X),
        (make_pipeline(make_pipeline(StandardScaler(), pril.PRIL(random_state=0))), X),
    ],
)
def test_other_rows_and_wrappings_come_back(model, rows, tmp_path):
    pril.save(model.fit(rows, LABELS), tmp_path / "model.pril")
    again = pril.load(tmp_path / "model.pril")
    assert same(again.decision_function(rows), model.decision_function(rows))


@pytest.mark.parametrize(
    "labels",
    [
        np.where(EXACT > 2, "high", "low"),
        pd.Categorical(np.where(EXACT > 2, "high", "low"), ["low", "middle", "high"], ordered=True),
        EXACT > 2,
        EXACT - 3,
    ],
)
def test_any_labels_come_back(labels, tmp_path):
    model = pril.PRIL(random_state=0).fit(X, labels)
    pril.save(model, tmp_path / "model.pril")
    again = pril.load(tmp_path / "model.pril")
    assert again.classes_.dtype == model.classes_.dtype
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert read(tmp_path / "model.pril", kind="model")[1].classes == model.order_.tolist()


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
    ],
)
def test_classes_of_any_kind_come_back(classes, tmp_path):
    named = list(classes)
    labels = [named[0], named[-1]]
    model = pril.PRIL(classes=classes).fit(X[:2], labels)
    pril.save(model, tmp_path / "model.pril")
    again = pril.load(tmp_path / "model.pril")
    assert type(again.classes) is np.ndarray
    assert again.classes.tolist() == named
    assert again.classes_.dtype == model.classes_.dtype
    assert same(again.partial_fit(X[:2], labels).coef_, model.partial_fit(X[:2], labels).coef_)
    assert again.fit(X[:2], labels).classes_.dtype == model.classes_.dtype
    pril.save(model, tmp_path / "model.pril")
    data = (tmp_path / "model.pril").read_bytes()
    pril.save(pril.load(tmp_path / "model.pril"), tmp_path / "again.pril")
    assert (tmp_path / "again.pril").read_bytes() == data


@pytest.mark.parametrize("number", [0.5, np.float64(0.5), np.float32(0.1), 3, np.int16(3)])
def test_numbers_keep_their_type(number, tmp_path):
    """A float64 of NumPy makes float32 rows float64, a float of Python does not."""
    rows = X.astype(np.float32)
    model = pril.KernelPRIL(gamma=number, random_state=0).fit(rows, LABELS)
    pril.save(model, tmp_path / "model.pril")
    again = pril.load(tmp_path / "model.pril")
    assert type(again.gamma) is type(number)
    assert again.gamma == number
    assert same(again.latent(rows), model.latent(rows))


def test_a_file_says_what_it_is(tmp_path):
    model = make_pipeline(columns(), pril.PRIL()).fit(TABLE, LABELS)
    write(model, tmp_path / "model.pril", kind="model", notes={"rows": 60, "seed": None})
    _, about = read(tmp_path / "model.pril", kind="model")
    assert about.kind == "model"
    assert about.format == FORMAT
    assert about.versions["pril"] == pril.__version__
    assert about.versions["numpy"] == np.__version__
    ours = {"pril", "numpy", "scipy", "scikit-learn", "numba", "python"}
    assert set(about.versions) == {*ours, "skops"}
    assert about.model == "Pipeline(ColumnTransformer, PRIL)"
    assert about.classes == CLASSES
    assert about.features == list("abcde")
    assert about.notes == {"rows": 60, "seed": None}
    pril.save(model[-1], tmp_path / "model.pril")
    assert set(read(tmp_path / "model.pril", kind="model")[1].versions) == ours


def test_a_checkpoint_holds_more_than_a_model(small, tmp_path):
    content = {
        "model": small,
        "new": pril.PRIL(),
        "type": [1, 2.5, "three", None, True, [float("inf"), float("-inf")], 10**30, "\ud800"],
        "content": {"type": "foreign", "items": {}},
        "numpy": [np.float64(0.1), np.int8(-3), np.bool_(True), np.uint64(2**64 - 1)],
        "encoder": pril.ColumnEncoder(words=("a",)),
        "random": np.random.RandomState(3),
    }
    content["random"].standard_normal(3)  # which keeps a number for the next call
    write(content, tmp_path / "check", kind="checkpoint", notes={"at": 7})
    again, about = read(tmp_path / "check", kind="checkpoint")
    assert list(again) == list(content)
    for name in ("type", "content", "numpy"):
        assert again[name] == content[name]
    assert list(map(type, again["numpy"])) == list(map(type, content["numpy"]))
    assert vars(again["new"]) == vars(content["new"])
    assert again["encoder"].words == ["a"]
    assert not hasattr(again["encoder"], "numbers_")
    for _ in range(2):
        assert same(again["random"].standard_normal(5), content["random"].standard_normal(5))
    assert same(again["model"].predict(X[:, :1]), small.predict(X[:, :1]))
    assert (about.model, about.classes, about.notes) == ("PRIL", CLASSES, {"at": 7})
    with pytest.raises(ValueError, match="is a checkpoint, not a model"):
        pril.load(tmp_path / "check")
    pril.save(small, tmp_path / "model")
    with pytest.raises(ValueError, match="is a model, not a checkpoint"):
        read(tmp_path / "model", kind="checkpoint")


def sparse_table(rows):
    """A table with numbers, words, and a sparse column 5 wide."""
    kind = pa.map_(pa.int32(), pa.float64())
    cells = pa.array([[(k % 5, 1.5 * k)] for k in range(rows)], kind)
    names = [f"{word}{k % 3}" for k, word in enumerate(["up", "down"] * rows)][:rows]
    fields = [pa.field("n", pa.float64()), pa.field("w", pa.string())]
    wide = pa.field("s", kind, metadata={"width": "5"})
    arrays = [pa.array([float(k) for k in range(rows)]), pa.array(names), cells]
    return pa.Table.from_arrays(arrays, schema=pa.schema([*fields, wide]))


@pytest.mark.parametrize("rows", [0, 1, 12])
@pytest.mark.parametrize("options", [{}, {"bounded": True, "words": ("w",)}, {"scale": False}])
def test_an_encoder_comes_back_and_learns_on(rows, options, tmp_path):
    encoder = pril.ColumnEncoder(**options).partial_fit(sparse_table(rows))
    write({"encoder": encoder}, tmp_path / "check", kind="checkpoint")
    again = read(tmp_path / "check", kind="checkpoint")[0]["encoder"]
    for one in (encoder, again):
        one.partial_fit(sparse_table(17))
    assert again.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
    one, other = (coder.transform(sparse_table(20)).toarray() for coder in (encoder, again))
    assert same(one, other)
    write({"encoder": again}, tmp_path / "again", kind="checkpoint")
    write({"encoder": encoder}, tmp_path / "check", kind="checkpoint")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "check").read_bytes()


@pytest.mark.parametrize("coef0", [0, 0.5])
@pytest.mark.parametrize("degree", [1, 2, 5])
def test_a_map_comes_back(coef0, degree, tmp_path):
    front = pril.PolynomialMap(degree=degree, coef0=coef0).set_output(transform="pandas")
    model = make_pipeline(front, pril.PRIL(random_state=0)).fit(TABLE[["b", "c"]], LABELS)
    pril.save(model, tmp_path / "model")
    again = pril.load(tmp_path / "model")
    one, other = model[0].transform(TABLE[["b", "c"]]), again[0].transform(TABLE[["b", "c"]])
    assert list(one.columns) == list(other.columns)
    assert same(one.to_numpy(), other.to_numpy())


@pytest.mark.parametrize("coverage", [0.5, 0.999])  # the latter: an infinite margin
@pytest.mark.filterwarnings("ignore:every range is the full scale")
@pytest.mark.parametrize(
    "estimator",
    [
        pril.OrderedLogit(classes=CLASSES, random_state=0),
        make_pipeline(StandardScaler(), pril.PRIL(random_state=0)),
        FrozenEstimator(pril.PRIL(random_state=0).fit(X, LABELS)),
        make_pipeline(pril.LandmarkFeatures(5, random_state=0), pril.PRIL(random_state=0)),
    ],
)
def test_ranges_come_back(estimator, coverage, tmp_path):
    model = pril.PredictionRanges(estimator, coverage=coverage, random_state=0).fit(X, LABELS)
    pril.save(model, tmp_path / "model")
    again = pril.load(tmp_path / "model")
    assert again.margin_ == model.margin_
    assert again.n_calibration_ == model.n_calibration_
    assert same(again.predict_range(MORE), model.predict_range(MORE))
    assert same(again.predict(MORE), model.predict(MORE))
    assert again.coverage_report(MORE, LABELS) == model.coverage_report(MORE, LABELS)
    assert again.fit(X, LABELS).margin_ == model.margin_
    name = read(tmp_path / "model", kind="model")[1].model
    assert name.startswith("PredictionRanges(")
    pril.save(again, tmp_path / "again")
    front = make_pipeline(StandardScaler(), model).fit(X, LABELS)
    pril.save(front, tmp_path / "front")
    assert same(pril.load(tmp_path / "front").predict(MORE), front.predict(MORE))


def test_ranges_that_are_not_calibrated_are_not_saved(tmp_path):
    frozen = FrozenEstimator(pril.PRIL(random_state=0).fit(X, LABELS))
    with pytest.raises(NotFittedError):
        pril.save(pril.PredictionRanges(frozen), tmp_path / "model")


def test_learners_inside_foreign_steps_come_back(tmp_path):
    chooser = SelectFromModel(pril.OrderedLogit(random_state=0), threshold=-np.inf)
    union = FeatureUnion([("map", pril.PolynomialMap()), ("scaled", StandardScaler())])
    model = make_pipeline(union, chooser, pril.PRIL(random_state=0)).fit(X, LABELS)
    pril.save(model, tmp_path / "model")
    again = pril.load(tmp_path / "model")
    assert same(again.decision_function(X), model.decision_function(X))
    assert same(again[1].estimator_.coef_, model[1].estimator_.coef_)


def run(script, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        **options,
    ).stdout


TWIN = """
import numpy as np, pandas as pd, pril, warnings
from scipy.sparse import csr_array
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from pril.core.registry import LEARNERS
warnings.simplefilter("ignore")
table = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": ["x", "y", "x"]})
X, y = np.array([[1.0, 0.5], [0.0, 0.25], [-1.0, 2.0]]), [1, 2, 3]
learners = [learner.load() for learner in LEARNERS]
twin = {
    "tables": [make_pipeline(pril.ColumnEncoder(), one(random_state=0)).fit(table, y) for one in learners],
    "maps": [make_pipeline(pril.PolynomialMap(), one(random_state=0)).fit(X, y) for one in learners],
    "sparse": [FrozenEstimator(one(random_state=0).fit(csr_array(X), y)) for one in learners],
    "params": pril.KernelPRIL(kernel_params={"gamma": 0.5}, random_state=np.random.RandomState(0)).fit(X, y),
    "new": [one() for one in learners],
    "rng": np.random.RandomState(1),
    "words": {word: None for word in "abcdefgh"},
}
foreign = make_pipeline(StandardScaler(), pril.PRIL(random_state=0)).fit(X, y)
import sys
from pril.io import write
write(twin, sys.argv[1], kind="checkpoint")
write(foreign, sys.argv[2], kind="model")
"""


def test_every_process_writes_the_same_bytes(tmp_path):
    for seed in "12":
        paths = tmp_path / f"own{seed}", tmp_path / f"foreign{seed}"
        run(TWIN, *paths, env={**os.environ, "PYTHONHASHSEED": seed})
    assert len({(tmp_path / f"own{seed}").read_bytes() for seed in "12"}) == 1
    # skops gives other bytes in every process; all the rest is equal.
    members = [members_of((tmp_path / f"foreign{seed}").read_bytes()) for seed in "12"]
    for one in members:
        assert "schema.json" in members_of(one.pop("foreign.skops"))
    assert all(one == members[0] for one in members)


def test_a_loaded_model_gives_the_same_bytes(data, spot):
    spot.write_bytes(data)
    pril.save(pril.load(spot), spot)
    assert spot.read_bytes() == data


def test_reading_imports_no_more_than_it_needs(data, tmp_path):
    (tmp_path / "linear").write_bytes(data)
    table = pd.DataFrame({"a": X[:, 0]})
    pril.save(
        make_pipeline(pril.ColumnEncoder(), pril.PRIL()).fit(table, EXACT), tmp_path / "table"
    )
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
    names = ["sklearn", "numba", "pril.linear", "sklearn.pipeline", "sklearn.preprocessing"]
    names += [
        "pril.tables",
        "pril.learners.kernel_pril",
        "dask",
        "skops",
        "pril.io.foreign",
        "importlib.metadata",
    ]
    said = run(script, tmp_path / "linear", tmp_path / "table", *names).splitlines()
    assert said[0] == ""
    assert said[1].split() == ["sklearn", "numba", "pril.linear", "importlib.metadata"]
    assert not {"pril.learners.kernel_pril", "dask", "skops", "pril.io.foreign"} & set(
        said[2].split()
    )


def test_only_foreign_steps_need_skops(tmp_path):
    pril.save(make_pipeline(StandardScaler(), pril.PRIL()).fit(X, LABELS), tmp_path / "foreign")
    said = run(
        "import sys; sys.modules['skops'] = None\n"
        "import pril\n"
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import StandardScaler\n"
        "model = pril.PRIL().fit([[0.0], [1.0]], [1, 2])\n"
        "pril.save(model, sys.argv[1])\n"
        "print(pril.load(sys.argv[1]).predict([[1.0]]))\n"
        "for call in (lambda: pril.save(make_pipeline(StandardScaler(), model), sys.argv[1]),\n"
        "             lambda: pril.load(sys.argv[2])):\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n",
        tmp_path / "own",
        tmp_path / "foreign",
    ).splitlines()
    needed = "steps of other libraries need skops: in a clone of pril run pip install '.[io]'"
    assert said == ["[2]", needed, needed]


# --- Damaged files -------------------------------------------------------------------------------

DAMAGED = "is damaged or not a model file of pril: "


def refused(spot, data, match=DAMAGED):
    spot.write_bytes(data)
    with pytest.raises(ValueError, match=match) as caught:
        pril.load(spot)
    message = str(caught.value)
    assert message.startswith(str(spot))
    assert type(caught.value) is pril.errors.InputError
    assert "\n" not in message
    return message


def test_truncated_at_every_length(data, spot):
    for length in range(len(data)):
        refused(spot, data[:length])


def test_every_byte_flipped(data, spot):
    for i in range(len(data)):
        refused(spot, data[:i] + bytes([data[i] ^ (1 << i % 8)]) + data[i + 1 :])


def test_bytes_added(data, spot):
    for extra in (b"\0", b"\n", data):
        refused(spot, data + extra)
        refused(spot, extra + data)


@given(garbage=st.binary(max_size=300))
def test_any_bytes(garbage, spot):
    refused(spot, garbage)
    refused(spot, b"PK\3\4" + garbage)
    body = b"PK\3\4" + garbage + b"pril sha256 "
    refused(spot, body + sha256(body).hexdigest().encode())


# --- Files that are not read whole ---------------------------------------------------------------


@pytest.mark.parametrize("start", [b"", b"PK\3\4", b"5.1,3.5,1.4,0.2\n"])
def test_a_huge_file_that_is_no_model_is_not_read(start, tmp_path):
    path = tmp_path / "huge"
    path.write_bytes(start)
    os.truncate(path, 2**36)  # 64 GiB of nothing: reading them would take minutes, or all memory
    with pytest.raises(ValueError, match="it does not begin and end as one"):
        pril.load(path)


def test_a_large_file_is_hashed_in_blocks(data, tmp_path):
    path = tmp_path / "large"
    path.write_bytes(data[:4])
    os.truncate(path, 2**28)
    with path.open("ab") as file:
        file.write(data[-76:])
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="its checksum is wrong"):
            pril.load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**23
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


def edited(data, edit):
    """Return a file whose header and members were edited."""
    members = members_of(data)
    header = json.loads(members["pril.json"])
    edit(header, members)
    members["pril.json"] = json.dumps(header).encode()
    return sealed(members)


def find(tree, path):
    for key in path.split("."):
        tree = tree[int(key) if isinstance(tree, list) else key]
    return tree


def put(tree, path, value):
    parent, _, key = path.rpartition(".")
    tree = find(tree, parent) if parent else tree
    tree[int(key) if isinstance(tree, list) else key] = value


def test_a_file_made_by_hand_can_be_right(data, small, spot):
    spot.write_bytes(edited(data, lambda header, members: None))
    assert same(pril.load(spot).coef_, small.coef_)


def test_a_pickle(small, spot):
    assert "begin and end" in refused(spot, pickle.dumps(small))


def test_an_archive_that_is_no_model(spot):
    for members in ({}, {"a.json": b"{}"}, {"pril.json": b"[]"}, {"pril.json": b"{}"}):
        refused(spot, sealed(members))


def test_a_compressed_member(data, spot):
    message = refused(spot, sealed(members_of(data), zipfile.ZIP_DEFLATED))
    assert "a member is compressed" in message


def test_a_zip_bomb(data, spot):
    bomb = sealed({**members_of(data), "bomb.npy": bytes(10**8)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 10**6
    assert "a member is compressed" in refused(spot, bomb)


def test_members_that_overlap(spot):
    """All entries of the directory point at one member: small to store, large to read."""
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
    message = refused(spot, body + sha256(body).hexdigest().encode())
    assert "larger than the file" in message


@pytest.mark.parametrize(
    "name", ["../evil.npy", "/etc/evil.npy", "a/b.npy", "..", "c:evil", "é.npy"]
)
def test_members_with_odd_names(name, data, spot):
    assert "odd names" in refused(spot, sealed({**members_of(data), name: b""}))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_twice(data, spot):
    members = members_of(data)
    first, second = list(members)[:2]
    assert first != second
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.comment = b"pril sha256 " + b"0" * 64
        for name, member in [*members.items(), (first, members[second])]:
            archive.writestr(name, member)
    body = buffer.getvalue()[:-64]
    assert "odd names" in refused(spot, body + sha256(body).hexdigest().encode())


def test_a_member_that_nothing_uses(data, spot):
    more = {**members_of(data), "x.npy": npy(np.zeros(3))}
    assert "nothing uses its member 'x.npy'" in refused(spot, sealed(more))


def test_other_formats(data, spot):
    newer = edited(data, lambda header, members: header.update(format=FORMAT + 1, more="new"))
    refused(
        spot, newer, rf"newer pril \(format {FORMAT + 1}; this one reads format {FORMAT}\): upgrade"
    )
    old = {"pril.json": json.dumps({"kind": "model", "format": 1}).encode(), "schema.json": b"{}"}
    refused(
        spot, sealed(old), "has format 1, from before the first release.* learn the model again"
    )


BAD_HEADERS = {
    "not JSON": (b"{", "Expecting property name"),
    "a key twice": (b'{"format": 2, "format": 2}', "its header has a key twice"),
    "NaN": (b'{"format": NaN}', "its header has the number 'NaN'"),
    "infinity": (b'{"format": 1e999}', "its header has the number '1e999'"),
    "a list": (b"[2]", "its header is not an object"),
    "a string": (b'"format"', "its header is not an object"),
    "not UTF-8": (b"\xff\xfe{}", ""),
    "deep": (b"[" * 10**6, "recursion"),
    "deep, closed": (b"[" * 10**5 + b"]" * 10**5, "recursion"),
    "a long number": (b'{"format": ' + b"1" * 5000 + b"}", "4300 digits"),
}


@pytest.mark.parametrize("header", BAD_HEADERS)
def test_headers_that_are_none(header, data, spot):
    text, said = BAD_HEADERS[header]
    assert said in refused(spot, sealed({**members_of(data), "pril.json": text}))


# Every rule of the schema, broken once: where in the header or in which array, what to put there,
# and what is said of it. A function makes another array of the one that is there.
WORD, NONE = {"type": "number", "dtype": "float", "value": "nan"}, {"type": "RandomState"}
LEARNED, MEMORY = "content.learned", "content.learned.memory"
FRONT = "content.parameters.steps.0.1.learned"
BROKEN = {
    "pril": [
        ("format", "2", "its format is '2'"),
        ("format", True, "its format is True"),
        ("kind", "table", "its kind is 'table', not a model or a checkpoint"),
        ("kind", None, "its kind is None"),
        ("versions", [], "its versions are not strings"),
        ("versions.pril", 1, "its versions are not strings"),
        ("notes", [], "its notes are not an object"),
        ("more", 1, "its header has the keys content, format, kind, more"),
        ("content", 5, "not int"),
        ("content", [], "not list"),
        ("content", {}, "content is of type None, which is unknown"),
        ("content", {"type": "dict", "items": []}, "at the end of a Pipeline, not dict"),
        ("content", {"type": "dict", "items": [[1, 2]]}, "a list of pairs"),
        ("content.type", "os.system", "content is of type 'os.system', which is unknown"),
        ("content.type", ["PRIL"], "is unknown"),
        ("content.type", "foreign", "must be an object with the keys position"),
        ("content", {"type": "foreign", "position": 0}, "it holds 1 foreign steps"),
        ("content", {"type": "foreign", "position": 1}, "must be foreign object 0, not 1"),
        ("content.type", "KernelPRIL", "with the keys"),
        ("content.more", 1, "must be an object with the keys parameters, learned"),
        ("content.parameters", [], "must be an object with the keys"),
        ("content.parameters.more", 1, "must be an object with the keys classes, max_iter"),
        ("content.parameters.max_iter", 0, "'max_iter' parameter of PRIL must be"),
        ("content.parameters.max_iter", 1.5, "'max_iter' parameter of PRIL must be"),
        ("content.parameters.average", "yes", "'average' parameter of PRIL must be"),
        ("content.parameters.random_state", "a", "'random_state' parameter of PRIL must be"),
        ("content.parameters.random_state", NONE, "with the keys key, pos, has_gauss, gauss"),
        ("content.parameters.tol", WORD, "'tol' parameter of PRIL must be"),
        ("content.parameters.tol", {**WORD, "value": "x"}, "a number of type float, not 'x'"),
        ("content.parameters.tol", {**WORD, "dtype": "complex64"}, "of a known type"),
        ("content.parameters.tol", {**WORD, "dtype": []}, "of a known type"),
        ("content.parameters.tol", {**WORD, "dtype": "int8", "value": 300}, "range of int8"),
        ("content.parameters.tol", {**WORD, "dtype": "float16", "value": 1e9}, "range of float16"),
        ("content.parameters.classes", 3, "content.parameters.classes must be an object"),
        ("content.parameters.classes", {"dtype": "int64", "values": [1, 1]}, "different labels"),
        (LEARNED, None, "not fitted"),
        (LEARNED, [], "must be an object with the keys order"),
        (f"{LEARNED}.more", 1, "must be an object with the keys order"),
        (f"{LEARNED}.order", None, "must be an object with the keys dtype, values"),
        (f"{LEARNED}.order.values", [1, 2, 3], r"n must be float64 of shape \(2,\), not"),
        (f"{LEARNED}.order.values", [1, 2, 3, 3], "must be different labels"),
        (f"{LEARNED}.order.values", [], "must be a list of labels"),
        (f"{LEARNED}.order.values", 4, "must be a list of labels"),
        (f"{LEARNED}.order.values", [1, 2, 3, 2**63], "within the range of int64"),
        (f"{LEARNED}.order.values", [1, 2, 3, True], "a number of type int64, not True"),
        (f"{LEARNED}.order.values", [1, 2, 3, 4.0], "a number of type int64, not 4.0"),
        (f"{LEARNED}.order.values", [1, 2, 3, [4]], "a number of type int64"),
        (f"{LEARNED}.order.dtype", "str", "must be labels of type str"),
        (f"{LEARNED}.order.dtype", "M8[s]", "must be a number of a known type"),
        (f"{LEARNED}.order", {"dtype": "float64", "values": [1, 2, 3, "inf"]}, "finite labels"),
        (f"{LEARNED}.order", {"dtype": "object", "values": [1, 2, 3, None]}, "of type object"),
        (f"{LEARNED}.n_features_in", 2, r"u must be float64 of shape \(1, 3\), not float64"),
        (f"{LEARNED}.n_features_in", 10**12, r"of shape \(1, 1000000000001\)"),
        (f"{LEARNED}.n_features_in", -1, "must be a whole number within 0.."),
        (f"{LEARNED}.n_features_in", 2**63, "must be a whole number within 0.."),
        (f"{LEARNED}.n_features_in", True, "must be a whole number within 0.."),
        (f"{LEARNED}.n_features_in", None, "must be a whole number within 0.."),
        (f"{LEARNED}.n_iter", 1.5, "must be a whole number within 0.."),
        (f"{LEARNED}.feature_names_in", ["a", "b"], "must be 1 strings"),
        (f"{LEARNED}.feature_names_in", [1], "must be a list of strings"),
        (f"{LEARNED}.feature_names_in", "a", "must be a list of strings"),
        (f"{LEARNED}.learned_with", [], "must be learned with average"),
        (f"{LEARNED}.learned_with", {"average": True}, "a list of pairs"),
        (f"{LEARNED}.learned_with", [["average", True], ["average", True]], "different strings"),
        (f"{LEARNED}.learned_with", [["average", True], ["predict", 1]], "learned with average"),
        (f"{LEARNED}.learned_with", [["average", "no"]], "'average' parameter of PRIL"),
        (f"{LEARNED}.learned_with", [["average", False]], "has sums of an average, but does not"),
        (MEMORY, None, "must be an object with the keys state, mean"),
        (f"{MEMORY}.mean", None, "averages, but has no sums of an average"),
        (f"{MEMORY}.state.more", 1, "must be an object with the keys u, n, shift, counts"),
        (f"{MEMORY}.state.u", 0, "must be the name of an array that nothing else uses"),
        (f"{MEMORY}.state.u", "pril.json", "must be the name of an array that nothing else uses"),
        (f"{MEMORY}.state.u", "9.npy", "must be the name of an array that nothing else uses"),
        (f"{MEMORY}.mean.u", "0.npy", "must be the name of an array that nothing else uses"),
        (f"{MEMORY}.state.u", lambda u: u * np.nan, "u must be finite"),
        (f"{MEMORY}.state.u", lambda u: u.astype("f4"), "must be float64 .* not float32"),
        (f"{MEMORY}.state.u", lambda u: u.astype(">f8"), "an array holds >f8"),
        (f"{MEMORY}.state.u", lambda u: u.astype(object), "an array holds object"),
        (f"{MEMORY}.state.u", lambda u: u.astype("U3"), "an array holds <U3"),
        (f"{MEMORY}.state.u", lambda u: u[0], r"must be float64 of shape \(1, features\+1\), not"),
        (
            f"{MEMORY}.state.n",
            lambda n: n[::-1],
            "n must not increase: the thresholds would not be",
        ),
        (f"{MEMORY}.state.n", lambda n: n * np.inf, "n must be finite"),
        (f"{MEMORY}.state.n", lambda n: n[:-1], r"must be float64 of shape \(3,\)"),
        (f"{MEMORY}.state.shift", lambda shift: shift[:1], r"must be float64 of shape \(2,\)"),
        (f"{MEMORY}.state.counts", lambda counts: -counts, "counts must not be negative"),
        (f"{MEMORY}.state.counts", lambda counts: counts.astype("i4"), "must be int64"),
        (f"{MEMORY}.mean.n", lambda n: n * 0 - [0, 0, 1e4], "mean.n must not increase"),
        (f"{MEMORY}.mean.n", lambda n: n * np.nan, "mean.n must be finite"),
    ],
    "ordered logit": [
        (f"{MEMORY}.state.lattice", 1, "lattice must be True or False"),
        (f"{MEMORY}.state.clock", lambda clock: -clock, "clock must not be negative"),
        (f"{MEMORY}.state.evidence", None, "has evidence of ranges without use, or has none"),
        (f"{MEMORY}.state.evidence.exact", lambda one: one[1:], r"float64 of shape \(4,\)"),
        (f"{MEMORY}.state.evidence.ranges", lambda one: one[1:], "that 4 classes cannot have"),
        (f"{MEMORY}.state.evidence.sums", lambda one: one * np.nan, "sums must be finite"),
    ],
    "multiclass": [
        (f"{MEMORY}.state.u", lambda u: np.asfortranarray(u), "u must be in C order"),
        (f"{MEMORY}.state.u", lambda u: u[:1], r"must be float64 of shape \(4, 5\)"),
    ],
    "mpril": [
        ("content.parameters.rate", 0, "'rate' parameter of MPRIL"),
        (
            f"{LEARNED}.learned_with",
            [["rate", -1.0], ["signed", True]],
            "'rate' parameter of MPRIL",
        ),
        (
            f"{LEARNED}.learned_with",
            [["signed", True], ["rate", 0.05]],
            "learned with rate, signed",
        ),
    ],
    "pril, last iterate": [
        ("content.parameters.random_state.pos", 625, "pos must be a whole number within 0..624"),
        ("content.parameters.random_state.has_gauss", 2, "has_gauss must be 0 or 1, not 2"),
        ("content.parameters.random_state.gauss", "inf", "gauss must be a finite number"),
        ("content.parameters.random_state.key", lambda key: key[1:], r"uint32 of shape \(624,\)"),
        (f"{LEARNED}.learned_with", [["average", True]], "averages, but has no sums"),
    ],
    "kernel, budget": [
        ("content.parameters.kernel", "numpy.add", "'kernel' parameter of KernelPRIL"),
        ("content.parameters.kernel", 3, "'kernel' parameter of KernelPRIL"),
        (
            f"{LEARNED}.learned_with.1.1",
            "precomputed",
            "rows that kernel='precomputed' cannot have",
        ),
        (f"{LEARNED}.learned_with.1.1", "linear", "kernel='linear' takes no argument 'gamma'"),
        (
            f"{LEARNED}.learned_with.5.1.items.0.1",
            [],
            "kernel_params.gamma must be a finite number",
        ),
        (f"{LEARNED}.learned_with.5.1.items.0.1", True, "must be a finite number, not True"),
        (f"{MEMORY}.rows", [], "must be rows in one of the layouts positions, dense, csr"),
        (f"{MEMORY}.rows.layout", "coo", "must be rows in one of the layouts"),
        (f"{MEMORY}.rows.layout", "csr", "keys layout, data, indices, indptr"),
        (f"{MEMORY}.rows.layout", "positions", r"must be int64 of shape \(support\)"),
        (f"{MEMORY}.rows.data", lambda rows: rows[1:], r"must be float64 of shape \(6,\)"),
        (f"{MEMORY}.rows.data", lambda rows: rows[:, 1:], r"of shape \(7, 4\), not"),
        (f"{MEMORY}.rows.data", lambda rows: rows * np.inf, "must be finite"),
        (f"{MEMORY}.coef", lambda coef: coef * np.nan, "coef must be finite"),
        (f"{MEMORY}.source", lambda source: source - 10**9, "source must not be negative"),
        (
            f"{MEMORY}.source",
            lambda source: source + 10**9,
            "source must be rows below 60, not 100",
        ),
    ],
    "kernel, sparse": [
        (f"{MEMORY}.rows.indices", lambda one: one + 4, "rows must have columns below 4"),
        (f"{MEMORY}.rows.indices", lambda one: one - 4, "indices must not be negative"),
        (f"{MEMORY}.rows.indices", lambda one: one[1:], "must be int32 or int64 of shape"),
        (f"{MEMORY}.rows.indptr", lambda one: one + 1, "indptr must ascend from 0 to"),
        (f"{MEMORY}.rows.indptr", lambda one: one * 2, "indptr must ascend from 0 to"),
        (f"{MEMORY}.rows.indptr", lambda one: one[[0, 2, 1, *range(3, len(one))]], "must ascend"),
        (f"{MEMORY}.rows.data", lambda one: one * np.nan, "must be finite"),
    ],
    "kernel, precomputed": [
        (f"{MEMORY}.rows.data", lambda one: one + 60, "rows must have columns below 60"),
        (f"{MEMORY}.rows.data", lambda one: one - 60, "must not be negative"),
        (f"{LEARNED}.learned_with.1.1", "rbf", "rows that kernel='rbf' cannot have"),
    ],
    "map": [
        ("content.parameters.steps", [], "a Pipeline has no steps"),
        ("content.parameters.steps", {}, "a list of pairs"),
        ("content.parameters.steps.1.1", 5, "must be an estimator, not 5"),
        ("content.parameters.steps.1.1", None, "at the end of a Pipeline, not Pipeline"),
        ("content.parameters.steps.0.0", "pril", "pairs of different strings"),
        ("content.parameters.memory", "pickles", "memory must be None"),
        ("content.parameters.verbose", 1, "verbose must be True or False, not 1"),
        ("content.learned", None, "must be an object with the keys"),
        ("content.parameters.steps.0.1.parameters.degree", 3, "15 monomials, which 4 features to"),
        ("content.parameters.steps.0.1.parameters.degree", 10**9, "15 monomials"),
        ("content.parameters.steps.0.1.parameters.coef0", -1, "'coef0' parameter of PolynomialMap"),
        ("content.parameters.steps.0.1.learned.n_features_in", 10**9, "15 monomials"),
        ("content.parameters.steps.0.1.learned.n_output_features", 14, r"of shape \(14,\)"),
        ("content.parameters.steps.0.1.learned.scale", lambda one: -one, "must not be negative"),
        (
            "content.parameters.steps.0.1.learned.sklearn_output_config",
            [["transform", "os"]],
            "must be 'default' or 'pandas' or 'polars', not 'os'",
        ),
    ],
    "encoder": [
        ("content.parameters.steps.0.1.parameters.scale", 1, "must be True or False"),
        ("content.parameters.steps.0.1.parameters.words", "w", "must be a list of strings"),
        ("content.parameters.steps.0.1.parameters.most_words", -1, "a whole number"),
        ("content.parameters.steps.0.1.learned.numbers", ["n", "n"], "different strings"),
        ("content.parameters.steps.0.1.learned.numbers", ["w"], "about different columns"),
        ("content.parameters.steps.0.1.learned.numbers", ["n", "m"], r"of shape \(2,\)"),
        ("content.parameters.steps.0.1.learned.words", {}, "a list of pairs"),
        ("content.parameters.steps.0.1.learned.words.0.1", ["up0", "up0"], "different strings"),
        ("content.parameters.steps.0.1.learned.left_out", ["s"], "about different columns"),
        ("content.parameters.steps.0.1.learned.sparse.0.1.width", 10**12, "with the keys rows"),
        ("content.parameters.steps.0.1.learned.sparse.0.1.rows", -1, "must not be negative"),
        ("content.parameters.steps.0.1.learned.sparse.0.1.rows", "1", "a finite number"),
        (
            "content.parameters.steps.0.1.learned.sparse.0.1.mean",
            lambda one: np.zeros(9),
            r"variance must be float64 of shape \(9,\)",
        ),
        (
            "content.parameters.steps.0.1.learned.sparse.0.1.variance",
            lambda one: one - 1e9,
            "must not be negative",
        ),
        ("content.parameters.steps.0.1.learned.moments.count", lambda one: -one, "negative"),
        ("content.parameters.steps.0.1.learned.moments.low", lambda one: one * np.nan, "NaN"),
        ("content.parameters.steps.0.1.learned.moments.mean", lambda one: one * np.inf, "finite"),
    ],
    "ranges": [
        (f"{LEARNED}.margin", -1.0, "margin must be a number that is not negative"),
        (f"{LEARNED}.margin", {**WORD, "value": "nan"}, "margin must be a number that is not"),
        (f"{LEARNED}.margin", "much", "margin must be a number that is not negative"),
        (f"{LEARNED}.n_calibration", -1, "must be a whole number within 0.."),
        (f"{LEARNED}.estimator", 3, "estimator must be an estimator, not 3"),
        ("content.parameters.coverage", 1.5, "coverage must be a number between 0 and 1"),
        ("content.parameters.coverage", None, "coverage must be a number between 0 and 1"),
        ("content.parameters.calibration_size", 0.0, "must be a number between 0 and 1"),
        ("content.parameters.guarantee", "sure", "guarantee must be 'exact' or 'contain'"),
        ("content.parameters.estimator", None, ""),
    ],
    "landmarks": [
        (f"{FRONT}.learned_with", [], "must be learned with a kernel and gamma"),
        (f"{FRONT}.learned_with", [["kernel", "rbf"], ["gamma", None]], "a kernel and gamma"),
        (f"{FRONT}.learned_with", [["kernel", "x"], ["gamma", 1.0]], "'kernel' parameter of Land"),
        (f"{FRONT}.learned_with", [["kernel", "rbf"], ["gamma", -1.0]], "'gamma' parameter of La"),
        (f"{FRONT}.landmarks.layout", "positions", "landmarks"),
        (f"{FRONT}.landmarks.data", lambda rows: rows[:4], r"of shape \(4, 4\), not float64"),
        (f"{FRONT}.landmarks.data", lambda rows: rows[:, :2], r"of shape \(5, 4\), not float64"),
        (f"{FRONT}.landmarks.data", lambda rows: rows * np.nan, "must be finite"),
        (f"{FRONT}.offset", lambda rows: rows[:4], r"offset must be float64 of shape \(5,\)"),
        (f"{FRONT}.projection", lambda rows: rows[:4], "projection must be float64 of shape"),
        (f"{FRONT}.n_features_in", 3, r"of shape \(5, 3\), not float64"),
    ],
}


def right_model(name):
    if name in LEARNERS:
        return fitted(clone(LEARNERS[name]), None)
    if name == "kernel, sparse":
        return pril.KernelPRIL(random_state=0).fit(csr_array(X), LABELS)
    if name == "kernel, precomputed":
        return pril.KernelPRIL(kernel="precomputed", random_state=0).fit(X @ X.T, LABELS)
    if name == "map":
        return make_pipeline(pril.PolynomialMap(), pril.PRIL(random_state=0)).fit(X, LABELS)
    if name == "ranges":
        frozen = FrozenEstimator(pril.PRIL(random_state=0).fit(X, LABELS))
        return pril.PredictionRanges(frozen).fit(X, LABELS)
    if name == "landmarks":
        front = pril.LandmarkFeatures(5, random_state=0)
        return make_pipeline(front, pril.PRIL(random_state=0)).fit(X, LABELS)
    assert name == "encoder"
    model = make_pipeline(pril.ColumnEncoder(), pril.PRIL(random_state=0))
    return model.fit(sparse_table(60), LABELS)


@pytest.fixture(scope="module")
def right_files(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("right") / "model.pril"
    files = {"pril": data}
    for name in BROKEN:
        if name != "pril":
            pril.save(right_model(name), path)
            files[name] = path.read_bytes()
    return files


@pytest.mark.parametrize(
    ("model", "path", "value", "said"), [(name, *case) for name in BROKEN for case in BROKEN[name]]
)
def test_every_rule_of_the_schema(model, path, value, said, right_files, spot):
    def edit(header, members):
        if callable(value):
            name = find(header, path)
            members[name] = npy(value(np.load(io.BytesIO(members[name]))))
        else:
            put(header, path, value)
            for name in set(members) - {"pril.json"}:
                if f'"{name}"' not in json.dumps(header):
                    del members[name]

    message = refused(spot, edited(right_files[model], edit))
    assert re.search(said, message), message


def test_a_missing_key_is_refused_everywhere(right_files, spot):
    """Every key of every header, left out once."""

    def keys(tree, path=""):
        for key, item in tree.items() if isinstance(tree, dict) else enumerate(tree):
            if isinstance(tree, dict) and not path.startswith(("versions.", "notes.")):
                yield f"{path}{key}"
            if isinstance(item, dict | list):
                yield from keys(item, f"{path}{key}.")

    n_keys = 0
    for data in right_files.values():
        for path in keys(json.loads(members_of(data)["pril.json"])):

            def edit(header, members, path=path):
                parent, _, key = path.rpartition(".")
                del (find(header, parent) if parent else header)[key]

            refused(spot, edited(data, edit))
            n_keys += 1
    assert n_keys > 200


def test_an_array_whose_header_lies(data, spot):
    """The shape in an array's header is compared with its size before anything is reserved."""
    members = members_of(data)
    for lie in (b"(9**99,)", b"(10**18,)", b"(1000000000000000000,)", b"(-1, -2)", b"(3, 0)", b"3"):
        text = b"{'descr': '<f8', 'fortran_order': False, 'shape': " + lie + b", }"
        head = b"\x93NUMPY\x01\x00" + b"\x76\x00" + text.ljust(117) + b"\n"
        message = refused(spot, sealed({**members, "0.npy": head + members["0.npy"][128:]}))
        if lie.startswith((b"(1000", b"(3")):  # the others are no shape at all
            assert "an array of shape" in message
    refused(spot, sealed({**members, "0.npy": npy(np.zeros(3), allow_pickle=False)[:-1]}))
    refused(spot, sealed({**members, "0.npy": npy(np.array([len], object), allow_pickle=True)}))
    refused(spot, sealed({**members, "0.npy": b"\x93NUMPY\x02\x00" + members["0.npy"][8:]}))
    refused(spot, sealed({**members, "0.npy": b""}))


def test_every_description_names_what_there_is():
    """A field for every parameter, record and attribute: a new one must be described."""
    for name, described in schema.TYPES.items():
        kind = getattr(importlib.import_module(described.module), described.name)
        assert kind.__name__ == name
        assert set(described.parameters) <= set(inspect.signature(kind).parameters)
    for record in schema.RECORDS:
        kind = getattr(importlib.import_module(record.module), record.name)
        assert {*record.fields, *record.constants} == set(kind._fields)


def test_the_format_is_documented():
    """Every key of a header is in the document."""
    text = (Path(__file__).parents[1] / "docs" / "reference" / "model-files.md").read_text()
    for described in schema.TYPES.values():
        for key in (described.name, *(name.strip("_") for name in described.learned)):
            assert f"`{key}`" in text, key
    for record in (*schema.RECORDS, schema.SPARSE_COLUMN):
        for key in record.fields:
            assert f"`{key}`" in text, (record.name, key)


# --- Edits of any kind ---------------------------------------------------------------------------

json_values = st.sampled_from(
    [
        None,
        0,
        -1,
        10**30,
        1e308,
        "",
        "0.npy",
        "numpy",
        "PRIL",
        "inf",
        [],
        {},
        [[]],
        True,
        {"type": "dict", "items": []},
    ]
)


@given(draws=st.data())
def test_any_edit_of_a_right_file_is_refused_or_harmless(draws, right_files, spot):
    model = draws.draw(st.sampled_from(list(right_files)))
    members = members_of(right_files[model])
    if draws.draw(st.booleans()):
        name = draws.draw(st.sampled_from([name for name in members if name.endswith(".npy")]))
        member = bytearray(members[name])
        for _ in range(draws.draw(st.integers(1, 4))):
            member[draws.draw(st.integers(0, len(member) - 1))] = draws.draw(st.integers(0, 255))
        members[name] = bytes(member)
    else:
        root = item = json.loads(members["pril.json"])
        while True:
            keys = list(item) if isinstance(item, dict) else list(range(len(item)))
            key = draws.draw(st.sampled_from(keys))
            if isinstance(item[key], dict | list) and item[key] and draws.draw(st.integers(0, 9)):
                item = item[key]
                continue
            item[key] = draws.draw(json_values)
            break
        members["pril.json"] = json.dumps(root).encode()
    spot.write_bytes(sealed(members))
    try:
        model = pril.load(spot)
    except ValueError as error:
        assert str(spot) in str(error)  # noqa: PT017
        return
    rows = X if learner_of(model).n_features_in_ > 1 else X[:, :1]
    with suppress(ValueError):
        model.predict(sparse_table(3) if "encoder" in repr(model).lower() else rows)
    with suppress(ValueError):
        learner_of(model).partial_fit(rows, LABELS)


# --- Steps of other libraries --------------------------------------------------------------------


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    path = tmp_path_factory.mktemp("foreign") / "model.pril"
    pril.save(make_pipeline(StandardScaler(), pril.PRIL(random_state=0)).fit(X, LABELS), path)
    return path.read_bytes()


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


def test_foreign_steps_made_by_hand_can_be_right(foreign, spot):
    spot.write_bytes(scaler_edited(foreign, lambda attributes: None))
    assert pril.load(spot).predict(X).shape == (60,)


@pytest.mark.parametrize(
    ("named", "text"),
    [
        (node("os", "system", "FunctionNode"), "os.system"),
        (node("os", "system", "ConstructorFromReduceNode", content=constant(["x"])), "os.system"),
        (node("trap_module", "Trap", "ObjectNode", content=constant({})), "trap_module.Trap"),
        (node("trap_module", "Trap", "TypeNode"), "trap_module.Trap"),
        (node("trap_module", "Trap", "ListNode", content=[]), "trap_module.Trap"),
        (
            node("operator", "methodcaller", "OperatorFuncNode", attrs=constant(["x"])),
            "operator.methodcaller",
        ),
    ],
)
def test_an_unknown_type_is_named_and_not_imported(
    named, text, foreign, spot, tmp_path, monkeypatch
):
    marker = tmp_path / "marker"
    (tmp_path / "trap_module.py").write_text(f"open({str(marker)!r}, 'w')\nclass Trap: pass")
    monkeypatch.syspath_prepend(str(tmp_path))
    trap = scaler_edited(foreign, lambda attributes: attributes.update(copy=named))
    message = refused(spot, trap, "which pril does not load")
    assert text in message
    assert not marker.exists()


def test_deep_nesting_in_foreign_steps(foreign, spot):
    nested = constant(1)
    for _ in range(300 if sys.version_info < (3, 12) else 600):  # from 3.12 on, C calls count apart
        nested = node("builtins", "list", "ListNode", content=[nested])
    refused(spot, scaler_edited(foreign, lambda attributes: attributes.update(copy=nested)))
    inner = node("builtins", "str", "JsonNode", content="[" * 10**6)
    refused(spot, scaler_edited(foreign, lambda attributes: attributes.update(copy=inner)))
    deep = zipped({"schema.json": b"[" * 10**6})
    refused(spot, sealed({**members_of(foreign), "foreign.skops": deep}))


def test_a_description_that_no_computer_can_walk(foreign, spot):
    """Lists of twice the same list, thirty deep, each described once and then referred to."""
    lists = [node("builtins", "list", "ListNode", content=[constant(1)], __id__=1)]
    for i in range(2, 32):
        again = node(None, None, "CachedNode", __id__=i - 1)
        lists.append(node("builtins", "list", "ListNode", content=[lists[-1], again], __id__=i))
    bomb = scaler_edited(foreign, lambda attributes: attributes.update(copy=lists[-1]))
    assert "one number" in refused(spot, bomb)


def test_foreign_members_that_do_not_fit(foreign, spot):
    members = members_of(foreign)
    for other in (b"", b"PK\3\4", zipped({}), zipped({"schema.json": b"[]"})):
        refused(spot, sealed({**members, "foreign.skops": other}))
    packed = zipped(members_of(members["foreign.skops"]), zipfile.ZIP_DEFLATED)
    message = refused(spot, sealed({**members, "foreign.skops": packed}))
    assert "a member is compressed" in message
    bomb = zipped({"data.npy": npy(np.zeros(10**7))}, zipfile.ZIP_DEFLATED)
    inside = {**members_of(members["foreign.skops"]), "x.npz": bomb}
    message = refused(spot, sealed({**members, "foreign.skops": zipped(inside)}))
    assert "a member is compressed" in message
    del members["foreign.skops"]
    assert "it holds 1 foreign steps" in refused(spot, sealed(members))


def test_more_or_fewer_foreign_steps_than_the_header_names(foreign, spot, tmp_path):
    two = make_pipeline(StandardScaler(), StandardScaler(), pril.PRIL()).fit(X, LABELS)
    pril.save(two, tmp_path / "two")
    other = members_of((tmp_path / "two").read_bytes())["foreign.skops"]
    message = refused(spot, sealed({**members_of(foreign), "foreign.skops": other}))
    assert "it has other than 1 foreign steps" in message


def test_a_learner_as_a_step_before_the_last(data, spot):
    def edit(header, members):
        header["content"] = {
            "type": "Pipeline",
            "parameters": {
                "steps": [["a", header["content"]], ["b", {**header["content"], "learned": None}]],
                "transform_input": None,
                "memory": None,
                "verbose": False,
            },
            "learned": {},
        }

    message = refused(spot, edited(data, edit))
    assert "step 'a' of a Pipeline is PRIL(random_state=0), no transformer" in message


def test_a_learner_inside_a_foreign_step_is_checked(spot, tmp_path):
    """Its arrays are skops' business, but the compiled loop trusts them as it does all others."""
    chooser = SelectFromModel(pril.PRIL(random_state=0), threshold=-np.inf)
    pril.save(make_pipeline(chooser, pril.PRIL(random_state=0)).fit(X, LABELS), tmp_path / "model")
    members = members_of((tmp_path / "model").read_bytes())
    inside = members_of(members["foreign.skops"])
    arrays = {name: np.load(io.BytesIO(inside[name])) for name in inside if name.endswith(".npy")}
    learned = [name for name, array in arrays.items() if array.shape in ((1, 5), (3,))]
    assert len(learned) == 5  # u and n of the state and of the mean, and the counts
    for name in learned:
        wrong = {**inside, name: npy(np.zeros((1, 3)))}
        message = refused(spot, sealed({**members, "foreign.skops": zipped(wrong)}))
        assert "content.learned.memory" in message


@given(draws=st.data())
def test_any_edit_of_foreign_steps_is_refused_or_harmless(draws, foreign, spot):
    members = members_of(foreign)
    inside = members_of(members["foreign.skops"])
    root = item = json.loads(inside["schema.json"])
    while True:
        keys = list(item) if isinstance(item, dict) else list(range(len(item)))
        key = draws.draw(st.sampled_from(keys))
        if isinstance(item[key], dict | list) and item[key] and draws.draw(st.integers(0, 9)):
            item = item[key]
            continue
        item[key] = draws.draw(json_values)
        break
    inside["schema.json"] = json.dumps(root).encode()
    spot.write_bytes(sealed({**members, "foreign.skops": zipped(inside)}))
    try:
        pril.load(spot)
    except ValueError as error:
        assert str(spot) in str(error)  # noqa: PT017


# --- Classes and searches ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "classes",
    [
        range(3),
        pd.Index([0, 1, 2]),
        pd.Series([0, 1, 2]),
        pd.IntervalIndex.from_breaks([0, 1, 2, 3]),
        pd.IntervalIndex.from_breaks([-np.inf, 0.1, 0.2, np.inf], closed="left"),
    ],
    ids=repr,
)
def test_classes_of_any_kind_are_kept(classes, tmp_path):
    rng = np.random.default_rng(0)
    X, rank = rng.normal(size=(40, 2)), np.arange(40) % 3
    model = pril.PRIL(classes=classes, random_state=0).fit(X, np.array(list(classes))[rank])
    pril.save(model, tmp_path / "model.pril")
    again = pril.load(tmp_path / "model.pril")
    assert again.classes_.tolist() == list(classes)
    assert again.predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.parametrize(
    "wrong",
    [["0", "1"], ["1", "0", "left"], ["nan", "1", "left"], [0, 1, "left"], ["0", "1", "up"], "0"],
)
def test_ranges_that_are_none_are_refused(wrong):
    place = fields.Place(fields.Reader({}, {}), "classes", {})
    with pytest.raises(ValueError, match="classes must be a range of numbers"):
        fields.Labels().check({"dtype": "interval", "values": [wrong]}, place)


@pytest.mark.parametrize("scoring", [None, "accuracy", interval_accuracy_scorer])
@pytest.mark.parametrize("cv", [3, KFold(3, shuffle=True, random_state=0), TimeSeriesSplit(3)])
def test_a_search_is_kept_with_its_results(scoring, cv, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = make_pipeline(StandardScaler(), pril.PRIL(random_state=0))
    search = GridSearchCV(model, {"pril__max_iter": [1, 5]}, scoring=scoring, cv=cv).fit(X, y)
    for saved in (search, search.best_estimator_):
        pril.save(saved, tmp_path / "search.pril")
        again = pril.load(tmp_path / "search.pril")
        np.testing.assert_array_equal(again.predict(X), search.predict(X))
    pril.save(search, tmp_path / "search.pril")
    again = pril.load(tmp_path / "search.pril")
    assert again.best_params_ == search.best_params_
    np.testing.assert_array_equal(
        again.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"]
    )
    assert again.score(X, y) == search.score(X, y)


def test_a_search_without_a_refitted_model_is_refused(tmp_path):
    search = GridSearchCV(pril.PRIL(), {"max_iter": [1]}, cv=KFold(2), refit=False).fit(X, LABELS)
    with pytest.raises(TypeError, match="a model is an estimator of pril"):
        pril.save(search, tmp_path / "search.pril")


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
        (StandardScaler().fit(X), TypeError, "not StandardScaler"),
        (make_pipeline(pril.PRIL(), StandardScaler()), TypeError, "not Pipeline"),
        ({"a": 1}, TypeError, "not dict"),
        (None, TypeError, "not NoneType"),
        (
            pril.KernelPRIL(kernel=product).fit(X, LABELS),
            TypeError,
            "KernelPRIL cannot be saved: it holds <function product .* no code",
        ),
        (
            make_pipeline(pril.PolynomialMap(), pril.PRIL()).fit(X, LABELS).set_params(memory="x"),
            TypeError,
            "memory must be None, not 'x'",
        ),
        (with_attribute(pril.PRIL().fit(X, LABELS)), TypeError, "no file keeps the attribute mine"),
        (
            make_pipeline(FunctionTransformer(lambda X: X), pril.PRIL()).fit(X, LABELS),
            TypeError,
            r"Pipeline\(FunctionTransformer, PRIL\) cannot be saved: it holds .*<lambda>",
        ),
        (Mine().fit(X, LABELS), TypeError, "Mine cannot be saved: it holds .*Mine"),
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
    pytest.importorskip("array_api_strict")
    said = run(
        "import array_api_strict as xp, numpy as np, pril, sklearn, sys\n"
        "sklearn.set_config(array_api_dispatch=True)\n"
        "model = pril.KernelPRIL().fit(xp.asarray(np.eye(3)), [1, 2, 3])\n"
        "try: pril.save(model, sys.argv[1])\n"
        "except TypeError as error: print(error)",
        tmp_path / "model.pril",
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
    )
    assert "a file holds NumPy arrays" in said
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


def test_a_full_disk(tmp_path):
    (tmp_path / "model.pril").write_bytes(b"old")
    said = run(
        "import resource, signal, sys, numpy as np, pril\n"
        "model = pril.PRIL().fit(np.eye(3, 5000), [1, 2, 3])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "try: pril.save(model, sys.argv[1])\n"
        "except OSError as error: print(error.filename, error.strerror)",
        tmp_path / "model.pril",
    )
    assert said == f"{tmp_path / 'model.pril'} File too large\n"
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


def test_killed_while_saving(tmp_path):
    path = tmp_path / "model.pril"
    seen = set()
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
            # Longer and longer: a busy disk takes its time for a file.
            until = random.uniform(0.01, 0.08) * (1 + attempt / 25)  # noqa: S311
            with suppress(subprocess.TimeoutExpired):
                forge.wait(until)
            os.kill(child, signal.SIGKILL)
            assert forge.stdout.readline() == "dead\n"
            model = pril.load(path)
            assert model.n_features_in_ == 20_000
            seen.add(model.t_)
            if attempt >= 25 and len(seen) == 2:
                break
        forge.stdin.close()
    assert len(seen) == 2
