"""Secrets that are looked for in everything that a cell of the matrix leaves behind, in every form that they take."""

from __future__ import annotations

import base64
import html
import json
import logging
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

# Each has characters that JSON, HTML and addresses escape.
PASSWORD = "p4ss\"w<rd&/+%'canary"
HEADER = "h34d\"r<&/+%'canary"
REFRESH_TOKEN = "r3fr\"sh<&/+%'canary"
ACCESS_TOKEN = "4cc\"ss<&/+%'canary"
#: Every secret that the connections of the matrix hold, or that the service issues.
SECRETS = (PASSWORD, HEADER, REFRESH_TOKEN, ACCESS_TOKEN)


@lru_cache(maxsize=64)
def forms_of(secret: str) -> dict[str, str]:
    """Return a secret in every form in which a service may echo it."""
    forms = {
        "raw": secret,
        "JSON": json.dumps(secret)[1:-1],
        "Python": repr(secret)[1:-1],
        "HTML": html.escape(secret),
        "percent": quote(secret, safe=""),
        "form": quote_plus(secret),
    }
    for shift in range(3):
        # The characters in base64 that depend on no byte beside the secret.
        encoded = base64.b64encode(bytes(shift) + secret.encode()).decode()
        forms[f"base64 at {shift}"] = encoded[(0, 2, 3)[shift] : (shift + len(secret)) * 8 // 6]
    return forms


def echo_of(texts: Iterable[str]) -> str:
    """Return a text in which a careless service repeats texts in every form."""
    forms = (form for text in texts for form in (text, html.escape(text), quote(text, safe=""), _base64(text)))
    return "You sent: " + " ".join(dict.fromkeys(forms))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def leaks(text: str) -> list[str]:
    """Find secrets in a text."""
    return [
        f"{form} of secret {number} at {text.index(value)}"
        for number, secret in enumerate(SECRETS)
        for form, value in forms_of(secret).items()
        if value in text
    ]


class Witness(logging.Handler):
    """Keeps every line that is logged, whatever its level, with its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def texts_of(value: Any) -> Iterator[str]:
    """Yield the texts by which a value may be shown: in JSON, as Airflow keeps it, and as Python prints it."""
    yield repr(value)
    yield json.dumps(value, default=str)
    yield json.dumps(value, default=str, ensure_ascii=False)


def files_below(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files below a folder, each with its path and content."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path, f"{path}\n{path.read_bytes().decode('latin-1')}"
