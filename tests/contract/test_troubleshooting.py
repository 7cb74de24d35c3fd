"""docs/troubleshooting.md has every error, and quotes messages that the code can raise."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from functools import cache
from pathlib import Path

import pytest

import airflow_provider_mediaops
from airflow_provider_mediaops import exceptions
from airflow_provider_mediaops.exceptions import InvalidArgumentError, MediaOpsError, TaskStoppedError
from tests.contract.page_tables import sections, table

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
PACKAGE = ROOT / "airflow_provider_mediaops"
# The base class; the replies that the rule of 404s decides on: users meet its verdict; and what ends the requests of a
# list, whose rows say so.
NOT_RAISED = {
    "MediaOpsError",
    "DoubtfulNotFoundError",
    "ForeignNotFoundError",
    "WebPageNotFoundError",
    "RequestsSpentError",
}
MESSAGES = {title: text for title, text in sections(PAGE).items() if "| error | message |" in text}


def error_classes() -> dict[str, type[BaseException]]:
    """Return all errors of the provider, those that a package of its own defines included."""
    for module in pkgutil.walk_packages(airflow_provider_mediaops.__path__, "airflow_provider_mediaops."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: dict[str, type[BaseException]] = {}
    todo: list[type[BaseException]] = [MediaOpsError, InvalidArgumentError, TaskStoppedError]
    while todo:
        error = todo.pop()
        if error.__module__.startswith("airflow_provider_mediaops."):
            found[error.__name__] = error
            todo.extend(error.__subclasses__())
    return found


@cache
def texts() -> tuple[str, ...]:
    """Return the texts of the provider's code, with `…` for each value that they are filled with."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        if "sandbox" not in path.parts:
            found += [_text(node) for node in ast.walk(ast.parse(path.read_text()))]
    return tuple(filter(None, found))


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return ""


def rows_of_messages() -> list[dict[str, str]]:
    return [row for text in MESSAGES.values() for row in table(text)]


def test_every_error_has_its_row() -> None:
    rows = {row["error"].strip("`"): row for row in table(sections(PAGE)["By error"])}
    errors = error_classes()

    assert set(rows) == set(errors) - NOT_RAISED
    defined = {name for name in vars(exceptions) if name.endswith("Error")}
    assert defined <= set(rows) | NOT_RAISED


def test_the_page_says_which_errors_are_retried() -> None:
    errors = error_classes()
    for row in table(sections(PAGE)["By error"]):
        error = errors[row["error"].strip("`")]
        if issubclass(error, MediaOpsError):
            assert row["retried?"] == ("yes" if error.temporary else "no"), row
        elif issubclass(error, InvalidArgumentError):
            assert row["retried?"] == "no", row


@pytest.mark.parametrize("row", rows_of_messages(), ids=lambda row: re.sub(r"\W+", " ", row["message"])[:60].strip())
def test_a_quoted_message_is_one_that_the_code_has(row: dict[str, str]) -> None:
    quoted = re.fullmatch("“(.+)”", row["message"])
    assert quoted, "A message stands in quotation marks."
    assert [text for text in texts() if quoted[1] in text]
    assert row["error"].strip("`") in error_classes()
    assert row["what to do"]
