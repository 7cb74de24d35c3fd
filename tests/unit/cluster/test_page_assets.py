"""What the page brings along: the files of others as they published them, and a policy that names them."""

from __future__ import annotations

import re
from base64 import b64decode
from hashlib import sha256
from importlib.resources import files

from airflow_provider_mediaops.cluster.page import assets as page_assets

VENDOR = files("airflow_provider_mediaops.cluster") / "page" / "static" / "vendor"
LINES = re.findall(
    r"^\| (\S+) \S+ \| `\S+` \| `(\S+)` \| ([0-9]+) \| `([0-9a-f]{64})` \|$",
    (VENDOR / "README.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_every_file_is_in_the_table_of_where_it_is_from() -> None:
    assert {file for _, file, _, _ in LINES} | {"README.md"} == {path.name for path in VENDOR.iterdir()}


def test_files_are_those_that_were_published_one_after_the_other() -> None:
    left = {path.name: path.read_bytes() for path in VENDOR.iterdir() if path.name != "README.md"}
    for _, file, size, digest in LINES:
        part, left[file] = left[file][: int(size)], left[file][int(size) :]
        assert (len(part), sha256(part).hexdigest()) == (int(size), digest)
    assert set(left.values()) == {b""}


def test_scripts_are_small_and_cannot_end_their_element() -> None:
    scripts = page_assets.scripts(with_flame_graph=True)
    assert sum(map(len, scripts)) < 300_000
    for script in scripts:
        assert not re.search("</script|<!--|\r", script, re.IGNORECASE)


def test_all_licences_are_in_the_page() -> None:
    texts = page_assets.licenses().values()
    assert set(texts) == {
        path.read_text(encoding="utf-8") for path in VENDOR.iterdir() if path.name.startswith("LICENSE")
    }


def test_the_policy_allows_these_scripts_and_styles_only() -> None:
    scripts = page_assets.scripts(with_flame_graph=True)
    directives = {
        name: values
        for name, *values in (part.split() for part in page_assets.policy(scripts, page_assets.style()).split(";"))
    }
    digests = [b64decode(value.removeprefix("'sha256-").removesuffix("'")) for value in directives["script-src"]]
    assert digests == [sha256(script.encode()).digest() for script in scripts]
    styles = [b64decode(value.removeprefix("'sha256-").removesuffix("'")) for value in directives["style-src"]]
    assert styles[0] == sha256(page_assets.style().encode()).digest()
    assert len(styles) == 2  # and that of the library
    assert directives["default-src"] == directives["base-uri"] == directives["form-action"] == ["'none'"]
    assert "unsafe" not in page_assets.policy(scripts, page_assets.style())


def test_a_page_without_a_graph_allows_less() -> None:
    scripts = page_assets.scripts(with_flame_graph=False)
    assert len(scripts) == 1
    assert page_assets.policy(scripts, page_assets.style()).count("sha256-") == 2
