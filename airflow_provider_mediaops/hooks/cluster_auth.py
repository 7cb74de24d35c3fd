"""
Read what only a connection to a search cluster has, or raise InvalidConnectionError.

Hosted addresses, keys as people paste them, a client certificate, and the signatures of Amazon OpenSearch Service.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_mediaops.cluster.errors import AWS_TOKEN_EXPIRED
from airflow_provider_mediaops.exceptions import AuthenticationError, ConnectionFailedError, MediaOpsError
from airflow_provider_mediaops.http.auth import Auth
from airflow_provider_mediaops.http.exchange import Blocking
from airflow_provider_mediaops.http.reply import plain_text
from airflow_provider_mediaops.http.settings import ClientCertificate
from airflow_provider_mediaops.version_compat import AirflowNotFoundException

if TYPE_CHECKING:
    from airflow_provider_mediaops.hooks.connection import ConnectionFields
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow, Request

# A pattern of the end of each host name of Amazon's.
_OF_AMAZON = r"\.(?:amazonaws\.com|on\.aws|amazonaws\.com\.cn|on\.amazonwebservices\.com\.cn)"
_SERVERLESS = re.compile(rf".*\.aoss(?:\.[a-z0-9-]+)?{_OF_AMAZON}")
_CLOUD_ID = re.compile(
    r"(?P<domain>[\w.-]+)(:(?P<port>\d{1,5}))?\$(?P<cluster>[\w.-]+)(:(?P<own_port>\d{1,5}))?(\$|$)", re.ASCII
)
_API_KEY = "the API key, as encoded or as id:api_key, with auth=api_key"
# The signing name of the service: also that of domains with OpenSearch.
_SERVICE = "es"
_REGION_IN_HOST = re.compile(rf".*\.(?:([a-z0-9-]+)\.es|aos\.([a-z0-9-]+)){_OF_AMAZON}")
_FAILING = 500
_THROTTLED = frozenset({"Throttling", "ThrottlingException", "RequestLimitExceeded"})


def with_cloud_address(fields: ConnectionFields) -> ConnectionFields:
    """
    Return the fields with the address that the cloud id stands for; unchanged if there is none.

    A cloud id is ``name:`` and, in base64, ``domain[:port]$cluster[:port]$kibana[:port]``.
    """
    cloud_id = fields.text("cloud_id")
    if not cloud_id:
        return fields
    if fields.host:
        raise fields.error("cloud_id", "host is filled in, too, and both name the cluster: leave one of them empty.")
    found = _CLOUD_ID.match(_decoded(cloud_id.rpartition(":")[2]))
    if not found:
        raise fields.error(
            "cloud_id",
            "it is damaged: copy it whole from the deployment's page of Elastic Cloud, for example "
            "'my-deployment:ZXVyb3BlLXdlc3QxLmdjcC5jbG91ZC5lcy5pbyRhYmM…'.",
        )
    # The port of the cluster itself wins.
    port = found["own_port"] or found["port"] or "443"
    return replace(fields, host=f"https://{found['cluster']}.{found['domain']}:{port}")


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("ascii")
    except ValueError:
        return ""


def refuse_serverless(fields: ConnectionFields, urls: tuple[str, ...]) -> None:
    """Make sure that no address is one of Amazon OpenSearch Serverless, which has no routes for nodes."""
    if any(_SERVERLESS.fullmatch(urlsplit(url).hostname or "") for url in urls):
        raise fields.error(
            "host",
            "it is that of Amazon OpenSearch Serverless, which has no nodes that could be asked: hot threads and "
            "statistics need a domain of Amazon OpenSearch Service.",
        )


def api_key(fields: ConnectionFields) -> str:
    """
    Return the encoded form of the API key in the password.

    It may be pasted encoded, as ``id:api_key``, as the JSON of the reply that made it, or with ``ApiKey`` before it.
    """
    key = _without_scheme(fields.password, "ApiKey")
    if key.lstrip().startswith("{"):
        key = _key_in_json(fields, key)
    elif ":" in key:
        # Base64 has no colon.
        key = base64.b64encode(key.encode()).decode("ascii")
    return replace(fields, password=key).credential(_API_KEY)


def api_key_secrets(given: str, encoded: str) -> tuple[str, ...]:
    """Return what a reply may echo of an API key: as it is sent, as it was given, and the part after the id."""
    after_id = _decoded(encoded).partition(":")[2]
    return tuple(dict.fromkeys(filter(None, (encoded, given, after_id))))


def bearer_token(fields: ConnectionFields) -> str:
    """Return the token in the password, without ``Bearer`` before it."""
    token = _without_scheme(fields.password, "Bearer")
    return replace(fields, password=token).credential("the token, with auth=bearer")


def _without_scheme(text: str, scheme: str) -> str:
    first, blank, rest = text.partition(" ")
    return rest.strip() if blank and first.lower() == scheme.lower() else text


def _key_in_json(fields: ConnectionFields, text: str) -> str:
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):
        reply = {}
    if isinstance(encoded := reply.get("encoded"), str):
        return encoded
    parts = reply.get("id"), reply.get("api_key")
    if not all(isinstance(part, str) and part for part in parts):
        raise fields.error(
            "password", f"it begins like JSON, but has neither encoded nor id and api_key: write {_API_KEY}."
        )
    return base64.b64encode(":".join(parts).encode()).decode("ascii")


def client_certificate(fields: ConnectionFields) -> ClientCertificate | None:
    """Return the certificate that the connection names, whose files have been tried."""
    certificate, key = fields.text("client_cert"), fields.text("client_key")
    password = str(fields.extra.get("client_key_password") or "")
    if not certificate:
        if key or password:
            raise fields.error(
                "client_cert", "it is empty, but its key or password is filled in; write the path of the certificate."
            )
        return None
    shown = ClientCertificate(certificate, key or certificate, password)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(shown.certificate, shown.key, password)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
        raise fields.error(
            "client_cert",
            f"{shown.certificate} with the key in {shown.key} cannot be used on this machine ({reason}). Both must be "
            "files in PEM, the key must belong to the certificate, and if it is encrypted, client_key_password must be "
            "its password.",
        ) from None
    return shown


def _region_in(url: str) -> str:
    found = _REGION_IN_HOST.fullmatch(urlsplit(url).hostname or "")
    return (found[1] or found[2]) if found else ""


@dataclass(slots=True, kw_only=True)
class AwsAuth(Auth):
    """
    Signatures (Signature Version 4) with the credentials of an AWS connection, made anew for each try of a request.

    The Amazon provider makes a session of the AWS connection. botocore keeps the session's credentials, fetches them
    anew before they expire, and signs. Besides method, path, query and body, only the host and Amazon's own headers are
    signed: proxies change others.
    """

    fields: ConnectionFields
    # Called with each new secret before it is used, so that the log can mask it; it may block.
    on_secret: Callable[[str], None] = field(repr=False)
    _credentials: Any = field(default=None, init=False, repr=False)
    # The credentials at one time, with those of which the last request was signed.
    _frozen: Any = field(default=None, init=False, repr=False)
    _region_of_session: str = field(default="", init=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def prepare(self, send: Ask) -> CallFlow[None]:
        """Take the credentials that hold now: botocore may fetch new ones, which blocks."""
        yield Blocking(self._freeze)

    def invalidate(self, refused: Request, error: AuthenticationError) -> bool:
        """Drop a session whose credentials were over before their time, unless another call has new ones since."""
        if AWS_TOKEN_EXPIRED not in error.message:
            return False
        with self._lock:
            if refused.headers.get("X-Amz-Security-Token") == self._frozen.token:
                self._credentials = None
        return True

    def sign(self, request: Request) -> Request:
        """Return the request with Amazon's headers."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        from airflow_provider_mediaops.http.transport import normalized_address

        region = self.fields.text("region") or _region_in(request.base) or self._region_of_session
        if not region:
            raise self.fields.error(
                "region", "it is empty, and neither the base address nor the AWS connection names the domain's region."
            )
        digest = sha256(request.body or b"").hexdigest()
        # What the transport sends.
        url = normalized_address(request.base) + request.url.removeprefix(request.base)
        signed = AWSRequest(request.method, url, {"X-Amz-Content-SHA256": digest}, request.body)
        SigV4Auth(self._frozen, _SERVICE, region).add_auth(signed)
        return replace(request, headers={**request.headers, **dict(signed.headers.items())})

    def _freeze(self) -> None:
        with self._lock:
            try:
                self._credentials = self._credentials or self._credentials_of_session()
                frozen = self._credentials.get_frozen_credentials()
            except MediaOpsError:
                raise
            except Exception as error:  # noqa: BLE001 botocore, boto3 and the provider have no common class
                raise self._failure(error) from None
            secrets = tuple(filter(None, (frozen.secret_key, frozen.token)))
            for secret in secrets:
                if secret not in self.secrets:
                    self.on_secret(secret)
            self._frozen, self.secrets = frozen, secrets

    def _credentials_of_session(self) -> Any:
        conn_id = self.fields.text("aws_conn_id") or None
        try:
            from airflow.providers.amazon.aws.hooks.base_aws import AwsGenericHook
        except ModuleNotFoundError:
            raise self.fields.error(
                "auth",
                "aws needs the package apache-airflow-providers-amazon: install this provider's extra 'aws' on every "
                "worker and triggerer.",
            ) from None
        if conn_id:
            # The Amazon provider would fall back to the machine's own credentials, and only warn.
            try:
                AwsGenericHook.get_connection(conn_id)
            except AirflowNotFoundException:
                raise self.fields.error(
                    "aws_conn_id",
                    f"there is no connection {conn_id!r}. Create one of type aws; or leave the field empty to use the "
                    "credentials of the machine.",
                ) from None
        session = AwsGenericHook(aws_conn_id=conn_id).get_session()
        credentials = session.get_credentials()
        if credentials is None:
            owner = f"the AWS connection {conn_id!r}" if conn_id else "this machine"
            raise self.fields.error("aws_conn_id", f"{owner} has no AWS credentials.")
        self._region_of_session = session.region_name or ""
        return credentials

    def _failure(self, error: Exception) -> MediaOpsError:
        said = f"{type(error).__name__}: {plain_text(str(error), self.secrets)}"
        problem = f"Connection {self.fields.conn_id!r}, field 'aws_conn_id': AWS gives no credentials: {said}"
        return (ConnectionFailedError if _is_temporary(error) else AuthenticationError)(problem)


def _is_temporary(error: Exception) -> bool:
    from botocore import exceptions as of_aws

    if isinstance(error, of_aws.ClientError):
        reply = error.response
        status = reply.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status >= _FAILING or reply.get("Error", {}).get("Code") in _THROTTLED
    no_reply = (of_aws.ConnectionError, of_aws.HTTPClientError)
    return isinstance(error, (*no_reply, of_aws.CredentialRetrievalError, of_aws.MetadataRetrievalError))
