"""What ExecuTorch's server asks of a worker: one JSON object a line.

The server's side is ``executorch/examples/llm_server/python/worker_client.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aoti_plugins.errors import ServingError
from aoti_plugins.generation import Sampling
from aoti_plugins.serving.answer import AnswerOptions

_OPERATIONS = ("open", "close", "reset")


@dataclass(frozen=True)
class SessionRequest:
    """To open, close or reset a session.

    Attributes:
        operation: ``"open"``, ``"close"`` or ``"reset"``.
        session_id: its name.
    """

    operation: str
    session_id: str


@dataclass(frozen=True)
class AnswerRequest:
    """To generate an answer.

    Attributes:
        text: the prompt, unless it is in segments.
        segments: its parts, each with ``text`` or with tokens, ``ids``.
        options: how it is generated.
        session_id: of the session whose cache is used; ``None`` for the one without a name.
        cancel_id: what a cancellation names it by; ``None`` if it cannot be cancelled.
    """

    text: str | None
    segments: Sequence[Mapping[str, Any]] | None
    options: AnswerOptions
    session_id: str | None
    cancel_id: int | None


def read_request(line: bytes) -> SessionRequest | AnswerRequest:
    """Read a line.

    Raises:
        ServingError: it is no request; names the field and what was expected.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ServingError(f"not a line of JSON: {error}") from error
    if not isinstance(message, dict):
        raise ServingError(f"expected an object, found {_kind(message)}")
    if "op" in message:
        return _session_request(message)
    return _answer_request(message)


def _session_request(message: Mapping[str, Any]) -> SessionRequest:
    operation, name = message["op"], message.get("session_id")
    if operation not in _OPERATIONS:
        raise ServingError(f"op is {operation!r}, expected one of {', '.join(_OPERATIONS)}")
    if not isinstance(name, str) or not name:
        raise ServingError(f"session_id: expected a name, found {_kind(name)}")
    return SessionRequest(operation, name)


def _answer_request(message: Mapping[str, Any]) -> AnswerRequest:
    text, segments = message.get("prompt"), message.get("prompt_segments")
    if (text is None) == (segments is None):
        raise ServingError("expected either prompt or prompt_segments")
    if text is not None and not isinstance(text, str):
        raise ServingError(f"prompt: expected a text, found {_kind(text)}")
    if segments is not None:
        _check_segments(segments)
    name = message.get("session_id")
    if name is not None and not isinstance(name, str):
        raise ServingError(f"session_id: expected a name, found {_kind(name)}")
    cancel_id = _integer(message, "cancel_request_id", 0)
    return AnswerRequest(text, segments, _options(message), name or None, cancel_id or None)


def _check_segments(segments: Any) -> None:
    if not isinstance(segments, list) or not segments:
        raise ServingError(f"prompt_segments: expected a list of parts, found {_kind(segments)}")
    for one in segments:
        ids, text = (one.get("ids"), one.get("text")) if isinstance(one, dict) else (None, None)
        is_tokens = isinstance(ids, list) and all(type(token) is int for token in ids)
        if not is_tokens and (ids is not None or not isinstance(text, str)):
            raise ServingError("prompt_segments: expected text or ids, a list of numbers, in each")


def _options(message: Mapping[str, Any]) -> AnswerOptions:
    most = _integer(message, "max_new_tokens", -1)
    stop = message.get("stop", [])
    if not isinstance(stop, list) or not all(isinstance(one, str) for one in stop):
        raise ServingError(f"stop: expected a list of texts, found {_kind(stop)}")
    try:
        sampling = Sampling(
            temperature=_number(message, "temperature", 0.0),
            top_p=_number(message, "top_p", 1.0),
            top_k=_integer(message, "top_k", 0),
            seed=_seed(message),
        )
    except ValueError as error:
        raise ServingError(str(error)) from error
    return AnswerOptions(sampling, most if most > 0 else None, stop)


def _seed(message: Mapping[str, Any]) -> int | None:
    seed = _integer(message, "seed", 0)
    if seed < 0:
        raise ServingError(f"seed is {seed}, expected 0 (for none) or more")
    return seed or None


def _integer(message: Mapping[str, Any], name: str, default: int) -> int:
    value = message.get(name, default)
    if type(value) is not int:
        raise ServingError(f"{name}: expected an integer, found {_kind(value)}")
    return value


def _number(message: Mapping[str, Any], name: str, default: float) -> float:
    value = message.get(name, default)
    if type(value) is not int and type(value) is not float:
        raise ServingError(f"{name}: expected a number, found {_kind(value)}")
    return float(value)


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"
