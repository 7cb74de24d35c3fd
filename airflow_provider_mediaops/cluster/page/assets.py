"""Render the pages: their templates, with styles, scripts, licences and the security policy that allows them."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops import __version__
from airflow_provider_mediaops.cluster.folded import Measure, short_method
from airflow_provider_mediaops.cluster.kinds_of_work import is_wait
from airflow_provider_mediaops.cluster.text import (
    difference,
    duration,
    figure,
    in_what_was_read,
    listed,
    readable,
)
from airflow_provider_mediaops.progress import counted

if TYPE_CHECKING:
    from jinja2 import Environment

#: What the pages of captures, and those of digests, say that they are made by.
GENERATOR, DIGEST_GENERATOR = "airflow-provider-mediaops", "airflow-provider-mediaops digest"

_LIBRARY = "vendor/d3-flame-graph.bundle.js"
_LICENSES = {
    "d3-flame-graph": "LICENSE.d3-flame-graph",
    "the parts of D3, without d3-ease": "LICENSE.d3",
    "d3-ease": "LICENSE.d3-ease",
    "internmap, which is within d3-array": "LICENSE.internmap",
}
# The flame graph's library brings its styles in its script.
_OWN_STYLE = re.compile(r'createElement\("style"\);\w+\.textContent=`([^`]*)`')


def render(
    template: str,
    values: Mapping[str, Any],
    *,
    scripts: tuple[str, ...] = (),
    in_airflow: bool = False,
) -> str:
    """
    Render a page, whose policy allows its own scripts and styles; its template escapes all values.

    The scripts run at its end; see :func:`scripts`. In Airflow it looks like Airflow's own pages, and its forms can be
    sent.
    """
    first_scripts = (_read("theme.js"),) if in_airflow else ()
    looks = style(in_airflow=in_airflow)
    return (
        _environment()
        .get_template(template)
        .render(
            policy=policy((*first_scripts, *scripts), looks, has_forms=in_airflow),
            style=looks,
            first_scripts=first_scripts,
            scripts=scripts,
            version=__version__,
            **values,
        )
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    found = Environment(
        autoescape=True,
        loader=FunctionLoader(_read),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    of_texts = (difference, duration, figure, in_what_was_read, listed, readable)
    filters = (*of_texts, is_wait, percent_of, short_method)
    found.filters |= {each.__name__: each for each in filters}
    found.filters["count"] = counted
    found.filters["bytes"] = lambda number: figure(number, Measure("mem", "bytes"))
    return found


def percent_of(amount: float, of: float) -> float:
    """Return the length of a bar in percent of the longest."""
    return round(100 * amount / of, 1) if of else 0.0


@cache
def style(*, in_airflow: bool = False) -> str:
    """
    Return the page's styles.

    The page is dark if the reader's system is, unless its root element says otherwise in ``data-theme``.
    """
    dark = _read("dark.css")
    return (
        f"{_read('page.css')}\n"
        f'@media screen and (prefers-color-scheme: dark) {{\n:root:not([data-theme="light"]) {{\n{dark}}}\n}}\n'
        f'@media screen {{\n:root[data-theme="dark"] {{\ncolor-scheme: dark;\n{dark}}}\n'
        ':root[data-theme="light"] {\ncolor-scheme: light;\n}\n}\n'
        f"{_read('airflow.css') if in_airflow else ''}"
    )


@cache
def scripts(*, with_flame_graph: bool, of_digest: bool = False) -> tuple[str, ...]:
    """Return the page's scripts, in the order in which they have to run."""
    flame_graph = (_LIBRARY, "flame.js") if with_flame_graph else ()
    return tuple(map(_read, (*flame_graph, "tables.js", *(["digest.js"] if of_digest else []))))


@cache
def licenses() -> dict[str, str]:
    """Return the licences of third-party scripts, by the names of these."""
    return {name: _read(f"vendor/{file}") for name, file in _LICENSES.items()}


@cache
def policy(scripts: tuple[str, ...], styles: str, *, has_forms: bool = False) -> str:
    """Return the content security policy: nothing but the page's own scripts and styles, by their digests."""
    brought = [found for script in scripts for found in _OWN_STYLE.findall(script)]
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_digest, scripts))}",
            f"style-src {' '.join(map(_digest, (styles, *brought)))}",
            "base-uri 'none'",
            "form-action 'self'" if has_forms else "form-action 'none'",
            # Scripts may set text and attributes, but nothing that would be read as markup or run.
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def _read(name: str) -> str:
    # read_text() would change the ends of lines.
    return (files("airflow_provider_mediaops.cluster.page") / "static" / name).read_bytes().decode()
