"""The query of a cluster request, read parameter by parameter as OpenSearch and Elasticsearch do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.sandbox.cluster.units import nanoseconds, number_and_unit
from airflow_provider_mediaops.sandbox.refusals import RefusedError, cluster_refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LARGEST_INT = 2**31 - 1
_FRACTION = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SIMILAR = 0.5


def illegal_argument(reason: str, *, no_number: str | None = None) -> RefusedError:
    """
    Refuse a wrong argument.

    :param reason: what is wrong, in the cluster's words.
    :param no_number: the text that was to be a number.
    :returns: the refusal, to be raised.
    """
    refusal = cluster_refusal(400, "illegal_argument_exception", reason)
    if no_number is not None:
        cause = {"type": "number_format_exception", "reason": f'For input string: "{no_number}"'}
        refusal.body["error"]["caused_by"] = cause
    return refusal


def flag(text: str, *, default: bool = True) -> bool:
    """
    Read ``true`` or ``false``.

    :param text: the value.
    :param default: what an empty value means.
    :raises RefusedError: if it is neither.
    """
    if text not in ("", "true", "false"):
        raise illegal_argument(f"Failed to parse value [{text}] as only [true] or [false] are allowed.")
    return text == "true" if text else default


class Query:
    """
    The parameters of one request.

    Reading a parameter marks it as known; :meth:`refuse_unknown` refuses the others.

    :param path: the request's path, for the refusals.
    :param parameters: the names and values.
    """

    def __init__(self, path: str, parameters: Mapping[str, str]) -> None:
        self._path = path
        self._parameters = parameters
        self._known: set[str] = set()

    def text(self, name: str, default: str) -> str:
        """
        Return a parameter as it came.

        :param name: the parameter's name.
        :param default: its value if the request has none.
        """
        self._known.add(name)
        return self._parameters.get(name, default)

    def flag(self, name: str, *, default: bool) -> bool:
        """
        Read ``true`` or ``false``.

        :param name: the parameter's name.
        :param default: its value if the request has none, or an empty one.
        """
        return flag(self.text(name, ""), default=default)

    def whole_number(self, name: str, default: int) -> int:
        """
        Read a whole number of 32 bits.

        :param name: the parameter's name.
        :param default: its value if the request has none.
        """
        text = self.text(name, str(default))
        if re.fullmatch(r"[+-]?\d+", text) and -_LARGEST_INT - 1 <= int(text) <= _LARGEST_INT:
            return int(text)
        raise illegal_argument(f"Failed to parse int parameter [{name}] with value [{text}]", no_number=text)

    def time(self, name: str, default: str, *, setting: str | None = None) -> int:
        """
        Read a time: a whole number and a unit, zeros, or ``-1``.

        :param name: the parameter's name.
        :param default: its value if the request has none.
        :param setting: the name of the parameter in a refusal, if that is another one.
        :returns: nanoseconds; below zero for ``-1``.
        """
        text = self.text(name, default)
        found = nanoseconds(text)
        if found is None:
            raise _no_time(text, f"failed to parse setting [{setting or name}] with value [{text}] as a time value")
        return found

    def refuse_unknown(self, also_known: Iterable[str] = ()) -> None:
        """
        Refuse the request if it has parameters that were not read.

        :param also_known: names to suggest besides those that were read.
        :raises RefusedError: if there are any; it names them, and the known ones that they resemble.
        """
        unknown = sorted(set(self._parameters) - self._known)
        if unknown:
            raise unrecognized(self._path, "parameter", unknown, self._known | set(also_known))


def unrecognized(path: str, kind: str, names: list[str], known: Iterable[str]) -> RefusedError:
    """
    Refuse names that the cluster does not know.

    :param path: the request's path.
    :param kind: what they name, such as ``parameter``.
    :param names: the unknown names.
    :param known: the names to suggest.
    :returns: the refusal, to be raised.
    """
    plural = "s" if len(names) > 1 else ""
    shown = ", ".join(f"[{name}]{_suggestion(name, known)}" for name in names)
    return illegal_argument(f"request [{path}] contains unrecognized {kind}{plural}: {shown}")


def _no_time(text: str, failure: str) -> RefusedError:
    split = number_and_unit(text)
    if split is None:
        return illegal_argument(f"{failure}: unit is missing or unrecognized")
    number = split[0]
    if re.fullmatch(r"-\d+", number):
        return illegal_argument(f"{failure}: negative durations are not supported")
    if _FRACTION.fullmatch(number):
        return illegal_argument(f"failed to parse [{text}], fractional time values are not supported", no_number=number)
    return illegal_argument(f"failed to parse [{text}]", no_number=number)


def _suggestion(name: str, known: Iterable[str]) -> str:
    alike = {other: 1 - _distance(name, other) / max(len(name), len(other)) for other in known}
    near = sorted((other for other, likeness in alike.items() if likeness > _SIMILAR), key=lambda o: (-alike[o], o))
    if not near:
        return ""
    shown = f"[{near[0]}]" if len(near) == 1 else f"any of [{', '.join(near)}]"
    return f" -> did you mean {shown}?"


def _distance(one: str, other: str) -> int:
    """Count the letters to insert, remove or replace (Levenshtein)."""
    row: list[Any] = list(range(len(other) + 1))
    for place, letter in enumerate(one, start=1):
        above, row[0] = row[0], place
        for column, letter_of_other in enumerate(other, start=1):
            above, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, above + (letter != letter_of_other)),
            )
    return int(row[-1])
