"""The cluster's calls: what is sent, how replies are read, and how the cluster says no."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.api import cluster_version, hot_threads, node_stats, probe
from airflow_provider_mediaops.cluster.errors import CLUSTER_RULES, EMPTY_REPORT
from airflow_provider_mediaops.cluster.query import HotThreadsQuery, node_list
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    InvalidArgumentError,
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitedError,
    ReplyTimeoutError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Call, Response
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.unit.call_flows import replay, requests_of
from tests.unit.search_cluster import error, replied, report, stats

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.models import NodeStats
    from airflow_provider_mediaops.http.exchange import Step


def answer(call: Call[Any], reply: Response) -> Any:
    """Give what a client makes of one reply."""
    client = Client(("https://cluster.example:9200",), CLUSTER_RULES, retry=RetryPolicy(max_attempts=1))
    return replay(client.ask(call), [reply])


class TestHotThreadsRequest:
    def test_all_nodes_with_the_defaults_of_the_service_need_no_parameter(self) -> None:
        defaults: dict[str, Any] = {
            "ignore_idle_threads": True,
            "interval": "500ms",
            "snapshots": 10,
            "threads": 3,
            "type": "cpu",
            "master_timeout": "30s",
            "timeout": "30s",
        }
        for query in (HotThreadsQuery(), HotThreadsQuery(**defaults)):
            request = hot_threads(query).request
            assert (request.method, request.path, request.params) == ("GET", "/_nodes/hot_threads", ())

    @pytest.mark.parametrize(
        ("name", "value", "sent"),
        [
            *(("ignore_idle_threads", False, "false"), ("snapshots", 4, "4"), ("threads", 9999, "9999")),
            *((name, "20s", "20s") for name in ("interval", "master_timeout", "timeout")),
            *(("type", kind, kind) for kind in ("wait", "block")),
        ],
    )
    def test_only_what_differs_from_the_default_is_sent(self, name: str, value: Any, sent: str) -> None:
        assert hot_threads(HotThreadsQuery(**{name: value})).request.params == ((name, sent),)

    @pytest.mark.parametrize(
        ("nodes", "segment"),
        [
            (["node-1", "node-2"], "node-1,node-2"),
            ("node-1, node-2", "node-1,node-2"),
            (("_local",), "_local"),
            ([7, "8"], "7,8"),
            (7, "7"),
            (["rack:r1?x=/.."], "rack%3Ar1%3Fx%3D%2F.."),
            (["Knoten 1", "ü#*"], "Knoten%201,%C3%BC%23%2A"),
        ],
    )
    def test_nodes_are_escaped_in_the_path(self, nodes: Any, segment: str) -> None:
        assert hot_threads(HotThreadsQuery(nodes)).request.path == f"/_nodes/{segment}/hot_threads"
        assert node_stats(nodes).request.path == f"/_nodes/{segment}/stats/os,process"

    @pytest.mark.parametrize("name", ["interval", "timeout"])
    def test_a_long_text_for_a_time_is_cut_in_the_message(self, name: str) -> None:
        given: dict[str, Any] = {name: "a" * 100_000}
        with pytest.raises(ValueError, match=f"{name} is a whole number with a unit") as caught:
            HotThreadsQuery(**given)
        assert len(str(caught.value)) < 300

    @pytest.mark.parametrize("nodes", [[], (), "", " ", ["a", ""], ["."], [".."], "a,,b", "['a']"])
    def test_a_list_that_names_no_node_is_not_taken_for_all_nodes(self, nodes: Any) -> None:
        with pytest.raises(ValueError, match="nodes"):
            HotThreadsQuery(nodes)
        with pytest.raises(ValueError, match="nodes"):
            node_stats(nodes)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *(("interval", value) for value in ("500", "-1ms", "5 s", "5s\n", "\u0665s")),
            *(("timeout", value) for value in ("", "30S", "9" * 40 + "d")),
            *(("master_timeout", "1w"), ("snapshots", True), ("threads", 1.5), ("type", "CPU")),
        ],
    )
    def test_value_that_the_service_would_refuse_is_refused_before(self, name: str, value: Any) -> None:
        with pytest.raises(ValueError, match=rf"^{name} is "):
            HotThreadsQuery(**{name: value})

    @pytest.mark.parametrize("unit", ["nanos", "micros", "ms", "s", "m", "h", "d"])
    def test_every_time_unit_of_the_service_is_taken(self, unit: str) -> None:
        params = hot_threads(HotThreadsQuery(interval=f"7{unit}", timeout="8d")).request.params
        assert params == (("interval", f"7{unit}"), ("timeout", "8d"))

    @pytest.mark.parametrize(
        ("query", "least"),
        [
            (HotThreadsQuery(), 0.5 * 10 + 30 + 30),
            (HotThreadsQuery(interval="2s", snapshots=100), 200),
            (HotThreadsQuery(timeout="5m"), 300),
            (HotThreadsQuery(master_timeout="1h"), 3600),
            (HotThreadsQuery(timeout="1d", interval="1micros", snapshots=1), 86400),
        ],
    )
    def test_the_client_waits_for_longer_than_the_cluster_may_take(self, query: HotThreadsQuery, least: float) -> None:
        assert least < hot_threads(query).request.read_timeout < least * 2 + 120

    def test_a_time_limit_beyond_what_sockets_take_is_cut(self) -> None:
        query = HotThreadsQuery(interval="99999999999999999d", timeout="999999999999999999d")
        assert hot_threads(query).request.read_timeout == 1e9


class TestHotThreadsReply:
    @pytest.mark.parametrize("label", [{"content-type": "application/json"}, {}, {"content-type": "text/plain"}])
    def test_text_of_a_report_is_kept_whatever_its_label(self, label: dict[str, str]) -> None:
        text = report("node-1", "node-2").replace("\n", "\r\n")
        assert answer(hot_threads(HotThreadsQuery()), Response(200, label, text.encode())) == text

    @given(st.binary(min_size=1))
    def test_every_byte_comes_back(self, tail: bytes) -> None:
        body = b"::: {node\xff}" + tail
        text = answer(hot_threads(HotThreadsQuery()), Response(200, {}, body))
        assert text.encode("utf-8", "surrogateescape") == body

    @pytest.mark.parametrize("header", ["::: {n}", "::: [n][id][h][inet[/10.0.0.1:9300]]", ":::{n}", "  :::  {n}"])
    def test_section_of_any_version_makes_a_report(self, header: str) -> None:
        text = f"odd first line\r\n{header}\r\n"
        assert answer(hot_threads(HotThreadsQuery()), replied(text)) == text

    def test_text_that_only_begins_like_json_is_text(self) -> None:
        text = "{node-1} is cut off\n::: {node-2}"
        assert answer(hot_threads(HotThreadsQuery()), replied(text)) == text

    @pytest.mark.parametrize(
        ("body", "what"),
        [
            ("\n<!DOCTYPE html><html><body>Sign in</body></html>", "a web page"),
            ('{"error": {"type": "odd"}, "status": 200}', "no report of hot threads"),
            ("upstream connect error or disconnect/reset before headers.", "no report of hot threads"),
            ("maintenance ::: please wait", "no report of hot threads"),
            ("::: maintenance :::", "no report of hot threads"),
            ('{"error": "blocked by ::: {policy}"}', "no report of hot threads"),
            ("", "empty"),
            ("  \n", "empty"),
        ],
    )
    def test_a_reply_that_is_no_report_is_a_failure(self, body: str, what: str) -> None:
        with pytest.raises(InvalidReplyError, match=what) as caught:
            answer(hot_threads(HotThreadsQuery()), replied(body))
        assert caught.value.path == "/_nodes/hot_threads"
        assert caught.value.status == 200

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ({"timeout": "1ms"}, r"timeout=1ms is shorter .* interval=500ms and snapshots=10 take at least 0\.60 s"),
            ({"timeout": "590ms"}, "shorter than the sampling, .* Raise timeout, or lower interval"),
            ({"timeout": "1s", "interval": "2s", "snapshots": 1}, r"take at least 2\.01 s"),
        ],
    )
    def test_a_time_limit_below_the_sampling_is_refused_before_any_request(
        self, query: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(InvalidArgumentError, match=message):
            HotThreadsQuery(**query)

    @pytest.mark.parametrize(
        ("nodes", "cls", "words"),
        [(None, InvalidReplyError, ""), ("node-8,node-9", NotFoundError, "'node-8' or 'node-9'")],
    )
    @pytest.mark.parametrize("timeout", ["30s", "600ms"])
    def test_an_empty_report_names_the_time_limit_and_the_nodes(
        self, nodes: str | None, cls: type[MediaOpsError], words: str, timeout: str
    ) -> None:
        message = f"Nodes that do not answer within timeout={timeout} are left out.*{words}"
        with pytest.raises(cls, match=message) as caught:
            answer(hot_threads(HotThreadsQuery(nodes, timeout=timeout)), replied(""))
        assert (caught.value.reason, caught.value.service) == (EMPTY_REPORT, "search cluster")
        assert caught.value.path == f"/_nodes/{f'{nodes}/' if nodes else ''}hot_threads"
        assert "proxy" not in caught.value.message


class TestProbe:
    STATS = replied(stats({"node-1": 5}))
    REPORT = replied(report("node-1"))

    def denied(self, action: str) -> Response:
        return replied(error(403, "security_exception", f"no permissions for [{action}] and User [name=u]"), 403)

    def ask(self, *replies: Response, steps: list[Step] | None = None) -> NodeStats:
        client = Client(("https://cluster.example:9200",), CLUSTER_RULES)
        return replay(probe(client.ask), list(replies), steps=steps)

    def test_both_privileges_are_asked_of_one_node(self) -> None:
        steps: list[Step] = []
        assert self.ask(self.STATS, self.REPORT, steps=steps).cluster_name == "docs"
        statistics, threads = requests_of(steps)
        assert statistics.path == "/_nodes/_local/stats/os,process"
        assert threads.path == "/_nodes/_local/hot_threads"
        assert dict(threads.params) == {"interval": "10ms", "snapshots": "1", "threads": "1"}

    @pytest.mark.parametrize(
        ("stats_allowed", "threads_allowed", "message"),
        [
            (False, True, r"user may not read its nodes' statistics \(cluster:monitor/nodes/stats\), only"),
            (True, False, r"user may not read hot threads \(cluster:monitor/nodes/hot_threads\), only"),
            (False, False, r"may read neither its nodes' statistics \(.*\) nor hot threads \("),
        ],
    )
    def test_missing_privilege_is_named(self, *, stats_allowed: bool, threads_allowed: bool, message: str) -> None:
        with pytest.raises(PermissionDeniedError, match=message) as caught:
            self.ask(
                self.STATS if stats_allowed else self.denied("cluster:monitor/nodes/stats"),
                self.REPORT if threads_allowed else self.denied("cluster:monitor/nodes/hot_threads"),
            )
        assert caught.value.status == 403
        assert "cluster_monitor" in caught.value.message

    def test_any_other_refusal_ends_the_probe_at_once(self) -> None:
        with pytest.raises(AuthenticationError):
            self.ask(replied("Unauthorized", 401))


class TestNodeStats:
    def test_nodes_that_do_not_exist_are_named(self) -> None:
        with pytest.raises(NotFoundError, match="'node-9'") as caught:
            answer(node_stats(["node-9"]), replied(stats({})))
        assert caught.value.path == "/_nodes/node-9/stats/os,process"

    def test_reply_without_any_node_that_answered_may_be_tried_again(self) -> None:
        with pytest.raises(ServiceUnavailableError, match=r"Failed node \[abc\]"):
            answer(node_stats(), replied(stats({}, failures=("Failed node [abc]",))))

    @pytest.mark.parametrize("body", [stats({}), {"nodes": []}, {"cluster_name": "docs"}, "[]", "<html>", ""])
    def test_a_reply_that_tells_of_no_node_is_a_failure(self, body: Any) -> None:
        with pytest.raises(InvalidReplyError):
            answer(node_stats(), replied(body))


def refusal(status: int, type_: str, reason: str) -> Response:
    """Give a refusal in the form of a cluster's own."""
    return replied(error(status, type_, reason), status)


