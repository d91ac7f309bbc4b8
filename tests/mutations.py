"""Change the source at random, one place at a time, and see whether the tests notice.

    python tests/mutations.py 40 --seed 1 src/pril/online src/pril/labels

A copy of the project is made. First its tests must pass as they are, which also compiles; then each
mutation is tried with the tests of its module. Those that survive are printed: each is a missing
test, or changes nothing that anyone could see.
"""

import argparse
import difflib
import io
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path

ROOT = Path(__file__).parent.parent
OTHERS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+",
    "+=": "-=", "-=": "+=", "and": "or", "or": "and", "True": "False", "False": "True",
    "not": "", "min": "max", "max": "min", "any": "all", "all": "any",
}  # fmt: skip
DEFAULTS = "tests/test_package.py::test_defaults_are_the_documented_ones"
# The tests of a file of src/pril, or of a folder; the first line that fits counts.
TESTS = {
    "core/loop_types": "loop ordered_logit linear one_row",
    "core/rating": "linear batches one_row posterior kernel",
    "online/linear_engine": "orders linear",
    "online/loop": "loop ordered_logit linear one_row posterior in_place kernel",
    "online/recent_errors": "stream_metrics one_row",
    "online/code_cache": "code_cache",
    "online/compile_time": "code_cache cli",
    "core/coarsening": "coarsening coarsening_by_row likelihood ordered_logit",
    "online/one_row": "one_row class_weight in_place river",
    "labels/brackets": "bracket_texts brackets labels",
    "labels/rank": "labels class_order linear metrics",
    "online/memory": "linear in_place loop one_row orders io",
    "bases/parts": "class_order ranges evaluate onnx integrations report",
    "core/docs": "package",
    "core/registry": "package",
    "labels/scale": "scale",
    "core": "parameters linear class_weight labels batches class_order one_row loop in_place orders",
    "online/coarsening": "coarsening_by_row likelihood ordered_logit",
    "online": "parameters linear class_weight labels batches class_order one_row loop in_place orders",
    "bases": "parameters linear class_weight labels batches class_order one_row loop in_place orders",
    "learners/boosting": "boosting_bins boosting_rows boosting_starts constraints ordered_boosting contributions",
    "learners/ordered_boosting": "parameters ordered_boosting",
    "learners/kernel_pril": "parameters kernel batches",
    "learners/ordered_logit": "parameters ordered_logit loop posterior linear",
    "learners": "parameters linear loop batches one_row",
    "kernels": "kernel fused",
    "labels": "labels bracket_texts brackets",
    "metrics": "metrics class_order plotting training report",
    "evaluate": "evaluate class_order loop",
    "features": "parameters features kernel",
    "ranges": "parameters ranges",
    "paper/datasets": "datasets",
    "io/schema": "io ordered_boosting",
    "io": "io notes label_kinds",
    "inference": "inference scale",
    "likelihood/errors": "inference",
    "likelihood/by_row": "coarsening_by_row likelihood coarsening",
    "likelihood": "likelihood inference coarsening ordered_logit",
    "dask": "dask cluster",
    "tables/stream": "stream stream_answers cold_start",
    "tables/growing": "cold_start stream",
    "tables/pipeline": "pipeline stream_answers",
    "tables/opening": "remote tables csv_style reliability",
    "tables/arrow": "csv_style encoder tables label_kinds",
    "tables/files": "csv_style tables quotes reliability",
    "tables/text": "csv_style quotes tables stream",
    "tables/label_columns": "label_kinds brackets reliability training encoder cli",
    "tables/runs": "training brackets cluster boosting_bins",
    "tables/cluster": "cluster",
    "tables/model": "report scale cli tables reliability",
    "tables/json": "stream stream_answers tables cold_start",
    "tables/encoder": "encoder tables training pipeline stream_answers",
    "tables": "tables training encoder cli reliability quotes brackets stream remote cluster",
    "cli": "cli reliability brackets stream report remote",
    "plotting": "plotting report",
    "reporting": "report cli",
    "paper/theory": "theory",
    "paper/experiments": "experiments",
    "onnx": "onnx",
    "river": "river",
    "rules": "rules",
    "links": "likelihood logistic onnx",
}


def mutations(path):
    """Yield a file's text with one token replaced, and the number of its line."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        other = OTHERS.get(token.string)
        if token.type == tokenize.NUMBER and token.string.isdigit():
            other = str(int(token.string) + 1)
        if other is not None and token.type in (tokenize.OP, tokenize.NAME, tokenize.NUMBER):
            (row, start), (_, end) = token.start, token.end
            changed = lines[row - 1][:start] + other + lines[row - 1][end:]
            yield row, "".join([*lines[: row - 1], changed, *lines[row:]])


def tests_of(path):
    """Return what tests a file of the package: its examples, its defaults, and test files."""
    name = path.relative_to(ROOT / "src/pril").with_suffix("").as_posix()
    words = next((TESTS[start] for start in TESTS if name.startswith(start)), "package")
    own = [path.relative_to(ROOT).as_posix()] if ">>>" in path.read_text(encoding="utf-8") else []
    return [DEFAULTS, *own, *(f"tests/test_{word}.py" for word in words.split())]


def passes(copy, tests, seconds):
    """Return whether tests pass in a copy; those that hang do not."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    command += ["-m", "not slow and not attack and not site"]
    try:
        ended = subprocess.run(
            command, cwd=copy, env=environment, timeout=seconds,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int)
    parser.add_argument("paths", type=Path, nargs="*", default=[ROOT / "src/pril"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600, help="for the tests of one file")
    given = parser.parse_intermixed_args()
    files = sorted(
        file
        for path in map(Path.resolve, given.paths)
        for file in (path.rglob("*.py") if path.is_dir() else [path])
    )
    drawn = random.Random(given.seed).sample(  # noqa: S311
        [(file, *mutation) for file in files for mutation in mutations(file)], given.number
    )
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "pril"
        ignored = shutil.ignore_patterns(".*", "output", "__pycache__", "auto_examples")
        shutil.copytree(ROOT, copy, ignore=ignored)
        every = sorted({test for file, *_ in drawn for test in tests_of(file)})
        assert passes(copy, every, 3 * given.seconds), f"fails without a mutation: {every}"
        survived = 0
        for file, line, text in drawn:
            name, before = file.relative_to(ROOT), file.read_text(encoding="utf-8")
            (copy / name).write_text(text, encoding="utf-8")
            found = not passes(copy, tests_of(file), given.seconds)
            shutil.copy2(file, copy / name)  # with its time: its compiled code is used again
            survived += not found
            print(f"{'caught' if found else 'SURVIVED'}  {name}:{line}", flush=True)
            if not found:
                changes = difflib.unified_diff(before.splitlines(), text.splitlines(), n=1)
                print(*list(changes)[2:], sep="\n", flush=True)
    print(f"{given.number - survived} of {given.number} caught")


if __name__ == "__main__":
    main()
