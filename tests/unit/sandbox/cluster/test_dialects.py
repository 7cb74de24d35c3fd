"""What the dialects say, beyond the table of test_docs.py; real servers say the same (tests/cluster)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.api import node_cores
from airflow_provider_mediaops.http.exchange import Response
from airflow_provider_mediaops.sandbox.cluster import routes as cluster
from airflow_provider_mediaops.sandbox.cluster.nodes import NODES
from airflow_provider_mediaops.sandbox.faults import LimitFault, StatusFault
from tests.unit.sandbox.credentials import OPERATOR

if TYPE_CHECKING:
    import httpx

    from tests.unit.sandbox.conftest import Sandbox

PRODUCTS = ("opensearch-2", "elasticsearch-9")


@pytest.fixture(params=PRODUCTS)
def product(request: pytest.FixtureRequest, make_sandbox: type[Sandbox]) -> Sandbox:
    return make_sandbox(cluster_dialect=request.param)


@pytest.fixture
def opensearch(make_sandbox: type[Sandbox]) -> Sandbox:
    return make_sandbox(cluster_dialect="opensearch-2")


@pytest.fixture
def elasticsearch(make_sandbox: type[Sandbox]) -> Sandbox:
    return make_sandbox(cluster_dialect="elasticsearch-9")


async def ask(
    sandbox: Sandbox,
    path: str,
    *,
    login: tuple[str, str] | None = OPERATOR,
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    return await sandbox.get(f"/cluster{path}", auth=login, headers=headers)


@pytest.mark.parametrize(
    ("dialect", "number", "distribution", "manager"),
    [
        ("document", "2.19.1", "opensearch", "cluster_manager"),
        ("opensearch-2", "2.19.1", "opensearch", "cluster_manager"),
        ("elasticsearch-9", "9.1.0", None, "master"),
    ],
)
async def test_the_cluster_says_who_it_is(
    make_sandbox: type[Sandbox], dialect: str, number: str, distribution: str | None, manager: str
) -> None:
    sandbox = make_sandbox(cluster_dialect=dialect)
    version = (await ask(sandbox, "/")).json()["version"]
    statistics = (await ask(sandbox, "/_nodes/stats/os")).json()

    assert (version["number"], version.get("distribution")) == (number, distribution)
    assert manager in statistics["nodes"][NODES[0].id]["roles"]


@pytest.mark.parametrize("dialect", ["document", "opensearch-2", "elasticsearch-9"])
async def test_every_dialect_says_how_many_cores_nodes_have(make_sandbox: type[Sandbox], dialect: str) -> None:
    sandbox = make_sandbox(cluster_dialect=dialect)
    for call, nodes in ((node_cores(), NODES), (node_cores("sandbox-2,sandbox-3"), NODES[1:])):
        query = "&".join(f"{name}={value}" for name, value in call.request.params)
        reply = await ask(sandbox, f"{call.request.path}?{query}")
        assert call.parse(Response(reply.status_code, body=reply.content)) == {node.id: 8 for node in nodes}


async def test_elasticsearch_names_itself_in_a_header_that_clients_ask_for(elasticsearch: Sandbox) -> None:
    paths = ("/", "/_nodes/hot_threads", "/_nodes/stats", "/_nodes/hot_threads?bogus", "/no/such/route")

    assert {(await ask(elasticsearch, path)).headers["X-elastic-product"] for path in paths} == {"Elasticsearch"}


async def test_elasticsearch_sends_its_own_content_type_if_asked(elasticsearch: Sandbox, opensearch: Sandbox) -> None:
    own = "application/vnd.elasticsearch+json;compatible-with=9"
    for path in ("/", "/_nodes/stats", "/_nodes/hot_threads?bogus"):
        accept = {"Accept": own.replace(";", "; ")}
        assert (await ask(elasticsearch, path, headers=accept)).headers["Content-Type"] == own
        assert (await ask(opensearch, path, headers=accept)).headers[
            "Content-Type"
        ] == "application/json; charset=UTF-8"


async def test_opensearch_refuses_a_login_in_one_word(opensearch: Sandbox) -> None:
    reply = await ask(opensearch, "/_nodes/stats", login=("sandbox-operator", "wrong"))

    assert (reply.status_code, reply.text) == (401, "Unauthorized")
    assert reply.headers["WWW-Authenticate"] == 'Basic realm="OpenSearch Security"'


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "missing authentication credentials for REST request [/_nodes/stats?pretty]"),
        ({"Authorization": "Digest x"}, "missing authentication credentials for REST request [/_nodes/stats?pretty]"),
        (
            {"Authorization": "Basic bWU6eA=="},
            "unable to authenticate user [me] for REST request [/_nodes/stats?pretty]",
        ),
        ({"Authorization": "Basic ???"}, "invalid basic authentication header value"),
        ({"Authorization": "Bearer x"}, "unable to authenticate with provided credentials"),
    ],
)
async def test_elasticsearch_refuses_a_login_in_json(
    elasticsearch: Sandbox, headers: dict[str, str], reason: str
) -> None:
    reply = await ask(elasticsearch, "/_nodes/stats?pretty", login=None, headers=headers)

    error = reply.json()["error"]
    assert reply.status_code == 401
    assert error["reason"].startswith(reason)
    assert error["header"]["WWW-Authenticate"] == reply.headers.get_list("WWW-Authenticate")
    assert reply.headers.get_list("WWW-Authenticate")[1] == "ApiKey"


@pytest.mark.parametrize(
    ("dialect", "reason"),
    [
        (
            "opensearch-2",
            (
                "no permissions for [cluster:monitor/nodes/hot_threads] and "
                "User [name=sandbox-guest, backend_roles=[], requestedTenant=null]"
            ),
        ),
        (
            "elasticsearch-9",
            (
                "action [cluster:monitor/nodes/hot_threads] is unauthorized for user [sandbox-guest] with effective "
                "roles [], this action is granted by the cluster privileges [monitor,manage,all]"
            ),
        ),
    ],
)
async def test_a_missing_privilege_is_named_after_wrong_parameters(
    make_sandbox: type[Sandbox], dialect: str, reason: str
) -> None:
    sandbox, guest = make_sandbox(cluster_dialect=dialect), (cluster.GUEST_LOGIN, cluster.GUEST_PASSWORD)

    assert (await ask(sandbox, "/_nodes/hot_threads", login=guest)).json()["error"]["reason"] == reason
    assert (await ask(sandbox, "/_nodes/hot_threads?bogus", login=guest)).status_code == 400


async def test_a_wrong_number_has_its_cause(product: Sandbox) -> None:
    error = (await ask(product, "/_nodes/hot_threads?threads=many")).json()["error"]

    assert error["reason"] == "Failed to parse int parameter [threads] with value [many]"
    assert error["caused_by"] == {"type": "number_format_exception", "reason": 'For input string: "many"'}


@pytest.mark.parametrize(("dialect", "name"), [("opensearch-2", "NodesStatsRequest.timeout"), (PRODUCTS[1], "timeout")])
async def test_a_time_limit_is_called_as_the_product_calls_it(
    make_sandbox: type[Sandbox], dialect: str, name: str
) -> None:
    reply = await ask(make_sandbox(cluster_dialect=dialect), "/_nodes/stats/os?timeout=5")

    assert f"failed to parse setting [{name}] with value [5]" in reply.json()["error"]["reason"]


async def test_unknown_sets_of_statistics_are_refused(product: Sandbox) -> None:
    reply = await ask(product, "/_nodes/stats/os,proces,zzz")

    words = "contains unrecognized metrics: [proces] -> did you mean [process]?, [zzz]"
    assert reply.json()["error"]["reason"] == f"request [/_nodes/stats/os,proces,zzz] {words}"


async def test_the_level_of_statistics_is_checked_by_elasticsearch(opensearch: Sandbox, elasticsearch: Sandbox) -> None:
    assert (await ask(opensearch, "/_nodes/stats/os?level=x")).status_code == 200
    assert "was [x]" in (await ask(elasticsearch, "/_nodes/stats/os?level=x")).json()["error"]["reason"]


@pytest.mark.parametrize(
    ("filter_path", "kept"),
    [
        ("_nodes", {"_nodes": {"total": 1, "successful": 1, "failed": 0}}),
        (
            "nodes.*.name,cluster_name",
            {"cluster_name": "mediaops-sandbox", "nodes": {NODES[0].id: {"name": "sandbox-1"}}},
        ),
        ("**.zo*", {"nodes": {NODES[0].id: {"attributes": {"zone": "north"}}}}),
        ("_nodes,-_nodes.failed", {"_nodes": {"total": 1, "successful": 1}}),
        ("_nodes,-**.total,-_nodes.successful,-**.failed", {}),
        ("nope", {}),
    ],
)
async def test_a_reply_is_filtered(product: Sandbox, filter_path: str, kept: dict[str, Any]) -> None:
    assert (await ask(product, f"/_nodes/sandbox-1/stats/os?filter_path={filter_path}")).json() == kept


async def test_a_reply_is_spread_over_lines(product: Sandbox) -> None:
    text = (await ask(product, "/_nodes/nobody/stats/os?pretty")).text

    assert text.startswith('{\n  "_nodes" : {\n    "total" : 0,\n')
    assert text.endswith('\n  "nodes" : { }\n}\n')
    assert '{\n  "error" : {\n' in (await ask(product, "/_nodes/hot_threads?bogus&pretty")).text


async def test_a_refusal_shows_where_it_arose_if_asked(product: Sandbox) -> None:
    error = (await ask(product, "/_nodes/hot_threads?bogus&error_trace")).json()["error"]

    assert "[bogus]" in error["stack_trace"]
    assert error["root_cause"][0]["stack_trace"] == error["stack_trace"]


@pytest.mark.parametrize(
    ("dialect", "status", "start"),
    [
        ("document", 401, '{"error":{'),
        ("opensearch-2", 401, "Unauthorized"),
        ("elasticsearch-9", 401, '{"error":{'),
        ("opensearch-2", 503, '{"error":{'),
    ],
)
async def test_an_armed_fault_has_the_shape_of_the_dialect(
    make_sandbox: type[Sandbox], dialect: str, status: int, start: str
) -> None:
    sandbox = make_sandbox(cluster_dialect=dialect)
    sandbox.state.faults.arm(StatusFault(service="cluster", status=status))
    reply = await ask(sandbox, "/_nodes/hot_threads")

    assert reply.status_code == status
    assert reply.text.startswith(start)


async def test_an_armed_limit_names_the_product(elasticsearch: Sandbox) -> None:
    elasticsearch.state.faults.arm(LimitFault(service="cluster"))
    reply = await ask(elasticsearch, "/_nodes/hot_threads")

    assert (reply.status_code, reply.headers["X-elastic-product"]) == (429, "Elasticsearch")
