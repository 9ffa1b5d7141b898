"""Convolutions that are alike: of those a small one is asked about, whose answer is theirs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from test_questions_together import LAUNCHES, PARTITIONERS, parts_of
from torch import Tensor, nn
from torch.fx import Node

from aoti_plugins.lowering.inductor import probe as probing
from aoti_plugins.lowering.inductor.alike import smallest_alike, strides_alike

LAST = torch.channels_last


class Convolutions(nn.Module):
    """Convolutions of many sizes, with one result in ``alike`` kinds."""

    def __init__(self) -> None:
        super().__init__()
        conv = nn.Conv2d
        self.kinds = nn.ModuleList(
            [
                conv(16, 24, 3, padding=1),
                conv(24, 40, 3, padding=1),
                conv(40, 64, 3, padding=1),
                conv(16, 72, 1, bias=False),
                conv(72, 32, 1, bias=False),
                conv(3, 32, 7, stride=2, padding=3),
                conv(5, 16, 7, stride=2, padding=3),
                conv(48, 48, 5, stride=2, padding=2, groups=48),
                conv(96, 96, 5, stride=2, padding=2, groups=96),
                conv(7, 7, 5, stride=2, padding=2, groups=7),
                conv(32, 64, 3, padding=1, groups=4),
                conv(8, 8, 3, padding=2, dilation=2),
                conv(1, 2, 16, stride=16),
                conv(1, 1, 3, padding=1, groups=1),
            ]
        )
        self.line = nn.ModuleList([nn.Conv1d(12, 20, 3, padding=1), nn.Conv1d(20, 28, 3)])
        self.space = nn.Conv3d(4, 9, (2, 3, 3))

    def forward(self, image: Tensor) -> list[Tensor]:
        found = []
        for conv in self.kinds:
            x = image[:, :1].expand(-1, 2 * conv.in_channels, -1, -1).contiguous()
            few = x[:, : conv.in_channels]
            found += [conv(few), conv(few.contiguous()), conv(few.contiguous(memory_format=LAST))]
            found += [conv(few[:1].mT), conv(few[:, :, :16, :17])]
        for conv in self.line:
            x = image[0, 0, :, None].expand(-1, conv.in_channels, -1)
            found += [conv(x), conv(x.contiguous())]
        return [*found, self.space(image[:, :1, None].expand(-1, 4, 5, -1, -1))]


def convolutions(dtype: torch.dtype) -> list[Node]:
    model = Convolutions().eval().to(dtype)
    exported = torch.export.export(model, (torch.randn(2, 3, 20, 33).to(dtype),))
    return [n for n in exported.graph.nodes if "conv" in str(n.target)]


@pytest.mark.parametrize("device", PARTITIONERS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_answer_about_a_small_one_is_theirs(device: str, dtype: torch.dtype) -> None:
    nodes = convolutions(dtype)
    _, probe = parts_of(device)
    asked = {(q := probing._question_of(node)).key: (q, probe._question(node)) for node in nodes}
    asked = {key: both for key, both in asked.items() if both[1].key != key}
    small = {one.key: one for _, one in asked.values()}
    assert len(small) < len(asked)
    answers = {key: probe._answer(one) for key, one in small.items()}
    for question, one in asked.values():
        alone, answer = probe._answer(question), answers[one.key]
        kernels = [
            {shim for shim in found.shims if not shim.startswith(LAUNCHES)}
            for found in (alone, answer)
        ]
        assert kernels[0] == kernels[1], question
        assert replace(alone, shims=frozenset()) == replace(answer, shims=frozenset()), question


def test_convolutions_of_many_sizes_are_one_question() -> None:
    nodes = convolutions(torch.float32)
    _, probe = parts_of("cuda")
    sizes = {id(node): node.args[1].meta["val"].shape for node in nodes}
    squares = [n for n in nodes if sizes[id(n)] in {(24, 16, 3, 3), (40, 24, 3, 3), (64, 40, 3, 3)}]
    contiguous = [n for n in squares if n.args[0].meta["val"].is_contiguous()]
    assert len({probing._question_of(node).key for node in contiguous}) > 2
    assert len({probe._question(node).key for node in contiguous}) == 1


def test_what_a_plugin_decomposes_is_asked_as_it_is() -> None:
    nodes = convolutions(torch.float32)
    _, probe = parts_of("cuda")
    probe._decompositions[nodes[0].target] = lambda *args: None
    assert probe._question(nodes[0]).key == probing._question_of(nodes[0]).key


def test_a_small_one_has_the_ones_and_layouts_of_the_large() -> None:
    one = (1, 1), (0, 0), (1, 1)
    found = smallest_alike((1, 64, 1, 56), (2, 64, 1, 1), *one, 1)
    assert found == ((1, 8, 1, 3), (2, 8, 1, 1), 1)
    assert smallest_alike((4, 64, 9, 9), (32, 16, 1, 1), *one, 4) is None
    assert strides_alike((2, 64, 9, 9), (5184, 1, 576, 64), (2, 8, 3, 3)) == (72, 1, 24, 8)
    assert strides_alike((2, 32, 9, 9), (5184, 81, 9, 1), (2, 8, 3, 3)) == (144, 9, 3, 1)
    assert strides_alike((2, 32, 9, 9), (0, 81, 9, 1), (2, 8, 3, 3)) is None
