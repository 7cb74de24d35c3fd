# Run everything on a machine that has git, make and Python 3.10 to 3.13:
#   make demo         run the example DAGs on a real Airflow; KEEP=1 leaves its pages up until Ctrl-C
#   make test         prove the checkout within 5 minutes: linters, types, documentation, unit and contract tests,
#                     and the demo
#   make test-all     make test, then the long unit and contract tests, and the suites that start real clusters, emulators
#                     of object stores, a browser, several workers and the oldest Airflow; REQUIRE=all (or a list such as
#                     unit,cluster) turns their skips into failures
#   make pictures     take the pictures of the documentation anew, with Chromium
#   make sbom         write the bill of materials (CycloneDX) into dist
#   make coverage     which lines and branches the unit and contract tests reach; below 95 % is an error
#   make lint, make docs, make links, make unit, make benchmarks, make lock, make clean
# Parts of make test-all:
#   make floor, long, faults, models, clusters, stores, floor-stores, system, browser, newcomer, install, distributed,
#   soak
#   SOAK_SECONDS=3600 make soak lasts an hour instead of some minutes

PYTHON ?= python3
KEEP ?=
REQUIRE ?=
export REQUIRE
# Byte code is kept: Airflow is several processes, and each would compile it all again.
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH VIRTUAL_ENV

UV := .venv/bin/uv
UV_VERSION := 0.13.8
INSTALL = $(UV) pip install --quiet --compile-bytecode --python $(@D)/bin/python
LOCK = $(UV) pip compile --quiet --upgrade --universal --python-version 3.10 --no-header --no-annotate \
	pyproject.toml
PYTEST = python -m pytest -q -rfEs
# The floor is tried on the oldest Python where there is one (PYENV_VERSION lets pyenv's command run it).
OLDEST_PYTHON = $(shell PYENV_VERSION=3.10 python3.10 -c 'import sys; print(sys.executable)' 2>/dev/null \
	|| command -v $(PYTHON))

# What `make test-all` adds to `make test`, the longest first, so that those beside each other end together.
SUITES := system floor stores clusters long newcomer browser distributed soak models faults install floor-stores

.PHONY: help demo test test-all lint docs links unit coverage $(SUITES) pictures benchmarks sbom lock clean
.DELETE_ON_ERROR:

ifneq ($(filter test test-all,$(MAKECMDGOALS)),)
# Three at a time, since each waits for servers of its own half of the time; of `make test`, the demo does. What each
# prints stays together.
MAKEFLAGS += --jobs=3 --output-sync=target
unit: | lint docs
$(SUITES): | unit demo
endif

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

demo: .venv/ready
	@echo "== The example DAGs on a real Airflow"
	@.venv/bin/python -m scripts.demo $(if $(KEEP),--keep)

# Make builds a target once in each call: "make demo test test-all" repeats nothing.
test: demo lint docs unit

lint: .venv/ready
	@echo "== Linters"
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --check --quiet
	@report=$$(.venv/bin/lint-imports --no-cache --no-logo) || { echo "$$report"; exit 1; }
	@.venv/bin/mypy
	@.venv/bin/codespell

docs: .venv/ready
	@echo "== Documentation"
	@.venv/bin/python -m sphinx -q -W --keep-going -b html docs docs/_build
	@echo "docs/_build/index.html"

# Needs the network, so it is no part of the tests. Links within the pages are checked by `make docs` and the tests.
links: .venv/ready
	@.venv/bin/python -m sphinx -q -b linkcheck docs docs/_build/links

# These start no server but those of the checkout (and Redis, where it is installed). Many tests wait: four processes
# keep two cores busy, and each reads all tests for seconds first. Beside another suite, two or three are enough.
unit: .venv/ready
	@echo "== Unit and contract tests on the newest Airflow"
	@$(if $(REQUIRE),scripts/install-system-packages)
	@.venv/bin/$(PYTEST) -n 4 --dist worksteal -m "not long" tests/unit tests/contract

# The long unit tests are about no Airflow, nor are the tests marked `once`, nor the packages of the three services and
# the sandbox: mypy knows what the oldest Python has of them, and the tests of hooks, operators and triggers, and the
# contract tests, go through the same code. What hypothesis makes up is fewer: the newest Airflow has had it all.
WITHOUT_AIRFLOW = $(addprefix --ignore=tests/unit/,books cluster sandbox scripts video)
floor: .venv-floor/ready
	@echo "== Unit and contract tests on the oldest Airflow"
	@.venv-floor/bin/$(PYTEST) -n 2 --dist worksteal --hypothesis-profile few -m "not long and not once" $(WITHOUT_AIRFLOW) \
		tests/unit
	@.venv-floor/bin/$(PYTEST) -n 2 --dist worksteal -m "not once" tests/contract

# It makes the tests twice as slow, so no other target measures it.
coverage: .venv/ready
	@.venv/bin/$(PYTEST) -n 3 --dist worksteal -m "not long" tests/unit tests/contract --cov --cov-report=term

# Each process would read all files for half a minute, and find long tests in some.
LONG_TESTS = $(shell grep --recursive --files-with-matches --include='test_*.py' mark.long tests/unit tests/contract)
long: .venv/ready
	@echo "== Long unit and contract tests"
	@.venv/bin/$(PYTEST) -n 2 --dist worksteal -m long $(LONG_TESTS)

faults: .venv/ready
	@echo "== Everything at every fault"
	@.venv/bin/$(PYTEST) -n 3 --dist worksteal tests/faults

