"""The cluster's calls: what is sent, how replies are read, and how the cluster says no."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.api import CLUSTER_RULES, EMPTY_REPORT, hot_threads, node_stats, probe
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
from airflow_provider_mediaops.http.exchange import Call, Request, Response
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.unit.call_flows import ask_once, replay
from tests.unit.search_cluster import error, replied, report, stats

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.models import NodeStats


def answer(call: Call[Any], reply: Response) -> Any:
    """Give what a client makes of one reply."""
    client = Client(("https://cluster.example:9200",), CLUSTER_RULES, retry=RetryPolicy(max_attempts=1))
    return replay(client.ask(call), [reply])


class TestHotThreadsRequest:
    def test_all_nodes_with_the_defaults_need_no_parameter(self) -> None:
        request = hot_threads(HotThreadsQuery()).request
        assert (request.method, request.path, request.params) == ("GET", "/_nodes/hot_threads", ())

    @pytest.mark.parametrize(
        ("name", "value", "sent"),
        [
            ("ignore_idle_threads", False, "false"),
            ("interval", "2s", "2s"),
            ("snapshots", 4, "4"),
            ("threads", 9999, "9999"),
            ("type", "wait", "wait"),
            ("type", "block", "block"),
            ("master_timeout", "1m", "1m"),
            ("timeout", "1m", "1m"),
        ],
    )
    def test_only_what_differs_from_the_default_is_sent(self, name: str, value: Any, sent: str) -> None:
        assert hot_threads(HotThreadsQuery(**{name: value})).request.params == ((name, sent),)

    def test_the_stated_defaults_are_those_of_the_service(self) -> None:
        query = HotThreadsQuery(
            ignore_idle_threads=True,
            interval="500ms",
            snapshots=10,
            threads=3,
            type="cpu",
            master_timeout="30s",
            timeout="30s",
        )
        assert hot_threads(query).request.params == ()

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

    def test_arguments_are_read_as_templates_render_them(self) -> None:
        arguments: dict[str, Any] = {"ignore_idle_threads": "False", "snapshots": "4", "threads": "5"}
        query = HotThreadsQuery(**arguments)
        assert query == HotThreadsQuery(ignore_idle_threads=False, snapshots=4, threads=5)
        assert ("ignore_idle_threads", "false") in hot_threads(query).request.params

    @pytest.mark.parametrize("nodes", [[], (), "", " ", ["a", ""], ["."], [".."], "a,,b", "['a']"])
    def test_a_list_that_names_no_node_is_not_taken_for_all_nodes(self, nodes: Any) -> None:
        with pytest.raises(ValueError, match="nodes"):
            HotThreadsQuery(nodes)
        with pytest.raises(ValueError, match="nodes"):
            node_stats(nodes)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("interval", "500"),
            ("interval", "0.5s"),
            ("interval", "-1ms"),
            ("interval", "5 s"),
            ("interval", "5s\n"),
            ("interval", "\u0665s"),
            ("timeout", ""),
            ("timeout", 30),
            ("timeout", "30S"),
            ("timeout", "9" * 40 + "d"),
            ("master_timeout", "1w"),
            ("snapshots", 0),
            ("snapshots", True),
            ("snapshots", "0"),
            ("threads", -1),
            ("threads", 1.5),
            ("type", "mem"),
            ("type", "CPU"),
            ("ignore_idle_threads", "perhaps"),
        ],
    )
    def test_what_the_service_would_refuse_is_refused_before(self, name: str, value: Any) -> None:
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

    def test_a_report_may_be_of_any_size(self) -> None:
        assert hot_threads(HotThreadsQuery()).request.large_reply


class TestHotThreadsReply:
    @pytest.mark.parametrize("label", [{"content-type": "application/json"}, {}, {"content-type": "text/plain"}])
    def test_the_text_is_kept_whatever_its_label(self, label: dict[str, str]) -> None:
        text = report("node-1", "node-2").replace("\n", "\r\n")
        assert answer(hot_threads(HotThreadsQuery()), Response(200, label, text.encode())) == text

    @given(st.binary(min_size=1))
    def test_every_byte_comes_back(self, tail: bytes) -> None:
        body = b"::: {node\xff}" + tail
        text = answer(hot_threads(HotThreadsQuery()), Response(200, {}, body))
        assert text.encode("utf-8", "surrogateescape") == body

    def test_text_that_only_begins_like_json_is_text(self) -> None:
        text = "{node-1} is cut off\n::: {node-2}"
        assert answer(hot_threads(HotThreadsQuery()), replied(text)) == text

    @pytest.mark.parametrize(
        ("body", "what"),
        [
            ("\n<!DOCTYPE html><html><body>Sign in</body></html>", "a web page"),
            ('{"error": {"type": "odd"}, "status": 200}', "JSON"),
            ('["a list", {"nodes": 5}]', "JSON"),
            ('{"nodes": ' + "[" * 10_000 + "]" * 10_000 + "}", "JSON"),
            ('{"nodes": {"cut": ', "JSON"),
            ("upstream connect error or disconnect/reset before headers.", "no report of hot threads"),
            ("", "empty"),
            ("  \n", "empty"),
        ],
    )
    def test_a_reply_that_is_no_report_is_a_failure(self, body: str, what: str) -> None:
        with pytest.raises(InvalidReplyError, match=what) as caught:
            answer(hot_threads(HotThreadsQuery()), replied(body))
        assert caught.value.path == "/_nodes/hot_threads"
        assert caught.value.status == 200

    def test_an_empty_report_names_the_nodes_that_were_asked_for(self) -> None:
        with pytest.raises(NotFoundError, match=r"timeout=5s.*'node-8' or 'node-9'") as caught:
            answer(hot_threads(HotThreadsQuery("node-8,node-9", timeout="5s")), replied(""))
        assert caught.value.service == "search cluster"
        assert caught.value.path == "/_nodes/node-8,node-9/hot_threads"

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

    @pytest.mark.parametrize("nodes", [None, "node-8"])
    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ({"timeout": "600ms"}, r"Nodes that do not answer within timeout=600ms are left out"),
            ({}, r"Nodes that do not answer within timeout=30s are left out"),
        ],
    )
    def test_an_empty_report_names_the_time_limit(self, nodes: str | None, query: dict[str, Any], message: str) -> None:
        with pytest.raises(MediaOpsError, match=message) as caught:
            answer(hot_threads(HotThreadsQuery(nodes, **query)), replied(""))
        assert caught.value.reason == EMPTY_REPORT
        assert "proxy" not in caught.value.message


class TestProbe:
    STATS = replied(stats({"node-1": 5}))
    REPORT = replied(report("node-1"))

    def denied(self, action: str) -> Response:
        return replied(error(403, "security_exception", f"no permissions for [{action}] and User [name=u]"), 403)

    def ask(self, *replies: Response) -> NodeStats:
        client = Client(("https://cluster.example:9200",), CLUSTER_RULES)
        return replay(probe(client.ask), list(replies))

    def test_both_privileges_are_asked_of_one_node(self) -> None:
        requests: list[Request] = []

        def ask(call: Call[Any]) -> Any:
            requests.append(call.request)
            return ask_once(call)

        assert replay(probe(ask), [self.STATS, self.REPORT]).cluster_name == "docs"
        statistics, threads = requests
        assert statistics.path == "/_nodes/_local/stats/os,process"
        assert threads.path == "/_nodes/_local/hot_threads"
        assert dict(threads.params) == {"interval": "10ms", "snapshots": "1", "threads": "1"}

    @pytest.mark.parametrize(
        ("stats_allowed", "threads_allowed", "message"),
        [
            (
                False,
                True,
                r"^The connection's user may not read its nodes' statistics \(cluster:monitor/nodes/stats\), ",
            ),
            (True, False, r"^The connection's user may not read hot threads \(cluster:monitor/nodes/hot_threads\), "),
            (False, False, r"may read neither its nodes' statistics \(.*\) nor hot threads \("),
        ],
    )
    def test_a_missing_one_is_named(self, *, stats_allowed: bool, threads_allowed: bool, message: str) -> None:
        with pytest.raises(PermissionDeniedError, match=message) as caught:
            self.ask(
                self.STATS if stats_allowed else self.denied("cluster:monitor/nodes/stats"),
                self.REPORT if threads_allowed else self.denied("cluster:monitor/nodes/hot_threads"),
            )
        assert caught.value.status == 403
        assert "cluster_monitor" in caught.value.message

    def test_any_other_refusal_ends_it_at_once(self) -> None:
        with pytest.raises(AuthenticationError):
            self.ask(replied("Unauthorized", 401))


class TestNodeStats:
    def test_the_nodes_are_read(self) -> None:
        found = answer(node_stats(), replied(stats({"node-1": 12, "node-2": None})))
        assert [(node.name, node.percent) for node in found.nodes] == [("node-1", 12.0), ("node-2", None)]
        assert found.cluster_name == "docs"

    def test_nodes_that_do_not_exist_are_named(self) -> None:
        with pytest.raises(NotFoundError, match="'node-9'") as caught:
            answer(node_stats(["node-9"]), replied(stats({})))
        assert caught.value.path == "/_nodes/node-9/stats/os,process"

    def test_no_node_that_answered_may_pass(self) -> None:
        with pytest.raises(ServiceUnavailableError, match=r"Failed node \[abc\]"):
            answer(node_stats(), replied(stats({}, failures=("Failed node [abc]",))))

    @pytest.mark.parametrize("body", [stats({}), {"nodes": []}, {"cluster_name": "docs"}, "[]", "<html>", ""])
    def test_a_reply_that_tells_of_no_node_is_a_failure(self, body: Any) -> None:
        with pytest.raises(InvalidReplyError):
            answer(node_stats(), replied(body))


class TestRefusals:
    @pytest.mark.parametrize(
        ("status", "type_", "reason", "cls", "advice"),
        [
            (
                401,
                "security_exception",
                "missing authentication credentials",
                AuthenticationError,
                "login and password",
            ),
            (
                403,
                "security_exception",
                "no permissions for [cluster:monitor/nodes/hot_threads]",
                PermissionDeniedError,
                "This is OpenSearch: .* action group cluster_monitor, .* permissions cluster:monitor/nodes/stats and",
            ),
            (
                403,
                "security_exception",
                "action [cluster:monitor/nodes/stats] is unauthorized for API key id [7] of user [u]",
                PermissionDeniedError,
                "This is Elasticsearch: .* cluster privilege monitor",
            ),
            (
                403,
                "security_exception",
                "denied",
                PermissionDeniedError,
                "group cluster_monitor of OpenSearch, or .* monitor of E",
            ),
            (
                400,
                "illegal_argument_exception",
                "request [/_nodes/hot_threads] contains unrecognized parameter: [master_timeout]",
                BadRequestError,
                "does not know master_timeout: leave it out",
            ),
            (
                400,
                "illegal_argument_exception",
                "request [/x] contains unrecognized parameters: [bogus], [thread] -> did you mean [threads]?",
                BadRequestError,
                "does not know bogus and thread: leave",
            ),
            (400, "illegal_argument_exception", "Failed to parse [x]", BadRequestError, "Correct the parameter that"),
            (429, "es_rejected_execution_exception", "queue is full", RateLimitedError, "after a pause"),
            (429, "circuit_breaking_exception", "data too large", ServiceUnavailableError, "short of memory"),
            (503, "circuit_breaking_exception", "data too large", ServiceUnavailableError, "short of memory"),
            (503, "master_not_discovered_exception", "no master", ServiceUnavailableError, "master_timeout"),
            (503, "cluster_manager_not_discovered_exception", "none", ServiceUnavailableError, "master_timeout"),
            (503, "receive_timeout_transport_exception", "[node-1] timed out", ReplyTimeoutError, "Raise timeout"),
            (503, "process_cluster_event_timeout_exception", "30s", ReplyTimeoutError, "Raise timeout"),
            (500, "timeout_exception", "30s", ReplyTimeoutError, "Raise timeout"),
            (500, "null_pointer_exception", "", ServiceUnavailableError, "tried again"),
            (404, "index_not_found_exception", "no such index [_nodes]", NotFoundError, "base address"),
        ],
    )
    def test_each_becomes_its_error_and_says_what_to_do(
        self, status: int, type_: str, reason: str, cls: type[MediaOpsError], advice: str
    ) -> None:
        with pytest.raises(cls) as caught:
            answer(hot_threads(HotThreadsQuery()), replied(error(status, type_, reason), status))
        assert type(caught.value) is cls
        assert (caught.value.status, caught.value.reason) == (status, type_)
        assert reason in caught.value.message
        assert re.search(advice, caught.value.message)

    @pytest.mark.parametrize("path", ["/wrong", ""])
    def test_a_route_that_is_not_there_is_a_matter_of_the_base_address(self, path: str) -> None:
        body = {"error": f"no handler found for uri [{path}/_nodes/hot_threads] and method [GET]"}
        with pytest.raises(BadRequestError, match="Check the base address in the connection"):
            answer(hot_threads(HotThreadsQuery()), replied(body, 400))

    @pytest.mark.parametrize(
        ("status", "body", "cls"),
        [
            (401, "Unauthorized", AuthenticationError),
            (403, "", PermissionDeniedError),
            (502, "<html><h1>Bad gateway</h1></html>", ServiceUnavailableError),
            (400, '{"error": "Incorrect HTTP method"}', BadRequestError),
        ],
    )
    def test_other_bodies_are_told_by_their_status(self, status: int, body: str, cls: type[MediaOpsError]) -> None:
        with pytest.raises(cls):
            answer(node_stats(), replied(body, status))


class TestOtherServers:
    """Refusals by Amazon, Elastic Cloud, a proxy, Kibana or Dashboards: as they were seen, cut to what tells them."""

    @pytest.mark.parametrize(
        ("reply", "cls", "advice"),
        [
            (
                replied({"Message": "Your request: '/_nodes/hot_threads' is not allowed."}, 401),
                NotFoundError,
                "not allowed. Amazon OpenSearch Service does not offer this route on this domain.",
            ),
            (
                replied(
                    error(
                        410,
                        "api_not_available_exception",
                        "… exists but is not available when running in serverless mode",
                    ),
                    410,
                ),
                NotFoundError,
                "Elastic Cloud Serverless has no nodes",
            ),
            (
                replied("<html><h2>407 Proxy Authentication Required</h2></html>", 407),
                AuthenticationError,
                "The proxy on the way asks for a user and password, not the service",
            ),
            (
                replied("<html><h1>504 Gateway Time-out</h1></html>", 504),
                ServiceUnavailableError,
                "504 Gateway Time-out. A proxy or load balancer before the cluster did not wait",
            ),
            (
                replied("<html>401 Authorization Required</html>", 401, **{"www-authenticate": "Negotiate"}),
                AuthenticationError,
                "asks for Kerberos (Negotiate)",
            ),
            (
                replied("", 401, **{"www-authenticate": 'Negotiate, Basic realm="security"'}),
                AuthenticationError,
                "Check login and password",
            ),
            (
                replied({"statusCode": 401, "error": "Unauthorized"}, 401, **{"osd-name": "dashboards-1"}),
                AuthenticationError,
                "This is the address of OpenSearch Dashboards: write that of the cluster",
            ),
            (
                replied("", 302, **{"kbn-name": "kibana-1", "location": "/login?next=%2F"}),
                InvalidReplyError,
                "This is the address of Kibana: write that of the cluster",
            ),
            (
                replied("<!DOCTYPE html><html>Elastic</html>", 200, **{"kbn-name": "kibana-1"}),
                InvalidReplyError,
                "This is the address of Kibana: write that of the cluster",
            ),
        ],
    )
    def test_refusal_names_who_refuses_and_what_to_do(
        self, reply: Response, cls: type[MediaOpsError], advice: str
    ) -> None:
        with pytest.raises(cls) as caught:
            answer(hot_threads(HotThreadsQuery()), reply)
        assert type(caught.value) is cls
        assert advice in caught.value.message

    @pytest.mark.parametrize(
        ("body", "cls", "advice"),
        [
            (
                {"message": "The security token included in the request is expired"},
                AuthenticationError,
                "The temporary AWS credentials are over",
            ),
            (
                {"message": "The security token included in the request is invalid."},
                AuthenticationError,
                "Amazon does not know the access key",
            ),
            (
                {"message": "Credential should be scoped to a valid region, not 'eu-north-1'. "},
                AuthenticationError,
                "set region in the connection",
            ),
            (
                {"message": "Credential should be scoped to correct service: 'es'. "},
                AuthenticationError,
                "check the base address",
            ),
            (
                {"message": "Signature expired: 20261126T100000Z is now earlier than 20261126T101000Z"},
                AuthenticationError,
                "The clock of this machine is off",
            ),
            (
                {"message": "Signature not yet current: 20261126T102000Z is still later than 20261126T101500Z"},
                AuthenticationError,
                "The clock of this machine is off",
            ),
            (
                {"message": "The request signature we calculated does not match the signature you provided."},
                AuthenticationError,
                "Check the secret access key",
            ),
            (
                {"Message": "User: anonymous is not authorized to perform: es:ESHttpGet on resource: logs"},
                AuthenticationError,
                "set auth=aws",
            ),
            (
                {"Message": "User: arn:aws:iam::123456789012:user/x is not authorized to perform: es:ESHttpGet"},
                PermissionDeniedError,
                "Allow this user or role es:ESHttpGet",
            ),
            (
                error(
                    403,
                    "security_exception",
                    "no permissions for [cluster:monitor/nodes/stats] and User [name=arn:aws:iam::1:role/x, roles=[]]",
                ),
                PermissionDeniedError,
                "map the ARN of the user or role",
            ),
            ({"message": "Request throttled due to too many requests"}, RateLimitedError, "after a pause"),
        ],
    )
    def test_refusal_by_amazon_says_what_to_do(
        self, body: dict[str, Any], cls: type[MediaOpsError], advice: str
    ) -> None:
        with pytest.raises(cls) as caught:
            answer(node_stats(), replied(body, 403))
        assert type(caught.value) is cls
        assert advice in caught.value.message


def test_a_list_of_nodes_is_read_from_a_list_or_a_text() -> None:
    assert node_list(None) is None
    assert node_list(" a ,b") == node_list(["a", "b "]) == ("a", "b")
