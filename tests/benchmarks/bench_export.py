"""
What an export of subscriptions takes: our operator, with its checkpoints, beside what one would write without it.

Each figure is of a fresh process against a server of its own process that has its pages ready; the contenders take
turns, so that a busy moment of the machine does not fall on one of them alone. Run by `make benchmarks`, or
`python -m tests.benchmarks.bench_export`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.page_server import A_PAGE, page_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.page_server import Pages

ROUNDS = 5
RECORDS = 100_000
GROWING = (10_000, 100_000, 1_000_000)
SLOW_RECORDS = 20_000
LATENCY = 0.05
SECONDS = 900
OURS = "this provider"
BARE = "requests.Session"
HOOK = "http provider's HttpHook"
TOKEN = "token-of-the-benchmark"


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


CONTENDERS: dict[str, tuple[Callable[[str, Path], None], str]] = {
    OURS: (ours, "airflow_provider_mediaops"),
    BARE: (bare, "requests"),
    HOOK: (http_hook, "airflow.providers.http"),
    "google-api-python-client": (google_client, "googleapiclient"),
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
    """
    Export in this process.

    :param name: the contender.
    :param base: the server.
    :param practice: a server of one page; an export of it imports what is needed.
    :param file: where the records go.
    """
    run = CONTENDERS[name][0]
    run(practice, file.with_name("practice.jsonl"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    run(base, file)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Figure(cpu, wall, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def measure(name: str, servers: tuple[Pages, Pages], records: int) -> Figure:
    """Export in a fresh process, and make sure that all is there."""
    base, practice = (server.base for server in servers)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW_")}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "out.jsonl")
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.bench_export", name, base, practice, str(file)],
            env={**clean, "AIRFLOW_HOME": folder, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"The export by {name} failed:\n{done.stderr}")
        with file.open("rb") as opened:
            rows = sum(1 for _ in opened)
    if rows != records:
        raise RuntimeError(f"The export by {name} has {rows} rows, not {records}.")
    return Figure(*json.loads(done.stdout.splitlines()[-1]))


def compare() -> str:
    """Measure all contenders, in turns; give a table."""
    names = [name for name, (_, module) in CONTENDERS.items() if _is_installed(module)]
    figures: dict[str, list[Figure]] = {name: [] for name in names}
    with page_server(RECORDS // A_PAGE) as server, page_server(1) as practice:
        for _ in range(ROUNDS):
            for name in names:
                figures[name].append(measure(name, (server, practice), RECORDS))
    lines = [f"{'':26}{'cpu s':>8}{'to bare':>9}{'min':>7}{'max':>7}{'wall s':>8}{'to bare':>9}{'MB':>7}"]
    bare_cpu, bare_wall = (statistics.median(run[place] for run in figures[BARE]) for place in (0, 1))
    for name, runs in figures.items():
        cpu, wall, memory = (statistics.median(run[place] for run in runs) for place in range(3))
        ends = f"{min(run.cpu for run in runs):7.2f}{max(run.cpu for run in runs):7.2f}"
        lines.append(f"{name:26}{cpu:8.2f}{cpu / bare_cpu:8.2f}x{ends}{wall:8.2f}{wall / bare_wall:8.2f}x{memory:7.1f}")
    if HOOK in figures:
        ratio = statistics.median(run.cpu for run in figures[OURS]) / statistics.median(
            run.cpu for run in figures[HOOK]
        )
        lines.append(f"{OURS} takes {ratio:.2f} times the processor time of {HOOK}.")
    missing = [name for name in CONTENDERS if name not in names]
    return "\n".join([*lines, *([f"not installed: {', '.join(missing)}"] if missing else [])])


def grow() -> str:
    """Measure how memory grows with the records."""
    lines = [f"{'records':>12}{'MB':>8}{'bytes a record':>16}"]
    for records in GROWING:
        with page_server(records // A_PAGE) as server, page_server(1) as practice:
            figure = measure(OURS, (server, practice), records)
        lines.append(f"{records:12,}{figure.memory:8.1f}{figure.memory * 2**20 / records:16.1f}")
    return "\n".join(lines)


def wait() -> str:
    """Measure what is added to the time that the service takes."""
    pages = SLOW_RECORDS // A_PAGE
    lines = [f"{'':26}{'wall s':>8}{'to pages x latency':>20}"]
    with page_server(pages, delay=LATENCY) as server, page_server(1) as practice:
        for name in (OURS, BARE):
            wall = measure(name, (server, practice), SLOW_RECORDS).wall
            lines.append(f"{name:26}{wall:8.2f}{wall / (pages * LATENCY):19.3f}x")
    return "\n".join(lines)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def main() -> None:
    """Measure and print; or export once, as one of the processes that this starts."""
    if len(sys.argv) > 1:
        name, base, practice, file = sys.argv[1:]
        figure = export(name, base, practice, Path(file))
        sys.stdout.write(f"\n{json.dumps(figure)}\n")
        return
    title = f"Export of {RECORDS:,} subscriptions in pages of {A_PAGE} over loopback, median of {ROUNDS}"
    sys.stdout.write(f"{title}\n{compare()}\n\n")
    sys.stdout.write(f"The most memory of {OURS}, beyond that of one page\n{grow()}\n\n")
    sys.stdout.write(f"{SLOW_RECORDS:,} subscriptions at {LATENCY * 1000:.0f} ms a reply\n{wait()}\n")


if __name__ == "__main__":
    main()
