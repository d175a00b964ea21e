# Everything below needs Python >= 3.11 with pip, and nothing else: each target makes the virtual
# environment that it needs, once, from this project's own files.

PYTHON ?= python3
VENV ?= .venv
# What the tests are installed with: peers brings the integrations that integration_tests needs
EXTRA ?= peers
# Options of one run: make test ARGS="-k replay", make bench ARGS="--help"
ARGS ?=
PARALLEL := --numprocesses auto --dist worksteal
# SQLite waits for the disk at every commit, so tests store in memory where a gigabyte is free
FREE_KB := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $$4}')
MEMORY := $(shell test 0$(FREE_KB) -gt 1000000 && echo /dev/shm)

BIN := $(VENV)/bin
TESTS_ENV := $(VENV)/.installed-dev
DEMO_ENV := $(VENV)/.installed-demo
BENCH_ENV := $(VENV)/.installed-bench
DOCS_ENV := $(VENV)/.installed-docs
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup demo test test_all integration_tests nightly lowest lint format type \
	coverage bench price docs dist clean

help: ## Print this list
	@grep -E '^[a-z_]+:.*##' $(firstword $(MAKEFILE_LIST)) | sort \
		| awk -F ':.*## ' '{printf "  %-18s %s\n", $$1, $$2}'

setup: $(TESTS_ENV) ## Make the virtual environment for development

demo: $(DEMO_ENV) ## Play a recorded agent in a small window: as it is, with LangChain's middleware, with this package
	$(BIN)/python examples/demo.py $(ARGS)

test test_all integration_tests nightly: export TMPDIR := $(or $(TMPDIR),$(MEMORY),/tmp)
# With bytecode kept, a process starts 4 s earlier: pytest need not rewrite each assert again
test test_all integration_tests nightly: export PYTHONDONTWRITEBYTECODE :=

test: $(TESTS_ENV) ## Run the tests but the slow ones, with few examples of each property
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-fast} $(BIN)/python -m pytest tests -m "not slow" $(ARGS)

test_all: $(TESTS_ENV) ## Run every test, as CI does
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-ci} $(BIN)/python -m pytest tests $(PARALLEL) $(ARGS)

lowest: ## Run every test with the lowest versions that pyproject.toml allows
	$(PYTHON) .ci/lowest.py > .lowest.txt
	PIP_CONSTRAINT=$(CURDIR)/.lowest.txt $(MAKE) --no-print-directory test_all \
		VENV=.venv-lowest EXTRA=tests

integration_tests: $(TESTS_ENV) ## Run the tests with real data, processes, databases
	@if ls integration_tests/test_*.py >/dev/null 2>&1; then \
		$(BIN)/python -m pytest integration_tests --numprocesses auto --dist loadfile --no-loadscope-reorder $(ARGS); \
	else echo "no integration tests yet"; fi

nightly: $(TESTS_ENV) ## Plant faults for the contract tests; new examples, the peers' suites, 20,000 odd requests
	$(BIN)/python tests/contract/faults/run.py
	HYPOTHESIS_PROFILE=full $(BIN)/python -m pytest tests $(PARALLEL)
	TOKENMEM_PEERS=all $(BIN)/python -m pytest integration_tests/peers integration_tests/wire \
		--numprocesses auto --dist worksteal -rAs $(ARGS)

lint: $(TESTS_ENV) ## Check style, formatting and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

format: $(TESTS_ENV) ## Format, and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

type: $(TESTS_ENV) ## Check the types, strictly
	$(BIN)/mypy

coverage: $(TESTS_ENV) ## Run the tests and show the lines that none of them reaches
	$(BIN)/python -m pytest tests --cov --cov-report=term-missing:skip-covered $(ARGS)

bench: $(TESTS_ENV) ## Run every benchmark
	@for script in benchmarks/[!_]*.py; do \
		[ -e "$$script" ] || { echo "no benchmarks yet"; break; }; \
		echo "== $$script"; $(BIN)/python "$$script" $(ARGS) || exit 1; \
	done

price: $(BENCH_ENV) ## Compare price and coverage with other packages: FILES="a.jsonl.gz b.jsonl"
	$(BIN)/python benchmarks/price.py $(FILES) $(ARGS)

docs: $(DOCS_ENV) ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

dist: ## Build wheel and sdist into dist/, and run the contract tests against the installed wheel
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-fast} $(PYTHON) .ci/dist.py $(ARGS)

clean: ## Remove what the other targets made
	rm -rf $(VENV) .venv-lowest .lowest.txt dist site htmlcov .coverage \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis

# Debian's Python may lack ensurepip; then the pip that is there puts one into the environment.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv $(VENV) || { $(PYTHON) -m venv --clear --without-pip $(VENV) \
		&& $(PYTHON) -m pip --python $(BIN)/python install -qq pip; }
	@$(INSTALL) --upgrade pip || true  # it resolves in half the time; the one that is there works, too

$(TESTS_ENV): pyproject.toml | $(BIN)/python
	@echo "Installing into $(VENV), once: this takes a minute or two"
	@$(INSTALL) --editable '.[$(EXTRA)]'
	@touch $@

$(DEMO_ENV): pyproject.toml | $(BIN)/python
	@echo "Installing into $(VENV), once: this takes a minute or two"
	@$(INSTALL) --editable '.[cli]'
	@touch $@

$(BENCH_ENV): pyproject.toml | $(BIN)/python
	@echo "Installing into $(VENV), once: this takes a minute or two"
	@$(INSTALL) --upgrade 'pip>=25.1'
	@$(INSTALL) --editable '.[cli]' --group bench
	@touch $@

$(DOCS_ENV): pyproject.toml | $(BIN)/python
	@echo "Installing into $(VENV), once: this takes a minute or two"
	@$(INSTALL) --editable '.[docs]'
	@touch $@
