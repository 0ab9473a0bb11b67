# Each target sets up what it needs; a fresh machine needs only Python, git, make and a C compiler.
PYTHON ?= python3
BIN := .venv/bin
DEV := .venv/.dev
DOCS := .venv/.docs
BENCH := .venv/.bench

.PHONY: install test wheel-test lint demo examples bench bench-classification mutants faults docs clean

install: $(DEV)

$(BIN)/python:
	$(PYTHON) -m venv .venv

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(DOCS): $(DEV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	@touch $@

$(BENCH): $(DEV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench]'
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps millipede-regression  # see pyproject.toml
	@touch $@

test: $(DEV)  ## the whole test suite; three processes keep two cores busy, as some tests wait
	$(BIN)/python -m pytest -q -n 3 --dist worksteal

wheel-test: $(DEV)  ## installs the wheel without extras into an environment of its own, and uses it there
	$(PYTHON) -m venv --clear build/wheel-test
	$(BIN)/python -m hatchling build -t wheel -d build/wheel-test
	build/wheel-test/bin/pip install --quiet --disable-pip-version-check -c constraints.txt build/wheel-test/*.whl
	cd build/wheel-test && OMP_NUM_THREADS=1 bin/python -I ../../tests/core_only.py ../../README.md
	rm -r build/wheel-test

lint: $(DEV)  ## style and strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

demo: $(DEV)  ## the main job at a small scale: flow problems, two sparse surrogates, a report
	$(BIN)/sparse-langevin demo --force

examples: $(DEV)  ## short scripts; those with a picture print where it is
	$(BIN)/python examples/linear_regression.py
	$(BIN)/python examples/mlp_uncertainty.py
	$(BIN)/python examples/digits_sparse.py
	$(BIN)/python examples/digits_recipes.py cnn
	$(BIN)/python examples/variable_selection.py
	$(BIN)/python examples/darcy_gallery.py
	$(BIN)/python examples/own_prior.py
	$(BIN)/python examples/own_metric.py
	$(BIN)/python examples/own_simulator.py

bench: $(BENCH)  ## everything beside its peers; writes results/bench.json and docs/performance.md
	$(BIN)/python -m benchmarks

bench-classification: $(BENCH)  ## Fashion-MNIST at equal CPU time; goes on where it stopped; writes docs/classification.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.classification

mutants: $(DEV)  ## seeded faults: each must be caught by the tests; a run that was stopped goes on
	$(BIN)/python -m tests.mutants

faults: $(DEV)  ## kills, signals, full disks, damage, hostile files and bad arguments; a campaign that was stopped goes on
	$(BIN)/python -m tests.campaign

docs: $(DOCS)  ## the documentation as a site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv site build dist .mypy_cache .ruff_cache .pytest_cache
