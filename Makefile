# `make demo` and `make test` need Python >= 3.11, pip and make; everything else they install.
PYTHON ?= python3
BIN := .venv/bin
OLDEST := .venv-oldest
OTHER_PYTHONS ?= python3.12 python3.13 python3.14
# Tests start many processes: without it, each would compile all it imports.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test pytest test-slow test-torch attack test-oldest docs lint bench dist format clean

demo: .venv-demo/installed
	.venv-demo/bin/python examples/demo.py

# Types are checked on one core while the tests begin.
test: .venv/installed
	$(MAKE) --no-print-directory --jobs=2 lint pytest

pytest: .venv/installed
	$(BIN)/pytest -n auto --dist worksteal -m "not slow and not attack and not site"

# Random exploration, dying clusters, browsers, and the loop as Python runs it, which checks indices.
test-slow: .venv/installed
	$(BIN)/pytest -n auto --dist worksteal -m slow
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n auto --dist worksteal -m "not slow" tests/test_loop.py

# Networks, and kernels on a GPU if there is one. PyTorch is large, so it is not in .venv.
TORCH ?= torch
test-torch: output/torch/installed
	PYTHONPATH=output/torch $(BIN)/pytest tests/test_torch.py tests/test_fused.py

# Kills, damage and odd files, in at most ten minutes; PRIL_ATTACK=0.1 runs a tenth of the cases.
attack: .venv/installed
	$(BIN)/pytest -n auto -m attack tests/attack

# With the lower bounds in pyproject.toml; TESTS="tests/test_io.py ..." runs some of the tests. Old
# packages may use what newer ones deprecate.
test-oldest: $(OLDEST)/installed
	$(OLDEST)/bin/pytest -n auto --dist worksteal -m "not slow and not attack and not site" \
	  -W ignore::DeprecationWarning $(TESTS)

# The site, in output/site, and a look at it: names, links, and two pages in Chromium if there is one.
docs: .venv/installed
	rm -rf docs/reference/generated
	$(BIN)/sphinx-build -W --keep-going -j auto docs output/site
	$(BIN)/pytest -m site tests/test_site.py

# The picture in the README, by a script of the gallery.
docs/survey.png: .venv/installed examples/plot_survey.py
	MPLBACKEND=agg $(BIN)/python -c "import runpy, matplotlib.pyplot as plt; \
	  runpy.run_path('examples/plot_survey.py'); plt.savefig('docs/survey.png', dpi=100)"

# The pictures of the network, with the PyTorch of `make test-torch`.
docs/_static/network_digits.png: examples/network_digits.py
	MPLBACKEND=agg PYTHONPATH=output/torch:docs $(BIN)/python -c "import runpy, thumbnails; \
	  figure = runpy.run_path('examples/network_digits.py')['figure']; \
	  figure.savefig('docs/_static/network_digits.png', dpi=100); thumbnails.reduce_to_one_panel(figure); \
	  figure.savefig('docs/_static/network_digits_thumbnail.png', dpi=100)"

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/installed
	$(BIN)/python benchmarks/run.py

# Wheel and sdist, checked, and the README's examples run with the wheel in empty environments, one for
# each Python that is there.
dist: .venv/installed
	rm -rf output/dist
	$(BIN)/python -m build --outdir output/dist
	$(BIN)/twine check --strict output/dist/*
	$(BIN)/check-wheel-contents output/dist/*.whl
	for python in $(PYTHON) $(OTHER_PYTHONS); do \
	  $$python -c '' 2> /dev/null || continue; \
	  $(BIN)/uv venv --quiet --clear --python "$$(command -v $$python)" output/dist/venv && \
	  $(BIN)/uv pip install --quiet --python output/dist/venv output/dist/*.whl pandas && \
	  (cd output/dist && venv/bin/python -m doctest ../../README.md) && \
	  echo "the README's examples run with $$(output/dist/venv/bin/python --version)" || exit 1; \
	done

clean:
	rm -rf .venv .venv-demo $(OLDEST) output
	rm -rf docs/auto_examples docs/reference/generated docs/reference/backreferences docs/reference/learners.rst

# uv takes a seventh of pip's time. Bytecode is made as modules are imported: most never are.
.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --quiet --python .venv --editable '.[test,docs]'
	touch $@

.venv-demo/installed: pyproject.toml
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/python -m pip install --quiet uv
	.venv-demo/bin/uv pip install --quiet --python .venv-demo --editable '.[plot]'
	touch $@

output/torch/installed: .venv/installed
	$(BIN)/python -m pip install --quiet --upgrade --target output/torch $(TORCH)
	touch $@

$(OLDEST)/installed: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet uv
	$(OLDEST)/bin/uv pip install --quiet --python $(OLDEST) --resolution lowest-direct --editable '.[test]'
	touch $@
