"""A certificate that the connection shows to a cluster which asks for one: over real TLS, and its files' faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mediaops.exceptions import InvalidConnectionError
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from tests.certificates import Certificate, make_certificate
from tests.unit.hooks.cluster_hook import cpu
from tests.unit.loopback import Loopback, answering
from tests.unit.search_cluster import http, replied, stats

PASSWORD = "the key's own password"


@dataclass
class Files:
    """Files of an authority, of a server and of a client that it has signed."""

    folder: Path
    authority: Certificate
    client: Certificate

    def write(self, name: str, content: bytes) -> str:
        file = self.folder / name
        file.write_bytes(content)
        return str(file)

    def fields(self, **changes: Any) -> dict[str, Any]:
        return {
            "ca_cert": str(self.folder / "authority.pem"),
            "client_cert": str(self.folder / "client.pem"),
            "client_key": str(self.folder / "client.key"),
            **changes,
        }


@pytest.fixture
def files(tmp_path: Path) -> Files:
    authority = make_certificate("authority")
    files = Files(tmp_path, authority, make_certificate("airflow", authority))
    server = make_certificate("node", authority)
    files.write("authority.pem", authority.pem)
    files.write("server.pem", server.key_pem + server.pem)
    files.write("client.pem", files.client.pem)
    files.write("client.key", files.client.key_pem)
    return files


@pytest.fixture
def server(files: Files) -> Iterator[Loopback]:
    serve = answering(http(replied(stats({"a": 1}))))
    with Loopback(serve, files.folder / "server.pem", files.folder / "authority.pem") as server:
        yield server


def refusal() -> str:
    with SearchClusterHook() as hook, pytest.raises(InvalidConnectionError) as caught:
        hook.cpu()
    assert PASSWORD not in caught.value.message
    return caught.value.message


def test_certificate_and_key_are_shown(server: Loopback, files: Files, connect_cluster: Any) -> None:
    connect_cluster(server.base, **files.fields())
    with SearchClusterHook() as hook:
        assert hook.cpu()[0].name == "a"
        hook.cpu()
    assert server.accepted == 1


def test_file_may_hold_both_certificate_and_key(server: Loopback, files: Files, connect_cluster: Any) -> None:
    both = files.write("both.pem", files.client.pem + files.client.key_pem)
    connect_cluster(server.base, **files.fields(client_cert=both, client_key=""))
    assert cpu()


def test_encrypted_key_is_read_with_its_password(
    server: Loopback, files: Files, connect_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked: list[str] = []
    monkeypatch.setattr("airflow_provider_mediaops.hooks.base.mask_secret", masked.append)
    files.write("client.key", files.client.encrypted_key_pem(PASSWORD))
    connect_cluster(server.base, **files.fields(client_key_password=PASSWORD))
    assert cpu()
    assert PASSWORD in masked


def test_renewed_files_are_read_by_the_next_connection(server: Loopback, files: Files, connect_cluster: Any) -> None:
    connect_cluster(server.base, **files.fields())
    with SearchClusterHook() as hook:
        hook.cpu()
        hook.close()
        renewed = make_certificate("airflow", make_certificate("another authority"))
        files.write("client.pem", renewed.pem)
        files.write("client.key", renewed.key_pem)
        with pytest.raises(
            InvalidConnectionError, match="the server refuses the certificate of the client, client_cert"
        ):
            hook.cpu()


def test_other_sessions_of_the_process_show_no_certificate(
    server: Loopback, files: Files, connect_cluster: Any
) -> None:
    connect_cluster(server.base, **files.fields())
    with SearchClusterHook() as hook:
        assert hook.cpu()
        connect_cluster(server.base, ca_cert=files.fields()["ca_cert"])
        assert "client_cert, or asks for one" in refusal()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"client_cert": "/nowhere/client.pem"}, "'client_cert': /nowhere/client.pem with the key in"),
        (
            {"client_key": "/nowhere/x.key"},
            "the key in /nowhere/x.key cannot be used on this machine (No such file",
        ),
        ({"client_cert": "damaged.pem"}, "'client_cert': damaged.pem with the key in"),
        (
            {"client_cert": "client.pem", "client_key": ""},
            "client.pem with the key in client.pem cannot",
        ),
        ({"client_cert": ""}, "'client_cert': it is empty, but its key or password is filled in"),
        ({"client_key": "other.key"}, "(KEY_VALUES_MISMATCH). Both must be files in PEM, the key must belong to the"),
        ({"client_key": "encrypted.key"}, "if it is encrypted, client_key_password must be its password"),
        ({"client_key": "encrypted.key", "client_key_password": "another password"}, "client_key_password must be its"),
    ],
)
def test_file_that_cannot_be_used_is_named_and_nobody_asked(
    changes: dict[str, str], words: str, files: Files, connect_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files.folder)
    files.write("other.key", files.authority.key_pem)
    files.write("encrypted.key", files.client.encrypted_key_pem(PASSWORD))
    files.write("damaged.pem", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    connect_cluster("https://host.example", **files.fields(**changes))
    assert words in refusal()
