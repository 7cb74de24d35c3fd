"""The pictures of the documentation show what Airflow and the terminal show: see `pictures.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser import airflow_pages, pictures
from tests.browser.conftest import TERMINAL_COLUMNS
from tests.browser.connections_page import ConnectionsPage
from tests.browser.form_values import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from scripts.local_airflow import LocalAirflow
    from tests.browser.conftest import ExamplesRun, SignIn


@pytest.fixture
def easel(chromium: Browser) -> Iterator[Page]:
    """Give an empty page to draw on."""
    page = chromium.new_page(viewport={"width": 1100, "height": 800})
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
    pictures.keep("dag_graph", page.screenshot(), page.locator(".react-flow").inner_text())


def test_the_terminal_of_the_demo(examples: ExamplesRun, easel: Page) -> None:
    """The states that a task goes through depend on when they are looked at: the picture shows the end."""
    title = "What ran"
    printed = f"{title}{examples.printed.partition(title)[2]}"
    picture, text = pictures.of_terminal(easel, printed, title="make demo", columns=TERMINAL_COLUMNS)
    pictures.keep("demo_terminal", picture, text)
