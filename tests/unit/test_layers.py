"""The picture in the documentation as a test: what a module needs to run stands in the layers below its own."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import airflow_provider_mediaops

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(airflow_provider_mediaops.__file__).parent
# From the bottom to the top. Parts of one layer do not know each other.
LAYERS = (
    {"__init__", "exceptions", "connection_fields", "json_text"},
    {"get_provider_info", "http"},
    {"storage", "waiting"},
    {"video", "cluster", "books"},
    {"task_failure"},
    {"hooks"},
    {"triggers"},
    {"operators", "sensors", "notifications", "plugins", "cli"},
)
KNOW_AIRFLOW = {"storage", "task_failure", "hooks", "triggers", "operators", "sensors", "notifications"}
LIBRARY_OF = {"requests": "sync_transport.py", "urllib3": "sync_transport.py", "httpx": "async_transport.py"}
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}
MODULES = sorted(PACKAGE.rglob("*.py"))


def run_time_imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        yield from run_time_imports(node)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_downwards_only(module: Path) -> None:
    part = module.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for imported in run_time_imports(ast.parse(module.read_text(encoding="utf-8"))):
        top, _, rest = imported.partition(".")
        other = rest.partition(".")[0]
        if top == PACKAGE.name and other and other != part:
            assert part != "sandbox", "the sandbox keeps the services' rules on its own"
            assert HEIGHT[other] < HEIGHT[part], f"{part} imports {imported}"
        if top == "airflow":
            assert part in KNOW_AIRFLOW, f"{part} imports {imported}"
        if top in LIBRARY_OF:
            assert module == PACKAGE / "http" / LIBRARY_OF[top], f"imports {imported}"
