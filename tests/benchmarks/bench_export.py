"""
What an export of subscriptions takes: our operator, with its checkpoints, beside what one would write without it.

Each figure is of a fresh process against a server of its own process that has its pages ready; the contenders take
turns, so that a busy moment of the machine does not fall on one of them alone. Beside them stand three that only ask
for the pages and look for the token in them: below the first no HTTP library comes, below the second none that is built
on urllib3, and the third is requests as it is commonly used. Run by `make benchmarks`, or
`python -m tests.benchmarks.bench_export`; `--parts` and `--sizes` make it shorter. Ten million records are 11 GB, which
are removed when they are counted.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.fresh_process import environment, last_line_of, peak_memory_mb
from tests.benchmarks.results import Limit, Row, record
from tests.benchmarks.rounds import in_rounds
from tests.page_server import A_PAGE, page_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.page_server import Pages

ROUNDS = 5
RECORDS = 100_000
GROWING = (10_000, 100_000, 1_000_000, 10_000_000)
# The peer takes half as long again.
LARGEST_OF_PEER = 1_000_000
SLOW_RECORDS = 20_000
LATENCY = 0.05
SECONDS = 7_200
OURS = "this provider"
BARE = "requests.Session"
HOOK = "http provider's HttpHook"
ONLY_HTTP = "http.client, only asked"
ONLY_URLLIB3 = "urllib3, only asked"
ONLY_REQUESTS = "requests, only asked"
TOKEN = "token-of-the-benchmark"
# What is asked for: times the processor time of another, and times the time that the service takes.
TO_BARE, TO_HOOK, TO_LATENCY = 0.60, 0.35, 1.03
PARTS = ("compare", "grow", "wait")


def ours(base: str, file: Path) -> None:
    """Export with the operator."""
    from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator

    connection = {"conn_type": "mediaops_video", "host": base, "password": TOKEN}
    os.environ["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"] = json.dumps(connection)
    ExportSubscriptionsOperator(task_id="export", destination=str(file), mine=True).execute({})


def bare(base: str, file: Path) -> None:
    """Export with a loop over a session."""
    import requests

    params = {"part": "id,snippet,contentDetails", "mine": "true", "maxResults": "50", "order": "alphabetical"}
    with requests.Session() as session, file.open("w", encoding="utf-8") as opened:
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        while True:
            reply = session.get(f"{base}/v3/subscriptions", params=params, timeout=60)
            reply.raise_for_status()
            page = json.loads(reply.content)
            for item in page["items"]:
                opened.write(json.dumps(item) + "\n")
            if "nextPageToken" not in page:
                return
            params["pageToken"] = page["nextPageToken"]


def http_hook(base: str, file: Path) -> None:
    """Export with the hook of the http provider."""
    from airflow.providers.http.hooks.http import HttpHook

    os.environ["AIRFLOW_CONN_PLATFORM"] = json.dumps({"conn_type": "http", "host": base})
    params = {"part": "id,snippet,contentDetails", "mine": "true", "maxResults": "50", "order": "alphabetical"}
    headers = {"Authorization": f"Bearer {TOKEN}"}
    hook = HttpHook("GET", http_conn_id="platform")
    with file.open("w", encoding="utf-8") as opened:
        while True:
            page = json.loads(hook.run("v3/subscriptions", data=params, headers=headers).content)
            for item in page["items"]:
                opened.write(json.dumps(item) + "\n")
            if "nextPageToken" not in page:
                return
            params["pageToken"] = page["nextPageToken"]


def google_client(base: str, file: Path) -> None:
    """Export with google-api-python-client, of a discovery document that holds this one method."""
    import httplib2
    from googleapiclient.discovery import build_from_document

    texts = ("part", "order", "pageToken")
    parameters = {name: {"type": "string", "location": "query"} for name in texts}
    parameters |= {
        "mine": {"type": "boolean", "location": "query"},
        "maxResults": {"type": "integer", "location": "query"},
    }
    method = {
        "id": "video.subscriptions.list",
        "path": "v3/subscriptions",
        "httpMethod": "GET",
        "parameters": parameters,
    }
    document = {
        "name": "video",
        "version": "v3",
        "rootUrl": f"{base}/",
        "servicePath": "",
        "baseUrl": f"{base}/",
        "resources": {"subscriptions": {"methods": {"list": {**method, "response": {"$ref": "Page"}}}}},
        "schemas": {"Page": {"id": "Page", "type": "object", "properties": {"nextPageToken": {"type": "string"}}}},
    }
    listing = build_from_document(document, http=httplib2.Http()).subscriptions()
    part = "id,snippet,contentDetails"
    request = listing.list(part=part, mine=True, maxResults=50, order="alphabetical")
    with file.open("w", encoding="utf-8") as opened:
        while request is not None:
            request.headers["Authorization"] = f"Bearer {TOKEN}"
            page = request.execute()
            for item in page["items"]:
                opened.write(json.dumps(item) + "\n")
            request = listing.list_next(request, page)


def only_http(base: str, file: Path) -> None:
    """Ask with the library that comes with Python."""
    from http.client import HTTPConnection

    connection = HTTPConnection(base.removeprefix("http://"), timeout=60)

    def ask(target: str) -> bytes:
        connection.request("GET", target, headers={"Authorization": f"Bearer {TOKEN}"})
        return connection.getresponse().read()

    _only_ask(ask, file)
    connection.close()


def only_urllib3(base: str, file: Path) -> None:
    """Ask with the library beneath requests."""
    import urllib3

    with urllib3.connection_from_url(base, timeout=60, retries=False) as pool:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        _only_ask(lambda target: pool.urlopen("GET", target, headers=headers).data, file)


def only_requests(base: str, file: Path) -> None:
    """Ask with requests."""
    import requests

    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        _only_ask(lambda target: session.get(f"{base}{target}", timeout=60).content, file)


def _only_ask(ask: Callable[[str], bytes], file: Path) -> None:
    target = "/v3/subscriptions?part=id%2Csnippet%2CcontentDetails&mine=true&maxResults=50&order=alphabetical"
    token = b""
    with file.open("wb") as opened:
        while True:
            body = ask(f"{target}&pageToken={token.decode()}" if token else target)
            # As many rows as there are records, which is what the others' files are counted by.
            opened.write(b"\n" * body.count(b'"etag"'))
            token = body.partition(b'"nextPageToken":"')[2].partition(b'"')[0]
            if not token:
                return


CONTENDERS: dict[str, tuple[Callable[[str, Path], None], str]] = {
    OURS: (ours, "airflow_provider_mediaops"),
    BARE: (bare, "requests"),
    HOOK: (http_hook, "airflow.providers.http"),
    "google-api-python-client": (google_client, "googleapiclient"),
    ONLY_REQUESTS: (only_requests, "requests"),
    ONLY_URLLIB3: (only_urllib3, "urllib3"),
    ONLY_HTTP: (only_http, "http.client"),
}


class Figure(NamedTuple):
    """
    What one export took.

    :param cpu: seconds on the processor.
    :param wall: seconds on the clock.
    :param memory: the most memory that it held beyond what an export of one page had taken, in MB.
    """

    cpu: float
    wall: float
    memory: float


def export(name: str, base: str, practice: str, file: Path) -> Figure:
    """Export in this process."""
    run = CONTENDERS[name][0]
    run(practice, file.with_name("practice.jsonl"))
    before = peak_memory_mb()
    wall, cpu = time.perf_counter(), time.process_time()
    run(base, file)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Figure(cpu, wall, peak_memory_mb() - before)


def measure(name: str, servers: tuple[Pages, Pages], records: int) -> Figure:
    """Export in a fresh process, and make sure that all is there."""
    base, practice = (server.base for server in servers)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "out.jsonl")
        arguments = ["--export", name, base, practice, file]
        line = last_line_of(["-m", "tests.benchmarks.bench_export", *arguments], environment(folder), seconds=SECONDS)
        with file.open("rb") as opened:
            rows = sum(1 for _ in opened)
    if rows != records:
        raise RuntimeError(f"The export by {name} has {rows} rows, not {records}.")
    return Figure(*json.loads(line))


def in_turns(names: Sequence[str], servers: tuple[Pages, Pages], records: int) -> dict[str, list[Figure]]:
    """Measure contenders, each once a round. A practice is part of each process."""
    return in_rounds({name: partial(measure, name, servers, records) for name in names}, ROUNDS, has_practice=False)


def middle(runs: Sequence[Figure]) -> Figure:
    """Give the median of each figure."""
    return Figure(*map(statistics.median, zip(*runs, strict=True)))


def judged(what: str, ratio: float, most: float) -> str:
    """Say how a ratio stands to what is asked for."""
    return f"{what}: {ratio:.3f}x; at most {most:.2f}x is asked for, which {'holds' if ratio <= most else 'is missed'}."


def compare() -> str:
    """Measure all contenders, in turns; give a table."""
    names = [name for name, (_, module) in CONTENDERS.items() if _is_installed(module)]
    with page_server(RECORDS // A_PAGE) as server, page_server(1) as practice:
        figures = in_turns(names, (server, practice), RECORDS)
    lines = [f"{'':26}{'cpu s':>8}{'to bare':>9}{'min':>7}{'max':>7}{'wall s':>8}{'to bare':>9}{'MB':>7}"]
    medians = {name: middle(runs) for name, runs in figures.items()}
    to = medians[BARE]
    for name, (cpu, wall, memory) in medians.items():
        ends = f"{min(run.cpu for run in figures[name]):7.2f}{max(run.cpu for run in figures[name]):7.2f}"
        lines.append(f"{name:26}{cpu:8.2f}{cpu / to.cpu:8.2f}x{ends}{wall:8.2f}{wall / to.wall:8.2f}x{memory:7.1f}")
    for other, most in ((BARE, TO_BARE), (HOOK, TO_HOOK)):
        if other in medians:
            ratio = medians[OURS].cpu / medians[other].cpu
            lines.append(judged(f"Processor time of {OURS}, to that of {other}", ratio, most))
    ours, *peers = names
    limits = {BARE: Limit("at most", TO_BARE, "ratio"), HOOK: Limit("at most", TO_HOOK, "ratio")}
    found = medians[ours]
    rows = [Row("processor time", "s", found.cpu, peer, medians[peer].cpu, limits.get(peer)) for peer in peers]
    rows.append(Row("time", "s", found.wall, BARE, to.wall))
    rows.append(Row("memory, beyond that of one page", "MB", found.memory, BARE, to.memory))
    record("export", rows)
    missing = [name for name in CONTENDERS if name not in names]
    return "\n".join([*lines, *([f"not installed: {', '.join(missing)}"] if missing else [])])


def grow(sizes: Sequence[int]) -> str:
    """Measure how time and memory grow with the records."""
    lines = [f"{'records':>12}{'cpu s':>9}{'wall s':>9}{'MB':>8}{'bytes a record':>16}"]
    figures: dict[str, dict[int, Figure]] = {OURS: {}, BARE: {}}
    for records in sizes:
        for name in (OURS, BARE) if records <= LARGEST_OF_PEER else (OURS,):
            with page_server(records // A_PAGE) as server, page_server(1) as practice:
                figures[name][records] = measure(name, (server, practice), records)
        cpu, wall, memory = figures[OURS][records]
        lines.append(f"{records:12,}{cpu:9.2f}{wall:9.2f}{memory:8.1f}{memory * 2**20 / records:16.1f}")
    record("export_growth", list(_growth(figures)))
    return "\n".join(lines)


def _growth(figures: dict[str, dict[int, Figure]]) -> Iterator[Row]:
    ours, bare = figures[OURS], figures[BARE]
    for what, unit, of in (("processor time", "s", 0), ("memory, beyond that of one page", "MB", 2)):
        for records, figure in ours.items():
            peer_figure = bare[records][of] if records in bare else None
            yield Row(f"{what}, {records:,} records", unit, figure[of], BARE if peer_figure else None, peer_figure)
        if len(ours) > 1:
            exponents = [_exponent({records: figure[of] for records, figure in each.items()}) for each in (ours, bare)]
            yield Row(f"{what} grows with the records to the power of", "", exponents[0], BARE, exponents[1])


def _exponent(points: dict[int, float]) -> float:
    """Fit a power law by least squares of the logarithms; return its exponent."""
    logs = [(math.log(records), math.log(max(figure, 1e-3))) for records, figure in points.items()]
    return statistics.linear_regression(*zip(*logs, strict=True)).slope


def wait() -> str:
    """Measure what is added to the time that the service takes."""
    pages = SLOW_RECORDS // A_PAGE
    lines = [f"{'':26}{'wall s':>8}{'to pages x latency':>20}{'min':>8}{'max':>8}{'more a page':>15}"]
    with page_server(pages, delay=LATENCY) as server, page_server(1) as practice:
        figures = in_turns((OURS, BARE, ONLY_HTTP), (server, practice), SLOW_RECORDS)
    least = pages * LATENCY
    for name, runs in figures.items():
        wall = middle(runs).wall
        ends = f"{min(run.wall for run in runs) / least:8.3f}{max(run.wall for run in runs) / least:8.3f}"
        more = (wall - least) / pages * 1000
        lines.append(f"{name:26}{wall:8.2f}{wall / least:19.3f}x{ends}{more:12.2f} ms")
    limit = Limit("at most", TO_LATENCY * least)
    walls = {name: middle(runs).wall for name, runs in figures.items()}
    record("export_latency", [Row("time", "s", walls[OURS], peer, walls[peer], limit) for peer in (BARE, ONLY_HTTP)])
    return "\n".join(
        [*lines, judged(f"Time of {OURS}, to pages x latency", middle(figures[OURS]).wall / least, TO_LATENCY)]
    )


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def main() -> None:
    """Measure and print; or export once, as one of the processes that this starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS, help="what is measured")
    parser.add_argument("--sizes", type=int, nargs="+", default=GROWING, help="the records of which growth is measured")
    parser.add_argument("--export", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.export:
        name, base, practice, file = arguments.export
        figure = export(name, base, practice, Path(file))
        sys.stdout.write(f"\n{json.dumps(figure)}\n")
        return
    title = f"Export of {RECORDS:,} subscriptions in pages of {A_PAGE} over loopback, median of {ROUNDS}"
    if "compare" in arguments.parts:
        sys.stdout.write(f"{title}\n{compare()}\n\n")
    if "grow" in arguments.parts:
        sys.stdout.write(f"What {OURS} takes, memory beyond that of one page\n{grow(arguments.sizes)}\n\n")
    if "wait" in arguments.parts:
        sys.stdout.write(
            f"{SLOW_RECORDS:,} subscriptions at {LATENCY * 1000:.0f} ms a reply, median of {ROUNDS}\n{wait()}\n"
        )


if __name__ == "__main__":
    main()
