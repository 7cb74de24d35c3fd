"""The list of recent captures: whose, which, in which order, and what a row says."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.plugin.list_page import summary_of
from airflow_provider_mediaops.plugin.reading import CaptureFile
from tests.unit.hot_threads_text import hostile
from tests.unit.plugin.airflow_world import LIST_URL, START, older, text

if TYPE_CHECKING:
    from httpx import Response

    from tests.unit.plugin.airflow_world import World


def rows(response: Response) -> list[str]:
    """Return the rows of the list."""
    assert response.status_code == 200
    body = response.text.partition("<tbody>")[2].partition("</tbody>")[0]
    return re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)


def add_runs(world: World, number: int, *, minutes: float = 10) -> list[str]:
    """Add so many runs with captures; return them, the newest first."""
    for each in range(number):
        ended = START + timedelta(minutes=minutes * each)
        world.add(run_id=f"run-{each:03}-", ended=ended, written=text(at=ended))
    return [f"run-{each:03}-" for each in reversed(range(number))]


class TestRows:
    def test_a_row_names_the_capture_with_its_hottest_kind_of_work_and_top_frame(self, world: World) -> None:
        url = world.add(run_id="r", written=text("org.opensearch.search.Work.step"), cluster_conn_id="search_prod")
        (row,) = rows(world.get(LIST_URL))
        assert "2026-11-22 12:00:00" in row
        assert "search_prod" in row
        assert "Work.step" in row
        assert "88.0 %" in row
        assert f'href="{url}"' in row
        assert 'Search: which kind is not visible <span class="aside">100 %, by its thread pool only</span>' in row

    def test_only_captures_that_succeeded_are_listed(self, world: World) -> None:
        world.add(run_id="the-capture", written=text())
        world.add(run_id="failed-one", state="failed", written=text())
        world.add(run_id="waiting-one", state="deferred", ended=None)
        world.add(run_id="another-task", fields={"bash_command": "echo '\"when_cpu_above\"'"})
        world.add(run_id="no-fields", fields={})
        page = world.get(LIST_URL)
        assert len(rows(page)) == 1
        assert "the-capture" in page.text

    @pytest.mark.parametrize(
        ("written", "said"), [(None, "There is no file"), ("a secret", "is not a report of hot threads")]
    )
    def test_a_row_without_a_report_says_why_and_shows_no_other_text(
        self, world: World, written: str | None, said: str
    ) -> None:
        world.add(written=written)
        (row,) = rows(world.get(LIST_URL))
        assert said in row
        assert "a secret" not in row

    # universal_pathlib does not know them by itself.
    @pytest.mark.filterwarnings("ignore:.*filesystem not explicitly implemented", "ignore:Could not find default for")
    @pytest.mark.parametrize("destination", ["generic://x/y.txt", "webdav+https://x/y.txt"])
    def test_a_row_whose_path_no_client_takes_says_so_and_leaves_the_others(
        self, world: World, destination: str
    ) -> None:
        world.add(run_id="good", written=text())
        world.add(run_id="bad", destination=destination)
        said = re.compile("is not the path of a file|cannot be read")
        assert sorted(bool(said.search(row)) for row in rows(world.get(LIST_URL))) == [False, True]

    def test_of_two_captures_in_one_destination_only_the_newer_is_shown(self, world: World) -> None:
        shared = str(world.folder / "shared.txt")
        for each, run in enumerate(("older", "newer")):
            ended = START + timedelta(minutes=each)
            world.add(run_id=run, destination=shared, written=text(at=ended), ended=ended, minutes=0.5)
        newer, former = rows(world.get(LIST_URL))
        assert "Search: which kind" in newer
        assert "Search: which kind" not in former
        assert "Its file is another capture by now" in former

    def test_a_hostile_report_has_a_row_fit_to_be_shown(self, world: World) -> None:
        world.add(written=hostile().encode("utf-8", "replace").decode())
        (row,) = rows(world.get(LIST_URL))
        assert "<script" not in row
        assert re.sub(r"<[^>]*>|\n", "", row).isprintable()

    def test_nothing_was_captured_yet(self, world: World) -> None:
        assert "There is no capture yet." in world.get(LIST_URL).text


class TestFilters:
    @pytest.fixture(autouse=True)
    def _captures(self, world: World) -> None:
        for day, dag in enumerate(("hot_search", "hot_write")):
            ended = START + timedelta(days=day)
            world.add(
                dag,
                run_id=f"of-{dag}",
                cluster_conn_id=f"cluster_{dag}",
                ended=ended,
                written=text(f"org.x.{dag.title()}.step", at=ended),
            )

    @pytest.mark.parametrize(
        ("asked", "found"),
        [
            ({"dag": "SEARCH"}, "search"),
            ({"cluster": "cluster_hot_search"}, "search"),
            ({"cluster": "hot_se"}, "search"),
            ({"until": "2026-11-23T00:00"}, "search"),
            ({"dag": "hot", "cluster": "SEARCH"}, "search"),
            ({"since": "2026-11-23T00:00"}, "write"),
        ],
    )
    def test_by_dag_cluster_and_time(self, world: World, asked: dict[str, str], found: str) -> None:
        (row,) = rows(world.get(LIST_URL, **asked))
        assert f"of-hot_{found}" in row

    @pytest.mark.parametrize(
        "asked", [{"dag": "x"}, {"cluster": "ü%"}, {"cluster": "%"}, {"cluster": "capture"}, {"dag": "_h"}]
    )
    def test_nothing_fits(self, world: World, asked: dict[str, str]) -> None:
        page = world.get(LIST_URL, **asked)
        assert not rows(page)
        assert "There is no such capture." in page.text

    @pytest.mark.parametrize(
        ("since", "until"), [("yesterday", "<b>"), ("0001-01-01T00:00+23:59", "9999-12-31T23:59-23:59")]
    )
    def test_filter_that_is_no_time_is_left_out_and_said(self, world: World, since: str, until: str) -> None:
        page = world.get(LIST_URL, since=since, until=until)
        assert len(rows(page)) == 2
        assert "“From” is not a time, and was left out" in page.text
        assert "“To” is not a time" in page.text
        assert "<b>" not in page.text

    def test_the_form_keeps_what_was_asked_for(self, world: World) -> None:
        page = world.get(LIST_URL, dag='"><script>', cluster="hot").text
        assert 'value="&#34;&gt;&lt;script&gt;"' in page
        assert 'name="cluster" value="hot"' in page


class TestPaging:
    def pages(self, world: World, **asked: str) -> list[list[str]]:
        found, url = [], LIST_URL
        with world.reader("*") as browser:
            while url:
                response = browser.get(url, params=asked if url == LIST_URL else None)
                page = rows(response)
                found.append([run[0] for row in page if (run := re.findall(r"run-\d{3}-", row))])
                url = older(response.text)
                assert len(found) < 20
        return found

    def test_each_capture_is_on_one_page(self, world: World) -> None:
        runs = add_runs(world, 45)
        pages = self.pages(world)
        assert [len(page) for page in pages] == [20, 20, 5]
        assert [run for page in pages for run in page] == runs

    def test_captures_that_ended_at_the_same_moment_are_each_on_one_page(self, world: World) -> None:
        runs = add_runs(world, 45, minutes=0)
        pages = self.pages(world)
        assert sorted(run for page in pages for run in page) == sorted(runs)

    def test_captures_of_a_rare_cluster_are_found_among_many_of_similar_names(self, world: World) -> None:
        for number in range(105):
            ended = START + timedelta(minutes=number)
            # The query of the database finds the name in the path, too.
            world.add(run_id=f"run-{number:03}-", ended=ended, destination=f"/rare/{number}.txt")
        ended = START - timedelta(days=1)
        world.add(run_id="run-999-", ended=ended, cluster_conn_id="rare", written=text(at=ended))
        pages = self.pages(world, cluster="rare")
        assert [run for page in pages for run in page] == ["run-999-"]

    @pytest.mark.parametrize("skip", ["x", "-1", "²", "9" * 400])
    def test_a_position_that_is_none_has_no_page(self, world: World, skip: str) -> None:
        assert world.get(LIST_URL, skip=skip).status_code == 404


def test_a_text_is_read_again_only_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CaptureFile.read
    read: list[str] = []

    def noting(file: CaptureFile, *, max_bytes: int) -> str:
        read.append(file.name)
        return whole(file, max_bytes=max_bytes)

    monkeypatch.setattr(CaptureFile, "read", noting)
    file = tmp_path / "a.txt"
    file.write_text(text("org.x.One.step"))
    assert summary_of(str(file)) == summary_of(str(file))
    assert len(read) == 1
    file.write_text(text("org.x.Another.step"))
    assert summary_of(str(file)).frame == "Another.step"
