# Everything needs only Python 3.11 or later and make. Another interpreter: make PYTHON=python3.12 test

PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
# In the order of tests/ordering.py.
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help browser demo test slowtest boundscheck lint style types layers bench experiments docs clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "%-12s %s\n", $$1, $$2}' Makefile

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit("stickbreak needs Python 3.11 or later; try make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# One stamp for each set of extras; redone only when pyproject.toml changes.
$(VENV)/.installed-%: pyproject.toml $(VENV)/.created
	@echo "installing stickbreak[$*] into $(VENV): a minute or so, once"
	@$(PY) -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@

browser: $(VENV)/.installed-browser ## look at pages in Chromium (apt-get install chromium)
	$(PY) -m pytest -m "slow or not slow" tests/report $(PYTEST_ARGS)

demo: $(VENV)/.installed-plot ## run the demonstration
	$(PY) examples/demo.py

# Test processes share the cores: more threads of BLAS would only wait for each other.
test slowtest boundscheck: export OPENBLAS_NUM_THREADS := 1
test slowtest boundscheck: export OMP_NUM_THREADS := 1
test slowtest boundscheck: export MKL_NUM_THREADS := 1
# Some tests run programs, which start sooner where bytecode is kept.
test slowtest boundscheck: export PYTHONDONTWRITEBYTECODE :=

# One numba cache for all of them, so that each kernel is compiled once.
test: export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba
test: $(VENV)/.installed-dev ## run the tests and the docstring examples (PYTEST_ARGS="..." to change how)
	$(PY) -m pytest $(PYTEST_ARGS)

slowtest: export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba
slowtest: $(VENV)/.installed-dev ## run the tests that are left out of `test` because they take long
	$(PY) -m pytest $(PYTEST_ARGS) -m slow

# A cache of its own: numba does not tell checked kernels from others.
boundscheck: export NUMBA_BOUNDSCHECK := 1
boundscheck: export NUMBA_CACHE_DIR := $(CURDIR)/.cache/numba-boundscheck
boundscheck: $(VENV)/.installed-dev ## run the tests of the kernels with every index checked
	$(PY) -m pytest -q -n 2 --dist loadfile tests/kernels --ignore tests/kernels/test_cache.py

lint: style types layers ## check style, types and import direction

style: $(VENV)/.installed-dev ## check style and formatting only
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(VENV)/.installed-dev ## check types only
	$(PY) -m mypy

layers: $(VENV)/.installed-dev ## check import direction only
	$(VENV)/bin/lint-imports

bench: $(VENV)/.installed-bench ## measure speed, memory and quality
	$(PY) -m benchmarks.run

experiments: $(VENV)/.installed-dev ## re-run the published tables (ONLY=name for one)
	$(PY) -m experiments.run $(ONLY)

docs: $(VENV)/.installed-docs ## build the documentation in docs/_build
	$(PY) -m sphinx -W --keep-going docs docs/_build

clean: ## remove caches and build results
	rm -rf build dist docs/_build docs/_pages docs/gallery .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find src tests docs examples benchmarks experiments -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## as clean, and remove the virtual environment
	rm -rf $(VENV)
