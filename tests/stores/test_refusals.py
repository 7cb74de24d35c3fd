"""A store that refuses says why, for which file, and what to do, and no text has a key."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import InvalidConnectionError, PermanentError
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.sandbox.books import sample_isbns
from tests.stores.emulators import ACCOUNT, ACCOUNT_KEY, BUCKET, CLIENTS, WRONG_KEY, is_write, on_page
from tests.stores.one_task import context_of
from tests.stores.test_jobs import export
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    from tests.stores.conftest import Place
    from tests.stores.emulators import Cloud
    from tests.stores.guard import Answer

KEYS = ("the-secret-key", "AKIA-", ACCOUNT_KEY, WRONG_KEY, "PRIVATE KEY", "a-token", "sig=")


def enrich(folder: str) -> dict[str, Any]:
    task = EnrichIsbnsOperator(task_id="task", isbns=sample_isbns(5), destination=f"{folder}/d.jsonl")
    return task.execute(context_of(1))


def read_list(folder: str) -> dict[str, Any]:
    task = EnrichIsbnsOperator(
        task_id="task", source=f"{folder}/list.csv", isbn_column="isbn", destination=f"{folder}/d.jsonl"
    )
    return task.execute(context_of(1))


def capture(folder: str) -> dict[str, Any]:
    task = CaptureHotThreadsOperator(task_id="task", destination=f"{folder}/d.txt", interval="10ms")
    return task.execute(context_of(1))


TASKS = {"enrichment": enrich, "capture": capture}


def only(*schemes: str) -> pytest.MarkDecorator:
    """Run a test on these stores alone."""
    return pytest.mark.parametrize("cloud", schemes, indirect=True)


every_task = pytest.mark.parametrize("run", TASKS.values(), ids=TASKS)


def refusal_of(place: Place, run: Callable[[str], object], error: type[Exception] = PermissionError) -> str:
    """Return the words of a refused task."""
    with pytest.raises(error) as raised:
        run(place.folder)
    assert type(raised.value) is error
    return said_by(raised.value, place.folder)


def said_by(error: BaseException, folder: str) -> str:
    """Return the words of an error, which names the folder, and no key."""
    text = str(error)
    assert folder in text
    assert not any(key in text for key in KEYS)
    assert "<?xml" not in text
    return text


def export_of(place: Place, number: int = 1) -> Callable[[str], dict[str, Any]]:
    return lambda _: export(place, "d.jsonl", number=number)


def is_deletion(method: str, path: str, _: bytes = b"") -> bool:
    return method == "DELETE" or (method == "POST" and path.endswith("?delete"))


@every_task
def test_a_missing_container_is_named_and_not_created(new_place: Callable[..., Place], run: Any) -> None:
    place = new_place(bucket="nowhere")
    assert "there is no such" in refusal_of(place, run, FileNotFoundError)
    assert "create it, or correct its name" in refusal_of(place, run, FileNotFoundError)


@only("gs", "abfs")
@every_task
def test_a_wrong_key_is_to_be_corrected(new_place: Callable[..., Place], run: Any) -> None:
    assert "refuses the key of the connection" in refusal_of(new_place(right=False), run)


@only("s3")
@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_a_wrong_key_of_s3_is_to_be_corrected(new_place: Callable[..., Place], cloud: Cloud, code: str) -> None:
    answer = cloud.no_right._replace(content=cloud.no_right.content.replace(b"AccessDenied", code.encode()))
    text = refusal_of(new_place(lambda method, path, _: answer if is_write(method, path) else None), capture)
    assert f"refuses the key of the connection, or the network of this machine ({code})" in text


@every_task
def test_a_key_that_may_only_read_has_no_right(new_place: Callable[..., Place], cloud: Cloud, run: Any) -> None:
    text = refusal_of(new_place(lambda method, path, _: cloud.no_right if is_write(method, path) else None), run)
    assert "cannot be written: the store refuses the key of the connection" in text
    assert "“Object stores”" in text


def test_a_key_that_may_not_even_read_has_no_right(new_place: Callable[..., Place], cloud: Cloud) -> None:
    place = new_place(lambda *_: cloud.no_right)
    for run in (export_of(place), read_list):
        assert "cannot be read: the store refuses the key of the connection" in refusal_of(place, run)


def test_a_key_that_may_not_delete_is_told_once_how_many_objects_it_leaves(
    new_place: Callable[..., Place], cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    place = new_place(lambda *request: cloud.no_right if is_deletion(*request) else None)
    assert export(place, "d.jsonl")["rows"]

    # Its last frame and the manifest are to stay.
    left = [name for name in place.names() if "/" in name and not name.endswith(("last", "manifest.json"))]
    [text] = [record.getMessage() for record in caplog.records if "right to delete" in record.getMessage()]
    assert left
    assert f"d.jsonl is written, but {len(left)} staged object" in text
    assert place.read("d.jsonl")


def test_captures_with_a_key_that_may_not_delete_are_written_and_leave_one_object(
    new_place: Callable[..., Place], cloud: Cloud
) -> None:
    place = new_place(lambda *request: cloud.no_right if is_deletion(*request) else None)
    for _ in range(2):
        capture(place.folder)

    assert [name for name in place.names() if name.startswith(".")] == [".d.txt.probe"]
    assert place.read("d.txt")


def test_export_whose_key_expires_resumes_with_a_new_one(new_place: Callable[..., Place], cloud: Cloud) -> None:
    writes = iter(range(1_000_000))
    has_expired = [True]

    def expire(method: str, path: str, _: bytes) -> Answer | None:
        late = is_write(method, path) and next(writes) >= 3
        return cloud.expired if late and has_expired[0] else None

    place = new_place(expire)
    text = refusal_of(place, export_of(place))
    assert "the key of the connection has expired" in text
    assert re.search(r"next attempt goes on after [1-9]\d* rows", text)

    has_expired[0] = False
    summary = export(place, "d.jsonl", number=2)
    assert (summary["rows"], summary["pages"]) == (120, 3)
    assert len({json.loads(line)["id"] for line in place.read("d.jsonl").splitlines()}) == 120


@pytest.mark.parametrize("run", [*TASKS.values(), read_list], ids=[*TASKS, "source"])
def test_a_missing_package_is_named(place: Place, cloud: Cloud, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if it were not installed; nothing has opened this place's store yet.
    monkeypatch.setitem(sys.modules, CLIENTS[cloud.scheme], None)
    with pytest.raises(permanent(PermanentError)) as raised:
        run(place.folder)
    assert f"Install {cloud.package} on all that open it: workers, triggerers" in said_by(raised.value, place.folder)


@only("gs", "abfs")
@every_task
def test_a_connection_that_does_not_exist_is_named(cloud: Cloud, run: Any) -> None:
    folder = f"{cloud.scheme}://nobody@{BUCKET}/folder"
    with pytest.raises(permanent(InvalidConnectionError)) as raised:
        run(folder)
    assert "there is no connection 'nobody'. Create it" in said_by(raised.value, folder)


def use_signature(place: Place, monkeypatch: pytest.MonkeyPatch, rights: str) -> None:
    """Give a place the connection of docs/object_stores.md with a shared access signature."""
    from azure.storage.blob import generate_container_sas

    ends = datetime.now(timezone.utc) + timedelta(hours=1)
    signature = generate_container_sas(ACCOUNT, BUCKET, account_key=ACCOUNT_KEY, permission=rights, expiry=ends)
    connection = on_page("wasb")[1]
    text = connection["extra"]["connection_string"].replace("SIGNATURE", signature)
    address = f"http://127.0.0.1:{place.guard.server_port}/{ACCOUNT}"
    connection["extra"]["connection_string"] = text.replace("https://ACCOUNT.blob.core.windows.net", address)
    monkeypatch.setenv(place.variable, json.dumps(connection))


@only("abfs")
@pytest.mark.parametrize("missing", ["", "r", "w", "d", "l"])
def test_a_signature_of_azure_needs_the_four_rights_of_the_page(
    place: Place, missing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use_signature(place, monkeypatch, "rwdl".replace(missing, ""))
    if missing in ("", "d"):
        assert export(place, "d.jsonl")["rows"] == 120
        assert ("right to delete" in caplog.text) is bool(missing)
    else:
        assert "refuses the key" in refusal_of(place, export_of(place))


def test_the_connection_of_the_page_reaches_an_emulator(
    place: Place, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn_type, port = {"s3": ("aws", 9000), "gs": ("google_cloud_platform", 4443), "abfs": ("wasb", 10000)}[
        cloud.scheme
    ]
    text = json.dumps(on_page(conn_type)[-1])
    assert f"127.0.0.1:{port}" in text
    text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{place.guard.server_port}").replace("=KEY", f"={ACCOUNT_KEY}")
    monkeypatch.setenv(place.variable, text)

    assert export(place, "d.jsonl")["rows"] == 120
