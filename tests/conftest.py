"""
Set up what every suite shares: a scratch Airflow, the files that tests read, and the rule about skipped tests.

The suite of a test is the folder below `tests/` that holds it. `REQUIRE=all`, or a comma-separated list of
suites, turns a skip in those suites into a failure. A test for some versions of Airflow only is marked
`@pytest.mark.airflow(">=3.3")` and left out elsewhere: that is not a skip, another environment runs it. A test that
takes seconds is marked `@pytest.mark.long`: `make test` leaves it to `make test-all`. A test of the documents, or one
that tries all orders of the log's steps or of the callers of a rate, is marked `@pytest.mark.once`: no Airflow touches
them, so the oldest leaves them out. Tests of reports that other people published (the fixture `shared_data`) are left
out where those are not beside the checkout.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest
from packaging.specifiers import SpecifierSet

TESTS = Path(__file__).parent
SHARED_DATA = TESTS.parents[1] / "shared" / "data"
REQUIRED = {name.strip() for name in os.environ.get("REQUIRE", "").split(",") if name.strip()}


def _use_scratch_airflow() -> Path:
    """Point Airflow, before anything imports it, at a folder and a database of this process alone."""
    for name in [name for name in os.environ if name.startswith(("AIRFLOW_", "MEDIAOPS_OUTPUT"))]:
        del os.environ[name]
    home = Path(tempfile.mkdtemp(prefix="mediaops-tests-"))
    os.environ.update(
        AIRFLOW_HOME=str(home),
        AIRFLOW__API_AUTH__JWT_SECRET=secrets.token_hex(32),
        AIRFLOW__CORE__DAGS_FOLDER=str(TESTS.parent / "example_dags"),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        # Airflow writes from several threads. On a busy machine, one may hold the lock for more than 5 seconds.
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{home}/airflow.db?timeout=60",
        AIRFLOW__USAGE_DATA_COLLECTION__ENABLED="False",
    )
    return home


AIRFLOW_HOME = _use_scratch_airflow()

# The same examples in each run, and as many of them on a machine that is busy.
hypothesis.settings.register_profile(
    "mediaops", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
# For an environment in which the same tests run a second time.
hypothesis.settings.register_profile("few", hypothesis.settings.get_profile("mediaops"), max_examples=20)
hypothesis.settings.load_profile("mediaops")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "airflow(versions): run only where Airflow's version is one of these")
    config.addinivalue_line("markers", "long: takes seconds; `make test` leaves it out")
    config.addinivalue_line("markers", "once: is about no Airflow; `make floor` leaves it out")


def pytest_unconfigure() -> None:
    if sys.version_info < (3, 11):
        # pytest-asyncio's runner is a backport there, whose tasks complain while the interpreter takes itself apart.
        del asyncio.tasks._PyTask.__del__  # type: ignore[attr-defined]  # noqa: SLF001
    shutil.rmtree(AIRFLOW_HOME, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    version = importlib.metadata.version("apache-airflow")
    elsewhere = [
        item for item in items if any(version not in SpecifierSet(*mark.args) for mark in item.iter_markers("airflow"))
    ]
    if not SHARED_DATA.is_dir():
        elsewhere += [item for item in items if "shared_data" in getattr(item, "fixturenames", ())]
    if elsewhere:
        items[:] = [item for item in items if item not in elsewhere]
        config.hook.pytest_deselected(items=elsewhere)


def _suite_is_required(path: Path) -> bool:
    suite = path.relative_to(TESTS).parts[0] if path.is_relative_to(TESTS) else ""
    return "all" in REQUIRED or suite in REQUIRED


def _fail_instead(report: pytest.TestReport | pytest.CollectReport) -> None:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"This suite is required (REQUIRE={','.join(sorted(REQUIRED))}), yet: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and _suite_is_required(item.path):
        _fail_instead(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and _suite_is_required(collector.path):
        _fail_instead(report)
    return report


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of the files that tests read."""
    return TESTS / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of what other people published, which is beside some checkouts only."""
    return SHARED_DATA


@pytest.fixture(scope="session")
def airflow_db() -> Path:
    """Create Airflow's metadata database and return its file; its address is already configured."""
    from airflow.utils import db

    db.initdb()
    return AIRFLOW_HOME / "airflow.db"
