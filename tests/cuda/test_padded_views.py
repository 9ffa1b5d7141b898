"""Views of buffers whose strides Inductor pads have the strides of the buffers.

One of the four cases fails without the patch with torch 2.11, none with torch 2.13.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch._inductor import config, ir
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V, ops

from aoti_plugins.cuda.inductor.padded_views import padded_views

SIZE = (2, 3, 24, 9, 4)  # 2592 float16 in a row of the first dim, which are padded to 2624


def _computed() -> ir.TensorBox:
    zeros = ir.Pointwise.create(
        device=torch.device("cpu"),
        dtype=torch.float16,
        inner_fn=lambda index: ops.constant(0.0, torch.float16),
        ranges=list(SIZE),
    )
    zeros.realize()
    return zeros


def _buffer(tensor: ir.TensorBox) -> ir.Buffer:
    return ir.as_storage_and_layout(tensor, freeze=False)[0].data


def _strides(size: Sequence[int], viewed_dislikes: bool, decided_dislikes: bool) -> tuple[int, int]:
    """Of the first dim of a view and of its buffer, which two nodes make and decide."""
    module = torch.fx.symbolic_trace(lambda x: x + 1)
    viewed, decided = list(module.graph.nodes)[:2]
    viewed.meta["dislike_padding"] = viewed_dislikes
    decided.meta["dislike_padding"] = decided_dislikes
    with V.set_graph_handler(GraphLowering(module)), config.patch(comprehensive_padding=True):
        tensor = _computed()
        with V.set_current_node(viewed):
            view = ir.View.create(tensor.data, list(size))
        with V.set_current_node(decided):
            buffer = _buffer(tensor)
            if isinstance(buffer.get_layout(), ir.FlexibleLayout):
                buffer.freeze_layout_with_fill_order([4, 3, 2, 1, 0])
        return view.get_layout().stride[0], _buffer(tensor).get_layout().stride[0]


@pytest.mark.parametrize("decided_dislikes", [False, True])
@pytest.mark.parametrize("viewed_dislikes", [False, True])
def test_views_have_the_strides_of_their_buffer(
    viewed_dislikes: bool, decided_dislikes: bool
) -> None:
    with padded_views():
        of_view, of_buffer = _strides((2, 3, 24, 36), viewed_dislikes, decided_dislikes)
    assert of_view == of_buffer
