"""
Small objects that are replaced on a condition: only the version that was read before, or only if there is none.

It is sent if the store's client knows it: s3fs and adlfs know both, most other clients only the second, some none. A
store that ignores a condition writes all the same.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.errors import ConflictError
from airflow_provider_mediaops.storage.files import put, translating_errors
from airflow_provider_mediaops.storage.object_info import content_tag, modified_time
from airflow_provider_mediaops.storage.refusals import code_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow.sdk import ObjectStoragePath

# The codes of S3 and Azure for a condition that did not hold, and of S3 for a store that knows no conditions.
_CONFLICT_CODES = {"PreconditionFailed", "ConditionalRequestConflict", "ConditionNotMet", "412", "409"}
_UNKNOWN_CODES = {"NotImplemented", "501"}


@dataclass(frozen=True, slots=True)
class Found:
    """
    An object that was read.

    :param content: its content; None if there is none.
    :param version: its version; empty if there is none, or the store does not say.
    :param modified: the time of its last write by the store's clock; None if the store does not say.
    """

    content: bytes | None = None
    version: str = ""
    modified: float | None = None

    @property
    def condition(self) -> str | None:
        """The version that a write has to replace: empty for none at all, None for any."""
        return self.version if self.version or self.content is None else None


class StoreObjects:
    """
    The objects of one destination.

    :param path: one of them.
    """

    def __init__(self, path: ObjectStoragePath) -> None:
        self.path = path
        self._conditions = _conditions_of(path.fs)

    @property
    def checks_creation(self) -> bool:
        """Whether the client can ask the store to create an object only if there is none; the store may ignore it."""
        return bool(self._conditions(""))

    def read(self, name: str, max_bytes: int | None = None) -> Found:
        """
        Read an object, and its version.

        :param name: its path.
        :param max_bytes: the rest of a larger object is left out; None for no bound.
        """
        with translating_errors(self.path, "read"):
            # Some clients cache what they have listed.
            self.path.fs.invalidate_cache()
            try:
                # In this order, a write in between can only make ours fail.
                info = self.path.fs.info(name)
                is_larger = max_bytes is not None and (info.get("size") or 0) > max_bytes
                part = {"start": 0, "end": max_bytes} if is_larger else {}
                content = self.path.fs.cat_file(name, **part)
                return Found(content, content_tag(info), modified_time(info))
            except FileNotFoundError:
                return Found()

    def info(self, name: str) -> Mapping[str, Any]:
        """
        Return the properties of an object; none if it does not exist.

        :param name: its path.
        """
        with translating_errors(self.path, "read"):
            self.path.fs.invalidate_cache()
            try:
                found: Mapping[str, Any] = self.path.fs.info(name)
            except FileNotFoundError:
                return {}
        return found

    def write(self, name: str, content: bytes, replaces: str | None = None) -> None:
        """
        Write an object in one request.

        :param name: its path.
        :param content: its content.
        :param replaces: the version to replace; empty to create it, None to replace any.
        :raises ConflictError: if the store checks conditions, and another version is there.
        """

        def attempt(target: str) -> None:
            options = {} if replaces is None else self._conditions(replaces)
            try:
                self.path.fs.pipe_file(target, content, **options)
            except Exception as error:
                code = code_of(error)
                if options and code in _UNKNOWN_CODES:
                    self._conditions = _no_conditions
                    self.path.fs.pipe_file(target, content)
                elif options and _is_conflict(error, code, replaces):
                    raise ConflictError(name) from error
                else:
                    raise

        put(self.path, name, attempt)


def _conditions_of(fs: Any) -> Callable[[str], Mapping[str, Any]]:
    """Return the function that makes the client's options for the condition to replace one version only."""
    protocols = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    if "s3" in protocols:
        return _s3_conditions
    if "abfs" in protocols:
        return _azure_conditions
    with suppress(TypeError, ValueError):
        if "mode" in inspect.signature(fs.pipe_file).parameters:
            return _creation_only
    return _no_conditions


def _s3_conditions(version: str) -> Mapping[str, Any]:
    return {"IfMatch": version} if version else {"IfNoneMatch": "*"}


def _azure_conditions(version: str) -> Mapping[str, Any]:
    if not version:
        return {"mode": "create"}
    from azure.core import MatchConditions

    return {"etag": version, "match_condition": MatchConditions.IfNotModified}


def _creation_only(version: str) -> Mapping[str, Any]:
    return {} if version else {"mode": "create"}


def _no_conditions(_: str) -> Mapping[str, Any]:
    return {}


def _is_conflict(error: Exception, code: str, replaces: str | None) -> bool:
    if isinstance(error, FileExistsError) or code in _CONFLICT_CODES:
        return True
    return bool(replaces) and isinstance(error, FileNotFoundError)
