"""Listens for requests, and ends in order."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from aoti_plugins.errors import ServingError
from aoti_plugins.serving.limits import App

_END_S = 1  # what answers get for their end, once the server is to end


def listening(host: str, port: int) -> socket.socket:
    """A socket that clients can connect to from now on.

    Args:
        host: a name or an address of this machine.
        port: 0 for one that is free.

    Raises:
        ServingError: there is no such address here, or the port is in use.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        return _bound(socket.socket(family, kind, protocol), address)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ServingError(
            f"cannot listen on {host} port {port}: {reason}; choose another --port or --host"
        ) from error


def _bound(result: socket.socket, address: Any) -> socket.socket:
    """The socket, bound; asyncio has it send at once, since it was told that it is TCP's."""
    try:
        result.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        result.bind(address)
        result.listen(128)
    except OSError:
        result.close()
        raise
    return result


def url_of(listener: socket.socket) -> str:
    """What clients take as their base URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def serve(
    app: App,
    listener: socket.socket,
    begins: Callable[[], bool],
    ends: Callable[[], object],
) -> None:
    """Answer requests until SIGINT or SIGTERM; the signal is raised again at the end.

    Args:
        app: answers.
        listener: where clients connect.
        begins: called when signals end the server from now on; whether it is to begin.
        ends: called when the server is to end; it ends the answers, so that none is cut off.
    """
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_END_S,
    )
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of each client that leaves
    _Server(config, begins, ends).run(sockets=[listener])


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, begins: Callable[[], bool], ends: Callable[[], object]
    ) -> None:
        super().__init__(config)
        self._begins = begins
        self._ends = ends

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self._begins():
            self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ends()
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # of what is cut off still
        await super().shutdown(sockets)