models: .venv/ready
	@echo "== Histories against models"
	@.venv/bin/$(PYTEST) -n 2 --dist worksteal tests/models

clusters: .venv/ready
	@echo "== Real search clusters"
	@.venv/bin/$(PYTEST) tests/cluster

# moto, fake-gcs-server and Azurite. Without REQUIRE, the latter two are used where they are installed.
stores: .venv-stores/ready
	@echo "== Object stores of three clouds"
	@$(if $(filter all stores,$(subst $(COMMA), ,$(REQUIRE))),scripts/install-emulators)
	@.venv-stores/bin/$(PYTEST) -n 2 tests/stores

# moto is that of .venv-stores, s3fs that of .venv-floor.
floor-stores: .venv-floor/ready .venv-stores/ready
	@echo "== An object store and the oldest Airflow"
	@.venv-floor/bin/$(PYTEST) tests/stores/test_together.py -k s3

system: .venv/ready
	@echo "== A real Airflow"
	@.venv/bin/$(PYTEST) tests/system

browser: .venv/ready
	@echo "== Chromium, and a real Airflow"
	@.venv/bin/$(PYTEST) tests/browser

newcomer: .venv/ready
	@echo "== The first page, line by line"
	@.venv/bin/$(PYTEST) tests/newcomer

install: .venv/ready
	@echo "== The wheel beside four Airflows, each with the packages of its days"
	@.venv/bin/$(PYTEST) tests/install

distributed: .venv/ready
	@echo "== Several workers"
	@.venv/bin/$(PYTEST) tests/distributed

soak: .venv/ready
	@echo "== Everything at once, for minutes, while its services fail"
	@.venv/bin/$(PYTEST) tests/soak

test-all: test $(SUITES)

# Look at each before you commit it.
pictures: .venv/ready
	@REQUIRE=browser scripts/install-system-packages
	@REQUIRE=browser WRITE_PICTURES=1 .venv/bin/$(PYTEST) tests/browser/test_pictures.py
	@git status --short docs/images

# One after the other: each wants the machine for itself. BENCHMARKS=import_time,export runs only those.
# What each finds is recorded, and shown by docs/performance.md and figures.md. A missed limit is no failure.
BENCHMARKS ?= import_time hot_threads kinds_of_work detection event_loop triggers rate_limit export enrichment
COMMA := ,
benchmarks: .venv-benchmarks/ready
	@code=0; for name in $(subst $(COMMA), ,$(BENCHMARKS)); do \
		WRITE_RESULTS=1 .venv-benchmarks/bin/python -m tests.benchmarks.bench_$$name || code=1; echo; done; exit $$code

sbom: .venv/ready
	@.venv/bin/python -m scripts.sbom

# An Airflow with the packages of its release day, as its own constraints have them (wtforms comes with Airflow's
# sign-in): the version, the day, and what else is to be locked. On the oldest, the tests run, too.
PIN = @printf 'apache-airflow==$(1)\nwtforms\n' | $(LOCK) - --all-extras --exclude-newer $(2) $(3) \
	-o requirements/airflow-$(1).txt
lock: .venv/ready
	$(LOCK) --all-extras --group dev -o requirements/newest.txt
	$(LOCK) --extra redis --extra parquet --group benchmarks -c requirements/newest.txt -o requirements/benchmarks.txt
	$(LOCK) --extra parquet --group test --group stores -o requirements/stores.txt
	$(call PIN,3.1.0,2025-09-25,--group test --group floor-stores)
	$(call PIN,3.1.8,2026-03-11)
	$(call PIN,3.2.2,2026-05-29)
	$(call PIN,3.3.2,2026-09-17)

clean:
	rm -rf .venv .venv-floor .venv-benchmarks .venv-stores .demo .cache dist docs/_build \
		.coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache

.venv/ready: pyproject.toml requirements/newest.txt
	@echo "== Installing the newest Airflow and the tools into .venv"
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || \
		{ echo "Python 3.10 to 3.13 is needed. If $(PYTHON) is another: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(INSTALL) -r requirements/newest.txt
	@$(INSTALL) --no-deps --editable .
	@touch $@

.venv-floor/ready: .venv/ready requirements/airflow-3.1.0.txt
	@echo "== Installing the oldest Airflow into .venv-floor"
	@$(UV) venv --quiet --clear --python "$(OLDEST_PYTHON)" .venv-floor
	@$(INSTALL) -r requirements/airflow-3.1.0.txt
	@$(INSTALL) --no-deps --editable .
	@touch $@

# Without byte code: Google's package alone has thousands of modules that nobody imports here.
.venv-stores/ready: .venv/ready requirements/stores.txt
	@echo "== Installing the clients of three clouds and their emulators into .venv-stores"
	@$(UV) venv --quiet --clear --python .venv/bin/python .venv-stores
	@$(UV) pip install --quiet --python .venv-stores/bin/python -r requirements/stores.txt
	@$(UV) pip install --quiet --python .venv-stores/bin/python --no-deps --editable .
	@touch $@

.venv-benchmarks/ready: .venv/ready requirements/benchmarks.txt
	@echo "== Installing the providers to compare with into .venv-benchmarks"
	@$(UV) venv --quiet --clear --python .venv/bin/python .venv-benchmarks
	@$(INSTALL) -r requirements/benchmarks.txt
	@$(INSTALL) --no-deps --editable .
	@touch $@
