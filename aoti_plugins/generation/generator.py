"""Generates text with a program."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from aoti_plugins.errors import ProgramError
from aoti_plugins.generation.adapter import AdapterLayout, read_adapter
from aoti_plugins.generation.cached_model import CachedModel, constant, hears
from aoti_plugins.generation.draft import DraftGuesses
from aoti_plugins.generation.led_program import open_program
from aoti_plugins.generation.prompt_lookup import PromptLookup
from aoti_plugins.generation.sampling import Sampling, choose
from aoti_plugins.generation.text_stream import TextStream
from aoti_plugins.generation.tokenizer import read_tokenizer, tokenizer_digest, tokenizer_of
from aoti_plugins.runtime.closing import Closing

Generator = TypeVar("Generator", bound="TextGenerator")


@dataclass
class Statistics:
    """What an answer took.

    Attributes:
        prompt_tokens: tokens of the prompt.
        cached_tokens: how many of them, from the first one on, were in the cache already.
        new_tokens: tokens that were generated, the one that ended the answer included.
        first_token_s: seconds from the call to the first token: reading the prompt, and a choice.
        seconds: seconds until the last token.
        reason: why it ended: ``"end"`` token, ``"stop"`` string, ``"length"``, or empty so far.
        guessed_tokens: tokens that were guessed from the text and checked.
        accepted_tokens: how many of them were right.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    new_tokens: int = 0
    first_token_s: float = 0.0
    seconds: float = 0.0
    reason: str = ""
    guessed_tokens: int = 0
    accepted_tokens: int = 0

    def count(self, was_guessed: bool, seconds: float) -> None:
        """Count a token that was chosen so long after the call."""
        self.new_tokens += 1
        self.accepted_tokens += was_guessed
        self.seconds = seconds
        if self.new_tokens == 1:
            self.first_token_s = seconds

    @property
    def tokens_per_s(self) -> float:
        """New tokens a second after the first one; 0 if there was no second one."""
        later = self.seconds - self.first_token_s
        return (self.new_tokens - 1) / later if self.new_tokens > 1 and later > 0 else 0.0


