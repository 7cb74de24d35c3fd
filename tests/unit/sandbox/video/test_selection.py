"""Selectors of partial responses, as the public documentation of Google's APIs describes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.sandbox.video.selection import SelectorError, matching, parse, select, tree_of

TREE = tree_of("kind,next,page(total),items(id,snippet(title,size(width)),details(title,count))")
REPLY: dict[str, Any] = {
    "kind": "k",
    "page": {"total": 2},
    "items": [
        {"id": "1", "snippet": {"title": "a", "size": {"width": 3}}, "details": {"title": "A", "count": 1}},
        {"id": "2", "snippet": {"title": "b"}},
    ],
}


def selected(selector: str) -> Any:
    return select(REPLY, matching(parse(selector), TREE))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("*", REPLY),
        ("kind", {"kind": "k"}),
        ("kind,page", {"kind": "k", "page": {"total": 2}}),
        ("page/total", {"page": {"total": 2}}),
        ("page.total", {"page": {"total": 2}}),
        ("page(total)", {"page": {"total": 2}}),
        ("items/id", {"items": [{"id": "1"}, {"id": "2"}]}),
        ("items(id,snippet/title)", {"items": [{"id": i, "snippet": {"title": t}} for i, t in ("1a", "2b")]}),
        ("items/snippet(title)", {"items": [{"snippet": {"title": "a"}}, {"snippet": {"title": "b"}}]}),
        ("items(snippet(size/width))", {"items": [{"snippet": {"size": {"width": 3}}}, {"snippet": {}}]}),
        ("items/*/count", {"items": [{"details": {"count": 1}}, {}]}),
        ("items/snippet/*", {"items": [{"snippet": each["snippet"]} for each in REPLY["items"]]}),
        ("*/total,kind", {"kind": "k", "page": {"total": 2}}),
        ("items,items/id", {"items": REPLY["items"]}),
        ("items/id,items/id", {"items": [{"id": "1"}, {"id": "2"}]}),
        ("next", {}),
    ],
)
def test_a_selector_keeps_what_it_names(selector: str, expected: Any) -> None:
    assert selected(selector) == expected


@pytest.mark.parametrize(
    ("selector", "named"),
    [
        ("nothing", "nothing"),
        ("kind,items(id,nothing)", "items/nothing"),
        ("kind/id", "kind/id"),
        ("*/nothing", "*/nothing"),
        ("Items", "Items"),
    ],
)
def test_a_field_that_does_not_exist_is_named(selector: str, named: str) -> None:
    with pytest.raises(SelectorError, match=f"for path '{named}'".replace("*", r"\*")):
        selected(selector)


@pytest.mark.parametrize(
    "selector",
    [
        *("", ",", "kind,", ",kind", "kind,,page", "/kind", "kind/", "items(id", "items id)", "items(id))", "items()"),
        *("(kind)", "items(id)x", "items(id)/x", "items((id))", "kind, page", "items[id]", "é", "items(", "items(id,"),
        *("a/" * 100_000 + "a", "a(" * 100_000),
    ],
)
def test_a_malformed_selector_is_an_error(selector: str) -> None:
    with pytest.raises(SelectorError):
        selected(selector)


@given(st.text("ab*/.,()", max_size=12))
def test_any_text_is_a_selector_or_an_error(selector: str) -> None:
    try:
        paths = parse(selector)
    except SelectorError:
        return
    assert paths
    assert all(name in selector for path in paths for name in path)
