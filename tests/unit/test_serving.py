"""Parts of the server that need no program: caches, templates, requests' ends, cancellations."""

from __future__ import annotations

import asyncio
import os
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from aoti_plugins.errors import CheckpointError
from aoti_plugins.generation import ChatTemplate
from aoti_plugins.serving.caches import Caches
from aoti_plugins.serving.cancellations import FD_VARIABLE, Cancellations
from aoti_plugins.serving.request_end import request, when_request_ends
from aoti_plugins.serving.server import listening, url_of
from aoti_plugins.serving.template import ServedTemplate

TEMPLATE = (
    "{% for tool in tools or [] %}[{{ tool.name }}]{% endfor %}"
    "{% for message in messages %}{{ message.role[0] }}:{{ message.content }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.arguments.x }}{% endfor %};"
    "{% endfor %}{{ mood }}"
)


class Generator:
    """A generator that has nothing but what its cache holds."""

    def __init__(self) -> None:
        self.tokens_in_cache: list[int] = []
        self.adapter: str | None = None

    def session(self) -> Generator:
        return Generator()


def lent(caches: Caches, prompt: list[int], answer: list[int]) -> Generator:
    """Have a conversation use a cache; the session that it got."""
    cache = caches.take(prompt)
    session: Any = cache.session()
    session.tokens_in_cache = [*prompt, *answer]
    caches.give_back(cache)
    found: Generator = session
    return found


def test_a_conversation_finds_its_cache() -> None:
    own: Any = Generator()
    caches = Caches(own, 3)
    first = lent(caches, [1, 2, 3], [4, 5])
    assert first is own
    second = lent(caches, [1, 7, 8], [9])
    third = lent(caches, [6, 6], [])
    assert len({id(one) for one in (first, second, third)}) == 3
    assert lent(caches, [1, 7, 8, 9, 10], []) is second
    assert lent(caches, [1, 2, 3, 4, 5, 6], []) is first
    assert lent(caches, [0, 0], []) is third  # it loses least
    assert lent(caches, [1, 2, 3, 4, 5, 6, 7], []) is first


def test_what_an_adapter_read_is_of_no_use_to_others() -> None:
    own: Any = Generator()
    caches = Caches(own, 2)
    first = lent(caches, [1, 2, 3], [4])
    first.adapter = "sql"
    assert lent(caches, [1, 2, 3, 4], []) is not first
    cache = caches.take([1, 2, 3, 4, 5], "sql")
    assert cache.session() is first


def test_a_cache_is_lent_once_at_a_time() -> None:
    own: Any = Generator()
    caches = Caches(own, 2)
    one, other = caches.take([1]), caches.take([1])
    assert one is not other
    caches.give_back(one)
    assert caches.take([2]) is one


def message(**fields: Any) -> Any:
    return SimpleNamespace(model_dump=lambda exclude_none: dict(fields))


def test_templates_get_tools_calls_and_variables() -> None:
    template = ServedTemplate(ChatTemplate(TEMPLATE), None)
    calls = [{"function": {"name": "f", "arguments": '{"x": 3}'}}]
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    said = [
        message(role="user", content=parts),
        message(role="assistant", content="", tool_calls=calls),
    ]
    found = template.render(said, [{"name": "f"}], {"mood": "!", "messages": "none"})
    assert found == "[f]u:ab;a:3;!"
    calls[0]["function"]["arguments"] = "no JSON"  # type: ignore[index]
    assert template.render(said[1:]) == "a:;"
    with pytest.raises(CheckpointError, match="type 'image_url'; this model reads text"):
        template.render([message(role="user", content=[{"type": "image_url"}])])


def test_what_belongs_to_a_request_ends_with_it() -> None:
    ended: list[str] = []
    when_request_ends(lambda: ended.append("of none"))

    async def served(name: str) -> None:
        with request():
            await asyncio.ensure_future(work(name))
            ended.append(f"{name} done")

    async def work(name: str) -> None:
        when_request_ends(lambda: ended.append(name))

    async def both() -> None:
        await asyncio.gather(served("a"), served("b"))

    asyncio.run(both())
    assert [one for one in ended if one.startswith("a")] == ["a done", "a"]
    assert [one for one in ended if one.startswith("b")] == ["b done", "b"]
    assert len(ended) == 4


def test_cancellations_come_through_a_pipe() -> None:
    assert not Cancellations.from_environment({}).are_possible
    assert not Cancellations.from_environment({FD_VARIABLE: "x"}).are_possible
    reading, writing = os.pipe()
    found = Cancellations.from_environment({FD_VARIABLE: str(reading)})
    assert found.are_possible
    assert not found.include(1)
    os.write(writing, (1).to_bytes(8, "little") + (2).to_bytes(8, "little"))
    assert found.include(2)
    assert not found.include(1)
    os.write(writing, (3).to_bytes(8, "little")[:5])
    assert not found.include(3)
    os.write(writing, bytes(3))
    os.close(writing)
    assert found.include(3)
    assert not found.include(None)
    assert not found.are_possible
    os.close(reading)


def test_what_is_sent_is_sent_at_once() -> None:
    with listening("127.0.0.1", 0) as found:
        assert found.proto == socket.IPPROTO_TCP  # asyncio sets TCP_NODELAY on no other
        assert url_of(found) == f"http://127.0.0.1:{found.getsockname()[1]}/v1"
