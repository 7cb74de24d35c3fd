"""What the description of a task says, by its action: the query, and the indices that the client named."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.cluster.running_tasks.description_parser import expression_of, index_of, query_of

SEARCH, PIT = "indices:data/read/search", "indices:data/read/open_point_in_time"
ESQL, SQL = "indices:data/read/esql", "indices:data/read/sql"
REINDEX, UPDATE, DELETE = (f"indices:data/write/{name}" for name in ("reindex", "update/byquery", "delete/byquery"))
SECRET = "123-45-6789"
SCRIPT = f"Script{{type=inline, lang='painless', idOrCode='x = [{SECRET}] to [{SECRET}]', options={{}}, params={{}}}}"


def test_the_query_is_found_in_the_description_of_a_search() -> None:
    source = '{"size":1,"query":{"match":{"title":"a ] b"}}}'
    description = f"indices[orders-2026], search_type[QUERY_THEN_FETCH], source[{source}]"
    assert query_of(SEARCH, description) == source
    assert query_of(SEARCH, "shardId[[orders-2026][0]]") is None
    assert query_of(SEARCH, "") is None
    assert query_of(SEARCH, description[:70]) == description[:70].partition("source[")[2]


@pytest.mark.parametrize(
    ("kind", "description", "query"),
    [
        (ESQL, " FROM a | LIMIT 1 ", "ES|QL: FROM a | LIMIT 1"),
        (f"{ESQL}/async", "FROM a", "ES|QL: FROM a"),
        (ESQL, " ", None),
        # The plan of a part.
        (f"{ESQL}/compute", "\\_LuceneSourceOperator[limit = 1000]", None),
        (SQL, "SQL [SELECT a FROM b][null]", "SQL: SELECT a FROM b"),
        (SQL, 'SQL [SELECT a][{"range" : {"a" : {"gte" : 1}}}]', "SQL: SELECT a"),
        (SQL, "SQL [SELECT a]", "SQL: SELECT a"),
        (SQL, "of another version", None),
        (REINDEX, "reindex from [a] to [b]", None),
    ],
)
def test_the_query_of_other_languages_has_its_name(kind: str, description: str, query: str | None) -> None:
    assert query_of(kind, description) == query


def test_a_long_query_is_cut() -> None:
    for kind, description in ((ESQL, "FROM a" * 20_000), (SEARCH, 'source[{"a":"' + "b" * 100_000)):
        assert len(query_of(kind, description) or "") <= 65_536 + len("ES|QL: ")


@pytest.mark.parametrize(
    ("kind", "description", "indices"),
    [
        (SEARCH, "indices[logs-*, orders], search_type[QUERY_THEN_FETCH], source[{}]", "logs-*,orders"),
        # It is in the point in time, which has an id.
        (SEARCH, "indices[], search_type[QUERY_THEN_FETCH], source[{}]", None),
        (PIT, "open search context: indices [logs-*,orders] keep_alive [1m]", "logs-*,orders"),
        ("indices:data/read/point_in_time/create", "indices[logs-*], pointintime[1m]", "logs-*"),
        (ESQL, "FROM logs-* | STATS c = COUNT(*) BY host", "logs-*"),
        (ESQL, '  from logs-2025.11.01 , "a b",other METADATA _id | LIMIT 1', "logs-2025.11.01,a b,other"),
        (ESQL, "// the\n/* first */ TS metrics\n| LIMIT 1", "metrics"),
        (ESQL, 'ROW a = "FROM payroll"', None),
        (ESQL, f'FROM a | WHERE b == "indices[{SECRET}]"', "a"),
        (f"{ESQL}/compute", "\\_LuceneSourceOperator[]", None),
        (SQL, 'SQL [SELECT EXTRACT(YEAR FROM at) FROM "logs-*" WHERE a = 1][null]', "logs-*"),
        (SQL, "SQL [SELECT ' FROM 123-45-6789' FROM logs][null]", "logs"),
        (SQL, "SQL [SELECT a FROM (SELECT b FROM c)][null]", None),
        (SQL, 'SQL [SELECT "FROM z" FROM t][null]', "t"),
        # On some dialects a text stands in double quotes.
        (SQL, 'SQL [SELECT a IS DISTINCT FROM "123-45-6789" FROM t][null]', "t"),
        (SQL, "SQL [/* FROM c */ SELECT a -- FROM c\nFROM t][null]", "t"),
        (SQL, "SQL [SELECT '-- ' FROM t][null]", "t"),
        (SQL, "SQL [][null]", None),
        (REINDEX, "reindex from [old-*] to [new][_doc]", "old-*,new"),
        (REINDEX, "reindex from [a, b] to [new]", "a,b,new"),
        (REINDEX, f"reindex from [old] updated with {SCRIPT} to [new]", "old,new"),
        # Of another cluster: its indices are not here.
        (REINDEX, f'reindex from [scheme=https host=a query={{"x":"[{SECRET}] to [{SECRET}]"}}][old] to [new]', "new"),
        (REINDEX, "reindex from [scheme=https host=a query={}][old] to [new]", "new"),
        (UPDATE, f"update-by-query [logs-2025] updated with {SCRIPT}", "logs-2025"),
        (DELETE, "delete-by-query [a, b]", "a,b"),
        ("indices:data/write/bulk", "requests[266], index[orders][0]", None),
    ],
)
def test_the_indices_are_those_that_the_client_named(kind: str, description: str, indices: str | None) -> None:
    assert expression_of(kind, description) == indices


@pytest.mark.parametrize(
    ("kind", "description", "index"),
    [
        (SEARCH, "shardId[[orders][0]]", "orders"),
        ("indices:data/write/bulk", "requests[266], index[orders][0]", "orders"),
        (ESQL, f'FROM a | WHERE b == "index[{SECRET}][0]"', None),
        (SQL, f"SQL [SELECT 'index[{SECRET}][0]'][null]", None),
    ],
)
def test_the_index_of_a_shard(kind: str, description: str, index: str | None) -> None:
    assert index_of(kind, description) == index
