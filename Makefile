# What a person or a CI machine does with this checkout; `make` alone lists the targets.
# Needs Python 3.11 or newer, git and make. Everything it makes lies in .venv and .cache.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# ARGS goes to the program behind the target: make test ARGS="-k journal"
ARGS ?=
PORT ?=
# The first of these that can make a venv is taken.
PYTHON ?= python3.14 python3.13 python3.12 python3.11 python3
UV_VERSION := 0.13.9

# Recorded cases that are too large for this repository; tests that need them skip without.
export STOKER_CORPUS ?= $(abspath $(wildcard ../shared/corpus))
export STOKER_RECIPES ?= $(abspath $(wildcard ../shared/corpus/recipes))

# An absolute path, or a sentence that says what is missing. Asked only where it is needed.
interpreter = $(shell scripts/find-python $(PYTHON))
require-interpreter = $(if $(filter /%,$(firstword $(interpreter))),,$(error $(interpreter)))

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

.PHONY: up
up: venv ## serve the small example model and verify it; PORT=8001 chooses the port
	@.venv/bin/stoker up $(if $(PORT),--port $(PORT)) $(ARGS)

.PHONY: test
test: lint ## lint, then all tests, with a real engine, a real model and, for root, a real systemd
	.venv/bin/python -m pytest $(ARGS)

.PHONY: lab
lab: dev ## of the tests, those in a container with a systemd (root, mmdebstrap, systemd-container)
	.venv/bin/python -m pytest tests/lab $(ARGS)

.PHONY: lint
lint: dev ## style, types and the import contracts
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

.PHONY: bench
bench: dev ## measure start-up, planning, memory and size, as a table
	@.venv/bin/python benchmarks/run.py $(ARGS)

.PHONY: test-engines
test-engines: dev ## real SGLang and vLLM on a processor, built outside .venv (5 GB, some minutes)
	.venv/bin/python scripts/build_engines.py
	STOKER_ENGINES=.cache/engines .venv/bin/python -m pytest tests/engines_real $(ARGS)

.PHONY: recipes-report
recipes-report: dev ## does Stoker agree with the public recipes that STOKER_RECIPES holds?
	@.venv/bin/python -m stoker.evaluate.recipes $(ARGS)

.PHONY: parsers-report
parsers-report: dev ## the parsers that our families choose, against those of the public recipes
	@.venv/bin/python -m stoker.evaluate.parsers $(ARGS)

.PHONY: flags-report
flags-report: dev ## every flag that Stoker may write, fed to the parsers of the releases at hand
	@.venv/bin/python -m stoker.evaluate.flags $(ARGS)

.PHONY: logs-report
logs-report: dev ## what is read from recorded logs, against the servers' own answers
	@.venv/bin/python -m stoker.evaluate.logs $(ARGS)

.PHONY: capacity-report
capacity-report: dev ## tokens that were predicted, against recorded engines and beside other tools
	@.venv/bin/python -m stoker.evaluate capacity --rivals $(ARGS)

.PHONY: failures-report
failures-report: dev ## failures that were diagnosed right, and what would mend them named
	@.venv/bin/python -m stoker.evaluate failures --held-out $(ARGS)

.PHONY: contract-report
contract-report: dev ## every broken promise that the contract finds, beside another tool; FULL=1 does more
	@.venv/bin/python -m stoker.evaluate.contract $(ARGS)

.PHONY: bench-report
bench-report: dev ## load generators against a server of exact timing, ours among them; FULL=1 does more
	@.venv/bin/python -m benchmarks.load_generators $(ARGS)

.PHONY: tune-report
tune-report: dev ## the restarts that the search of tune needs, beside others; FULL=1 does more
	@.venv/bin/python -m stoker.evaluate tuning tests/tuning/surfaces $(ARGS)

.PHONY: venv
venv: .venv/.runtime ## make .venv with Stoker in it

.PHONY: dev
dev: .venv/.dev ## add the tools of `make test` to .venv

.PHONY: lock
lock: ## renew the pins after a change of dependencies; ARGS=--upgrade takes newer releases
	@$(require-interpreter)scripts/lock "$(interpreter)" $(UV_VERSION) $(ARGS)

.PHONY: clean
clean: ## remove all that make made
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# A venv survives neither a move of its folder nor the loss of its interpreter. The stamp says
# where it was made; if that is not here and now, it is made again.
ifneq ($(file < .venv/.runtime):$(wildcard .venv/bin/python),$(CURDIR):.venv/bin/python)
.PHONY: .venv/.runtime
endif

.venv/.runtime: pyproject.toml requirements/runtime.txt requirements/build.txt
	@$(require-interpreter)scripts/install runtime "$(interpreter)"

.venv/.dev: .venv/.runtime requirements/dev.txt
	@scripts/install dev
