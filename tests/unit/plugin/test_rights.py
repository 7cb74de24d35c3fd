"""The rights that the pages ask of Airflow: those to read task instances, which a reader of their DAG may lack."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from airflow_provider_mediaops.plugin.app import build_app
from airflow_provider_mediaops.report_urls import URL_PREFIX, report_url
from tests.unit.plugin.airflow_world import DAG_ONLY, LIST_URL, START, Readers, older, runs_in, text

if TYPE_CHECKING:
    from httpx import Response

    from tests.unit.plugin.airflow_world import World

#: The parameters of the addresses of all routes, as those of a task instance in the world below.
PARAMETERS = {"dag_id": "hot", "task_id": "capture", "map_index": "-1", "run_id": "the-run"}
#: What pages show of it, the first one all of them.
SHOWN = ("the-run", "Work.step", "capture.txt", "search_prod", "2026-11-22")


def routes() -> list[APIRoute]:
    """Return the routes of the app, also those below its routers."""
    found: list[APIRoute] = []

    def walk(each: Any) -> None:
        for route in getattr(each, "routes", ()):
            if isinstance(route, APIRoute):
                found.append(route)
            else:
                walk(getattr(route, "original_router", route))

    walk(build_app())
    return found


def address(route: APIRoute) -> str:
    """Return an address of a route. A route with a new parameter needs its value in ``PARAMETERS``."""
    path = re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: quote(PARAMETERS[found[1]], safe=""), route.path)
    return URL_PREFIX + path


class TestEveryRoute:
    @pytest.fixture(autouse=True)
    def _capture(self, world: World) -> None:
        world.add("hot", run_id="the-run", cluster_conn_id="search_prod", written=text())

    @pytest.fixture(params=[route.path for route in routes()])
    def url(self, request: pytest.FixtureRequest) -> str:
        return next(address(route) for route in routes() if route.path == request.param)

    def test_shows_the_task_instance_to_those_who_may_read_it(self, world: World, url: str) -> None:
        response = world.get(url, "hot")
        assert response.status_code == 200
        assert SHOWN[0] in response.text

    @pytest.mark.parametrize("reader", [f"{DAG_ONLY}hot", f"{DAG_ONLY}*", "other", ""])
    def test_shows_nothing_of_it_to_others(self, world: World, url: str, reader: str) -> None:
        response = world.get(url, reader)
        assert response.status_code == (200 if url == LIST_URL else 403)
        assert [word for word in SHOWN if word in response.text] == []

    def test_shows_nothing_to_nobody(self, world: World, url: str) -> None:
        with world.reader() as browser:
            del browser.headers["Authorization"]
            response = browser.get(url)
        assert response.status_code == 401
        assert [word for word in SHOWN if word in response.text] == []

    def test_asks_at_each_request(self, world: World, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with world.reader("hot") as browser:
            assert "the-run" in browser.get(url).text
            monkeypatch.setattr(Readers, "is_authorized_dag", lambda *_, **__: False)
            assert "the-run" not in browser.get(url).text


class TestReport:
    @pytest.mark.parametrize("reader", [f"{DAG_ONLY}hot", "other"])
    def test_a_refusal_is_the_same_for_each_task_instance_and_for_none(self, world: World, reader: str) -> None:
        odd = "manual/2026-11-22T12:00:00+00:00 ?#&ü"
        urls = [
            world.add("hot", run_id="there", written=text()),
            world.add("hot", run_id="there", task_id="mapped", map_index=3, written=text()),
            world.add("hot", run_id=odd, written=text()),
            world.add("hot", run_id="deleted"),
            world.add("hot", run_id="waiting", state=None, ended=None, fields={}),
            world.add("hot", run_id="other-task", fields={"bash_command": "date"}),
        ]
        for url in urls:
            assert world.get(url).status_code == 200
        urls += [f"{urls[0]}?before=there", report_url("hot", "no-such-run", "capture"), report_url("none", "r", "t")]
        answers = [world.get(url, reader) for url in urls]
        assert {answer.status_code for answer in answers} == {403}
        assert len({answer.text for answer in answers}) == 1

    def test_captures_of_two_dags_are_not_compared(self, world: World) -> None:
        world.add("theirs", run_id="earlier", written=text("org.x.Theirs.run"), ended=START - timedelta(days=1))
        mine = world.add("mine", run_id="later", written=text())
        for readers in (["mine"], ["mine", f"{DAG_ONLY}theirs"], ["mine", "theirs"]):
            page = world.get(mine, *readers, before="earlier").text
            assert "There is no earlier capture of this task in that run." in page
            assert "Theirs.run" not in page

    @pytest.mark.parametrize("part", ["hot", "capture", "the-run"])
    def test_an_address_that_no_database_can_look_up_is_unknown_to_all(self, world: World, part: str) -> None:
        """PostgreSQL takes no text with a NUL, neither for a task instance nor for the team of a DAG."""
        url = world.add("hot", run_id="the-run").replace(f"/{part}", "/%00", 2 if part == "hot" else 1)
        assert world.get(url.replace("/mediaops/%00-threads", "/mediaops/hot-threads"), "other").status_code == 404


class TestList:
    def test_dags_without_their_task_instances_are_left_out_and_fill_no_page(self, world: World) -> None:
        mine = [f"mine-{number}." for number in range(30)]
        for number in range(30):
            for dag, run in (("mine", mine[number]), (f"theirs-{number % 7}", f"their-run-{number}.")):
                world.add(dag, run_id=run, ended=START + timedelta(minutes=number), written=text())
        reader = ["mine", *(f"{DAG_ONLY}theirs-{number}" for number in range(7))]
        first = world.get(LIST_URL, *reader).text
        assert runs_in(first, mine) == mine[:9:-1]
        second = world.get(older(first), *reader).text
        assert runs_in(second, mine) == mine[9::-1]
        assert not older(second)
        assert "their" not in (first + second).replace("the DAGs whose task instances", "")

    @pytest.mark.parametrize("name", ["dag", "cluster"])
    def test_no_filter_finds_those_that_may_not_be_read(self, world: World, name: str) -> None:
        world.add("theirs", cluster_conn_id="theirs", written=text("org.x.theirs.run"))
        page = world.get(LIST_URL, f"{DAG_ONLY}theirs", **{name: "theirs"}).text
        assert "org.x" not in page
        assert "There is no such capture." in page

    def test_a_capture_that_was_read_for_one_is_not_shown_to_another(self, world: World) -> None:
        """The summaries of the list are kept, by an app that serves both."""
        world.add(written=text())
        app = build_app(seconds=world.seconds)
        pages = []
        for reader in ("*", f"{DAG_ONLY}*", "*"):
            with TestClient(app, headers={"Authorization": f"Bearer {world.token(reader)}"}) as browser:
                pages.append("Work.step" in browser.get(LIST_URL.removeprefix(URL_PREFIX)).text)
        assert pages == [True, False, True]


class TestAirflowsOwnRoles:
    """Of the simple auth manager. Airflow's own route of a task instance says what each may read."""

    @pytest.fixture
    def manager(self, world: World, monkeypatch: pytest.MonkeyPatch) -> SimpleAuthManager:
        world.add("hot", run_id="the-run", written=text())
        manager = SimpleAuthManager()
        world.install(monkeypatch, manager)
        return manager

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("role", "status"), [("admin", 200), ("op", 200), ("user", 200), ("viewer", 200), (None, 403)]
    )
    def test_read_the_pages_if_they_may_read_task_instances(
        self, manager: SimpleAuthManager, role: str | None, status: int
    ) -> None:
        root = FastAPI()
        # It takes seconds: each process of the tests would read all routes of Airflow.
        from airflow.api_fastapi.core_api.routes.public.task_instances import task_instances_router

        root.include_router(task_instances_router, prefix="/api/v2")
        root.mount(URL_PREFIX, build_app())
        token = manager.generate_jwt(SimpleAuthManagerUser(username="reader", role=role))

        def ask(url: str) -> Response:
            with TestClient(root, headers={"Authorization": f"Bearer {token}"}) as browser:
                answer: Response = browser.get(url)
                return answer

        assert ask("/api/v2/dags/hot/dagRuns/the-run/taskInstances/capture").status_code == status
        assert ask(report_url("hot", "the-run", "capture")).status_code == status
        assert ("the-run" in ask(LIST_URL).text) == (status == 200)
