# `make demo` and `make test` need Python >= 3.11, pip and make; everything else they install.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint bench format clean

demo: .venv/installed
	$(BIN)/python examples/demo.py

test: lint
	$(BIN)/pytest -n auto --dist worksteal -m "not slow"
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n auto --dist worksteal -m "not slow" tests/test_kernels.py

test-slow: .venv/installed
	$(BIN)/pytest -n auto -m slow

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/installed
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf .venv output

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@
