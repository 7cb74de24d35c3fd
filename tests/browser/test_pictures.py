"""Take the pictures of the documentation: `make pictures` runs this, and no other run of the suite collects it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.report_urls import LIST_ROUTE, report_url, tab_url
from tests.browser import airflow_pages, flame_graph, pages, pictures
from tests.browser.connections_page import ConnectionsPage
from tests.browser.form_values import NAMES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from scripts.local_airflow import LocalAirflow
    from tests.browser.airflow_pages import TerminalAirflow
    from tests.browser.conftest import ExamplesRun, Open, SignIn

_SHOW_LESS = """() => {
    for (const id of ["tasks", "damaged"]) document.getElementById(id).parentNode.remove();
    for (const each of document.querySelectorAll("footer, p.aside")) each.remove();
    // The folder of a test means nothing to readers.
    const links = document.querySelectorAll("#cell-captures a");
    for (const each of links) each.textContent = each.textContent.replace(/^.*reports/, "s3://reports");
}"""


@pytest.fixture
def easel(chromium: Browser) -> Iterator[Page]:
    """Yield an empty page to draw on."""
    page = chromium.new_page(viewport={"width": 1100, "height": 800})
    page.set_default_timeout(airflow_pages.MOST_SECONDS * 1000)
    yield page
    page.close()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("form_video", "mediaops_video"), ("form_search", "mediaops_cluster"), ("form_books", "mediaops_books")],
)
def test_the_form_of_a_connection(sign_in_as: SignIn, airflow: LocalAirflow, easel: Page, name: str, kind: str) -> None:
    page = sign_in_as("admin", size=(900, 2400), device_scale_factor=0.8)
    connections = ConnectionsPage(page, airflow.url)
    connections.open()
    connections.begin(f"my_{kind.removeprefix('mediaops_')}", NAMES[kind])
    parts = []
    for section, part in [("Standard Fields", connections.form), ("Extra Fields", connections.unfolded())]:
        connections.unfold(section)
        airflow_pages.wait_until_still(page, "[role=dialog], [data-part=item]")
        page.evaluate("() => document.activeElement.blur()")
        parts.append(part.screenshot())
    pictures.keep(name, pictures.stacked(easel, parts))


def test_the_graph_of_a_dag(sign_in_as: SignIn, airflow: LocalAirflow, examples: ExamplesRun) -> None:
    page = sign_in_as("admin", size=(1200, 600))
    run = examples.runs["mediaops_cpu_bulletin"]
    airflow_pages.show_graph(page, airflow.url, run.dag_id, run.run_id)
    pictures.keep("dag_graph", page.screenshot())


def test_the_terminal_of_the_demo(examples: ExamplesRun, easel: Page) -> None:
    """The states that a task goes through depend on when they are looked at: the picture shows the end."""
    title = "What ran"
    table = examples.printed.partition(title)[2].partition("What the tasks returned")[0]
    pictures.keep("demo_terminal", pictures.of_terminal(easel, f"{title}{table.rstrip()}", title="make demo"))


def test_the_terminal_of_a_check(airflow: TerminalAirflow, default_connections: dict[str, str], easel: Page) -> None:
    command = ["mediaops", "check", default_connections["mediaops_books"]]
    # A scratch folder means nothing to readers.
    printed = airflow.in_terminal(*command, columns=2 * pictures.TERMINAL_COLUMNS).replace(
        str(airflow.home), "/opt/airflow"
    )
    title = " ".join(["airflow", *command])
    pictures.keep("check_terminal", pictures.of_terminal(easel, printed.strip(), title=title))


def test_the_tab_and_the_page_of_a_capture(sign_in_as: SignIn, airflow: LocalAirflow, examples: ExamplesRun) -> None:
    run = examples.runs["mediaops_capture_hot_threads"]
    page = sign_in_as("admin", size=(1280, 720), device_scale_factor=0.9)
    page.goto(tab_url(run.dag_id, run.run_id, "capture", base_url=airflow.url))
    flame_graph.bars(airflow_pages.page_within(page))
    page.get_by_role("heading", name="capture").first.wait_for()
    pictures.keep("report_tab", page.screenshot())

    page = sign_in_as("admin", size=(1200, 800), device_scale_factor=0.8)
    page.goto(report_url(run.dag_id, run.run_id, "capture", base_url=airflow.url))
    flame_graph.bars(page.main_frame)
    page.locator("#flame-graph").evaluate("(graph) => graph.scrollIntoView({ block: 'end' })")
    pictures.keep("report_page", page.screenshot())


def test_the_requests_of_a_capture(chromium: Browser) -> None:
    """The capture is a recorded one of a real OpenSearch, so that its figures are the same in each run."""
    page = chromium.new_page(viewport={"width": 1400, "height": 800}, device_scale_factor=0.7)
    page.set_default_timeout(airflow_pages.MOST_SECONDS * 1000)
    page.set_content(pages.recorded_with_tasks())
    pictures.keep("running_tasks", page.locator("[aria-labelledby=behind]").screenshot())
    page.close()


def test_the_list_of_captures(sign_in_as: SignIn, airflow: LocalAirflow, examples: ExamplesRun) -> None:
    assert examples.runs
    page = sign_in_as("admin", size=(1366, 400))
    page.goto(f"{airflow.url}/plugin/{LIST_ROUTE}")
    captures = airflow_pages.page_within(page)
    captures.locator("[data-column='Kind of work']").first.wait_for()
    pictures.keep("captures_list", page.screenshot())


def test_the_page_of_a_digest(open_page: Open) -> None:
    with open_page(pages.digest_of_a_week(), size=(1160, 900), device_scale_factor=0.58) as opened:
        opened.bars()
        opened.page.locator(".strip").nth(1).locator("rect.hot").nth(1).click()
        opened.bars()
        opened.page.evaluate(_SHOW_LESS)
        pictures.keep("digest_page", opened.page.screenshot(full_page=True))
