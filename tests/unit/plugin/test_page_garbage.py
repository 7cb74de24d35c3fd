"""Pages in Airflow leave nothing to the garbage collector of the API server, which keeps what is old for long."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tests.unit.garbage import garbage_of
from tests.unit.plugin.airflow_world import LIST_URL, START, text

if TYPE_CHECKING:
    from tests.unit.plugin.airflow_world import World


def test_a_report_and_a_comparison_leave_nothing(world: World) -> None:
    before = START - timedelta(days=1)
    world.add(run_id="earlier", written=text(at=before), ended=before)
    later = world.add(run_id="later", written=text())
    with world.reader("*") as browser:
        assert garbage_of(lambda: browser.get(later)) == set()
        assert "for comparison." in browser.get(later, params={"before": "earlier"}).text
        assert garbage_of(lambda: browser.get(later, params={"before": "earlier"})) == set()


def test_the_list_leaves_nothing(world: World) -> None:
    world.add(written=text())
    with world.reader("*") as browser:
        assert garbage_of(lambda: browser.get(LIST_URL)) == set()


def test_a_page_without_a_report_leaves_nothing(world: World) -> None:
    url = world.add(run_id="r")
    with world.reader("*") as browser:
        assert "There is no report to show" in browser.get(url).text
        assert garbage_of(lambda: browser.get(url)) == set()


def test_an_earlier_capture_that_is_gone_leaves_nothing(world: World) -> None:
    world.add(run_id="earlier", ended=START - timedelta(days=1))
    later = world.add(run_id="later", written=text())
    with world.reader("*") as browser:
        assert "cannot be shown: There is no file" in browser.get(later, params={"before": "earlier"}).text
        assert garbage_of(lambda: browser.get(later, params={"before": "earlier"})) == set()
