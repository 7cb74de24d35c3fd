"""The names of hidden files, by which leftovers are found and told from the files of other programs."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.storage.files import beside
from airflow_provider_mediaops.storage.leftovers.model import Companion, key_of


@pytest.mark.parametrize(
    ("file", "companion"),
    [
        (".d.jsonl.checkpoint", Companion(key_of("d.jsonl"), "d.jsonl", "checkpoint")),
        (".d.csv.0123456789abcdef.part", Companion(key_of("d.csv"), "d.csv", "0123456789abcdef.part")),
        (".a\nb.records", Companion(key_of("a\nb"), "a\nb", "records")),
        (f".{'n' * 50}.0123456789abcdef.records", Companion("0123456789abcdef", None, "records")),
        ("d.jsonl.checkpoint", None),
        (".d.jsonl.mapped", None),
        (".d.jsonl.0123.part", None),
        ("..checkpoint", None),
    ],
)
def test_the_names_of_companions(file: str, companion: Companion | None) -> None:
    assert Companion.of(file) == companion


@pytest.mark.parametrize("name", ["d.jsonl", "n" * 246, "ü" * 130])
@pytest.mark.parametrize("kind", ["checkpoint", "records", "converted", "isbns.jsonl", "0123456789abcdef.part"])
def test_all_companions_of_a_destination_have_its_key(name: str, kind: str) -> None:
    companion = Companion.of(beside(name, kind))
    assert companion
    assert (companion.key, companion.kind) == (key_of(name), kind)
