"""The package as installed: its names, its imports, its docstrings, what a newcomer runs."""

import ast
import importlib
import importlib.util
import inspect
import operator
import os
import subprocess
import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpydoc.docscrape import FunctionDoc
from numpydoc.validate import validate

import pril
from learners import EXACT_ONLY
from pril.core.registry import LEARNERS
from pril.errors import FeatureRangeWarning

RECORDS = ("Warning", ".Curve", ".Settings", ".Progress", ".BootstrapResult", ".Margin", ".Regret",
           ".Bound", ".Audit")  # fmt: skip
ROOT = Path(__file__).parents[1]
MODULES = [
    "dask",
    "paper.datasets",
    "errors",
    "features",
    "evaluate",
    "io",
    "labels",
    "metrics",
    "onnx",
    "plotting",
    "ranges",
    "river",
    "rules",
    "paper.theory",
    "paper.experiments",
]


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, **options
    ).stdout


def test_all_names_are_there():
    for name in dir(pril):
        if name != "torch" or importlib.util.find_spec("torch"):
            assert getattr(pril, name) is not None
    assert set(pril.__all__) < set(dir(pril))
    for module in MODULES:
        loaded = importlib.import_module(f"pril.{module}")
        assert all(hasattr(loaded, name) for name in loaded.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'PRILL'"):
        pril.PRILL  # noqa: B018


def test_a_star_import_hides_no_other_module():
    """Names of modules, such as io and dask, are also names of others."""
    brought = {}
    exec("from pril import *", brought)  # noqa: S102
    assert not [name for name, value in brought.items() if isinstance(value, ModuleType)]
    assert brought["PRIL"] is pril.PRIL
    assert brought["load"] is pril.io.load


def test_all_brings_every_extra_of_users():
    """The learners' library for graphics cards has gigabytes; two extras are for developers."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (everything,) = extras["all"]
    assert set(everything[5:-1].split(",")) == set(extras) - {"all", "gpu", "torch", "test", "docs"}


def test_import_is_light_until_something_is_used():
    heavy = {"numba", "sklearn", "scipy", "pandas", "matplotlib", "skops", "dask", "distributed"}
    loaded = run("-c", "import sys, pril; print(*{name.split('.')[0] for name in sys.modules})")
    assert not heavy & set(loaded.split())


ALL_ANSWERS = """
import sys
import numpy as np
from scipy.sparse import csr_array
import pril
X = np.random.default_rng(0).normal(size=(100, 3))
for name in sys.argv[1:]:
    model = pril.load(name)
    for rows in (X, X[:1], X.astype(np.float32), csr_array(X), csr_array(X.astype(np.float32))):
        model.predict(rows), model.score(rows, [1] * rows.shape[0]), model.coef_
        for answer in ("latent", "decision_function", "predict_proba"):
            if hasattr(model, answer):
                getattr(model, answer)(rows)
        if hasattr(model, "thresholds_"):
            model.thresholds_
        if hasattr(model, "posterior"):
            model.posterior(rows, [(1, 2)] * rows.shape[0]), model.coarsening_
print("numba" in sys.modules)
"""


def test_predictions_of_linear_learners_need_no_compiler(tmp_path):
    rng = np.random.default_rng(0)
    X, y = np.tanh(rng.normal(size=(60, 3))), rng.integers(1, 4, 60)
    files = []
    for learner in LEARNERS:
        if learner.linear:
            files.append(str(tmp_path / learner.name))
            pril.save(learner.load()().fit(X, y), files[-1])
    assert run("-c", ALL_ANSWERS, *files).strip() == "False"


WITHOUT_EXTRAS = """
import sys
class Missing:
    def find_spec(self, name, *rest):
        if name.split(".")[0] in {"dask", "jinja2", "matplotlib", "pandas", "skl2onnx", "skops", "torch"}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
"""


def test_extras_are_not_needed_and_a_missing_one_is_named():
    said = run(
        "-c",
        f"{WITHOUT_EXTRAS}\n"
        "import pril\n"
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import StandardScaler\n"
        "model = pril.PRIL(classes=[1, 2]).fit([[0.0], [1.0]], [(1, 2), (None, 1)])\n"
        "try: pril.plotting.ScoreAxisDisplay.from_estimator(model, [[0.0]], [1])\n"
        "except ImportError as error: print(error)\n"
        "try: pril.report(model, [[0.0]], [1], 'never-written')\n"
        "except ImportError as error: print(error)\n"
        "try: pril.save(make_pipeline(StandardScaler(), model), 'never-written')\n"
        "except ImportError as error: print(error)\n"
        "try: pril.dask.fit\n"
        "except ImportError as error: print(error)\n"
        "try: pril.onnx.to_onnx\n"
        "except ImportError as error: print(error)\n"
        "try: pril.torch.RangeLoss\n"
        "except ImportError as error: print(error)",
    )
    for extra in ("plot", "io", "dask", "onnx", "torch"):
        assert f"in a clone of pril run pip install '.[{extra}]'" in said
    assert "a report needs jinja2: in a clone of pril run pip install '.[plot]'" in said


def test_errors_that_are_raised_on_purpose_are_ours():
    """The command takes any other ValueError or TypeError for a bug."""
    found = []
    for path in Path(pril.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name) and called.id in ("ValueError", "TypeError"):
                found.append(f"{path}:{called.lineno}")
    assert found == []


def refused_unless(allowed):
    return nullcontext() if allowed else pytest.raises(pril.errors.PrilError)


@pytest.mark.parametrize("entry", LEARNERS, ids=lambda entry: entry.name)
def test_the_registry_tells_what_a_learner_can_do(entry):
    cls = entry.load()
    X, y = np.linspace(-1, 1, 60).reshape(30, 2), np.repeat([1, 2, 3], 10)
    model = cls(classes=[1, 2, 3]).fit(X, y)
    assert entry.online == hasattr(model, "partial_fit")
    assert hasattr(model, "stream") == (entry.linear or not entry.online)
    if hasattr(model, "stream"):
        with refused_unless(entry.online):
            model.stream().learn_one(X[0], 1)
    assert entry.linear == (hasattr(model, "coef_") and X.shape[1] == model.coef_.shape[-1])
    assert entry.has_thresholds == (hasattr(model, "latent") and len(model.thresholds_) == 2)
    with pytest.warns(FeatureRangeWarning) if entry.bounded else nullcontext():
        cls().fit(2 * X, y)
    with refused_unless(entry.name not in EXACT_ONLY):
        cls(classes=[1, 2, 3]).fit(X, np.column_stack([y, np.maximum(y, 2)]))
    assert entry.maximises == hasattr(cls(classes=[1, 2, 3]).fit(X, y), "converged_")
    with refused_unless(entry.name != "KernelPRIL"):
        pril.onnx.to_onnx(model)
    with refused_unless(entry.mixes):
        pril.dask.fit_blocks(cls(classes=[1, 2, 3]), [(X, y), (X, y)], mode="mix", epochs=1)


def private_sklearn_imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.startswith("sklearn.") and "._" in name)


def test_private_names_of_scikit_learn_are_imported_in_one_file():
    """import-linter sees other packages as one module each; it checks the layers of ours."""
    source = Path(pril.__file__).parent
    importing = {path for path in source.rglob("*.py") if list(private_sklearn_imports(path))}
    assert importing == {source / "core" / "scikit.py"}


def public_names():
    yield from (f"pril.{name}" for name in pril.__all__)
    for module in MODULES:
        names = importlib.import_module(f"pril.{module}").__all__
        yield from (f"pril.{module}.{name}" for name in names)


def loaded(name):
    module, _, item = name.rpartition(".")
    return getattr(importlib.import_module(module), item)


def public_objects():
    for name in public_names():
        item = loaded(name)
        yield name
        if inspect.isclass(item):
            for method, _ in inspect.getmembers(item, inspect.isfunction):
                own = any(
                    method in vars(base)
                    for base in item.__mro__
                    if base.__module__.startswith("pril")
                )
                if own and not method.startswith("_"):
                    yield f"{name}.{method}"


@pytest.mark.parametrize("name", list(public_objects()))
def test_docstrings_match_signatures(name):
    """numpydoc's own checks: parameters documented, in order, with types, nothing invented."""
    wanted = {"GL08", "SS01", "PR01", "PR02", "PR03", "PR04", "PR07", "RT01", "RT03"}
    errors = [error for error in validate(name)["errors"] if error[0] in wanted]
    if name.endswith((*RECORDS, "_scorer")):  # records, and instances of a documented class
        errors = [error for error in errors if not error[0].startswith("PR")]
    assert errors == []


def documented_defaults(item):
    """Yield the names of parameters and what follows "default=" in their descriptions."""
    for names, kind, _ in FunctionDoc(item)["Parameters"]:
        for name in names.split(", "):
            yield name, kind.partition("default=")[2]


def test_the_docstring_of_a_users_class_is_its_own():
    class Rated(pril.PRIL):
        """A line that looks like ours, of a name that is ours and of one that is not.

        %(classes)
        %(x)
        """

    assert "%(classes)\n" in Rated.__doc__
    assert "%(x)\n" in Rated.__doc__


def test_defaults_are_the_documented_ones():
    compared = 0
    for name in public_objects():
        item = operator.attrgetter(name.removeprefix("pril."))(pril)
        if not callable(item) or name.endswith(("_request", "_scorer", *RECORDS)):
            continue
        for parameter, value in documented_defaults(item):
            if value:
                default = inspect.signature(item).parameters[parameter].default
                assert default == ast.literal_eval(value), (name, parameter)
                compared += 1
    assert compared > 250


@pytest.mark.parametrize(
    "name",
    [name for name in public_names() if not name.endswith((*RECORDS, "Error", "ClusterLost"))],
)
def test_public_docstrings_have_an_example(name):
    assert ">>>" in inspect.getdoc(loaded(name))


def test_demo(tmp_path):
    said = run(str(ROOT / "examples" / "demo.py"), "--output", str(tmp_path))
    assert "thresholds" in said
    assert (tmp_path / "demo.png").stat().st_size > 10_000


@pytest.mark.slow
def test_after_pril_compile_another_process_compiles_nothing(tmp_path):
    """It must load everything it needs, or every process pays for compiling."""
    command = "from pril.cli.main import main; main(['compile', 'prank'])"
    script = (
        "import numpy as np, pril; from pril.online import loop\n"
        "X, y = np.eye(3), [1, 2, 3]\n"
        "stream = pril.PRank(classes=[1, 2, 3]).fit(X, y).stream()\n"
        "stream.learn_one(X[0], stream.predict_one(X[0]))\n"
        "compiled = [f for f in vars(loop).values() if hasattr(f, 'stats')]\n"
        "print(sum(sum(f.stats.cache_misses.values()) for f in compiled))\n"
    )
    # Code beside the modules is used too, but none of it was compiled with this setting.
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "2"}
    assert int(run("-c", script, env=environment | {"NUMBA_OPT": "1"})) > 0
    assert run("-c", command, env=environment).endswith("Compiled code is on disk.\n")
    assert run("-c", script, env=environment).strip() == "0"
