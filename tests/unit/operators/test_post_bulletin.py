"""The operator that posts a bulletin: what it sends, returns and refuses, and that it posts at most once."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import requests
from airflow.sdk.io import attach
from airflow.sdk.io.store import _STORE_CACHE

from airflow_provider_mediaops.exceptions import (
    BadRequestError,
    InvalidArgumentError,
    PermanentError,
    TemporaryError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.operators.video import PostBulletinOperator
from tests.unit.log_lines import log_lines
from tests.unit.operators.video_platform_tasks import ACTIVITIES, BASE, render
from tests.unit.operators.video_platform_tasks import platform as platform  # noqa: PLC0414 a fixture
from tests.unit.operators.video_platform_tasks import posts as posts  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent
from tests.unit.storage.conftest import Store
from tests.unit.storage.places import Place, local_place, store_place
from tests.unit.task_state import KeptState
from tests.unit.video_platform import KEY, connection, error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TypeAlias

    import requests_mock
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("supervisor")


#: Where the record of a task is: in a journal, or in its state store.
Kept: TypeAlias = "Place | KeptState"


DAY = "2026-11-23"


@pytest.fixture(autouse=True)
def another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a second connection to the platform."""
    monkeypatch.setenv("AIRFLOW_CONN_ANOTHER", connection(BASE))


@pytest.fixture
def shelf() -> Iterator[Store]:
    """Attach a store as `memory://shelf@…`."""
    store = Store()
    attach("memory", "shelf", fs=store)
    yield store
    del _STORE_CACHE["memory-shelf"]


