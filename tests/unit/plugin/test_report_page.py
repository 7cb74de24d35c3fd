"""The tab of a task instance: what it shows, to whom, and what it never reads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session

from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks
from airflow_provider_mediaops.plugin import report_page
from tests.unit.cluster.task_values import NODE, TASKS
from tests.unit.plugin.airflow_world import LIST_URL, START, rendered, text

if TYPE_CHECKING:
    from tests.unit.plugin.airflow_world import World

SECRET = "the content of another file"


class TestReport:
    def test_page_shows_the_captured_text(self, world: World) -> None:
        url = world.add(written=text(), cluster_conn_id="search_prod")
        response = world.get(url)
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        assert "Hot threads of search_prod" in response.text
        assert "Work.step" in response.text
        assert "88.0 %" in response.text

    def test_text_of_the_cluster_is_never_markup(self, world: World) -> None:
        url = world.add(written=text("org.x.<script>window.ran=1</script>"))
        page = world.get(url).text
        assert "<script>window.ran" not in page
        assert "&lt;script&gt;window.ran" in page

    def test_nobody_else_may_frame_it_or_keep_it(self, world: World) -> None:
        headers = world.get(world.add(written=text())).headers
        assert headers["content-security-policy"] == "frame-ancestors 'self'"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"

    def test_a_series_shows_its_captures_and_says_which_are_missing(self, world: World) -> None:
        url = world.add(run_id="r", captures=3, every=1)
        for number in (1, 2):
            file = world.folder / "r" / f"capture.{number}.txt"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text(f"org.x.Part.number{number}", at=START + timedelta(seconds=number)))
        page = world.get(url).text
        assert "Part.number1" in page
        assert "Part.number2" in page
        assert "What changed" in page
        assert f"There is no file {world.folder}/r/capture.3.txt" in page

    def test_each_mapped_task_has_its_own(self, world: World) -> None:
        urls = [
            world.add(
                run_id="r",
                map_index=index,
                destination=str(world.folder / f"{index}.txt"),
                written=text(f"org.x.Mapped.number{index}"),
            )
            for index in range(2)
        ]
        for index, url in enumerate(urls):
            page = world.get(url).text
            assert f"Mapped.number{index}" in page
            assert f"Mapped.number{1 - index}" not in page
            assert f"<dt>Map index</dt><dd>{index}</dd>" in page

    def test_a_task_that_is_not_mapped_is_found_by_airflows_placeholder(self, world: World) -> None:
        url = world.add(written=text())
        assert "Work.step" in world.get(url.replace("/-1/", "/{MAP_INDEX}/")).text


class TestOrigin:
    def test_the_capture_of_an_earlier_try_is_not_passed_off_as_that_of_the_last(self, world: World) -> None:
        url = world.add(state="failed", written=text(at=START - timedelta(hours=1)))
        page = world.get(url).text
        assert "before the last try of this task began" in page
        assert "<dt>Try</dt>" not in page

    def test_the_capture_of_another_dag_at_the_destination_is_not_passed_off_as_its_own(self, world: World) -> None:
        url = world.add(written=text(at=START + timedelta(hours=1)))
        assert "another task or run has written to the same destination since" in world.get(url).text

    def test_of_two_captures_in_one_destination_the_older_one_says_that_it_was_replaced(self, world: World) -> None:
        shared = str(world.folder / "shared.txt")
        older = world.add(run_id="older", destination=shared, written=text("org.x.Old.er"))
        moment = START + timedelta(seconds=30)
        newer = world.add(
            run_id="newer",
            destination=shared,
            written=text("org.x.New.er", at=moment),
            ended=START + timedelta(minutes=2),
            minutes=0.5,
        )
        page = world.get(older).text
        assert "The run newer has written to the same destination since" in page
        assert "has written to the same destination since" not in world.get(newer).text
        # The same file is not an earlier capture of it either.
        assert "Compare with an earlier capture" not in world.get(newer).text


class TestComparison:
    @pytest.fixture
    def later(self, world: World) -> str:
        world.add(
            run_id="earlier",
            written=text("org.x.Was.hot", at=START - timedelta(days=1)),
            ended=START - timedelta(days=1),
        )
        return world.add(run_id="later", written=text("org.x.Is.hot"))

    def test_an_earlier_capture_of_the_same_task_can_be_chosen(self, world: World, later: str) -> None:
        page = world.get(later).text
        assert '<option value="earlier">2026-11-21 12:00:00 UTC, earlier</option>' in page
        assert "Was.hot" not in page

    def test_the_chosen_one_stands_beside_it(self, world: World, later: str) -> None:
        page = world.get(later, before="earlier").text
        assert "What changed" in page
        assert "Was.hot" in page
        assert "Is.hot" in page
        # Captures of several days are named by their day, too.
        assert "1 · 2026-11-21 12:00:00" in page
        assert '<option value="earlier" selected>' in page

    def test_a_run_whose_file_a_later_run_has_replaced_cannot_be_chosen(self, world: World) -> None:
        shared = str(world.folder / "day.txt")
        for hours, run in ((3, "first"), (2, "second")):
            ended = START - timedelta(hours=hours)
            world.add(run_id=run, destination=shared, ended=ended, written=text(f"org.x.Of.{run}", at=ended))
        page = world.get(world.add(run_id="third", written=text()), before="first").text
        assert "There is no earlier capture of this task in that run." in page
        assert '<option value="second">' in page
        assert "Of.second" not in page

    def test_the_capture_of_another_task_is_not_passed_off_as_that_of_the_earlier_run(
        self, world: World, later: str
    ) -> None:
        (world.folder / "earlier" / "capture.txt").write_text(text("org.x.Not.its", at=START - timedelta(hours=1)))
        page = world.get(later, before="earlier").text
        assert "The capture of earlier cannot be shown: This capture was taken at 2026-11-22 11:00:00 UTC" in page
        assert "Not.its" not in page

    @pytest.mark.parametrize("run", ["later", "unknown", "../earlier", "<script>"])
    def test_no_other_run_can_be_named(self, world: World, later: str, run: str) -> None:
        page = world.get(later, before=run).text
        assert "There is no earlier capture of this task in that run." in page
        assert "What changed" not in page
        assert "Is.hot" in page


class TestReaders:
    @pytest.mark.airflow(">=3.1.1")
    def test_the_cookie_of_airflows_session_is_enough(self, world: World) -> None:
        url = world.add(written=text())
        with world.reader() as browser:
            del browser.headers["Authorization"]
            browser.cookies.set("_token", world.token("hot"))
            assert browser.get(url).status_code == 200
            browser.cookies.set("_token", "forged")
            assert browser.get(url).status_code in {401, 403}

    @pytest.mark.parametrize("name", ["docs", "redoc", "openapi.json", "hot-threads/report", ""])
    def test_the_app_does_not_describe_itself(self, world: World, name: str) -> None:
        assert world.get(f"/mediaops/{name}").status_code == 404

    @pytest.mark.parametrize("method", ["post", "put", "delete"])
    def test_nothing_can_be_changed(self, world: World, method: str) -> None:
        url = world.add(written=text())
        with world.reader("*") as browser:
            assert getattr(browser, method)(url).status_code == 405


class TestWhatIsRead:
    """Only what follows from the rendered destination."""

    def test_an_edited_xcom_leads_nowhere(self, world: World, tmp_path: Path) -> None:
        other = tmp_path / "passwd.txt"
        other.write_text(text(f"org.x.{SECRET.replace(' ', '_')}.run"))
        url = world.add(run_id="r", written=text())
        paths = {"txt": str(other), "html": "/etc/passwd"}
        with create_session() as session:
            names: dict[str, Any] = {"dag_id": "hot", "run_id": "r", "task_id": "capture", "map_index": -1}
            value = {"paths": paths, "later_captures": [{"paths": paths}]}
            XComModel.set(key="return_value", value=value, session=session, **names)
        page = world.get(url).text
        assert "Work.step" in page
        assert "the_content" not in page
        assert "passwd" not in page

    @pytest.mark.parametrize(
        ("destination", "said"),
        [
            ("/captures/../../etc/passwd", "contains “..”"),
            ("etc/passwd", "relative to the folder of the worker"),
            ("file://user:word@etc/passwd", "The destination file://user:***@etc/passwd is relative"),
            ("http://169.254.169.254/latest/meta-data.txt", "not a place that a capture can be written to"),
            ("simplecache::file:///etc/passwd", "not a place that a capture can be written to"),
            ("/a\nb.txt", "characters that no path of a capture has"),
            ("s3://***@bucket/key.txt", "masked a part"),
            ("Truncated. You can change this behaviour in [core]max_templated_field_length. '/captures", "beginning"),
            ({"a": 1}, "stored no destination"),
        ],
    )
    def test_a_destination_that_no_capture_has_is_not_followed(self, world: World, destination: Any, said: str) -> None:
        fields = {**rendered(destination="/any.txt"), "destination": destination}
        response = world.get(world.add(fields=fields))
        assert response.status_code == 200
        assert said in response.text
        assert "root:x:" not in response.text

    def test_only_texts_are_read(self, world: World, tmp_path: Path) -> None:
        (tmp_path / "id_rsa").write_text(SECRET)
        page = world.get(world.add(destination=str(tmp_path / "id_rsa"))).text
        assert SECRET not in page
        assert "id_rsa.txt" in page

    def test_the_fields_of_another_operator_are_not_followed(self, world: World, tmp_path: Path) -> None:
        (tmp_path / "export.txt").write_text(text())
        url = world.add(fields={"destination": str(tmp_path / "export.txt"), "captures": 1, "formats": ["txt"]})
        assert "captures no hot threads" in world.get(url).text


class TestNothingToShow:
    def shows(self, world: World, url: str, *sentences: str) -> None:
        response = world.get(url)
        assert response.status_code == 200
        for sentence in sentences:
            assert sentence in response.text
        # The tab stays usable.
        assert "Look again" in response.text
        assert "/mediaops/hot-threads" in response.text

    @pytest.mark.parametrize(
        ("task", "said"),
        [
            ({"written": ""}, "capture.txt is empty"),
            ({"formats": "html,json"}, "Add txt to formats"),
            ({"state": "running"}, "The task is running"),
            ({"state": "deferred"}, "waits in the triggerer"),
            ({"state": "skipped"}, "no node ran hot"),
            ({"state": "failed"}, "Its log says why"),
            ({"state": "failed"}, "There is no file"),
            ({"state": None, "ended": None, "fields": {}}, "The task has not started"),
            ({"fields": {}}, "num_dag_runs_to_retain_rendered_fields"),
        ],
    )
    def test_task_without_a_capture_says_why(self, world: World, task: dict[str, Any], said: str) -> None:
        self.shows(world, world.add(**task), said)

    def test_a_text_of_50_mb(self, world: World) -> None:
        url = world.add(run_id="r", written="x")
        os.truncate(world.folder / "r" / "capture.txt", 50_000_000)
        self.shows(world, url, "has 50.0 MB, more than the 12.0 MB that this page reads")

    @pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
    def test_no_regular_file(self, world: World, kind: str) -> None:
        url = world.add(run_id="r")
        file = world.folder / "r" / "capture.txt"
        file.parent.mkdir()
        if kind == "folder":
            file.mkdir()
        elif kind == "pipe":
            os.mkfifo(file)
        else:
            file.symlink_to("/dev/zero")
        self.shows(world, url, "is not a regular file")

    @pytest.mark.parametrize("destination", ["s9://bucket/a.txt", "s3://[/a.txt"])
    def test_a_store_that_only_the_worker_knows(self, world: World, destination: str) -> None:
        fields = {**rendered(destination="/a.txt"), "destination": destination}
        self.shows(world, world.add(fields=fields), destination.rpartition("/")[2])
        # One such row leaves the list readable. Older versions of fsspec's paths notice the scheme later.
        page = world.get(LIST_URL)
        assert page.status_code == 200
        assert "is not the path of a file" in page.text or "cannot be read" in page.text

    @pytest.mark.parametrize("path", ["s3://key:the-password@bucket/a.txt", "s9://key:the-p@ssword@bucket/a.txt"])
    def test_a_password_in_a_path_is_not_shown(self, world: World, path: str) -> None:
        fields = {**rendered(destination="/a.txt"), "destination": path}
        for url in (world.add(fields=fields), LIST_URL):
            page = world.get(url)
            assert page.status_code == 200
            assert "://key:***@" in page.text
            assert "ssword" not in page.text

    def test_a_task_instance_that_does_not_exist(self, world: World) -> None:
        url = world.add(run_id="r")
        for strange in ("/capture/0/", "/capture/x/", "/elsewhere/-1/", f"/capture/{2**63}/", "/capture/-1/%00"):
            assert world.get(url.replace("/capture/-1/", strange)).status_code == 404

    def test_fields_of_any_shape(self, world: World) -> None:
        names = ("destination", "formats", "captures", "cluster_conn_id", "when_cpu_above", "sustained_for", "require")
        values: tuple[Any, ...] = (None, [], {}, 0, -1, 1e308, "", "x" * 5000, ["a", None], {"b": []}, True)
        for value in values:
            fields = {**rendered(destination="/a.txt"), **json.loads(json.dumps(dict.fromkeys(names, value)))}
            assert world.get(world.add(fields=fields)).status_code == 200


def write_tasks(file: Path, tasks: RunningTasks | None) -> None:
    """Write the JSON file of a capture, with the tasks that ran meanwhile."""
    file.write_bytes(Capture(text(), running_tasks=tasks).content("json"))


def make_old(file: Path) -> None:
    os.utime(file, (1_700_000_000, 1_700_000_000))


class TestTasks:
    """Those that ran meanwhile, read from the JSON file beside the text."""

    NOT_SHOWN = "The tasks that ran meanwhile are not shown"

    def test_each_capture_of_a_series_has_its_own(self, world: World) -> None:
        destination = str(world.folder / "c.txt")
        url = world.add(run_id="r", running_tasks=True, destination=destination, captures=2, every=1)
        for number in (1, 2):
            (world.folder / f"c.{number}.txt").write_text(text())
            write_tasks(
                world.folder / f"c.{number}.json", RunningTasks(nodes=(replace(NODE, node=f"node-of-{number}"),))
            )
        page = world.get(url).text
        assert "Who was behind it" in page
        assert "node-of-1, capture 1" in page
        assert "node-of-2, capture 2" in page
        assert self.NOT_SHOWN not in page

    def test_the_file_of_a_task_that_did_not_ask_for_them_is_not_read(self, world: World) -> None:
        url = world.add(run_id="r", written=text())
        write_tasks(world.folder / "r" / "capture.json", TASKS)
        page = world.get(url).text
        assert "Who was behind it" not in page
        assert self.NOT_SHOWN not in page

    @pytest.mark.parametrize(
        ("spoil", "said"),
        [
            (Path.unlink, "There is no file {file}"),
            (make_old, "{file} is older than the text beside it"),
            (lambda file: write_tasks(file, None), "{file} holds no tasks."),
            (lambda file: file.write_text(SECRET), ""),
        ],
        ids=["missing", "of an earlier capture", "without tasks", "of something else"],
    )
    def test_file_that_cannot_be_used_is_named_and_the_report_shown(
        self, world: World, spoil: Callable[[Path], object], said: str
    ) -> None:
        url = world.add(run_id="r", written=text(), running_tasks=True)
        file = world.folder / "r" / "capture.json"
        write_tasks(file, TASKS)
        spoil(file)
        page = self.refused(world, url)
        assert said.format(file=file) in page
        assert SECRET not in page

    def test_a_task_that_writes_no_json_says_so(self, world: World) -> None:
        url = world.add(run_id="r", written=text(), running_tasks=True, formats=["txt", "html"])
        assert "Add json to formats." in self.refused(world, url)

    def test_more_than_a_page_reads_is_left_out(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(report_page, "MAX_START_BYTES", 1_000)
        url = world.add(run_id="r", written=text(), running_tasks=True)
        write_tasks(world.folder / "r" / "capture.json", TASKS)
        assert "says more about tasks than this page reads" in self.refused(world, url)

    def refused(self, world: World, url: str) -> str:
        page = world.get(url).text
        assert "Work.step" in page
        assert "Who was behind it" not in page
        assert self.NOT_SHOWN in page
        return page
