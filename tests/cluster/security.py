"""One real node with users and passwords: Elasticsearch, or OpenSearch with its security plugin, over plain HTTP."""

from __future__ import annotations

import datetime as dt
import os
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from tests.cluster.artifacts import FOLDER, class_path, fitting_jdk, secured_zip

from airflow_provider_mediaops.sandbox.cluster.routes import GUEST_LOGIN, LOGIN, PASSWORD
from tests.cluster.nodes import HEAP, START_SECONDS, listening_address, running_process
from tests.cluster.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

NODE_NAME = "node-1"
# The bcrypt hashes of the sandbox's invented passwords: both users exist on the real nodes, too.
PASSWORD_HASH = "$2a$10$sandboxsandboxsandboxOZ2aKoGx2pGSVhwsWef8MWfxTjM/UFsu"
GUEST_PASSWORD_HASH = "$2a$10$sandboxsandboxsandboxO/Ct5VW3JreCE23fNsvQRF2/lfNua8XW"
NOBODY = 65534
SETTINGS = {
    "node.name": NODE_NAME,
    "node.attr.zone": "north",
    "network.host": "127.0.0.1",
    "discovery.type": "single-node",
    "http.port": "0",
    "transport.port": "0",
    "node.portsfile": "true",
    # A machine's nearly full disk is no concern of these tests.
    "cluster.routing.allocation.disk.threshold_enabled": "false",
}
OPENSEARCH_SETTINGS = {
    "plugins.security.ssl.transport.pemcert_filepath": "node.pem",
    "plugins.security.ssl.transport.pemkey_filepath": "node.key",
    "plugins.security.ssl.transport.pemtrustedcas_filepath": "node.pem",
    "plugins.security.ssl.transport.enforce_hostname_verification": "false",
    "plugins.security.ssl.http.enabled": "false",
    "plugins.security.allow_default_init_securityindex": "true",
    "plugins.security.audit.type": "noop",
    "plugins.security.nodes_dn": "CN=node",
    "plugins.security.authcz.admin_dn": "CN=admin",
}
ELASTICSEARCH_SETTINGS = {
    "xpack.security.enabled": "true",
    "xpack.security.autoconfiguration.enabled": "false",
    "xpack.security.http.ssl.enabled": "false",
    "xpack.security.transport.ssl.enabled": "false",
}
# Elasticsearch leaves its standard input alone. This ends it where the input ends, as Node.java does.
UNTIL_INPUT_ENDS = '"$@" </dev/null & node=$!; cat >/dev/null; kill "$node"; wait "$node"'


@contextmanager
def running_secured_node(release: str) -> Iterator[str]:
    """Start a node whose users are the sandbox's operator and guest, and stop it at the end.

    :param release: one of :data:`tests.cluster.artifacts.SECURED`
    :returns: its base address
    :raises UnavailableError: this machine cannot start it
    :raises RuntimeError: the node ended while starting; the end of its log is in the message
    :raises TimeoutError: the node did not answer in time
    """
    start = _elasticsearch if release.startswith("elasticsearch") else _opensearch
    with tempfile.TemporaryDirectory(prefix=f"{release}-") as scratch, start(release, Path(scratch)) as url:
        wait_for(
            "an answer to the operator",
            lambda: requests.get(f"{url}/_nodes/stats/os", auth=(LOGIN, PASSWORD), timeout=60).status_code,
            lambda status: status == requests.codes.ok,
            within=START_SECONDS,
        )
        yield url


@contextmanager
def _opensearch(release: str, scratch: Path) -> Iterator[str]:
    jdk = fitting_jdk(release)
    jars = class_path(release, jdk)
    plugin, home = scratch / "plugin", scratch / "home"
    config = home / "node_1" / "config"
    with zipfile.ZipFile(secured_zip(release, jdk)) as archive:
        archive.extractall(plugin)
    config.mkdir(parents=True)
    security = (plugin / "config").rename(config / "opensearch-security")
    (security / "internal_users.yml").write_text(
        "_meta: {type: internalusers, config_version: 2}\n"
        f"{LOGIN}: {{hash: {PASSWORD_HASH}, backend_roles: [admin]}}\n"
        f"{GUEST_LOGIN}: {{hash: {GUEST_PASSWORD_HASH}}}\n",
        encoding="utf-8",
    )
    _write_certificate(config)
    command = [str(jdk.home / "bin" / "java"), f"-Xmx{HEAP}", f"-Djava.io.tmpdir={scratch}"]
    command += ["-Dnode.plugin=org.opensearch.security.OpenSearchSecurityPlugin", "-cp", f"{jars}:{plugin}/*"]
    command += [str(FOLDER / "Node.java"), str(home)]
    command += [f"{name}={value}" for name, value in {**SETTINGS, **OPENSEARCH_SETTINGS}.items()]
    with running_process(command, scratch / "output.log") as process:
        yield f"http://{listening_address(home / 'node_1' / 'logs' / 'http.ports', process)}"


@contextmanager
def _elasticsearch(release: str, scratch: Path) -> Iterator[str]:
    jdk = fitting_jdk(release)
    home = _unpacked(secured_zip(release, jdk), scratch)
    settings = {**SETTINGS, **ELASTICSEARCH_SETTINGS}
    files = {
        "elasticsearch.yml": "".join(f"{name}: {value}\n" for name, value in settings.items()),
        "users": f"{LOGIN}:{PASSWORD_HASH}\n{GUEST_LOGIN}:{GUEST_PASSWORD_HASH}\n",
        "users_roles": f"superuser:{LOGIN}\n",
    }
    for name, text in files.items():
        (home / "config" / name).write_text(text, encoding="utf-8")
    environment = {
        **os.environ,
        "ES_JAVA_HOME": str(jdk.home),
        "ES_JAVA_OPTS": f"-Xms{HEAP} -Xmx{HEAP}",
        "ES_TMPDIR": str(scratch / "tmp"),
        "HOME": str(scratch),
    }
    (scratch / "tmp").mkdir()
    command = ["bash", "-c", UNTIL_INPUT_ENDS, "node", str(home / "bin" / "elasticsearch")]
    # Elasticsearch refuses to run as root.
    account = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    if account:
        for path in (scratch, *scratch.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    with running_process(command, scratch / "output.log", env=environment, cwd=home, **account) as process:
        yield f"http://{listening_address(home / 'logs' / 'http.ports', process)}"


def _unpacked(file: Path, folder: Path) -> Path:
    """Unpack a distribution with the permissions of its programs, and return its one folder."""
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            path = Path(archive.extract(entry, folder))
            if not entry.is_dir():
                path.chmod(entry.external_attr >> 16 & 0o777 or 0o644)
    [home] = folder.iterdir()
    return home


def _write_certificate(folder: Path) -> None:
    """Write the certificate with which the nodes of an OpenSearch cluster know each other."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node")])
    now = dt.datetime.now(dt.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "node.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "node.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
