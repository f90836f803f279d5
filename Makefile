# The tasks of this project. `make` alone lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# `make test PYTEST_ARGS="-k wiring"` narrows a run; xdist gives every core a worker.
PYTEST_ARGS ?= -n auto

# Touched after an install, so that the next run installs again only when one of these files has changed.
STAMP := $(VENV)/installed
INSTALL_INPUTS := pyproject.toml constraints.txt ncp_control/_version.py setup.py $(wildcard ncp_control/ops/cpu/kernels/*)

.DEFAULT_GOAL := help
.PHONY: help venv demo test lint types format docs release clean

help: ## list these tasks
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## the tour: an agent, its page and video, rollouts, a model of the dynamics (writes runs/demo)
	$(BIN)/ncp-control demo --out runs/demo

# The second run needs a browser, a GPU or the whole machine; where there is none it skips, and says so. 5: -k chose none.
test: lint types ## lint, types, and every test that this machine can run, but for those of many minutes
	$(BIN)/python -m pytest $(PYTEST_ARGS)
	$(BIN)/python -m pytest -m "(browser or gpu or cluster) and not slow" $(filter-out -n auto,$(PYTEST_ARGS)) || test $$? -eq 5

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
