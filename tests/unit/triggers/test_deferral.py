"""Whether a task waits in the triggerer."""

import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.triggers.deferral import read_deferrable


def test_a_task_that_says_nothing_follows_airflows_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_deferrable(None) is False
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "true")
    assert read_deferrable(None) is True
    assert read_deferrable("no") is False


def test_what_is_no_flag_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="deferrable is True or False; not 'maybe'"):
        read_deferrable("maybe")