class TextGenerator(Closing):
    """A program that ``aoti-plugins export`` made, with its tokenizer.

    One answer is generated at a time: a generator has one cache, and ``session`` gives another one
    over the same weights. What a prompt has in common with the text before it, from the first token
    on, is not read again; a recurrent model goes on after all of that text or not at all. Neither
    torch nor transformers is needed.

    Of a program for several ranks there is one generator, on rank 0; the other ranks ``follow``.

    Args:
        program: path of the ``.pte``.
        tokenizer: path of a ``tokenizer.json``; by default the one that export wrote beside the
            program.
        data_files: the ``.ptd`` files of the program.
        speculate: whether a program that was exported with ``--speculate`` checks guessed tokens,
            several in a call. Tokens are chosen as without. ``True`` has them guessed by the
            program's draft model, and looked up in the text where it has none; ``"lookup"`` does
            without the draft model.
        on_device: whether a program that was exported with ``--sample-on-device`` chooses tokens;
            they are the same on the host, up to rounding.
        adapters: folders of adapters (LoRA) by name, for a program that was exported with
            ``--lora-rank``. They are read now, and ``use_adapter`` chooses one.

    Raises:
        ProgramError: the program is damaged, no language model, or takes no adapters.
        CheckpointError: the tokenizer is missing, damaged, or not the program's, or an adapter
            cannot be read, or does not fit.

    Example:
        >>> with TextGenerator("model.pte") as generator:            # doctest: +SKIP
        ...     for piece in generator.stream("Once", max_new_tokens=32):
        ...         print(piece, end="")
    """

    def __init__(
        self,
        program: str | os.PathLike[str],
        tokenizer: str | os.PathLike[str] | None = None,
        *,
        data_files: Sequence[str | os.PathLike[str]] = (),
        speculate: bool | str = True,
        on_device: bool = True,
        adapters: Mapping[str, str | os.PathLike[str]] | None = None,
    ) -> None:
        path = Path(tokenizer) if tokenizer is not None else tokenizer_of(Path(program))
        self._program = open_program(program, data_files)
        try:
            self._check_kind()
            self.max_length = int(constant(self._program, "get_max_context_len")[0])
            """The most tokens of a prompt and its answer."""
            self.vocabulary = int(constant(self._program, "get_vocab_size")[0])
            self.token_nbytes = int(constant(self._program, "get_token_nbytes", 0)[0])
            """Bytes of weights that are read for a token; 0 where that is not known."""
            self.device = str(constant(self._program, "get_device", "")[0]) or None
            """What it was exported for: ``"cpu"``, ``"cuda"``, ``"mps"``; ``None``: not known."""
            self._end_tokens = {int(one) for one in constant(self._program, "get_eos_ids")}
            self.tokenizer = read_tokenizer(path)
            self._check_tokenizer(path)
            self._adapters = self._read_adapters(adapters or {})
            self._model = CachedModel(self._program)
            self._draft = self._draft_model(speculate)
        except BaseException:
            self._program.close()
            raise
        self._guesses = self._model.num_speculative_tokens if speculate else 0
        self.statistics = Statistics()
        """Of the last answer."""
        self._on_device = on_device
        self._adapter: str | None = None
        self._is_session = False
        self._answer: object = None

    @property
    def tokens_in_cache(self) -> Sequence[int]:
        """The tokens that were read last."""
        return self._model.tokens

    def reusable(self, prompt: Sequence[int]) -> int:
        """How many tokens of a prompt, from the first one on, need not be read again."""
        return self._model.reusable(prompt)

    @property
    def adapters(self) -> list[str]:
        """Names of the adapters that there are."""
        return sorted(self._adapters)

    @property
    def adapter(self) -> str | None:
        """The name of the adapter in use; ``None`` for the model itself."""
        return self._adapter

    def use_adapter(self, name: str | None) -> None:
        """Go on with another adapter, or with ``None`` with the model itself.

        Other sessions keep theirs. What this one has read is forgotten where that changes the
        model, and an answer that it is in cannot go on.

        Raises:
            ProgramError: there is no such adapter.
        """
        if name is not None and name not in self._adapters:
            known = ", ".join(self.adapters) or "none"
            raise ProgramError(f"there is no adapter {name!r}; there are: {known}")
        if name == self._adapter:
            return
        self._answer, self._adapter = None, name
        zeros = np.zeros(self._adapter_numel, np.float32)
        self._model.adapt(zeros if name is None else self._adapters[name])

    def session(self: Generator) -> Generator:
        """Another generator over the same weights, with a cache of its own, and without adapter.

        Answers of sessions may be read in turns, each from a thread of its own if need be. Closing
        one frees its cache; closing this generator ends them all.
        """
        other = copy.copy(self)
        other._model = self._model.apart()
        other._draft = self._draft.apart() if self._draft else None
        other.statistics = Statistics()
        other._is_session = True
        other._adapter = None
        other._answer = None
        return other

    def stream(
        self,
        prompt: str,
        *,
        sampling: Sampling | None = None,
        max_new_tokens: int | None = None,
        stop: Sequence[str] = (),
        special_tokens: bool = True,
    ) -> Iterator[str]:
        """Generate text after a prompt, in pieces.

        Args:
            prompt: the text before it.
            sampling: how tokens are chosen; by default the likeliest.
            max_new_tokens: the most tokens of the answer; by default what fits.
            stop: strings that end the answer; they are not part of it.
            special_tokens: whether the tokenizer adds what it adds to a text, such as a token for
                its beginning; what a chat template made has these already.

        Returns:
            Pieces of text. ``statistics`` has what the answer took.

        Raises:
            ProgramError: the prompt has no tokens, or leaves no room for an answer; while pieces
                are read also that another answer began on this generator.
        """
        read = self.tokenizer.encode(prompt, add_special_tokens=special_tokens).ids
        tokens = self.tokens(read, sampling, max_new_tokens)
        return self._pieces(tokens, TextStream(self.tokenizer, stop))

    def generate(self, prompt: str, **options: Any) -> str:
        """The whole text that ``stream`` gives."""
        return "".join(self.stream(prompt, **options))

    def tokens(
        self,
        prompt: Sequence[int],
        sampling: Sampling | None = None,
        max_new_tokens: int | None = None,
    ) -> Iterator[int]:
        """Generate tokens after those of a prompt; an end token is the last of them.

        Args:
            prompt: token numbers.
            sampling: how tokens are chosen; by default the likeliest.
            max_new_tokens: the most tokens of the answer; by default what fits.

        Raises:
            ProgramError: as for ``stream``.
        """
        self._check_prompt(prompt)
        most = self.max_length - len(prompt)
        if max_new_tokens is not None:
            most = min(most, max_new_tokens)
        return self._tokens(list(prompt), sampling or Sampling(), most)

    def read(self, prompt: Sequence[int], most: int) -> Iterator[int]:
        """Read a prompt in parts, so that ``tokens`` has no more to read than one.

        For who has something else to do between: a long prompt takes a while.

        Args:
            prompt: token numbers.
            most: tokens of a part, 1 or more.

        Returns:
            After each part how many tokens are in the cache.

        Raises:
            ProgramError: as for ``stream``.
        """
        self._check_prompt(prompt)
        begin = self._model.reusable(prompt)
        while len(prompt) - begin > most:
            self._model.read(prompt[: begin + most], begin)
            begin += most
            yield begin

    def _tokens(self, seen: list[int], sampling: Sampling, most: int) -> Iterator[int]:
        begin = self._model.reusable(seen)
        statistics = self.statistics = Statistics(len(seen), begin)
        random, start = np.random.default_rng(sampling.seed), time.perf_counter()
        guesses = self._guesses_of_text()
        answer = self._answer = object()
        statistics.reason = "length" if most < 1 else ""
        while not statistics.reason:
            self._check_turn(answer)
            guess = self._guess(guesses, seen, begin, most - statistics.new_tokens)
            statistics.guessed_tokens += len(guess)
            accepted = statistics.accepted_tokens
            for logits, guessed in zip(self._logits(seen, guess, begin), [*guess, -1], strict=True):
                self._check_turn(answer)
                if logits is None:
                    ahead = statistics.new_tokens + 1 < most and not self._guesses
                    token = self._model.choose(seen, begin, sampling, random, ahead)
                else:
                    token = self._choose(logits, seen, sampling, random)
                if guess:
                    self._model.keep(seen)
                seen.append(token)
                statistics.count(token == guessed, time.perf_counter() - start)
                statistics.reason = self._end(token, most)
                yield token
                if token != guessed or statistics.reason:
                    break
            begin = len(seen) - 1
            if guess:
                guesses.learn(statistics.accepted_tokens - accepted)

    def _choose(
        self, logits: Any, seen: list[int], sampling: Sampling, random: np.random.Generator
    ) -> int:
        """Choose a token by its logits, which are valid until the next call of the program."""
        return choose(logits, seen, sampling, random)

    def _end(self, token: int, most: int) -> str:
        """Why an answer ends with a token; empty if it goes on."""
        if token in self._end_tokens:
            return "end"
        return "length" if self.statistics.new_tokens >= most else ""

    def _check_turn(self, answer: object) -> None:
        if self._answer is not answer:
            raise ProgramError(
                "another answer began on this generator, which has one cache, or it got another "
                "adapter; give each answer a session() of its own"
            )

    def _guesses_of_text(self) -> PromptLookup | DraftGuesses:
        """What guesses the tokens of an answer."""
        if self._draft is None:
            return PromptLookup(self._guesses)
        return DraftGuesses(self._draft, self._draft_vocabulary, self._guesses)

    def _guess(
        self, guesses: PromptLookup | DraftGuesses, seen: list[int], begin: int, most: int
    ) -> list[int]:
        """Guess the tokens after the next one, unless there is a prompt to read."""
        is_prompt = len(seen) - begin > 1
        return [] if is_prompt or not self._guesses else guesses.guess(seen, most - 1)

    def _logits(self, seen: list[int], guess: list[int], begin: int) -> Any:
        """Logits after the last token, and after each guessed one; ``None`` for the program's."""
        if guess:
            return self._model.read_each([*seen, *guess], begin)
        if self._model.chooses and self._on_device:
            return [None]
        return [self._model.read(seen, begin)]

    def _pieces(self, tokens: Iterator[int], text: TextStream) -> Iterator[str]:
        for token in tokens:
            piece = text.push(token)
            if piece:
                yield piece
            if text.stopped:
                self.statistics.reason = "stop"
                return
        rest = text.flush()
        if text.stopped:
            self.statistics.reason = "stop"
        if rest:
            yield rest

    def _draft_model(self, speculate: bool | str) -> CachedModel | None:
        """The program's draft model, if it has one and it is wanted."""
        wanted = speculate is True and self._model.num_speculative_tokens
        if not wanted or "draft" not in self._program.methods:
            return None
        self._draft_vocabulary = int(constant(self._program, "get_draft_vocab_size")[0])
        return CachedModel(self._program, is_draft=True)

    def _read_adapters(self, folders: Mapping[str, str | os.PathLike[str]]) -> dict[str, Any]:
        self._adapter_numel = int(constant(self._program, "get_adapter_numel", 0)[0])
        if not folders:
            return {}
        if not self._adapter_numel:
            raise ProgramError(f"the {self._program} takes no adapters; export it with --lora-rank")
        layout = AdapterLayout.from_text(constant(self._program, "get_adapter_layout")[0])
        return {name: read_adapter(Path(folder), layout) for name, folder in folders.items()}

    def _check_kind(self) -> None:
        if hears(self._program):
            raise ProgramError(
                f"the {self._program} writes down speech, and takes no prompt; use aoti-plugins "
                "transcribe, or Transcriber"
            )

    def _check_tokenizer(self, path: Path) -> None:
        digest = constant(self._program, "get_tokenizer_digest", 0)[0]
        if digest and int(digest) != tokenizer_digest(path):
            raise ProgramError(
                f"{path}: not the tokenizer that the {self._program} was exported with; take the "
                f"checkpoint's tokenizer.json, or {tokenizer_of(Path('PROGRAM.pte'))} beside it"
            )

    def _check_prompt(self, prompt: Sequence[int]) -> None:
        if not prompt:
            raise ProgramError("the prompt has no tokens; give at least one")
        wrong = [token for token in prompt if not 0 <= token < self.vocabulary]
        if wrong:
            raise ProgramError(
                f"token {wrong[0]} of the prompt is none of the program's {self.vocabulary}"
            )
        if len(prompt) >= self.max_length:
            raise ProgramError(
                f"the prompt has {len(prompt)} tokens, and prompt and answer together can have at "
                f"most {self.max_length}; shorten it, or export with a larger --max-length"
            )

    def close(self) -> None:
        """Free the program; of a session, its cache."""
        if self._is_session:
            self._model.close()
            if self._draft is not None:
                self._draft.close()
        else:
            self._program.close()
