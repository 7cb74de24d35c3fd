"""The DAGs of docs/recipes.md, each run against the sandbox."""

from __future__ import annotations

import email
import email.policy
import json
import runpy
import smtplib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from airflow.models.asset import AssetEvent
from airflow.utils.session import create_session

from airflow_provider_mediaops.sandbox.books import sample_isbns
from airflow_provider_mediaops.sandbox.cluster_nodes import CpuPin
from airflow_provider_mediaops.sandbox.faults import StatusFault
from airflow_provider_mediaops.sandbox.server import SandboxServer
from airflow_provider_mediaops.sandbox.state import Settings
from scripts import shown_code
from tests.contract import dag_runs

if TYPE_CHECKING:
    from tests.contract.dag_runs import Run

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "docs" / "recipes"
# Two of them need a scheduler, and are in tests/system: one waits for a person, one for another DAG.
NIGHT = datetime(2026, 3, 1, 2, tzinfo=timezone.utc)

pytestmark = [
    pytest.mark.long,
    pytest.mark.once,
    pytest.mark.usefixtures("airflow_db"),
    # What Airflow's own decorators import.
    pytest.mark.filterwarnings("ignore:The `airflow.utils.operator_helpers"),
]


@dataclass(frozen=True)
class Recipe:
    """Runs the DAG of a recipe, with its files below a folder."""

    name: str
    folder: Path

    def run(self, at: datetime = NIGHT, **params: Any) -> Run:
        dag = dag_runs.dags_of(RECIPES / f"{self.name}.py")[self.name]
        for task_id in dag.task_ids:
            # The tests clear failed tasks themselves, and wait for no delay. A sensor has one look.
            task: Any = dag.get_task(task_id)
            task.retries = 0
            if hasattr(task, "poke"):
                task.timeout = 0
        return dag_runs.run(dag, run_after=at, logical_date=at, run_conf={"folder": self.folder.as_uri(), **params})

    def files(self) -> dict[str, Path]:
        """Return what was written, without what is hidden."""
        found = {path.relative_to(self.folder): path for path in self.folder.rglob("*") if path.is_file()}
        return {
            name.as_posix(): path
            for name, path in found.items()
            if not any(part.startswith(".") for part in name.parts)
        }


Recipes = Callable[[str], Recipe]
Connect = Callable[[SandboxServer], None]


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return lambda name: Recipe(name, tmp_path / "output")


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Connect:
    """Make a sandbox the services of Airflow's connections, with a store of the rate that no other test knows."""

    def to(server: SandboxServer) -> None:
        for name, text in server.connections().items():
            connection = json.loads(text)
            if "BOOKS" in name:
                connection["extra"]["rate_limit_store"] = f"sqlite:///{tmp_path}/rates.db"
            monkeypatch.setenv(name, json.dumps(connection))

    return to


def test_a_nightly_export_says_what_is_new_and_sleeps_if_nothing_has_changed(
    recipes: Recipes, connect: Connect
) -> None:
    recipe = recipes("nightly_export")
    tasks, bulletins = [], []
    for night, subscriptions in enumerate((20, 23, 23)):
        with SandboxServer(settings=Settings(subscriptions=subscriptions)) as server:
            connect(server)
            tasks.append(recipe.run(NIGHT + timedelta(days=night)).tasks)
            bulletins += [posted["snippet"]["description"] for posted in server.state.bulletins]

    # On the first night all are new, and on the third nothing has changed.
    assert [each["export"] for each in tasks] == ["success", "success", "skipped"]
    assert [each["post"] == "success" for each in tasks] == [False, True, False]
    changes = [json.loads(line) for line in recipe.files()["changes/2026-03-02.jsonl"].read_text().splitlines()]
    assert [row["change"] for row in changes] == ["added"] * 3
    assert bulletins == [f"New: {', '.join(row['after']['snippet']['title'] for row in changes)}."]


def test_a_long_list_takes_several_days_of_quota(recipes: Recipes, connect: Connect, tmp_path: Path) -> None:
    recipe = recipes("million_isbns")
    isbns = sample_isbns(11)
    recipe.folder.mkdir()
    source = recipe.folder / "isbns.csv"
    source.write_text("isbn,shelf\n" + "".join(f"{isbn},{row}\n" for row, isbn in enumerate(isbns)))
    params: dict[str, Any] = {"source": source.as_uri(), "destination": (recipe.folder / "books.jsonl").as_uri()}
    with SandboxServer(settings=Settings(books_daily_requests=6)) as server:
        connect(server)
        assert recipe.run(**params).state == "failed"
    # The next day.
    with SandboxServer() as server:
        connect(server)
        # Else the provider waits for the reset that it was told of.
        (tmp_path / "rates.db").unlink()
        run = recipe.run(**params)

    assert (run.state, run.values["enrich"]["resumed"]) == ("success", True)
    rows = [json.loads(line) for line in (recipe.folder / "books.jsonl").read_text().splitlines()]
    assert [(row["isbn13"], row["status"], row["source"]["shelf"]) for row in rows] == [
        (isbn, "found", str(row)) for row, isbn in enumerate(isbns)
    ]


