"""
The header of a node's section, from every version that writes one.

Elasticsearch 1 writes `[name][id][host][inet[/ip:port]]{attributes}`; later versions and OpenSearch write slots
in braces: `{name}{id}{ephemeral id}{external id}{host}{ip:port}{roles}{version}{index versions}{attributes}`, of
which each version knows a part and leaves out empty ones. Nothing is escaped, and names and attributes may
hold braces, so slots are known by their position around the address and by the form of ids.
"""

from __future__ import annotations

import re
from typing import Any

from airflow_provider_mediaops.cluster.hot_threads.grammar import shared

_ID = r"(?=[a-z0-9_-]*[A-Z])(?=[A-Z_-]*[a-z0-9])[A-Za-z0-9_-]{20,22}"
_ADDRESS = r"(?:[^\s{}\[\]:=]{0,253}|\[[^\s{}\[\]]{1,80}\]):[0-9]{1,5}"
_ROLES = r"[A-Za-z][A-Za-z0-9_.-]{0,200}"
_VERSION = r"[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}[^\s{}]{0,40}"
_INDEX_VERSIONS = r"[0-9]{1,12}-[0-9]{1,12}"

# Any other slot; if it has a colon, it does not look like an address.
_SLOT = rf"(?:[^{{}}:\n]+|(?!{_ADDRESS}\}})[^{{}}\n]+)"

#: A header in braces that leaves no doubt about its slots; read by `header_of`.
BRACES = (
    rf"\{{(?P<name_in_braces>(?!{_ID}\}})[^{{}}=\n]+)\}}\{{(?P<node_id>{_ID})\}}(?:"
    rf"(?:\{{(?P<ephemeral_id>{_ID})\}}(?:\{{(?P<external_id>{_SLOT})\}})?)?"
    rf"\{{(?P<host>(?!{_ID}\}}){_SLOT})\}}\{{(?P<address>{_ADDRESS})\}}"
    rf"(?:\{{(?P<roles>{_ROLES})\}})?(?:\{{(?P<version>{_VERSION})\}})?"
    rf"(?:\{{(?P<index_versions>{_INDEX_VERSIONS})\}})?(?:\{{(?P<attributes>[^{{}}=\n]+=[^{{}}\n]*)\}})?)?"
)
#: The same of a header in brackets.
BRACKETS = (
    rf"\[(?P<name_in_brackets>(?!{_ID}\])[^\[\]\n]+)\]\[{_ID}\](?:\[[^\[\]\n]+\])?\[inet\[[^\[\]\n]*\]\]"
    r"(?:\{[^{}\n]*\})?"
)
_SLOTS = ("node_id", "ephemeral_id", "external_id", "host", "address", "roles", "version", "index_versions")

_is_id = re.compile(_ID).fullmatch
_is_address = re.compile(_ADDRESS).fullmatch
_is_roles = re.compile(_ROLES).fullmatch
_is_version = re.compile(_VERSION).fullmatch
_is_index_versions = re.compile(_INDEX_VERSIONS).fullmatch


def is_whole_header(line: str) -> bool:
    """Return whether the last slot of a header, with or without `:::`, is closed."""
    return line.endswith("}") or (line.lstrip(": ").startswith("[") and line.endswith("]"))


def header_of(match: re.Match[str]) -> dict[str, Any]:
    """Return the values of a header that `BRACES` or `BRACKETS` matched, in a group `header`."""
    name, attributes = match.group("name_in_braces", "attributes")
    if name is None:
        return read_header(match["header"])[0]
    fields: dict[str, Any] = dict(zip(_SLOTS, map(shared, match.group(*_SLOTS)), strict=True))
    fields["name"] = name
    fields["attributes"] = {} if attributes is None else _read_attributes(attributes)
    return fields


