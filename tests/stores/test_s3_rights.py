"""docs/security.md lists the rights on S3 that each task uses, and no others."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import NotFoundError
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.plugin.reading import read_text
from airflow_provider_mediaops.sandbox.books.isbn import sample_isbns
from airflow_provider_mediaops.sandbox.server import SandboxServer
from airflow_provider_mediaops.storage.leftovers.search import delete_leftover, find_leftovers
from airflow_provider_mediaops.storage.sources import read_rows, version_of
from tests.contract.page_tables import sections, table
from tests.unit.permanent import permanent
from tests.unit.storage.places import Place, StoppedError, owner, rows, stopped

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
#: The rights on S3, by the requests that they allow.
RIGHTS = {
    "ListObjectsV2": "s3:ListBucket",
    "HeadObject": "s3:GetObject",
    "GetObject": "s3:GetObject",
    "PutObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "DeleteObject": "s3:DeleteObject",
    "DeleteObjects": "s3:DeleteObject",
    "CreateBucket": "s3:CreateBucket",
}


@dataclass
class Requests:
    """
    What the client asked the server.

    :param rights: the rights that its requests need.
    :param places: the keys and prefixes that they name.
    :param failing: the name of a request that fails.
    """

    rights: set[str] = field(default_factory=set)
    places: set[str] = field(default_factory=set)
    failing: str = ""

    def clear(self) -> None:
        self.rights.clear()
        self.places.clear()

    def note(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        self.rights.add(RIGHTS[model.name])
        keys = [each["Key"] for each in params.get("Delete", {}).get("Objects", ())]
        self.places.update(keys, {params[name] for name in ("Key", "Prefix") if name in params})
        if model.name == self.failing:
            raise OSError("The store is gone.")


@pytest.fixture
def requests(files: Any, place: Place) -> Iterator[Requests]:
    place.names()  # connects the client
    noted = Requests()
    events = files._s3.meta.events  # noqa: SLF001 its client has no other name
    events.register("before-parameter-build.s3", noted.note)
    yield noted
    events.unregister("before-parameter-build.s3", noted.note)


@pytest.fixture(autouse=True)
def _sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with SandboxServer() as server:
        for name, value in server.connections().items():
            monkeypatch.setenv(name, value)
        yield


def export(place: Place, _: Requests) -> None:
    ExportSubscriptionsOperator(task_id="export", destination=f"{place.prefix}/d.jsonl", mine=True).execute({})


def export_what_changed(place: Place, _: Requests) -> None:
    arguments: dict[str, Any] = {"destination": f"{place.prefix}/c.csv", "changes": f"{place.prefix}/changes/c.jsonl"}
    for name in ("first", "second"):
        summary = ExportSubscriptionsOperator(task_id=name, mine=True, **arguments).execute({})
    assert (summary["compared"], summary["changes"]) == (True, arguments["changes"])


def enrich(place: Place, _: Requests) -> None:
    EnrichIsbnsOperator(
        task_id="enrich", isbns=sample_isbns(3), destination=f"{place.prefix}/d.parquet", bulk=True
    ).execute({})


def fail_in_a_long_upload(place: Place, requests: Requests) -> None:
    requests.failing = "CompleteMultipartUpload"
    dataset = place.dataset()
    with pytest.raises(OSError, match="The store is gone"), dataset.staging(owner()) as staging:
        staging.commit([{"id": f"{number}{'x' * 1_000_000}"} for number in range(12)], None)


def read_source(place: Place, _: Requests) -> None:
    assert version_of(f"{place.prefix}/isbns.txt")
    assert len(list(read_rows(f"{place.prefix}/isbns.txt", "isbn"))) == 3


def capture(place: Place, _: Requests) -> None:
    CaptureHotThreadsOperator(task_id="capture", destination=f"{place.prefix}/d.txt", interval="10ms").execute({})


def digest(place: Place, requests: Requests) -> None:
    source = f"{place.prefix}/captures"
    CaptureHotThreadsOperator(task_id="capture", destination=f"{source}/d.txt", interval="10ms").execute({})
    requests.clear()
    HotThreadsDigestOperator(task_id="digest", source=source, destination=f"{place.prefix}/week.html").execute({})


def post(place: Place, _: Requests) -> None:
    arguments: dict[str, Any] = {"text": "New", "journal": f"{place.prefix}/journal", "once_per": "a day"}
    first, second = (PostBulletinOperator(task_id=name, **arguments).execute({}) for name in ("first", "second"))
    assert first == second
    refused = PostBulletinOperator(task_id="refused", **{**arguments, "once_per": "b", "video_id": "no such video"})
    with pytest.raises(permanent(NotFoundError)):
        refused.execute({})


def show(place: Place, _: Requests) -> None:
    assert read_text(f"{place.prefix}/isbns.txt", max_bytes=10_000).text


def unexpected(error: OSError) -> None:
    raise AssertionError from error


def find_what_is_left(place: Place, _: Requests) -> None:
    [found] = find_leftovers(place.prefix, time.time() + 90_000, 86_400, unexpected)
    assert found.state == "left", found.note


def delete_what_is_left(place: Place, _: Requests) -> None:
    later = time.time() + 90_000
    [found] = find_leftovers(place.prefix, later, 86_400, unexpected)
    assert delete_leftover(found, later, 86_400)


JOBS = {
    "export, enrichment": (export, export_what_changed, enrich, fail_in_a_long_upload),
    "`source` of an enrichment": (read_source,),
    "capture": (capture,),
    "digest of captures": (digest,),
    "journal of bulletins": (post,),
    "hot threads in Airflow's pages": (show,),
    "`airflow mediaops leftovers`": (find_what_is_left,),
    "the same with `--delete`": (delete_what_is_left,),
}


@pytest.fixture
def _prepared(place: Place, files: Any) -> None:
    """A list of ISBNs, and what a dead task has left."""
    files.pipe_file(f"{place.prefix.removeprefix('s3://shelf@')}/isbns.txt", "\n".join(sample_isbns(3)).encode())
    with stopped(), place.dataset("left.jsonl").staging(owner("dag/dead/task/-1")) as staging:
        staging.commit(rows(0), None)
        raise StoppedError


@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize("job", JOBS)
def test_a_job_needs_the_rights_that_are_listed(place: Place, requests: Requests, job: str) -> None:
    listed = {row["for"]: row for row in table(sections(PAGE)["Least privileges"].partition("### Object store")[2])}
    assert listed.keys() == JOBS.keys()
    requests.clear()
    for step in JOBS[job]:
        step(place, requests)
    assert requests.rights == set(re.findall(r"`(s3:\w+)`", listed[job]["rights"]))
    folder = place.prefix.partition("@bucket/")[2]
    assert [name for name in requests.places if not name.startswith(f"{folder}/")] == []


def test_a_bucket_that_does_not_exist_is_not_created(requests: Requests) -> None:
    requests.rights.clear()
    task = CaptureHotThreadsOperator(task_id="capture", destination="s3://shelf@misspelt/d.txt", interval="10ms")
    with pytest.raises(OSError, match="misspelt"):
        task.execute({})
    assert requests.rights == {"s3:PutObject"}
