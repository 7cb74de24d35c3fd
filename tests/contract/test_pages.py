"""The pages of the documentation: links lead somewhere, pictures are small and shown, and lists leave nothing out."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from airflow_provider_mediaops import notifications, results
from scripts import generated_docs
from tests.browser import pictures
from tests.contract.tasks import TASKS

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"(?<![`!])\[[^\]]*\]\((?!\w+:)([^)\s]+)\)")


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as browsers of repositories and Sphinx make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#{1,6} (.+)$", text, flags=re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain)


def links(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return _LINK.findall(text)


def test_each_link_leads_to_a_file_and_a_heading() -> None:
    broken, found = [], 0
    for page in PAGES:
        for link in links(page):
            found += 1
            name, _, anchor = unquote(link).partition("#")
            target = (page.parent / name).resolve() if name else page
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []
    assert found > 200


def test_each_picture_is_small_and_shown() -> None:
    """`make pictures` makes them."""
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    files = sorted(pictures.FOLDER.glob("*.png"))
    assert len(files) >= 10
    assert [file.name for file in files if f"images/{file.name})" not in shown] == []
    assert [file.name for file in files if file.stat().st_size >= pictures.MAX_BYTES] == []


def test_guides_list_the_arguments_of_each_class_and_the_fields_of_each_result() -> None:
    """The lists are made when the pages are built, which fails if a docstring leaves one out."""
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "guides").glob("*.md"))
    classes = re.findall(r"^<!-- parameters: (\S+) -->$", text, re.MULTILINE)
    fields = re.findall(r"^<!-- fields: results\.(\w+) -->$", text, re.MULTILINE)

    named = [name.rpartition(".")[2] for name in classes]
    assert sorted(named) == sorted([*(task.kind.__name__ for task in TASKS), *notifications.__all__, "HighCpuTrigger"])
    assert {"ExportSummary", "CaptureSummary", "HotThreadsDigest", "EnrichmentSummary"} <= set(fields)
    assert {"FoundSubscription", "HotNodeReading", "HotNodesEvent"} <= set(fields)
    assert [name for name in fields if fields.count(name) > 1 or not hasattr(results, name)] == []


def test_a_list_of_arguments_says_which_cannot_be_templated() -> None:
    names = (
        "operators.books.EnrichIsbnsOperator",
        "notifications.PostBulletinNotifier",
        "triggers.cluster.HighCpuTrigger",
    )
    enrich, notifier, trigger = (generated_docs.filled(f"<!-- parameters: {name} -->") for name in names)

    assert "\nTemplates: all but `deferrable`. " in enrich
    assert "\nTemplates: all. " in notifier
    assert "Templates" not in trigger