def read_header(header: str) -> tuple[dict[str, Any], str | None]:
    """Return the values of a header by the names of `HotNode`'s attributes, and why it was not understood, if so."""
    whole = is_whole_header(header)
    closed = header if whole else header[: max(header.rfind("}"), header.rfind("]")) + 1]
    fields, unknown = _read_brackets(closed) if closed.startswith("[") else _read_braces(closed)
    if not whole:
        return fields, "a node's header that is not complete"
    return fields, f"unknown in a node's header: {unknown[:80]!r}" if unknown else None


def _read_braces(header: str) -> tuple[dict[str, Any], str]:
    """Return the values, and the text after the address that is not a known slot."""
    slots = header.removeprefix("{").removesuffix("}").split("}{")
    places = [i for i, slot in enumerate(slots) if i and _is_address(slot)]
    place = places[0] if places else _first_attribute(slots)
    fields = _read_identity(slots[:place])
    rest = slots[place:]
    if rest and _is_address(rest[0]):
        fields["address"] = rest.pop(0)
    if rest and _is_roles(rest[0]):
        fields["roles"] = rest.pop(0)
    if rest and _is_version(rest[0]):
        fields["version"] = rest.pop(0)
    if rest and _is_index_versions(rest[0]):
        fields["index_versions"] = rest.pop(0)
    # Attributes come last and start with a key; their values may hold what looks like the end of a slot.
    start = _first_attribute(rest)
    if start < len(rest):
        fields["attributes"] = _read_attributes("}{".join(rest[start:]))
    return fields, "}{".join(rest[:start])


def _first_attribute(slots: list[str]) -> int:
    return next((i for i, slot in enumerate(slots) if "=" in slot), len(slots))


def _read_identity(slots: list[str]) -> dict[str, Any]:
    """
    Return name, ids and host, which stand before the address.

    Elasticsearch 1 and 2 print one id, later versions two in a row, which mark the end of the name.
    """
    ids = [_is_id(slot) is not None for slot in slots]
    pairs = [i for i in range(len(slots) - 1) if ids[i] and ids[i + 1]]
    # A name may look like an id, hence the first pair that leaves room for a name, if there is one.
    first = next((i for i in pairs if i), pairs[0] if pairs else None)
    if first is None:
        nameless = len(slots) == len(("id", "host")) and ids[0]
        first = 0 if nameless else 1
        has_ephemeral = len(slots) > len(("name", "id", "host"))
    else:
        has_ephemeral = True
    name, rest = "}{".join(slots[:first]), slots[first:]
    fields: dict[str, Any] = {"name": name} if name else {}
    if rest:
        fields["node_id"] = rest.pop(0)
    if rest and has_ephemeral:
        fields["ephemeral_id"] = rest.pop(0)
    if rest:
        fields["host"] = rest.pop()
    if rest:
        fields["external_id"] = "}{".join(rest)
    return {name: value for name, value in fields.items() if value}


def _read_brackets(header: str) -> tuple[dict[str, Any], str]:
    head, inet_mark, rest = header.partition("[inet[")
    inet, closed, attributes = rest.partition("]]")
    slots = head.removeprefix("[").removesuffix("]").split("][")
    nameless = len(slots) == len(("id", "host")) and _is_id(slots[0]) and not _is_id(slots[1])
    fields: dict[str, Any] = {}
    if not nameless:
        # A name may hold what looks like the end of a slot.
        last = max(1, len(slots) - len(("id", "host")))
        fields["name"], slots = "][".join(slots[:last]), slots[last:]
    if slots:
        fields["node_id"] = slots.pop(0)
    if slots:
        fields["host"] = slots.pop(0)
    if inet_mark and not closed:
        return fields, inet_mark + inet
    if closed:
        inet_host, _, fields["address"] = inet.rpartition("/")
        if inet_host:
            fields.setdefault("host", inet_host)
    if not attributes:
        return fields, ""
    if not attributes.startswith("{"):
        return fields, attributes
    fields["attributes"] = _read_attributes(attributes.removeprefix("{").removesuffix("}"))
    return fields, ""


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
