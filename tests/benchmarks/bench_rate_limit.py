"""
One rate for a thousand callers in made-up time: how much of it they use, how fairly, and whether the service refuses.

The service admits so many requests in any second, strictly, and refuses the rest. Beside that, what a reservation costs
in each back end. `tests/soak` and `tests/distributed` have real processes. Run by `make benchmarks`, or `python -m
tests.benchmarks.bench_rate_limit`.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.http.rate_limit.backend import backend_at
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
from airflow_provider_mediaops.http.runner import run
from tests.benchmarks.results import Limit, Row, record
from tests.redis_server import PROGRAM, running_redis
from tests.unit.http.rate_limit.callers import World

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Request, Response

LEAST_USED = 96.5
LEAST_SHARE, MOST_SHARE = 60.0, 140.0
RESERVATIONS = 2_000


def cost_of(address: str) -> float:
    """Return the median time of a reservation in this process, in milliseconds."""
    limiter = limiter_for("cost", f"key {time.time()}", 1e6, backend_at(address))
    taken = []
    for _ in range(RESERVATIONS):
        start = time.perf_counter()
        run(limiter.acquire(), _send_nothing, lambda wait: time.sleep(wait.seconds))
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken[10:])


def _send_nothing(request: Request) -> Response:
    raise AssertionError(request)


def measure_costs() -> None:
    """Measure what a reservation costs in each back end."""
    with tempfile.TemporaryDirectory() as folder:
        costs = {"sqlite": cost_of(f"sqlite:///{folder}/rates.db")}
        if PROGRAM:
            with running_redis(Path(folder)) as server:
                costs["redis"] = cost_of(server.url)
    record("rate_limit", [Row(f"a reservation in {kind}, median", "ms", cost) for kind, cost in costs.items()])


def measure_made_up() -> None:
    """Measure a thousand callers in made-up time, each of whom has four turns."""
    world = World(5, 1_000, often=0.05, longer=0.01).run(820.0)
    shares = [100 * share for share in world.shares()]
    used = Row("rate used", "%", 100 * world.used(), limit=Limit("at least", LEAST_USED))
    refused = Row("refused", "requests", len(world.refused), limit=Limit("at most", 0))
    least = Row("least share", "%", min(shares), limit=Limit("at least", LEAST_SHARE))
    most = Row("largest share", "%", max(shares), limit=Limit("at most", MOST_SHARE))
    asked = Row("updates of the back end, for each request", "", world.backend.asked / len(world.sent))
    record("rate_limit_made_up", [used, refused, least, most, asked])


if __name__ == "__main__":
    measure_made_up()
    measure_costs()
