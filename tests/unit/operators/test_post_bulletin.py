"""The operator that posts a bulletin: what it sends, returns and refuses, and that it posts at most once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest
import requests

from airflow_provider_mediaops.exceptions import (
    InvalidArgumentError,
    PermanentError,
    TemporaryError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from airflow_provider_mediaops.operators.video import PostBulletinOperator
from airflow_provider_mediaops.video.at_most_once import Delivery
from tests.unit.log_lines import log_lines
from tests.unit.operators.video_platform_tasks import ACTIVITIES, BASE, render
from tests.unit.operators.video_platform_tasks import platform as platform  # noqa: PLC0414 a fixture
from tests.unit.operators.video_platform_tasks import posts as posts  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent
from tests.unit.storage.conftest import store as store  # noqa: PLC0414 a fixture
from tests.unit.storage.places import local_place, store_place
from tests.unit.task_state import KeptState
from tests.unit.video_platform import KEY, connection

if TYPE_CHECKING:
    from airflow.sdk import Context
    from requests_mock import Mocker

pytestmark = pytest.mark.usefixtures("supervisor")


DAY = "2026-11-23"


@pytest.fixture(autouse=True)
def another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a second connection to the platform."""
    monkeypatch.setenv("AIRFLOW_CONN_ANOTHER", connection(BASE))


class Record(NamedTuple):
    """Where the record of a task is: in its state store, or in a journal."""

    state: KeptState
    journal: str | None = None


@pytest.fixture(params=[pytest.param("task", marks=pytest.mark.airflow(">=3.3")), "disk", "store"])
def record(request: pytest.FixtureRequest, tmp_path: Path) -> Record:
    if request.param == "task":
        return Record(KeptState())
    place = local_place(tmp_path) if request.param == "disk" else store_place(request.getfixturevalue("store"))
    return Record(KeptState(failing=("get", "set", "delete")), place.prefix)


def context_of(number: int = 1, *, state: KeptState | None = None, **names: Any) -> Context:
    ids = {"dag_id": "dag", "run_id": "run", "task_id": "post", "map_index": -1, "max_tries": 3, **names}
    return cast("Context", {"task_state_store": state or KeptState(), "ti": SimpleNamespace(try_number=number, **ids)})


def tried(
    record: Record, number: int = 1, *, text: str = "Hi", ti: Mapping[str, Any] | None = None, **given: Any
) -> Any:
    """Run a try of a task whose record is there."""
    operator = PostBulletinOperator(task_id="post", text=text, journal=record.journal, **given)
    return operator.execute(context_of(number, state=record.state, **(ti or {})))


