"""A domain of Amazon OpenSearch Service that recomputes each signature, by the published algorithm of Signature V4."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_plus

from tests.unit.search_cluster import http, replied, report, stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.loopback import Peer

_UNRESERVED = "-_.~"
_MAX_AGE = dt.timedelta(minutes=5)
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, SignedHeaders=(\S+), Signature=(\w+)"
)


@dataclass
class Domain:
    """
    One domain, and what it has been asked.

    :param keys: the secret access keys by access key.
    :param answer: what it replies to a request that is signed right.
    """

    keys: dict[str, str]
    region: str = "eu-central-1"
    clock_is_ahead: dt.timedelta = dt.timedelta()
    expired: set[str] = field(default_factory=set)
    answer: Callable[[str], Response] = lambda target: replied(
        report("a") if "hot_threads" in target else stats({"a": 1})
    )
    targets: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def serve(self, peer: Peer) -> None:
        """Serve one connection."""
        while received := peer.request():
            head, _, body = received.partition(b"\r\n\r\n")
            line, *lines = head.decode("latin-1").split("\r\n")
            method, target, _ = line.split(" ")
            # A proxy takes the address off, and passes the rest on as it is.
            target = target.removeprefix("http://domain.test")
            pairs = [line.split(": ", 1) for line in lines]
            headers = {name.lower(): value for name, value in pairs}
            self.targets.append(target)
            self.headers.append(headers)
            refusal = self._refusal(method, target, headers, body)
            peer.send(http(replied({"message": refusal}, 403) if refusal else self.answer(target)))

    def _refusal(self, method: str, target: str, headers: dict[str, str], body: bytes) -> str:
        found = _AUTHORIZATION.fullmatch(headers.get("authorization", ""))
        if not found:
            return "Missing Authentication Token"
        key, day, region, service, names, signature = found.groups()
        time, token = headers["x-amz-date"], headers.get("x-amz-security-token", "")
        now = dt.datetime.now(dt.timezone.utc) + self.clock_is_ahead
        age = now - dt.datetime.strptime(time, "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.timezone.utc)
        # More would break behind a proxy that changes headers; less is not safe.
        wanted = {"host", "x-amz-content-sha256", "x-amz-date", *(["x-amz-security-token"] if token else [])}
        checks = (
            (age < _MAX_AGE, f"Signature expired: {time} is now earlier than {now:%Y%m%dT%H%M%SZ} (5 min.)"),
            (age > -_MAX_AGE, f"Signature not yet current: {time} is still later than {now:%Y%m%dT%H%M%SZ} (5 min.)"),
            (token not in self.expired, "The security token included in the request is expired"),
            (key in self.keys, "The security token included in the request is invalid."),
            (region == self.region, f"Credential should be scoped to a valid region, not '{region}'. "),
            (service == "es", "Credential should be scoped to correct service: 'es'. "),
            (set(names.split(";")) == wanted and day == time[:8], f"The signed headers are {names}."),
            (headers["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest(), "The payload has another hash."),
        )
        for right, refusal in checks:
            if not right:
                return refusal
        request = _canonical(method, target, {name: headers[name] for name in names.split(";")}, names)
        expected = _signature(self.keys[key], time, f"{day}/{region}/{service}/aws4_request", request)
        return "" if signature == expected else "The request signature we calculated does not match the signature"


def _signature(secret: str, time: str, scope: str, request: str) -> str:
    text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    signing = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        signing = hmac.digest(signing, part.encode(), "sha256")
    return hmac.digest(signing, text.encode(), "sha256").hex()


def _canonical(method: str, target: str, headers: dict[str, str], names: str) -> str:
    path, _, query = target.partition("?")
    # The path of the request line is encoded once more, the query is decoded first.
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    decoded = sorted((_strict(name), _strict(value)) for name, _, value in pairs)
    return "\n".join(
        [
            method,
            quote(path, safe=f"/{_UNRESERVED}"),
            "&".join(f"{name}={value}" for name, value in decoded),
            *(f"{name}:{' '.join(headers[name].split())}" for name in sorted(headers)),
            "",
            names,
            headers["x-amz-content-sha256"],
        ]
    )


def _strict(text: str) -> str:
    return quote(unquote_plus(text), safe=_UNRESERVED)
