"""
Copy the files that the guides show into their code blocks: `python -m scripts.shown_code`.

A comment before a block names its file. The code stands in the page itself, so that it can be read wherever Markdown is
shown, and in a file, so that tests run it. A block after `<!-- layers -->` gets the layers of `pyproject.toml`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"(?P<head><!-- (?P<file>\S+\.\w+) -->\n```\w+\n).*?^```$", re.MULTILINE | re.DOTALL)
# A whole DAG file beside the page, with a link to it: its code is put in when the pages are built.
_LINKED = re.compile(r"^<!-- code: (\S+\.\w+) -->$", re.MULTILINE)
_LAYERS_BLOCK = re.compile(r"(?P<head><!-- layers -->\n```text\n).*?^```$", re.MULTILINE | re.DOTALL)
_DOCSTRING = re.compile(r'\A""".*?"""\n+', re.DOTALL)


def with_code(page: str) -> str:
    """
    Fill the code blocks of a page.

    :param page: the page, with a comment such as `<!-- docs/snippets/capture.py -->` before the block of each file.
    """
    filled = _BLOCK.sub(lambda block: f"{block['head']}{code_of(ROOT / block['file'])}\n```", page)
    return _LAYERS_BLOCK.sub(lambda block: f"{block['head']}{_layers()}\n```", filled)


def files_of(page: str) -> list[str]:
    """List the files that a page shows."""
    return [*(block["file"] for block in _BLOCK.finditer(page)), *_LINKED.findall(page)]


def code_of(file: Path) -> str:
    """Return the code of a file without its docstring."""
    return _DOCSTRING.sub("", file.read_text(encoding="utf-8")).strip()


def _layers() -> str:
    """Return the layers that import-linter checks, from the top down, one a line."""
    listed = re.search(r"^layers = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE | re.DOTALL)
    layers = re.findall(r'"([^"]+)"', listed[1]) if listed else []
    return "\n".join(layer.replace(" | ", "  ") for layer in layers)


def main() -> None:
    """Write the pages whose blocks are out of date."""
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        filled = with_code(page)
        if filled != page:
            path.write_text(filled, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT)} is up to date now.\n")


if __name__ == "__main__":
    main()
