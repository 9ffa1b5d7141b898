"""A language model's program and its cache."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from aoti_plugins.errors import ProgramError
from aoti_plugins.generation.sampling import Sampling
from aoti_plugins.runtime import Method, Program

logger = logging.getLogger(__name__)

_HEARING = "encode"  # the method for audio; must match aoti_plugins/language/export.py
_ADAPTING = "adapt"  # the method that takes an adapter, likewise
_CHOOSING = ("likeliest", "sample")
_CHOSEN_LAST = -1  # stands for the token they chose last; as in language/device_sampling.py
_OF_MODELS = (_HEARING, "forward", "prefill", "decode", "verify", *_CHOOSING, _ADAPTING)
_OF_DRAFTS = ("draft", "draft_decode")


def constant(program: Program, name: str, default: Any = None) -> tuple[Any, ...]:
    """What a constant method of a program gives.

    Args:
        program: of ``aoti-plugins export``.
        name: of the method.
        default: the value of programs that have no such method, as older ones; ``None`` if all
            have.

    Raises:
        ProgramError: there is none, so it is no language model.
    """
    if name in program.methods:
        return program.method(name)()
    if default is None:
        raise _no_language_model(program, name)
    return (default,)


def _no_language_model(program: Program, name: str) -> ProgramError:
    return ProgramError(
        f"the {program} has no method {name!r}, so it is no language model; make one with "
        "aoti-plugins export"
    )


def hears(program: Program) -> bool:
    """Whether a program takes audio, and writes down what it hears."""
    return {_HEARING, "sample_rate"} <= set(program.methods)


class CachedModel:
    """Reads tokens, and knows which are in the cache.

    Args:
        program: of ``aoti-plugins export``.
        apart: whether its cache is not the one that others on this program have.
        is_draft: whether it is the program's draft model, not the model itself.

    Raises:
        ProgramError: the program is no language model, or its methods cannot be loaded.
    """

    def __init__(self, program: Program, apart: bool = False, is_draft: bool = False) -> None:
        self.program = program
        self._is_draft = is_draft
        self.tokens: Sequence[int] = ()
        """Those in the cache: they need not be read again where a text begins with them."""
        self._most_of_a_call = int(constant(program, "get_max_seq_len")[0])
        self._is_recurrent = bool(constant(program, "is_recurrent", False)[0])
        self._begun: deque[Method] = deque()
        """Methods with a call that was begun and not finished, in the order of the calls."""
        # What the last of them reads: so many tokens of a text, the numbers being of this one.
        self._ahead: tuple[Method, int, np.random.Generator] | None = None
        share: Any = False if apart else None
        self._methods: dict[str, Method] = {}
        for name in _OF_DRAFTS if is_draft else _OF_MODELS:
            if name in program.methods:
                self._methods[name] = program.method(name, share_state=share)
                share = self._methods[name] if apart else None
        self._many = self._one_of("draft") if is_draft else self._one_of("forward", "prefill")
        self._one = self._methods.get("draft_decode" if is_draft else "decode", self._many)
        self.chooses = not is_draft and set(_CHOOSING) <= set(self._methods)
        """Whether the program chooses tokens by itself (``choose``)."""
        if self.chooses:
            is_wide = bool(constant(program, "samples_in_float64")[0])
            self._dtype = np.float64 if is_wide else np.float32
            # Programs of older versions do not know the token that stands for the last one. A
            # recurrent state that is ahead of an answer which is left could not be used again.
            knows = bool(constant(program, "samples_ahead", False)[0])
            self._can_look_ahead = knows and not self._is_recurrent
        known = int(constant(program, "get_num_speculative_tokens", 0)[0])
        self.num_speculative_tokens = known if "verify" in self._methods else 0
        """The most tokens that ``read_each`` takes after the first one."""

    def apart(self) -> CachedModel:
        """Another one over the same weights, with a cache of its own."""
        return CachedModel(self.program, apart=True, is_draft=self._is_draft)

    def reusable(self, tokens: Sequence[int]) -> int:
        """How many tokens of a text, but for its last one, the cache stands for.

        A recurrent model's state stands for the whole text that it has read, and for no part of it.
        """
        common = common_tokens(self.tokens, tokens[:-1])
        return 0 if self._is_recurrent and common < len(self.tokens) else common

    def read(self, tokens: Sequence[int], begin: int) -> Any:
        """Read the tokens from ``begin`` on, as many in a call as the program takes.

        Args:
            tokens: a text of which the cache has the first ``begin`` tokens.
            begin: less than their number.

        Returns:
            The logits after the last one, ``[vocabulary]``, float32, valid until the next call.
        """
        for start in range(begin, len(tokens), self._most_of_a_call):
            end = min(start + self._most_of_a_call, len(tokens))
            logits = self._call(self._one if end - start == 1 else self._many, tokens, start, end)
        return logits.reshape(-1)

    def choose(
        self,
        tokens: Sequence[int],
        begin: int,
        sampling: Sampling,
        random: np.random.Generator,
        ahead: bool = False,
    ) -> int:
        """Read as ``read`` does, and have the program choose the next token.

        Args:
            tokens: a text of which the cache has the first ``begin`` tokens.
            begin: less than their number.
            sampling: how it is chosen.
            random: gives a number for each token that is drawn.
            ahead: whether the token behind it will be asked for, with the same ``random``. A GPU
                then goes on to that one at once, while this one is on its way.
        """
        method = self._methods["likeliest" if sampling.temperature == 0 else "sample"]
        is_fair = sampling.repetition_penalty == 1
        can_begin = (
            is_fair and self._can_look_ahead and isinstance(method, Method) and method.can_begin
        )
        if self._ahead != (method, len(tokens), random):
            self._drop_begun()
            most = 1 if "decode" in self._methods else self._most_of_a_call
            start = max(begin, len(tokens) - most)
            if start > begin:
                self.read(tokens[:start], begin)
            seen = np.array(tokens[-1:]) if is_fair else np.unique(tokens)
            more = seen, self._settings(sampling, random)
            if not can_begin:
                return int(self._call(method, tokens, start, len(tokens), *more)[0])
            self.tokens = ()  # unless the calls come to their end
            self._begin(method, np.array([tokens[start:]]), np.arange(start, len(tokens)), *more)
        self.tokens, self._ahead = (), None
        try:
            if ahead:
                last, place = np.array([_CHOSEN_LAST]), np.array([len(tokens)])
                self._begin(method, last[None], place, last, self._settings(sampling, random))
            self._begun.popleft()
            chosen = int(method.finish(copy=False)[0][0])
        except BaseException:
            self._drop_begun()
            raise
        if ahead:
            self._ahead = (method, len(tokens) + 1, random)
        self.keep([*tokens, chosen] if ahead else tokens)
        return chosen

    def _begin(self, method: Method, *inputs: Any) -> None:
        """Begin a call, which is known to be begun whatever happens around it."""
        self._begun.append(method)
        try:
            method.begin(*inputs)
        except ProgramError:
            self._begun.pop()
            raise

    def _settings(self, sampling: Sampling, random: np.random.Generator) -> Any:
        """The input of ``likeliest`` and ``sample`` that says how."""
        if sampling.temperature == 0:
            return np.array([sampling.repetition_penalty], np.float32)
        given = sampling.repetition_penalty, sampling.temperature, sampling.top_k
        return np.array([*given, sampling.top_p, sampling.min_p, random.random()], self._dtype)

    def _drop_begun(self) -> None:
        """Let calls end that were begun for tokens which nobody wants.

        Where one fails, the cache stands for nothing, and the next call says what is wrong.
        """
        self._ahead = None
        while self._begun:
            try:
                self._begun.popleft().finish(copy=False)
            except ProgramError as error:
                self.tokens = ()
                logger.warning("a call for a token that nobody waits for failed: %s", error)

    def read_each(self, tokens: Sequence[int], begin: int) -> Any:
        """Read at most one token more than ``num_speculative_tokens``, as ``read`` does.

        Returns:
            The logits after each of them, ``[T, vocabulary]``, float32, valid until the next call.
        """
        return self._call(self._methods["verify"], tokens, begin, len(tokens))[0]

    def hear(self, samples: Any) -> None:
        """Take in audio; texts that are read from now on are about it.

        Args:
            samples: ``[n]``, float32, at most as many as the program takes.
        """
        self._drop_begun()
        self.tokens = ()
        self._methods[_HEARING](samples, copy=False)

    def adapt(self, adapter: Any) -> None:
        """Make the model the one that an adapter makes of it; what was read is forgotten.

        Args:
            adapter: ``[numel]``, float32, in the layout of the program.
        """
        self._drop_begun()
        self.tokens = ()
        self._methods[_ADAPTING](adapter, copy=False)

    def keep(self, tokens: Sequence[int]) -> None:
        """Take only these of the tokens that were read for right; what comes replaces the others.

        Args:
            tokens: what all that was read begins with.
        """
        self.tokens = list(tokens)

    def close(self) -> None:
        """Free the methods, and the cache unless others have it, too."""
        for method in self._methods.values():
            method.close()

    def _call(self, method: Method, tokens: Sequence[int], begin: int, end: int, *more: Any) -> Any:
        self._drop_begun()
        self.tokens = ()  # unless the call comes to its end
        inputs = np.array([tokens[begin:end]]), np.arange(begin, end), *more
        logits = method(*inputs, copy=False)[0]
        self.keep(tokens[:end])
        return logits

    def _one_of(self, *names: str) -> Method:
        found = next((self._methods[name] for name in names if name in self._methods), None)
        if found is None:
            raise _no_language_model(self.program, names[0])
        return found


def common_tokens(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts begin with together."""
    pairs = enumerate(zip(one, other))  # noqa: B905  one may be longer
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
