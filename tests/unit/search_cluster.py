"""What a search cluster says, in the shapes of OpenSearch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from airflow_provider_mediaops.http.exchange import Response
from tests.unit.loopback import http_reply

#: The address of the heap, collectors and thread pools of any nodes.
COUNTERS = re.compile(r"/stats/os,jvm,thread_pool$")


def node_id(name: str) -> str:
    """Give the invented id of a node."""
    return f"id_of_{name}".ljust(22, "0")


def report(*names: str, share: float = 97.5) -> str:
    """Give a hot-threads report with one thread a node."""
    return "".join(
        f"::: {{{name}}}{{{node_id(name)}}}{{ephemeral}}{{{name}.example}}{{10.0.0.1:9300}}{{dimr}}{{zone=a}}\n"
        "   Hot threads at 2026-03-14T20:00:00.000Z, interval=500ms, busiestThreads=3, ignoreIdleThreads=true:\n"
        "   \n"
        f"   {share}% (487.5ms out of 500ms) cpu usage by thread 'opensearch[{name}][search][T#1]'\n"
        "     10/10 snapshots sharing following 2 elements\n"
        "       org.example.Search.run(Search.java:12)\n"
        "       java.lang.Thread.run(Thread.java:833)\n"
        "\n"
        for name in names
    )


def stats(cpu: Mapping[str, float | None], *, failures: tuple[str, ...] = ()) -> dict[str, Any]:
    """Give node statistics: the CPU by the node's name; None for a node that does not tell."""
    return {
        "_nodes": {
            "total": len(cpu) + len(failures),
            "successful": len(cpu),
            "failed": len(failures),
            "failures": [{"type": "failed_node_exception", "reason": reason} for reason in failures],
        },
        "cluster_name": "docs",
        "nodes": {
            node_id(name): {
                "name": name,
                "host": f"{name}.example",
                "ip": "10.0.0.1:9300",
                "roles": ["data", "ingest"],
                "os": {"cpu": {"percent": -1 if percent is None else percent}},
            }
            for name, percent in cpu.items()
        },
    }


def error(status: int, type_: str, reason: str) -> dict[str, Any]:
    """Give the body of a refusal."""
    cause = {"type": type_, "reason": reason}
    return {"error": {"root_cause": [cause], **cause}, "status": status}


def replied(body: Mapping[str, Any] | str | bytes, status: int = 200, **headers: str) -> Response:
    """Give a reply."""
    if isinstance(body, (str, bytes)):
        return Response(status, headers, body.encode() if isinstance(body, str) else body)
    return Response(status, {"content-type": "application/json", **headers}, json.dumps(body).encode())


def http(reply: Response) -> bytes:
    """Give a reply as a server sends it."""
    return http_reply(reply.status, reply.body, **dict(reply.headers))


def connection(host: str, **fields: Any) -> str:
    """Give a connection to a cluster as an environment variable holds it; what is given besides goes into extra."""
    own = {name: fields.pop(name) for name in ("login", "password", "schema", "port") if name in fields}
    extra = {"max_attempts": 1, **fields}
    return json.dumps({"conn_type": "mediaops_cluster", "host": host, **own, "extra": extra})
