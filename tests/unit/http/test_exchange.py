from __future__ import annotations

import pytest

from airflow_provider_mediaops.http.exchange import Request, Response, escape_segment


def test_an_address_is_built_of_its_parts() -> None:
    request = Request(
        "GET",
        "/nodes/a%2Fb",
        params=(("b", "x&y=z"), ("a", "ü 1")),
        base="https://host:9200/base",
        secret_params=(("key", "s/3"),),
    )
    assert request.url == "https://host:9200/base/nodes/a%2Fb?b=x%26y%3Dz&a=%C3%BC%201&key=s%2F3"
    assert request.host == "host:9200"
    assert Request("GET", "/x", base="http://host").url == "http://host/x"
    assert Request("GET", "/x", base="http://me:secret@[::1]:80").host == "[::1]:80"


def test_neither_a_request_nor_a_reply_shows_credentials() -> None:
    request = Request(
        "POST", "/x", headers={"Authorization": "s3cr3t"}, body=b"s3cr3t", secret_params=(("key", "s3cr3t"),)
    )
    assert "s3cr3t" not in repr(request)
    assert repr(Response(200, {"x": "s3cr3t"}, b"s3cr3t")) == "Response(status=200)"


@pytest.mark.parametrize("body", [b"plain", "grün ✓".encode(), b"\xff\xfe no UTF-8 \x80", b""])
def test_text_gives_every_byte_back(body: bytes) -> None:
    assert Response(200, {}, body).text.encode("utf-8", errors="surrogateescape") == body


@pytest.mark.parametrize(
    ("text", "escaped"),
    [("node-1", "node-1"), ("a/b?c#d", "a%2Fb%3Fc%23d"), ("n1,n2", "n1,n2"), ("ü é", "%C3%BC%20%C3%A9")],
)
def test_a_path_segment_is_escaped(text: str, escaped: str) -> None:
    assert escape_segment(text) == escaped
