"""Bulletins against their model, and worlds in which the model fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.http import client, errors
from airflow_provider_mediaops.video.at_most_once import Delivery
from tests.models.bulletin_model import BulletinMachine
from tests.models.settings import try_examples
from tests.models.worlds import World

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow

_DECIDE = Delivery.decide


def test_a_bulletin_is_what_its_model_says() -> None:
    try_examples(BulletinMachine)


class _NeverRaisedError(Exception):
    """Takes the place of a class of errors that is looked for."""


def _nothing(*_: Any) -> None:
    """Do nothing."""


def _intend_after_the_post(delivery: Any, posting: CallFlow[Any]) -> CallFlow[Any]:
    activity = yield from posting
    delivery.intend()
    delivery.settle(activity)
    return activity


def _decide_without_clears(delivery: Delivery, found: Any) -> Any:
    delivery.post_again_on_clear = False
    return _DECIDE(delivery, found)


WORLDS = {
    "a lost reply is tried again": World(errors, "_of_a_write", lambda _, error: error, "posted |not its own id"),
    "a lost reply counts as a refusal": World(client, "UncertainDeliveryError", _NeverRaisedError, "posted "),
    "no intent is written": World(Delivery, "intend", _nothing, "posted |another id than before"),
    "an intent stays after a refusal": World(Delivery, "withdraw", _nothing, "ncertain"),
    "a post is not written": World(Delivery, "settle", _nothing, "ncertain|posted "),
    "the intent comes after the post": World(Delivery, "around", _intend_after_the_post, "posted"),
    "a clear posts nothing": World(Delivery, "decide", _decide_without_clears, "not posted again"),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_model_fails_where(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WORLDS[world].check(BulletinMachine, monkeypatch)
