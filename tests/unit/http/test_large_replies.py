"""Large replies are read in a thread: on the event loop of a triggerer, everything else would have to wait."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from airflow_provider_mediaops.exceptions import BadRequestError, InvalidReplyError
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import Request, Response
from airflow_provider_mediaops.http.runner import arun
from tests.unit.call_flows import FakeClock, text_call
from tests.unit.http.asking import error_of, make


@pytest.mark.parametrize(("size", "in_thread"), [(64 * 1024 - 1, False), (64 * 1024, True)])
async def test_a_large_reply_is_parsed_in_a_thread(size: int, *, in_thread: bool) -> None:
    threads: list[threading.Thread] = []

    def parse(reply: Response) -> str:
        threads.append(threading.current_thread())
        return str(len(reply.body))

    async def send(_: Request) -> Response:
        return Response(200, {}, b"x" * size)

    call = replace(text_call(), parse=parse)
    assert await arun(make(FakeClock()).ask(call), send, in_thread=asyncio.to_thread) == str(size)
    assert [thread is not threading.current_thread() for thread in threads] == [in_thread]


def test_a_large_reply_that_cannot_be_parsed_is_an_error_of_the_call() -> None:
    def parse(_: Response) -> str:
        raise ValueError("no number")

    reply = Response(200, {}, b"x" * 128 * 1024)
    error = error_of(make(FakeClock()), replace(text_call(), parse=parse), [reply])
    assert isinstance(error, InvalidReplyError)


@pytest.mark.parametrize(("size", "in_thread"), [(64 * 1024 - 1, False), (2_000_000, True)])
async def test_the_error_of_a_large_refusal_is_made_in_a_thread(size: int, *, in_thread: bool) -> None:
    threads: list[threading.Thread] = []

    def advice(_reply: Response, _details: object) -> str:
        threads.append(threading.current_thread())
        return "Ask for less."

    async def send(_: Request) -> Response:
        return Response(400, {}, b"x" * size)

    client = replace(make(FakeClock()), rules=ErrorRules("service", advice_by_reply=advice))
    with pytest.raises(BadRequestError, match="Ask for less"):
        await arun(client.ask(text_call()), send, in_thread=asyncio.to_thread)
    assert [thread is not threading.current_thread() for thread in threads] == [in_thread]