class _MailServer(smtplib.SMTP):
    """A client of a mail server that keeps each mail instead."""

    mails: ClassVar[list[Any]] = []

    def connect(self, *_: Any, **__: Any) -> tuple[int, bytes]:
        return 220, b"mail.example.com"

    def sendmail(self, from_addr: str, to_addrs: Any, msg: Any, *_: Any, **__: Any) -> Any:
        del from_addr, to_addrs
        self.mails.append(email.message_from_string(msg, policy=email.policy.default))


def test_the_team_gets_the_page_of_the_capture(
    recipes: Recipes, sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipes("capture_and_page")
    sandbox.state.cluster.pin(CpuPin(node="sandbox-2", percent=97))
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "airflow@example.com"}
    connection = {"conn_type": "smtp", "host": "mail.example.com", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
    monkeypatch.setattr(smtplib, "SMTP", _MailServer)
    _MailServer.mails.clear()
    run = recipe.run(sustained_for=1, to="night-shift@example.com")

    assert run.state == "success"
    [mail] = _MailServer.mails
    assert (mail["to"], mail["subject"]) == ("night-shift@example.com", "sandbox-2 is at 97.0 % CPU")
    [page] = mail.iter_attachments()
    assert page.get_filename() == "hot_threads.html"
    written = recipe.files()[f"{run.run_id}/hot_threads.html"].read_text()
    assert page.get_content().decode() == written
    hottest = run.values["capture"]["hottest"][0]["thread"]
    body = mail.get_body()
    assert body is not None
    assert hottest in body.get_content()


def test_a_node_that_runs_hot_in_a_restart_is_captured(recipes: Recipes, sandbox: SandboxServer) -> None:
    recipe = recipes("rolling_restart")
    for node, percent in (("sandbox-1", 97), ("sandbox-2", 10), ("sandbox-3", 0)):
        sandbox.state.cluster.pin(CpuPin(node=node, percent=percent))
    # The first reading of one of them fails: its node restarts.
    sandbox.state.faults.arm(StatusFault(service="cluster", status=503, path="sandbox-3"))
    nodes = ["sandbox-1", "sandbox-2", "sandbox-3"]
    run = recipe.run(nodes=nodes, sustained_for=0, wait_timeout=2, calm_below=98)

    assert [run.tasks[f"capture[{index}]"] for index in range(3)] == ["success", "skipped", "skipped"]
    assert run.values["capture[0]"]["cpu"][0]["node"] == "sandbox-1"
    assert [name for name in recipe.files() if name.endswith("txt")] == [f"{run.run_id}/sandbox-1.txt"]
    assert run.values["all_calm"] == {"sandbox-1": 97, "sandbox-2": 10, "sandbox-3": 0}
    assert run.state == "success"


def test_the_hot_threads_of_a_week_are_posted_on_monday(recipes: Recipes, sandbox: SandboxServer) -> None:
    recipe = recipes("hot_threads_week")
    dags = dag_runs.dags_of(RECIPES / f"{recipe.name}.py")
    conf = {"folder": recipe.folder.as_uri(), "sustained_for": 0}
    now = datetime.now(timezone.utc)
    for minutes in (20, 10):
        run = dag_runs.run(
            dags["hot_threads_every_ten_minutes"], run_after=now - timedelta(minutes=minutes), run_conf=conf
        )
        assert run.tasks == {"capture": "success"}
    sandbox.state.cluster.pin(CpuPin(node="sandbox-2", percent=97))
    assert dag_runs.run(dags["hot_threads_at_spikes"], run_after=now, run_conf=conf).tasks == {"capture": "success"}
    # Captures have the time of the clock, and the machine may be slow.
    monday = now + timedelta(days=1)
    run = recipe.run(at=monday)

    assert run.tasks == {"digest": "success", "post": "success"}
    result = run.values["digest"]
    assert result["series"] == {"scheduled": 2, "spike": 1, "unknown": 0}
    [posted] = sandbox.state.bulletins
    assert posted["snippet"]["description"] == result["headline"]
    assert " of 2 scheduled captures" in result["headline"]
    assert " in 1 of 1 captures at spikes" in result["headline"]
    assert f"weeks/{monday:%Y-%m-%d}.html" in recipe.files()


def test_a_digest_names_what_is_new(recipes: Recipes, sandbox: SandboxServer) -> None:
    recipe = recipes("weekly_digest")
    # The subscriptions of the sandbox are some years old.
    run = recipe.run(days=36500)

    [posted] = sandbox.state.bulletins
    text = posted["snippet"]["description"]
    assert text.startswith("New this week: ")
    assert text.endswith(" and 110 more.")
    records = [json.loads(line) for line in recipe.files()[f"{run.run_id}.jsonl"].read_text().splitlines()]
    newest = max(records, key=lambda record: record["snippet"]["publishedAt"])
    assert text.startswith(f"New this week: {newest['snippet']['title']}, ")


def test_the_runs_of_a_day_post_once(recipes: Recipes, sandbox: SandboxServer) -> None:
    recipe = recipes("bulletin_of_the_day")
    runs = [recipe.run(NIGHT + timedelta(hours=hours)) for hours in (0, 6, 24)]

    assert [run.state for run in runs] == ["success"] * 3
    texts = [bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins]
    assert texts == ["120 channels on 2026-03-01.", "120 channels on 2026-03-02."]
    posted = [run.values["post"]["id"] for run in runs]
    assert posted[0] == posted[1] != posted[2]


@pytest.mark.parametrize(("needed", "state"), [(500, "success"), (10_000, "skipped")])
def test_a_list_waits_for_its_quota(recipes: Recipes, connect: Connect, needed: int, state: str) -> None:
    recipe = recipes("spend_quota_wisely")
    recipe.folder.mkdir()
    source = recipe.folder / "new.csv"
    source.write_text("isbn\n9780140449136\n")
    with SandboxServer(settings=Settings(books_daily_requests=1500)) as server:
        connect(server)
        run = recipe.run(source=source.as_uri(), needed=needed, keep=100)

    assert run.tasks == {"quota_is_left": state, "enrich": state}


def test_a_catalogue_is_filled_and_kept_fresh_within_the_requests_of_a_day(recipes: Recipes, connect: Connect) -> None:
    recipe = recipes("fresh_catalogue")
    isbns = sample_isbns(5)
    recipe.folder.mkdir()
    source, catalogue = recipe.folder / "stock.csv", recipe.folder / "books.parquet"
    source.write_text("isbn,shelf\n" + "".join(f"{isbn},{row}\n" for row, isbn in enumerate(isbns)))
    params: dict[str, Any] = {"source": source.as_uri(), "catalogue": catalogue.as_uri(), "requests": 3}
    with SandboxServer() as server:
        connect(server)
        days = [recipe.run(NIGHT + timedelta(days=day), **params).values["enrich"] for day in range(3)]
        asked = [request.path.rsplit("/", 1)[-1] for request in server.state.requests]

    names = ("found", "reused", "not_asked", "requests")
    assert [tuple(day[name] for name in names) for day in days] == [(3, 0, 2, 3), (5, 3, 0, 2), (5, 5, 0, 0)]
    assert sorted(asked) == sorted(isbns)


def test_a_channel_that_fails_stops_no_other(recipes: Recipes, sandbox: SandboxServer) -> None:
    recipe = recipes("channels")
    channels = ["UCsandbox-mine", "UCsandbox-private", "UCsandbox-few"]
    run = recipe.run(channels=channels)

    assert run.tasks == {
        "channels": "success",
        "export[0]": "success",
        "export[1]": "failed",
        "export[2]": "success",
        "report": "success",
    }
    assert run.values["report"] == {"channels": 2, "subscriptions": 127, "changed": 2}
    assert set(recipe.files()) == {"UCsandbox-mine.parquet", "UCsandbox-few.parquet"}
    # A DAG that waits for the asset starts once, not once for each channel.
    with create_session() as session:
        events = session.query(AssetEvent.source_task_id).filter_by(source_run_id=run.run_id, source_dag_id="channels")
        assert [event.source_task_id for event in events] == ["report"]
    assert recipe.run(NIGHT + timedelta(days=1), channels=["UCsandbox-few"]).values["report"]["changed"] == 0
    assert sandbox.state.requests


def test_the_test_of_a_dag_that_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = runpy.run_path(str(RECIPES / "testing" / "test_my_dag.py"))
    dag_runs.write_down(shown["dag"])

    shown["test_the_books_are_found_in_spite_of_an_error"](tmp_path, monkeypatch)


def test_each_recipe_is_run_and_shown() -> None:
    here = Path(__file__).read_text() + (ROOT / "tests" / "system" / "test_recipes.py").read_text()
    names = {path.stem for path in RECIPES.glob("*.py")}
    assert [name for name in sorted(names) if f'"{name}"' not in here] == []
    shown = shown_code.files_of((ROOT / "docs" / "recipes.md").read_text())
    assert set(shown) == {f"docs/recipes/{name}.py" for name in names} | {"docs/recipes/testing/test_my_dag.py"}
