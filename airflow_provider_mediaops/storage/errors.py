"""
The errors of destinations and stores, in words, without what is secret.

A destination may be written by another task. A store refuses requests, and each store's client has error classes, codes
and texts of its own.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.exceptions import (
    DestinationInUseError,
    DestinationReplacedError,
    InvalidArgumentError,
    MediaOpsError,
    PermanentError,
)

# The beginnings of the codes of S3, Azure and Google for each cause, and parts of what a store says that has no code.
_NO_BUCKET_CODES = ("NoSuchBucket", "ContainerNotFound")
_EXPIRED_CODES = ("ExpiredToken", "RequestExpired", "TokenRefreshRequired")
_EXPIRED_TEXTS = ("expired", "not valid in the specified time frame")
_REFUSED_CODES = (
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "AuthenticationFailed",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
    "RefreshError",
    "AccessDenied",
    "Authorization",
    "Insufficient",
    "Forbidden",
    "401",
    "403",
)
_REFUSED_TEXTS = ("failed to authenticate", "invalid_grant", "invalid credentials", "anonymous caller")


def missing_bucket() -> FileNotFoundError:
    """Return the error of a path whose bucket or container is missing; :func:`naming_path` adds the path."""
    return FileNotFoundError(errno.ENOENT, "there is no such bucket or container; create it, or correct its name")


def replaced_error(path: object) -> DestinationReplacedError:
    """Return the error of an attempt that would replace another version of a file than the one that it has noted."""
    return DestinationReplacedError(
        f"{_shown(path)} was published by another run or program after this attempt began. This attempt ends, and "
        "replaces nothing; the next one begins from the file as it is then, and repeats no request. If two tasks write "
        "there on purpose, give each a destination of its own, or set max_active_runs=1.",
        service="storage",
    )


def superseded_error(destination: object) -> DestinationInUseError:
    """Return the error of an attempt whose claim is no longer the highest, or whose dataset another has published."""
    return DestinationInUseError(
        f"{_shown(destination)} is being written, or has just been published, by another attempt of this task. This "
        "attempt ends; what it has staged counts for the other one.",
        service="storage",
    )


def mapped_overwrite_error(destination: object, writer: str, kind: str = "dataset") -> PermanentError:
    """Return the error for a mapped task whose destination another instance of it writes or has published."""
    return PermanentError(
        f"{_shown(destination)} is the {kind} of {writer}, another mapped instance of this task in the same run, and "
        "would be lost: give each mapped task a destination of its own, for example with {{ ti.map_index }} in it.",
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


@contextmanager
def naming_path(path: object, action: Literal["read", "written"], hint: str = "") -> Iterator[None]:
    """
    Raise any error of the system or of a store as an ``OSError`` that names the file.

    Its class stays if it is one of Python's own: some clients have others.
    """
    try:
        yield
    except (MediaOpsError, InvalidArgumentError):
        raise
    except Exception as error:
        found = _refusal_of(error) or error
        if not isinstance(found, OSError):
            found = OSError(f"{type(error).__name__}: {error}")
        # Stores raise FileNotFoundError with nothing but a path.
        is_missing = isinstance(found, FileNotFoundError) and not found.errno
        reason = "there is no such file" if is_missing else found.strerror or found
        message = f"{_shown(path)} cannot be {action}: {reason}{f'. {hint}' if hint else ''}"
        if found.errno:
            # The number makes it a PermissionError, a FileNotFoundError, …
            raise OSError(found.errno, message) from error
        kind = type(found) if type(found).__module__ == "builtins" else OSError
        raise kind(message) from error


def _refusal_of(error: BaseException) -> OSError | None:
    """Return an error that says why a store refuses a request; None if it does not, or says no reason."""
    code = code_of(error)
    text = " ".join(map(str, _chain(error))).lower()
    said = f" ({code})" if code else ""
    is_azure = any(type(each).__module__.startswith("azure.") for each in _chain(error))
    is_refused = is_azure or code.startswith(("4", "RefreshError"))
    if code.startswith(_NO_BUCKET_CODES):
        return missing_bucket()
    if code.startswith(_EXPIRED_CODES) or (is_refused and any(each in text for each in _EXPIRED_TEXTS)):
        return OSError(errno.EACCES, f"the key of the connection has expired{said}. Renew it there")
    if code.startswith(_REFUSED_CODES) or (is_refused and any(each in text for each in _REFUSED_TEXTS)):
        return OSError(
            errno.EACCES,
            f"the store refuses the key of the connection, or the network of this machine{said}. Check the key, its "
            "rights, which the page “Object stores” lists, and the networks that the account admits",
        )
    return None


def code_of(error: BaseException) -> str:
    """Return the code of a store's answer, such as ``NoSuchBucket``, or the HTTP status; empty without either."""
    return next(filter(None, map(_own_code, _chain(error))), "")


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
    if not found and type(error).__name__ == "RefreshError":  # of Google's tokens
        return "RefreshError"
    # For a status of 403, gcsfs raises an error with a text only.
    if not found and str(error).startswith("Forbidden: "):
        return "Forbidden"
    # Azure has an enumeration of codes.
    return str(getattr(found, "value", found) or "")
