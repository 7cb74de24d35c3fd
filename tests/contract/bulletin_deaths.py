"""Run the program of :mod:`tests.contract.posting`, and check what it leaves on the channel."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.contract.fresh_python import printed_by

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.server import SandboxServer


def check_deaths_and_races(sandbox: SandboxServer, journal: str, folder: Path, address: str = "") -> None:
    """
    Kill tasks at each step and let others race; nothing is posted twice, and each task says what is true.

    :param sandbox: the platform, to which the connection in the environment leads.
    :param journal: the folder of the journal.
    :param folder: the folder of the program's own files.
    :param address: the address of the server that has the journal, if one has.
    """
    happened = _run(journal, folder, address)
    posted = Counter(bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins)
    ids = {bulletin["id"]: bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins}

    outcomes = []
    for death in happened["deaths"]:
        count, second = posted[death["key"]], death["second"]
        if second in ids:
            assert ids[second] == death["key"], death
        outcomes.append((count, "an activity" if second in ids else second))
        assert death["first"] in ("", second), death
    # The next try posts or, once it is stored, returns the activity; between them it does not know.
    assert [outcome for outcome, _ in itertools.groupby(outcomes)] == [
        (1, "an activity"),
        (0, "UncertainDeliveryError"),
        (1, "UncertainDeliveryError"),
        (1, "an activity"),
    ], happened["deaths"]
    assert not happened["deaths"][-1]["killed"]

    for race in happened["races"]:
        assert posted[race["key"]] == 1, race
        winners = {outcome for outcome in race["outcomes"] if outcome in ids}
        assert [ids[winner] for winner in winners] == [race["key"]], race
        assert set(race["outcomes"]) - winners <= {"DestinationInUseError"}, race


def _run(journal: str, folder: Path, address: str) -> dict[str, Any]:
    folder.mkdir()
    happened: dict[str, Any] = printed_by(
        "tests.contract.posting", journal, str(folder), address, home=folder / "airflow"
    )
    return happened
