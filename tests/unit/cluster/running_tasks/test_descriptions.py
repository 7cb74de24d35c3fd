"""What the description of a task says: its indices, its query, and the shape of that, without any literal."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.running_tasks.descriptions import (
    expression_of,
    index_of,
    query_of,
    shape_of,
)

SEARCH, PIT = "indices:data/read/search", "indices:data/read/open_point_in_time"
ESQL, SQL = "indices:data/read/esql", "indices:data/read/sql"
REINDEX, UPDATE, DELETE = (f"indices:data/write/{name}" for name in ("reindex", "update/byquery", "delete/byquery"))
SECRET = "123-45-6789"
SCRIPT = f"Script{{type=inline, lang='painless', idOrCode='x = [{SECRET}] to [{SECRET}]', options={{}}, params={{}}}}"
KEYS = ["bool", "must", 'a "b"\\', "ключ", "\n"]
literals = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.just(SECRET)
queries = st.recursive(
    literals,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=15,
)


@pytest.mark.parametrize(
    ("query", "shape"),
    [
        ({"size": 10, "query": {"match": {"title": SECRET}}}, '{"query":{"match":{"title":"?"}},"size":"?"}'),
        ({"query": {"terms": {"id": [1, 2, 3]}}}, '{"query":{"terms":{"id":["?"]}}}'),
        ({"should": [{"match": {"a": 1}}, {"match": {"a": 2}}]}, '{"should":[{"match":{"a":"?"}}]}'),
        ({"b": None, "a": True}, '{"a":"?","b":"?"}'),
        (
            {"script": {"source": "doc['x'] + \"}{\"", "params": {"n": 3}}},
            '{"script":{"params":"?","source":"?"}}',
        ),
        ({"neural_sparse": {"f": {"query_tokens": {SECRET: 1}}}}, '{"neural_sparse":{"f":{"query_tokens":"?"}}}'),
        ({"sparse_vector": {"query_vector": {SECRET: 1}}}, '{"sparse_vector":{"query_vector":"?"}}'),
        ({"weighted_tokens": {"f": {"tokens": {SECRET: 1}}}}, '{"weighted_tokens":{"f":{"tokens":"?"}}}'),
        ({"a": [], "b": {}}, '{"a":[],"b":{}}'),
        ({"ключ": "ü"}, '{"ключ":"?"}'),
        ({"k" * 101: 1}, f'{{"{"k" * 100}…":"?"}}'),
        ({'a "b"\\': "…", "?": ["…", "?"]}, '{"?":["?"],"a \\"b\\"\\\\":"?"}'),
    ],
)
def test_literals_become_question_marks_and_keys_are_sorted(query: Any, shape: str) -> None:
    assert shape_of(json.dumps(query, ensure_ascii=False)) == shape


@given(queries)
def test_no_literal_is_left_wherever_the_query_is_cut(query: Any) -> None:
    text = json.dumps({"query": query})
    for end in range(1, len(text) + 1):
        shape = shape_of(text[:end])
        assert SECRET not in shape
        assert not re.search("[0-9]", shape)
        assert shape.endswith("…") == (end < len(text))


@pytest.mark.long
@given(queries)
def test_a_query_that_is_cut_after_its_end_has_the_same_shape(query: Any) -> None:
    text = json.dumps({"query": query})
    assert shape_of(f"{text}], scroll[1m") == shape_of(text)
    # One bracket less: it is read to the end, and not parsed as JSON.
    assert shape_of(text[:-1]).removesuffix("…") == shape_of(text)


@pytest.mark.parametrize(("begin", "end"), [('{"a":', "}"), ("[", "]")])
@pytest.mark.parametrize("depth", [59, 60, 61, 5_000])
def test_query_that_is_nested_too_deep_is_cut_in_the_same_place_whether_it_is_whole_or_not(
    depth: int, begin: str, end: str
) -> None:
    text = begin * depth + "1" + end * depth
    assert shape_of(text[:-1]).removesuffix("…") == shape_of(text).removesuffix("…")
    assert ("…" in shape_of(text)) == (depth > 60)


@pytest.mark.parametrize(
    "text",
    ["", "hello 42", SECRET, f"{{{SECRET}: {SECRET}", f'"{SECRET}', f'{{"a":"{SECRET}: {{b, \\', "}{", "[" * 5_000],
)
def test_a_text_that_is_no_json_shows_nothing_of_itself(text: str) -> None:
    assert SECRET not in shape_of(text)
    assert "hello" not in shape_of(text)


def test_requests_of_one_kind_are_alike_whatever_they_look_for() -> None:
    one = {"bool": {"must": [{"term": {"user": "ann"}}, {"range": {"at": {"gte": 1}}}]}}
    other = {"bool": {"must": [{"range": {"at": {"gte": 99}}}, {"term": {"user": "bob"}}, {"term": {"user": "eve"}}]}}
    assert shape_of(json.dumps(one)) == shape_of(json.dumps(other))
    assert shape_of(json.dumps(one)) != shape_of(json.dumps({"bool": {"should": one["bool"]["must"]}}))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({f"field_{number}": number for number in range(20_000)}),
        '{"a":' * 30_000,
        json.dumps({"k" * 50_000: 1}),
        '{"a":["' + "x" * 10**6,
        "ES|QL: FROM " + "a, " * 40_000,
        "SQL: SELECT " + "b + " * 40_000,
    ],
    ids=lambda text: text[:15],
)
def test_shape_is_bounded_whatever_comes(text: str) -> None:
    assert len(shape_of(text)) <= 2_000
    assert "…" in shape_of(text)


class TestTexts:
    @pytest.mark.parametrize(
        ("query", "shape"),
        [
            ("ES|QL: FROM logs-* | STATS c = COUNT(*) BY host", "ES|QL: FROM logs-* | STATS c = COUNT(*) BY host"),
            (
                f'ES|QL: FROM a | WHERE user1.ssn2 == "{SECRET}"\n  AND n > -4.5e3 // {SECRET}\n| LIMIT 10',
                "ES|QL: FROM a | WHERE user1.ssn2 == ? AND n > -? | LIMIT ?",
            ),
            (f'ES|QL: FROM a /* {SECRET} */| WHERE t LIKE """{SECRET} " | """', "ES|QL: FROM a | WHERE t LIKE ?"),
            (f'ES|QL: FROM a | WHERE t == "\\"{SECRET}" AND `1 {KEYS[0]}` IN (1, 2,3)', None),
            ("SQL: SELECT a FROM t WHERE b = 'it''s' AND c IN (1, 2)", "SQL: SELECT a FROM t WHERE b = ? AND c IN (?)"),
            # On some dialects a text stands in double quotes.
            ('SQL: SELECT a FROM t WHERE b = "123-45-6789"', "SQL: SELECT a FROM t WHERE b = ?"),
            # No backslash escapes a mark there.
            ("SQL: SELECT a FROM t WHERE b = 'x\\' AND c = '123-45-6789' -- 123-45-6789", None),
        ],
    )
    def test_literals_and_comments_are_left_out(self, query: str, shape: str | None) -> None:
        found = shape_of(query)
        assert SECRET not in found
        assert "123" not in found
        assert found == shape or (shape is None and found.endswith(("= ? AND c = ?", "AND `1 bool` IN (?)")))

    @pytest.mark.parametrize("mark", ["ES|QL: ", "SQL: "])
    def test_no_literal_is_left_wherever_it_is_cut(self, mark: str) -> None:
        quote = "'" if mark == "SQL: " else '"'
        text = f"FROM a WHERE b == {quote}secret word{quote} AND c == 42 /* secret */ AND d == {quote}secret{quote}"
        for end in range(len(text) + 1):
            assert "secret" not in shape_of(mark + text[:end])
            assert "4" not in shape_of(mark + text[:end])


