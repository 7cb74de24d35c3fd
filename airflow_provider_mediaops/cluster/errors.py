"""
The errors of a cluster, and what to do about each.

The cause of a refusal is known by a text or a header that nothing else sends: of the cluster, of Amazon, whose
signature layer and policies all answer with 403, or of another server at the address.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    MediaOpsError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitedError,
    ReplyTimeoutError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.http.errors import ErrorRules

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response
    from airflow_provider_mediaops.http.reply import ErrorDetails

#: The name of the service in messages.
SERVICE = "search cluster"
#: The reason in an error about an empty report.
EMPTY_REPORT = "emptyReport"
#: What Amazon says of temporary credentials that are over; new ones can be fetched.
AWS_TOKEN_EXPIRED = "The security token included in the request is expired"  # noqa: S105 it is not a token
_WRONG_ADDRESS = "Check the base address in the connection: the cluster's routes are not there."
_NO_MASTER = (
    "The cluster has no elected master; it is tried again after a pause. Raise master_timeout if it needs longer to "
    "elect one."
)

_UNRECOGNIZED = re.compile(r"contains unrecognized parameters?: (.*)")
_SUGGESTION = re.compile(r" -> did you mean [^?]*\?")
_IN_BRACKETS = re.compile(r"\[([^\[\]]+)\]")


class _Refusal(NamedTuple):
    """What a refusal that its text shows means."""

    advice: str
    error: type[MediaOpsError] | None = None


# By an expression for the text; the first one that fits counts.
_KNOWN = {
    "is not available when running in serverless mode": _Refusal(
        "Elastic Cloud Serverless has no nodes that could be asked: hot threads and statistics need a hosted "
        "deployment or a cluster of your own."
    ),
    "^Your request: '.*' is not allowed": _Refusal(
        "Amazon OpenSearch Service does not offer this route on this domain.", NotFoundError
    ),
    re.escape(AWS_TOKEN_EXPIRED): _Refusal(
        "The temporary AWS credentials are over, and those fetched anew, too: renew them where the connection in "
        "aws_conn_id, or this machine, has them from.",
        AuthenticationError,
    ),
    "The security token included in the request is invalid": _Refusal(
        "Amazon does not know the access key, or its session token is missing: check the AWS connection in "
        "aws_conn_id, or the credentials of this machine.",
        AuthenticationError,
    ),
    "Credential should be scoped to ": _Refusal(
        "The request was signed for another region or service than that of the domain: set region in the connection, "
        "and check the base address.",
        AuthenticationError,
    ),
    "Signature expired: |Signature not yet current: ": _Refusal(
        "The clock of this machine is off by more than five minutes: set it right, and keep it so (NTP).",
        AuthenticationError,
    ),
    "The request signature we calculated does not match": _Refusal(
        "Check the secret access key in the AWS connection, and that no proxy changes path, query or Host.",
        AuthenticationError,
    ),
    "User: anonymous is not authorized to perform: es:": _Refusal(
        "This is Amazon OpenSearch Service, and the request was not signed: set auth=aws in the connection.",
        AuthenticationError,
    ),
    r"User: \S+ is not authorized to perform: es:": _Refusal(
        "Allow this user or role es:ESHttpGet in the access policy of the domain, and in its own policies.",
        PermissionDeniedError,
    ),
    r"no permissions for \[.*\bUser \[name=arn:aws": _Refusal(
        "This is Amazon OpenSearch Service with fine-grained access control: map the ARN of the user or role to a role "
        "of the domain with the action group cluster_monitor."
    ),
    "Request throttled due to too many requests": _Refusal("", RateLimitedError),
    r"no permissions for \[": _Refusal(
        "This is OpenSearch: give the connection's user a role with the action group cluster_monitor, or with the "
        "permissions cluster:monitor/nodes/stats and cluster:monitor/nodes/hot_threads."
    ),
    "is unauthorized for ": _Refusal(
        "This is Elasticsearch: give the connection's user or API key a role with the cluster privilege monitor."
    ),
    "no handler found for uri": _Refusal(_WRONG_ADDRESS),
}


def _error_class(_: Response, details: ErrorDetails, found: type[MediaOpsError]) -> type[MediaOpsError]:
    """Return the class of a refusal that its text shows; ``found`` if the text shows none."""
    known = _known(details)
    return (known and known.error) or found


def _advice(response: Response, details: ErrorDetails) -> str:
    """Return what to do if the reply shows its cause; else an empty text."""
    if server := _other_server(response):
        return server
    if unknown := _UNRECOGNIZED.search(details.message or ""):
        names = " and ".join(_IN_BRACKETS.findall(_SUGGESTION.sub("", unknown[1])))
        return f"This version of the cluster does not know {names or 'it'}: leave it out, and its default holds."
    if known := _known(details):
        return known.advice
    if _wants_kerberos_only(response):
        return (
            "This address asks for Kerberos (Negotiate), which this provider does not speak: use an address of the "
            "cluster that takes a password, an API key or a token."
        )
    if response.status == HTTPStatus.GATEWAY_TIMEOUT:
        return (
            "A proxy or load balancer before the cluster did not wait for the reply; it is tried again. A capture "
            "takes at least interval times snapshots: raise the time limit of the proxy above that, or lower interval."
        )
    return ""


def _known(details: ErrorDetails) -> _Refusal | None:
    message = details.message or ""
    return next((known for text, known in _KNOWN.items() if re.search(text, message)), None)


def _other_server(response: Response) -> str:
    for header, name in (("osd-name", "OpenSearch Dashboards"), ("kbn-name", "Kibana")):
        if header in response.headers:
            return f"This is the address of {name}: write that of the cluster instead, with port 9200 as a rule."
    return ""


def _wants_kerberos_only(response: Response) -> bool:
    if response.status != HTTPStatus.UNAUTHORIZED:
        return False
    asked = response.headers.get("www-authenticate", "").lower()
    return "negotiate" in asked and not re.search(r"\b(basic|bearer|apikey)\b", asked)


#: The errors of the search cluster: those that its documentation names, and those of Elasticsearch and OpenSearch.
#: ``security_exception`` comes with two statuses: 401 for the credentials, 403 for their privileges.
CLUSTER_RULES = ErrorRules(
    service=SERVICE,
    by_reason={
        "receive_timeout_transport_exception": ReplyTimeoutError,
        "process_cluster_event_timeout_exception": ReplyTimeoutError,
        "timeout_exception": ReplyTimeoutError,
        "elasticsearch_timeout_exception": ReplyTimeoutError,
        "opensearch_timeout_exception": ReplyTimeoutError,
        "master_not_discovered_exception": ServiceUnavailableError,
        "cluster_manager_not_discovered_exception": ServiceUnavailableError,
        "circuit_breaking_exception": ServiceUnavailableError,
        "es_rejected_execution_exception": RateLimitedError,
        "rejected_execution_exception": RateLimitedError,
    },
    advice={
        "master_not_discovered_exception": _NO_MASTER,
        "cluster_manager_not_discovered_exception": _NO_MASTER,
        "circuit_breaking_exception": "The node is short of memory; it is tried again after a pause.",
        "illegal_argument_exception": "Correct the parameter that it names.",
        EMPTY_REPORT.lower(): "If no node answers in any time, check the nodes' own logs.",
    },
    advice_by_class={
        AuthenticationError: "Check login and password (API key or token), and auth, in the connection.",
        PermissionDeniedError: "Give the connection's user the permissions cluster:monitor/nodes/stats and "
        "cluster:monitor/nodes/hot_threads: the action group cluster_monitor of OpenSearch, or the cluster privilege "
        "monitor of Elasticsearch.",
        ReplyTimeoutError: "The nodes did not answer in time; it is tried again. Raise timeout (and master_timeout) if "
        "they need longer.",
        NotFoundError: _WRONG_ADDRESS,
    },
    refine=_error_class,
    advice_by_reply=_advice,
)
