"""A search cluster at rest, for benchmarks: the statistics of its nodes, as fast as they can be sent."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import urllib.request

NODES = [f"node-{number:02}" for number in range(20)]
_SEEN = "/seen"


def readings_of(address: str) -> list[float]:
    """Ask a cluster when it was asked for statistics, in seconds since 1970."""
    with urllib.request.urlopen(f"{address}{_SEEN}", timeout=10) as reply:  # noqa: S310 it is ours
        times: list[float] = json.load(reply)
        return times


def _node(name: str) -> dict[str, object]:
    milliseconds = int(time.time() * 1000)
    return {
        "timestamp": milliseconds,
        "name": name,
        "transport_address": "10.0.0.1:9300",
        "host": f"{name}.example",
        "ip": "10.0.0.1:9300",
        "roles": ["cluster_manager", "data", "ingest", "remote_cluster_client"],
        "attributes": {"zone": "a", "shard_indexing_pressure_enabled": "true"},
        "os": {
            "timestamp": milliseconds,
            "cpu": {"percent": 7, "load_average": {"1m": 0.4, "5m": 0.5, "15m": 0.4}},
            "mem": {"total_in_bytes": 1 << 34, "free_in_bytes": 1 << 30, "used_percent": 93},
            "swap": {"total_in_bytes": 0, "free_in_bytes": 0, "used_in_bytes": 0},
        },
        "process": {
            "timestamp": milliseconds,
            "open_file_descriptors": 512,
            "cpu": {"percent": 3, "total_in_millis": 123_456},
            "mem": {"total_virtual_in_bytes": 1 << 35},
        },
    }


def _answer(path: str, seen: list[float]) -> object:
    if path == _SEEN:
        return seen
    seen.append(time.time())
    wanted = path.removeprefix("/_nodes").removesuffix("/stats/os,process").strip("/")
    names = [name for name in NODES if not wanted or name in wanted.split(",")]
    return {
        "_nodes": {"total": len(names), "successful": len(names), "failed": 0},
        "cluster_name": "benchmark",
        "nodes": {f"{name}-id".ljust(22, "0"): _node(name) for name in names},
    }


async def _serve() -> None:
    seen: list[float] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readline():
            while (await reader.readline()).strip():
                pass
            body = json.dumps(_answer(head.split()[1].decode(), seen)).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
            writer.write(body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1000)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
