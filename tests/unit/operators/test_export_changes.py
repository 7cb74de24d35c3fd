"""The operator that exports subscriptions says what has changed: what it writes, asks again, keeps and refuses."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import (
    InvalidArgumentError,
    InvalidReplyError,
    PermanentError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.version_compat import AirflowSkipException
from airflow_provider_mediaops.video.changes import ExportChanges
from tests.unit.log_lines import log_lines
from tests.unit.operators.forms import in_triggerer
from tests.unit.operators.listings import Listings, replayed
from tests.unit.operators.video_platform_tasks import BASE
from tests.unit.permanent import permanent
from tests.unit.storage.conftest import store  # noqa: F401  a fixture
from tests.unit.video_platform import connection, error, subscription

if TYPE_CHECKING:
    from requests_mock import Mocker

pytestmark = pytest.mark.usefixtures("supervisor")

NOTHING = {"added": 0, "removed": 0, "changed_records": 0, "recovered": 0, "kept": 0}


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch, requests_mock: Mocker) -> Listings:
    monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT", connection(BASE))
    listings = Listings()
    requests_mock.get(f"{BASE}/v3/subscriptions", json=listings.answer)
    return listings


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return log_lines(monkeypatch, ExportSubscriptionsOperator)


def task(folder: object, name: str = "subs.jsonl", **arguments: Any) -> ExportSubscriptionsOperator:
    usual: dict[str, Any] = {"mine": True, "changes": f"{folder}/subs.changes.jsonl"}
    return ExportSubscriptionsOperator(task_id="export", destination=f"{folder}/{name}", **(usual | arguments))


_runs = itertools.count()


def context_of(run: str) -> Any:
    return {"ti": SimpleNamespace(dag_id="dag", run_id=run, task_id="export", map_index=-1, max_tries=0)}


def export(folder: object, name: str = "subs.jsonl", run: str = "", **arguments: Any) -> dict[str, Any]:
    """Export as a run of its own, unless it has a name."""
    return task(folder, name, **arguments).execute(context_of(run or f"run-{next(_runs)}"))


def changes(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "subs.changes.jsonl").read_bytes().split(b"\n")[:-1]]


def said(folder: Path) -> list[tuple[str, str]]:
    return [(row["change"], row["id"]) for row in changes(folder)]


def counted(summary: dict[str, Any]) -> dict[str, int]:
    return {name: summary[name] for name in NOTHING}


@pytest.mark.parametrize("name", ["subs.jsonl", "subs.csv", "subs.parquet", "subs.csv.gz"])
@pytest.mark.parametrize("csv_formulas", ["keep", "escape"])
def test_the_changes_lead_from_each_version_to_the_next(
    tmp_path: Path, listings: Listings, name: str, csv_formulas: str
) -> None:
    options = {"format": "csv"} if name.endswith("gz") else {}
    records: dict[str, Any] = {}
    versions: list[dict[int, dict[str, Any]]] = [
        {1: {}, 2: {}, 3: {"title": "=1+1"}},
        {1: {}, 2: {"title": "é\u2028\U0001f600"}, 3: {"title": "=1+1"}, 4: {}},
        {4: {}, 2: {}},
        {},
    ]
    for number, version in enumerate(versions):
        listings.have({number: subscription(number, **more) for number, more in version.items()})
        summary = export(tmp_path, name, csv_formulas=csv_formulas, **options)
        records = replayed(records, changes(tmp_path))
        assert records == {f"sub-{one}": subscription(one, **more) for one, more in version.items()}
        assert summary["compared"] is (number > 0)
        assert summary["changes"] == str(tmp_path / "subs.changes.jsonl")
        words = [row["change"] for row in changes(tmp_path)]
        numbers = [summary[key] for key in ("added", "removed", "changed_records")]
        assert numbers == [words.count(word) for word in ("added", "removed", "changed")]


def test_changes_are_those_of_the_content_by_the_order_of_ids_and_records_without_one_are_counted(
    tmp_path: Path, listings: Listings, lines: list[str]
) -> None:
    odd_ids: list[Any] = [None, "", 5]
    old = {"b": {"p": 1, "q": 2}, "e": 1, "d": 1, "c": 1}
    # Another order of keys is no change, and an etag that stays hides none.
    new = {"é": 0, "z": 0, "ab": 0, "a": 0, "\U0001f600": 0, "b": {"q": 2, "p": 1}, "e": 2, "d": True, "c": 1.0}
    for version in (old, new):
        listings.listed = {name: {"value": value, "etag": "e", "id": name} for name, value in version.items()}
        listings.listed |= {str(name): {"id": name, "n": len(version)} for name in odd_ids}
        summary = export(tmp_path)

    added = [("added", name) for name in ("a", "ab", "z", "é", "\U0001f600")]
    assert said(tmp_path) == [*added[:2], ("changed", "c"), ("changed", "d"), ("changed", "e"), *added[2:]]
    assert counted(summary) == NOTHING | {"added": 5, "changed_records": 3}
    assert sum("3 records have no id, so the changes do not name them." in line for line in lines) == 2


@pytest.mark.parametrize("sent", [subscription(1), {"id": {"a": 1}}, {"id": ["sub-2"]}, {"etag": "x"}])
def test_nothing_is_removed_by_an_answer_about_other_records(
    tmp_path: Path, listings: Listings, lines: list[str], sent: dict[str, Any], requests_mock: Mocker
) -> None:
    listings.have({number: subscription(number) for number in (1, 2, 3)})
    export(tmp_path)
    listings.have({1: subscription(1)})
    requests_mock.get(f"{BASE}/v3/subscriptions?id=sub-2,sub-3", json={"items": [sent, subscription(3)]})

    summary = export(tmp_path)

    assert counted(summary) == NOTHING | {"recovered": 1, "kept": 1}
    assert changes(tmp_path) == []
    assert sum("sent other subscriptions" in line for line in lines) == 1


@pytest.mark.parametrize("name", ["x,y", " x", "half of a character \ud800", "x\n"])
def test_missing_id_that_no_request_can_carry_is_kept(tmp_path: Path, listings: Listings, name: str) -> None:
    listings.have({1: subscription(1), 2: {"id": name}})
    export(tmp_path)
    listings.have({1: subscription(1)})

    assert counted(export(tmp_path)) == NOTHING | {"kept": 1}
    assert [query for query in listings.asked if "id" in query] == []


@pytest.mark.parametrize("run", ["one", "two"], ids=["retry", "next run"])
def test_after_changes_that_could_not_be_written_a_retry_writes_them_and_the_next_run_compares_with_nothing(
    store: Any,  # noqa: F811
    listings: Listings,
    run: str,
) -> None:
    listings.have({1: subscription(1)})
    store.refusal, store.refuses = OSError("gone"), lambda path: path.endswith("changes.jsonl")
    with pytest.raises(OSError, match="gone"):
        export("memory://shelf@bucket/out", run="one")
    store.refusal = None
    listings.have({2: subscription(2)})

    # Nothing says whose the file is.
    assert export("memory://shelf@bucket/out", run=run)["compared"] is False

    rows = [json.loads(line) for line in store.cat_file("/bucket/out/subs.changes.jsonl").splitlines()]
    listed = "sub-1" if run == "one" else "sub-2"
    assert [(row["change"], row["id"]) for row in rows] == [("added", listed)]


def test_subscription_that_the_pages_left_out_is_recovered_and_not_removed(
    tmp_path: Path, listings: Listings, lines: list[str]
) -> None:
    listings.have({number: subscription(number) for number in range(1, 121)})
    export(tmp_path, page_size=20)
    listings.have({number: subscription(number) for number in range(1, 61)})
    # The pages leave out one that is as it was, and one that is another by now.
    listings.unlisted = {100: subscription(100), 101: subscription(101, etag="new")}
    listings.asked.clear()

    summary = export(tmp_path, page_size=20)

    assert counted(summary) == {**NOTHING, "removed": 58, "changed_records": 1, "recovered": 2}
    assert summary["rows"] == 62
    assert ("changed", "sub-101") in said(tmp_path)
    assert "sub-100" not in {row["id"] for row in changes(tmp_path)}
    rows = [json.loads(line) for line in (tmp_path / "subs.jsonl").read_text().splitlines()]
    assert {row["id"] for row in rows} == {f"sub-{number}" for number in [*range(1, 61), 100, 101]}
    looked = [query for query in listings.asked if "id" in query]
    assert [len(query["id"].split(",")) for query in looked] == [50, 10]
    assert all("mine" not in query and query["part"] == looked[0]["part"] for query in looked)
    assert {query["maxResults"] for query in looked} == {"50"}
    assert any("pages left out 2 subscriptions" in line for line in lines)
    # The next export agrees.
    listings.have({number: subscription(number) for number in [*range(1, 61), 100]})
    listings.unlisted = {}
    assert counted(export(tmp_path, page_size=20)) == {**NOTHING, "removed": 1}


def test_nothing_is_removed_if_the_listing_was_cut_short(tmp_path: Path, listings: Listings, lines: list[str]) -> None:
    listings.have({number: subscription(number) for number in (1, 2, 3)})
    export(tmp_path)
    listings.have({2: subscription(2, etag="new")})
    listings.circles = True
    listings.asked.clear()

    summary = export(tmp_path)

    assert (summary["complete"], summary["rows"]) == (False, 3)
    assert counted(summary) == {**NOTHING, "changed_records": 1, "kept": 2}
    assert said(tmp_path) == [("changed", "sub-2")]
    assert not [query for query in listings.asked if "id" in query]
    assert any("2 subscriptions of the older version were not listed" in line for line in lines)
    # Once it is complete again, the rest is looked at.
    listings.circles = False
    assert counted(export(tmp_path)) == {**NOTHING, "removed": 2}


def test_subscription_of_which_the_service_refuses_to_say_is_not_removed(
    tmp_path: Path, listings: Listings, lines: list[str]
) -> None:
    listings.have({number: subscription(number) for number in (1, 2, 3)})
    export(tmp_path)
    listings.have({1: subscription(1)})
    listings.refuse_ids = (403, error(403, "subscriptionForbidden"))

    summary = export(tmp_path)

    assert counted(summary) == {**NOTHING, "kept": 2}
    assert summary["complete"] is True
    assert any("does not say whether 2 subscriptions are gone" in line for line in lines)


def test_second_look_that_fails_is_resumed(tmp_path: Path, listings: Listings) -> None:
    listings.have({number: subscription(number) for number in range(1, 202)})
    export(tmp_path)
    older = (tmp_path / "subs.jsonl").read_bytes(), (tmp_path / "subs.changes.jsonl").read_bytes()
    listings.have({1: subscription(1)})
    listings.unlisted = {100: subscription(100), 180: subscription(180)}
    listings.asked.clear()
    for answers in (2, 1):
        listings.ids_answered = answers
        with pytest.raises(ServiceUnavailableError):
            export(tmp_path, run="resumed")
        assert ((tmp_path / "subs.jsonl").read_bytes(), (tmp_path / "subs.changes.jsonl").read_bytes()) == older
    listings.ids_answered = None

    summary = export(tmp_path, run="resumed")

    assert counted(summary) == {**NOTHING, "removed": 198, "recovered": 2}
    assert (summary["rows"], summary["resumed"]) == (3, True)
    batches = [query["id"] for query in listings.asked if "id" in query]
    # Each of four batches was answered once, and two were asked for twice.
    assert len(set(batches)) == 4
    assert len(batches) == 6
    assert len(listings.asked) == 6 + 1


def test_other_arguments_are_another_list_of_which_all_is_added(
    tmp_path: Path, listings: Listings, lines: list[str]
) -> None:
    listings.have({1: subscription(1), 2: subscription(2)})
    export(tmp_path)
    listings.have({2: subscription(2)})

    summary = export(tmp_path, mine=False, channel_id="UC-other")

    assert (summary["compared"], counted(summary)) == (False, {**NOTHING, "added": 1})
    assert any("exported with other arguments" in line for line in lines)
    assert export(tmp_path, mine=False, channel_id="UC-other")["compared"] is True


class TestUnchanged:
    def test_task_that_finds_no_change_is_skipped_once_both_files_are_written(
        self, tmp_path: Path, listings: Listings
    ) -> None:
        listings.have({1: subscription(1)})
        assert export(tmp_path, on_unchanged="skip")["added"] == 1
        with pytest.raises(AirflowSkipException, match="Nothing has changed in the 1 subscriptions"):
            export(tmp_path, on_unchanged="skip", run="same")
        assert changes(tmp_path) == []
        # So is a retry, and one that is told by Airflow to return what was published.
        with pytest.raises(AirflowSkipException):
            export(tmp_path, on_unchanged="skip", run="same")
        listings.have({1: subscription(1, etag="new")})
        assert export(tmp_path, on_unchanged="skip")["changed_records"] == 1

    @pytest.mark.parametrize("how", [{}, {"changes": None, "if_changed": True}], ids=["changes", "if_changed alone"])
    def test_the_first_export_is_no_skip_even_if_it_is_empty(
        self, tmp_path: Path, listings: Listings, how: dict[str, Any]
    ) -> None:
        listings.have({})
        assert export(tmp_path, on_unchanged="skip", **how)["rows"] == 0
        with pytest.raises(AirflowSkipException):
            export(tmp_path, on_unchanged="skip", **how)

    def test_with_if_changed_both_files_stay(self, tmp_path: Path, listings: Listings) -> None:
        listings.have({1: subscription(1, etag="e")})
        assert export(tmp_path, if_changed=True)["changed"] is True
        before = (tmp_path / "subs.changes.jsonl").stat()
        summary = export(tmp_path, if_changed=True)
        assert (summary["changed"], summary["changes"], counted(summary)) == (False, None, NOTHING)
        assert (tmp_path / "subs.changes.jsonl").stat() == before
        # The etag is the same, the content is not.
        listings.have({1: subscription(1, etag="e", title="new")})
        summary = export(tmp_path, if_changed=True)
        assert (summary["changed"], summary["changed_records"]) == (True, 1)


def test_require_complete_starts_anew_after_older_records_were_kept(tmp_path: Path, listings: Listings) -> None:
    listings.have({number: subscription(number) for number in range(1, 1202)})
    export(tmp_path)
    listings.have({1: subscription(1)})
    listings.circles = True

    def die(*_: object) -> None:
        raise OSError("dies here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExportChanges, "finish", die)
        with pytest.raises(OSError, match="dies here"):
            export(tmp_path, run="again")
    with pytest.raises(permanent(InvalidReplyError), match="cut the listing short"):
        export(tmp_path, run="again", require_complete=True)
    listings.circles = False
    listings.have({1: subscription(1), 5: subscription(5, etag="new")})

    summary = export(tmp_path, run="again", require_complete=True)

    assert counted(summary) == {**NOTHING, "removed": 1199, "changed_records": 1}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("subs.jsonl", b'{"kind": "svc#playlist", "id": "1"}\n', "its records are others"),
        ("subs.jsonl", b"a list\n", "expected value|Expecting value"),
        ("subs.csv", b"id,title\n1,a\n", "there is no column 'record'"),
        ("subs.parquet", b"PAR1", "not a whole Parquet file"),
    ],
)
@pytest.mark.parametrize("deferrable", [False, True])
def test_destination_that_holds_no_export_raises_before_the_first_request(
    tmp_path: Path, listings: Listings, name: str, content: bytes, reason: str, *, deferrable: bool
) -> None:
    (tmp_path / name).write_bytes(content)
    operator = task(tmp_path, name, deferrable=deferrable)

    raised = permanent(InvalidArgumentError), permanent(PermanentError)
    with pytest.raises(raised, match=f"holds a file that is not an export .*({reason})"):
        in_triggerer(operator, context_of("today")) if deferrable else operator.execute(context_of("today"))

    assert listings.asked == []
    assert (tmp_path / name).read_bytes() == content


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"changes": "/out/subs.jsonl"}, "changes and destination are one file"),
        ({"changes": "/out/subs.csv"}, "changes ends in .jsonl"),
        ({"changes": "/out/subs.jsonl.gz"}, "changes ends in .jsonl"),
        ({"changes": " "}, "changes is"),
        ({"changes": None, "on_unchanged": "skip"}, "on_unchanged='skip' needs changes or if_changed=True"),
        ({"on_unchanged": "fail"}, "on_unchanged is success or skip; not 'fail'"),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    tmp_path: Path, listings: Listings, arguments: dict[str, Any], message: str
) -> None:
    usual: dict[str, Any] = {"changes": f"{tmp_path}/c.jsonl"}
    rendered = {name: str(value).replace("/out", str(tmp_path)) for name, value in arguments.items() if value}
    with pytest.raises(ValueError, match=message):
        task("/out", **(usual | {"changes": "/out/c.jsonl"} | arguments))

    if arguments.get("changes", "") is None:
        usual = {"changes": None, "if_changed": "{{ 'no' }}"}
    made = task(tmp_path, **usual, **{name: f"{{{{ {name} }}}}" for name in rendered if name not in usual})
    for name, value in rendered.items():
        setattr(made, name, value)
    made.if_changed = "no"
    with pytest.raises(permanent(InvalidArgumentError), match=message):
        made.execute({})
    assert listings.asked == []
    assert list(tmp_path.iterdir()) == []


def test_path_of_changes_that_cannot_be_written_raises_before_the_first_request(
    tmp_path: Path, listings: Listings
) -> None:
    (tmp_path / "subs.changes.jsonl").mkdir()
    with pytest.raises(IsADirectoryError, match=r"subs\.changes\.jsonl cannot be written: it is a folder"):
        export(tmp_path)

    assert listings.asked == []
