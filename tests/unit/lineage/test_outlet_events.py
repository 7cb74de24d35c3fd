"""The events of a task's outlets: of assets, of references to them, and of aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time.comms import AssetResult, ErrorResponse, GetAssetByName
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_mediaops.lineage.outlet_events import note_in_events
from airflow_provider_mediaops.lineage.task_lineage import LineageDataset, TaskLineage

if TYPE_CHECKING:
    from tests.unit.conftest import Supervisor

FACTS = {"path": "/data/books.csv", "rows": 3}
LINEAGE = TaskLineage(
    outputs=(LineageDataset("file:///data/books.csv"), LineageDataset("file:///data/other.csv")), facts=FACTS
)


class Events:
    """The events of a task, and the warnings in its log."""

    def __init__(self) -> None:
        self.accessors = OutletEventAccessors()
        self.warnings: list[str] = []

    def note(self, *outlets: Any, lineage: TaskLineage = LINEAGE) -> None:
        context = cast("Any", {"outlet_events": self.accessors})
        note_in_events(context, outlets, lineage, lambda text, *values: self.warnings.append(text % values))


@pytest.fixture
def events() -> Events:
    return Events()


def test_the_event_of_an_asset_has_the_facts(events: Events) -> None:
    asset, other = Asset("books"), Asset("other")
    events.note(asset)
    assert events.accessors[asset].extra == FACTS
    assert events.accessors[other].extra == {}


def test_other_entries_of_the_extra_stay(events: Events) -> None:
    asset = Asset("books")
    events.accessors[asset].extra["approved_by"] = "someone"
    events.note(asset)
    assert events.accessors[asset].extra == {"approved_by": "someone", **FACTS}


def test_a_reference_leads_to_its_asset(
    events: Events, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(msg: Any) -> AssetResult:
        assert isinstance(msg, GetAssetByName)
        return AssetResult(name=msg.name, uri="s3://bucket/books.csv", group="asset", extra={})

    monkeypatch.setattr(supervisor, "send", send)
    events.note(Asset.ref(name="referred"))
    assert events.accessors[Asset("referred", "s3://bucket/books.csv")].extra == FACTS


def test_an_outlet_that_cannot_be_described_fails_nothing(
    events: Events, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = ErrorResponse(error=ErrorType.ASSET_NOT_FOUND, detail={"name": "gone"})
    monkeypatch.setattr(supervisor, "send", lambda _: gone)
    asset, long = Asset("books"), TaskLineage(outputs=(LineageDataset(f"file:///{'x' * 1500}"),), facts=FACTS)
    events.note(Asset.ref(name="gone"), AssetAlias("long"), asset, lineage=long)
    assert events.accessors[asset].extra == FACTS
    assert [warning.partition(" says nothing")[0] for warning in events.warnings] == [
        "The event of the outlet gone",
        "The event of the outlet long",
    ]
