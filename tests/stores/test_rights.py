"""The pages list the rights that each task uses on S3 and on Google, and no others."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from airflow_provider_mediaops.exceptions import NotFoundError
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from airflow_provider_mediaops.operators.video import PostBulletinOperator
from airflow_provider_mediaops.plugin.reading import find_file
from airflow_provider_mediaops.sandbox.books import sample_isbns
from airflow_provider_mediaops.sandbox.subscriptions import MINE
from tests.contract.page_tables import sections, table
from tests.stores.emulators import BUCKET
from tests.stores.one_task import context_of
from tests.stores.test_jobs import export
from tests.stores.test_refusals import only
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.stores.conftest import Place
    from tests.stores.emulators import Cloud
    from tests.stores.guard import Answer

DOCS = Path(__file__).parents[2] / "docs"
ROWS = {
    row["for"]: row
    for row in table(sections((DOCS / "security.md").read_text())["Least privileges"].partition("### Object store")[2])
}
LISTED_OF_GOOGLE = sections((DOCS / "object_stores.md").read_text())["Rights"]


class Seen:
    """The rights that the requests of a client need, and the objects and folders that they name; some are refused."""

    def __init__(self) -> None:
        self.rights: set[str] = set()
        self.names: set[str] = set()
        self.failing: Callable[[str, str], bool] = lambda _method, _path: False
        self.refusal: Answer | None = None

    def clear(self) -> None:
        self.rights.clear()
        self.names.clear()

    def note_s3(self, method: str, path: str, body: bytes) -> Answer | None:
        address = urlsplit(path)
        query = parse_qs(address.query, keep_blank_values=True)
        name = unquote(address.path).removeprefix(f"/{BUCKET}").lstrip("/")
        if method == "POST" and "delete" in query:
            right, names = "s3:DeleteObject", re.findall(r"<Key>(.*?)</Key>", body.decode())
        elif not name:
            right, names = (
                {"GET": "s3:ListBucket", "HEAD": "s3:ListBucket"}.get(method, method),
                query.get("prefix", []),
            )
        elif method == "DELETE":
            right, names = "s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject", [name]
        else:
            right, names = "s3:GetObject" if method in ("GET", "HEAD") else "s3:PutObject", [name]
        return self._note(right, names, method, path)

    def note_google(self, method: str, path: str, _: bytes) -> Answer | None:
        address = urlsplit(path)
        place = re.fullmatch(r"(?:/\w+)*/storage/v1/b/[^/]+(?:/o(?:/(?P<name>.+))?)?", address.path)
        assert place, path
        if "/o" not in address.path:
            right = f"storage.buckets {method}"
        elif address.path.startswith("/upload/"):
            right = "storage.objects.create"
        elif place["name"]:
            right = {"GET": "storage.objects.get", "DELETE": "storage.objects.delete"}.get(method, method)
        else:
            right = {"GET": "storage.objects.list"}.get(method, method)
        return self._note(right, [unquote(place["name"])] if place["name"] else [], method, path)

    def _note(self, right: str, names: list[str], method: str, path: str) -> Answer | None:
        self.rights.add(right)
        self.names.update(names)
        return self.refusal if self.failing(method, path) else None


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def place(new_place: Callable[..., Place], cloud: Cloud, seen: Seen) -> Place:
    seen.refusal = cloud.no_right
    return new_place({"s3": seen.note_s3, "gs": seen.note_google}[cloud.scheme])


def export_what_changed(place: Place) -> None:
    changes = f"{place.folder}/changes/c.jsonl"
    for run in ("first", "second"):
        summary = export(place, "c.csv", changes=changes, run=run)
    assert (summary["compared"], summary["changes"]) == (True, changes)


def enrich(place: Place) -> None:
    EnrichIsbnsOperator(
        task_id="task", isbns=sample_isbns(3), destination=f"{place.folder}/d.parquet", bulk=True
    ).execute(context_of(1))


def fail_in_a_long_upload(place: Place, seen: Seen, sandbox: SandboxServer) -> None:
    for subscription in sandbox.state.subscriptions.of_channel(MINE) or ():
        subscription["snippet"]["description"] = "x" * 200_000
    seen.failing = lambda method, path: method != "DELETE" and bool(re.search("upload_?id=", path, re.IGNORECASE))
    with pytest.raises(PermissionError):
        export(place, "long.jsonl", page_size=10)
    seen.failing = lambda _method, _path: False


def read_source(place: Place, folder: Path) -> None:
    task = EnrichIsbnsOperator(
        task_id="task", source=f"{place.folder}/isbns.txt", destination=str(folder / "d.jsonl"), bulk=True
    )
    assert task.execute(context_of(1))["rows"] == 3


def capture(place: Place) -> None:
    task = CaptureHotThreadsOperator(task_id="task", destination=f"{place.folder}/captures/d.txt", interval="10ms")
    task.execute(context_of(1))


def digest(place: Place) -> None:
    task = HotThreadsDigestOperator(
        task_id="task", source=f"{place.folder}/captures", destination=f"{place.folder}/week.html"
    )
    assert task.execute(context_of(1))["captures"] == 1


def post(place: Place) -> None:
    arguments: dict[str, Any] = {"text": "New", "journal": f"{place.folder}/journal", "once_per": "a day"}
    first, second = (
        PostBulletinOperator(task_id=name, **arguments).execute(context_of(1, "run", name))
        for name in ("first", "second")
    )
    assert first == second
    refused = PostBulletinOperator(task_id="refused", **{**arguments, "once_per": "b", "video_id": "no such video"})
    with pytest.raises(permanent(NotFoundError)):
        refused.execute(context_of(1, "run", "refused"))


@pytest.fixture
def jobs(place: Place, seen: Seen, sandbox: SandboxServer, tmp_path: Path) -> dict[str, list[Callable[[], object]]]:
    """The tasks of each line of the table, in an order in which the later ones use files of the earlier ones."""
    return {
        "export, enrichment": [
            lambda: export(place),
            lambda: export_what_changed(place),
            lambda: enrich(place),
            # Google gets a file in one request.
            *([lambda: fail_in_a_long_upload(place, seen, sandbox)] if place.cloud.scheme == "s3" else []),
        ],
        "`source` of an enrichment": [lambda: read_source(place, tmp_path)],
        "capture": [lambda: capture(place)],
        "digest of captures": [lambda: capture(place), seen.clear, lambda: digest(place)],
        "journal of bulletins": [lambda: post(place)],
        "hot threads in Airflow's pages": [lambda: find_file(f"{place.folder}/isbns.txt").read(max_bytes=10_000)],
    }


@only("s3")
@pytest.mark.parametrize("job", list(ROWS))
def test_a_job_needs_the_rights_that_are_listed(
    place: Place, seen: Seen, jobs: dict[str, list[Callable[[], object]]], job: str
) -> None:
    assert ROWS.keys() == jobs.keys()
    place.write("isbns.txt", "\n".join(sample_isbns(3)).encode())
    seen.clear()
    for step in jobs[job]:
        step()
    assert seen.rights == set(re.findall(r"`(s3:\w+)`", ROWS[job]["rights"]))
    assert [name for name in seen.names if not name.startswith(f"{place.name}/")] == []


@only("gs")
def test_all_jobs_together_need_the_rights_of_google_that_are_listed(
    place: Place, seen: Seen, jobs: dict[str, list[Callable[[], object]]]
) -> None:
    place.write("isbns.txt", "\n".join(sample_isbns(3)).encode())
    seen.clear()
    used = set[str]()
    for step in itertools.chain(*jobs.values()):
        step()
        used |= seen.rights
    assert used == set(re.findall(r"^storage\.objects\.\w+$", LISTED_OF_GOOGLE, re.MULTILINE))
