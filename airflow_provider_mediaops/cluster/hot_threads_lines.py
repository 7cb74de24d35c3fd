"""The kinds of line in a hot-threads text, each read on its own into the values it states.

Every repetition in the expressions below is bounded, and what may be long (a thread's name, a frame's place) is
cut out by plain string methods, so that no line, however long or hostile, costs more than a few passes.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple, TypedDict

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads_report import Kind

HEADER = ":::"
SAMPLING = "Hot threads at "
THREAD_NAME = " by thread '"

# What tools put before a line: blanks, the marks of a comment or a quotation, a byte order mark.
_MARGIN = " \t\r\f\v#>\ufeff"

_NUMBER = r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?"
_SHARE = rf"{_NUMBER}|NaN|-?Infinity"
_TIME_UNIT = r"(?:nanos|micros|ms|s|m|h|d|)"
_TIME = _NUMBER + _TIME_UNIT

_THREAD_START = re.compile(rf"(?:{_SHARE})% ?[\[(]|{_NUMBER}[kmgtp]?b memory")
_TIME_USAGE = re.compile(
    rf"(?P<share>{_SHARE})% (?:\[cpu=(?P<cpu>{_SHARE})%, (?P<rest>other|idle)=(?P<rest_share>{_SHARE})%\] )?"
    rf"\((?P<time>{_TIME}) out of (?P<out_of>{_TIME})\) (?P<kind>cpu|wait|block) usage"
)
_MEMORY_USAGE = re.compile(rf"(?P<memory>(?P<number>{_NUMBER})(?P<unit>b|kb|mb|gb|tb|pb)) memory allocated")
_GROUP = re.compile(r"([0-9]{1,9})/([0-9]{1,9}) snapshots sharing following ([0-9]{1,9}) elements")
_QUANTITY = re.compile(rf"(?P<number>{_NUMBER})(?P<unit>{_TIME_UNIT})")
_TIMESTAMP = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.([0-9]{1,9}))?Z?")
_BRACKET = re.compile(r"[\[\]]")
_THREAD_NUMBER = re.compile(r" #[0-9]{1,9}$")

# Powers of ten are put behind the digits, where they cost no precision: 503.3ms are 0.5033 s.
_SECONDS = {
    "": ("e-9", 1),
    "nanos": ("e-9", 1),
    "micros": ("e-6", 1),
    "ms": ("e-3", 1),
    "s": ("", 1),
    "m": ("", 60),
    "h": ("", 3600),
    "d": ("", 86400),
}
_BYTES = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40, "pb": 1 << 50}


class Sampling(TypedDict, total=False):
    """What the line below a node's header states (`HotNode`'s fields of the same names)."""

    timestamp_text: str
    timestamp: datetime | None
    interval: str
    interval_seconds: float | None
    busiest_threads: int
    ignore_idle_threads: bool


class Usage(TypedDict, total=False):
    """What a thread line states (`HotThread`'s fields of the same names)."""

    name: str
    node_name: str | None
    pool: str | None
    kind: Kind
    share: float | None
    cpu_share: float | None
    other_share: float | None
    idle_share: float | None
    time: str
    seconds: float | None
    out_of: str
    out_of_seconds: float | None
    memory: str
    memory_bytes: int


class Group(NamedTuple):
    """What a group's line states: seen in `snapshots` of `total`, with `elements` frames to follow."""

    snapshots: int
    total: int | None
    elements: int | None


def content_of(line: str) -> str:
    """What a line says, without indentation, line end and the marks of a comment or quotation."""
    return line.strip().lstrip(_MARGIN)


def read_frame(content: str) -> str | None:
    """A stack frame: a dotted method without blanks, then its place in brackets, which may hold anything."""
    if not content.endswith(")"):
        return None
    place = content.find("(")
    dotted = content.find(".", 0, place) > 0
    return content if dotted and content.find(" ", 0, place) < 0 and content.find("\t", 0, place) < 0 else None


def read_group(content: str) -> Group | None:
    """`8/10 snapshots sharing following 22 elements`, or `unique snapshot`."""
    if content == "unique snapshot":
        return Group(1, None, None)
    if content.endswith("elements") and (match := _GROUP.fullmatch(content)):
        snapshots, total, elements = match.groups()
        return Group(int(snapshots), int(total), int(elements))
    return None


def starts_thread(content: str) -> bool:
    """Whether a line begins as a thread's line does, complete or not."""
    return _THREAD_START.match(content) is not None


def is_whole_thread(content: str) -> bool:
    """Whether a thread's line goes on to the end of the thread's name."""
    return content.partition(THREAD_NAME)[2].endswith("'")


def read_usage(content: str, node_name: str | None) -> tuple[Usage, str | None]:
    """A thread's line, as far as it can be understood.

    :param content: the line; a name that holds line ends comes with them.
    :param node_name: the name of the node in whose section the line stands.
    :returns: the values, and the reason why the line was not understood as a whole, if so.
    """
    head, mark, name = content.partition(THREAD_NAME)
    usage = _read_measure(" ".join(head.split()))
    if not mark:
        return usage, "a thread's line that ends before the thread's name"
    complete = name.endswith("'")
    usage["name"] = name[:-1] if complete else name
    usage["node_name"], usage["pool"] = read_origin(usage["name"], node_name)
    if "kind" not in usage:
        return usage, "a thread's line in an unknown form"
    return usage, None if complete else "a thread's name without its closing quote"


def _read_measure(measure: str) -> Usage:
    if match := _MEMORY_USAGE.fullmatch(measure):
        size = round(float(match["number"]) * _BYTES[match["unit"]])
        return {"kind": "mem", "memory": match["memory"], "memory_bytes": size}
    match = _TIME_USAGE.fullmatch(measure)
    if match is None:
        return {}
    kind: dict[str, Kind] = {"cpu": "cpu", "wait": "wait", "block": "block"}
    usage: Usage = {
        "kind": kind[match["kind"]],
        "share": _percent(match["share"]),
        "time": match["time"],
        "seconds": read_seconds(match["time"]),
        "out_of": match["out_of"],
        "out_of_seconds": read_seconds(match["out_of"]),
    }
    if match["cpu"] is not None:
        usage["cpu_share"] = _percent(match["cpu"])
        usage["idle_share" if match["rest"] == "idle" else "other_share"] = _percent(match["rest_share"])
    return usage


def _percent(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def read_seconds(text: str) -> float | None:
    """A time as the servers print it, in seconds; one without a unit is in nanoseconds.

    :param text: such as `455.5micros`, `500ms`, `1.2m`.
    :returns: the seconds, or None for anything else.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    exponent, factor = _SECONDS[match["unit"]]
    return float(match["number"] + exponent) * factor


def is_whole_sampling(content: str) -> bool:
    """Whether a line on the sampling goes on to its end, and not only to a colon of its time."""
    return content.endswith(":") and "=" in content


def read_sampling(content: str) -> tuple[Sampling, str | None]:
    """`Hot threads at <time>, interval=500ms, busiestThreads=3, ignoreIdleThreads=true:`.

    :param content: the line, complete or not.
    :returns: the values that are there, and the reason why the line was not understood as a whole, if so.
    """
    when, *settings = content[len(SAMPLING) :].removesuffix(":").split(",")
    sampling: Sampling = {"timestamp_text": when.strip(), "timestamp": _read_timestamp(when.strip())}
    reason = None if is_whole_sampling(content) else "a 'Hot threads at' line that is not complete"
    if sampling["timestamp"] is None:
        reason = reason or "a 'Hot threads at' line with a time of unknown form"
    for setting in settings:
        key, _, value = setting.partition("=")
        if not _read_setting(sampling, key.strip(), value.strip()):
            reason = reason or f"unknown in a 'Hot threads at' line: {setting.strip()[:80]!r}"
    return sampling, reason


def _read_setting(sampling: Sampling, key: str, value: str) -> bool:
    if key == "interval" and (seconds := read_seconds(value)) is not None:
        sampling["interval"] = value
        sampling["interval_seconds"] = seconds
    elif key == "busiestThreads" and len(value) < len("10000000000") and value.isascii() and value.isdigit():
        sampling["busiest_threads"] = int(value)
    elif key == "ignoreIdleThreads" and value in ("true", "false"):
        sampling["ignore_idle_threads"] = value == "true"
    else:
        return False
    return True


def _read_timestamp(text: str) -> datetime | None:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(match[1])
    except ValueError:  # the thirteenth month
        return None
    fraction = (match[2] or "").ljust(6, "0")[:6]
    return moment.replace(microsecond=int(fraction), tzinfo=timezone.utc)


def read_origin(name: str, node_name: str | None) -> tuple[str | None, str | None]:
    """The node and the pool that a thread's name tells.

    :param name: such as `opensearch[node][search][T#3]`, `elasticsearch[node][[timer]]`, `[write]`.
    :param node_name: the name of the node in whose section it stands; it may itself hold brackets.
    :returns: node and pool, each None where the name does not tell.
    """
    product, bracket, _ = name.partition("[")
    if not bracket or product not in ("", "elasticsearch", "opensearch"):
        return None, None
    known = f"{product}[{node_name}]"
    if product and node_name and name.startswith(f"{known}["):
        slots = _bracketed(name, start=len(known), most=1)
        return node_name, _pool(slots[0]) if slots else None
    slots = _bracketed(name, start=len(product), most=2)
    if not slots:
        return None, None
    if not product or len(slots) == 1 or slots[1].startswith("T#"):
        return None, _pool(slots[0])
    return slots[0], _pool(slots[1])


def _bracketed(text: str, *, start: int, most: int) -> list[str]:
    """The contents of the first `most` bracket pairs that follow one another from `start`."""
    slots: list[str] = []
    depth = 0
    for match in _BRACKET.finditer(text, start):
        opens = match[0] == "["
        if not depth and (len(slots) == most or not opens or match.start() != start):
            break
        depth += 1 if opens else -1
        if not depth:
            slots.append(text[start + 1 : match.start()])
            start = match.end()
    return slots


def _pool(slot: str) -> str:
    """`[idx][3]: Lucene Merge Thread #1115` is a merge; `[timer]` is an older way to write `timer`."""
    if slot.startswith("["):
        place, _, background = slot.rpartition("]: ")
        if place:
            return _THREAD_NUMBER.sub("", background)
        if slot.endswith("]"):
            return slot[1:-1]
    return slot
