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
    from airflow_provider_mediaops.cluster.hot_threads.report import Kind

HEADER = ":::"
SAMPLING = "Hot threads at "
THREAD_NAME = " by thread '"

#: Every blank character but the line feed, which alone ends a line.
BLANKS = (
    " \t\r\f\v\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
#: What tools put before a line: blanks, the marks of a comment or a quotation, a byte order mark.
MARGIN = f"{BLANKS}#>\ufeff"

# The forms that servers write. They are part of `hot_threads_parts.PARTS` too, which finds them in a text.
_NUMBER = r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?"
_SHARE = rf"(?:{_NUMBER}|NaN|-?Infinity)"
_TIME_UNIT = r"(?:nanos|micros|ms|s|m|h|d|)"
_TIME = _NUMBER + _TIME_UNIT
_DAY = (
    r"(?!0000)[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"

#: The end of a line, where the next begins or none.
END = rf"[{BLANKS}]*(?=\n|\Z)"
#: A line on the sampling; read by `sampling_of`.
SAMPLING_LINE = (
    rf"{SAMPLING}(?P<timestamp_text>{_DAY}T{_CLOCK}Z?), interval=(?P<interval>{_TIME}), "
    rf"busiestThreads=(?P<busiest_threads>[0-9]{{1,10}}), ignoreIdleThreads=(?P<ignore_idle_threads>true|false):"
)
#: How a thread's line begins, complete or not.
THREAD_START = rf"(?:{_SHARE}% ?[\[(]|{_NUMBER}[kmgtp]?b memory)"
_TIME_USAGE = (
    rf"(?P<share>{_SHARE})% (?:\[cpu=(?P<cpu>{_SHARE})%, (?P<rest>other|idle)=(?P<rest_share>{_SHARE})%\] )?"
    rf"\((?P<time>{_TIME}) out of (?P<out_of>{_TIME})\) (?P<kind>cpu|wait|block) usage"
)
_MEMORY_USAGE = rf"(?P<memory>(?P<number>{_NUMBER})(?P<unit>b|kb|mb|gb|tb|pb)) memory allocated"
#: A thread's line; read by `usage_of`.
THREAD_LINE = rf"(?:{_TIME_USAGE}|{_MEMORY_USAGE}){THREAD_NAME}(?P<thread_name>[^\n]*)'"
#: A group's line.
GROUP_LINE = r"(?:unique snapshot|[0-9]{1,9}/[0-9]{1,9} snapshots sharing following [0-9]{1,9} elements)"
#: A stack frame: a dotted method without blanks, then its place in brackets, which may hold anything.
FRAME = rf"[^.(\n{MARGIN}][^.( \t\n]*\.[^( \t\n]*\([^\n]*\)"
#: A whole line that is a frame, behind its margin.
FRAME_LINE = re.compile(rf"{FRAME}{END}")

_USAGE = re.compile(rf"{_TIME_USAGE}|{_MEMORY_USAGE}")
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
    """What the line below a node's header states (`HotNode`'s attributes of the same names)."""

    timestamp_text: str
    interval: str
    interval_seconds: float | None
    busiest_threads: int
    ignore_idle_threads: bool


class Usage(TypedDict, total=False):
    """What a thread line states (`HotThread`'s attributes of the same names)."""

    name: str
    node_name: str | None
    pool: str | None
    kind: Kind
    percent: float | None
    cpu_percent: float | None
    other_percent: float | None
    idle_percent: float | None
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
    return line.rstrip().lstrip(MARGIN)


def read_group(content: str) -> Group:
    """`8/10 snapshots sharing following 22 elements`, or `unique snapshot`."""
    match = _GROUP.match(content)
    if match is None:
        return Group(1, None, None)
    snapshots, total, elements = match.groups()
    return Group(int(snapshots), int(total), int(elements))


def is_whole_thread(content: str) -> bool:
    """Whether a thread's line goes on to the end of the thread's name."""
    return content.partition(THREAD_NAME)[2].endswith("'")


def usage_of(match: re.Match[str], section: str | None) -> Usage:
    """The values of a thread's line that `THREAD_LINE` matched.

    :param match: the match.
    :param section: the name of the node in whose section the line stands.
    :returns: the values.
    """
    usage = _measure_of(match)
    usage["name"] = match["thread_name"]
    usage["node_name"], usage["pool"] = read_origin(match["thread_name"], section)
    return usage


def read_usage(content: str, section: str | None) -> tuple[Usage, str | None]:
    """A thread's line of another form, as far as it can be understood.

    :param content: the line; a name that holds line ends comes with them.
    :param section: the name of the node in whose section the line stands.
    :returns: the values, and the reason why the line was not understood as a whole, if so.
    """
    head, mark, name = content.partition(THREAD_NAME)
    match = _USAGE.fullmatch(" ".join(head.split()))
    usage: Usage = _measure_of(match) if match else {}
    if not mark:
        return usage, "a thread's line that ends before the thread's name"
    complete = name.endswith("'")
    usage["name"] = name[:-1] if complete else name
    usage["node_name"], usage["pool"] = read_origin(usage["name"], section)
    if "kind" not in usage:
        return usage, "a thread's line in an unknown form"
    return usage, None if complete else "a thread's name without its closing quote"


def _measure_of(match: re.Match[str]) -> Usage:
    if match["memory"] is not None:
        size = round(float(match["number"]) * _BYTES[match["unit"]])
        return {"kind": "mem", "memory": match["memory"], "memory_bytes": size}
    kind: dict[str, Kind] = {"cpu": "cpu", "wait": "wait", "block": "block"}
    usage: Usage = {
        "kind": kind[match["kind"]],
        "percent": _percent(match["share"]),
        "time": match["time"],
        "seconds": read_seconds(match["time"]),
        "out_of": match["out_of"],
        "out_of_seconds": read_seconds(match["out_of"]),
    }
    if match["cpu"] is not None:
        # The leading percentage is the sum with the other time, so it is no figure of CPU here.
        usage["cpu_percent"] = _percent(match["cpu"])
        usage["idle_percent" if match["rest"] == "idle" else "other_percent"] = _percent(match["rest_share"])
    elif usage["kind"] == "cpu":
        usage["cpu_percent"] = usage["percent"]
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


def sampling_of(match: re.Match[str]) -> Sampling:
    """The values of a line that `SAMPLING_LINE` matched."""
    return {
        "timestamp_text": match["timestamp_text"],
        "interval": match["interval"],
        "interval_seconds": read_seconds(match["interval"]),
        "busiest_threads": int(match["busiest_threads"]),
        "ignore_idle_threads": match["ignore_idle_threads"] == "true",
    }


def read_sampling(content: str) -> tuple[Sampling, str | None]:
    """`Hot threads at <time>, interval=500ms, busiestThreads=3, ignoreIdleThreads=true:`, in another form.

    :param content: the line, complete or not.
    :returns: the values that are there, and the reason why the line was not understood as a whole, if so.
    """
    when, *settings = content[len(SAMPLING) :].removesuffix(":").split(",")
    sampling: Sampling = {"timestamp_text": when.strip()}
    reason = None if is_whole_sampling(content) else "a 'Hot threads at' line that is not complete"
    if read_timestamp(sampling["timestamp_text"]) is None:
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


def read_timestamp(text: str) -> datetime | None:
    """`2022-04-01T15:15:27.658Z`, or None for anything else."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(match[1])
    except ValueError:  # the thirteenth month
        return None
    fraction = (match[2] or "").ljust(6, "0")[:6]
    return moment.replace(microsecond=int(fraction), tzinfo=timezone.utc)


def read_origin(name: str, section: str | None) -> tuple[str | None, str | None]:
    """The node and the pool that a thread's name tells.

    :param name: such as `opensearch[node][search][T#3]`, `elasticsearch[node][[timer]]`, `[write]`.
    :param section: the name of the node in whose section it stands; it may itself hold brackets.
    :returns: node and pool, each None where the name does not tell.
    """
    product, bracket, _ = name.partition("[")
    if not bracket or product not in ("", "elasticsearch", "opensearch"):
        return None, None
    known = f"{product}[{section}]"
    if product and section and name.startswith(f"{known}["):
        slots = _bracketed(name, start=len(known), most=1)
        return section, _pool(slots[0]) if slots else None
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
