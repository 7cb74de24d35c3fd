"""The users and certificates of the servers that have any, in the form of each product."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_mediaops.sandbox.cluster import GUEST_LOGIN, GUEST_PASSWORD, LOGIN, PASSWORD
from tests.certificates import Certificate, make_certificate

CLIENT_KEY_PASSWORD = "the client's own password"
_ROLES = Path(__file__).parents[2] / "docs" / "snippets" / "roles"
# The bcrypt hashes of the sandbox's invented passwords: the two users of the sandbox exist here, too.
_HASHES = {
    PASSWORD: "$2a$10$sandboxsandboxsandboxOZ2aKoGx2pGSVhwsWef8MWfxTjM/UFsu",
    GUEST_PASSWORD: "$2a$10$sandboxsandboxsandboxO/Ct5VW3JreCE23fNsvQRF2/lfNua8XW",
}


@dataclass(frozen=True)
class User:
    """
    A user of the secured servers.

    :param privileges: the privileges of the user, in the words of the product.
    :param is_admin: whether the user may do everything.
    """

    name: str
    password: str = PASSWORD
    privileges: tuple[str, ...] = ()
    is_admin: bool = False

    @property
    def login(self) -> tuple[str, str]:
        """The name and the password."""
        return self.name, self.password


OPERATOR = User(LOGIN, is_admin=True)
GUEST = User(GUEST_LOGIN, GUEST_PASSWORD)
STATS_ONLY = User("stats-only", privileges=("cluster:monitor/nodes/stats",))
HOT_THREADS_ONLY = User("hot-threads-only", privileges=("cluster:monitor/nodes/hot_threads",))
WITHOUT_TASKS = User("without-tasks", privileges=(*STATS_ONLY.privileges, *HOT_THREADS_ONLY.privileges))
#: Users with the privilege that the hook advises: OpenSearch's and Elasticsearch's.
OPENSEARCH_MONITOR = User("opensearch-monitor", privileges=("cluster_monitor",))
ELASTICSEARCH_MONITOR = User("elasticsearch-monitor", privileges=("monitor",))
_COMMON_USERS = (OPERATOR, GUEST, STATS_ONLY, HOT_THREADS_ONLY, WITHOUT_TASKS)


def _documented(product: str) -> dict[str, Any]:
    """Return the role of docs/security.md for a product."""
    role: dict[str, Any] = json.loads((_ROLES / f"{product}.json").read_text(encoding="utf-8"))
    return role


#: A user with the role of docs/security.md.
DOCUMENTED = User("documented")


class Authority:
    """
    A certificate authority of one cluster.

    :param folder: gets its certificate, and that of a client whose key is there twice: plain and encrypted.
    :param wants_client_certificate: whether the nodes talk only to clients that show a certificate of it.
    """

    def __init__(self, folder: Path, *, wants_client_certificate: bool) -> None:
        self._root = make_certificate("test authority")
        self.wants_client_certificate = wants_client_certificate
        self.file = folder / "authority.pem"
        self.file.write_bytes(self._root.pem)
        self.client, self.client_key, self.encrypted_client_key = (
            folder / name for name in ("client.pem", "client.key", "client-encrypted.key")
        )
        client = make_certificate("airflow", self._root)
        self.client.write_bytes(client.pem)
        self.client_key.write_bytes(client.key_pem)
        self.encrypted_client_key.write_bytes(client.encrypted_key_pem(CLIENT_KEY_PASSWORD))

    def fields(self) -> dict[str, str]:
        """Return the fields of a connection to a node."""
        trusted = {"ca_cert": str(self.file)}
        if not self.wants_client_certificate:
            return trusted
        return {
            **trusted,
            "client_cert": str(self.client),
            "client_key": str(self.encrypted_client_key),
            "client_key_password": CLIENT_KEY_PASSWORD,
        }

    def write_to(self, config: Path) -> None:
        """Write the certificates of a node: one for other nodes, and one for clients."""
        (config / "authority.pem").write_bytes(self._root.pem)
        _write(config, "node", make_certificate("node", self._root))
        _write(config, "http", make_certificate("node", self._root))


def _write(folder: Path, name: str, certificate: Certificate) -> None:
    (folder / f"{name}.pem").write_bytes(certificate.pem)
    (folder / f"{name}.key").write_bytes(certificate.key_pem)


def secure_opensearch(security: Path, authority: Authority) -> dict[str, str]:
    """Write the users of OpenSearch's security plugin; return its settings."""
    users = {
        user.name: {
            "hash": _HASHES[user.password],
            "backend_roles": ["admin"] if user.is_admin else [],
            "opendistro_security_roles": [user.name] if user.privileges or user is DOCUMENTED else [],
        }
        for user in (*_COMMON_USERS, OPENSEARCH_MONITOR, DOCUMENTED)
    }
    head = {"_meta": {"type": "internalusers", "config_version": 2}}
    (security / "internal_users.yml").write_text(json.dumps({**head, **users}), encoding="utf-8")
    with (security / "roles.yml").open("a", encoding="utf-8") as roles:
        for user in (STATS_ONLY, HOT_THREADS_ONLY, WITHOUT_TASKS, OPENSEARCH_MONITOR):
            roles.write(f"\n{user.name}: {json.dumps({'cluster_permissions': user.privileges})}\n")
        roles.write(f"\n{DOCUMENTED.name}: {json.dumps(_documented('opensearch'))}\n")
    settings = {
        "transport.enforce_hostname_verification": "false",
        "http.enabled": "true",
        "http.clientauth_mode": "REQUIRE" if authority.wants_client_certificate else "OPTIONAL",
    }
    for layer, name in (("transport", "node"), ("http", "http")):
        settings |= {
            f"{layer}.pemcert_filepath": f"{name}.pem",
            f"{layer}.pemkey_filepath": f"{name}.key",
            f"{layer}.pemtrustedcas_filepath": "authority.pem",
        }
    return {f"plugins.security.ssl.{name}": value for name, value in settings.items()} | {
        "plugins.security.allow_default_init_securityindex": "true",
        "plugins.security.audit.type": "noop",
        "plugins.security.nodes_dn": "CN=node",
        "plugins.security.authcz.admin_dn": "CN=admin",
    }


