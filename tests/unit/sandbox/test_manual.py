"""The manual: all that the sandbox takes, on a page that loads nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from airflow_provider_mediaops.sandbox.faults import Fault
from airflow_provider_mediaops.sandbox.video.parameters import InsertParameters, ListParameters

if TYPE_CHECKING:
    from tests.unit.sandbox.conftest import Sandbox


class Page(HTMLParser):
    """Collects the elements of a page and the text of its cells and headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.add(data.strip())


async def test_it_loads_nothing(sandbox: Sandbox) -> None:
    reply = await sandbox.get("/docs")
    page = Page(reply.text)

    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert {tag for tag, _ in page.elements} <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "a", "code"),
        *("table", "tr", "th", "td"),
    }
    attributes = {(name, value) for _, given in page.elements for name, value in given.items()}
    assert attributes == {("lang", "en"), ("charset", "utf-8"), ("href", "openapi.json")}
    assert not re.search(r"https?://|//[a-z]|url\(|@import", reply.text)


async def test_it_has_every_address_parameter_and_fault(sandbox: Sandbox) -> None:
    texts = Page((await sandbox.get("/docs")).text).texts
    described = (await sandbox.get("/openapi.json")).json()

    assert texts >= {
        f"{method.upper()} {path}" for path, operations in described["paths"].items() for method in operations
    }
    parameters = {**ListParameters.model_fields, **InsertParameters.model_fields}
    assert texts >= {field.alias or name for name, field in parameters.items()}
    assert texts >= {field.description for field in parameters.values() if "`" not in (field.description or "")}
    assert texts >= {name for kind in Fault.__args__ for name in kind.model_fields}
    assert texts >= {kind.model_fields["kind"].default for kind in Fault.__args__}
    assert texts >= {"snippet.description", "contentDetails.bulletin.resourceId.playlistId", "isbns"}


async def test_what_a_description_says_is_text(sandbox: Sandbox) -> None:
    page = (await sandbox.get("/docs")).text

    assert "What stands before" not in page  # that is an option, not a parameter
    assert "<code>alphabetical</code>" not in page
    assert "`" not in page
