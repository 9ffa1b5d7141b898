"""Conversations: templates, the command, what is remembered."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tiny_checkpoints import CHAT_TEMPLATE, MAX_LENGTH

from aoti_plugins.cli._interrupts import Interrupts
from aoti_plugins.cli.app import app
from aoti_plugins.errors import CheckpointError
from aoti_plugins.generation import Chat, ChatTemplate, TextGenerator, chat_template_of
from aoti_plugins.language import Checkpoint
from aoti_plugins.language.checkpoint import read_chat_template

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
SAID = [
    {"role": "system", "content": " Be kind. "},
    {"role": "user", "content": "1 < 2?"},
    {"role": "assistant", "content": "Yes"},
    {"role": "user", "content": "\u00fc"},
]

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:(torch|transformers)"),
]


def chatted(path: Path, lines: str, *options: object) -> Result:
    arguments = ("chat", path, "--max-new-tokens", 6, *options)
    return CliRunner().invoke(app, [str(one) for one in arguments], input=lines)


LONG_TEMPLATE = """
{%- for message in messages %}
    {%- if loop.index0 % 2 == 1 %}{{ '[' ~ message['role'] ~ ']' }}
    {% endif %}
{{ message.content | tojson }}{{ eos_token }}
  {%- if loop.last %}{% break %}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<answer>{% endif %}
"""


@pytest.mark.parametrize("source", [CHAT_TEMPLATE, LONG_TEMPLATE])
def test_templates_render_as_those_of_transformers(
    source: str, checkpoints: Callable[[str], Path]
) -> None:
    from transformers import PreTrainedTokenizerFast

    file = str(checkpoints("llama") / "tokenizer.json")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=file, chat_template=source, **TOKENS)
    expected = tokenizer.apply_chat_template(SAID, tokenize=False, add_generation_prompt=True)
    assert ChatTemplate(source, TOKENS).render(SAID) == expected


def test_templates_that_are_none_or_refuse() -> None:
    with pytest.raises(CheckpointError, match="is no template"):
        ChatTemplate("{% for %}")
    with pytest.raises(CheckpointError, match="refuses the messages: the system speaks first"):
        ChatTemplate(CHAT_TEMPLATE, TOKENS).render([SAID[1], SAID[0]])
    for source in ("{{ messages.append(1) }}", "{{ ''.__class__.__mro__[1].__subclasses__() }}"):
        with pytest.raises(CheckpointError, match="refuses the messages"):
            ChatTemplate(source).render(SAID)


def test_what_checkpoints_say_of_templates(
    tmp_path: Path, checkpoints: Callable[[str], Path]
) -> None:
    expected = {"template": CHAT_TEMPLATE, "tokens": TOKENS}
    assert Checkpoint(checkpoints("llama")).chat_template == expected
    assert read_chat_template(tmp_path) is None
    settings = tmp_path / "tokenizer_config.json"
    named = [{"name": "tools", "template": "t"}, {"name": "default", "template": "d"}]
    settings.write_text(json.dumps({"chat_template": named, "bos_token": {"content": "<b>"}}))
    expected = {"template": "d", "tokens": {"bos_token": "<b>", "eos_token": ""}}
    assert read_chat_template(tmp_path) == expected
    (tmp_path / "chat_template.jinja").write_text("alone")
    assert read_chat_template(tmp_path) == {**expected, "template": "alone"}
    settings.write_text("[")
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json: damaged"):
        read_chat_template(tmp_path)


def test_a_conversation_is_remembered(exported: Callable[..., Path], llama: TextGenerator) -> None:
    template = ChatTemplate.read(chat_template_of(exported("llama")))
    chat = Chat(llama, template, "Hi")
    first = "".join(chat.reply("1", max_new_tokens=6))
    assert llama.statistics.cached_tokens == 0
    assert [one["content"] for one in chat.messages] == ["Hi", "1", first]
    rendered = template.render([*chat.messages, {"role": "user", "content": "2"}])
    second = "".join(chat.reply("2", max_new_tokens=6))
    assert llama.statistics.cached_tokens > len("<s>s:Hi") - 3
    assert second == llama.generate(rendered, max_new_tokens=6, special_tokens=False)
    pieces = chat.reply("3", max_new_tokens=6)
    begun = next(pieces)
    pieces.close()
    assert chat.messages[-1] == {"role": "assistant", "content": begun}
    chat.clear()
    assert chat.messages == [{"role": "system", "content": "Hi"}]


def test_the_command(exported: Callable[..., Path]) -> None:
    path = exported("llama")
    done = chatted(path, "1\n\n2\n/clear\n1\n", "--statistics")
    assert done.exit_code == 0, done.output
    answers = done.stdout.splitlines()
    assert len(answers) == 3
    assert answers[2] == answers[0]
    took = done.stderr.splitlines()
    assert "of them before" not in took[0]
    assert "of them before" in took[1]


def test_what_does_not_fit_does_not_end_the_conversation(exported: Callable[..., Path]) -> None:
    done = chatted(exported("llama"), "1\n" + "x" * MAX_LENGTH + "\n1\n")
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == 2
    assert f"at most {MAX_LENGTH}" in done.stderr
    assert "/clear begins anew" in done.stderr


def test_what_chat_refuses(tmp_path: Path, exported: Callable[..., Path]) -> None:
    path = exported("llama")
    missing = chatted(path, "1\n", "--template", tmp_path / "none.jinja")
    assert missing.exit_code == 1
    assert "there is no chat template" in missing.stderr
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"template": "x"}')
    found = chatted(path, "1\n", "--template", damaged)
    assert found.exit_code == 1
    assert "not what export writes" in found.stderr


def test_an_interrupt_can_be_held() -> None:
    usual = signal.default_int_handler
    before = signal.signal(signal.SIGINT, usual)  # a shell's background jobs ignore it
    try:
        with Interrupts().held() as came:
            assert not came()
            signal.raise_signal(signal.SIGINT)
            assert came()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is usual
    finally:
        signal.signal(signal.SIGINT, before)
