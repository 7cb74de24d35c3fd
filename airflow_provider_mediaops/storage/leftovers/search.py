"""Find what attempts have left at paths on any storage, and delete it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.arguments import read_path
from airflow_provider_mediaops.storage.files import is_local, lasting, naming_path, path_of, translating_errors
from airflow_provider_mediaops.storage.leftovers.local import delete_locally, leftover_of, leftovers_in_folder
from airflow_provider_mediaops.storage.leftovers.store import delete_in_store, leftover_in_store, leftovers_below
from airflow_provider_mediaops.storage.path_checks import check_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_mediaops.storage.leftovers.model import Leftover


def find_leftovers(text: str, now: float, older_than: float, on_error: Callable[[OSError], None]) -> Iterator[Leftover]:
    """
    Find what attempts have left.

    :param text: the path of a folder, which is searched with all below it, or of one destination.
    :param now: the time, in seconds since 1970.
    :param older_than: the seconds without a write after which something may be deleted.
    :param on_error: called with the error of a folder on the way that cannot be read.
    :returns: what was found, in no certain order.
    :raises InvalidArgumentError: if the path can never name anything.
    :raises PermanentError: if Airflow has no support for its scheme.
    :raises OSError: if it cannot be read; the message names it.
    """
    path = path_of(read_path("PATH", text))
    check_store(path, "PATH")
    if is_local(path):
        local = Path(lasting(path))
        with naming_path(path, "read"):
            if local.is_dir():
                yield from leftovers_in_folder(local, now, older_than, on_error)
            elif found := leftover_of(local, now, older_than):
                yield found
        return
    with translating_errors(path, "read"):
        is_folder = text.endswith("/") or path.fs.isdir(path.path)
    if is_folder:
        yield from leftovers_below(path, now, older_than)
    elif found := leftover_in_store(path, now, older_than):
        yield found


def delete_leftover(leftover: Leftover, now: float, older_than: float) -> bool:
    """
    Delete what an attempt has left, unless a task is writing the destination. What is published stays.

    :param leftover: what was found; its state is ``left``.
    :param now: the time, in seconds since 1970.
    :param older_than: the seconds without a write after which it may be deleted.
    :returns: whether it was deleted; it is not if it was written since it was found.
    :raises DestinationInUseError: if a task is writing the destination.
    :raises MediaOpsError: if another version of this package has staged it.
    :raises OSError: if it cannot be deleted; the message names the destination.
    """
    if is_local(path_of(leftover.destination)):
        return delete_locally(leftover, now, older_than)
    return delete_in_store(leftover, now, older_than)
