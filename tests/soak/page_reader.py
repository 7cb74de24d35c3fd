"""A reader of the pages in Airflow, who opens the list of captures, their reports and comparisons again and again."""

from __future__ import annotations

import html
import re
from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import requests

from airflow_provider_mediaops.report_urls import LIST_PATH, URL_PREFIX
from tests.soak.background import Background
from tests.system.running import wait_for

if TYPE_CHECKING:
    from typing_extensions import Self

_LIST = URL_PREFIX + LIST_PATH
_REPORTS = 4
_EVERY_SECONDS = 0.5
_REPLY_SECONDS = 240.0
_HEADING = re.compile(r"<h1[^>]*>(.*?)</h1>", re.DOTALL)
_REPORT_LINK = re.compile(r'<th scope="row"><a href="([^"]*)"')
_OLDER_LINK = re.compile(r'<a href="([^"]*)" rel="next"')
_EARLIER_RUN = re.compile(r'<select name="before">\s*<option value="">none</option>\s*<option value="([^"]+)"')


@dataclass(frozen=True)
class Outcome:
    """
    What came of opening a page.

    :param page: which page: `list`, `filtered`, `older`, `report`, `comparison` or `unfinished`.
    :param status: the status of the reply; 0 if there was none.
    :param shown: the heading of the page, and whether captures are compared; the error if there was no reply.
    """

    page: str
    status: int
    shown: str


class PageReader(Background):
    """
    Opens page after page in a thread, with the session of a browser, for as long as its `with` block lasts.

    :param url: the address of an Airflow in which everybody is an administrator.
    :param unfinished: the path of the report of a task that has not ended.
    """

    def __init__(self, url: str, unfinished: str) -> None:
        super().__init__()
        self.outcomes: Counter[Outcome] = Counter()
        self._url = url
        self._unfinished = unfinished
        self._browser = requests.Session()
        self._browser.trust_env = False

    def __enter__(self) -> Self:
        wait_for(self._is_signed_in, "an API server serves pages")
        return super().__enter__()

    def _is_signed_in(self) -> bool:
        """Return whether a reply has set the cookie that signs a browser in; False while nobody listens."""
        try:
            reply = self._browser.get(f"{self._url}/auth/token/login", timeout=_REPLY_SECONDS)
        except requests.ConnectionError:
            return False
        reply.raise_for_status()
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, traceback)
        finally:
            self._browser.close()

    def has_shown(self, page: str) -> bool:
        """Return whether a page has been shown."""
        return any(outcome.page == page and outcome.status == HTTPStatus.OK for outcome in list(self.outcomes))

    def work(self) -> None:
        """Open page after page."""
        while not self.over.is_set():
            newest = self._open("list", _LIST)
            # No capture has such a frame, so the server reads as many as it ever does for a page.
            self._open("filtered", f"{_LIST}?frame=no.such.Frame")
            for path in _OLDER_LINK.findall(newest):
                self._open("older", html.unescape(path))
            for path in _REPORT_LINK.findall(newest)[:_REPORTS]:
                report = self._open("report", html.unescape(path))
                for run_id in _EARLIER_RUN.findall(report):
                    query = urlencode({"before": html.unescape(run_id)})
                    self._open("comparison", f"{html.unescape(path)}?{query}")
            self._open("unfinished", self._unfinished)

    def _open(self, page: str, path: str) -> str:
        """Open a page, count what came of it, and return its text."""
        if self.over.wait(_EVERY_SECONDS):
            return ""
        try:
            reply = self._browser.get(f"{self._url}{path}", timeout=_REPLY_SECONDS)
        except requests.RequestException as error:
            self.outcomes[Outcome(page, 0, type(error).__name__)] += 1
            return ""
        self.outcomes[Outcome(page, reply.status_code, _shown(reply.text))] += 1
        return reply.text


def _shown(page: str) -> str:
    found = _HEADING.search(page)
    heading = html.unescape(found[1]).strip() if found else ""
    return f"{heading}, compared" if "for comparison." in page else heading
