"""Say in words why a store refuses a request. Each store's client has error classes, codes and texts of its own."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

from airflow_provider_mediaops.exceptions import MediaOpsError

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
