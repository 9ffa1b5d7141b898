"""Train a small language model that adds, subtracts and greets, and write it as a checkpoint.

The folder is as ``save_pretrained`` writes one: ``aoti-plugins export`` takes it, as it takes a
downloaded model. Everything is made here, the text and the tokenizer too; nothing is downloaded.
At the end it is asked sums that it was trained on, and some that it was not. The exit code is 1 if
it learned too little to talk to.

    python examples/chat/train.py build/chat/checkpoint
    python examples/chat/train.py /tmp/checkpoint --steps 1200 --seed 1
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

END = "<|end|>"
USER, ASSISTANT = "<|user|>", "<|assistant|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content | trim }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
GREETINGS = {
    "Hello!": "Hello! Ask me for a sum.",
    "Who are you?": "A small model. I add and subtract.",
    "Thank you!": "You are welcome.",
    "Goodbye!": "Goodbye!",
}
QUESTIONS = ("What is {}?", "How much is {}?", "{} = ?", "Please compute {}.")
LARGEST = 12
HELD_OUT = 20
CONTEXT = 256
# Of each batch; on two cores 500 steps of these take a minute.
ROWS = 32
LEARNING_RATE = 4e-3
LEAST_RIGHT = 0.9

Dialogue = list[tuple[str, str]]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    quiet()
    console = Console(stderr=True, soft_wrap=True)
    kept, held_out = sums(options.seed)
    tokenizer = train_tokenizer(dialogues(kept, options.seed), options.folder)
    model = make_model(tokenizer, options.seed)
    size = sum(parameter.numel() for parameter in model.parameters())
    console.print(
        f"A Llama of {size:,} parameters, {tokenizer.get_vocab_size()} tokens, "
        f"{len(kept)} sums; {len(held_out)} more are kept from it."
    )
    loss = train(model, tokenizer, dialogues(kept, options.seed), options.steps, console)
    model.save_pretrained(options.folder)
    asked = kept[:HELD_OUT]
    right, new = (
        sum(is_right(model, tokenizer, one) for one in questions) for questions in (asked, held_out)
    )
    console.print(
        f"Loss {loss:.3f}; right are {right} of {len(asked)} sums that it was trained on, and "
        f"{new} of {len(held_out)} that it never saw. The checkpoint is {options.folder}."
    )
    if right < options.least * len(asked):
        console.print("That is too little; try more --steps.", style="red")
        return 1
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the checkpoint goes")
    parser.add_argument("--steps", type=int, default=500, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    parser.add_argument(
        "--least",
        type=float,
        default=LEAST_RIGHT,
        help="share of the trained sums that have to be right (default: %(default)s)",
    )
    return parser.parse_args(arguments)


def quiet() -> None:
    """Keep notes of torch and torchao, and a progress bar for one file, out of the output."""
    for name in ("torchao", "torch.utils._pytree"):
        logging.getLogger(name).setLevel(logging.ERROR)
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()


def sums(seed: int) -> tuple[list[str], list[str]]:
    """All sums and differences of small numbers, and those that are not trained on."""
    numbers = range(LARGEST + 1)
    found = [f"{a} + {b}" for a in numbers for b in numbers if a + b <= LARGEST]
    found += [f"{a} - {b}" for a in numbers for b in range(a + 1)]
    random.Random(seed).shuffle(found)
    return found[HELD_OUT:], found[:HELD_OUT]


def answer(question: str) -> str:
    """``"3 + 5"`` to ``"3 + 5 = 8"``."""
    first, sign, second = question.split()
    value = int(first) + int(second) if sign == "+" else int(first) - int(second)
    return f"{question} = {value}"


def dialogues(kept: Sequence[str], seed: int) -> Iterator[Dialogue]:
    """Conversations without end, of two to four questions each."""
    chance = random.Random(seed)
    while True:
        turns: Dialogue = []
        for _ in range(chance.randint(2, 4)):
            if chance.random() < 0.1:
                turns.append(chance.choice(list(GREETINGS.items())))
            else:
                question = chance.choice(kept)
                turns.append((chance.choice(QUESTIONS).format(question), answer(question)))
        yield turns


def train_tokenizer(texts: Iterator[Dialogue], folder: Path) -> Any:
    """A byte-pair tokenizer that keeps digits apart, written as ``tokenizer.json``."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    parts = (pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(list(parts))
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=[END, USER, ASSISTANT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    lines = (line for _ in range(2000) for turn in next(texts) for line in turn)
    tokenizer.train_from_iterator(lines, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": END, "chat_template": CHAT_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    return tokenizer


def make_model(tokenizer: Any, seed: int) -> Any:
    """A Llama with random weights; all widths are multiples of 32, as groups of weights are."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    end = tokenizer.token_to_id(END)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=128,
            intermediate_size=352,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=end,
            pad_token_id=end,
        )
    )


def train(
    model: Any, tokenizer: Any, texts: Iterator[Dialogue], steps: int, console: Console
) -> float:
    """Learn the answers, not the questions; returns the last loss."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    model.train()
    loss = torch.tensor(float("nan"))
    for _ in track(range(steps), "training", console=console):
        tokens, labels = batch(tokenizer, [next(texts) for _ in range(ROWS)])
        loss = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rates.step()
        optimizer.zero_grad()
    model.eval()
    return loss.item()


def batch(tokenizer: Any, texts: Sequence[Dialogue]) -> tuple[Any, Any]:
    """Tokens ``[B, T]``, and labels of the same shape: -100 where nothing is to be learnt."""
    import torch

    rows = [labelled(tokenizer, turns) for turns in texts]
    length = max(len(tokens) for tokens, _ in rows)
    end = tokenizer.token_to_id(END)
    tokens = torch.tensor([[*row, *[end] * (length - len(row))] for row, _ in rows])
    labels = torch.tensor([[*row, *[-100] * (length - len(row))] for _, row in rows])
    return tokens, labels


def labelled(tokenizer: Any, turns: Dialogue) -> tuple[list[int], list[int]]:
    """The tokens of a conversation, and those of them that are to be learnt."""
    tokens: list[int] = []
    labels: list[int] = []
    for question, reply in turns:
        given = tokenizer.encode(f"{USER}{question}{END}{ASSISTANT}").ids
        learnt = tokenizer.encode(f"{reply}{END}").ids
        tokens += given + learnt
        labels += [-100] * len(given) + learnt
    return tokens, labels


def is_right(model: Any, tokenizer: Any, question: str) -> bool:
    """Whether the model answers a question as it should."""
    import torch

    text = f"{USER}{QUESTIONS[0].format(question)}{END}{ASSISTANT}"
    prompt = torch.tensor([tokenizer.encode(text).ids])
    mask = torch.ones_like(prompt)
    tokens = model.generate(prompt, attention_mask=mask, max_new_tokens=16, do_sample=False)
    reply: str = tokenizer.decode(tokens[0, prompt.shape[1] :].tolist())
    return reply.strip() == answer(question)


if __name__ == "__main__":
    sys.exit(main())
