"""A bulletin posted at most once by a journal: over tries, tasks, runs and DAGs, on every Airflow."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import requests
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from airflow.sdk.io.store import _STORE_CACHE

from airflow_provider_mediaops.exceptions import (
    DestinationInUseError,
    InvalidArgumentError,
    PermanentError,
    QuotaExceededError,
    TemporaryError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.operators.video import PostBulletinOperator
from airflow_provider_mediaops.version_compat import HAS_RETRY_POLICY, AirflowFailException
from tests.unit.log_lines import log_lines
from tests.unit.operators.video_platform_tasks import ACTIVITIES, BASE
from tests.unit.operators.video_platform_tasks import platform as platform  # noqa: PLC0414 a fixture
from tests.unit.operators.video_platform_tasks import posts as posts  # noqa: PLC0414 a fixture
from tests.unit.storage.conftest import Store
from tests.unit.storage.places import Place, local_place, store_place
from tests.unit.task_state import KeptState
from tests.unit.video_platform import connection, error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import requests_mock
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("supervisor")

DAY = "2026-11-23"
#: What ends a task at once: below Airflow 3.3, Airflow's own exception says so.
UNCERTAIN: Any = UncertainDeliveryError if HAS_RETRY_POLICY else AirflowFailException
PERMANENT: Any = PermanentError if HAS_RETRY_POLICY else AirflowFailException
INVALID: Any = InvalidArgumentError if HAS_RETRY_POLICY else AirflowFailException


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


class TestOneTask:
    """What the task's state store does, without it: the table of the guide."""

    def test_retry_after_success_returns_the_same_activity(
        self, journal: Place, posts: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, PostBulletinOperator)
        first = attempt(journal)
        lines.clear()

        assert attempt(journal, 2) == first == {"id": "act-1", "new": None}
        assert posts.call_count == 1
        assert lines == ["INFO: Try 1 has posted bulletin act-1; nothing is posted."]

    @pytest.mark.parametrize("other", [{"text": "Ho"}, {"video_id": "v"}, {"video_conn_id": "another"}])
    def test_retry_with_other_contents_returns_the_same_activity_and_warns(
        self, journal: Place, posts: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
    ) -> None:
        lines = log_lines(monkeypatch, PostBulletinOperator)
        first = attempt(journal)

        assert attempt(journal, 2, **other) == first
        assert posts.call_count == 1
        assert lines[-1].startswith("WARNING: It was posted with another text, video, playlist or connection")

    def test_retry_after_a_lost_reply_is_uncertain(self, journal: Place, platform: requests_mock.Mocker) -> None:
        platform.post(ACTIVITIES, exc=requests.ReadTimeout)
        for number, told in ((1, "not known whether POST"), (2, r"Try 1 of this task .* delete .*, and clear")):
            with pytest.raises(UNCERTAIN, match=told):
                attempt(journal, number)

        assert platform.call_count == 1

    def test_retry_after_a_lost_reply_posts_if_asked_for(self, journal: Place, platform: requests_mock.Mocker) -> None:
        platform.post(ACTIVITIES, [{"exc": requests.ReadTimeout}, {"json": {"id": "act-2"}}])
        with pytest.raises(TemporaryError, match="on_uncertain='retry'"):
            attempt(journal, on_uncertain="retry")

        assert attempt(journal, 2, on_uncertain="retry")["id"] == "act-2"

    def test_retry_after_a_refusal_posts(self, journal: Place, platform: requests_mock.Mocker) -> None:
        refusal = {"status_code": 403, "json": error(403, "quotaExceeded")}
        platform.post(ACTIVITIES, [refusal, {"json": {"id": "act-1"}}])
        with pytest.raises(QuotaExceededError):
            attempt(journal)

        assert attempt(journal, 2)["id"] == "act-1"

    def test_cleared_task_posts_again_only_if_asked_for(self, journal: Place, posts: requests_mock.Mocker) -> None:
        first = attempt(journal, max_tries=0)

        assert attempt(journal, 2, max_tries=1) == first
        with pytest.raises(PERMANENT, match="nothing was posted"):
            attempt(journal, 2, max_tries=1, text="Ho")
        assert posts.call_count == 1
        assert attempt(journal, 2, max_tries=1, text="Ho", post_again_on_clear="true")["id"] == "act-2"
        # And the retry that follows this clear is a retry.
        assert attempt(journal, 3, max_tries=1, text="Ho", post_again_on_clear="true")["id"] == "act-2"

    def test_each_task_instance_has_a_bulletin_of_its_own(self, journal: Place, posts: requests_mock.Mocker) -> None:
        others: list[dict[str, Any]] = [{}, {"run": "another"}, {"task": "another"}]
        ids = [attempt(journal, **where)["id"] for where in others]

        assert ids == ["act-1", "act-2", "act-3"]
        assert posts.call_count == 3
        folders = sorted({name.partition("/")[0] for name in journal.names()})
        assert [name.rpartition("-")[0] for name in folders] == [
            "dag-another-post--1",
            "dag-run-another--1",
            "dag-run-post--1",
        ]

    def test_the_state_store_is_not_used(self, journal: Place, posts: requests_mock.Mocker) -> None:
        state = KeptState(failing=("get", "set", "delete"))
        attempt(journal, state=state)

        assert (attempt(journal, 2, state=state)["id"], posts.call_count, state.values) == ("act-1", 1, {})


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

    def test_one_with_another_text_does_the_same_and_says_so(
        self, journal: Place, posts: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, PostBulletinOperator)
        attempt(journal, once_per=DAY)

        assert attempt(journal, once_per=DAY, run="another", text="Ho")["id"] == "act-1"
        assert posts.call_count == 1
        assert lines[-1].startswith("WARNING: It was posted with another text")

    @pytest.mark.parametrize("other", [{"once_per": "2026-11-24"}, {"once_per": DAY, "video_conn_id": "another"}])
    def test_another_value_or_connection_is_another_bulletin(
        self, journal: Place, posts: requests_mock.Mocker, other: dict[str, Any]
    ) -> None:
        attempt(journal, once_per=DAY)

        assert attempt(journal, **other)["id"] == "act-2"
        assert posts.call_count == 2

    def test_one_that_was_cleared_posts_again_only_what_it_has_posted_itself(
        self, journal: Place, posts: requests_mock.Mocker
    ) -> None:
        rules: dict[str, Any] = {"once_per": DAY, "post_again_on_clear": True}
        attempt(journal, max_tries=0, **rules)

        assert attempt(journal, 9, run="another", max_tries=9, **rules)["id"] == "act-1"
        assert attempt(journal, 2, max_tries=1, **rules)["id"] == "act-2"
        assert posts.call_count == 2

    def test_while_another_is_posting_a_task_can_be_retried(
        self, tmp_path: Path, platform: requests_mock.Mocker
    ) -> None:
        journal = local_place(tmp_path)
        platform.post(ACTIVITIES, [{"exc": requests.ReadTimeout}, {"json": {"id": "act-2"}}])
        with pytest.raises(UNCERTAIN):
            attempt(journal, once_per=DAY)

        with pytest.raises(
            DestinationInUseError, match=r"^Nothing was sent: dag/run/post/-1, try 1, has been posting"
        ) as young:
            attempt(journal, once_per=DAY, run="another")
        assert 0 < (young.value.retry_after or 0) <= 900
        [intent] = tmp_path.rglob("0001.json")
        intent.write_text(re.sub(r'"at":"....', '"at":"2025', intent.read_text()))
        with pytest.raises(UNCERTAIN, match=r"Try 1 of dag/run/post/-1 was about to post"):
            attempt(journal, once_per=DAY, run="another")
        assert platform.call_count == 1
        assert attempt(journal, once_per=DAY, run="another", on_uncertain="retry")["id"] == "act-2"


