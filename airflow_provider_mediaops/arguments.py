"""
Read the arguments of operators, sensors, notifiers and hooks as people and templates write them.

A rendered template is a text; with ``render_template_as_native_obj`` it is whatever Python reads in that text, so a
text of digits becomes an integer. Each function returns the value that is meant, or raises
:class:`~airflow_provider_mediaops.exceptions.InvalidArgumentError` with the argument's ``name``, the value and the
correction: also for a value below ``minimum`` or above ``maximum``, where they are not None.
Nothing is taken by its truth value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import PurePath
from typing import Any, TypeVar

from airflow_provider_mediaops.exceptions import InvalidArgumentError

T = TypeVar("T")

_TRUE = frozenset({"true", "t", "yes", "y", "on", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "off", "0"})
# The text of a list: what a template makes of one without native objects.
_TEXT_OF_LIST = re.compile(r"""\s*[\[(]\s*(['"].*|[\s\d,]*)[\])]\s*""", re.DOTALL)
_MAX_SHOWN_LENGTH = 120
# Of a web address: its scheme, user and password, host and path, query and fragment.
_WEB_ADDRESS = re.compile(r"\s*(https?:/{1,2})(?:.*@)?([^?#]*)(?:[?#].*)?", re.DOTALL | re.IGNORECASE)
# Of any other: a password, which is not a port, and a query.
_PASSWORD = re.compile(r"(\w:/{1,3}[^/:]*):(?!\d{1,5}/).*@", re.DOTALL)
_QUERY = re.compile(r"\?[^?=]*=.*", re.DOTALL)
# The schemes of paths on the local disk.
_LOCAL = ("file://", "local://")


def optional(read: Callable[..., T], name: str, value: object, **bounds: Any) -> T | None:
    """Read an argument that may be left out, by one of this module's functions: None stays None."""
    return None if value is None else read(name, value, **bounds)


def read_flag(name: str, value: object) -> bool:
    """Read a flag: a boolean, 1 or 0, or a word for either, such as ``yes``; None and an empty text are refused."""
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in _TRUE | _FALSE:
        raise refused(name, value, "is True or False")
    return word in _TRUE


def read_text(name: str, value: object) -> str:
    """
    Read a text as it is, which may be empty, or an integer that a template made of one.

    The text of a float is not certain to be the one that was written. Half of a surrogate pair, which a text that was
    cut can end with, is refused: no request can carry it.
    """
    text = _text(name, value)
    if not _is_encodable(text, "strict"):
        raise refused(name, text, "is a text of whole characters")
    return text


def _text(name: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        hint = " A template with native objects needs quotes inside: \"'{{ … }}'\"." if value is not None else ""
        raise InvalidArgumentError(f"{name} is a text; not {shown(value)}.{hint}")
    return value


def read_identifier(name: str, value: object) -> str:
    """Read an identifier: a text that is not blank, without blanks at its ends."""
    identifier = read_text(name, value).strip()
    if not identifier:
        raise InvalidArgumentError(f"{name} is empty: give the identifier, or leave {name} out.")
    return identifier


def path_text(value: object) -> Any:
    """
    Return the text of a path object, for the constructor of a task.

    Anything else stays as it is. Airflow renders the templates in a text in all its versions, but those in a
    ``pathlib.Path`` in none.
    """
    return str(value) if is_path(value) else value


def is_path(value: object) -> bool:
    """
    Return whether a value is a path object: a ``pathlib.Path`` or an ``ObjectStoragePath``.

    The latter is not imported, which takes time; it has the methods of a path.
    """
    return isinstance(value, PurePath) or (hasattr(value, "joinpath") and hasattr(value, "as_uri"))


def read_path(name: str, value: object) -> str:
    """Read the path of a file: a text that is not blank, a path object, or an integer that a template made of one."""
    path = _text(name, path_text(value))
    # A local name that is not UTF-8 is a text with surrogates that stand for its bytes.
    errors = "strict" if "://" in path and not path.startswith(_LOCAL) else "surrogateescape"
    if not path.strip() or "\0" in path or not _is_encodable(path, errors):
        raise refused(name, value, "is the path of a file")
    return path


def _is_encodable(text: str, errors: str) -> bool:
    try:
        text.encode(errors=errors)
    except UnicodeEncodeError:
        return False
    return True


def read_texts(name: str, value: object, *, if_empty: str = "") -> tuple[str, ...]:
    """
    Read a list of texts, or of integers that templates made of them, or one text with commas; a set is sorted.

    There is one entry or more, and none is blank; ``if_empty`` is a sentence with the correction of an empty list.
    """
    if isinstance(value, str):
        if _TEXT_OF_LIST.fullmatch(value):
            raise InvalidArgumentError(
                f"{name} is the text of a list: {shown(value)}. In a template, write {{{{ … | join(',') }}}}; or set "
                "render_template_as_native_obj on the Dag."
            )
        entries: Sequence[object] = value.split(",")
    elif isinstance(value, int) and not isinstance(value, bool):
        entries = (value,)
    elif isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        entries = value
    elif isinstance(value, AbstractSet):
        entries = ordered(value)
    else:
        raise refused(name, value, "is a list of texts, or one text with commas")
    texts = tuple(read_text(f"an entry of {name}", entry).strip() for entry in entries)
    if not texts or not all(texts):
        message = f"{name} needs at least one entry, and none of them empty; not {shown(value)}.{_hint(value)}"
        raise InvalidArgumentError(f"{message} {if_empty}".rstrip())
    return texts


def ordered(value: Any) -> Any:
    """Return a sorted list in the place of a set, so that each try has the same order; anything else as it is."""
    return sorted(value, key=str) if isinstance(value, AbstractSet) else value


def read_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Read one of a few words."""
    if isinstance(value, str) and value.strip() in choices:
        return value.strip()
    raise refused(name, value, f"is {', '.join(choices[:-1])} or {choices[-1]}" if choices[1:] else f"is {choices[0]}")


def read_whole_number(name: str, value: object, *, minimum: int | None = None, maximum: int | None = None) -> int:
    """Read a whole number: an integer, a float without a fraction, or the text of either."""
    number = _whole(value)
    if number is None or not _is_within(number, minimum, maximum):
        raise refused(name, value, f"is a whole number{_bounds(minimum, maximum)}")
    return number


def read_number(name: str, value: object, *, minimum: float | None = None, maximum: float | None = None) -> float:
    """Read a finite number, or the text of one."""
    number = _finite(value)
    if number is None or not _is_within(number, minimum, maximum):
        raise refused(name, value, f"is a number{_bounds(minimum, maximum)}")
    return number


def read_seconds(name: str, value: object, *, minimum: float | None = 0, maximum: float | None = None) -> float:
    """Read a time in seconds: a finite number, the text of one, or a ``timedelta``."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else _finite(value)
    if seconds is None or not _is_within(seconds, minimum, maximum):
        raise refused(name, value, f"is a number of seconds{_bounds(minimum, maximum)}, or a timedelta")
    return seconds


def read_moment(name: str, value: object) -> datetime:
    """Read a moment, in UTC: a ``datetime``, or the text of one in ISO 8601; without a time zone it is in UTC."""
    moment = _in_utc(value) if isinstance(value, datetime) else read_iso_time(value)
    if moment is None:
        raise refused(name, value, "is a datetime, or the text of one such as 2026-11-16T00:00:00+00:00")
    return moment


def read_iso_time(text: object) -> datetime | None:
    """Read a text such as ``2026-11-16T00:00:00Z`` as a time in UTC, its zone by default; None for anything else."""
    given = text.strip() if isinstance(text, str) else ""
    with suppress(ValueError):
        # Python reads a final Z only since 3.11.
        return _in_utc(datetime.fromisoformat(f"{given[:-1]}+00:00" if given[-1:] in {"Z", "z"} else given))
    return None


def _in_utc(moment: datetime) -> datetime | None:
    """Return a time in UTC, its zone by default; None for a first or last day of the calendar that is none there."""
    with suppress(OverflowError):
        return moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return None


def refused(name: str, value: object, rule: str) -> InvalidArgumentError:
    """Make the error of an argument; ``rule`` is the rest of a sentence, for example ``is True or False``."""
    return InvalidArgumentError(f"{name} {rule}; not {shown(value)}.{_hint(value)}")


def is_web_address(path: str) -> bool:
    """Return whether a path is an address for browsers, from which no file is read."""
    return bool(_WEB_ADDRESS.fullmatch(path))


def unsigned(path: str) -> str:
    """Return a path for a message, without password, query and a web address's fragment: they may hold a signature."""
    if found := _WEB_ADDRESS.fullmatch(path):
        return "".join(found.groups())
    return _PASSWORD.sub(r"\1:***@", _QUERY.sub("", path))


def shown(value: object) -> str:
    """Return the representation of a value for a message, cut if it is long."""
    text = repr(value[: _MAX_SHOWN_LENGTH + 1] if isinstance(value, str) else value)
    return text if len(text) <= _MAX_SHOWN_LENGTH else f"{text[: _MAX_SHOWN_LENGTH - 1]}…"


def _hint(value: object) -> str:
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        return " Templates are not rendered in this argument."
    return ""


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _whole(value: object) -> int | None:
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        with suppress(ValueError):
            return int(value)
    number = _finite(value)
    return int(number) if number is not None and number.is_integer() else None


def _is_within(number: float, minimum: float | None, maximum: float | None) -> bool:
    return (minimum is None or number >= minimum) and (maximum is None or number <= maximum)


def _bounds(minimum: float | None, maximum: float | None) -> str:
    if minimum is None:
        return "" if maximum is None else f", {maximum:g} or less"
    return f", {minimum:g} or more" if maximum is None else f", {minimum:g} to {maximum:g}"
