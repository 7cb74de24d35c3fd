"""Stand-ins for what Airflow sends its metrics to: a StatsD server, and a collector of OpenTelemetry."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_SECONDS = 120


@dataclass
class Received:
    """
    What a server has received.

    :param env: the variables by which Airflow sends to it.
    :param values: the sum of each counter and timer, and the last value of each gauge, by name.
    """

    env: dict[str, str]
    values: dict[str, float] = field(default_factory=dict)

    def ours(self) -> dict[str, float]:
        """Return the provider's metrics, without the prefix that Airflow adds."""
        start = "airflow.mediaops."
        return {name.removeprefix(start): value for name, value in self.values.items() if name.startswith(start)}


@contextmanager
def statsd() -> Iterator[Received]:
    """Listen as a StatsD server on a free port of this machine; what was sent until the end is read then."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        # Nobody reads while the other process runs: all of it has to fit.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(0)
        port = listener.getsockname()[1]
        settings = {"STATSD_ON": "True", "STATSD_HOST": "127.0.0.1", "STATSD_PORT": str(port)}
        received = Received(_env(settings))
        try:
            yield received
        finally:
            try:
                while True:
                    name, value, kind = listener.recv(65_536).decode().replace("|", ":").split(":")[:3]
                    before = 0.0 if kind == "g" else received.values.get(name, 0.0)
                    received.values[name] = before + float(value)
            except BlockingIOError:
                pass


@contextmanager
def collector() -> Iterator[Received]:
    """Take what is exported by OTLP over HTTP, on a free port of this machine."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        timeout = _SECONDS

        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        settings = {"OTEL_ON": "True", "OTEL_HOST": "127.0.0.1", "OTEL_PORT": str(server.server_port)}
        received = Received(_env(settings))
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield received
        finally:
            server.shutdown()
            serving.join(_SECONDS)
    for body in bodies:
        received.values.update(_exported(body))


def _exported(body: bytes) -> dict[str, float]:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    values: dict[str, float] = {}
    for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                for point in getattr(metric, kind).data_points:
                    values[metric.name] = point.sum if "histogram" in kind else point.as_int or point.as_double
    return values


def _env(settings: dict[str, str]) -> dict[str, str]:
    return {f"AIRFLOW__METRICS__{name}": value for name, value in settings.items()}