class TestAJournalThatFails:
    def test_journal_that_cannot_be_written_keeps_the_bulletin_from_being_sent(
        self, tmp_path: Path, posts: requests_mock.Mocker
    ) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(TemporaryError, match=r"^The bulletin was not sent: .*/file cannot be written"):
            attempt(local_place(tmp_path / "file"))

        assert not posts.called

    def test_journal_whose_store_refuses_keeps_the_bulletin_from_being_sent(
        self, shelf: Store, posts: requests_mock.Mocker
    ) -> None:
        shelf.refusal = PermissionError("no")
        with pytest.raises(TemporaryError, match=r"was not sent: .* cannot be written"):
            attempt(store_place(shelf))

        assert not posts.called

    def test_journal_on_a_store_without_conditions_raises(self, shelf: Store, posts: requests_mock.Mocker) -> None:
        shelf.check_conditions(conditional=False)
        with pytest.raises(PERMANENT, match=r"does not refuse to create a file that is there"):
            attempt(store_place(shelf))
        assert not posts.called

    def test_journal_on_a_store_that_ignores_conditions_raises_and_keeps_no_intent(
        self, shelf: Store, posts: requests_mock.Mocker
    ) -> None:
        shelf.conditional = False
        with pytest.raises(PERMANENT, match=r"does not refuse to create a file that is there"):
            attempt(store_place(shelf))
        newest = max(shelf.names)
        assert (posts.called, shelf.cat_file(newest)) == (False, b"null\n")

    def test_journal_whose_path_is_of_no_storage_raises(self, posts: requests_mock.Mocker) -> None:
        with pytest.raises(INVALID, match=r"nowhere://.* (is no path|cannot be opened)"):
            PostBulletinOperator(task_id="post", text="Hi", journal="nowhere://bucket/x").execute(context_of())
        assert not posts.called

    def test_link_in_the_place_of_a_record_is_not_followed(self, tmp_path: Path, posts: requests_mock.Mocker) -> None:
        journal = local_place(tmp_path / "journal")
        attempt(journal)
        [version] = tmp_path.rglob("0002.json")
        version.symlink_to(version.rename(tmp_path / "elsewhere"))

        with pytest.raises(TemporaryError, match=r"is a symbolic link. All tasks that use a journal"):
            attempt(journal, 2)
        assert posts.call_count == 1

    @pytest.mark.parametrize("activity", ['{"snippet": 5}', '["act"]', "null"])
    def test_record_whose_activity_is_none_is_unreadable(
        self, tmp_path: Path, posts: requests_mock.Mocker, activity: str
    ) -> None:
        journal = local_place(tmp_path)
        attempt(journal)
        [version] = tmp_path.rglob("0002.json")
        version.write_text(version.read_text().replace('{"id":"act-1","new":null}', activity))

        with pytest.raises(UNCERTAIN, match=rf"The record {version.parent} cannot be read"):
            attempt(journal, 2)
        assert posts.call_count == 1

    def test_the_record_of_another_key_is_not_taken_for_ones_own(
        self, tmp_path: Path, posts: requests_mock.Mocker
    ) -> None:
        journal = local_place(tmp_path)
        attempt(journal, once_per=DAY)
        [first] = tmp_path.rglob("0002.json")
        attempt(journal, once_per="2026-11-24")
        [second] = {*tmp_path.rglob("0002.json")} - {first}
        second.write_bytes(first.read_bytes())

        with pytest.raises(UNCERTAIN, match="cannot be read"):
            attempt(journal, once_per="2026-11-24", run="another")
        assert posts.call_count == 2


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
        with pytest.raises(INVALID, match="once_per"):
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
        with pytest.raises(INVALID, match=field):
            operator.execute(context_of())
        assert not posts.called

    def test_without_a_task_instance_it_needs_once_per(self, tmp_path: Path, posts: requests_mock.Mocker) -> None:
        with pytest.raises(INVALID, match="journal needs once_per"):
            PostBulletinOperator(task_id="post", text="Hi", journal=tmp_path).execute(cast("Context", {}))
        PostBulletinOperator(task_id="post", text="Hi", journal=tmp_path, once_per=DAY).execute(cast("Context", {}))
        assert posts.call_count == 1

    @pytest.mark.parametrize("form", ["text", "text with a slash", "uri", "path", "object storage path"])
    def test_the_folder_can_be_any_path(self, tmp_path: Path, posts: requests_mock.Mocker, form: str) -> None:
        forms: dict[str, Any] = {
            "text": str(tmp_path / "a" / "b"),
            "text with a slash": f"{tmp_path}/a/b/",
            "uri": (tmp_path / "a" / "b").as_uri(),
            "path": tmp_path / "a" / "b",
            "object storage path": ObjectStoragePath(f"file://{tmp_path}/a/b"),
        }
        PostBulletinOperator(task_id="post", text="Hi", journal=forms[form], once_per=DAY).execute(context_of())

        [name] = (folder.name for folder in (tmp_path / "a" / "b").iterdir())
        assert name.startswith(f"{DAY}-")
        assert posts.called

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
