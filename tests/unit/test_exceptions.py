from __future__ import annotations

import inspect
import json
import pickle

import pytest

from airflow_provider_mediaops import exceptions
from airflow_provider_mediaops.books.api import DoubtfulNotFoundError
from airflow_provider_mediaops.exceptions import (
    InvalidArgumentError,
    MediaOpsError,
    PermanentError,
    QuotaExceededError,
    TemporaryError,
    error_from_dict,
)

CLASSES = [cls for _, cls in inspect.getmembers(exceptions, inspect.isclass) if issubclass(cls, MediaOpsError)]
PERMANENT = {
    "InvalidConnectionError",
    "BadRequestError",
    "AuthenticationError",
    "PermissionDeniedError",
    "NotFoundError",
    "UncertainDeliveryError",
    "InvalidReplyError",
}
TEMPORARY = {
    "RateLimitedError",
    "QuotaExceededError",
    "ServiceUnavailableError",
    "ConnectionFailedError",
    "ReplyTimeoutError",
    "RateStoreError",
    "DestinationInUseError",
    "DestinationReplacedError",
    "StorageError",
}


def example(cls: type[MediaOpsError]) -> MediaOpsError:
    return cls(
        "What happened. What to do.",
        service="video platform",
        method="GET",
        path="/v3/subscriptions",
        status=429,
        reason="quotaExceeded",
        retry_after=12.5,
        excerpt="the start",
    )


def test_the_tree_splits_by_what_the_caller_should_do() -> None:
    leaves = {cls.__name__ for cls in CLASSES} - {"MediaOpsError", "PermanentError", "TemporaryError"}
    assert leaves == PERMANENT | TEMPORARY
    assert {cls.__name__ for cls in CLASSES if issubclass(cls, PermanentError)} == PERMANENT | {"PermanentError"}
    assert {cls.__name__ for cls in CLASSES if issubclass(cls, TemporaryError)} == TEMPORARY | {"TemporaryError"}
    assert all(cls.temporary is issubclass(cls, TemporaryError) for cls in CLASSES)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("way", ["a trigger event", "another process"])
def test_an_error_survives(cls: type[MediaOpsError], way: str) -> None:
    error = example(cls)
    if way == "another process":
        again = pickle.loads(pickle.dumps(error))  # noqa: S301
    else:
        again = error_from_dict(json.loads(json.dumps(error.to_dict())))
    assert type(again) is cls
    assert str(again) == again.message == "What happened. What to do."
    assert again.to_dict() == error.to_dict()
    assert (again.service, again.method, again.path) == ("video platform", "GET", "/v3/subscriptions")
    assert (again.status, again.reason, again.retry_after, again.excerpt) == (429, "quotaExceeded", 12.5, "the start")


def test_only_what_is_known_is_told() -> None:
    assert QuotaExceededError("Spent.").to_dict() == {
        "type": "QuotaExceededError",
        "bases": ["TemporaryError", "MediaOpsError"],
        "message": "Spent.",
    }


class HouseRuleError(QuotaExceededError):
    """An error that another package declares."""


TOLD = HouseRuleError("Spent.").to_dict()


@pytest.mark.parametrize(
    ("fields", "cls"),
    [
        (TOLD, HouseRuleError),
        (DoubtfulNotFoundError("Perhaps.", status=404).to_dict(), DoubtfulNotFoundError),
        ({**TOLD, "type": "NotLoadedError"}, QuotaExceededError),
        ({"type": "NotLoadedError", "bases": ["AlsoUnknownError", "PermanentError", "MediaOpsError"]}, PermanentError),
        # Of another version.
        *(
            (fields, MediaOpsError)
            for fields in ({}, {"type": None}, {"type": "Newer", "message": "New.", "more": 1}, {"bases": 5})
        ),
    ],
)
def test_an_error_comes_back_as_its_class_or_the_nearest_base_that_is_loaded(
    fields: dict[str, object], cls: type[MediaOpsError]
) -> None:
    error = error_from_dict(json.loads(json.dumps(fields)))
    assert type(error) is cls
    assert str(error) == fields.get("message", "")


def test_a_name_that_is_taken_keeps_its_class() -> None:
    type("NotFoundError", (TemporaryError,), {})
    assert type(error_from_dict({"type": "NotFoundError"})) is exceptions.NotFoundError


def test_a_bad_argument_is_a_value_error_that_no_service_has_made() -> None:
    assert issubclass(InvalidArgumentError, ValueError)
    assert not issubclass(InvalidArgumentError, MediaOpsError)
