"""What a trigger that watches an asset keeps over a restart of the triggerer, where Airflow can: from 3.3 on."""

from __future__ import annotations

import hashlib
import json
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_KEY_BYTES = 8


def state_key(kind: str, arguments: dict[str, Any]) -> str:
    """
    Give the key under which a trigger keeps its state: an asset may have several watchers.

    :param kind: what keeps it, in a word.
    :param arguments: what makes it another watcher; plain values.
    :returns: the key, of letters, digits and underscores.
    """
    told_apart = json.dumps(arguments, sort_keys=True).encode()
    return f"mediaops_{kind}_{hashlib.blake2b(told_apart, digest_size=_KEY_BYTES).hexdigest()}"


class AssetState:
    """
    One value in an asset's state store. A store that is missing or fails costs what it would have kept, nothing else.

    :param store: what Airflow gave the trigger: None below 3.3 and where no asset is watched.
    :param key: the value's key.
    :param tell: is told where the store fails, once until it works again.
    """

    def __init__(self, store: Any, key: str, tell: Callable[[int, str], None]) -> None:
        self._store = store
        self._key = key
        self._tell = tell
        self._works = True

    async def recall(self) -> Any:
        """
        Give what was kept.

        :returns: the value; None where nothing was kept, or the store fails.
        """
        if self._store is None:
            return None
        try:
            value = await self._store.aget(self._key)
        except Exception as error:  # noqa: BLE001 a deployment may bring a store of its own
            self._tell_once(error)
            return None
        return value

    async def keep(self, value: Any) -> None:
        """
        Keep a value.

        :param value: plain values, not None.
        """
        if self._store is None:
            return
        try:
            await self._store.aset(self._key, value)
        except Exception as error:  # noqa: BLE001 as above
            self._tell_once(error)
        else:
            self._works = True

    def _tell_once(self, error: Exception) -> None:
        # Where one trigger watches several assets, none of their stores is its own: Airflow then raises ValueError.
        if self._works:
            self._tell(
                logging.WARNING,
                "The asset's state store failed, so that a restart of the triggerer may tell of a spike again: "
                f"{type(error).__name__}: {error}",
            )
        self._works = False
