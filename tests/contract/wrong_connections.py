"""Connections with a wrong value each, and what their test says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


PAGE = (Path(__file__).parents[2] / "docs" / "connections.md").read_text(encoding="utf-8")


SECTIONS = {"mediaops_video": "Video platform", "mediaops_cluster": "Search cluster", "mediaops_books": "Book database"}


CLOSED = "http://127.0.0.1:9"


# Changes of a good connection of the sandbox: fields, and beside them those of ``extra``. None removes one.
Change = dict[str, Any]


EVERYWHERE: dict[str, Callable[[str], Change]] = {
    "Host is empty": lambda _: {"host": ""},
    "Host begins with `ftp://`": lambda _: {"host": "ftp://host.example"},
    "nothing listens at the port": lambda _: {"host": CLOSED},
    "the name of the host is wrong": lambda _: {"host": "https://nowhere.invalid"},
    "`https` where the service speaks `http`": lambda url: {"host": url.replace("http", "https")},
    "another Port than in Host": lambda _: {"port": 1234},
    "another Scheme than in Host": lambda _: {"schema": "https"},
    "a misspelt field, `timout`": lambda _: {"extra": {"timout": "5"}},
    "a field of your own, `colour`": lambda _: {"extra": {"colour": "red"}},
    "`timeout` is no number": lambda _: {"extra": {"timeout": "soon"}},
    "`max_attempts` is 0": lambda _: {"extra": {"max_attempts": 0}},
    "`headers` is no JSON object": lambda _: {"extra": {"headers": "X-Team: media"}},
    "a proxy that nobody serves": lambda _: {"extra": {"proxies": CLOSED}},
}


REFRESHED = {"auth": "refresh_token", "refresh_token": "a wrong one"}


CHANGES: dict[str, dict[str, Callable[[str], Change]]] = {
    "mediaops_video": {
        "Password is empty": lambda _: {"password": ""},
        "a wrong or expired access token": lambda _: {"password": "another token"},
        "a wrong API key": lambda _: {"password": "another key", "extra": {"auth": "api_key"}},
        "`refresh_token` without a client id": lambda _: {"extra": REFRESHED},
        "a wrong client id or secret": lambda url: {
            "login": "unknown",
            "extra": {**REFRESHED, "token_url": f"{url}/video/oauth2/token"},
        },
        "an unknown `auth`": lambda _: {"extra": {"auth": "token"}},
        "the base address ends in `/v3`": lambda url: {"host": f"{url}/video/v3"},
        "a wrong path": lambda url: {"host": f"{url}/nothing"},
        "the address of a search cluster": lambda url: {"host": f"{url}/cluster"},
        "another `kind_prefix` than the service's": lambda _: {"extra": {"kind_prefix": "youtube"}},
        "`requests_per_second` is 0": lambda _: {"extra": {"requests_per_second": 0}},
        "an unknown `rate_limit_store`": lambda _: {
            "extra": {"requests_per_second": 1, "rate_limit_store": "ftp://store"}
        },
    },
    "mediaops_cluster": {
        "Password is empty": lambda _: {"password": ""},
        "a wrong password": lambda _: {"password": "another password"},
        "a wrong API key": lambda _: {"password": "another key", "extra": {"auth": "api_key"}},
        "a password, but neither Login nor `auth`": lambda _: {"login": "", "extra": {"auth": None}},
        "a user without the permissions": lambda _: {"login": "sandbox-guest", "password": "sandbox-guest-password"},
        "`ca_cert` is not there": lambda _: {"extra": {"ca_cert": "/nowhere/ca.pem"}},
        "`region` without `auth=aws`": lambda _: {"extra": {"region": "eu-central-1"}},
        "an address of Amazon OpenSearch Serverless": lambda _: {"host": "https://abc.eu-west-1.aoss.amazonaws.com"},
        "`max_report_mb` is 0": lambda _: {"extra": {"max_report_mb": 0}},
        "the base address ends in `/_nodes`": lambda url: {"host": f"{url}/cluster/_nodes"},
        "a wrong path": lambda url: {"host": f"{url}/nothing"},
        "the address of a video platform": lambda url: {"host": f"{url}/video"},
    },
    "mediaops_books": {
        "Password is empty": lambda _: {"password": ""},
        "a wrong key": lambda _: {"password": "another key"},
        "the base address of another plan": lambda url: {"host": f"{url}/books/premium"},
        "a key that is not active": lambda _: {"password": "sandbox-books-inactive-key"},
        "a lower `plan` than the key's": lambda _: {"extra": {"plan": "premium"}},
        "an unknown `plan`": lambda _: {"extra": {"plan": "gold"}},
        "a wrong path, or none": lambda url: {"host": f"{url}/nothing"},
        "the base address ends in `/book`": lambda url: {"host": f"{url}/books/pro/book"},
        "`canary_isbn` is no ISBN": lambda _: {"extra": {"canary_isbn": "123"}},
        "`canary_isbn` has no record": lambda _: {"extra": {"canary_isbn": "9791090648524"}},
        "the address of a video platform": lambda url: {"host": f"{url}/video"},
    },
}


#: What the test of each connection says; an ellipsis stands for anything.
ANSWERS: dict[str, dict[str, str]] = {
    "Test it": {
        "no connection of this id": "There is no connection `…`",
        "Host is empty": (
            "field `host`: it is empty; write the service's base address, for example https://host.example."
        ),
        "Host begins with `ftp://`": "field `host`: its scheme must be http or https.",
        "nothing listens at the port": (
            "Connection refused. Check host and port in the connection, and that the service is up."
        ),
        "the name of the host is wrong": "Check host and port in the connection, and that the service is up.",
        "`https` where the service speaks `http`": "Check the scheme (http or https) and the port in the connection.",
        "another Port than in Host": "Port 1234 is not used: Host says … Make both the same.",
        "another Scheme than in Host": "Scheme https is not used: Host says http. Make both the same.",
        "a misspelt field, `timout`": "Extra field `timout` is unknown and has no effect: write `timeout`.",
        "a field of your own, `colour`": "*success*, and: Extra without effect: `colour`. Known fields are …",
        "`timeout` is no number": (
            "field `timeout`: it must be seconds, as `connect, read` or one figure for both, above 0 and a day at most."
        ),
        "`max_attempts` is 0": "field `max_attempts`: it must be a whole number, 1 to 100.",
        "`headers` is no JSON object": "field `headers`: it must be a JSON object of texts.",
        "a proxy that nobody serves": (
            "Connection refused. Check host and port in the connection, and that the service is up."
        ),
    },
    "Video platform": {
        "Password is empty": "field `password`: it is empty; it must be the access token, with auth=bearer.",
        "a wrong or expired access token": (
            "401 authError: The access token is not valid. The access token or API key is missing, wrong or "
            "expired: check the connection's password, or use auth=refresh_token."
        ),
        "a wrong API key": (
            "400 badRequest: The API key is not valid. The access token or API key is missing, wrong or "
            "expired: check the connection's password, or use auth=refresh_token."
        ),
        "`refresh_token` without a client id": (
            "field `login`: it is empty; with auth=refresh_token it must be the client id."
        ),
        "a wrong client id or secret": (
            "401 invalid_client: The client is unknown or its secret is wrong. Check the client id (Login) "
            "and client secret (Password) in the connection."
        ),
        "an unknown `auth`": "field `auth`: it is one of bearer, refresh_token, api_key, none.",
        "the base address ends in `/v3`": (
            "The base address in the connection ends in /v3, which is added to it: take /v3 off."
        ),
        "a wrong path": (
            "404: Not Found. Check the identifier, and the base address in the connection: it ends before /v3."
        ),
        "the address of a search cluster": (
            "A search cluster answers there: put the video platform's base address into the connection."
        ),
        "another `kind_prefix` than the service's": (
            "field `kind_prefix`: it is `youtube`, but the service answers with kinds such as … Write `svc`."
        ),
        "`requests_per_second` is 0": "field `requests_per_second`: it must be a number, 0.001 to 100000.",
        "an unknown `rate_limit_store`": (
            "field `rate_limit_store`: it must be memory://, sqlite:////folder/file.db, redis://host or rediss://host."
        ),
    },
    "Search cluster": {
        "Password is empty": (
            "field `password`: it is empty; with auth=basic it holds the password. For a cluster without "
            "users write auth=none."
        ),
        "a wrong password": (
            "401 security_exception: unable to authenticate user … Check login and password (API key or "
            "token), and auth, in the connection."
        ),
        "a wrong API key": (
            "401 security_exception: … Check login and password (API key or token), and auth, in the connection."
        ),
        "a password, but neither Login nor `auth`": (
            "field `auth`: it is empty and so is login: write api_key or bearer, whichever the password holds."
        ),
        "a user without the permissions": (
            "The connection's user may read neither its nodes' statistics (cluster:monitor/nodes/stats) nor "
            "hot threads (cluster:monitor/nodes/hot_threads). … give the connection's user a role with …"
        ),
        "`ca_cert` is not there": (
            "field `ca_cert`: /nowhere/ca.pem cannot be used on this machine: No such file or directory."
        ),
        "`region` without `auth=aws`": (
            "field `region`: it has an effect with auth=aws only: write that, or leave it empty."
        ),
        "an address of Amazon OpenSearch Serverless": (
            "field `host`: it is that of Amazon OpenSearch Serverless, which has no nodes that could be asked: hot "
            "threads and statistics need a domain of Amazon OpenSearch Service."
        ),
        "`max_report_mb` is 0": "field `max_report_mb`: it must be a whole number, 1 to 4096.",
        "the base address ends in `/_nodes`": (
            "The base address in the connection ends in /_nodes, which is added to it: take /_nodes off."
        ),
        "a wrong path": (
            "404: Not Found. Check the base address in the connection: the cluster's routes are not there."
        ),
        "the address of a video platform": (
            "404 notFound: … Check the base address in the connection: the cluster's routes are not there."
        ),
    },
    "Book database": {
        "Password is empty": "field `password`: it is empty; it must be the REST key.",
        "a wrong key": (
            "403: Access denied: the key is not known. Either the base address is that of another plan than "
            "the key's, or the key is wrong, or its daily quota is used up: check the connection's host, "
            "plan and password."
        ),
        "the base address of another plan": (
            "403: Access denied: the key's plan is pro, this address is for premium. Either the base address "
            "is that of another plan than the key's, or …"
        ),
        "a key that is not active": (
            "401: The key is not active. The key is missing, wrong or not active, or the base address is "
            "that of another plan than the key's: check the connection's password, host and plan."
        ),
        "a lower `plan` than the key's": "*success*: the tasks are slower than they might be.",
        "an unknown `plan`": "field `plan`: it is one of default, premium, pro.",
        "a wrong path, or none": (
            "404: Not Found. A book database answers otherwise: check the connection's base address, with "
            "its whole path."
        ),
        "the base address ends in `/book`": (
            "404: There is no endpoint … A book database answers otherwise: check the connection's base "
            "address, with its whole path."
        ),
        "`canary_isbn` is no ISBN": "field `canary_isbn`: `123` is no ISBN: it must have 10 or 13 digits, not 3.",
        "`canary_isbn` has no record": (
            "404: Not Found. There is no record of this book. But the connection's canary_isbn names this "
            "book as one that exists: check the connection's base address, and canary_isbn."
        ),
        "the address of a video platform": (
            "404 notFound: There is no endpoint … the connection's canary_isbn names this book as one that exists: "
            "check the connection's base address, and canary_isbn."
        ),
    },
}


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def tables(text: str, head: str) -> dict[str, list[str]]:
    """Return the rows of the table with this head by their first cell."""
    lines = text.partition(f"\n{head}\n")[2].partition("\n\n")[0].splitlines()[1:]
    rows = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in lines]
    return {row[0]: row[1:] for row in rows}


def agrees(shown: str, *, works: bool, answer: str) -> bool:
    """Whether an answer is the expected one; an ellipsis stands for anything."""
    said = re.sub(r"^\*success\*(, and)?: ", "", shown)
    # This is what follows from it; the answer does not say so.
    if said == "the tasks are slower than they might be.":
        said = "…"
    pieces = [re.escape(piece.strip().replace("`", "'")) for piece in said.split("…")]
    return works == shown.startswith("*success*") and bool(re.search(".*".join(pieces), answer))
