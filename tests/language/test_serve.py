"""``aoti-plugins serve``, in a process of its own, with OpenAI's client."""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from click.testing import CliRunner, Result
from executorch.examples.llm_server.python import worker_client
from serving_support import STEP_S, Server, served
from tiny_checkpoints import MAX_LENGTH

from aoti_plugins.cli.app import app
from aoti_plugins.generation import ChatTemplate, TextGenerator, chat_template_of
from aoti_plugins.serving.answer import Answer, AnswerOptions

LONG, SHORT = 80, 3
"""Tokens of answers."""
SOON_S = LONG * STEP_S / 2
"""Less than a long answer takes."""

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:(torch|transformers)"),
]


@pytest.fixture(scope="module")
def server(exported: Callable[..., Path]) -> Iterator[Server]:
    with served(exported("llama"), "--model-id", "tiny") as one:
        yield one


@pytest.fixture(scope="module")
def slow(exported: Callable[..., Path]) -> Iterator[Server]:
    """A slow one, with two answers at once and room for one more request."""
    limits = ("--max-sessions", 2, "--max-waiting", 1)
    with served(exported("llama"), "--model-id", "tiny", *limits, is_slow=True) as one:
        yield one


@pytest.fixture
def expected(exported: Callable[..., Path], llama: TextGenerator) -> Callable[..., str]:
    """What the model answers to a message, without a server."""
    template = ChatTemplate.read(chat_template_of(exported("llama")))

    def text(said: str | list[dict[str, str]], count: int, **options: Any) -> str:
        messages = asked(said) if isinstance(said, str) else said
        prompt = template.render(messages)
        return llama.generate(prompt, max_new_tokens=count, special_tokens=False, **options)

    return text


