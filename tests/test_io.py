"""Model files: what comes back, and what is refused. Real files throughout."""

import io
import json
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import warnings
import zipfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import pril
from pril.io import FORMAT, read, replace_file, write

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
    "frozen": FrozenEstimator(StandardScaler().fit(X)),
}


def same(one, other):
    """Bit for bit, the sign of zero included."""
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


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
    assert re.sub("0x\\w+", "", repr(again)) == re.sub("0x\\w+", "", repr(model))
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
    assert read(tmp_path / "model.pril", kind="model")[1].classes == model.classes_.tolist()


def test_a_file_says_what_it_is(tmp_path):
    model = make_pipeline(columns(), pril.PRIL()).fit(TABLE, LABELS)
    write(model, tmp_path / "model.pril", kind="model", notes={"rows": 60, "seed": None})
    _, about = read(tmp_path / "model.pril", kind="model")
    assert about.kind == "model"
    assert about.format == FORMAT
    assert about.versions["pril"] == pril.__version__
    assert about.versions["numpy"] == np.__version__
    assert set(about.versions) == {
        *("pril", "numpy", "scipy", "scikit-learn", "numba", "skops", "python")
    }
    assert about.model == "Pipeline(ColumnTransformer, PRIL)"
    assert about.classes == CLASSES
    assert about.features == list("abcde")
    assert about.notes == {"rows": 60, "seed": None}


def test_a_checkpoint_holds_more_than_a_model(small, tmp_path):
    shared = np.arange(3.0)
    content = {
        "file": small,
        "new": pril.PRIL(),
        "__loader__": [1, 2.5, "three", None, True, [float("inf")]],
        "__id__": {"sums": shared, "again": shared, "names": np.array(["a", None], dtype=object)},
        "numpy": np.float64(0.1),
    }
    write(content, tmp_path / "check", kind="checkpoint", notes={"at": 7})
    again, about = read(tmp_path / "check", kind="checkpoint")
    assert list(again) == list(content)
    assert again["__loader__"] == content["__loader__"]
    assert same(again["__id__"]["sums"], shared)
    assert again["__id__"]["sums"] is again["__id__"]["again"]
    assert again["__id__"]["names"].tolist() == ["a", None]
    assert same(again["numpy"], content["numpy"])
    assert same(again["file"].predict(X[:, :1]), small.predict(X[:, :1]))
    assert (about.model, about.classes, about.notes) == ("PRIL", CLASSES, {"at": 7})
    with pytest.raises(ValueError, match="is a checkpoint, not a model"):
        pril.load(tmp_path / "check")
    pril.save(small, tmp_path / "model")
    with pytest.raises(ValueError, match="is a model, not a checkpoint"):
        read(tmp_path / "model", kind="checkpoint")


def run(script, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        **options,
    ).stdout


TWIN = """
import numpy as np, pandas as pd, pril
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
table = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": ["x", "y", "x"]})
columns = make_column_transformer((SimpleImputer(), ["a"]), (OneHotEncoder(), ["b"]))
linear = pril.PRank(random_state=0)
kernel = pril.KernelPRIL(kernel_params={"gamma": 0.5}, random_state=np.random.RandomState(0))
twin = {
    "learners": [make_pipeline(columns, one).fit(table, [1, 2, 3]) for one in (linear, kernel)],
    "names": set("abcdefgh"),
    "bytes": b"bytes",
}
"""


def test_two_processes_write_the_same_bytes(tmp_path):
    script = "import sys\nfrom pril.io import write\nwrite(twin, sys.argv[1], kind='checkpoint')"
    run(TWIN + script, tmp_path / "there", env={**os.environ, "PYTHONHASHSEED": "1"})
    namespace = {}
    exec(TWIN, namespace)  # noqa: S102
    write(namespace["twin"], tmp_path / "here", kind="checkpoint")
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()


def test_a_loaded_model_gives_the_same_bytes(data, spot):
    spot.write_bytes(data)
    pril.save(pril.load(spot), spot)
    assert spot.read_bytes() == data


