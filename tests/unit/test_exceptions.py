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


def test_an_error_of_another_module_comes_back_as_what_it_was() -> None:
    assert type(error_from_dict(HouseRuleError("Spent.").to_dict())) is HouseRuleError
    told = DoubtfulNotFoundError("Perhaps.", status=404)
    again = error_from_dict(json.loads(json.dumps(told.to_dict())))
    assert type(again) is DoubtfulNotFoundError
    assert again.to_dict() == told.to_dict()


def test_an_error_whose_class_is_not_loaded_comes_back_as_its_nearest_base() -> None:
    fields = {**HouseRuleError("Spent.").to_dict(), "type": "NotLoadedError"}
    assert type(error_from_dict(fields)) is QuotaExceededError
    fields["bases"] = ["AlsoUnknownError", "PermanentError", "MediaOpsError"]
    assert type(error_from_dict(fields)) is PermanentError


def test_a_name_that_is_taken_keeps_its_class() -> None:
    type("NotFoundError", (TemporaryError,), {})
    assert type(error_from_dict({"type": "NotFoundError"})) is exceptions.NotFoundError


def test_a_bad_argument_is_a_value_error_that_no_service_has_made() -> None:
    assert issubclass(InvalidArgumentError, ValueError)
    assert not issubclass(InvalidArgumentError, MediaOpsError)


@pytest.mark.parametrize(
    "fields", [{}, {"type": None}, {"type": "Newer", "message": "New.", "more": 1}, {"type": "New", "bases": 5}]
)
def test_an_error_of_another_version_is_still_an_error(fields: dict[str, object]) -> None:
    error = error_from_dict(fields)
    assert type(error) is MediaOpsError
    assert str(error) == fields.get("message", "")
