"""
The header of a node's section, from every version that writes one.

Elasticsearch 1 writes `[name][id][host][inet[/ip:port]]{attributes}`; later versions and OpenSearch write slots
in braces: `{name}{id}{ephemeral id}{external id}{host}{ip:port}{roles}{version}{index versions}{attributes}`, of
which each version knows a part and leaves out empty ones. Nothing is escaped, and names and attributes may
hold braces, so slots are known by their position around the address and by the form of ids.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from airflow_provider_mediaops.cluster.hot_threads.grammar import shared

_ID = r"(?=[a-z0-9_-]*[A-Z])(?=[A-Z_-]*[a-z0-9])[A-Za-z0-9_-]{20,22}"
_ADDRESS = r"(?:[^\s{}\[\]:=]{0,253}|\[[^\s{}\[\]]{1,80}\]):[0-9]{1,5}"
_ROLES = r"[A-Za-z][A-Za-z0-9_.-]{0,200}"
_VERSION = r"[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}[^\s{}]{0,40}"
_INDEX_VERSIONS = r"[0-9]{1,12}-[0-9]{1,12}"

_is_id = re.compile(_ID).fullmatch
# Name, ids and host as later versions print them: two ids in a row mark the end of the name.
_IDENTITY = re.compile(
    rf"(?:\{{(.{{1,500}}?)\}})?\{{({_ID})\}}\{{({_ID})\}}(?:(?:\{{(.{{1,500}})\}})?\{{([^{{}}]{{1,300}})\}})?"
)
_IDENTITY_SLOTS = ("name", "node_id", "ephemeral_id", "external_id", "host")
# The address, and the slots that may follow before the attributes.
_ADDRESS_AND_ON = re.compile(
    rf"\{{({_ADDRESS})\}}(?:\{{({_ROLES})\}})?(?:\{{({_VERSION})\}})?(?:\{{({_INDEX_VERSIONS})\}})?"
)
_ADDRESS_SLOTS = ("address", "roles", "version", "index_versions")
_ATTRIBUTES_START = re.compile(r"\{[^{}=]*=")


def read_header(header: str) -> tuple[dict[str, Any], str | None]:
    """Return the values of a header by the names of `HotNode`'s attributes, and why it was not understood, if so."""
    whole = header.endswith("}") or (header.startswith("[") and header.endswith("]"))
    closed = header if whole else header[: max(header.rfind("}"), header.rfind("]")) + 1]
    fields, unknown = _read_brackets(closed) if closed.startswith("[") else _read_braces(closed)
    if not whole:
        return fields, "a node's header that is not complete"
    return fields, f"unknown in a node's header: {unknown[:80]!r}" if unknown else None


def _read_braces(header: str) -> tuple[dict[str, Any], str]:
    """Return the values, and the text after the address that is not a known slot."""
    found = _ADDRESS_AND_ON.search(header, 1)
    if found is None:
        identity, attributes = _without_attributes(header)
        return {**_read_identity(identity), "attributes": attributes}, ""
    unknown, attributes = _without_attributes(header[found.end() :])
    fields = _read_identity(header[: found.start()])
    fields["attributes"] = attributes
    fields |= zip(_ADDRESS_SLOTS, map(shared, found.groups()), strict=True)
    return fields, unknown.removeprefix("{").removesuffix("}")


def _without_attributes(slots: str) -> tuple[str, dict[str, str]]:
    """Return slots without the last one, and the attributes in that."""
    # They start with a key; their values may hold what looks like the end of a slot.
    found = _ATTRIBUTES_START.search(slots)
    if found is None:
        return slots, _read_attributes("")
    return slots[: found.start()], _read_attributes(slots[found.start() + 1 :].removesuffix("}"))


def _read_identity(text: str) -> dict[str, Any]:
    """Return name, ids and host, which stand before the address."""
    match = _IDENTITY.fullmatch(text)
    if match:
        return dict(zip(_IDENTITY_SLOTS, match.groups(), strict=True))
    # Elasticsearch 1 and 2 print one id. Here a cut header has what is left of it, too.
    return _read_slots(text.removeprefix("{").removesuffix("}").split("}{"))


def _read_slots(slots: list[str]) -> dict[str, Any]:
    """Return name, ids and host, each of which may be missing."""
    fields: dict[str, Any] = {}
    if len(slots) != len(("id", "host")) or not _is_id(slots[0]):
        fields["name"] = slots.pop(0)
    if slots:
        fields["node_id"] = slots.pop(0)
    if len(slots) > len(("host",)):
        fields["ephemeral_id"] = slots.pop(0)
    if slots:
        fields["host"] = slots.pop()
    if slots:
        fields["external_id"] = "}{".join(slots)
    return {name: value for name, value in fields.items() if value}


def _read_brackets(header: str) -> tuple[dict[str, Any], str]:
    """Return the values in a header of Elasticsearch 1, and the text after the address that is not of attributes."""
    head, inet_mark, rest = header.partition("[inet[")
    inet, closed, rest = rest.partition("]]")
    slots = head.removeprefix("[").removesuffix("]").split("][")
    # A name may hold what looks like the end of a slot.
    last = max(1, len(slots) - len(("id", "host")))
    fields = _read_slots(["][".join(slots[:last]), *slots[last:]])
    if inet_mark and not closed:
        return fields, inet_mark + inet
    if closed:
        inet_host, _, fields["address"] = inet.rpartition("/")
        if inet_host:
            fields.setdefault("host", inet_host)
    unknown, fields["attributes"] = _without_attributes(rest)
    return fields, unknown


# Those of most nodes are equal.
@lru_cache(20)
def _read_attributes(text: str) -> dict[str, str]:
    """Split `key=value, key=value`; a part without `=` continues the value before it, which held a comma."""
    values: dict[str, list[str]] = {}
    value: list[str] = []
    for part in text.split(","):
        key, mark, start = part.strip().partition("=")
        if mark:
            value = values[key] = [start]
        elif key:
            value.append(part)
    return {key: ",".join(parts) for key, parts in values.items()}