@pytest.mark.parametrize(
    ("kind", "description", "query"),
    [
        (SEARCH, 'indices[a], search_type[X], source[{"q":{"match":{"t":"a ] b"}}}]', '{"q":{"match":{"t":"a ] b"}}}'),
        # Cut.
        (SEARCH, 'indices[a], search_type[X], source[{"q":{"ma', '{"q":{"ma'),
        (SEARCH, "shardId[[orders-2026][0]]", None),
        (SEARCH, "", None),
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
def test_the_query_is_found_with_the_name_of_its_language(kind: str, description: str, query: str | None) -> None:
    assert query_of(kind, description) == query


@pytest.mark.parametrize(("kind", "start"), [(ESQL, 'FROM a | WHERE b == "'), (SEARCH, 'source[{"a":"')])
def test_a_long_query_is_cut_and_its_shape_says_so(kind: str, start: str) -> None:
    query = query_of(kind, start + "b" * 100_000) or ""
    assert len(query) <= 65_536 + len("ES|QL: ")
    assert shape_of(query).endswith("…")


@pytest.mark.parametrize(
    ("kind", "description", "indices"),
    [
        (SEARCH, "indices[logs-*, orders], search_type[QUERY_THEN_FETCH], source[{}]", "logs-*,orders"),
        (SEARCH, f'requests[1], source[{{"message":"indices[{SECRET}]"}}]', None),
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
        (REINDEX, f'reindex from [host=a port=9 query={{"x":"{SECRET}","y":1}} username=u][old] to [new]', "new"),
        (REINDEX, f'reindex from [pathPrefix=/x query={{"x":"{SECRET}"}}][old] to [new]', "new"),
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
        (SEARCH, f'indices[a], source[{{"message":"index[{SECRET}] of shardId[[{SECRET}][0]]"}}]', None),
        ("indices:data/write/bulk", "requests[266], index[orders][0]", "orders"),
        (ESQL, f'FROM a | WHERE b == "index[{SECRET}][0]"', None),
        (SQL, f"SQL [SELECT 'index[{SECRET}][0]'][null]", None),
    ],
)
def test_the_index_of_a_shard(kind: str, description: str, index: str | None) -> None:
    assert index_of(kind, description) == index
