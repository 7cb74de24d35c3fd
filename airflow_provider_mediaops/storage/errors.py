"""
The errors of destinations and stores, in words, without what is secret.

A destination may be written by another task. A store refuses requests, and each store's client has error classes, codes
and texts of its own.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.exceptions import (
    DestinationInUseError,
    DestinationReplacedError,
    MediaOpsError,
    PermanentError,
)

_MISSING = {
    "NoSuchBucket": "there is no such bucket; create it, or correct its name",
    "ContainerNotFound": "there is no such container; create it, or correct its name",
}
_EXPIRED_CODES = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
_EXPIRED_TEXTS = ("expired", "not valid in the specified time frame")
_WRONG_KEY_CODES = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "AuthenticationFailed",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
    "401",
}
_WRONG_KEY_TEXTS = ("failed to authenticate", "invalid_grant", "invalid credentials", "anonymous caller")
# Azure answers so to a network that may not reach the account, too; Azurite to a wrong key.
_NOT_ALLOWED_CODES = {"AuthorizationFailure"}
_NO_RIGHT_CODES = {"AccessDenied", "403", "Forbidden"}

_WRONG_KEY = "the store does not accept the key of the connection{said}. Correct it there"
_EXPIRED = "the key of the connection has expired{said}. Renew it there"
_NOT_ALLOWED = (
    "the store refuses the key of the connection, or the network of this machine{said}. Check the key, its rights, and "
    "the networks that the account admits"
)
_NO_RIGHT = "the key of the connection has no right to do that{said}. The page “Object stores” lists the rights"


class ConflictError(DestinationReplacedError):
    """Another version is at a path than the one that was to be replaced. Who catches it can look at that version."""


def conflict_error(path: object) -> ConflictError:
    """Return the error of a write that would have replaced another version than the one that was read."""
    return ConflictError(
        f"{_shown(path)} was replaced by another task or program meanwhile. This attempt replaces nothing; the next "
        "one begins from the file as it is then.",
        service="storage",
    )


def mapped_overwrite_error(destination: object, writer: str, kind: str = "dataset") -> PermanentError:
    """Return the error for a mapped task whose destination another instance of it writes or has published."""
    return PermanentError(
        f"{_shown(destination)} is the {kind} of {writer}, another mapped instance of this task in the same run, and "
        "would be lost: give each mapped task a destination of its own, for example with {{ ti.map_index }} in it.",
        service="storage",
    )


def superseded_error(destination: object) -> DestinationInUseError:
    """Return the error of an attempt whose claim is no longer the highest, or whose dataset another has published."""
    return DestinationInUseError(
        f"{_shown(destination)} is being written, or has just been published, by another attempt of this task. This "
        "attempt ends; what it has staged counts for the other one.",
        service="storage",
    )


def removed_error(destination: object) -> OSError:
    """Return the error of an attempt whose claim somebody has removed."""
    what = f"the hidden folder beside {_shown(destination)} was removed while the task wrote"
    return OSError(errno.ESTALE, f"{what}; the next attempt starts anew")


def locked_error(destination: object) -> DestinationInUseError:
    """Return the error for a file that another process keeps locked."""
    return DestinationInUseError(
        f"{_shown(destination)} is being published by another process, which has held its lock for half a minute: it "
        "may have been stopped. This attempt ends; the next one publishes what is staged. If no task is at work, end "
        "that process.",
        service="storage",
    )


def replaced_error(destination: object) -> DestinationReplacedError:
    """Return the error of an attempt at whose destination another file appeared since it began."""
    return DestinationReplacedError(
        f"{_shown(destination)} was published by another run or program after this attempt began. This attempt ends, "
        "and replaces nothing; the next one begins from the file as it is then, and repeats no request. If two tasks "
        "write there on purpose, give each a destination of its own, or set max_active_runs=1.",
        service="storage",
    )


def unknown_version_error(file: object, version: object) -> PermanentError:
    """Return the error for a log of a version that this package does not know."""
    return PermanentError(
        f"{_shown(file)} has version {str(version)[:20]!r}, which this version of airflow-provider-mediaops does not "
        "know (it knows 1). Install the version that wrote it, or a later one; or, if no task writes there, delete it, "
        "and what is staged is written anew.",
        service="storage",
    )


def unconditional_error(record: object, reason: str = "") -> PermanentError:
    """Return the error for a record that two tasks could create at once where it is."""
    reason = reason or "its store, or the store's client, does not refuse to create a file that is there"
    return PermanentError(
        f"{_shown(record)} cannot be kept: {reason}, so two tasks could do the same work at once. Choose a folder on "
        "S3, Google Cloud Storage, Azure or another store with conditional writes, or on a disk with hard links (ext4, "
        "XFS, NFS) that all workers share.",
        service="storage",
    )


def _shown(path: object) -> str:
    return unsigned(str(path))


def code_of(error: BaseException) -> str:
    """Return the code of a store's answer, such as ``NoSuchBucket``, or the HTTP status; empty without either."""
    return next(filter(None, map(_own_code, _chain(error))), "")


def refusal_of(error: BaseException) -> OSError | None:
    """Return an error that says why a store refuses a request; None if it does not, or says no reason."""
    if isinstance(error, MediaOpsError):
        return None
    code = code_of(error)
    if code in _MISSING:
        return FileNotFoundError(errno.ENOENT, _MISSING[code])
    words = _words_of(error, code)
    return PermissionError(errno.EACCES, words.format(said=f" ({code})" if code else "")) if words else None


def _words_of(error: BaseException, code: str) -> str | None:
    """Return why the store does not accept the key."""
    text = " ".join(map(str, _chain(error))).lower()
    is_key = any(type(each).__name__ == "RefreshError" for each in _chain(error))  # of Google's tokens
    is_azure = any(type(each).__module__.startswith("azure.") for each in _chain(error))
    is_refused = is_key or is_azure or code.startswith("4")
    if code in _EXPIRED_CODES or (is_refused and any(each in text for each in _EXPIRED_TEXTS)):
        return _EXPIRED
    if is_key or code in _WRONG_KEY_CODES or (is_refused and any(each in text for each in _WRONG_KEY_TEXTS)):
        return _WRONG_KEY
    if code in _NOT_ALLOWED_CODES:
        return _NOT_ALLOWED
    # For a status of 403, gcsfs raises an error with a text only.
    if code in _NO_RIGHT_CODES or code.startswith(("Authorization", "Insufficient")) or text.startswith("forbidden: "):
        return _NO_RIGHT
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error:
        yield error
        error = error.__cause__


def _own_code(error: BaseException) -> str:
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore
        return str(response.get("Error", {}).get("Code", ""))
    found = getattr(error, "error_code", None) or getattr(error, "status_code", None)  # azure
    if not found and type(error).__name__ == "HttpError":  # gcsfs
        found = getattr(error, "code", None)
    # Azure has an enumeration of codes.
    return str(getattr(found, "value", found) or "")
