"""How Sphinx builds the documentation; every warning is an error."""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING

# Airflow writes its configuration where it is first imported: not into the home of whoever builds the pages.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="mediaops-docs-"))

from sphinx.util.matching import patfilter

from airflow_provider_mediaops import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "airflow-provider-mediaops"
author = "mediaops"
release = version = __version__
html_title = "airflow-provider-mediaops"
html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["_static"]
# Tables that can be read on a narrow screen.
html_css_files = ["tables.css"]
html_js_files = ["tables.js"]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_inherit_docstrings = False

# An entry of the first page's contents: a page, or a pattern of pages.
_ENTRY = re.compile(r"^[a-z_/*]+$\n", re.MULTILINE)
# An item of its lists, with the pages that it links to.
_ITEM = re.compile(r"^- .*(?:\n  .*)*\n", re.MULTILINE)
_PAGE = re.compile(r"\]\((?P<page>[a-z_/]+)\.md[)#]")


def _leave_out_missing_parts(app: Sphinx, name: str, source: list[str]) -> None:
    """Remove the entries of pages that are not there from the lists on the first page."""
    if name == "index":
        pages = app.env.found_docs
        source[0] = _ITEM.sub(lambda item: item[0] if set(_PAGE.findall(item[0])) <= pages else "", source[0])
        source[0] = _ENTRY.sub(lambda entry: entry[0] if patfilter(pages, entry[0].strip()) else "", source[0])


def setup(app: Sphinx) -> None:
    """Connect what this configuration does while pages are read."""
    app.connect("source-read", _leave_out_missing_parts)
