# Every target makes its own environment: a clone and a python3 (3.11 or later) are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

# Tests start many processes: each would compile the sources again that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test test-all coverage demo docs package lint types format bench environment clean
.NOTPARALLEL:

# The tests but the exhaustive ones, of which there is a sample: see tests/conftest.py.
test: $(VENV)/installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not gpu and not exhaustive" $(ARGS)

test-all: $(VENV)/installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

# The lines that all tests run; below the part that pyproject.toml asks for, it fails.
coverage: $(VENV)/installed-coverage
	rm -rf build/coverage
	mkdir -p build/coverage
	$(BIN)/python -m coverage run -m pytest -n $(WORKERS) --dist worksteal $(ARGS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered --show-missing

demo: $(VENV)/installed-demo
	$(BIN)/python examples/sentence_encoder.py $(ARGS)
	$(BIN)/python examples/digits.py

docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "built: site/index.html"

# Both archives, and the wheel in an environment that holds nothing but what it asks for itself.
package: build/packaging/installed
	rm -rf dist build/clean
	build/packaging/bin/python -m build --outdir dist . > /dev/null
	$(PYTHON) -m venv build/clean
	build/clean/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	build/clean/bin/structir --version
	build/clean/bin/python -I tests/data/typed_program.py

lint: $(VENV)/installed-lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/installed-lint
	$(BIN)/mypy

format: $(VENV)/installed-lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/installed-test
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/compiler.py $(ARGS)
	$(BIN)/python benchmarks/deduction.py
	$(BIN)/python benchmarks/run_time.py
	$(BIN)/python benchmarks/kernels.py
	$(BIN)/python benchmarks/runtime_costs.py
	$(BIN)/python benchmarks/memory.py

# For `.ci/run`: what it needs, by one call of pip.
environment: | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[lint,test]'
	touch $(VENV)/installed-lint $(VENV)/installed-test

# `.ci/run` makes the archives while pip fills the other environment.
build/packaging/installed:
	$(PYTHON) -m venv build/packaging
	build/packaging/bin/python -m pip install --quiet --disable-pip-version-check 'build>=1.2'
	touch $@

# One stamp for each extra, renewed when the dependencies in pyproject.toml may have changed.
$(VENV)/installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