class TestPostBulletin:
    def post(self, **arguments: Any) -> dict[str, Any]:
        return PostBulletinOperator(task_id="post", **arguments).execute({})

    def test_the_activity_is_returned_as_it_came(self, platform: Mocker) -> None:
        activity = {"id": "act-1", "kind": "svc#activity", "snippet": {"description": "Hi", "new": [1]}, "more": None}
        platform.post(ACTIVITIES, json=activity)

        assert self.post(text="Hi", video_id="v-1") == activity
        request = platform.last_request
        assert request is not None
        assert request.json() == {
            "snippet": {"description": "Hi"},
            "contentDetails": {"bulletin": {"resourceId": {"kind": "svc#video", "videoId": "v-1"}}},
        }
        assert request.qs == {"part": ["snippet,contentdetails"]}
        assert request.headers["Authorization"] == f"Bearer {KEY}"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "needs a text"),
            ({"text": "{{ x }}", "video_id": "https://video.example/watch?v=v"}, "video_id holds an address"),
            ({"text": "{{ x }}", "video_id": " "}, "video_id is empty"),
            ({"text": "{{ x }}", "video_id": "v", "playlist_id": "p"}, "not both"),
            ({"text": "Hi", "on_uncertain": "guess"}, "on_uncertain is fail or retry"),
            ({"text": "Hi", "post_again_on_clear": "perhaps"}, "post_again_on_clear is True or False"),
        ],
    )
    def test_bulletin_against_the_rules_raises_at_parse_time(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            self.post(**arguments)

    @pytest.mark.parametrize(("name", "text"), [("video_id", None), ("playlist_id", "")])
    def test_template_of_a_video_or_playlist_needs_no_text(self, platform: Mocker, name: str, text: str | None) -> None:
        platform.post(ACTIVITIES, json={"id": "act-1"})
        arguments: dict[str, Any] = {"text": text, name: "{{ x }}"}
        operator = PostBulletinOperator(task_id="post", **arguments)
        render(operator, x="of-today")

        operator.execute({})
        assert platform.last_request is not None
        assert "of-today" in platform.last_request.text

    @pytest.mark.parametrize(
        ("name", "rendered", "message"),
        [
            ("text", "", "needs a text"),
            ("video_id", " ", "video_id is empty"),
            ("on_uncertain", "guess", "on_uncertain is fail or retry"),
            ("post_again_on_clear", "None", "post_again_on_clear is True or False; not 'None'"),
        ],
    )
    def test_templated_bulletin_against_the_rules_raises_before_it_is_sent(
        self, platform: Mocker, name: str, rendered: str, message: str
    ) -> None:
        arguments: dict[str, Any] = {} if name == "text" else {"text": "Hi"}
        operator = PostBulletinOperator(task_id="post", **arguments | {name: "{{ x }}"})
        render(operator, x=rendered)

        with pytest.raises(permanent(ValueError), match=message):
            operator.execute({})

        assert not platform.called

    @pytest.mark.parametrize(
        "loss",
        [
            {"exc": requests.ReadTimeout},
            {"text": "<html>"},
            # What is not an activity proves no post.
            {"json": {}},
            {"json": {"kind": "svc#subscription", "id": "s1"}},
        ],
    )
    def test_bulletin_whose_reply_is_lost_is_sent_once_and_fails_for_good_or_is_left_to_retries(
        self, platform: Mocker, loss: dict[str, Any]
    ) -> None:
        platform.post(ACTIVITIES, **loss)

        with pytest.raises(permanent(UncertainDeliveryError), match="not known whether POST"):
            self.post(text="Hi")
        assert platform.call_count == 1

        with pytest.raises(TemporaryError, match="on_uncertain='retry'"):
            self.post(text="Hi", on_uncertain="retry")
        assert platform.call_count == 2


class TestOneTask:
    """The tries of one task, by its state store and by a journal: the table of the guide."""

    def test_retry_after_success_returns_the_same_activity(
        self, record: Record, posts: Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, VideoPlatformHook)
        first = tried(record)
        lines.clear()

        assert tried(record, 2) == first == {"id": "act-1", "new": None}
        assert posts.call_count == 1
        assert lines == ["INFO: Try 1 has posted bulletin act-1; nothing is posted."]

    @pytest.mark.parametrize("other", [{"text": "Ho"}, {"video_id": "v"}, {"video_conn_id": "another"}])
    def test_retry_with_other_contents_returns_the_same_activity_and_says_so(
        self, record: Record, posts: Mocker, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
    ) -> None:
        lines = log_lines(monkeypatch, VideoPlatformHook)
        first = tried(record)

        assert tried(record, 2, **other) == first
        assert posts.call_count == 1
        assert ", with another text, video, playlist or connection; nothing is posted." in lines[-1]

    def test_cleared_task_posts_again_only_if_asked_for(self, record: Record, posts: Mocker) -> None:
        first, cleared = tried(record, ti={"max_tries": 0}), {"max_tries": 1}

        assert tried(record, 2, ti=cleared) == first
        with pytest.raises(permanent(PermanentError), match="nothing was posted"):
            tried(record, 2, ti=cleared, text="Ho")
        assert posts.call_count == 1
        assert tried(record, 2, ti=cleared, text="Ho", post_again_on_clear="true")["id"] == "act-2"
        # And the retry that follows this clear is a retry.
        assert tried(record, 3, ti=cleared, text="Ho", post_again_on_clear="true")["id"] == "act-2"

    @pytest.mark.airflow(">=3.3")
    @pytest.mark.usefixtures("posts")
    def test_record_in_the_state_store_is_kept_for_as_long_as_the_run(self) -> None:
        state = KeptState()
        tried(Record(state))
        assert set(state.retentions) == {timedelta.max}


@pytest.mark.parametrize("record", ["disk", "store"], indirect=True)
class TestManyTasks:
    @pytest.mark.parametrize("other", [{"once_per": "2026-11-24"}, {"once_per": DAY, "video_conn_id": "another"}])
    def test_another_value_or_connection_is_another_bulletin(
        self, record: Record, posts: Mocker, other: dict[str, Any]
    ) -> None:
        tried(record, once_per=DAY)

        assert tried(record, **other)["id"] == "act-2"
        assert posts.call_count == 2

    def test_bulletin_that_another_task_posts_meanwhile_is_said_to_be_that_ones(
        self, record: Record, posts: Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines, intend = log_lines(monkeypatch, VideoPlatformHook), Delivery.intend

        def intend_too_late(delivery: Delivery) -> None:
            monkeypatch.setattr(Delivery, "intend", intend)
            tried(record, once_per=DAY, ti={"task_id": "another"})
            intend(delivery)

        monkeypatch.setattr(Delivery, "intend", intend_too_late)
        assert tried(record, once_per=DAY)["id"] == "act-1"
        assert posts.call_count == 1
        assert lines[1:] == ["INFO: Try 1 of dag/run/another/-1 has posted bulletin act-1; nothing is posted."]


class TestArguments:
    def test_journal_whose_path_is_of_no_storage_raises(self, posts: Mocker) -> None:
        with pytest.raises(permanent(InvalidArgumentError), match=r"nowhere://.* (is not the path|cannot be opened)"):
            PostBulletinOperator(task_id="post", text="Hi", journal="nowhere://bucket/x").execute(context_of())
        assert not posts.called

    def test_once_per_needs_a_journal(self) -> None:
        with pytest.raises(InvalidArgumentError, match="once_per needs journal"):
            PostBulletinOperator(task_id="post", text="Hi", once_per=DAY)

    @pytest.mark.parametrize("once_per", ["  ", "None", "NaT", 1.5])
    def test_once_per_that_distinguishes_nothing_raises(self, tmp_path: Path, posts: Mocker, once_per: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="once_per"):
            PostBulletinOperator(task_id="post", text="Hi", journal=tmp_path, once_per=once_per)
        operator = PostBulletinOperator(task_id="post", text="Hi", journal=tmp_path, once_per="{{ value }}")
        operator.once_per = once_per
        with pytest.raises(permanent(InvalidArgumentError), match="once_per"):
            operator.execute(context_of())
        assert not posts.called

    @pytest.mark.parametrize(("field", "nothing"), [("journal", None), ("journal", ""), ("once_per", None)])
    def test_journal_whose_template_gives_nothing_is_not_turned_off(
        self, tmp_path: Path, posts: Mocker, field: str, nothing: Any
    ) -> None:
        given: dict[str, Any] = {"journal": tmp_path, "once_per": DAY, field: "{{ value }}"}
        operator = PostBulletinOperator(task_id="post", text="Hi", **given)
        setattr(operator, field, nothing)
        with pytest.raises(permanent(InvalidArgumentError), match=field):
            operator.execute(context_of())
        assert not posts.called

    def test_without_a_task_instance_it_needs_once_per(self, tmp_path: Path, posts: Mocker) -> None:
        with pytest.raises(permanent(InvalidArgumentError), match="journal needs once_per"):
            PostBulletinOperator(task_id="post", text="Hi", journal=tmp_path).execute(cast("Context", {}))
        PostBulletinOperator(task_id="post", text="Hi", journal=tmp_path, once_per=DAY).execute(cast("Context", {}))
        assert posts.call_count == 1

    @pytest.mark.parametrize(
        ("once_per", "shown"),
        [("../../etc/passwd", "etc-passwd-"), ("日本", ""), ("x" * 5000, "x" * 60 + "-"), (5, "5-")],
    )
    def test_any_value_makes_the_name_of_a_folder(
        self, tmp_path: Path, posts: Mocker, once_per: Any, shown: str
    ) -> None:
        PostBulletinOperator(task_id="post", text="Hi", journal=tmp_path / "a", once_per=once_per).execute(context_of())

        [name] = (folder.name for folder in (tmp_path / "a").iterdir())
        assert name.startswith(shown)
        assert len(name) == len(shown) + 16
        assert posts.called
