"""The pictures of the documentation show what Airflow and the terminal show: see `pictures.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.report_urls import LIST_ROUTE, report_url, tab_url
from tests.browser import airflow_pages, flame_graph, pages, pictures
from tests.browser.connections_page import ConnectionsPage
from tests.browser.form_values import NAMES
from tests.browser.limits import MOST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Frame, Page

    from scripts.local_airflow import LocalAirflow
    from tests.browser.airflow_pages import TerminalAirflow
    from tests.browser.conftest import ExamplesRun, SignIn


@pytest.fixture
def easel(chromium: Browser) -> Iterator[Page]:
    """Yield an empty page to draw on."""
    page = chromium.new_page(viewport={"width": 1100, "height": 800})
    page.set_default_timeout(MOST_SECONDS * 1000)
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
    parts, text = [], ""
    for section, part in [("Standard Fields", connections.form), ("Extra Fields", connections.unfolded())]:
        connections.unfold(section)
        airflow_pages.wait_until_still(page, "[role=dialog], [data-part=item]")
        page.evaluate("() => document.activeElement.blur()")
        parts.append(part.screenshot())
        text += f"{connections.form.inner_text()}\n"
    pictures.keep(name, pictures.stacked(easel, parts), text)


def test_the_graph_of_a_dag(sign_in_as: SignIn, airflow: LocalAirflow, examples: ExamplesRun) -> None:
    page = sign_in_as("admin", size=(1200, 600))
    run = examples.runs["mediaops_cpu_bulletin"]
    airflow_pages.show_graph(page, airflow.url, run.dag_id, run.run_id)
    text = pictures.awaited(page, "dag_graph", page.locator(".react-flow").inner_text)
    pictures.keep("dag_graph", page.screenshot(), text)


def test_the_terminal_of_the_demo(examples: ExamplesRun, easel: Page) -> None:
    """The states that a task goes through depend on when they are looked at: the picture shows the end."""
    title = "What ran"
    table = examples.printed.partition(title)[2].partition("What the tasks returned")[0]
    picture, text = pictures.of_terminal(easel, f"{title}{table.rstrip()}", title="make demo")
    pictures.keep("demo_terminal", picture, text)


def test_the_terminal_of_a_check(airflow: TerminalAirflow, default_connections: dict[str, str], easel: Page) -> None:
    command = ["mediaops", "check", default_connections["mediaops_books"]]
    # A scratch folder means nothing to readers.
    printed = airflow.in_terminal(*command, columns=2 * pictures.TERMINAL_COLUMNS).replace(
        str(airflow.home), "/opt/airflow"
    )
    title = " ".join(["airflow", *command])
    picture, text = pictures.of_terminal(easel, printed.strip(), title=title)
    pictures.keep("check_terminal", picture, text)


def test_the_tab_and_the_page_of_a_capture(sign_in_as: SignIn, airflow: LocalAirflow, examples: ExamplesRun) -> None:
    run = examples.runs["mediaops_capture_hot_threads"]
    page = sign_in_as("admin", size=(1280, 720), device_scale_factor=0.9)
    page.goto(tab_url(run.dag_id, run.run_id, "capture", base_url=airflow.url))
    tab = airflow_pages.page_within(page)
    flame_graph.bars(tab)
    around = page.get_by_role("heading", name="capture").first.locator("xpath=../../..")
    text = pictures.awaited(page, "report_tab", lambda: f"{around.inner_text()}\n{_of_report(tab)}")
    pictures.keep("report_tab", page.screenshot(), text)

    page = sign_in_as("admin", size=(1200, 800), device_scale_factor=0.8)
    page.goto(report_url(run.dag_id, run.run_id, "capture", base_url=airflow.url))
    flame_graph.bars(page.main_frame)
    page.locator("#flame-graph").evaluate("(graph) => graph.scrollIntoView({ block: 'end' })")
    pictures.keep("report_page", page.screenshot(), _of_report(page.main_frame))


def test_the_requests_of_a_capture(chromium: Browser) -> None:
    """The capture is a recorded one of a real OpenSearch, so that its figures are the same in each run."""
    page = chromium.new_page(viewport={"width": 1400, "height": 800}, device_scale_factor=0.7)
    page.set_default_timeout(MOST_SECONDS * 1000)
    page.set_content(pages.recorded_with_tasks())
    section = page.locator("[aria-labelledby=behind]")
    pictures.keep("running_tasks", section.screenshot(), section.inner_text())
    page.close()


def test_the_list_of_captures(sign_in_as: SignIn, airflow: LocalAirflow, examples: ExamplesRun) -> None:
    assert examples.runs
    page = sign_in_as("admin", size=(1366, 400))
    page.goto(f"{airflow.url}/plugin/{LIST_ROUTE}")
    captures = airflow_pages.page_within(page)
    captures.locator("[data-column='Kind of work']").first.wait_for()
    # The hottest frames of the sandbox differ from run to run.
    fixed = captures.locator("h1, p, form, thead, [data-column=DAG], [data-column=Cluster]")
    pictures.keep("captures_list", page.screenshot(), "\n".join(fixed.all_inner_texts()))


def _of_report(page: Frame) -> str:
    """
    Return what a page of captures says in any run.

    The hottest frames of the sandbox differ from run to run, and so do the requests that were found behind them.
    """
    tables = ":is(caption, thead):not([aria-labelledby=behind] *)"
    return "\n".join(page.locator(f"h1, h2, nav, {tables}, #flame-controls, #flame-legend").all_inner_texts())
