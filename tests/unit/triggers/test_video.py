"""The trigger of the video platform's sensor: what survives the database, and the events it sends."""

from __future__ import annotations

import json

import pytest

from airflow_provider_mediaops.triggers.deferral import value_of
from airflow_provider_mediaops.triggers.video import SubscriptionTrigger
from tests.unit.loopback import Loopback, answering, http_reply
from tests.unit.sensor_forms import a_day, first_event, made_again
from tests.unit.video_platform import connection, page

pytestmark = pytest.mark.usefixtures("supervisor")


def trigger(**watch: object) -> SubscriptionTrigger:
    return SubscriptionTrigger(conn_id="studio", watch=watch or {"mine": True}, poke_interval=0.01, **a_day())


async def test_it_sends_the_id_and_title_of_what_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = [http_reply(200, json.dumps(reply).encode()) for reply in (page(), page(5))]
    seen: list[bytes] = []
    with Loopback(answering(*replies, seen=seen)) as server:
        monkeypatch.setenv("AIRFLOW_CONN_STUDIO", connection(server.base))
        event = await first_event(made_again(trigger(channel_id="UC-1", for_channel_ids=["UC-5"])))
        assert server.accepted == 1

    assert value_of(event) == {"id": "sub-5", "title": "Channel 5"}
    # As the hook of the video platform asks, and no other.
    assert b"authorization: bearer " in seen[0].lower()


@pytest.mark.parametrize("watch", [{"mine": False}, {"mine": True, "ids": ["a"]}, {"ids": []}])
async def test_what_cannot_be_waited_for_is_an_event_and_no_exception(watch: dict[str, object]) -> None:
    event = await first_event(trigger(**watch))

    assert event["status"] == "error"
