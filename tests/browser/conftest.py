"""Debian's Chromium, driven by Playwright, for files and for one real Airflow of the whole suite.

A page is opened, and all that it asks for and complains of is noted. It needs the program `chromium`
(`scripts/install-system-packages` brings it). Nothing is downloaded.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from airflow_provider_mediaops.sandbox.server import SandboxServer
from scripts.demo import EXAMPLES, Demo, Run
from tests.browser import flame_graph, pictures
from tests.browser.airflow_pages import MOST_SECONDS, PASSWORD, TerminalAirflow, sign_in, with_accounts
from tests.browser.connections_page import ConnectionsPage
from tests.browser.form_values import NAMES, add, in_sandbox

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from playwright.sync_api import Browser, Page, StorageState

    Open = Callable[..., AbstractContextManager["Opened"]]
    SignIn = Callable[..., Page]

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
LAPTOP = (1366, 768)
collect_ignore = [] if pictures.IS_WRITING else ["test_pictures.py"]

# Runs before the page's own scripts, outside of its policy.
_WITNESS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
    window.violations.push(`${event.violatedDirective} ${event.sample}`);
});
"""


@dataclass
class Opened:
    """
    A page in the browser.

    :param requests: the addresses it asked for, without those that its policy held back.
    :param complaints: errors and warnings of the console, and exceptions.
    :param still_for: how many milliseconds without a change show that nothing moves any more.
    """

    page: Page
    still_for: int
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def violations(self) -> list[str]:
        """What the policy stopped."""
        found: list[str] = self.page.evaluate("window.violations")
        return found

    def bars(self) -> dict[str, float]:
        """The bars of the flame graph, by what they say first: their width once nothing moves any more."""
        return flame_graph.bars(self.page, still_for=self.still_for)

    def width(self, selector: str) -> float:
        """How wide an element is."""
        box = self.page.locator(selector).bounding_box()
        assert box
        return box["width"]

    def bar(self, name: str) -> Any:
        """The bar that says this first."""
        return self.page.locator("g.frame", has=self.page.locator("title", has_text=name)).first

    def column(self, caption: str, number: int) -> list[str]:
        """The texts of one column of a table."""
        table = self.page.locator("table", has=self.page.locator("caption", has_text=caption))
        return [" ".join(text.split()) for text in table.locator(f"tbody tr > :nth-child({number})").all_inner_texts()]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start the browser, once for the tests of a module."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Debian's chromium is not installed")
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    # Playwright holds an event loop as long as it runs: it ends with the module, so that async tests can follow.
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS, timeout=MOST_SECONDS * 1000)
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture
def open_page(chromium: Browser, tmp_path: Path) -> Open:
    """Give a function that opens a page, from a file."""

    @contextmanager
    def open_page(
        html: str, *, size: tuple[int, int] = LAPTOP, animated: bool = False, **options: Any
    ) -> Iterator[Opened]:
        file = tmp_path / "page.html"
        file.write_text(html, encoding="utf-8")
        options["reduced_motion"] = "no-preference" if animated else "reduce"
        context = chromium.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        try:
            context.set_default_timeout(MOST_SECONDS * 1000)
            context.add_init_script(_WITNESS)
            opened = Opened(context.new_page(), still_for=400 if animated else 100)
            opened.page.on("request", lambda request: opened.requests.append(request.url))
            opened.page.on(
                "requestfailed",
                lambda request: opened.requests.remove(request.url) if request.failure == "csp" else None,
            )
            opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
            opened.page.on(
                "console",
                lambda message: (
                    opened.complaints.append(message.text) if message.type in {"error", "warning"} else None
                ),
            )
            opened.page.goto(file.as_uri())
            yield opened
        finally:
            context.close()

    return open_page


@pytest.fixture(scope="session")
def sandbox() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        yield server


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for what Airflow and the DAGs write; its name is that of the demo's."""
    return tmp_path_factory.mktemp("checkout") / ".demo"


@pytest.fixture(scope="session")
def airflow(scratch: Path) -> Iterator[TerminalAirflow]:
    """Start Airflow with accounts, the example DAGs, and no connection at all."""
    home = scratch / "airflow"
    with TerminalAirflow(home, dags=EXAMPLES, env=with_accounts(home), account=("admin", PASSWORD)) as running:
        yield running


@pytest.fixture(scope="session")
def sessions() -> dict[str, StorageState]:
    """The cookies of the accounts that have signed in."""
    return {}


@pytest.fixture
def sign_in_as(chromium: Browser, airflow: TerminalAirflow, sessions: dict[str, StorageState]) -> Iterator[SignIn]:
    """Give a function that opens a page of somebody with an account; it signs in the first time."""
    contexts = []

    def sign_in_as(name: str, *, size: tuple[int, int] = LAPTOP, **options: Any) -> Page:
        context = chromium.new_context(
            viewport={"width": size[0], "height": size[1]},
            storage_state=sessions.get(name),
            reduced_motion="reduce",
            **options,
        )
        contexts.append(context)
        context.set_default_timeout(MOST_SECONDS * 1000)
        page = context.new_page()
        if name not in sessions:
            sign_in(page, airflow.url, name)
            sessions[name] = context.storage_state()
        return page

    yield sign_in_as
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def connected() -> set[str]:
    """The connection types whose default connection is there."""
    return set()


@pytest.fixture
def default_connections(
    sign_in_as: SignIn, airflow: TerminalAirflow, sandbox: SandboxServer, connected: set[str]
) -> dict[str, str]:
    """Make the connections that the example DAGs use, by the form: the ids by their types."""
    conn_ids = {kind: f"{kind}_default" for kind in NAMES}
    if missing := conn_ids.keys() - connected:
        page = ConnectionsPage(sign_in_as("admin"), airflow.url)
        page.open()
        for kind in missing:
            add(page, conn_ids[kind], kind, in_sandbox(sandbox, kind))
            connected.add(kind)
    return conn_ids


@dataclass
class ExamplesRun:
    """
    The runs of the example DAGs.

    :param printed: what the demo printed of them, as a terminal gets it.
    """

    printed: str
    runs: dict[str, Run]


@pytest.fixture(scope="session")
def done() -> list[ExamplesRun]:
    """The runs of the example DAGs, once they have ended."""
    return []


@pytest.fixture
def examples(
    default_connections: dict[str, str],  # noqa: ARG001 - the examples use them
    airflow: TerminalAirflow,
    scratch: Path,
    done: list[ExamplesRun],
    monkeypatch: pytest.MonkeyPatch,
) -> ExamplesRun:
    """Run the example DAGs as the demo does, once, with connections that were made by the form."""
    if not done:
        console = Console(
            file=io.StringIO(), force_terminal=True, width=pictures.TERMINAL_COLUMNS, highlight=False, record=True
        )
        with monkeypatch.context() as here:
            here.chdir(scratch.parent)
            runs = Demo(console, scratch).run_examples(airflow)
        printed = console.export_text(styles=True)
        assert {run.state for run in runs} == {"success"}, printed
        done.append(ExamplesRun(printed, {run.dag_id: run for run in runs}))
    return done[0]