# --- Damaged files -------------------------------------------------------------------------------

DAMAGED = "is damaged or not a model file of pril: "


def refused(spot, data, match=DAMAGED):
    spot.write_bytes(data)
    with pytest.raises(ValueError, match=match) as caught:
        pril.load(spot)
    message = str(caught.value)
    assert message.startswith(str(spot))
    assert type(caught.value) is ValueError
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


# --- Files made by hand, with the right checksum -------------------------------------------------


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sealed(members, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.comment = b"pril sha256 " + b"0" * 64
        for name, member in members.items():
            archive.writestr(name, member)
    body = buffer.getvalue()[:-64]
    return body + sha256(body).hexdigest().encode()


def edited(data, edit):
    """Return a file whose schema's attributes were edited."""
    members = members_of(data)
    schema = json.loads(members["schema.json"])
    edit(schema["content"]["content"], members)
    members["schema.json"] = json.dumps(schema).encode()
    return sealed(members)


def node(module, name, loader, **more):
    return {"__class__": name, "__module__": module, "__loader__": loader, **more}


def constant(value):
    return node("builtins", "str", "JsonNode", content=json.dumps(value))


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def test_a_file_made_by_hand_can_be_right(data, small, spot):
    spot.write_bytes(edited(data, lambda attributes, members: None))
    assert same(pril.load(spot).coef_, small.coef_)


def test_a_pickle(small, spot):
    assert "begin and end" in refused(spot, pickle.dumps(small))


def test_an_archive_that_is_no_model(spot):
    for members in ({}, {"a.json": b"{}"}, {"pril.json": b"[]", "schema.json": b"{}"}):
        refused(spot, sealed(members))


def test_a_compressed_member(data, spot):
    message = refused(spot, sealed(members_of(data), zipfile.ZIP_DEFLATED))
    assert "a member is compressed" in message


def test_a_zip_bomb(data, spot):
    bomb = sealed({**members_of(data), "bomb.npy": bytes(10**8)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 10**6
    assert "a member is compressed" in refused(spot, bomb)


def test_a_zip_bomb_inside_a_sparse_matrix(spot, tmp_path):
    model = pril.KernelPRIL(random_state=0).fit(csr_array(X), LABELS)
    pril.save(model, tmp_path / "sparse")
    members = members_of((tmp_path / "sparse").read_bytes())
    inside = next(name for name in members if name.endswith(".npz"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("data.npy", npy(np.zeros(10**7)))
    for name in (inside, "0.npy"):
        assert "compressed" in refused(spot, sealed({**members, name: buffer.getvalue()}))


def test_members_that_overlap(data, spot):
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
    twice = sealed({**members, "x.npy": b""})
    assert first != second
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.comment = b"pril sha256 " + b"0" * 64
        for name, member in [*members.items(), (first, members[second])]:
            archive.writestr(name, member)
    body = buffer.getvalue()[:-64]
    assert "odd names" in refused(spot, body + sha256(body).hexdigest().encode())
    spot.write_bytes(twice)
    pril.load(spot)


def test_a_newer_format(data, spot):
    members = members_of(data)
    about = {"format": FORMAT + 1, "something": "new"}
    newer = sealed({**members, "pril.json": json.dumps(about).encode()})
    refused(spot, newer, rf"newer pril \(format 2; this one reads up to {FORMAT}\): upgrade")


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
def test_an_unknown_type_is_named_and_not_imported(named, text, data, spot, tmp_path, monkeypatch):
    marker = tmp_path / "marker"
    (tmp_path / "trap_module.py").write_text(f"open({str(marker)!r}, 'w')\nclass Trap: pass")
    monkeypatch.syspath_prepend(str(tmp_path))
    trap = edited(data, lambda attributes, members: attributes.update(tol=named))
    message = refused(spot, trap, "which pril does not load")
    assert text in message
    assert not marker.exists()


def test_deep_nesting(data, spot):
    def edit(depth):
        nested = constant(1)
        for _ in range(depth):
            nested = node("builtins", "list", "ListNode", content=[nested])
        return lambda attributes, members: attributes.update(tol=nested)

    refused(spot, edited(data, edit(300)))
    deep = b"[" * 10**6
    refused(spot, sealed({**members_of(data), "schema.json": deep}))
    refused(spot, sealed({**members_of(data), "pril.json": deep}))
    inner = node("builtins", "str", "JsonNode", content="[" * 10**6)
    refused(spot, edited(data, lambda attributes, members: attributes.update(tol=inner)))


def test_a_description_that_no_computer_can_walk(data, spot):
    """Lists of twice the same list, thirty deep, each described once and then referred to."""
    lists = [node("builtins", "list", "ListNode", content=[constant(1)], __id__=1)]
    for i in range(2, 32):
        again = node(None, None, "CachedNode", __id__=i - 1)
        lists.append(node("builtins", "list", "ListNode", content=[lists[-1], again], __id__=i))
    bomb = edited(data, lambda attributes, members: attributes.update(tol=lists[-1]))
    assert "one number" in refused(spot, bomb)


@pytest.mark.parametrize("learner", LEARNERS)
def test_learned_arrays_that_do_not_fit(learner, spot, tmp_path):
    """Every array of every learner, replaced by others: refused, or as good as the first."""
    pril.save(fitted(clone(LEARNERS[learner]), None), tmp_path / "model")
    data = (tmp_path / "model").read_bytes()
    members = members_of(data)
    schema = members["schema.json"].decode()
    memory = schema[schema.index('"_memory"') :]
    names = [name for name in members if f'"{name}"' in memory]
    assert len(names) >= 4
    for name in names:
        array = np.load(io.BytesIO(members[name]))
        for other in (
            array[:-1],
            array[..., :-1],
            np.concatenate([array, array]),
            array.astype(np.float32),
            array.astype(np.int32),
            array.astype(">f8"),
            array.astype(str),
            array[np.newaxis],
            np.float64(1.0),
            *([np.asfortranarray(array)] if learner == "multiclass" and array.ndim == 2 else []),
            np.full_like(array, np.nan if array.dtype == np.float64 else -(2**62)),
        ):
            spot.write_bytes(sealed({**members, name: npy(other)}))
            with suppress(ValueError):
                model = pril.load(spot)
                # Counts and positions may be any; rows that a kernel compares may be float32.
                single = array.shape[1:] == (4,) and other.dtype == np.float32
                assert array.dtype == np.int64 or single, (name, other)
                with suppress(ValueError):
                    model.partial_fit(MORE, EXACT).predict(MORE)


def test_learned_arrays_are_looked_for_everywhere(small, spot):
    frozen = FrozenEstimator(make_pipeline(small))
    box = np.empty(1, dtype=object)
    box[0] = small
    for content in (small, {"a": [1, (frozen,)]}, frozen, {"b": frozen}, {"c": box}):
        write(content, spot, kind="checkpoint")
        members = members_of(spot.read_bytes())
        for name in [name for name in members if name.endswith(".npy")]:
            spot.write_bytes(sealed({**members, name: npy(np.zeros((1, 3)))}))
            with pytest.raises(ValueError, match=r"shape|classes"):
                read(spot, kind="checkpoint")


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("classes_", constant([1, 2])),
        ("classes_", constant(CLASSES)),
        ("classes_", constant(None)),
        ("n_features_in_", constant(3)),
        ("n_features_in_", constant("1")),
        ("average", node("numpy", "add", "FunctionNode")),
        ("_learned_with", constant({})),
        ("_learned_with", constant({"average": False})),
        ("_learned_with", constant({"average": True, "predict": 1})),
        ("_memory", constant(None)),
        ("_memory", constant([[1, 2, 3, 4], None])),
    ],
)
def test_attributes_that_do_not_fit(attribute, value, data, spot):
    changed = edited(data, lambda attributes, members: attributes.update({attribute: value}))
    if attribute == "average":  # refused when it is used, as in a model that was never saved
        spot.write_bytes(changed)
        with pytest.raises(ValueError, match="average"):
            pril.load(spot).predict(X[:, :1])
    else:
        refused(spot, changed)


def test_a_kernel_that_is_a_function_of_numpy(spot, tmp_path):
    pril.save(pril.KernelPRIL().fit(X, LABELS), tmp_path / "model")
    function = node("numpy", "add", "FunctionNode")
    data = (tmp_path / "model").read_bytes()
    changed = edited(data, lambda attributes, members: attributes.update(kernel=function))
    assert "is a function" in refused(spot, changed)


def test_a_sparse_row_that_points_outside(spot, tmp_path):
    pril.save(pril.KernelPRIL().fit(csr_array(X), LABELS), tmp_path / "model")
    members = members_of((tmp_path / "model").read_bytes())
    name = next(name for name in members if name.endswith(".npz"))
    inside = members_of(members[name])
    indices = np.load(io.BytesIO(inside["indices.npy"]))
    inside["indices.npy"] = npy(indices + 10**6)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for part, member in inside.items():
            archive.writestr(part, member)
    refused(spot, sealed({**members, name: buffer.getvalue()}))


def test_a_type_that_is_no_model(spot, tmp_path):
    write({"a": 1}, tmp_path / "check", kind="checkpoint")
    members = members_of((tmp_path / "check").read_bytes())
    members["pril.json"] = members["pril.json"].replace(b'"checkpoint"', b'"model"')
    assert "at the end of a Pipeline, not dict" in refused(spot, sealed(members))


json_values = st.sampled_from(
    [None, 0, -1, 10**30, 1e308, "", "schema.json", "0.npy", "numpy", "PRIL", [], {}, [[]], True]
)


@given(draws=st.data())
def test_any_edit_of_a_right_file_is_refused_or_harmless(draws, data, spot):
    members = members_of(data)
    if draws.draw(st.booleans()):
        name = draws.draw(st.sampled_from([name for name in members if name.endswith(".npy")]))
        member = bytearray(members[name])
        for _ in range(draws.draw(st.integers(1, 4))):
            member[draws.draw(st.integers(0, len(member) - 1))] = draws.draw(st.integers(0, 255))
        members[name] = bytes(member)
    else:
        name = draws.draw(st.sampled_from(["schema.json", "pril.json"]))
        root = item = json.loads(members[name])
        while True:
            keys = list(item) if isinstance(item, dict) else list(range(len(item)))
            key = draws.draw(st.sampled_from(keys))
            if isinstance(item[key], dict | list) and item[key] and draws.draw(st.integers(0, 9)):
                item = item[key]
                continue
            item[key] = draws.draw(json_values)
            break
        members[name] = json.dumps(root).encode()
    spot.write_bytes(sealed(members))
    try:
        model = pril.load(spot)
    except ValueError as error:
        assert str(spot) in str(error)  # noqa: PT017
        return
    with suppress(ValueError, TypeError, AttributeError, MemoryError):
        model.predict(X[:, :1])
        model.partial_fit(X[:, :1], LABELS).predict(X[:, :1])


# --- What cannot be saved ------------------------------------------------------------------------


def product(a, b):
    return a @ b.T


class Mine(pril.PRIL):
    pass


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
            ValueError,
            "product .* is a function, and a file holds data, no code",
        ),
        (
            make_pipeline(FunctionTransformer(lambda X: X), pril.PRIL()).fit(X, LABELS),
            TypeError,
            r"Pipeline\(FunctionTransformer, PRIL\) cannot be saved: it holds .*<lambda>",
        ),
        (Mine().fit(X, LABELS), TypeError, "Mine cannot be saved: it holds .*Mine"),
        (
            pril.PRIL().fit(X, pd.cut(X[:, 0], 3)),
            TypeError,
            "PRIL cannot be saved: it holds pandas.*Interval",
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
        "except ValueError as error: print(error)",
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
