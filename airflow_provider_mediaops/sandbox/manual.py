"""The sandbox's own manual: a page that is made of its OpenAPI description and loads nothing."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Schema = Mapping[str, Any]

#: What the page may load: its own style, and nothing else.
CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h2 { border-bottom: 1px solid; margin-top: 3rem; }
h3 { font-family: ui-monospace, monospace; font-size: 1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border: 1px solid #8888; overflow-wrap: anywhere; padding: .3rem .6rem; text-align: left; }
td { vertical-align: top; }
"""
_MARKED = re.compile("`([^`]+)`")


def page(openapi: Schema) -> str:
    """
    Return the manual.

    :param openapi: the description of the application.
    :returns: an HTML document.
    """
    sections: dict[str, list[str]] = {}
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            sections.setdefault(operation["tags"][0], []).append(_operation(method, path, operation, openapi))
    parts = "".join(f"<h2>{html.escape(tag)}</h2>{''.join(each)}" for tag, each in sections.items())
    title, description = html.escape(openapi["info"]["title"]), _text(openapi["info"]["description"])
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f'</head><body><h1>{title}</h1><p>{description}</p><p><a href="openapi.json">The same for programs</a></p>'
        f"{parts}</body></html>"
    )


def _operation(method: str, path: str, operation: Schema, openapi: Schema) -> str:
    said = _text(operation.get("description", operation["summary"]))
    parts = [f"<h3>{method.upper()} {html.escape(path)}</h3><p>{said}</p>"]
    rows = [
        _row(entry["name"], entry["in"], entry["schema"], required=entry["required"], said=entry.get("description"))
        for entry in operation.get("parameters", ())
    ]
    if rows:
        parts.append(_table(rows))
    for media in operation.get("requestBody", {}).get("content", {}).values():
        for title, schema in _alternatives(media["schema"], openapi):
            parts.append(f"<p>Body: {html.escape(title)}</p>{_table(list(_fields(schema, openapi)))}")
    return "".join(parts)


def _alternatives(schema: Schema, openapi: Schema) -> list[tuple[str, Schema]]:
    """Return the schemas that a body may have, each with its title."""
    schema = _resolved(schema, schema, openapi)
    if "oneOf" not in schema:
        return [(_described(schema), schema)]
    return [(_described(each), each) for each in (_resolved(one, schema, openapi) for one in schema["oneOf"])]


def _described(schema: Schema) -> str:
    return str(schema.get("description", schema.get("title", "")))


def _fields(schema: Schema, openapi: Schema, *, prefix: str = "") -> Iterator[str]:
    """Write a row for each field, those of objects below it as ``object.field``."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        below = [_resolved(each, schema, openapi) for each in field.get("anyOf", [field])]
        objects = [each for each in below if "properties" in each]
        for each in objects:
            yield from _fields(each, openapi, prefix=f"{prefix}{name}.")
        if not objects:
            yield _row(prefix + name, "body", field, required=name in required, said=field.get("description"))


def _resolved(schema: Schema, whole: Schema, openapi: Schema) -> Schema:
    """Follow a reference to a definition, of the schema itself or of the whole description."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    name = reference.rpartition("/")[2]
    definitions = {**openapi.get("components", {}).get("schemas", {}), **whole.get("$defs", {})}
    return {"$defs": whole.get("$defs", {}), **definitions[name]}


def _row(name: str, place: str, schema: Schema, *, required: bool, said: str | None) -> str:
    default = "required" if required else "" if schema.get("default") is None else str(schema["default"])
    cells = (f"<code>{html.escape(name)}</code>", place, _type(schema), html.escape(default), _text(said or ""))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _type(schema: Schema) -> str:
    for several in ("anyOf", "oneOf"):
        if several in schema:
            kinds = [_type(each) for each in schema[several] if each.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds))
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if choices:
        return html.escape(", ".join(map(str, choices)))
    return html.escape(str(schema.get("type", "any")))


def _table(rows: list[str]) -> str:
    head = "".join(f"<th>{title}</th>" for title in ("name", "in", "type", "default", "meaning"))
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _text(text: str) -> str:
    """Write a description as HTML: only backticks mean something."""
    return _MARKED.sub(r"<code>\1</code>", html.escape(text.strip()))