def asked(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def answer(
    server: Server, said: Any, count: int = SHORT, *, model: str = "tiny", **options: Any
) -> Any:
    messages = asked(said) if isinstance(said, str) else said
    client = server.client(timeout=60)
    create = client.chat.completions.create
    return create(model=model, messages=messages, max_tokens=count, **options)


def begun(server: Server, count: int = LONG, **options: Any) -> Any:
    """A stream of which the first text has come."""
    stream = answer(server, "1", count, stream=True, **options)
    while not next(stream).choices[0].delta.content:
        pass
    return stream


def seconds_of(function: Callable[[], object]) -> float:
    start = time.monotonic()
    function()
    return time.monotonic() - start


def posted(server: Server, body: bytes, kind: str = "application/json") -> tuple[int, Any]:
    """Status and JSON of what any body gets."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    try:
        connection.request("POST", "/v1/chat/completions", body, {"content-type": kind})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_whole_answers(server: Server, expected: Callable[..., str]) -> None:
    found = answer(server, "1", 12)
    assert found.choices[0].message.content == expected("1", 12)
    assert found.choices[0].finish_reason == "length"
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (len("_u:1\na:"), 12)
    parts: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "1"}]}]
    assert answer(server, parts, 12).choices[0].message.content == expected("1", 12)
    assert [one.id for one in server.client().models.list()] == ["tiny"]


def test_streamed_answers(server: Server, expected: Callable[..., str]) -> None:
    usage = {"include_usage": True}
    chunks = list(answer(server, "1", 12, stream=True, stream_options=usage))
    pieces = [one.choices[0].delta.content or "" for one in chunks if one.choices]
    assert "".join(pieces) == expected("1", 12)
    assert len([piece for piece in pieces if piece]) == 12
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage.completion_tokens == 12


def test_answers_end_at_stop_strings_and_fill_what_there_is(
    server: Server, expected: Callable[..., str]
) -> None:
    whole = expected("1", 20)
    stop = whole[6:8]
    found = answer(server, "1", 20, stop=["nowhere", stop])
    assert found.choices[0].message.content == whole[: whole.index(stop)]
    assert found.choices[0].finish_reason == "stop"
    found = server.client().chat.completions.create(model="tiny", messages=asked("1"))
    assert found.usage.total_tokens == MAX_LENGTH


def test_seeds_repeat(server: Server, expected: Callable[..., str]) -> None:
    def text(seed: int) -> str:
        found = answer(server, "1", 12, temperature=1.0, top_p=0.9, seed=seed)
        return str(found.choices[0].message.content)

    assert text(3) == text(3)
    assert text(3) != text(4)
    almost_none = answer(server, "1", 12, temperature=1e-320)
    assert almost_none.choices[0].message.content == expected("1", 12)


@pytest.mark.parametrize("headers", [{}, {"session_id": "one"}])
def test_a_conversation_goes_on(
    server: Server, expected: Callable[..., str], headers: dict[str, str]
) -> None:
    said = [{"role": "system", "content": "Hi"}, *asked("1")]
    for question in ("2", "3"):
        found = answer(server, said, 6, extra_headers=headers).choices[0].message.content
        assert found == expected(said, 6)
        said = [*said, {"role": "assistant", "content": found}, *asked(question)]
    netloc = urlsplit(server.url).netloc
    connection = http.client.HTTPConnection(netloc, timeout=60)
    connection.request("DELETE", "/v1/sessions/one")
    assert connection.getresponse().status == 200
    connection.close()


def test_clients_at_once_get_what_they_get_alone(
    server: Server, expected: Callable[..., str]
) -> None:
    said = ["1", "2 + 2", "Good morning", "Why?"]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda one: answer(server, one, 60), said * 4))
    texts = [one.choices[0].message.content for one in found]
    assert texts == [expected(one, 60) for one in said] * 4


def test_a_prompt_is_read_in_parts(llama: TextGenerator, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = list(range(40, 62))
    expected = list(llama.tokens(prompt, max_new_tokens=6))
    monkeypatch.setattr("aoti_plugins.serving.answer.PROMPT_STEP", 8)
    generator = llama.session()
    for cached, parts in ((0, 2), (21, 0)):
        found = Answer(prompt, AnswerOptions(max_new_tokens=6))
        assert len(list(found.steps(generator))) == parts + 6 + 1
        assert found.tokens == expected
        assert found.statistics.cached_tokens == cached
        assert found.statistics.prompt_tokens == 22


def test_a_short_answer_does_not_wait_for_a_long_one(slow: Server) -> None:
    with begun(slow) as long:
        assert seconds_of(lambda: answer(slow, "2")) < SOON_S
        rest = [one for one in long if one.choices[0].delta.content]
    assert len(rest) > LONG // 2


def test_clients_that_leave_free_their_places(slow: Server, expected: Callable[..., str]) -> None:
    for _ in range(2):
        for stream in [begun(slow), begun(slow)]:
            stream.close()
        impatient = slow.client(timeout=4 * STEP_S).chat.completions
        for _ in range(2):
            with pytest.raises(openai.APITimeoutError):
                impatient.create(model="tiny", messages=asked("1"), max_tokens=LONG)
        start = time.monotonic()
        found = answer(slow, "2")
        assert time.monotonic() - start < SOON_S
        assert found.choices[0].message.content == expected("2", SHORT)


def test_who_waits_leaves_and_who_is_too_many(slow: Server) -> None:
    running = [begun(slow), begun(slow)]
    waiting = answer(slow, "1", LONG, stream=True)
    with pytest.raises(openai.RateLimitError) as refused:
        answer(slow, "2")
    assert refused.value.code == "server_busy"
    waiting.close()
    running[0].close()
    assert seconds_of(lambda: answer(slow, "2")) < SOON_S
    running[1].close()


@pytest.mark.parametrize(
    ("options", "error", "code"),
    [
        ({"max_tokens": MAX_LENGTH}, openai.BadRequestError, "context_length_exceeded"),
        ({"messages": asked("x" * 99)}, openai.BadRequestError, "context_length_exceeded"),
        ({"messages": asked("x" * 99), "stream": True}, openai.BadRequestError, "context_length"),
        ({"model": "other"}, openai.NotFoundError, "model_not_found"),
        ({"max_tokens": 0}, openai.BadRequestError, "invalid_value"),
        ({"temperature": -1}, openai.BadRequestError, "invalid_value"),
        ({"stop": ["a"] * 17}, openai.BadRequestError, "invalid_value"),
        ({"n": 2}, openai.BadRequestError, "unsupported_parameter"),
        ({"messages": "text"}, openai.UnprocessableEntityError, "invalid_body"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            openai.BadRequestError,
            "invalid_messages",
        ),
        (
            {"messages": [*asked("1"), {"role": "system", "content": "late"}]},
            openai.BadRequestError,
            "invalid_messages",
        ),
    ],
)
def test_requests_that_are_refused(
    server: Server, options: dict[str, Any], error: type[openai.APIStatusError], code: str
) -> None:
    usual = {"model": "tiny", "messages": asked("1"), "max_tokens": 2}
    with pytest.raises(error) as refused:
        server.client().chat.completions.create(**{**usual, **options})
    assert str(refused.value.code).startswith(code)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"null", 422),
        (b'{"messages"', 422),
        (b'{"messages": NaN}', 422),
        (b'{"messages": [], "temperature": NaN}', 400),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', 400),
        (b'{"messages": [], "session_id": "a b"}', 400),
        (b'{"messages": [], "chat_template_kwargs": {"messages": 1}, "max_tokens": 1}', 200),
        (b"\xff", 400),
        (b"[" * 100_000, 400),
        (b'"' + b"x" * 2_000_000 + b'"', 413),
    ],
)
def test_bodies_of_any_kind(server: Server, body: bytes, status: int) -> None:
    found = posted(server, body)
    assert found[0] == status
    assert status == 200 or found[1]["error"]["message"]
    assert posted(server, body, "text/plain")[0] in (413, 422)


def test_rubbish_does_not_disturb_others(server: Server, expected: Callable[..., str]) -> None:
    good = json.dumps({"messages": asked("1"), "max_tokens": 2, "stop": ["a"], "seed": 1}).encode()
    chance = random.Random(0)
    for _ in range(60):
        body = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            body[chance.randrange(len(body))] = chance.choice(b'{}[]",:0-x\xff\x00 ')
        assert posted(server, bytes(body))[0] in (200, 400, 404, 422)
    host, port = urlsplit(server.url).netloc.split(":")
    for _ in range(10):
        with socket.create_connection((host, int(port)), timeout=60) as raw:
            raw.sendall(chance.randbytes(200) + b"\r\n\r\n")
    assert answer(server, "1", 12).choices[0].message.content == expected("1", 12)


def test_executorchs_own_contract(server: Server) -> None:
    folder = Path(worker_client.__file__).parents[1] / "conformance"
    few_tokens = "not tool_call_response_shape"  # that one asks for 128
    options = ("-q", "-c", os.devnull, "--rootdir", folder, "-p", "no:cacheprovider")
    command = (sys.executable, "-m", "pytest", *options, "-k", few_tokens, folder)
    environment = {**os.environ, "OPENAI_BASE_URL": server.url, "OPENAI_MODEL": "tiny"}
    done = subprocess.run(
        [str(one) for one in command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout
    assert "6 passed" in done.stdout


def test_ctrl_c_ends_it(exported: Callable[..., Path]) -> None:
    with served(exported("llama")) as idle:
        assert idle.said.startswith("language_llama_none answers at http://127.0.0.1:")
        for _ in range(30):  # clients that leave are nothing to talk about
            begun(idle, model="language_llama_none").close()
        status, said, seconds = idle.interrupt()
    assert (status, said) == (130, "stopped\n")
    assert seconds < 5


def test_ctrl_c_ends_it_within_answers(exported: Callable[..., Path]) -> None:
    with served(exported("llama"), "--model-id", "tiny", is_slow=True) as busy:
        stream = begun(busy)
        whole = ThreadPoolExecutor().submit(answer, busy, "2", LONG)
        time.sleep(5 * STEP_S)
        status, said, seconds = busy.interrupt()
        with pytest.raises(openai.APIError, match="the server is ending"):
            list(stream)
        with pytest.raises(openai.InternalServerError, match="the server is ending"):
            whole.result()
    assert (status, said) == (130, "stopped\n")
    assert seconds < 5


def test_the_server_needs_neither_torch_nor_transformers(
    run_python: Callable[..., str],
) -> None:
    printed = run_python(
        """
        import sys
        import aoti_plugins.cli.serve, aoti_plugins.serving.server, aoti_plugins.serving.service
        print("imported", {"torch", "transformers"} & set(sys.modules))
        """
    )
    assert "imported set()" in printed


def serve(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["serve", *map(str, arguments)])


def test_what_serve_refuses(
    tmp_path: Path,
    exported: Callable[..., Path],
    lowered_programs: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, mlp = exported("llama"), lowered_programs("mlp")
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        done = serve(path, "--port", port)
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use; choose" in done.stderr
    assert "cannot listen on nowhere.invalid" in serve(path, "--host", "nowhere.invalid").stderr
    assert "there is no chat template" in serve(mlp).stderr
    done = serve(mlp, "--template", chat_template_of(path))
    assert "it is no language model" in done.stderr
    assert serve(tmp_path / "none.pte").exit_code == 1
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = serve(path)
    assert done.exit_code == 1
    assert "uvicorn is missing: pip install 'aoti-plugins[serve]'" in done.stderr
