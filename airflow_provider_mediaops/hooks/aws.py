"""Requests to Amazon OpenSearch Service, signed (Signature Version 4) with the credentials of an AWS connection."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_mediaops.cluster.refusals import AWS_TOKEN_EXPIRED
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    ConnectionFailedError,
    MediaOpsError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.hooks.connection.of_cluster import OF_AMAZON
from airflow_provider_mediaops.http.auth import Auth
from airflow_provider_mediaops.http.exchange import Blocking
from airflow_provider_mediaops.http.reply import plain_text
from airflow_provider_mediaops.version_compat import AirflowNotFoundException

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.hooks.connection.field_values import ConnectionFields
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow, Request

# The signing name of the service: also that of domains with OpenSearch.
_SERVICE = "es"
_REGION_IN_HOST = re.compile(rf".*\.(?:([a-z0-9-]+)\.es|aos\.([a-z0-9-]+)){OF_AMAZON}")
_FAILING = 500
_THROTTLED = frozenset({"Throttling", "ThrottlingException", "RequestLimitExceeded"})


def _region_in(url: str) -> str:
    found = _REGION_IN_HOST.fullmatch(urlsplit(url).hostname or "")
    return (found[1] or found[2]) if found else ""


@dataclass(slots=True)
class AwsAuth(Auth):
    """
    Signatures, made anew for each try of a request.

    The Amazon provider makes a session of the AWS connection. botocore keeps the session's credentials, fetches them
    anew before they expire, and signs. Besides method, path, query and body, only the host and Amazon's own headers are
    signed: proxies change others.

    :param fields: the connection to the cluster, with ``aws_conn_id`` and ``region``.
    :param on_secret: called with each new secret before it is used, so that the log can mask it; it may block.
    """

    fields: ConnectionFields
    on_secret: Callable[[str], None] = field(repr=False)
    _credentials: Any = field(default=None, init=False, repr=False)
    # The credentials at one time, with those of which the last request was signed.
    _frozen: Any = field(default=None, init=False, repr=False)
    _region_of_session: str = field(default="", init=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secret access key and the session token."""
        return tuple(filter(None, (self._frozen.secret_key, self._frozen.token))) if self._frozen else ()

    @property
    def ready(self) -> bool:
        """Whether there are credentials."""
        return self._frozen is not None

    def prepare(self, send: Ask) -> CallFlow[None]:
        """
        Take the credentials that hold now: botocore may fetch new ones, which blocks.

        :raises InvalidConnectionError: if there are none, or what they need is missing.
        :raises AuthenticationError: if AWS refuses them.
        :raises TemporaryError: if the service that has them fails.
        """
        yield Blocking(self._freeze)

    def is_expired(self, error: AuthenticationError) -> bool:
        """Return whether the temporary credentials were over before their time."""
        return AWS_TOKEN_EXPIRED in error.message

    def invalidate(self, refused: Request) -> bool:
        """Drop the session, unless another call has new credentials since; the next request makes another."""
        with self._lock:
            if refused.headers.get("X-Amz-Security-Token") == self._frozen.token:
                self._credentials = None
        return True

    def sign(self, request: Request) -> Request:
        """
        Return the request with Amazon's headers.

        :raises InvalidConnectionError: if its region is not known.
        """
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
            failure: MediaOpsError
            try:
                self._credentials = self._credentials or self._credentials_of_session()
                frozen = self._credentials.get_frozen_credentials()
            except MediaOpsError:
                raise
            except Exception as error:  # noqa: BLE001 botocore, boto3 and the provider have no common class
                failure = self._failure(error)
            else:
                for secret in (frozen.secret_key, frozen.token):
                    if secret and secret not in self.secrets:
                        self.on_secret(secret)
                self._frozen = frozen
                return
        # Outside the handler, so that the library's error is not kept.
        raise failure

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
        from botocore.exceptions import (
            ClientError,
            CredentialRetrievalError,
            HTTPClientError,
            MetadataRetrievalError,
        )
        from botocore.exceptions import (
            ConnectionError as NoConnection,
        )

        said = f"{type(error).__name__}: {plain_text(str(error), self.secrets)}"
        place = f"Connection {self.fields.conn_id!r}, field 'aws_conn_id': "
        if isinstance(error, ClientError):
            reply = error.response
            status = reply.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if status >= _FAILING or reply.get("Error", {}).get("Code") in _THROTTLED:
                return ServiceUnavailableError(f"{place}AWS does not give its credentials now: {said}")
            return AuthenticationError(f"{place}AWS refuses its credentials: {said}")
        if isinstance(error, (NoConnection, HTTPClientError, CredentialRetrievalError, MetadataRetrievalError)):
            return ConnectionFailedError(f"{place}its credentials cannot be fetched: {said}")
        return self.fields.error("aws_conn_id", f"its credentials cannot be used: {said}")
