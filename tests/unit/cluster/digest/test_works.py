"""The kinds of work of a digest: sums over captures and days, however long their spans are."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.digest.capture_sums import sums_of
from airflow_provider_mediaops.cluster.digest.findings import document_of
from airflow_provider_mediaops.cluster.digest.model import Digest
from airflow_provider_mediaops.cluster.digest.period import Period
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.cluster.page.digest_document import digest_page
from tests.unit.cluster.digest.captured_days import MONDAY
from tests.unit.hot_threads_text import cpu, section, stack, thread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_mediaops.cluster.digest.capture_sums import CaptureSums

SCRIPT = "org.opensearch.painless.PainlessScript$Script.execute(doc['a'].value:7)"
TERMS = "org.opensearch.search.aggregations.bucket.terms.GlobalOrdinalsStringTermsAggregator$3.collect(G.java:1)"


def capture(day: int, *shares: tuple[str, float]) -> CaptureSums:
    """Return the sums of a capture at the spike of a day, with a thread for each frame and its CPU."""
    threads = [
        thread(f"opensearch[n1][search][T#{number}]", cpu(percent), stack(10, frame))
        for number, (frame, percent) in enumerate(shares)
    ]
    time = (MONDAY + timedelta(days=day)).timestamp()
    return sums_of(parse(section("n1", *threads)), path=f"{day}.txt", time=time, series="spike")


def digest_of(captures: Iterable[CaptureSums]) -> Digest:
    """Return the digest of captures."""
    digest = Digest()
    for each in captures:
        digest.add(each)
    return digest


def document(digest: Digest) -> dict[str, Any]:
    """Return the digest as its file has it."""
    return document_of(digest, Period(None, None), ["source"])


CAPTURES = [
    capture(0, (SCRIPT, 60.0), (TERMS, 20.0)),
    capture(1, (SCRIPT, 10.0), (TERMS, 30.0)),
    capture(3, (TERMS, 80.0)),
]


def test_kinds_are_summed_with_their_captures_and_spans() -> None:
    [profile] = document(digest_of(CAPTURES))["profiles"]
    assert [(work["work"], work["captures"], work["of"], work["share_percent"]) for work in profile["works"]] == [
        ("agg.terms", 3, 3, 65.0),
        ("search.script", 2, 3, 35.0),
    ]
    script = profile["works"][1]
    assert [(span["since"][:10], span["amount"]) for span in script["spans"]] == [
        ("2026-11-16", 60.0),
        ("2026-11-17", 10.0),
    ]


def test_page_shows_the_share_of_each_day_that_has_captures() -> None:
    digest = digest_of(CAPTURES)
    html = digest_page(digest, document(digest), "/out/digest.html")
    table = html[html.index('id="works"') : html.index('id="recurring"')]
    words = " ".join(unescape(re.sub(r"<[^>]*>", " ", table)).split())
    assert "Kind of work Captures Share 2026-11-16 2026-11-17 2026-11-19" in words
    assert "Aggregation: terms 3 of 3 65.0 % 25.0 % 75.0 % 100.0 %" in words
    assert "Script run for each document 2 of 3 35.0 % 75.0 % 25.0 % –" in words  # noqa: RUF001 - a dash


def test_page_shows_the_last_ten_days() -> None:
    digest = digest_of(capture(day, (SCRIPT, 10.0)) for day in range(12))
    html = digest_page(digest, document(digest), "/out/digest.html")
    assert re.findall(r'<th scope="col"[^>]*>(2026-11-\d\d)<', html) == [f"2026-11-{day}" for day in range(18, 28)]
