"""Airflow with accounts that have passwords, as a browser meets it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from scripts.local_airflow import LocalAirflow

if TYPE_CHECKING:
    from playwright.sync_api import Frame, Locator, Page

#: Each account with its role.
ROLES = {"admin": "admin", "author": "user"}
PASSWORD = "let-me-in-to-airflow"
#: The limit of each step of the browser. Playwright's own is 30 seconds, which a busy machine may take for a picture.
MOST_SECONDS = 240
_RUN_SECONDS = 600
# A click that has led nowhere after so long is made again, so often; the last one has all the time.
_CLICK_MILLISECONDS, _MORE_CLICKS = 5_000, 3


def with_accounts(home: Path) -> dict[str, str]:
    """Write the passwords of the accounts into Airflow's home, and return the settings that make it ask for them."""
    home.mkdir(parents=True)
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps(dict.fromkeys(ROLES, PASSWORD)))
    settings = {
        "SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in ROLES.items()),
        "SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
    }
    return {f"AIRFLOW__CORE__{name}": value for name, value in settings.items()}


class TerminalAirflow(LocalAirflow):
    """A local Airflow with a terminal."""

    def in_terminal(self, *arguments: str, columns: int) -> str:
        """
        Run a command of Airflow's command line in a terminal.

        :param arguments: the arguments of `airflow`.
        """
        leader, follower = pty.openpty()
        env = {**self._env, "COLUMNS": str(columns), "TERM": "xterm-256color"}
        command = [sys.executable, "-m", "airflow", *arguments]
        with (self.home / "terminal.log").open("wb") as log, os.fdopen(leader, "rb", buffering=0) as screen:
            process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=follower, stderr=log)
            os.close(follower)
            # A command that hangs has no end that could be read.
            limit = threading.Timer(_RUN_SECONDS, process.kill)
            limit.start()
            printed = b""
            # A terminal ends with an error, once nobody has it open any more.
            with contextlib.suppress(OSError):
                while part := screen.read(65536):
                    printed += part
            process.wait()
            limit.cancel()
        return printed.decode().replace("\r\n", "\n")


def sign_in(page: Page, url: str, name: str) -> None:
    """Sign in by the form, as somebody does who opens Airflow for the first time."""
    page.goto(f"{url}/auth/login")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda address: "/auth/login" not in address)


def trigger(page: Page, url: str, dag_id: str, params: dict[str, str]) -> str:
    """Start a run by the form of a DAG."""
    page.goto(f"{url}/dags/{dag_id}")
    page.get_by_role("button", name="Trigger Dag").click()
    form = page.get_by_role("dialog")
    for name, value in params.items():
        form.locator(f"[name=element_{name}]").fill(value)
    with page.expect_response(lambda reply: reply.request.method == "POST" and reply.url.endswith("/dagRuns")) as reply:
        form.get_by_role("button", name="Trigger", exact=True).click()
    run: str = reply.value.json()["dag_run_id"]
    page.wait_for_url(lambda address: "/runs/" in address)
    return run


def show_graph(page: Page, url: str, dag_id: str, run_id: str) -> None:
    """Open the graph of a run, and wait until it is drawn and stands still."""
    page.goto(f"{url}/dags/{dag_id}/runs/{quote(run_id)}")
    page.get_by_role("button", name="Show Graph").click()
    page.locator(".react-flow__node").first.wait_for()
    wait_until_still(page, ".react-flow__node")


def wait_until_still(page: Page, selector: str) -> None:
    """Wait until the elements of a selector neither move nor grow."""
    # What an earlier wait saw says nothing of this one: they may not have begun to move yet.
    page.evaluate("() => { delete window.lastBoxes; }")
    page.wait_for_function(
        """(selector) => {
            const boxes = [...document.querySelectorAll(selector)].map((element) => element.getBoundingClientRect());
            const now = boxes.map((box) => [box.x, box.y, box.width, box.height].map(Math.round)).join();
            const still = now !== "" && now === window.lastBoxes;
            window.lastBoxes = now;
            return still;
        }""",
        arg=selector,
        polling=500,
    )


def follow(page: Page, run_id: str) -> None:
    """Stay on the page of a run until it says that the run has succeeded."""
    page.get_by_role("heading", name=run_id).wait_for()
    # The page asks for the state every few seconds; that of each task is in a list below.
    state = page.locator("div:has(> h2) > [data-testid=state-badge]").filter(has_text=re.compile("Success|Failed"))
    state.wait_for(timeout=_RUN_SECONDS * 1000)
    assert state.inner_text() == "Success"


def arrive(page: Page, url: str, milliseconds: float | None = None) -> None:
    """
    Wait until the browser is at an address. Airflow quotes fewer characters of a run's id than it need.

    :param milliseconds: the longest wait; None for that of the page.
    """
    page.wait_for_url(lambda address: unquote(address) == unquote(url), timeout=milliseconds)


def choose_in_menu(page: Page, menu: str, item: str, url: str) -> None:
    """
    Choose an entry of Airflow's navigation, and wait until the browser is at its address.

    Airflow's page was seen to lose a click, and to stay where it was. As a person would, this clicks again.
    """
    from playwright import sync_api

    entry = page.get_by_role("menuitem", name=item)
    for _ in range(_MORE_CLICKS):
        _click_in_menu(page, menu, entry)
        with contextlib.suppress(sync_api.TimeoutError):
            arrive(page, url, _CLICK_MILLISECONDS)
            return
    _click_in_menu(page, menu, entry)
    arrive(page, url)


def _click_in_menu(page: Page, menu: str, entry: Locator) -> None:
    if not entry.is_visible():
        page.get_by_role("button", name=menu).click()
    entry.click()


def page_within(page: Page) -> Frame:
    """Return the page that Airflow shows within its own, once it is there."""
    page.locator("iframe").wait_for()
    frame = page.locator("iframe").element_handle().content_frame()
    assert frame
    frame.wait_for_url(lambda address: address != "about:blank")
    return frame
