"""Airflow's task state store, as far as a task sees it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any


class KeptState:
    """
    A store whose values pass through JSON, as Airflow's do, and whose calls can be told to fail.

    :param failing: the calls that fail: ``get``, ``set``, ``delete``; or one of a state, as ``set posted``.
    """

    def __init__(self, values: dict[str, Any] | None = None, *, failing: tuple[str, ...] = ()) -> None:
        self._texts = {key: json.dumps(value) for key, value in (values or {}).items()}
        self._failing = failing
        self.retentions: list[timedelta | None] = []

    @property
    def values(self) -> dict[str, Any]:
        """What it holds."""
        return {key: json.loads(text) for key, text in self._texts.items()}

    def get(self, key: str) -> Any:
        self._may_fail("get")
        return self.values.get(key)

    def set(self, key: str, value: Any, *, retention: timedelta | None = None) -> None:
        self._may_fail("set", f"set {value['state']}")
        self._texts[key] = json.dumps(value)
        self.retentions.append(retention)

    def delete(self, key: str) -> None:
        self._may_fail("delete")
        self._texts.pop(key, None)

    def _may_fail(self, *names: str) -> None:
        if set(names) & set(self._failing):
            raise ConnectionError("password=open-sesame")
