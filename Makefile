# Everything on a machine that has git, make and Python 3.10 to 3.13:
#   make demo         the example DAGs on a real Airflow; KEEP=1 leaves its pages up until Ctrl-C
#   make test         linters, documentation and the suites that this machine can run;
#                     REQUIRE=all (or a list such as unit,cluster) makes a skipped test a failure
#   make lint, make docs, make benchmarks, make lock, make clean

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

.PHONY: help demo test lint docs test-newest test-floor benchmarks lock clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

demo: .venv/ready
	@.venv/bin/python -m scripts.demo $(if $(KEEP),--keep)

test: lint docs test-newest test-floor

lint: .venv/ready
	@echo "== Linters"
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --check --quiet
	@.venv/bin/mypy

docs: .venv/ready
	@echo "== Documentation"
	@.venv/bin/python -m sphinx -q -W --keep-going -b html docs docs/_build
	@echo "docs/_build/index.html"

# What needs no server of its own runs in parallel; what starts real servers gets the machine for itself.
test-newest: .venv/ready
	@echo "== Tests on the newest Airflow"
	@$(if $(REQUIRE),scripts/install-system-packages)
	@.venv/bin/$(PYTEST) -n 2 --dist loadgroup tests/unit tests/contract \
		--cov --cov-report= --cov-fail-under=0
	@.venv/bin/$(PYTEST) tests/cluster tests/stores --cov --cov-append --cov-report= --cov-fail-under=0
	@.venv/bin/$(PYTEST) tests/system tests/browser --cov --cov-append --cov-report= --cov-fail-under=0
	@.venv/bin/$(PYTEST) tests/distributed
	@.venv/bin/coverage report

test-floor: .venv-floor/ready
	@echo "== Tests on the oldest Airflow"
	@.venv-floor/bin/$(PYTEST) -n 2 --dist loadgroup tests/unit tests/contract

# One after the other: each wants the machine for itself. BENCHMARKS=import_time,export runs only those.
BENCHMARKS ?= import_time hot_threads detection triggers rate_limit export enrichment
COMMA := ,
benchmarks: .venv-benchmarks/ready
	@for name in $(subst $(COMMA), ,$(BENCHMARKS)); do \
		.venv-benchmarks/bin/python -m tests.benchmarks.bench_$$name || exit 1; echo; done

# The floor comes with the packages of its own days: a newer pydantic breaks it, and newer ones hide what it lacks.
lock: .venv/ready
	$(LOCK) --all-extras --group dev -o requirements/newest.txt
	$(LOCK) --extra redis --group benchmarks -c requirements/newest.txt -o requirements/benchmarks.txt
	$(LOCK) requirements/floor.in --all-extras --group test -o requirements/floor.txt \
		--exclude-newer 2025-10-01 \
		--exclude-newer-package apache-airflow-providers-common-compat=2026-12-01 \
		--exclude-newer-package urllib3=2026-01-01

clean:
	rm -rf .venv .venv-floor .venv-benchmarks .demo .cache docs/_build \
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

.venv-floor/ready: .venv/ready requirements/floor.txt
	@echo "== Installing the oldest Airflow into .venv-floor"
	@$(UV) venv --quiet --clear --python "$(OLDEST_PYTHON)" .venv-floor
	@$(INSTALL) -r requirements/floor.txt
	@$(INSTALL) --no-deps --editable .
	@touch $@

.venv-benchmarks/ready: .venv/ready requirements/benchmarks.txt
	@echo "== Installing the providers to compare with into .venv-benchmarks"
	@$(UV) venv --quiet --clear --python .venv/bin/python .venv-benchmarks
	@$(INSTALL) -r requirements/benchmarks.txt
	@$(INSTALL) --no-deps --editable .
	@touch $@
