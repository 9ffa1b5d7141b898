"""Limits of requests, and what becomes of those whose clients leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from aoti_plugins.serving.request_end import request

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class Limits:
    """Stands before an ASGI app: refuses what is too much, and ends what nobody waits for.

    Only requests with a body are limited, so that the server says how it is when it is busy.

    Args:
        app: the app.
        most_requests: how many are worked on or wait at one time; one more gets status 429.
        most_nbytes: the most bytes of a body; with more, a request gets status 413.
    """

    def __init__(self, app: App, most_requests: int, most_nbytes: int) -> None:
        self._app = app
        self._most_requests = most_requests
        self._most_nbytes = most_nbytes
        self._requests = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request; the ASGI server calls it."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await _body(receive, self._most_nbytes)
        if body is None:
            what = f"The body has more than {self._most_nbytes} bytes."
            await _refuse(send, 413, what, "request_too_large")
        elif self._requests >= self._most_requests:
            what = f"{self._requests} requests are being answered or wait; try again later."
            await _refuse(send, 429, what, "server_busy")
        else:
            self._requests += 1
            try:
                await _while_there(self._app, scope, body, receive, send)
            finally:
                self._requests -= 1


async def _while_there(app: App, scope: Message, body: bytes, receive: Receive, send: Send) -> None:
    """Run an app until it has answered, or its client has left."""
    left, given = asyncio.Event(), [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        if given:
            return given.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    with request():
        work = asyncio.ensure_future(app(scope, replay, send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.set()
            for task in (work, leaving):
                task.cancel()
            await asyncio.wait({work, leaving})
    if not work.cancelled():
        work.result()


async def _left(receive: Receive) -> None:
    """Wait until a client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(receive: Receive, most_nbytes: int) -> bytes | None:
    """Read a body; ``None`` if it is larger than that."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > most_nbytes:
            return None
        if not message.get("more_body"):
            return bytes(body)


async def _refuse(send: Send, status: int, message: str, code: str) -> None:
    error = {"message": message, "type": "invalid_request_error", "code": code}
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
