"""The guard finds a secret wherever it is, in whatever form."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from tests.faults import canaries

if TYPE_CHECKING:
    from tests.faults.conftest import Bench

_FORMS = sorted(canaries.forms_of(canaries.PASSWORD))


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("secret", canaries.SECRETS)
def test_search_for_secrets_knows_each_form(secret: str, form: str) -> None:
    assert canaries.leaks(f"before {canaries.forms_of(secret)[form]} after")


def test_a_careless_service_repeats_a_secret_in_each_form() -> None:
    said = canaries.echo_of([canaries.PASSWORD])
    forms = canaries.forms_of(canaries.PASSWORD)
    assert all(forms[form] in said for form in ("raw", "HTML", "percent", "base64 at 0"))
    assert forms["JSON"] in json.dumps(said)


@pytest.mark.parametrize("place", ["log", "traceback", "file", "name of a file", "value", "error", "output"])
def test_search_for_secrets_looks_everywhere(place: str, bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    guard, secret = bench.guard, canaries.HEADER
    if place == "log":
        logging.getLogger("urllib3.connection").debug("sent %s", secret)
    elif place == "traceback":
        logging.getLogger("any").error("failed", exc_info=ValueError(secret))
    elif place == "file":
        (bench.desk.folder / "file").write_text(json.dumps({"key": secret}))
    elif place == "name of a file":
        (bench.desk.folder / canaries.forms_of(secret)["percent"]).touch()
    elif place == "value":
        guard.see({"rows": [secret]})
    elif place == "error":
        guard.see_error(KeyError(secret))
    else:
        print(secret)  # noqa: T201 this is what is looked for
    assert guard.found(*capfd.readouterr())
    guard.forget()


def test_search_for_secrets_is_silent_if_there_is_none(bench: Bench) -> None:
    logging.getLogger("any").info("p4ss")
    (bench.desk.folder / "file").write_text("***")
    bench.guard.see({"path": "/out"})
    assert not bench.guard.found("", "")
