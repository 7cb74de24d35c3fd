"""The Airflow of the tests: each process has a database of its own, and waits for it."""

from __future__ import annotations

import shutil
from pathlib import Path

from sqlalchemy import text

from tests.contract import fresh_python


def test_a_write_waits_for_the_lock_of_another_thread(airflow_db: Path) -> None:
    from airflow import settings

    assert settings.engine is not None
    assert settings.engine.url.database == str(airflow_db)
    with settings.engine.connect() as connection:
        assert connection.execute(text("PRAGMA busy_timeout")).scalar() == 60_000


def test_another_process_has_another_database(airflow_db: Path) -> None:
    """The workers of pytest-xdist are started like this: with the environment of the first process."""
    other = fresh_python.result_of("from tests import conftest\nresult = str(conftest.AIRFLOW_HOME)")
    try:
        assert Path(other) != airflow_db.parent
    finally:
        shutil.rmtree(other, ignore_errors=True)
