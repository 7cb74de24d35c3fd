"""``python -m airflow_provider_mediaops.sandbox``: run the sandbox until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading
from typing import get_args

from pydantic import ValidationError

from airflow_provider_mediaops.sandbox.server import SandboxServer, VideoAuth
from airflow_provider_mediaops.sandbox.state import Settings

_LAST_PORT = 65_535


def main(arguments: list[str] | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM, with the lines that Airflow needs on the standard output; return the exit code."""
    parser = _parser()
    options = vars(parser.parse_args(arguments))
    host, port, video_auth = options.pop("host"), options.pop("port"), options.pop("video_auth")
    try:
        settings = Settings.model_validate(options)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        parser.error(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}")
    if not 0 <= port <= _LAST_PORT:
        parser.error(f"--port: {port} is not a port; choose one from 0 to {_LAST_PORT}")
    stop = threading.Event()
    try:
        with SandboxServer(host=host, port=port, settings=settings) as server:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: stop.set())
            for name, connection in server.connections(video_auth=video_auth).items():
                print(f"export {name}={shlex.quote(connection)}")
            sys.stdout.flush()
            print(f"The sandbox's manual is at {server.url}/docs. Stop it with Ctrl-C.", file=sys.stderr)
            stop.wait()
    except OSError as error:
        print(f"Cannot listen on {host} port {port}: {error.strerror}. Choose another --port.", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_mediaops.sandbox",
        description="A stand-in for the video platform, the search cluster and the book database, on one port. "
        "It prints the connections to use it as shell commands.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8900, help="port to listen on; 0 picks a free one")
    parser.add_argument(
        "--video-auth", choices=get_args(VideoAuth), default="bearer", help="kind of the printed video connection"
    )
    for name, field in Settings.model_fields.items():
        parser.add_argument(f"--{name.replace('_', '-')}", default=field.default, help=field.description)
    return parser


if __name__ == "__main__":
    sys.exit(main())
