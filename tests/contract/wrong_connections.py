"""Connections with a wrong value each, and what docs/connections.md shows as the answer to each."""

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
        "`kind_prefix` is `svc#`": lambda _: {"extra": {"kind_prefix": "svc#"}},
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


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def tables(text: str, head: str) -> dict[str, list[str]]:
    """Return the rows of the table with this head by their first cell."""
    lines = text.partition(f"\n{head}\n")[2].partition("\n\n")[0].splitlines()[1:]
    rows = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in lines]
    return {row[0]: row[1:] for row in rows}


def answers(title: str) -> dict[str, str]:
    return {row: cells[0] for row, cells in tables(section(title), "| what is wrong | *Test* says |").items()}


def agrees(shown: str, *, works: bool, answer: str) -> bool:
    """Whether an answer is the one that the page shows; an ellipsis stands for anything."""
    said = re.sub(r"^\*success\*(, and)?: ", "", shown)
    # This is what follows from it; the answer does not say so.
    if said == "the tasks are slower than they might be.":
        said = "…"
    pieces = [re.escape(piece.strip().replace("`", "'")) for piece in said.split("…")]
    return works == shown.startswith("*success*") and bool(re.search(".*".join(pieces), answer))
