"""Load the templates, styles and script of the pages in Airflow."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.page import assets as page_assets
from airflow_provider_mediaops.cluster.page.document import Surroundings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Environment

_TEMPLATES = ("list.html", "message.html", "report.html")


def around_report(values: Mapping[str, Any]) -> Surroundings:
    """Return what stands around a report in Airflow, with the values of ``report.html``."""
    return Surroundings(_environment().get_template("report.html"), values, _read("airflow.css"), _scripts())


def render(template: str, **values: Any) -> str:
    """Render a page that is no report."""
    style = page_assets.style() + _read("airflow.css")
    return (
        _environment()
        .get_template(template)
        .render(
            policy=page_assets.policy(_scripts(), style, has_forms=True),
            style=style,
            first_scripts=_scripts(),
            **values,
        )
    )


@cache
def _environment() -> Environment:
    from jinja2 import ChoiceLoader, DictLoader

    pages = page_assets.environment()
    own = DictLoader({name: _read(name) for name in _TEMPLATES})
    return pages.overlay(loader=ChoiceLoader([own, *([pages.loader] if pages.loader else [])]))


@cache
def _scripts() -> tuple[str, ...]:
    return (_read("theme.js"),)


@cache
def _read(name: str) -> str:
    # read_text() would change the ends of lines.
    return (files("airflow_provider_mediaops.plugin") / "static" / name).read_bytes().decode()