@pytest.fixture(params=["disk", "store"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "disk":
        return local_place(tmp_path)
    return store_place(request.getfixturevalue("shelf"))


def context_of(
    number: int = 1, *, run: str = "run", task: str = "post", dag: str = "dag", max_tries: int = 3, state: Any = None
) -> Context:
    ti = SimpleNamespace(dag_id=dag, run_id=run, task_id=task, map_index=-1, try_number=number, max_tries=max_tries)
    return cast("Context", {"task_state_store": state or KeptState(), "ti": ti})


def attempt(journal: Place, number: int = 1, *, text: str = "Hi", **given: Any) -> dict[str, Any]:
    where = {name: given.pop(name) for name in ("run", "task", "dag", "max_tries", "state") if name in given}
    operator = PostBulletinOperator(task_id="post", text=text, journal=journal.prefix, **given)
    return operator.execute(context_of(number, **where))


@pytest.fixture(params=[pytest.param("task", marks=pytest.mark.airflow(">=3.3")), "disk", "store"])
def record(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    """Have a place for the record of a task: its state store, or a journal."""
    if request.param == "task":
        return KeptState()
    return local_place(tmp_path) if request.param == "disk" else store_place(request.getfixturevalue("shelf"))


def tried(record: Kept, number: int = 1, *, max_tries: int = 3, text: str = "Hi", **given: Any) -> Any:
    """Run a try of one task whose record is there."""
    journal = None if isinstance(record, KeptState) else record.prefix
    state = record if isinstance(record, KeptState) else KeptState(failing=("get", "set", "delete"))
    operator = PostBulletinOperator(task_id="post", text=text, journal=journal, **given)
    return operator.execute(context_of(number, max_tries=max_tries, state=state))


class TestPostBulletin:
    def post(self, **arguments: Any) -> dict[str, Any]:
        return PostBulletinOperator(task_id="post", **arguments).execute({})

    def test_the_activity_is_returned_as_it_came(self, platform: requests_mock.Mocker) -> None:
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

    @pytest.mark.parametrize("name", ["video_id", "playlist_id"])
    @pytest.mark.parametrize("text", [None, ""])
    def test_template_of_a_video_or_playlist_needs_no_text(
        self, platform: requests_mock.Mocker, name: str, text: str | None
    ) -> None:
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
        self, platform: requests_mock.Mocker, name: str, rendered: str, message: str
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
            {"exc": requests.ConnectionError},
            {"exc": requests.ReadTimeout},
            {"text": "<html>"},
            # What is no activity proves no post.
            {"json": {}},
            {"json": {"error": {"code": 500}}},
            {"json": {"kind": "svc#subscription", "id": "s1"}},
        ],
    )
    def test_bulletin_whose_reply_is_lost_is_sent_once_and_fails_for_good_or_is_left_to_retries(
        self, platform: requests_mock.Mocker, loss: dict[str, Any]
    ) -> None:
        platform.post(ACTIVITIES, **loss)

        with pytest.raises(permanent(UncertainDeliveryError), match="not known whether POST"):
            self.post(text="Hi")
        assert platform.call_count == 1

        with pytest.raises(TemporaryError, match="on_uncertain='retry'"):
            self.post(text="Hi", on_uncertain="retry")
        assert platform.call_count == 2

    def test_refused_bulletin_raises_a_typed_error(self, platform: requests_mock.Mocker) -> None:
        platform.post(ACTIVITIES, status_code=400, json=error(400, "bulletinTextRequired"))

        with pytest.raises(permanent(BadRequestError), match="Give the bulletin a text"):
            self.post(video_id="v")

    def test_the_log_names_the_activity_and_no_token(
        self, platform: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, PostBulletinOperator)
        platform.post(ACTIVITIES, json={"id": "act-1"})

        self.post(text="Hi")

        assert "INFO: Posted bulletin act-1." in lines
        assert KEY not in str(lines)


class TestOneTask:
    """The tries of one task, by its state store and by a journal: the table of the guide."""

    def test_retry_after_success_returns_the_same_activity(
        self, record: Kept, posts: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, PostBulletinOperator)
        first = tried(record)
        lines.clear()

        assert tried(record, 2) == first == {"id": "act-1", "new": None}
        assert posts.call_count == 1
        assert lines == ["INFO: Try 1 has posted bulletin act-1; nothing is posted."]

    @pytest.mark.parametrize("other", [{"text": "Ho"}, {"video_id": "v"}, {"video_conn_id": "another"}])
    def test_retry_with_other_contents_returns_the_same_activity_and_warns(
        self,
        record: Kept,
        posts: requests_mock.Mocker,
        monkeypatch: pytest.MonkeyPatch,
        other: dict[str, Any],
    ) -> None:
        lines = log_lines(monkeypatch, PostBulletinOperator)
        first = tried(record)

        assert tried(record, 2, **other) == first
        assert posts.call_count == 1
        assert lines[-1].startswith("WARNING: It was posted with another text, video, playlist or connection")

    def test_cleared_task_posts_again_only_if_asked_for(self, record: Kept, posts: requests_mock.Mocker) -> None:
        first = tried(record, max_tries=0)

        assert tried(record, 2, max_tries=1) == first
        with pytest.raises(permanent(PermanentError), match="nothing was posted"):
            tried(record, 2, max_tries=1, text="Ho")
        assert posts.call_count == 1
        assert tried(record, 2, max_tries=1, text="Ho", post_again_on_clear="true")["id"] == "act-2"
        # And the retry that follows this clear is a retry.
        assert tried(record, 3, max_tries=1, text="Ho", post_again_on_clear="true")["id"] == "act-2"

    @pytest.mark.airflow(">=3.3")
    @pytest.mark.usefixtures("posts")
    def test_record_in_the_state_store_is_kept_for_as_long_as_the_run(self) -> None:
        state = KeptState()
        tried(state)
        assert set(state.retentions) == {timedelta.max}

    @pytest.mark.airflow(">=3.3")
    def test_state_store_that_fails_keeps_the_bulletin_from_being_sent(self, posts: requests_mock.Mocker) -> None:
        with pytest.raises(TemporaryError, match="was not sent"):
            tried(KeptState(failing=("set",)))
        assert not posts.called


class TestManyTasks:
    @pytest.mark.parametrize("other", [{"run": "backfill__1"}, {"task": "another"}, {"dag": "another"}])
    def test_another_task_with_the_same_key_returns_the_same_activity(
        self, journal: Place, posts: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
    ) -> None:
        lines = log_lines(monkeypatch, PostBulletinOperator)
        first = attempt(journal, once_per=DAY)
        lines.clear()

        assert attempt(journal, once_per=DAY, **other) == first
        assert posts.call_count == 1
        assert lines == ["INFO: Try 1 of dag/run/post/-1 has posted bulletin act-1; nothing is posted."]

    @pytest.mark.parametrize("other", [{"once_per": "2026-11-24"}, {"once_per": DAY, "video_conn_id": "another"}])
    def test_another_value_or_connection_is_another_bulletin(
        self, journal: Place, posts: requests_mock.Mocker, other: dict[str, Any]
    ) -> None:
        attempt(journal, once_per=DAY)

        assert attempt(journal, **other)["id"] == "act-2"
        assert posts.call_count == 2


class TestAJournalThatFails:
    def test_journal_that_cannot_be_written_keeps_the_bulletin_from_being_sent(
        self, tmp_path: Path, posts: requests_mock.Mocker
    ) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(TemporaryError, match=r"^The bulletin was not sent: .*/file cannot be written"):
            attempt(local_place(tmp_path / "file"))

        assert not posts.called

    def test_journal_whose_path_is_of_no_storage_raises(self, posts: requests_mock.Mocker) -> None:
        with pytest.raises(permanent(InvalidArgumentError), match=r"nowhere://.* (is no path|cannot be opened)"):
            PostBulletinOperator(task_id="post", text="Hi", journal="nowhere://bucket/x").execute(context_of())
        assert not posts.called


class TestArguments:
    def test_once_per_needs_a_journal(self) -> None:
        with pytest.raises(InvalidArgumentError, match="once_per needs journal"):
            PostBulletinOperator(task_id="post", text="Hi", once_per=DAY)

    @pytest.mark.parametrize("once_per", ["", "  ", "None", "NaT", 1.5, ["a"]])
    def test_once_per_that_distinguishes_nothing_raises(
        self, tmp_path: Path, posts: requests_mock.Mocker, once_per: Any
    ) -> None:
        with pytest.raises(InvalidArgumentError, match="once_per"):
            PostBulletinOperator(task_id="post", text="Hi", journal=tmp_path, once_per=once_per)
        operator = PostBulletinOperator(task_id="post", text="Hi", journal=tmp_path, once_per="{{ value }}")
        operator.once_per = once_per
        with pytest.raises(permanent(InvalidArgumentError), match="once_per"):
            operator.execute(context_of())
        assert not posts.called

    @pytest.mark.parametrize("field", ["journal", "once_per"])
    @pytest.mark.parametrize("nothing", [None, ""])
    def test_journal_whose_template_gives_nothing_is_not_turned_off(
        self, tmp_path: Path, posts: requests_mock.Mocker, field: str, nothing: Any
    ) -> None:
        given: dict[str, Any] = {"journal": tmp_path, "once_per": DAY, field: "{{ value }}"}
        operator = PostBulletinOperator(task_id="post", text="Hi", **given)
        setattr(operator, field, nothing)
        with pytest.raises(permanent(InvalidArgumentError), match=field):
            operator.execute(context_of())
        assert not posts.called

    def test_without_a_task_instance_it_needs_once_per(self, tmp_path: Path, posts: requests_mock.Mocker) -> None:
        with pytest.raises(permanent(InvalidArgumentError), match="journal needs once_per"):
            PostBulletinOperator(task_id="post", text="Hi", journal=tmp_path).execute(cast("Context", {}))
        PostBulletinOperator(task_id="post", text="Hi", journal=tmp_path, once_per=DAY).execute(cast("Context", {}))
        assert posts.call_count == 1

    @pytest.mark.parametrize(
        ("once_per", "shown"),
        [
            ("2026/11/23 ü", "2026-11-23-"),
            ("../../etc/passwd", "etc-passwd-"),
            ("日本", ""),
            ("x" * 5000, "x" * 60 + "-"),
            ("-rf", "rf-"),
            (5, "5-"),
        ],
    )
    def test_any_value_makes_the_name_of_a_folder(
        self, tmp_path: Path, posts: requests_mock.Mocker, once_per: Any, shown: str
    ) -> None:
        PostBulletinOperator(task_id="post", text="Hi", journal=tmp_path / "a", once_per=once_per).execute(context_of())

        [name] = (folder.name for folder in (tmp_path / "a").iterdir())
        assert name.startswith(shown)
        assert len(name) == len(shown) + 16
        assert posts.called
