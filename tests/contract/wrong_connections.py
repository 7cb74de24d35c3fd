"""Connections with a wrong value each, and what their test says of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_CLOSED = "http://127.0.0.1:9"
_REFRESHED = {"auth": "refresh_token", "refresh_token": "a wrong one"}
_ANOTHER_PLAN = "Either the base address is that of another plan than the key's"


class Wrong(NamedTuple):
    """
    A connection with a wrong value.

    :param kind: its type, without the prefix of all.
    :param change: makes of the sandbox's address what is changed of a good connection: fields, and beside them those of
        ``extra``. None removes one.
    :param says: what its test says; an ellipsis stands for anything.
    :param works: whether the connection works all the same.
    """

    kind: str
    change: Callable[[str], dict[str, Any]]
    says: str
    works: bool = False


def of_extra(**fields: Any) -> Callable[[str], dict[str, Any]]:
    return lambda _: {"extra": fields}


def of_field(**fields: Any) -> Callable[[str], dict[str, Any]]:
    return lambda _: fields


def at(path: str) -> Callable[[str], dict[str, Any]]:
    return lambda url: {"host": f"{url}/{path}"}


#: The unit tests of hooks have the fields whose errors need no service; here are those that differ by type.
WRONG = {
    "nothing listens at the port": Wrong("cluster", of_field(host=_CLOSED), "refused. Check host and port"),
    "the name of the host is wrong": Wrong("books", of_field(host="https://nowhere.invalid"), "Check host and port"),
    "https where the service speaks http": Wrong(
        "video", lambda url: {"host": url.replace("http", "https")}, "Check the scheme (http or https) and the port"
    ),
    "timeout is no number": Wrong("video", of_extra(timeout="soon"), "field `timeout`: it must be seconds"),
    "headers are no JSON object": Wrong("books", of_extra(headers="X: y"), "field `headers`: it must be a JSON object"),
    "a proxy that nobody serves": Wrong("cluster", of_extra(proxies=_CLOSED), "refused. Check host and port"),
    "no access token": Wrong("video", of_field(password=""), "field `password`: … the access token, with auth=bearer."),
    "a wrong access token": Wrong(
        "video",
        of_field(password="unheard-of"),
        "401 authError: … check the connection's password, or use auth=refresh",
    ),
    "a wrong API key of the platform": Wrong(
        "video",
        lambda _: {"password": "another key", "extra": {"auth": "api_key"}},
        "400 badRequest: The API key is not valid. The access token or API key is missing, wrong or expired",
    ),
    "refresh_token without a client id": Wrong(
        "video", of_extra(**_REFRESHED), "field `login`: it is empty; with auth=refresh_token it must be the client id."
    ),
    "a wrong client id": Wrong(
        "video",
        lambda url: {"login": "unknown", "extra": {**_REFRESHED, "token_url": f"{url}/video/oauth2/token"}},
        "401 invalid_client: … Check the client id (Login) and client secret (Password) in the connection.",
    ),
    "an unknown auth": Wrong("video", of_extra(auth="token"), "field `auth`: it is one of bearer, refresh_token"),
    "the base address of the platform ends in /v3": Wrong("video", at("video/v3"), "ends in /v3, … take /v3 off."),
    "a wrong path to the platform": Wrong("video", at("nothing"), "404: Not Found. … it ends before /v3."),
    "a cluster in the place of the platform": Wrong("video", at("cluster"), "A search cluster answers there: put"),
    "another kind_prefix": Wrong("video", of_extra(kind_prefix="youtube"), "answers with kinds … Write `svc`."),
    "an unknown rate_limit_store": Wrong(
        "video",
        of_extra(requests_per_second=1, rate_limit_store="ftp://store"),
        "field `rate_limit_store`: it must be memory://, sqlite:////folder/file.db, redis://host or rediss://host.",
    ),
    "no password of the cluster": Wrong("cluster", of_field(password=""), "field `password`: … users write auth=none."),
    "a wrong password": Wrong(
        "cluster", of_field(password="unheard-of"), "401 security_exception: unable … Check login and password"
    ),
    "a wrong API key of the cluster": Wrong(
        "cluster",
        lambda _: {"password": "another key", "extra": {"auth": "api_key"}},
        "401 security_exception: … Check login and password (API key or token), and auth, in the connection.",
    ),
    "a password, but neither login nor auth": Wrong(
        "cluster", lambda _: {"login": "", "extra": {"auth": None}}, "field `auth`: … write api_key or bearer"
    ),
    "a user without the permissions": Wrong(
        "cluster",
        of_field(login="sandbox-guest", password="sandbox-guest-password"),
        "may read neither … (cluster:monitor/nodes/stats) nor … give the connection's user a role with …",
    ),
    "max_report_mb is 0": Wrong("cluster", of_extra(max_report_mb=0), "it must be a whole number, 1 to 4096."),
    "the base address of the cluster ends in /_nodes": Wrong("cluster", at("cluster/_nodes"), "take /_nodes off."),
    "a wrong path to the cluster": Wrong("cluster", at("nothing"), "404: Not Found. … routes are not there."),
    "a platform in the place of the cluster": Wrong("cluster", at("video"), "404 notFound: … routes are not there."),
    "no key": Wrong("books", of_field(password=""), "field `password`: it is empty; it must be the REST key."),
    "a wrong key": Wrong("books", of_field(password="unheard-of"), f"403: … {_ANOTHER_PLAN} … is wrong, or its daily"),
    "the base address of another plan": Wrong("books", at("books/premium"), f"403: … is for premium. {_ANOTHER_PLAN}"),
    "a key that is not active": Wrong(
        "books", of_field(password="sandbox-books-inactive-key"), "401: The key is not active. … host and plan."
    ),
    "a lower plan than the key's": Wrong("books", of_extra(plan="premium"), "accepts the key", works=True),
    "an unknown plan": Wrong("books", of_extra(plan="gold"), "field `plan`: it is one of default, premium, pro."),
    "a wrong path to the database": Wrong("books", at("nothing"), "404: … answers otherwise: check … base address"),
    "the base address of the database ends in /book": Wrong("books", at("books/pro/book"), "404: … answers otherwise"),
    "canary_isbn has no record": Wrong(
        "books", of_extra(canary_isbn="9791090648524"), "404: … canary_isbn names this book as one that exists"
    ),
    "a platform in the place of the database": Wrong("books", at("video"), "404 notFound: … canary_isbn names this"),
}


def changed(connection: dict[str, Any], wrong: Wrong, url: str) -> dict[str, Any]:
    """Return a good connection of the sandbox with the wrong value."""
    change = wrong.change(url)
    extra = {**connection["extra"], **change.pop("extra", {})}
    return {**connection, **change, "extra": {name: value for name, value in extra.items() if value is not None}}


def agrees(wrong: Wrong, *, works: bool, answer: str) -> bool:
    """Return whether the test of the connection has said what it should."""
    pieces = [re.escape(piece.strip().replace("`", "'")) for piece in wrong.says.split("…")]
    return works == wrong.works and bool(re.search(".*".join(pieces), answer))
