"""What requests and httpx log of their own: the whole address of each request, but no credential in its query."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.http.exchange import Request

_LOGGERS = ("urllib3.connectionpool", "urllib3.util.retry", "httpx", "httpcore.http11")
_hidden: ContextVar[tuple[str, ...]] = ContextVar("hidden", default=())


@contextmanager
def hiding_credentials(request: Request) -> Iterator[None]:
    """
    Strike the values of a request's secret parameters out of the libraries' records while it is sent.

    :param request: what is sent in this context, by this thread or task.
    """
    before = _hidden.set(tuple(name for name, _ in request.secret_params))
    try:
        yield
    finally:
        _hidden.reset(before)


class _WithoutCredentials(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        names = _hidden.get()
        if names:
            parameter = rf"(?<=[?&])({'|'.join(map(re.escape, names))})=[^&#\s\"']*"
            record.msg, record.args = re.sub(parameter, r"\1=***", record.getMessage()), ()
        return True


for _name in _LOGGERS:
    logging.getLogger(_name).addFilter(_WithoutCredentials())
