"""
How soon the pages about hot threads are there: the flame graph of a report in Chromium, and a list of 100 captures.

A report of 500 kB is opened from a file, and the time counts from the call to the first bar of the flame graph; the
peer is a page with nothing but the same text. The list is asked for in a server over a metadata database of 100
captures, once for all to be read and once more; the peer reads the same files and looks for the frames, which is what
one would do without the list. Ours and the peer take turns. Run by `make benchmarks`, or `python -m
tests.benchmarks.bench_pages`; it needs the program `chromium`.
"""

from __future__ import annotations

import html
import logging
import os
import re
import secrets
import shutil
import tempfile
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.bench_hot_threads import recorded, text_of, varied
from tests.benchmarks.fresh_process import environment, spent
from tests.benchmarks.ratios.peers import match_lines
from tests.benchmarks.results import Row, record
from tests.benchmarks.rounds import medians

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastapi.testclient import TestClient
    from playwright.sync_api import Browser

    from tests.unit.plugin.airflow_world import World

ROUNDS = 10
REPORT_SIZE = 500_000
CAPTURES, CAPTURE_SIZE = 100, 50_000
# The list has so many rows a page.
LIST_PAGES = 5
#: It only ends what hangs.
SECONDS = 240
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run")
PEER = "match each line of the 100 files"
_OLDER = re.compile(r'<a href="([^"]*)" rel="next"')
_RUN = re.compile(r"run-\d+")


def report_page(text: str) -> str:
    """Return the page of a capture."""
    from airflow_provider_mediaops.cluster.hot_threads.parser import parse
    from airflow_provider_mediaops.cluster.page.document import PageCapture, page

    return page([PageCapture(text, parse(text))], title="Hot threads")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        raise RuntimeError("This benchmark needs the program chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def opened(browser: Browser, file: Path, selector: str) -> float:
    """Open a page of its own context; return the milliseconds until an element is there."""
    page = browser.new_page()
    try:
        start = time.perf_counter()
        page.goto(file.as_uri(), wait_until="commit", timeout=1_000 * SECONDS)
        page.wait_for_selector(selector, state="attached", timeout=1_000 * SECONDS)
        return 1_000 * (time.perf_counter() - start)
    finally:
        page.close()


def flames(folder: Path) -> Iterator[Row]:
    """Measure the page of a report."""
    text = text_of(varied(recorded("3.8.0-cpu")), REPORT_SIZE)
    ours, plain = folder / "report.html", folder / "plain.html"
    made = in_turns(lambda: spent_ms(lambda: report_page(text)), lambda: spent_ms(lambda: match_lines(text)))
    yield Row("make the page of a report of 500 kB, processor time", "ms", made[0], "match each line", made[1])
    ours.write_text(report_page(text), encoding="utf-8")
    plain.write_text(f"<!doctype html><pre>{html.escape(text)}</pre><p id='end'>", encoding="utf-8")
    with chromium() as browser:
        shown = in_turns(lambda: opened(browser, ours, "g.frame rect"), lambda: opened(browser, plain, "#end"))
    yield Row("open it until the first flame", "ms", shown[0], "a page of the same text", shown[1])
    size, plain_size = (file.stat().st_size / 1000 for file in (ours, plain))
    yield Row("size of the page", "kB", size, "a page of the same text", plain_size)


def in_turns(ours: Callable[[], float], peer: Callable[[], float]) -> tuple[float, float]:
    """Measure both by turns; return the medians."""
    found = medians({"ours": ours, "peer": peer}, ROUNDS)
    return found["ours"], found["peer"]


def spent_ms(work: Callable[[], object]) -> float:
    """Do a piece of work; return the milliseconds of processor time."""
    return 1_000 * spent(work)


def listing(folder: Path) -> Iterator[Row]:
    """Measure the list of captures."""
    import pytest
    from airflow.utils import db

    from tests.unit.plugin.airflow_world import START, World, empty_database

    db.initdb()
    world = World(folder)
    sections = varied(recorded("3.8.0-cpu"))
    texts = [text_of(sections, CAPTURE_SIZE) for _ in range(CAPTURES)]
    with pytest.MonkeyPatch.context() as patch, empty_database():
        world.install(patch)
        for number, text in enumerate(texts):
            world.add(run_id=f"run-{number}", ended=START + timedelta(minutes=number), written=text)
        files = list(folder.glob("run-*/capture.txt"))

        def read_all() -> None:
            for file in files:
                match_lines(file.read_text(encoding="utf-8"))

        # Each reader has a server of its own, which has read no capture.
        first = in_turns(lambda: spent_ms(lambda: list_all(world)), lambda: spent_ms(read_all))
        yield Row("list 100 captures of 50 kB, processor time", "ms", first[0], PEER, first[1])
        with world.reader("*") as reader:
            again = in_turns(lambda: spent_ms(lambda: list_with(reader)), lambda: spent_ms(read_all))
        yield Row("list them again", "ms", again[0], PEER, again[1])


def list_all(world: World) -> None:
    """Ask a new server for all pages of the list."""
    with world.reader("*") as reader:
        list_with(reader)


def list_with(reader: TestClient) -> None:
    """Ask for all pages of the list, and make sure that they show every capture."""
    from tests.unit.plugin.airflow_world import LIST_URL

    shown, url = set[str](), LIST_URL
    for _ in range(LIST_PAGES):
        text = reader.get(url).raise_for_status().text
        shown |= set(_RUN.findall(text))
        if following := _OLDER.search(text):
            url = html.unescape(following[1])
    if len(shown) != CAPTURES:
        raise RuntimeError(f"The list shows {len(shown)} captures, not {CAPTURES}.")


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = environment(
            folder,
            AIRFLOW__API_AUTH__JWT_SECRET=secrets.token_hex(32),
            # Many requests in short order; a busy machine may hold the lock for more than 5 seconds.
            AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{folder}/airflow.db?timeout=60",
        )
        os.environ.clear()
        os.environ.update(env)
        logging.disable(logging.CRITICAL)
        record("pages", [*flames(folder), *listing(folder)])


if __name__ == "__main__":
    main()
