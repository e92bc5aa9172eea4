# make figures | test | check | site | mutants | bench | lab | lock, each complete from a fresh clone. VENV=path puts the environment elsewhere, PYTHON=python3.12 picks an interpreter, OUT=folder takes the figures.
VENV ?= .venv
PYTHON ?= python3
PROFILE ?= quick
OUT ?= results
JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUN := PATH="$(abspath $(BIN)):$$PATH"

.PHONY: figures test check site browser mutants bench lab lock
figures: $(READY)
	$(RUN) shearletx reproduce --profile $(PROFILE) --workers 2 --out $(OUT)

test: check browser
	$(RUN) CI=true OMP_NUM_THREADS=1 nbdev_test --path nbs --n_workers $(JOBS) --do_print
	$(RUN) CI=true OMP_NUM_THREADS=1 pytest -q -n $(JOBS) --dist loadfile --nbval nbs/index.ipynb tests

check: $(READY)
	$(RUN) ruff check .
	$(RUN) pytest -q tests/test_house.py

site: $(READY)
	@rm -rf build/site
	$(RUN) python -m sphinx -q -E -W -c docs -d build/doctrees . build/site
	@echo "the site is complete: open build/site/index.html"

# For the tests of site and explorer; without it they are skipped, and say so.
browser:
	@command -v chromedriver >/dev/null || ! command -v apt-get >/dev/null || test "$$(id -u)" != 0 || \
		{ export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && apt-get install -y -qq chromium chromium-driver >/dev/null; } || \
		echo "chromium could not be installed"

mutants: $(READY)
	$(RUN) python tests/mutants.py -j $(JOBS)

bench: $(READY)
	$(RUN) python tests/benchmark.py

lab: $(READY)
	$(RUN) jupyter lab nbs/index.ipynb

lock: $(READY)
	$(RUN) uv pip compile --universal --upgrade --python-version 3.10 --no-annotate --no-header --quiet --extra dev --extra site --extra explore --output-file requirements.lock setup.py

# Installed again only when the lock or the package's own description changed.
$(READY): requirements.lock settings.ini setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps torchray==1.0.0.2   # a test oracle; what it asks for beside torch is not needed
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@
