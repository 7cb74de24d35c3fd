"""A slot to ask a Redis for, and the error if it cannot be used."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit.operations import Reserve

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.rate_limit.redis_store import RedisStore

# Slots so far apart that no machine is too busy to tell one from the next.
NEXT = Reserve(1_000.0, 1, 900.0, 1e9)
PASSWORD = "p/ss w%rd"
QUOTED = "p%2Fss%20w%25rd"


def error_of(store: RedisStore) -> RateStoreError:
    with pytest.raises(RateStoreError) as caught:
        store.apply("key", NEXT, 0.0)
    store.close()
    told = "".join(traceback.format_exception(caught.value)) + repr(store)
    for secret in (PASSWORD, QUOTED, "s3cr3t"):
        assert secret not in told
    assert caught.value.temporary
    assert store.where in caught.value.message
    assert "rate_limit_store" in caught.value.message
    return caught.value
