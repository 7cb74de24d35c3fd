"""The pages about hot threads in Airflow: the tab of a task instance, and the list of captures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from airflow_provider_mediaops.report_urls import LIST_PATH, LIST_ROUTE, URL_PREFIX, report_url, tab_url
from tests.browser import airflow_pages, flame_graph

if TYPE_CHECKING:
    from playwright.sync_api import Frame, Page

    from scripts.local_airflow import LocalAirflow
    from tests.browser.conftest import ExamplesRun, SignIn

DAG = "mediaops_capture_hot_threads"


@pytest.fixture(scope="module")
def started() -> list[str]:
    """The ids of the runs that were started by the form."""
    return []


@pytest.fixture
def later_run(
    sign_in_as: SignIn, airflow: LocalAirflow, examples: ExamplesRun, scratch: Path, started: list[str]
) -> str:
    """Start a run by the form, once, and follow it in the browser to its success; an earlier one has ended by then."""
    if not started:
        assert examples.runs[DAG].state == "success"
        page = sign_in_as("author")
        params = {"folder": (scratch / "output" / "by_hand").as_uri(), "sustained_for": "2"}
        run_id = airflow_pages.trigger(page, airflow.url, DAG, params)
        airflow_pages.follow(page, run_id)
        started.append(run_id)
    return started[0]


def open_tab(page: Page, airflow: LocalAirflow, run_id: str) -> Frame:
    """Open the tab of a capture as people do: from the page of the task."""
    page.goto(f"{airflow.url}/dags/{DAG}/runs/{quote(run_id)}/tasks/capture")
    page.get_by_role("link", name="Hot threads").click()
    airflow_pages.arrive(page, tab_url(DAG, run_id, "capture", base_url=airflow.url))
    return airflow_pages.page_within(page)


class TestTab:
    def test_tab_shows_the_report_of_a_run_that_was_started_by_the_form_with_its_flame_graph(
        self, sign_in_as: SignIn, airflow: LocalAirflow, later_run: str
    ) -> None:
        report = open_tab(sign_in_as("author"), airflow, later_run)
        assert report.get_by_role("heading", level=1).inner_text() == "Hot threads of mediaops_cluster_default"
        bars = flame_graph.bars(report)
        whole = bars["Everything"]
        assert "node sandbox-2" in bars
        name = min((name for name in bars if name.startswith("pool ")), key=bars.__getitem__)
        assert bars[name] < whole
        report.locator("g.frame", has=report.locator("title", has_text=name)).first.click()
        assert flame_graph.bars(report)[name] == whole

    def test_the_reader_compares_with_an_earlier_run(
        self, sign_in_as: SignIn, airflow: LocalAirflow, later_run: str, examples: ExamplesRun
    ) -> None:
        page = sign_in_as("author")
        report = open_tab(page, airflow, later_run)
        before = report.get_by_label("Compare with an earlier capture")
        before.select_option(examples.runs[DAG].run_id)
        with page.expect_response(lambda reply: "before=" in reply.url):
            report.get_by_role("button", name="Show", exact=True).click()
        remark = f"This capture is that of the earlier run {examples.runs[DAG].run_id}, for comparison."
        report.get_by_text(remark).first.wait_for(state="attached")
        assert flame_graph.bars(report)
        assert before.input_value() == examples.runs[DAG].run_id

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_tab_is_as_dark_as_airflow(
        self, sign_in_as: SignIn, airflow: LocalAirflow, later_run: str, theme: str
    ) -> None:
        page = sign_in_as("author", color_scheme="light" if theme == "dark" else "dark")
        page.goto(airflow.url)
        page.evaluate("(theme) => localStorage.setItem('theme', theme)", theme)
        report = open_tab(page, airflow, later_run)
        page.locator(f"html.{theme}").wait_for(state="attached")
        report.locator(f"html[data-theme={theme}]").wait_for(state="attached")


class TestList:
    def test_list_is_in_the_navigation(self, sign_in_as: SignIn, airflow: LocalAirflow, later_run: str) -> None:
        page = sign_in_as("author")
        page.goto(airflow.url)
        airflow_pages.choose_in_menu(page, "Browse", "Hot threads", f"{airflow.url}/plugin/{LIST_ROUTE}")
        captures = airflow_pages.page_within(page)
        rows = captures.locator("tbody tr")
        rows.first.wait_for()
        assert later_run in rows.first.inner_text()
        assert {cell.partition("\n")[0] for cell in captures.locator("[data-column=DAG]").all_inner_texts()} == {
            DAG,
            "mediaops_cpu_bulletin",
            "mediaops_hot_nodes",
        }
        assert all(captures.locator("[data-column='Kind of work']").all_inner_texts())

    def test_a_row_leads_to_its_report(self, sign_in_as: SignIn, airflow: LocalAirflow, later_run: str) -> None:
        page = sign_in_as("author")
        page.goto(f"{airflow.url}{URL_PREFIX}{LIST_PATH}")
        page.get_by_role("row").filter(has_text=later_run).get_by_role("link").first.click()
        airflow_pages.arrive(page, report_url(DAG, later_run, "capture", base_url=airflow.url))
        assert flame_graph.bars(page.main_frame)