def secure_elasticsearch(config: Path, authority: Authority) -> dict[str, str]:
    """Write the users of Elasticsearch; return its settings."""
    users = (*_COMMON_USERS, ELASTICSEARCH_MONITOR, DOCUMENTED)
    roles = {user.name: {"cluster": user.privileges} for user in users if user.privileges}
    roles[DOCUMENTED.name] = _documented("elasticsearch")
    memberships = {OPERATOR.name: "superuser", **{name: name for name in roles}}
    files = {
        "users": "".join(f"{user.name}:{_HASHES[user.password]}\n" for user in users),
        "users_roles": "".join(f"{role}:{name}\n" for name, role in memberships.items()),
        # Elasticsearch splits the file into roles at its lines; JSON is YAML.
        "roles.yml": "".join(f"{name}: {json.dumps(role)}\n" for name, role in roles.items()),
    }
    for name, text in files.items():
        (config / name).write_text(text, encoding="utf-8")
    authentication = "required" if authority.wants_client_certificate else "none"
    settings = {
        "xpack.security.enabled": "true",
        "xpack.security.autoconfiguration.enabled": "false",
        # TLS would turn this on, and the sandbox, which answers alike, speaks none.
        "xpack.security.authc.token.enabled": "false",
        "xpack.security.http.ssl.client_authentication": authentication,
    }
    for layer, name in (("transport", "node"), ("http", "http")):
        settings |= {
            f"xpack.security.{layer}.ssl.enabled": "true",
            f"xpack.security.{layer}.ssl.certificate": f"{name}.pem",
            f"xpack.security.{layer}.ssl.key": f"{name}.key",
            f"xpack.security.{layer}.ssl.certificate_authorities": "authority.pem",
        }
    return settings | {"xpack.security.transport.ssl.verification_mode": "certificate"}
