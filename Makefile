# Everything a fresh machine needs is Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TRACE ?=
DEMO_OUT ?= demo-out
UI_DIR ?= poise-ui
SEED ?= $(shell date +%s)

.PHONY: help venv demo demo-live ui docs test test-slow explore lint bench compile uncompile wheels test-wheels clean

help:
	@echo "make demo       four routers at four loads; TRACE=FILE does the same on a recorded trace"
	@echo "make demo-live  a gateway before four emulated engines, traffic until Ctrl-C, its page"
	@echo "make ui         a local page that compares and plans on your traces; UI_DIR=DIR keeps its runs"
	@echo "make docs       site/: the documentation as a site with search and the Python API; it fails on any broken link"
	@echo "make test       the tests (5 minutes on two cores); make test-slow runs the long ones"
	@echo "make explore    the properties on examples that no run has seen; SEED=NUMBER repeats a run"
	@echo "make lint       ruff and mypy;  make bench  speed;  make venv  only the environment of the tests"
	@echo "make compile    the same simulator at twice the speed, with a C compiler; make uncompile undoes it"
	@echo "make wheels     dist/: a compiled wheel for each Python found, the pure ones, the sdist; make test-wheels tries them"

venv: .venv/ready

.venv/base: requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Poise needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(PIP) -r requirements.txt
	$(PIP) --no-build-isolation --no-deps -e .
	@touch $@

.venv/live: .venv/base requirements-live.txt
	$(PIP) -r requirements-live.txt
	@touch $@

.venv/ui: .venv/base requirements-ui.txt
	$(PIP) -r requirements-ui.txt
	@touch $@

.venv/docs: .venv/base requirements-docs.txt
	$(PIP) -r requirements-docs.txt
	@touch $@

.venv/ready: .venv/base requirements-test.txt requirements-live.txt requirements-ui.txt requirements-docs.txt
	$(PIP) -r requirements-test.txt
	@touch $@ .venv/live .venv/ui .venv/docs

demo: .venv/base
	@$(BIN)/poise demo --out $(DEMO_OUT) $(if $(TRACE),--trace $(TRACE))

demo-live: .venv/live
	@$(BIN)/poise demo-live --out demo-live-out

ui: .venv/ui
	@$(BIN)/poise ui $(UI_DIR)

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

test: venv
	$(BIN)/python -m pytest -n auto --maxprocesses 4

test-slow: venv
	POISE_DEEP=1 $(BIN)/python -m pytest -m "slow or deep" -n auto --maxprocesses 4 --durations 10

explore: venv
	POISE_DEEP=1 $(BIN)/python -m pytest -m hypothesis -n auto --maxprocesses 4 \
		--hypothesis-profile explore --hypothesis-seed $(SEED)

lint: venv
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

bench: .venv/base
	$(BIN)/python bench/simulate.py

compile: venv
	@$(BIN)/python tools/compile.py

uncompile: venv
	@$(BIN)/python tools/compile.py --remove

wheels: .venv/base
	@$(BIN)/python tools/wheels.py

test-wheels: .venv/base
	@$(BIN)/python tools/wheels.py --test

clean:
	$(PYTHON) tools/compile.py --remove
	rm -rf .venv demo-out demo-live-out .pytest_cache .mypy_cache .ruff_cache .hypothesis
