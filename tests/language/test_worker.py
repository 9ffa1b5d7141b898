"""The worker for ExecuTorch's OpenAI server: over that server's own client, and with any lines."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from executorch.examples.llm_server.python.worker_client import (
    WorkerClient,
    WorkerError,
    spawn_worker,
)
from serving_support import STEP_S, slowly
from tiny_checkpoints import MAX_LENGTH

from aoti_plugins.generation import ChatTemplate, TextGenerator, chat_template_of, tokenizer_of

SCRIPT = Path(sys.executable).parent / "aoti-plugins-worker"
PROMPT, COUNT = "<s>u:1\na:", 12

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:(torch|transformers)"),
]


def command(program: Path, *options: object, is_slow: bool = False) -> list[str]:
    start = slowly("aoti_plugins.serving.worker") if is_slow else [str(SCRIPT)]
    paths = ("--model_path", program, "--tokenizer_path", tokenizer_of(program))
    return [*start, *(str(one) for one in (*paths, *options))]


@contextmanager
def worker(program: Path, *options: object, is_slow: bool = False) -> Iterator[WorkerClient]:
    client = spawn_worker(command(program, *options, is_slow=is_slow))
    try:
        yield client
    finally:
        client.close()


def generated(client: WorkerClient, prompt: str | None, **options: Any) -> tuple[str, Any]:
    """Text and statistics of an answer."""
    texts: list[str] = []
    found: list[Any] = []
    given = SimpleNamespace(**{"max_new_tokens": COUNT, **options})
    client.generate(prompt, given, texts.append, found.append)
    return "".join(texts), found[0]


def test_answers_and_sessions(exported: Callable[..., Path], llama: TextGenerator) -> None:
    whole = llama.generate(PROMPT, max_new_tokens=COUNT, special_tokens=False)
    with worker(exported("llama"), "--max_sessions", 3) as client:
        assert (client.max_named_sessions, client.supports_cancel) == (2, True)
        text, stats = generated(client, PROMPT)
        assert text == whole
        assert (stats.num_prompt_tokens, stats.num_generated_tokens) == (7, COUNT)
        assert (stats.finish_reason, stats.reused_prompt_tokens) == ("length", 0)
        text, stats = generated(client, PROMPT, stop=[whole[5:7]])
        assert text == whole[: whole.index(whole[5:7])]
        assert (stats.finish_reason, stats.generated_token_ids) == ("stop", [])
        client.open_session("a")
        first, stats = generated(client, PROMPT, session_id="a")
        assert first == whole
        parts = [{"text": PROMPT}, {"ids": stats.generated_token_ids}, {"text": "\nu:2\na:"}]
        second, stats = generated(client, None, session_id="a", prompt_segments=parts)
        assert stats.reused_prompt_tokens == 7 + COUNT - 1
        expected = llama.generate(
            f"{PROMPT}{whole}\nu:2\na:", max_new_tokens=COUNT, special_tokens=False
        )
        assert second == expected
        client.reset_session("a")
        assert generated(client, PROMPT, session_id="a")[1].reused_prompt_tokens == 0
        generated(client, PROMPT, session_id="b")
        with pytest.raises(WorkerError) as refused:
            client.open_session("c")
        assert refused.value.code == "capacity_exhausted"
        client.close_session("a")
        client.open_session("c")


def test_one_session_has_no_name(exported: Callable[..., Path]) -> None:
    with worker(exported("llama"), "--max_sessions", 1) as client:
        with pytest.raises(WorkerError) as refused:
            generated(client, PROMPT, session_id="a")
        assert refused.value.code == "unsupported_session"
        assert generated(client, PROMPT)[1].num_generated_tokens == COUNT


def test_an_answer_is_cancelled(exported: Callable[..., Path]) -> None:
    with worker(exported("llama"), is_slow=True) as client:
        found: list[Any] = []
        given, start = SimpleNamespace(max_new_tokens=80), time.monotonic()
        client.generate(PROMPT, given, lambda _: client.stop(), found.append)
        assert time.monotonic() - start < 40 * STEP_S
        assert found[0].cancelled
        assert found[0].num_generated_tokens < 40
        assert not generated(client, PROMPT, max_new_tokens=3)[1].cancelled


BAD_LINES = [
    "rubbish",
    "{",
    "null",
    "[1]",
    "[" * 100_000,
    "{}",
    '{"op": "open"}',
    '{"op": "dance", "session_id": "a"}',
    '{"op": ["open"], "session_id": "a"}',
    '{"prompt": 1}',
    '{"prompt": ""}',
    '{"prompt": "a", "prompt_segments": []}',
    '{"prompt_segments": []}',
    '{"prompt_segments": [{"ids": [true]}]}',
    '{"prompt_segments": [{"ids": [-1]}]}',
    '{"prompt_segments": [{"ids": "a", "text": "b"}]}',
    '{"prompt": "\\ud800"}',
    '{"prompt": "a", "max_new_tokens": "1"}',
    '{"prompt": "a", "temperature": NaN}',
    '{"prompt": "a", "temperature": true}',
    '{"prompt": "a", "top_p": 0}',
    '{"prompt": "a", "top_k": -1}',
    '{"prompt": "a", "seed": -1}',
    '{"prompt": "a", "stop": "a"}',
    '{"prompt": "a", "session_id": 1}',
    '{"prompt": "a", "cancel_request_id": 1.5}',
    json.dumps({"prompt": "x" * MAX_LENGTH}),
]
GOOD_LINE = json.dumps({"prompt": PROMPT, "max_new_tokens": 3, "stop": ["ab"], "seed": 1})


def last_messages(program: Path, lines: list[bytes]) -> list[dict[str, Any]]:
    """What a worker says last of each line."""
    given = b"".join(line + b"\n" for line in lines)
    done = subprocess.run(
        command(program), input=given, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    ready, *messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert ready["ready"]
    assert not ready["supports_cancel"]
    return [one for one in messages if "token" not in one]


def test_lines_that_are_no_requests(exported: Callable[..., Path]) -> None:
    lines = [one for bad in BAD_LINES for one in (bad.encode(), GOOD_LINE.encode())]
    found = last_messages(exported("llama"), [*lines, b"\xff\xfe", b"", b"  "])
    assert all(one["error"] for one in found[::2])
    assert all(one["done"] for one in found[1::2])
    assert len(found) == len(lines) + 1


def test_random_lines(exported: Callable[..., Path]) -> None:
    chance, lines = random.Random(0), []
    for _ in range(300):
        line = bytearray(GOOD_LINE.encode())
        for _ in range(chance.randint(1, 5)):
            line[chance.randrange(len(line))] = chance.choice(b'{}[]",:0-x\xff\x00 ')
        lines.append(bytes(line))
    found = last_messages(exported("llama"), lines)
    assert len(found) == len(lines)
    assert all(one.get("error") or one.get("done") for one in found)
    assert any("done" in one for one in found)


def test_what_cannot_be_loaded(tmp_path: Path, exported: Callable[..., Path]) -> None:
    paths = ("--model_path", tmp_path / "none.pte", "--tokenizer_path", tmp_path / "none.json")
    done = subprocess.run([SCRIPT, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr


@contextmanager
def stock_server(program: Path, folder: Path) -> Iterator[str]:
    """ExecuTorch's own server with our worker; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = {
        "--worker-bin": SCRIPT,
        "--model-path": program,
        "--tokenizer-path": tokenizer_of(program),
        "--hf-tokenizer": folder,
        "--max-context": MAX_LENGTH,
        "--model-id": "tiny",
        "--port": port,
    }
    module = "executorch.examples.llm_server.python.server"
    options = [str(one) for pair in arguments.items() for one in pair]
    process = subprocess.Popen(
        [sys.executable, "-m", module, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "USE_TORCH": "0"},  # transformers needs none to read a tokenizer
    )
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


def test_the_stock_server_answers_with_it(
    exported: Callable[..., Path], checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    path = exported("llama")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(checkpoints("llama") / name, tmp_path / name)
    messages: Any = [{"role": "user", "content": "1"}]
    prompt = ChatTemplate.read(chat_template_of(path)).render(messages)
    with TextGenerator(path) as generator:
        expected = generator.generate(prompt, max_new_tokens=COUNT, special_tokens=False)
    with stock_server(path, tmp_path) as url:
        client = openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=60)
        for _ in range(600):
            try:
                client.models.list()
                break
            except openai.APIConnectionError:
                time.sleep(0.1)
        create = client.chat.completions.create
        found = create(model="tiny", messages=messages, max_tokens=COUNT)
        assert found.choices[0].message.content == expected
        stream = create(model="tiny", messages=messages, max_tokens=COUNT, stream=True)
        pieces = [one.choices[0].delta.content or "" for one in stream]
        assert "".join(pieces) == expected
