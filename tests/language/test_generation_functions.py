"""The C functions of ``aoti_plugins/generation.h``: what they refuse, logits, threads, order."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_checkpoints import BEGIN, END, MAX_LENGTH

from aoti_plugins.generation import TextGenerator
from aoti_plugins.native_files import RUNNER, library
from aoti_plugins.runtime import Program

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PROMPT = [72, 69, 76, 76, 79]
VOCABULARY = 264
NULL_CALLS = {
    "aotip_language_model_create": ("program", "ret_new"),
    "aotip_language_model_get_info": ("model", "ret_info"),
    "aotip_session_create": ("model", "ret_new"),
    "aotip_session_cached": ("session", "ret_count"),
    "aotip_session_next": ("session", "ret_token", "ret_end"),
    "aotip_session_logits": ("session", "ret_logits"),
    "aotip_session_push": ("session",),
    "aotip_session_adapt": ("session", "adapter"),
    "aotip_session_begin": ("session",),
}


class Info(ctypes.Structure):
    """``aotip_language_model_info``."""

    _fields_ = (
        ("vocabulary", c_int64),
        ("max_length", c_int64),
        ("begin_token", c_int64),
        ("end_tokens", ctypes.POINTER(c_int64)),
        ("n_end_tokens", c_size_t),
        ("adapter_numel", c_int64),
        ("is_recurrent", c_int32),
    )


class Sampling(ctypes.Structure):
    """``aotip_sampling``."""

    _fields_ = (
        ("repetition_penalty", c_double),
        ("temperature", c_double),
        ("top_k", c_int64),
        ("top_p", c_double),
        ("min_p", c_double),
        ("seed", c_uint64),
        ("has_seed", c_int32),
    )


class Functions:
    """The library, a program and a model in it; ``ok`` calls a function that has to succeed."""

    def __init__(self, path: Path) -> None:
        Program(path).close()  # registers the delegates
        self.library = ctypes.CDLL(str(library(RUNNER)))
        self.library.aotip_last_error.restype = ctypes.c_char_p
        self.program, self.model = c_void_p(), c_void_p()
        self.ok("aotip_program_load", os.fsencode(path), None, c_size_t(0), 0, byref(self.program))
        self.ok("aotip_language_model_create", self.program, byref(self.model))

    def ok(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        assert code == 0, (name, self.library.aotip_last_error())

    def fails(self, name: str, *arguments: Any) -> str:
        assert getattr(self.library, name)(*arguments) != 0
        return str(self.library.aotip_last_error().decode())

    def session(self) -> c_void_p:
        session = c_void_p()
        self.ok("aotip_session_create", self.model, byref(session))
        return session

    def begin(self, session: c_void_p, prompt: list[int], sampling: Any = None) -> None:
        tokens = (c_int64 * len(prompt))(*prompt)
        self.ok("aotip_session_begin", session, tokens, c_size_t(len(prompt)), sampling)

    def next(self, session: c_void_p) -> tuple[int, int]:
        token, end = c_int64(), c_int32()
        self.ok("aotip_session_next", session, byref(token), byref(end))
        return token.value, end.value

    def logits(self, session: c_void_p) -> Any:
        found = ctypes.POINTER(ctypes.c_float)()
        self.ok("aotip_session_logits", session, byref(found))
        return np.ctypeslib.as_array(found, (VOCABULARY,)).copy()

    def destroy(self, kind: str, handle: c_void_p) -> None:
        destroy = getattr(self.library, f"aotip_{kind}_destroy")
        destroy.restype = None
        destroy(handle)

    def close(self) -> None:
        self.destroy("language_model", self.model)
        self.destroy("program", self.program)


@pytest.fixture
def functions(exported: Callable[..., Path]) -> Iterator[Functions]:
    found = Functions(exported("llama"))
    yield found
    found.close()


def test_null_is_an_error(functions: Functions) -> None:
    some = ctypes.create_string_buffer(256)  # for what is not looked at
    for name, arguments in NULL_CALLS.items():
        given: list[Any] = [some] * len(arguments)
        given[0] = None
        message = functions.fails(name, *given, c_size_t(1), None)
        assert message == f"{arguments[0]} is null"
    session = functions.session()
    for name, arguments in NULL_CALLS.items():
        first = {"program": functions.program, "model": functions.model}.get(arguments[0], session)
        for i in range(1, len(arguments)):
            given = [first, *[some] * (len(arguments) - 1)]
            given[i] = None
            assert functions.fails(name, *given, c_size_t(1)) == f"{arguments[i]} is null"
    assert functions.fails("aotip_session_begin", session, None, c_size_t(1), None) == (
        "tokens is null"
    )
    functions.destroy("session", session)
    for kind in ("program", "language_model", "session"):
        functions.destroy(kind, c_void_p())
    functions.library.aotip_sampling_init(None)


def test_what_a_model_is(functions: Functions) -> None:
    info = Info()
    functions.ok("aotip_language_model_get_info", functions.model, byref(info))
    assert (info.vocabulary, info.max_length) == (VOCABULARY, MAX_LENGTH)
    assert (info.begin_token, info.adapter_numel, info.is_recurrent) == (BEGIN, 0, 0)
    assert info.end_tokens[: info.n_end_tokens] == [END]


def test_sampling_begins_as_the_likeliest_token(functions: Functions) -> None:
    sampling = Sampling(seed=9, has_seed=1, top_k=4)
    functions.library.aotip_sampling_init(byref(sampling))
    found = {name: getattr(sampling, name) for name, _ in Sampling._fields_}
    assert found == {
        **{"repetition_penalty": 1, "temperature": 0, "top_k": 0, "top_p": 1, "min_p": 0},
        **{"seed": 0, "has_seed": 0},
    }


def test_without_a_seed_answers_differ(functions: Functions) -> None:
    session, answers = functions.session(), set()
    sampling = Sampling(repetition_penalty=1, temperature=5, top_p=1)
    for _ in range(3):
        functions.begin(session, PROMPT, byref(sampling))
        answers.add(tuple(functions.next(session)[0] for _ in range(20)))
    functions.destroy("session", session)
    assert len(answers) == 3


def test_a_caller_may_choose_by_logits(functions: Functions, llama: TextGenerator) -> None:
    expected = list(llama.tokens(PROMPT, max_new_tokens=12))
    session = functions.session()
    functions.begin(session, PROMPT)
    found = []
    for _ in range(12):
        logits = functions.logits(session)
        assert np.array_equal(functions.logits(session), logits)
        found.append(int(logits.argmax()))
        functions.ok("aotip_session_push", session, c_int64(found[-1]))
    assert found == expected
    message = functions.fails("aotip_session_push", session, c_int64(VOCABULARY))
    assert message == f"token {VOCABULARY} that was pushed is none of the program's {VOCABULARY}"
    functions.destroy("session", session)


def test_what_is_in_the_cache_is_not_read_again(functions: Functions, llama: TextGenerator) -> None:
    session, count = functions.session(), c_size_t(7)
    functions.begin(session, PROMPT)
    answer = [functions.next(session)[0] for _ in range(4)]
    functions.ok("aotip_session_cached", session, byref(count))
    assert count.value == 0
    longer = [*PROMPT, *answer, 7, 8]
    functions.begin(session, longer)
    functions.ok("aotip_session_cached", session, byref(count))
    assert count.value == len(PROMPT) + 3  # the last token was never read
    expected = list(llama.tokens(longer, max_new_tokens=6))
    assert [functions.next(session)[0] for _ in range(6)] == expected
    functions.destroy("session", session)


def test_calls_that_come_too_early_or_too_late(functions: Functions) -> None:
    session, token, end = functions.session(), c_int64(), c_int32()
    next_ = ("aotip_session_next", session, byref(token), byref(end))
    logits = ctypes.POINTER(ctypes.c_float)()
    for call in (next_, ("aotip_session_logits", session, byref(logits))):
        assert functions.fails(*call) == "no answer was begun; call aotip_session_begin"
    functions.begin(session, PROMPT)
    found = [functions.next(session)[1] for _ in range(MAX_LENGTH - len(PROMPT))]
    assert found == [0] * (len(found) - 1) + [2]
    message = f"the text has all the {MAX_LENGTH} tokens that the program takes"
    assert functions.fails(*next_) == message
    assert functions.fails("aotip_session_push", session, c_int64(1)) == message
    functions.begin(session, PROMPT)  # and another answer begins
    assert functions.next(session)[1] == 0
    functions.destroy("session", session)


def test_a_session_outlives_its_model(exported: Callable[..., Path], llama: TextGenerator) -> None:
    functions = Functions(exported("llama"))
    session = functions.session()
    functions.close()
    functions.begin(session, PROMPT)
    expected = list(llama.tokens(PROMPT, max_new_tokens=6))
    assert [functions.next(session)[0] for _ in range(6)] == expected
    functions.destroy("session", session)


def test_threads(functions: Functions, llama: TextGenerator) -> None:
    """Of sessions of their own, and of one session, whose calls wait for each other."""
    prompts = [PROMPT, [11, 12, 11], [40], [33, 34]]
    expected = [list(llama.tokens(one, max_new_tokens=40)) for one in prompts]

    def answer(prompt: list[int]) -> list[int]:
        session = functions.session()
        functions.begin(session, prompt)
        tokens = [functions.next(session)[0] for _ in range(40)]
        functions.destroy("session", session)
        return tokens

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(answer, prompts)) == expected
        session = functions.session()
        functions.begin(session, PROMPT)
        found = list(pool.map(lambda _: functions.next(session)[0], range(40)))
    functions.destroy("session", session)
    assert sorted(found) == sorted(expected[0])
