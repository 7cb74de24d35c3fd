"""The page of a digest: what it says, that nothing of a cluster can run in it, and that it stays small."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, get_args

import pytest

from airflow_provider_mediaops.cluster.digest.findings import MOST_DAMAGED, document_of
from airflow_provider_mediaops.cluster.digest.period import Period
from airflow_provider_mediaops.cluster.digest.sums import Digest, Series
from airflow_provider_mediaops.cluster.folded import Measure
from tests.unit.cluster.digest.captured_days import (
    MONDAY,
    SEARCH,
    capture_at,
    digest_from,
    digest_of,
    hot,
    page_of,
    running,
    text_at,
)
from tests.unit.cluster.made_pages import words_of
from tests.unit.hot_threads_text import ATTACKS, cpu, hostile, section, stack, thread

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.digest.sums import ReadCapture

PAGE = "/reports/weeks/week.html"
SCRIPT = "org.opensearch.painless.PainlessScript$Script.execute(doc['a'].value:7)"
TERMS = "org.opensearch.search.aggregations.bucket.terms.GlobalOrdinalsStringTermsAggregator$3.collect(G.java:1)"


def data_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="digest-data">(.*?)</script>', html, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_digest_page_has_a_table_for_each_series_and_says_k_of_n() -> None:
    html = page_of(digest_of())
    assert "<caption>11 scheduled captures</caption>" in html
    assert "<caption>1 capture at spikes</caption>" in html
    assert "1 capture at spikes, 2026" in html
    assert "11 of 11" in html
    assert "dashboard" in html


def test_figures_of_one_measure_are_never_added_to_or_compared_with_those_of_another() -> None:
    usages = {
        "cpu": cpu(40.0),
        "wait": "20.0% (100ms out of 500ms) wait usage",
        "mem": "1.5kb memory allocated",
        # OpenSearch measures none: a thread counts 1.
        "block": "0.0% (0s out of 500ms) block usage",
    }
    digest = Digest(Period(MONDAY.timestamp(), (MONDAY + timedelta(days=1)).timestamp()))
    for kind, usage in usages.items():
        text = section("n", thread("opensearch[n][search][T#1]", usage, stack(10, SEARCH[0])))
        digest.add(capture_at(MONDAY, text))
        if kind != "cpu":
            digest.add(capture_at(MONDAY - timedelta(hours=1), text))

    found = {
        profile["kind"]: (profile["unit"], profile["captures_before"], profile["spans"][0]["amount"])
        for profile in document_of(digest, ["/r"])["profiles"]
    }
    assert found == {
        "cpu": ("percent", 0, 40.0),
        "wait": ("percent", 1, 20.0),
        "mem": ("bytes", 1, 1536.0),
        "block": ("threads", 1, 1.0),
    }
    shown = {one["label"]: (one["unit"], one["pools"][0]["cells"][0][2]) for one in data_of(page_of(digest))["series"]}
    assert shown == {
        "captures of unknown reason": ("percent", 40),
        "captures of unknown reason (wait)": ("percent", 20),
        "captures of unknown reason (mem)": ("bytes", 1536),
        "captures of unknown reason (block)": ("threads", 1),
    }


def test_digest_page_says_what_it_does_not_show() -> None:
    digest = digest_of()
    for number in range(2):
        digest.damaged.append((f"/reports/{number}.txt", "it is empty"))
    digest.profiles["scheduled", Measure("cpu", "percent")].tasks.error = 3
    words = " ".join(page_of(digest).split())
    assert "2 files could not be read and are left out; see below." in words
    assert (
        "There are more groups of tasks in scheduled captures than are counted at a time: one may lack up to" in words
    )
    assert "3 captures." in words


def test_of_many_damaged_files_the_first_are_named() -> None:
    digest = digest_of()
    digest.damaged = [(f"/r/{number}.txt", "it is empty") for number in range(MOST_DAMAGED + 5)]
    document = document_of(digest, ["/r"])
    assert (document["digest"]["damaged"], len(document["damaged"])) == (MOST_DAMAGED + 5, MOST_DAMAGED)


def test_stacks_and_cells_add_up_to_the_figures_of_the_captures() -> None:
    data = data_of(page_of(digest_of()))
    scheduled, spike = data["series"]
    assert [one["captures"] for one in data["series"]] == [11, 1]
    for one, total in ((scheduled, sum(50 + each for each in range(12)) - 57), (spike, 57)):
        in_stacks = sum(sum(amounts[1::2]) for _, amounts in one["stacks"])
        in_cells = sum(amount for row in one["pools"] for _, _, amount, _ in row["cells"])
        assert in_stacks == pytest.approx(total)
        assert in_cells == pytest.approx(total)


@pytest.mark.long
def test_pruned_stack_is_in_a_bar_of_its_pool() -> None:
    def with_rare_stacks(number: int) -> ReadCapture:
        at = MONDAY + number * timedelta(hours=1)
        rare = (hot("n", "search", 1.0, (f"o.x.C{number}.m{each}(C.java:1)",)) for each in range(100))
        return capture_at(at, text_at(at, hot("n", "search", 50, SEARCH), *rare))

    data = data_of(page_of(digest_from(map(with_rare_stacks, range(40)))))
    (one,) = data["series"]
    names = data["names"]
    sums = {tuple(names[each] for each in path): sum(amounts[1::2]) for path, amounts in one["stacks"]}
    assert sums["search", "(rare stacks)"] > 1000
    assert sum(sums.values()) == pytest.approx(40 * 150)


@pytest.mark.parametrize(
    ("folder", "page", "base"),
    [
        ("/reports/days", PAGE, "../days/"),
        ("/reports/weeks/a b", PAGE, "a%20b/"),
        ("s3://bucket/days", "s3://conn@bucket/weeks/w.html", "../days/"),
        ("s3://bucket/days", "s3://conn@other/weeks/w.html", None),
        ("s3://bucket/days", PAGE, None),
    ],
)
def test_cells_lead_to_their_captures(folder: str, page: str, base: str | None) -> None:
    data = data_of(page_of(digest_of(folder), page))
    assert data["base"] == base
    assert data["prefix"] == f"{folder}/"
    (hottest,) = data["series"][0]["pools"][0]["cells"][0][3]
    assert hottest == ["0.txt", int(MONDAY.timestamp()), 40]


def test_names_of_a_cluster_are_text_only() -> None:
    digest = Digest(Period())
    tasks = running(ATTACKS[0], node=ATTACKS[1], action=ATTACKS[2], index=ATTACKS[3], shape=ATTACKS[4], pool=ATTACKS[5])
    for number, attack in enumerate(ATTACKS):
        at = MONDAY + timedelta(seconds=number)
        digest.add(capture_at(at, hostile(), f"/reports/{attack}.txt", running_tasks=tasks))
        digest.damaged.append((f"/reports/{attack}", f"its first line is {attack}"))
    html = page_of(digest)
    html.encode()
    scripts = len(re.findall("<script", html))
    assert scripts == len(re.findall("<script", page_of(digest_of())))
    assert "<img" not in html
    assert "<svg/onload" not in html
    assert "\u202e" not in html
    assert html.count("<script type=") == 2
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy
    assert "default-src &#39;none&#39;" in policy[1]
    assert "unsafe" not in policy[1]
    assert " style=" not in html
    data_of(html)


@pytest.mark.long
def test_digest_page_stays_small_whatever_it_shows() -> None:
    """Stacks that share no frame, in sixty pools with long names and all spans, and long paths."""
    digest = Digest(Period())
    for number in range(60):
        at = MONDAY + number * timedelta(hours=3)
        deep = (f"o.x.{'C' * 60}{number}.m{depth}(C.java:1)" for depth in range(60))
        own = tuple(f"o.x.{'D' * 60}{number}.m{each}(D.java:1)" for each in range(60))
        threads = [hot(f"node-{each}", f"pool-{each}-{'p' * 80}", 50.0, (own[each], *SEARCH)) for each in range(60)]
        text = text_at(at, hot("n", "search", 90.0, tuple(deep)), *threads)
        for series in get_args(Series):
            digest.add(capture_at(at, text, f"/reports/{number}-{'d' * 150}/{series}.txt", series=series))
    html = page_of(digest)
    assert len(html.encode()) < 3_000_000
    assert "The page has no room for" in html
    assert "It has no room for the names of" in html


def spike(day: int, *shares: tuple[str, float]) -> ReadCapture:
    """Return a capture at the spike of a day, with a thread for each frame and its CPU."""
    threads = [hot("n1", "search", percent, (frame,), number=number) for number, (frame, percent) in enumerate(shares)]
    at = MONDAY + timedelta(days=day)
    return capture_at(at, text_at(at, *threads), series="spike")


def test_kinds_of_work_are_summed_up_with_their_shares_of_each_day_that_has_captures() -> None:
    digest = digest_from(
        [
            spike(0, (SCRIPT, 60.0), (TERMS, 20.0)),
            spike(1, (SCRIPT, 10.0), (TERMS, 30.0)),
            spike(3, (TERMS, 80.0)),
        ]
    )
    [profile] = document_of(digest, ["/r"])["profiles"]
    assert [(work["work"], work["captures"], work["of"], work["share_percent"]) for work in profile["works"]] == [
        ("agg.terms", 3, 3, 65.0),
        ("search.script", 2, 3, 35.0),
    ]
    assert [(span["since"][:10], span["amount"]) for span in profile["works"][1]["spans"]] == [
        ("2026-11-16", 60.0),
        ("2026-11-17", 10.0),
    ]
    html = page_of(digest)
    words = words_of(html[html.index('id="works"') : html.index('id="recurring"')])
    assert "Kind of work Captures Share 2026-11-16 2026-11-17 2026-11-19" in words
    assert "Aggregation: terms 3 of 3 65.0 % 25.0 % 75.0 % 100.0 %" in words
    assert "Script run for each document 2 of 3 35.0 % 75.0 % 25.0 % –" in words  # noqa: RUF001 - a dash


def test_page_shows_the_last_ten_days() -> None:
    html = page_of(digest_from(spike(day, (SCRIPT, 10.0)) for day in range(12)))
    assert re.findall(r'<th scope="col"[^>]*>(2026-11-\d\d)<', html) == [f"2026-11-{day}" for day in range(18, 28)]
