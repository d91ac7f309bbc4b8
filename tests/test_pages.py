"""Every command on a page is run, and every block of code is one that is run.

pytest itself runs the examples that begin with ``>>>``, on pages as in docstrings.
"""

import ast
import doctest
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for pattern in ("*.md", "benchmarks/*.md", "docs/**/*.md")
    for path in ROOT.glob(pattern)
    if "auto_examples" not in path.parts
)
FENCE = re.compile(r"^(`{3,})(.*?)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
ALIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A fenced block of a page."""

    line: int
    kind: str
    text: str


def blocks(path):
    text = path.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        yield Block(text[: match.start()].count("\n") + 1, match[2].strip(), match[3])


def commands(text):
    """Return pairs of a command and what it should print; "> " continues a command."""
    pairs = []
    for line in text.splitlines():
        if line.startswith("$ "):
            pairs.append([line[2:], []])
        elif line.startswith("> ") and not pairs[-1][1]:
            pairs[-1][0] += f"\n{line[2:]}"
        else:
            pairs[-1][1].append(line)
    return [(command, "\n".join(lines).strip()) for command, lines in pairs]


def name(path):
    return str(path.relative_to(ROOT))


WITH_COMMANDS = [path for path in PAGES if any(b.kind == "console" for b in blocks(path))]


def test_pages_are_found():
    assert {"README.md", "docs/guide/tables.md"} <= set(map(name, WITH_COMMANDS))


@pytest.mark.skipif(os.name == "nt", reason="pages show the commands of a Unix shell")
@pytest.mark.parametrize("path", WITH_COMMANDS, ids=name)
def test_commands_print_what_the_page_says(path, tmp_path, tmp_path_factory, program):
    script = tmp_path_factory.mktemp("bin") / "pril"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(program)} "$@"\n')
    script.chmod(0o755)
    folders = [str(script.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(folders), "COLUMNS": "100"}
    checker = doctest.OutputChecker()
    for block in blocks(path):
        for command, wanted in commands(block.text) if block.kind == "console" else []:
            ended = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],  # noqa: S607
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            where = f"{name(path)}, line {block.line}: {command}"
            refused = re.search("^pril: (?!warning)", wanted, re.MULTILINE)
            assert ended.returncode == (2 if refused else 0), f"{where}\n{ended.stdout}"
            same = checker.check_output(f"{wanted}\n", f"{ended.stdout.strip()}\n", ALIKE)
            assert same, f"{where}\n{ended.stdout}"


# Blocks of "py" need what a test does not have. They are only parsed.
NEEDS = {
    "docs/guide/kernels.md": "a GPU",
    "docs/guide/networks.md": "PyTorch",  # tests/test_torch.py runs it
    "docs/guide/scale.md": "a cluster",
}


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_blocks_of_code_are_run(path):
    for block in blocks(path):
        where = f"{name(path)}, line {block.line}"
        if block.kind == "python":
            assert block.text.startswith(">>> "), f"{where}: no example that pytest runs"
        elif block.kind == "py":
            assert name(path) in NEEDS, where
            ast.parse(block.text)
        elif block.kind == "console":
            assert block.text.startswith("$ "), where
        elif block.kind == "sh":  # for contributors, and to install
            targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
            for line in block.text.splitlines():
                program, *words = line.split()
                assert (program == "make" and words[0] in targets) or program == "pip", where
        else:
            directive = block.kind.startswith("{")
            assert directive or block.kind in ("text", "json"), f"{where}: {block.kind!r}"


LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_lead_to_files(path):
    """So that they work on a code host; the built site is another test. Gallery pages are scripts."""
    targets = {path.parent / link for link in LINK.findall(path.read_text(encoding="utf-8"))}
    gallery = {target for target in targets if target.parent.name == "auto_examples"}
    scripts = {ROOT / "examples" / f"{target.name}.py" for target in gallery}
    assert [str(file) for file in targets - gallery | scripts if not file.exists()] == []


def test_extras_that_pages_name_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.compile(r"(?:pril|')\.?\[([\w,]+)\]'")
    found = {
        extra
        for path in PAGES
        for extras in named.findall(path.read_text(encoding="utf-8"))
        for extra in extras.split(",")
    }
    assert {"io", "all", "dask"} <= found <= set(project["optional-dependencies"])
