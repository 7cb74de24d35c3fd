"""How Sphinx builds the documentation; every warning is an error."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

# Airflow writes its configuration where it is first imported: not into the home of whoever builds the pages.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="mediaops-docs-"))

sys.path.insert(0, str(Path(__file__).parents[1]))
from airflow_provider_mediaops import __version__
from scripts.generated_docs import filled

# The theme's a11y_pygments sets up logging at the level INFO when it is imported, unless it is set up already.
logging.basicConfig(level=logging.WARNING)

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

# There are none, and looking for them takes a tenth of the time.
autodoc_use_type_comments = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_inherit_docstrings = False


def _fill(_app: Any, _page: str, source: list[str]) -> None:
    source[0] = filled(source[0])


def setup(app: Any) -> None:
    """Have Sphinx read each page with what the code says in it."""
    app.connect("source-read", _fill)