def amazon(message: str) -> Response:
    """Give a refusal by Amazon, before any cluster."""
    return replied({"message": message}, 403)


SECURITY, ARGUMENT = "security_exception", "illegal_argument_exception"
LOGIN_PAGE, DASHBOARDS = {"kbn-name": "kibana-1"}, {"osd-name": "dashboards-1"}
NEGOTIATE = {"www-authenticate": "Negotiate"}
NEGOTIATE_OR_BASIC = {"www-authenticate": 'Negotiate, Basic realm="security"'}

#: By error: refusals, as they were seen, cut to what tells them, and what the message says of each.
REFUSALS: dict[type[MediaOpsError], list[tuple[Response, str]]] = {
    AuthenticationError: [
        (refusal(401, SECURITY, "missing authentication credentials"), "missing auth.* login and password"),
        (replied("Unauthorized", 401), "login and password"),
        (replied("<html>401 Required</html>", 401, **NEGOTIATE), r"asks for Kerberos \(Negotiate\)"),
        (replied("", 401, **NEGOTIATE_OR_BASIC), "Check login and password"),
        (replied({"statusCode": 401}, 401, **DASHBOARDS), "the address of OpenSearch Dashboards: write that of the cl"),
        (amazon("The security token included in the request is expired"), "The temporary AWS credentials are over"),
        (amazon("The security token included in the request is invalid."), "Amazon does not know the access key"),
        (amazon("Credential should be scoped to a valid region, not 'x'. "), "set region in the connection"),
        (amazon("Credential should be scoped to correct service: 'es'. "), "check the base address"),
        (amazon("Signature expired: 20261126T10Z is now earlier than 20261126T11Z"), "The clock of this machine"),
        (amazon("Signature not yet current: 20261126T10Z is still later than 20261126T09Z"), "The clock of this mac"),
        (amazon("The request signature we calculated does not match the one"), "Check the secret access key"),
        (amazon("User: anonymous is not authorized to perform: es:ESHttpGet on resource: logs"), "set auth=aws"),
    ],
    PermissionDeniedError: [
        (refusal(403, SECURITY, "no permissions for [x]"), "This is OpenSearch: .* action group cluster_monitor, "),
        (refusal(403, SECURITY, "action [x] is unauthorized for API key id [7]"), "This is Elasticsearch: .* monitor"),
        (refusal(403, SECURITY, "denied"), "denied.*group cluster_monitor of OpenSearch, or .* monitor of E"),
        (replied("", 403), "cluster_monitor"),
        (amazon("User: arn:aws:iam::1:user/x is not authorized to perform: es:ESHttpGet"), "Allow this user or role"),
        (refusal(403, SECURITY, "no permissions for [x] and User [name=arn:aws:iam::1:role/x]"), "map the ARN of the"),
    ],
    BadRequestError: [
        (refusal(400, ARGUMENT, "request [/x] contains unrecognized parameter: [a]"), "not know a: leave it out"),
        (
            refusal(400, ARGUMENT, "request [/x] contains unrecognized parameters: [a], [thread] -> did you mean [b]?"),
            "does not know a and thread: leave",
        ),
        (refusal(400, ARGUMENT, "Failed to parse [x]"), r"Failed to parse \[x\].* Correct the parameter that"),
        (replied('{"error": "Incorrect HTTP method"}', 400), "Incorrect HTTP method"),
        (replied({"error": "no handler found for uri [/wrong] and method [GET]"}, 400), "Check the base address in "),
    ],
    RateLimitedError: [
        (refusal(429, "es_rejected_execution_exception", "queue is full"), "queue is full.* Ask less often"),
        (amazon("Request throttled due to too many requests"), "Ask less often"),
    ],
    ServiceUnavailableError: [
        (refusal(429, "circuit_breaking_exception", "data too large"), "short of memory"),
        (refusal(503, "circuit_breaking_exception", "data too large"), "short of memory"),
        (refusal(503, "master_not_discovered_exception", "no master"), "master_timeout"),
        (refusal(503, "cluster_manager_not_discovered_exception", "none"), "master_timeout"),
        (refusal(500, "null_pointer_exception", ""), "fault is on the service's side"),
        (replied("<html><h1>Bad gateway</h1></html>", 502), "Bad gateway"),
        (replied("<html><h1>504 Gateway Time-out</h1></html>", 504), "A proxy or load balancer before the cluster did"),
    ],
    ReplyTimeoutError: [
        (refusal(503, "receive_timeout_transport_exception", "[node-1] timed out"), "Raise timeout"),
        (refusal(503, "process_cluster_event_timeout_exception", "30s"), "Raise timeout"),
        (refusal(500, "timeout_exception", "30s"), "Raise timeout"),
    ],
    NotFoundError: [
        (refusal(404, "index_not_found_exception", "no such index [_nodes]"), r"no such index \[_n.*base address"),
        (replied({"Message": "Your request: '/_nodes/hot_threads' is not allowed."}, 401), "does not offer this route"),
        (refusal(410, "x", "… is not available when running in serverless mode"), "Serverless has no nodes"),
    ],
    InvalidReplyError: [
        (replied("", 302, **LOGIN_PAGE, location="/login?next=%2F"), "This is the address of Kibana: write that of"),
        (replied("<!DOCTYPE html><html>Elastic</html>", 200, **LOGIN_PAGE), "This is the address of Kibana: write"),
    ],
}


