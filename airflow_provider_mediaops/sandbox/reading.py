"""
Read requests into models, strictly and after their credentials were checked.

Services look at the credential first, and take a body for JSON whatever it is labelled; FastAPI by itself does neither.
So a route asks for its models by :func:`from_query` and :func:`from_body`, after whatever checks the credential, and
describes them to the manual by :func:`described`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.datastructures import QueryParams

Model = TypeVar("Model", bound=BaseModel)


def from_query(model: type[Model], *, values: Callable[[QueryParams], Mapping[str, str]]) -> Any:
    """
    Return a dependency through which a route's parameter receives the request's query.

    :param model: what the query must be.
    :param values: makes one value of each parameter.
    :returns: a FastAPI dependency, which raises RequestValidationError.
    """

    async def read(request: Request) -> Model:
        return _validated("query", lambda: model.model_validate(values(request.query_params)))

    return Depends(read)


def from_body(model: type[Model]) -> Any:
    """
    Return a dependency through which a route's parameter receives the request's body.

    :param model: what the JSON of the body must be.
    :returns: a FastAPI dependency, which raises RequestValidationError.
    """

    async def read(request: Request) -> Model:
        body = await request.body()
        return _validated("body", lambda: model.model_validate_json(body))

    return Depends(read)


def _validated(place: str, read: Callable[[], Model]) -> Model:
    try:
        return read()
    except ValidationError as invalid:
        errors = [{**error, "loc": (place, *error["loc"])} for error in invalid.errors(include_context=False)]
        raise RequestValidationError(errors) from None


def described(*, query: type[BaseModel] | None = None, body: type[BaseModel] | None = None) -> dict[str, Any]:
    """
    Describe a route's models to the manual.

    :param query: the model that a route takes from the query.
    :param body: the model that it takes from the body.
    :returns: for a route's ``openapi_extra``.
    """
    extra: dict[str, Any] = {}
    if query is not None:
        schema = query.model_json_schema()
        extra["parameters"] = [
            {
                "name": name,
                "in": "query",
                "required": name in schema.get("required", ()),
                "description": field.pop("description"),
                "schema": field,
            }
            for name, field in schema["properties"].items()
        ]
    if body is not None:
        # The schema holds its own definitions, under $defs, not in the manual's shared list.
        content = {"schema": body.model_json_schema()}
        extra["requestBody"] = {"required": True, "content": {"application/json": content}}
    return extra
