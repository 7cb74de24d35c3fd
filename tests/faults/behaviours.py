"""What goes wrong: each fault of the matrix, as bytes that a server sends, or an address that a connection names."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal

from tests.faults.canaries import echo_of

if TYPE_CHECKING:
    from tests.faults.services import Exchange

#: A time limit of an exchange: of connecting, of each wait for bytes, or of the whole.
Slow = Literal["", "connecting", "reading", "whole"]
TWO_GIGABYTES = 2 << 30
_MEGABYTE = 1 << 20
_REDIRECTS = (301, 302, 303, 307, 308)
_STATUSES = (400, 401, 403, 404, 408, 409, 410, 413, 500, 502, 503, 504)
# The service has not carried out what it refuses with these; after 408 and 303 that is not known.
_NOT_DONE = frozenset(range(300, 500)) - {303, 408}


@dataclass(frozen=True)
class Fault:
    """
    One row of the matrix.

    :param name: its name in the table and in the documentation.
    :param befall: answers a request in the place of the service; returns whether the connection stays open.
    :param address: where the connection leads, if no request arrives; see `Addresses` in conftest.py.
    :param acts: whether the service carries out a write before it fails.
    :param slow: the time limit that ends it; empty if it ends without.
    :param once: whether it befalls one request only.
    :param after: how many requests it lets pass first.
    :param only_json: whether it is about replies in JSON.
    :param only: the kinds of work that can meet it; empty for all.
    :param is_clock: whether it is the clock of the machine that fails.
    """

    name: str
    befall: Callable[[Exchange], bool] | None = None
    address: str = ""
    acts: bool = True
    slow: Slow = ""
    once: bool = False
    after: int = 0
    only_json: bool = False
    only: tuple[str, ...] = ()
    is_clock: bool = False


def _reset(exchange: Exchange) -> bool:
    exchange.peer.reset()
    return False


def _silence(exchange: Exchange) -> bool:
    exchange.peer.wait_for_the_end()
    return False


def _trickle(head: bytes, piece: bytes, exchange: Exchange) -> bool:
    exchange.peer.send(head)
    is_over = False
    while not exchange.peer.stopping.wait(0.05):
        # However slow the machine is, no other limit is near.
        is_over = is_over or exchange.cell.exceed_limits()
        exchange.peer.send(piece)
    return False


def _cut(exchange: Exchange) -> bool:
    body = exchange.answer.body
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {exchange.answer.content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    exchange.peer.send(head.encode() + body[: len(body) // 2])
    return False


def _cut_chunk(exchange: Exchange) -> bool:
    half = exchange.answer.body[: len(exchange.answer.body) // 2]
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {exchange.answer.content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    exchange.peer.send(head.encode() + b"%x\r\n%b\r\n" % (len(half), half))
    return False


def _cut_gzip(exchange: Exchange) -> bool:
    return exchange.reply(body=gzip.compress(exchange.answer.body)[:-9], content_encoding="gzip")


def _broken_gzip(exchange: Exchange) -> bool:
    return exchange.reply(body=b"\x1f\x8b\x08\x00" + b"\xff" * 40, content_encoding="gzip")


def _nested_gzip(exchange: Exchange) -> bool:
    return exchange.reply(body=gzip.compress(gzip.compress(exchange.answer.body)), content_encoding="gzip, gzip")


@lru_cache(maxsize=1)
def _bomb() -> bytes:
    # Members of one file, each of 64 MB.
    return gzip.compress(b" " * (64 * _MEGABYTE), 1) * (TWO_GIGABYTES // (64 * _MEGABYTE))


def _inflating(exchange: Exchange) -> bool:
    return exchange.reply(body=_bomb(), content_encoding="gzip")


def _endless(exchange: Exchange) -> bool:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {exchange.answer.content_type}\r\nContent-Length: {TWO_GIGABYTES}\r\n\r\n"
    exchange.peer.send(head.encode())
    sent, piece = 0, b" " * _MEGABYTE
    try:
        while sent < TWO_GIGABYTES:
            exchange.peer.send(piece)
            sent += len(piece)
    finally:
        exchange.cell.most_sent = max(exchange.cell.most_sent, sent)
    return False


def _redirect(status: int, exchange: Exchange, *, other: bool) -> bool:
    to = "http://other-host.invalid/login?ticket=1" if other else f"http://{exchange.asked.headers['host']}/"
    return exchange.reply(status, b"", location=to)


def _refusal(exchange: Exchange, status: int) -> bytes:
    said = echo_of(exchange.asked.sent)
    if exchange.asked.path.startswith("/_nodes"):
        cause = {"type": "fault_of_the_test", "reason": said}
        return json.dumps({"error": {"root_cause": [cause], **cause}, "status": status}).encode()
    if exchange.asked.path.startswith(("/book", "/key")):
        # The words of a book database that has no such book.
        more = {"error_message": said} if status == 404 else {}
        return json.dumps({"message": said, **more}).encode()
    error = {"code": status, "message": said, "errors": [{"reason": "faultOfTheTest", "message": said}]}
    return json.dumps({"error": error}).encode()


def _status(status: int, exchange: Exchange, *, retry_after: Callable[[], str] | None = None) -> bool:
    headers = {"retry_after": retry_after()} if retry_after else {}
    return exchange.reply(status, _refusal(exchange, status), content_type="application/json", **headers)


def _in(delta: timedelta) -> Callable[[], str]:
    return lambda: format_datetime(datetime.now(timezone.utc) + delta, usegmt=True)


def _json_body(make: Callable[[bytes, str], bytes], exchange: Exchange) -> bool:
    return _body(make, exchange) if exchange.answer.is_json else exchange.reply()


def _body(make: Callable[[bytes, str], bytes], exchange: Exchange) -> bool:
    return exchange.reply(body=make(exchange.answer.body, echo_of(exchange.asked.sent)))


def _with_duplicates(body: bytes, _: str) -> bytes:
    # The first of two keys of one name is not the one that counts.
    return b'{"items": 1, "nodes": 1, "book": 1, "id": 1, "plan_limit": 1, ' + body.removeprefix(b"{")


def _with_large_numbers(body: bytes, _: str) -> bytes:
    return b'{"beyond": %d, "below": -%d, ' % (1 << 64, 1 << 80) + body.removeprefix(b"{")


_BODIES: dict[str, Callable[[bytes, str], bytes]] = {
    "HTML in the place of the reply": lambda _, said: f"<!DOCTYPE html><html><p>{said}</p></html>".encode(),
    "JSON of another shape": lambda _, said: json.dumps([said, {"items": 5, "nodes": 5}]).encode(),
    "JSON with fields of other types": lambda _, said: json.dumps(
        {"items": said, "nodes": said, "book": said, "kind": [1], "id": [said], "plan_limit": said, "data": said}
    ).encode(),
    "an empty body": lambda _, __: b"",
    "a NUL byte": lambda body, _: body[:20] + b"\x00" + body[20:],
    "invalid UTF-8": lambda body, _: body[:20] + b"\xff\xfe" + body[20:],
    "deep nesting": lambda _, __: b'{"items": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a number beyond any float": lambda body, _: b'{"beyond": 1e999, ' + body.removeprefix(b"{"),
}
# Replies that are odd, and yet have all that is due.
_ODD = {"duplicate keys": _with_duplicates, "numbers beyond 64 bits": _with_large_numbers}
_RETRY_AFTER: dict[str, Callable[[], str] | None] = {
    "": None,
    ", Retry-After in seconds": lambda: "2",
    ", Retry-After as a date": _in(timedelta(seconds=20)),
    ", Retry-After in the past": _in(timedelta(days=-1)),
    ", Retry-After of a year": lambda: str(365 * 86_400),
    ", Retry-After NaN": lambda: "NaN",
}


def _repeating(exchange: Exchange) -> bool:
    body = json.loads(exchange.answer.body)
    return exchange.reply(body=json.dumps({**body, "nextPageToken": "T2"}).encode())


def _never_ending(exchange: Exchange) -> bool:
    number = len(exchange.cell.asked)
    return exchange.reply(body=json.dumps({"items": [], "nextPageToken": f"N{number}"}).encode())


def _expired_token(exchange: Exchange) -> bool:
    if exchange.asked.path == "/token":
        return exchange.reply()
    if exchange.cell.tokens == 1:
        return _status(401, exchange)
    exchange.cell.written += exchange.asked.is_write
    return exchange.reply()


_OUTAGES = [
    Fault("connection reset", _reset),
    Fault("body cut (length)", _cut),
    Fault("body cut (chunks)", _cut_chunk),
    Fault("compression cut", _cut_gzip),
    *(Fault(str(status), partial(_status, status), acts=status not in _NOT_DONE) for status in _STATUSES),
    *(
        Fault(f"429{name}", partial(_status, 429, retry_after=value), acts=False)
        for name, value in _RETRY_AFTER.items()
    ),
]

#: Every fault that lasts.
LASTING = [
    Fault("connection refused", address="refused"),
    Fault("no connection in time", address="deaf", slow="connecting"),
    Fault("unknown host name", address="no such name"),
    Fault("no TLS where it is due", address="not TLS"),
    Fault("expired certificate", address="expired certificate"),
    Fault("certificate of another name", address="certificate of another name"),
    Fault("certificate of an unknown authority", address="unknown authority"),
    Fault("no reply in time", _silence, slow="reading"),
    Fault("headers that trickle", partial(_trickle, b"HTTP/1.1 200 OK\r\n", b"X: 1\r\n"), slow="whole"),
    Fault("a body of one byte at a time", partial(_trickle, b"HTTP/1.1 200 OK\r\n\r\n", b" "), slow="whole"),
    *_OUTAGES,
    Fault("broken compression", _broken_gzip),
    Fault("nested compression", _nested_gzip),
    Fault("2 GB where a page was due", _endless),
    Fault("2 GB, compressed", _inflating),
    *(
        Fault(f"{status} to {place}", partial(_redirect, status, other=other), acts=status not in _NOT_DONE)
        for status in _REDIRECTS
        for place, other in (("another host", True), ("itself", False))
    ),
    *(Fault(name, partial(_body, make)) for name, make in _BODIES.items() if name != "a number beyond any float"),
    *(Fault(name, partial(_json_body, make), only_json=True) for name, make in _ODD.items()),
    Fault("a number beyond any float", partial(_json_body, _BODIES["a number beyond any float"]), only_json=True),
    Fault("a page token that repeats", _repeating, only=("listing",), after=1),
    Fault("page tokens that never end", _never_ending, only=("listing",)),
    Fault(
        "credentials revoked after the first reply",
        partial(_status, 401),
        acts=False,
        after=1,
        only=("listing", "books"),
    ),
    Fault("an access token that expires at once", _expired_token, acts=False, only=("refreshing",)),
    Fault("a clock that jumps", is_clock=True),
]

_ONCE = (
    *("connection reset", "body cut (length)", "408", "429", "429, Retry-After in seconds"),
    *("429, Retry-After as a date", "500", "503"),
)
#: Faults that befall one request only, after which another try may succeed.
ONCE = [
    Fault(f"{fault.name}, once", fault.befall, acts=fault.acts, once=True) for fault in _OUTAGES if fault.name in _ONCE
]
FAULTS = [*LASTING, *ONCE]
