from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from airflow_provider_mediaops.exceptions import InvalidReplyError
from airflow_provider_mediaops.video.models import Activity, Subscription, SubscriptionPage

if TYPE_CHECKING:
    from pathlib import Path


def test_recorded_page_is_read_and_given_back_as_it_came(data: Path) -> None:
    recorded = json.loads((data / "video" / "subscription_page.json").read_text(encoding="utf-8"))
    page = SubscriptionPage.model_validate(recorded)
    assert page.to_dict() == recorded
    assert (page.next_page_token, page.prev_page_token) == ("CAIQAA", None)
    assert (page.page_info.total_results, page.page_info.results_per_page) == (120, 2)
    assert [subscription.title for subscription in page.subscriptions] == ["Lighthouse keepers", "Ærø by bike ✓"]
    assert [subscription.channel_id for subscription in page.subscriptions] == ["UClamp", "UCbike"]
    # What the service adds tomorrow is not lost today.
    assert page.subscriptions[1].to_dict()["statistics"] == {"rank": "9"}


@pytest.mark.parametrize("snippet", [None, {}, {"title": None}, {"title": 5}, {"resourceId": "x"}, {"resourceId": {}}])
def test_properties_of_any_shape_are_kept_and_titles_are_texts(snippet: object) -> None:
    subscription = Subscription.model_validate({"id": "s", "snippet": snippet})
    assert (subscription.title, subscription.channel_id) == (None, None)
    assert subscription.snippet == (snippet or {})


@pytest.mark.parametrize("strange", [{"id": 5}, {"id": ["s3cr3t"]}, {"snippet": "s3cr3t"}, {"contentDetails": [1]}])
def test_record_with_a_field_of_another_type_is_a_typed_error_of_its_page(strange: dict[str, object]) -> None:
    page = SubscriptionPage.model_validate({"items": [strange]})
    with pytest.raises(InvalidReplyError, match=f"no subscription: {next(iter(strange))}: Input should be") as caught:
        _ = page.subscriptions
    assert "s3cr3t" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    # Whoever reads the records as they came gets this one, too.
    assert page.items == [strange]


def test_activity_with_a_description_has_its_text() -> None:
    activity = Activity.model_validate(
        {"id": "a1", "snippet": {"description": "Hello"}, "contentDetails": None, "new": [1]}
    )
    assert (activity.id, activity.text, activity.content_details) == ("a1", "Hello", {})
    assert activity.to_dict()["new"] == [1]
    assert Activity.model_validate({"snippet": {"description": 5}}).text is None


def test_records_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Activity(id="a").id = "b"  # type: ignore[misc]
