"""A connection to Amazon OpenSearch Service: signatures that a domain accepts, and credentials of each origin."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote_plus

import pytest

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    ConnectionFailedError,
    InvalidConnectionError,
    MediaOpsError,
    PermissionDeniedError,
)
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from tests.contract import fresh_python
from tests.unit.hooks.cluster_hook import cpu
from tests.unit.loopback import Loopback, answering, closed_port, http_reply
from tests.unit.search_cluster import error, http, replied, report, stats

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.conftest import Supervisor
    from tests.unit.loopback import Peer

KEY, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "a/session+token=="
OTHER_KEY, OTHER_SECRET = "AKIDOTHER", "another+secret/key"


def aws(login: str = KEY, password: str = SECRET, **extra: Any) -> str:
    return json.dumps({"conn_type": "aws", "login": login, "password": password, "extra": extra})


_UNRESERVED = "-_.~"
_MAX_AGE = dt.timedelta(minutes=5)
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, SignedHeaders=(\S+), Signature=(\w+)"
)


@dataclass
class Domain:
    """
    A domain that recomputes each signature by the published algorithm, and what it has been asked.

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


@pytest.fixture
def domain() -> Domain:
    return Domain({KEY: SECRET})


@pytest.fixture
def server(domain: Domain) -> Iterator[Loopback]:
    with Loopback(domain.serve) as server:
        yield server


