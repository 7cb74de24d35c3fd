from __future__ import annotations

import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.storage.source_columns import read_keep


class TestKeep:
    @pytest.mark.parametrize(
        ("value", "keep"),
        [
            (True, True),
            ("false", False),
            (0, False),
            ("a, b", ["a", "b"]),
            (["a,b", " c "], ["a,b", "c"]),
            (("true",), ["true"]),
        ],
    )
    def test_keep_columns_is_a_flag_or_names(self, value: object, keep: object) -> None:
        assert read_keep(value) == keep

    @pytest.mark.parametrize("value", [None, [], "", ["a", ""], 2.5, {"a": 1}, ["a", "a"], [None], "['a']"])
    def test_anything_else_is_refused(self, value: object) -> None:
        with pytest.raises(InvalidArgumentError, match="keep_columns"):
            read_keep(value)
