# The tasks of this project. `make` alone lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# `make test PYTEST_ARGS="-k wiring"` narrows a run. Every core has a worker, which takes over tests of a slower one.
PYTEST_ARGS ?= -n auto --dist worksteal
# Compiled test files are kept even where the environment forbids it: to compile them again takes every worker half a minute.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest

# Touched after an install, so that the next run installs again only when one of these files has changed.
STAMP := $(VENV)/installed
INSTALL_INPUTS := pyproject.toml constraints.txt ncp_control/_version.py setup.py envs/ncp_envs/physics.cpp $(wildcard ncp_control/ops/cpu/kernels/* ncp_control/neurons/*/kernel.h)

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-system test-slow test-clients lint types format docs release clean

help: ## list these tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## the tour: an agent, its page and video, rollouts, a model of the dynamics (writes runs/demo)
	$(BIN)/ncp-control demo --out runs/demo

test: lint ## lint, types, and the tests of what a user relies on: five minutes
	@$(BIN)/mypy & types=$$!; $(PYTEST) $(PYTEST_ARGS); tests=$$?; \
	  wait $$types || { echo "mypy has found something: \`make types\` shows it."; exit 1; }; exit $$tests

test-system: $(STAMP) ## kills, full disks, compilers, wheels, browsers, clusters, all cells: ten minutes
	$(PYTEST) -m "system and not slow and not clients" $(PYTEST_ARGS)

test-slow: $(STAMP) ## learning, shipped agents over many episodes, long sweeps: hours
	$(PYTEST) -m slow $(PYTEST_ARGS)

test-clients: $(STAMP) ## other people's libraries, such as rsl_rl, each installed in a folder of its own (build/clients)
	$(BIN)/python scripts/clients.py $(CLIENTS)

lint: $(STAMP) ## style and likely mistakes, without changing a file
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## static types, strictly
	$(BIN)/mypy

format: $(STAMP) ## repair what ruff can repair
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP) ## the site: guides, results, and a page for every public package (writes site/index.html)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

release: $(STAMP) ## build and test the source distribution and the wheels of all machines (writes dist/)
	$(BIN)/python -m scripts.release $(RELEASE_ARGS)

venv: $(STAMP) ## make .venv with every dependency at its tested version

$(STAMP): $(INSTALL_INPUTS)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "ncp-control needs Python 3.10 to 3.13, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
	       "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[all,dev]'
	@touch $@

clean: ## remove caches and build folders; .venv and runs/ stay
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info MUJOCO_LOG.TXT
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +
