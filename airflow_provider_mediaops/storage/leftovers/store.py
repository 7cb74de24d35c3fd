"""What is left on an object store: staged objects below a lease that nobody has renewed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import MediaOpsError
from airflow_provider_mediaops.storage.files import path_of, translating_errors
from airflow_provider_mediaops.storage.lease import Lease, parse_lease
from airflow_provider_mediaops.storage.leftovers.model import Companion, Leftover, key_of, state_by_age
from airflow_provider_mediaops.storage.object_info import modified_time
from airflow_provider_mediaops.storage.object_store import ObjectStage
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.version_compat import conn_id_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow.sdk import ObjectStoragePath

_LEASE, _SEGMENTS = "checkpoint", "parts"
# What is removed by itself; the rest goes with the lease, by the protocol of staging.
_ALONE = ("isbns.jsonl", "part", "probe")


@dataclass(slots=True)
class _Group:
    """The companions of one destination: paths within the store, with the kind and the properties of each."""

    folder: str
    name: str | None = None
    objects: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)

    def of_kinds(self, *kinds: str) -> list[str]:
        return [path for path, (kind, _) in self.objects.items() if kind.endswith(kinds)]

    @property
    def written(self) -> float | None:
        times = [modified_time(info) for _, info in self.objects.values()]
        return None if None in times else max(time for time in times if time is not None)


def leftovers_below(folder: ObjectStoragePath, now: float, older_than: float) -> Iterator[Leftover]:
    """
    Find what is left in a folder of an object store and in those below it.

    :param folder: the folder.
    :param now: the time, in seconds since 1970.
    :param older_than: the seconds without a write after which something may be deleted.
    :raises OSError: if the store refuses or cannot be reached; the message names the folder.
    """
    for group in _groups(_found(folder, folder.path)).values():
        if found := _look_at(folder, group, now, older_than):
            yield found


def leftover_in_store(target: ObjectStoragePath, now: float, older_than: float) -> Leftover | None:
    """
    Find what is left of one destination.

    :param target: the destination, which need not exist.
    :param now: the time, in seconds since 1970.
    :param older_than: the seconds without a write after which it may be deleted.
    :raises OSError: if the store refuses or cannot be reached; the message names the destination.
    """
    folder, _, name = target.path.rpartition("/")
    group = _groups(_found(target, folder, depth=2)).get((folder.strip("/"), key_of(name)))
    if group is None:
        return None
    group.name = name
    return _look_at(target, group, now, older_than)


def delete_in_store(leftover: Leftover, now: float, older_than: float) -> bool:
    """
    Delete what is left of a destination, as another task would that begins there. What is published stays.

    :param leftover: what was found.
    :param now: the time, in seconds since 1970.
    :param older_than: the seconds without a write after which it may be deleted.
    :returns: whether it was deleted; it is not if it was written since.
    :raises DestinationInUseError: if a task is writing the destination.
    :raises MediaOpsError: if another version of this package has staged it.
    :raises OSError: if the store refuses or cannot be reached.
    """
    target = path_of(leftover.destination)
    found = leftover_in_store(target, now, older_than)
    if found is None or found.state != "left":
        return found is None
    kinds = {path: companion for path in found.files if (companion := Companion.of(path.rpartition("/")[2]))}
    if any(companion.kind == _LEASE for companion in kinds.values()) or len(kinds) < len(found.files):
        # A lease that is not stale, by the store's own clock, is not taken.
        stage = ObjectStage(target, Owner("airflow mediaops leftovers", secrets.token_hex(8)), lambda: now)
        try:
            stage.discard()
        finally:
            stage.close()
    with translating_errors(target, "written"):
        for path, companion in kinds.items():
            if companion.kind.endswith(_ALONE) and _is_old(target, path, now - older_than):
                target.fs.rm_file(path)
    return True


def _is_old(root: ObjectStoragePath, path: str, latest: float) -> bool:
    """Return whether an object is there and was last written by a time: a task that has begun since writes its own."""
    root.fs.invalidate_cache()
    try:
        written = modified_time(root.fs.info(path))
    except FileNotFoundError:
        return False
    return written is not None and written <= latest


def _found(path: ObjectStoragePath, folder: str, depth: int | None = None) -> dict[str, Mapping[str, Any]]:
    with translating_errors(path, "read"):
        # Some clients cache what they have listed.
        path.fs.invalidate_cache()
        try:
            found: dict[str, Mapping[str, Any]] = path.fs.find(folder, maxdepth=depth, detail=True)
        except FileNotFoundError:
            return {}
    # s3fs lists folders as well, which no write has made, so they have no time.
    return {name: info for name, info in found.items() if info.get("type") != "directory"}


def _groups(found: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, str], _Group]:
    groups: dict[tuple[str, str], _Group] = {}
    for path, info in found.items():
        folder, _, name = path.rpartition("/")
        companion = Companion.of(name)
        if companion is None:
            folder, _, name = folder.rpartition("/")
            companion = Companion.of(name)
            if companion is None or companion.kind != _SEGMENTS:
                continue
        group = groups.setdefault((folder.strip("/"), companion.key), _Group(folder))
        group.name = group.name or companion.name
        group.objects[path] = companion.kind, info
    return groups


def _look_at(root: ObjectStoragePath, group: _Group, now: float, older_than: float) -> Leftover | None:
    leases, staged = group.of_kinds(_LEASE), [path for path in group.objects if path not in group.of_kinds(_LEASE)]
    destination = _shown(root, f"{group.folder}/{group.name}" if group.name else next(iter(group.objects)))
    lease, note = _lease_of(root, leases[0] if leases else None, destination)
    if not note and not staged and lease.owner is None:
        # The receipt of a dataset that was published.
        return None
    if group.name is None and not note:
        note = "the name of the destination was cut: name the destination itself"
    if group.of_kinds(_SEGMENTS) and not leases and not note:
        note = "there is no lease beside it, so it may be another program's"
    state = state_by_age(group.written, now, older_than)
    if group.written is None:
        note = note or "the store does not say when it was written"
    if state == "left" and note:
        state = "unclear"
    return Leftover(
        destination=destination,
        state=state,
        note=note if state == "unclear" else "",
        task=lease.owner.task if lease.owner else None,
        size=sum(int(group.objects[path][1].get("size") or 0) for path in staged),
        written=group.written,
        files=tuple(group.objects),
    )


def _lease_of(root: ObjectStoragePath, path: str | None, destination: str) -> tuple[Lease, str]:
    """Return the lease, and why it is not clear whose it is."""
    if path is None:
        return Lease(), ""
    with translating_errors(root, "read"):
        try:
            content = root.fs.cat_file(path)
        except FileNotFoundError:
            return Lease(), ""
    try:
        return parse_lease(content, path, destination), ""
    except MediaOpsError as error:
        return Lease(), error.message


def _shown(root: ObjectStoragePath, path: str) -> str:
    conn_id = conn_id_of(root)
    return f"{root.protocol}://{f'{conn_id}@' if conn_id else ''}{path.lstrip('/')}"