@pytest.mark.parametrize(
    ("cls", "reply", "advice"), [(cls, reply, advice) for cls, rows in REFUSALS.items() for reply, advice in rows]
)
def test_refusal_becomes_its_error_and_says_who_refuses_and_what_to_do(
    cls: type[MediaOpsError], reply: Response, advice: str
) -> None:
    with pytest.raises(cls) as caught:
        answer(hot_threads(HotThreadsQuery()), reply)
    assert type(caught.value) is cls
    assert re.search(advice, caught.value.message)


def test_refusal_of_a_cluster_has_its_status_and_type() -> None:
    with pytest.raises(RateLimitedError) as caught:
        answer(node_stats(), refusal(429, "es_rejected_execution_exception", "queue is full"))
    assert (caught.value.status, caught.value.reason) == (429, "es_rejected_execution_exception")


class TestVersion:
    @pytest.mark.parametrize(
        ("body", "headers", "version"),
        [
            ({"version": {"distribution": "opensearch", "number": "2.19.1"}}, {}, "OpenSearch 2.19.1"),
            ({"version": {"number": "9.1.0"}}, {"x-elastic-product": "Elasticsearch"}, "Elasticsearch 9.1.0"),
            ({"version": {"number": "7.10.2"}}, {}, "7.10.2"),
            ({"version": {"distribution": "other", "number": "1"}}, {}, "other 1"),
            ({}, {}, None),
            ({"version": "9"}, {}, None),
            ({"version": {}}, {}, None),
            ({"version": {"number": 9}}, {}, None),
        ],
    )
    def test_version_is_that_of_the_product_that_names_itself(
        self, body: Any, headers: dict[str, str], version: str | None
    ) -> None:
        assert answer(cluster_version(), replied(body, 200, **headers)) == version

    def test_reply_that_is_no_json_is_an_error(self) -> None:
        with pytest.raises(InvalidReplyError):
            answer(cluster_version(), replied("You know, for search"))


def test_a_list_of_nodes_is_read_from_a_list_or_a_text() -> None:
    assert node_list(None) is None
    assert node_list(" a ,b") == node_list(["a", "b "]) == ("a", "b")
