"""Load the parts of the page besides its content: template, styles, scripts, licences and security policy."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template

# In the order in which they need each other.
_LIBRARIES = (
    *("d3-array.min.js", "d3-color.min.js", "d3-dispatch.min.js", "d3-ease.min.js", "d3-format.min.js"),
    *("d3-hierarchy.min.js", "d3-interpolate.min.js", "d3-selection.min.js", "d3-time.min.js", "d3-timer.min.js"),
    *("d3-time-format.min.js", "d3-scale.min.js", "d3-transition.min.js", "d3-flamegraph.umd.min.js"),
)
_LICENSES = {
    "d3-flame-graph": "LICENSE.d3-flame-graph",
    "the parts of D3, without d3-ease": "LICENSE.d3",
    "d3-ease": "LICENSE.d3-ease",
    "internmap, which is within d3-array": "LICENSE.internmap",
}
# The flame graph's library brings its styles in its script.
_OWN_STYLE = re.compile(r'createElement\("style"\);\w+\.textContent=`([^`]*)`')


@cache
def template() -> Template:
    """
    Return the page's template, which escapes its values.

    :returns: the template.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_read("page.html"))


@cache
def style() -> str:
    """
    Return the page's styles.

    :returns: the style sheet.
    """
    return _read("page.css")


@cache
def scripts(*, with_flame_graph: bool) -> tuple[str, ...]:
    """
    Return the page's scripts.

    :param with_flame_graph: whether there is anything to draw.
    :returns: each script, in the order in which they have to run.
    """
    libraries = (*(f"vendor/{name}" for name in _LIBRARIES), "flame.js") if with_flame_graph else ()
    return tuple(map(_read, (*libraries, "tables.js")))


@cache
def licenses() -> dict[str, str]:
    """
    Return the licences of third-party scripts.

    :returns: the text of each licence, by the name of its script.
    """
    return {name: _read(f"vendor/{file}") for name, file in _LICENSES.items()}


@cache
def policy(scripts: tuple[str, ...]) -> str:
    """
    Return the content security policy: nothing but the page's own scripts and styles, by their digests.

    :param scripts: the page's scripts.
    :returns: the policy, for a ``meta`` element.
    """
    brought = [found for script in scripts for found in _OWN_STYLE.findall(script)]
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_digest, scripts))}",
            f"style-src {' '.join(map(_digest, (style(), *brought)))}",
            "base-uri 'none'",
            "form-action 'none'",
            # Scripts may set text and attributes, but nothing that would be read as markup or run.
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    text = (files("airflow_provider_mediaops.cluster.page") / "static" / name).read_bytes()
    # Not read_text(), which would take the ends of lines for its own.
    return text.decode()
