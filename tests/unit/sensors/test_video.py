"""The sensor of the video platform: what it waits for, and what it returns, in each of its forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import InvalidReplyError
from airflow_provider_mediaops.http.exchange import Response
from airflow_provider_mediaops.sensors.video import SubscriptionSensor
from airflow_provider_mediaops.video.subscription_exists import SubscriptionWatch
from airflow_provider_mediaops.waiting import Waiting
from tests.unit.call_flows import ask_once, replay
from tests.unit.loopback import http_reply
from tests.unit.permanent import permanent
from tests.unit.sensor_forms import FORMS, run
from tests.unit.video_platform import KEY, connection, page, subscription

if TYPE_CHECKING:
    from tests.unit.sensors.conftest import StartService

pytestmark = pytest.mark.usefixtures("supervisor")
every_form = pytest.mark.parametrize("form", FORMS)


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch, start_service: StartService) -> Callable[..., list[bytes]]:
    """Start the platform of the default connection, which gives these answers in turn and the last for ever."""

    def start(*answers: dict[str, Any], **fields: str) -> list[bytes]:
        status = [answer.get("error", {}).get("code", 200) for answer in answers]
        replies = [http_reply(*pair) for pair in zip(status, (json.dumps(a).encode() for a in answers), strict=True)]
        base, seen = start_service(*replies)
        monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT", connection(base, **fields))
        return seen

    return start


def sensor(**arguments: Any) -> Callable[..., SubscriptionSensor]:
    """Give what makes a sensor of the form's arguments."""

    def make(**form: Any) -> SubscriptionSensor:
        return SubscriptionSensor(
            task_id="wait", **{"mine": True, "poke_interval": 0.01, "timeout": 20, **arguments, **form}
        )

    return make


@every_form
def test_sensor_waits_until_one_matches_and_returns_its_id_and_title(platform: Any, form: str) -> None:
    seen = platform(page(), page(), page(3, 4))

    assert run(sensor(for_channel_ids=["UC-3", "UC-4"]), form) == {"id": "sub-3", "title": "Channel 3"}
    assert len(seen) == 3
    assert all(b"mine=true&forChannelId=UC-3%2CUC-4&" in request for request in seen)
    assert all(f"authorization: bearer {KEY}".encode() in request.lower() for request in seen)


@every_form
def test_sensor_that_meets_a_record_with_a_number_for_its_id_fails_for_good(platform: Any, form: str) -> None:
    platform({**page(), "items": [subscription(3, id=3)]})

    with pytest.raises(permanent(InvalidReplyError), match="not a subscription: id"):
        run(sensor(), form)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"mine": False}, "exactly one"),
        ({"channel_id": "UC-1"}, "exactly one"),
        ({"mine": False, "ids": []}, "at least one"),
        ({"mine": False, "channel_id": "@Google"}, "channel_id holds a handle"),
    ],
)
def test_sensor_whose_filter_can_find_nothing_raises_at_parse_time(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        sensor(**arguments)()


def test_a_listing_that_is_cut_short_is_said_to_be() -> None:
    replies = [Response(200, {}, json.dumps(page(next_token="T1")).encode())] * 2
    verdict = replay(SubscriptionWatch(mine=True).look(ask_once), replies)
    assert verdict == Waiting("no subscription matches, but the service cut its listing short")