@pytest.fixture(autouse=True)
def connect(
    supervisor: Supervisor, connect_cluster: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., None]:
    """Have a machine without credentials of its own, and set the connection to the domain."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "BOTO_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    supervisor.connect("aws_default", aws())

    def connect(host: str, **fields: Any) -> None:
        given = {"auth": "aws", "aws_conn_id": "aws_default", "region": "eu-central-1", **fields}
        connect_cluster(host, **given)

    return connect


def refusal(expected: type[MediaOpsError]) -> str:
    with SearchClusterHook() as hook, pytest.raises(expected) as caught:
        hook.cpu()
    assert type(caught.value) is expected
    assert SECRET not in caught.value.message
    return caught.value.message


class TestSignature:
    @pytest.mark.parametrize(
        ("base", "nodes"),
        [
            *(("", nodes) for nodes in (None, "*", "50%", "köln", "x y", "rack:r1,_local", "~'()!$&;=@", "data-%2A")),
            *((base, "a,b*") for base in ("/search", "/a%2cb/%c3%b6", "/größe", "/a b", "/a*,b", "/%7Euser")),
        ],
    )
    def test_domain_accepts_every_path(
        self, base: str, nodes: str | None, server: Loopback, domain: Domain, connect: Any
    ) -> None:
        connect(f"{server.base}{base}", headers={"X-Team": "media"})
        domain.answer = lambda _: replied(stats({"a": 1}))
        assert cpu(nodes)[0].name == "a"
        # A header of the connection is sent, and not signed.
        assert [headers["x-team"] for headers in domain.headers] == ["media"]

    def test_domain_accepts_parameters(self, server: Loopback, connect: Any) -> None:
        connect(server.base)
        with SearchClusterHook() as hook:
            assert hook.hot_threads("a,b*", threads=5, interval="1s", type="wait") == report("a")

    def test_request_through_a_proxy_is_signed_for_the_domain(self, domain: Domain, connect: Any) -> None:
        with Loopback(domain.serve) as proxy:
            connect("http://domain.test", proxies=proxy.base)
            assert cpu("a b,*")[0].name == "a"
        assert domain.headers[0]["host"] == "domain.test"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"region": ""}, "field 'region': it is empty, and neither the base address"),
        ({"aws_conn_id": ""}, "field 'aws_conn_id': this machine has no AWS credentials."),
        ({"host": "https://abc.eu-west-1.aoss.amazonaws.com"}, "field 'host': it is that of Amazon OpenSearch"),
        (
            {"host": "https://abc.aoss.eu-west-1.on.aws", "auth": "none"},
            "field 'host': it is that of Amazon OpenSearch",
        ),
    ],
)
def test_connection_that_cannot_be_used_is_refused_before_anything_is_sent(
    server: Loopback, domain: Domain, connect: Any, fields: dict[str, str], words: str
) -> None:
    connect(**{"host": server.base, **fields})
    assert words in refusal(InvalidConnectionError)
    assert not domain.targets


@pytest.mark.parametrize(
    ("region", "secret", "minutes", "advice"),
    [
        ("us-east-1", SECRET, 0, "set region in the connection"),
        ("eu-central-1", "another secret", 0, "Check the secret access key in the AWS connection"),
        *(("eu-central-1", SECRET, off, "The clock of this machine is off by more than five") for off in (10, -10)),
    ],
)
def test_refusal_of_the_domain_says_what_to_correct(
    server: Loopback,
    domain: Domain,
    connect: Any,
    supervisor: Supervisor,
    *,
    region: str,
    secret: str,
    minutes: int,
    advice: str,
) -> None:
    domain.clock_is_ahead = dt.timedelta(minutes=minutes)
    supervisor.connect("aws_default", aws(password=secret))
    connect(server.base, region=region)
    assert advice in refusal(AuthenticationError)
    assert len(domain.targets) == 1


class TestRegion:
    @pytest.mark.parametrize(
        ("host", "region"),
        [
            ("https://search-logs-abc.eu-north-1.es.amazonaws.com", "eu-north-1"),
            ("https://vpc-logs-abc.cn-north-1.es.amazonaws.com.cn", "cn-north-1"),
            ("https://search-logs-abc.aos.us-gov-west-1.on.aws", "us-gov-west-1"),
        ],
    )
    def test_region_is_that_of_the_address(self, host: str, region: str, connect: Any, requests_mock: Any) -> None:
        connect(host, region="")
        requests_mock.get(f"{host}/_nodes/stats/os,process", json=stats({"a": 1}))
        cpu()
        assert f"/{region}/es/aws4_request" in requests_mock.last_request.headers["Authorization"]

    def test_region_of_another_address_is_that_of_the_aws_connection(
        self, server: Loopback, connect: Any, supervisor: Supervisor
    ) -> None:
        supervisor.connect("aws_default", aws(region_name="eu-central-1"))
        connect(server.base, region="")
        assert cpu()[0].name == "a"

    def test_address_that_cannot_be_sent_is_refused(self, connect: Any) -> None:
        connect("https://*.eu-west-1.es.amazonaws.com")
        assert "Nothing was sent." in refusal(InvalidConnectionError)


class TestCredentials:
    def test_those_of_the_machine_are_used_without_an_aws_connection_and_not_for_one_that_does_not_exist(
        self, server: Loopback, domain: Domain, connect: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        connect(server.base, aws_conn_id="aws_nowhere")
        assert "field 'aws_conn_id': there is no connection 'aws_nowhere'" in refusal(InvalidConnectionError)
        assert not domain.targets
        connect(server.base, aws_conn_id="")
        assert cpu()[0].name == "a"

    def test_expired_token_is_fetched_anew_once(
        self, server: Loopback, domain: Domain, connect: Any, supervisor: Supervisor
    ) -> None:
        domain.keys[OTHER_KEY] = OTHER_SECRET
        supervisor.connect("aws_default", aws(aws_session_token="a token of an hour ago"))
        connect(server.base)
        with SearchClusterHook() as hook:
            hook.cpu()
            domain.expired.add("a token of an hour ago")
            supervisor.connect("aws_default", aws(OTHER_KEY, OTHER_SECRET, aws_session_token=TOKEN))
            assert hook.cpu()[0].name == "a"
        tokens = [headers["x-amz-security-token"] for headers in domain.headers]
        assert tokens == ["a token of an hour ago", "a token of an hour ago", TOKEN]

    def test_token_that_stays_expired_is_tried_twice(
        self, server: Loopback, domain: Domain, connect: Any, supervisor: Supervisor
    ) -> None:
        domain.expired.add(TOKEN)
        supervisor.connect("aws_default", aws(aws_session_token=TOKEN))
        connect(server.base, max_attempts=5)
        message = refusal(AuthenticationError)
        assert "The temporary AWS credentials are over, and those fetched anew, too" in message
        assert TOKEN not in message
        assert len(domain.targets) == 2

    def test_secrets_are_masked_before_they_are_used(
        self, server: Loopback, connect: Any, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        masked: list[str] = []
        monkeypatch.setattr("airflow_provider_mediaops.hooks.base.mask_secret", masked.append)
        supervisor.connect("aws_default", aws(aws_session_token=TOKEN))
        connect(server.base)
        with SearchClusterHook() as hook:
            hook.cpu()
            hook.cpu()
            assert set(hook.service.client.secrets) == {SECRET, TOKEN}
        assert masked == [SECRET, TOKEN]

    def test_echoed_secret_is_in_no_message(self, server: Loopback, domain: Domain, connect: Any) -> None:
        domain.answer = lambda _: replied(error(403, "security_exception", f"denied {SECRET}"), 403)
        connect(server.base)
        assert "denied ***" in refusal(PermissionDeniedError)

    def test_extra_that_is_not_installed_is_named(
        self, server: Loopback, connect: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "airflow.providers.amazon.aws.hooks.base_aws", None)
        connect(server.base)
        assert "field 'auth': aws needs the package apache-airflow-providers-amazon" in refusal(InvalidConnectionError)


class TestRole:
    """Credentials of a role, that a stand-in for AWS's token service gives."""

    ROLE = "arn:aws:iam::123456789012:role/hot-threads"

    def assumed(self, key: str, secret: str, minutes: int) -> bytes:
        end = dt.datetime.now(dt.timezone.utc) + dt.timedelta(minutes=minutes)
        body = (
            '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
            f"<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>"
            f"<SessionToken>{TOKEN}-{key}</SessionToken><Expiration>{end:%Y-%m-%dT%H:%M:%SZ}</Expiration>"
            "</Credentials></AssumeRoleResult></AssumeRoleResponse>"
        )
        return http_reply(200, body.encode(), content_type="text/xml")

    def connect_role(self, supervisor: Supervisor, sts: str) -> None:
        extra = {"role_arn": self.ROLE, "region_name": "eu-central-1", "service_config": {"sts": {"endpoint_url": sts}}}
        supervisor.connect("aws_default", aws("AKIDUSER", "the user's secret", **extra))

    def test_role_is_assumed_for_many_requests_and_again_before_its_credentials_expire(
        self, server: Loopback, domain: Domain, connect: Any, supervisor: Supervisor
    ) -> None:
        domain.keys[OTHER_KEY] = OTHER_SECRET
        given = self.assumed(KEY, SECRET, 5), self.assumed(OTHER_KEY, OTHER_SECRET, 60)
        asked: list[bytes] = []
        with Loopback(answering(*given, seen=asked)) as sts:
            self.connect_role(supervisor, sts.base)
            connect(server.base)
            with SearchClusterHook() as hook:
                for _ in range(3):
                    assert hook.cpu()[0].name == "a"
        tokens = [headers["x-amz-security-token"].removeprefix(f"{TOKEN}-") for headers in domain.headers]
        assert tokens[1:] == [OTHER_KEY, OTHER_KEY]
        assert len(asked) == 2
        assert b"hot-threads" in asked[0]

    def test_role_that_may_not_be_assumed_is_named(
        self, server: Loopback, domain: Domain, connect: Any, supervisor: Supervisor
    ) -> None:
        body = (
            "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>User: arn:aws:iam::1:user/x is "
            "not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>"
        )
        with Loopback(answering(http_reply(403, body.encode(), content_type="text/xml"))) as sts:
            self.connect_role(supervisor, sts.base)
            connect(server.base)
            message = refusal(AuthenticationError)
        assert "field 'aws_conn_id': AWS gives no credentials: " in message
        assert "sts:AssumeRole" in message
        assert not domain.targets

    def test_token_service_that_does_not_answer_is_a_temporary_error(
        self, server: Loopback, connect: Any, supervisor: Supervisor
    ) -> None:
        self.connect_role(supervisor, f"http://127.0.0.1:{closed_port()}")
        connect(server.base)
        assert "AWS gives no credentials: EndpointConnectionError" in refusal(ConnectionFailedError)


LOADED_OF_AWS = """
import sys
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook

with SearchClusterHook() as hook:
    hook.cpu()
result = [name for name in sys.modules if name.split(".")[0] in ("boto3", "botocore") or ".amazon.aws" in name]
"""


@pytest.mark.long
def test_other_credentials_import_nothing_of_aws(connect_cluster: Any) -> None:
    with Loopback(answering(http(replied(stats({"a": 1}))))) as server:
        connect_cluster(server.base, login="elastic", password="a password")
        assert fresh_python.result_of(LOADED_OF_AWS) == []
