# mac hub. `make` alone lists what there is. Needs only git, make and Python 3.11 or later.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= $(firstword $(shell command -v python3.11 2>/dev/null) $(shell command -v python3 2>/dev/null))
VENV := .venv
PY := $(VENV)/bin/python
# The environment is current when it bears the stamp of exactly these two files.
STAMP := $(VENV)/.installed-$(shell cat requirements.lock pyproject.toml | git hash-object --stdin)
PYTEST := $(PY) -m pytest -n 2

# A program that is not there yet is a failure with a sentence, never a pretended success.
need = @test -f "$(1)" || { echo "make $@: $(1) does not exist yet, so there is nothing to run" >&2; exit 1; }

.PHONY: setup demo up test test-all sim bench soak lint docs clean help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## make .venv from the hash-pinned lock; does nothing when it is current

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "make setup: Python 3.11 or later is needed, as python3.11 or python3" >&2; exit 1; }
	@echo "preparing $(VENV)" >&2
	@rm -rf $(VENV)
	@"$(PYTHON)" -m venv $(VENV)
	@$(PY) -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	@$(PY) -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## a change lands in a GitHub on localhost, is crashed into, and is proven; leaves nothing running
	$(call need,tests/demo/__main__.py)
	@$(PY) -m tests.demo

up: setup ## the demo's world, left running for you to look at
	$(call need,tests/demo/__main__.py)
	@$(PY) -m tests.demo up

test: setup ## everything that is not marked long; loopback only
	@$(PYTEST) -m "not long"

test-all: setup ## what `make test` leaves out
	@$(PYTEST) -m "long and not fresh" || { code=$$?; test $$code -eq 5 && echo "make test-all: no test is marked long" >&2; exit $$code; }

sim: setup ## the laws under a simulated world with crashes, stale reads and jumping clocks
	$(call need,tests/sim/__main__.py)
	@$(PY) -m tests.sim

bench: setup ## measure, and write the summaries
	$(call need,tests/bench/__main__.py)
	@$(PY) -m tests.bench

soak: setup ## the simulation for as long as SOAK_MINUTES says (default 10)
	$(call need,tests/sim/__main__.py)
	@$(PY) -m tests.sim --minutes "$${SOAK_MINUTES:-10}"

lint: setup ## style, types and the arrows between the rooms
	@failed=0; for step in "ruff check ." mypy "lint-imports --no-cache"; do \
		$(VENV)/bin/$$step || failed=1; \
	done; exit $$failed

docs: setup ## write the pages that are generated from the code
	@$(PY) -m tests.house.write_docs

clean: ## remove what these targets made
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
