"""
The kinds of line in a hot-threads text: how each is recognised, and which values it holds.

`PARTS` recognises a line by its beginning; the readers below take its values, and say what is wrong with it.

Every repetition in the expressions below is bounded, and a part that may be long (a thread's name, a frame's place) is
cut out by plain string methods, so that no line, however long or hostile, costs more than a few passes.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from airflow_provider_mediaops.cluster.plain_values import number_of

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

_NUMBER = r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?"
_SHARE = rf"(?:{_NUMBER}|NaN|-?Infinity)"
_TIME_UNIT = r"(?:nanos|micros|ms|s|m|h|d|)"
_TIME = _NUMBER + _TIME_UNIT

# The end of a line: before the next one, or of the text.
_END = rf"[{BLANKS}]*(?=\n|\Z)"
# How the lines of a header and of a thread begin, complete or not.
_HEADER_START = rf"{HEADER}[{BLANKS}]*[{{\[]"
_THREAD_START = rf"(?:{_SHARE}% ?[\[(]|{_NUMBER}[kmgtp]?b memory)"
#: A group's line.
GROUP_LINE = r"(?:unique snapshot|[0-9]{1,9}/[0-9]{1,9} snapshots sharing following [0-9]{1,9} elements)"
# A stack frame: a dotted method without blanks, then its place in brackets, which may hold anything.
_FRAME = rf"[^.(\n{MARGIN}][^.( \t\n]*\.[^( \t\n]*\([^\n]*\)"
#: A whole line that is a frame, behind its margin.
FRAME_LINE = re.compile(_FRAME + _END)
# What Elasticsearch on FreeBSD says instead of threads.
_FAILURE = "hot[_ ]threads is not supported"

# The start of a part is tried only if its first letter matches.
_START = (
    rf"(?:(?=[:Hhu0-9NI-])(?:{_HEADER_START}|{SAMPLING}|{_FAILURE}|{GROUP_LINE}{_END}|{_THREAD_START})|{_FRAME}{_END})"
)
# How many lines one match may cover: each costs the expression memory until the match ends.
_RUN = 100
_FORMS = {
    "group": GROUP_LINE + _END,
    "frames": rf"{_FRAME}{_END}(?:\n[{MARGIN}\n]*{_FRAME}{_END}){{0,{_RUN}}}",
    "thread": rf"{_THREAD_START}[^\n]*",
    "node": rf"{_HEADER_START}[^\n]*",
    "sampling": rf"{SAMPLING}[^\n]*",
    "failure": rf"{_FAILURE}[^\n]*",
    "other": rf"[^\n]+(?:\n(?![{MARGIN}]*{_START})[^\n]*){{0,{_RUN}}}",
    "blank": r"(?=\n|\Z)",
}
#: Whole lines of one form, which is the name of the group that matched, with the blank lines that follow. One match
#: after the other covers a text to the last character, at the speed of the expression.
PARTS = re.compile(
    rf"[{MARGIN}]*(?:{'|'.join(f'(?P<{name}>{form})' for name, form in _FORMS.items())})"
    rf"[{BLANKS}]*(?:\n(?:[{MARGIN}\n]*\n)?|\Z)"
)
#: The header with which the source of a node begins.
HEADER_LINE = re.compile(rf"[{MARGIN}]*({_HEADER_START}[^\n]*)")

_USAGE = re.compile(
    rf"({_SHARE})% (?:\[cpu=({_SHARE})%, (other|idle)=({_SHARE})%\] )?"
    rf"\(({_TIME}) out of ({_TIME})\) (cpu|wait|block) usage"
    rf"|({_NUMBER}(?:b|kb|mb|gb|tb|pb)) memory allocated"
)
_WHOLE_NUMBER = re.compile("[0-9]+")
_QUANTITY = re.compile(rf"(?P<number>{_NUMBER})(?P<unit>{_TIME_UNIT})")
_SIZE = re.compile(rf"(?P<number>{_NUMBER})(?P<unit>b|kb|mb|gb|tb|pb)")
_TIMESTAMP = re.compile(
    r"([0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?)"
    r"(?:\.([0-9]{1,9}))?Z?"
)
_SAMPLING = re.compile(
    rf"{SAMPLING.rstrip()}([^,]*)(?:, ?interval= ?({_TIME})(?=,|\Z))?(?:, ?busiestThreads= ?([0-9]{{1,10}})(?=,|\Z))?"
    r"(?:, ?ignoreIdleThreads= ?(true|false)\Z)?(.*)",
    re.DOTALL,
)
# One or two pairs of brackets, which may hold others.
_SLOT = r"\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]"
_SLOTS = re.compile(rf"{_SLOT}(?:{_SLOT})?")
_THREAD_NUMBER = re.compile(r" #[0-9]{1,9}$")

# A power of ten as a text costs no precision: 503.3ms are 0.5033 s.
_SECONDS = {"": ("e-9", 1), "nanos": ("e-9", 1), "micros": ("e-6", 1), "ms": ("e-3", 1)}
_SECONDS |= {"s": ("", 1), "m": ("", 60), "h": ("", 3600), "d": ("", 86400)}
# Figures, pools and versions repeat from line to line.
_REMEMBERED, _SHORT = 5_000, 50
_BYTES = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40, "pb": 1 << 50}


def read_group(content: str) -> tuple[int, int | None, int | None]:
    """Return snapshots, total and elements of `8/10 snapshots sharing following 22 elements` or `unique snapshot`."""
    if content.startswith("unique"):
        return 1, None, None
    snapshots, total, elements = map(int, _WHOLE_NUMBER.findall(content))
    return snapshots, total, elements


def read_usage(content: str, section: str | None) -> tuple[dict[str, Any], str | None]:
    """Return the values of a thread's line by the names of `HotThread`'s attributes, and what is wrong with it."""
    head, mark, name = content.partition(THREAD_NAME)
    if not mark:
        return {}, "a thread's line that ends before the thread's name"
    complete = name.endswith("'")
    match = _USAGE.fullmatch(head) or _USAGE.fullmatch(" ".join(head.split()))
    usage = _measure_of(match) if match else {}
    usage["name"] = name = name[:-1] if complete else name
    usage["node_name"], usage["pool"] = read_origin(name, section)
    if match is None:
        return usage, "a thread's line in an unknown form"
    return usage, None if complete else "a thread's name without its closing quote"


def _measure_of(match: re.Match[str]) -> dict[str, Any]:
    percent, cpu, rest, rest_percent, time, out_of, kind, memory = match.groups()
    if memory is not None:
        return {"kind": "mem", "memory": memory}
    if cpu is None and kind == "cpu":
        cpu = percent
    # Beside the split, the leading percentage is the sum with the other time, and no figure of CPU.
    usage = {
        "kind": shared(kind if cpu is None else "cpu"),
        "percent": _percent(percent),
        "cpu_percent": _percent(cpu),
        "time": shared(time),
        "out_of": shared(out_of),
    }
    if rest is not None:
        usage[f"{rest}_percent"] = _percent(rest_percent)
    return usage


def shared(text: str | None) -> str | None:
    """Return an equal text, the same object for each of many parts, to save memory."""
    return text if text is None or len(text) > _SHORT else _shared(text)


@lru_cache(_REMEMBERED)
def _shared(text: str) -> str:
    return text


@lru_cache(_REMEMBERED)
def _percent(text: str | None) -> float | None:
    return number_of(float(text or "nan"))


def read_seconds(text: str | None) -> float | None:
    """Return the seconds of `455.5micros`, `500ms`, `1.2m`, or nanoseconds without a unit; None for anything else."""
    match = _QUANTITY.fullmatch(text or "")
    if match is None:
        return None
    exponent, factor = _SECONDS[match["unit"]]
    return float(match["number"] + exponent) * factor


def read_bytes(text: str | None) -> int | None:
    """Return the bytes of a size such as `11.4kb`, rounded; None for anything else, and for one too large."""
    match = _SIZE.fullmatch(text or "")
    size = number_of(float(match["number"]) * _BYTES[match["unit"]]) if match else None
    return None if size is None else round(size)


def read_sampling(content: str) -> tuple[dict[str, Any], str | None]:
    """Return the values of a sampling line by the names of `HotNode`'s attributes, and what is wrong with it."""
    ((when, interval, threads, ignoring, rest),) = _SAMPLING.findall(content.removesuffix(":"))
    sampling = {
        "timestamp_text": when.strip(),
        "interval": shared(interval) or None,
        "busiest_threads": int(threads) if threads else None,
        "ignore_idle_threads": ignoring == "true" if ignoring else None,
    }
    if not (content.endswith(":") and "=" in content):
        return sampling, "a 'Hot threads at' line that is not complete"
    if _TIMESTAMP.fullmatch(when.strip()) is None:
        return sampling, "a 'Hot threads at' line with a time of unknown form"
    return sampling, f"unknown in a 'Hot threads at' line: {rest.strip(', ')[:80]!r}" if rest else None


def read_timestamp(text: str) -> datetime | None:
    """Return the time of `2022-04-01T15:15:27.658Z`; None for anything else."""
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
    """Return the node and the pool in a name such as `opensearch[node][search][T#3]`; None for what it lacks."""
    product, bracket, _ = name.partition("[")
    if not bracket or product not in ("", "elasticsearch", "opensearch"):
        return None, None
    known = f"{product}[{section}]"
    if product and section and name.startswith(f"{known}["):
        slot = _SLOTS.match(name, len(known))
        return section, shared(_pool(slot[1])) if slot else None
    slots = _SLOTS.match(name, len(product))
    if slots is None:
        return None, None
    first, second = slots.groups()
    if not product or second is None or second.startswith("T#"):
        return None, shared(_pool(first))
    return shared(first), shared(_pool(second))


def _pool(slot: str) -> str:
    """Return `Lucene Merge Thread` for `[idx][3]: Lucene Merge Thread #1115`, and `timer` for `[timer]`."""
    if slot.startswith("["):
        place, _, background = slot.rpartition("]: ")
        if place:
            return _THREAD_NUMBER.sub("", background)
        if slot.endswith("]"):
            return slot[1:-1]
    return slot
