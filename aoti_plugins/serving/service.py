"""ExecuTorch's chat completions over a program of ours, as an ASGI app."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from executorch.examples.llm_server.python.errors import APIError
from executorch.examples.llm_server.python.protocol import ModelCard, ModelList
from executorch.examples.llm_server.python.server import build_app
from executorch.examples.llm_server.python.serving_chat import ServingChat
from executorch.examples.llm_server.python.tool_parsers import HermesDetector
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from aoti_plugins.generation import ChatTemplate, TextGenerator
from aoti_plugins.serving.limits import App, Limits
from aoti_plugins.serving.runtime import TurnsRuntime
from aoti_plugins.serving.template import ServedTemplate

_MOST_CONVERSATIONS = 256  # whose tokens are kept
_MOST_STOPS = 16  # each is looked for in the text after every token
_INVALID = "invalid_request_error"


def chat_app(
    generator: TextGenerator,
    template: ChatTemplate,
    runtime: TurnsRuntime,
    model_id: str,
    most_requests: int,
) -> App:
    """The app that answers ``/v1/chat/completions``, ``/v1/models`` and ``/health``.

    Adapters of the generator are models, by their names.

    Args:
        generator: of the model.
        template: of its checkpoint.
        runtime: generates the answers.
        model_id: the model's name in requests.
        most_requests: how many are worked on or wait at one time.
    """
    served = ServedTemplate(template, generator.tokenizer)
    runtimes = {model_id: runtime}
    runtimes |= {name: runtime.with_adapter(name) for name in generator.adapters}
    chats = _Chats(
        [_Chat(one, served, name, generator.max_length) for name, one in runtimes.items()]
    )
    app = build_app(chats, model_id)
    _list_models(app, [*runtimes])
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    # A token is a few letters, each at most 12 bytes in JSON.
    return Limits(app, most_requests, most_nbytes=2**20 + 64 * generator.max_length)


class _Chats:
    """What ``build_app`` asks, for several models; who names none means the first."""

    def __init__(self, chats: Sequence[_Chat]) -> None:
        self._chats = {one.model_id: one for one in chats}
        self._first = chats[0]

    @property
    def healthy(self) -> bool:
        """Whether answers can begin."""
        return bool(self._first.healthy)

    async def create(self, req: Any) -> Any:
        """Answer a request, as the model that it names does."""
        return await self._chats.get(req.model, self._first).create(req)

    async def close_session(self, session_id: str) -> None:
        """Forget a conversation, whichever model it is with."""
        for one in self._chats.values():
            await one.close_session(session_id)

    async def reset_session(self, session_id: str) -> None:
        """Begin a conversation anew, whichever model it is with."""
        for one in self._chats.values():
            await one.reset_session(session_id)


def _list_models(app: Any, names: Sequence[str]) -> None:
    """Have the app list several models; ``build_app`` knows one."""
    app.router.routes[:] = [one for one in app.router.routes if one.path != "/v1/models"]

    @app.get("/v1/models")
    async def list_models() -> ModelList:
        return ModelList(data=[ModelCard(id=name) for name in names])


class _Chat(ServingChat):
    """The wheel's, for which a request that cannot be rendered is the client's mistake."""

    def __init__(
        self, runtime: TurnsRuntime, template: ServedTemplate, model_id: str, max_length: int
    ) -> None:
        super().__init__(runtime, template, model_id, max_length, tool_detector_cls=HermesDetector)
        self.model_id = model_id
        self._conversations: OrderedDict[str, None] = OrderedDict()

    async def create(self, req: Any) -> Any:
        """Answer a request.

        Raises:
            APIError: it is refused, or the program failed.
        """
        _check_stops(req.stop)
        try:
            answer = await super().create(req)
        except APIError:
            raise
        except Exception as error:  # of templates and tokenizers; programs' are APIErrors
            message = f"The messages cannot be read: {error}"
            raise APIError(400, message, _INVALID, "invalid_messages") from error
        if req.session_id is not None:
            self._keep(req.session_id)
        return answer

    def _keep(self, session_id: str) -> None:
        """Have the tokens of the last conversations kept, and forget those of others."""
        self._conversations[session_id] = None
        self._conversations.move_to_end(session_id)
        while len(self._conversations) > _MOST_CONVERSATIONS:
            self._transcript.close(self._conversations.popitem(last=False)[0])


def _check_stops(stop: str | list[str] | None) -> None:
    if isinstance(stop, list) and len(stop) > _MOST_STOPS:
        message = f"There are {len(stop)} strings in stop, and {_MOST_STOPS} at most can be."
        raise APIError(400, message, _INVALID, "invalid_value")


async def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    """What a body that does not fit the protocol gets; its values are not repeated."""
    assert isinstance(error, RequestValidationError)
    found = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return _error(422, "; ".join(found), "invalid_body")


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, str(error.detail), None)


def _error(status: int, message: str, code: str | None) -> JSONResponse:
    shown = message.encode("utf-8", "backslashreplace").decode()
    error = {"message": shown, "type": _INVALID, "code": code}
    return JSONResponse({"error": error}, status_code=status)
