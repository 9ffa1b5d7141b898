"""Run Inductor's ahead-of-time path on a graph and take the C++ that it writes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import detect_fake_mode

from aoti_plugins.lowering.inductor.array_names import steady_array_names
from aoti_plugins.lowering.inductor.capture import GeneratedCode, captured_code
from aoti_plugins.lowering.inductor.checked_counts import checked_counts
from aoti_plugins.lowering.inductor.complete_matches import complete_matches
from aoti_plugins.lowering.inductor.gpu.conv_weights import channels_last_weights
from aoti_plugins.lowering.inductor.gpu.placement import Placement, placed_constants
from aoti_plugins.lowering.inductor.indices_from_zero import indices_from_zero
from aoti_plugins.lowering.inductor.kept_operands import kept_operands
from aoti_plugins.lowering.inductor.kept_order import kept_order
from aoti_plugins.lowering.inductor.kernel_sites import kernel_sites
from aoti_plugins.lowering.inductor.known_truths import known_truths
from aoti_plugins.lowering.inductor.libtorch_only import math_attention
from aoti_plugins.lowering.inductor.no_repro import no_repro
from aoti_plugins.lowering.inductor.one_compiler import one_compiler
from aoti_plugins.lowering.inductor.own_folders import own_folders
from aoti_plugins.lowering.inductor.patching import inductor_lock
from aoti_plugins.lowering.inductor.row_major_transforms import row_major_transforms
from aoti_plugins.lowering.inductor.scalar_constants import scalar_constants
from aoti_plugins.lowering.inductor.shim_owners import calls_in
from aoti_plugins.lowering.inductor.short_operands import short_operands
from aoti_plugins.lowering.inductor.size_checks import size_checks
from aoti_plugins.lowering.inductor.stored_values import stored_values
from aoti_plugins.lowering.inductor.symbolic_inputs import symbolic_inputs
from aoti_plugins.lowering.inductor.unknown_ranges import unknown_ranges
from aoti_plugins.lowering.inductor.versions import torch_version, warn_if_untested

# A blob carries no libtorch, no weights and nothing that is computed when it is loaded.
BASE_OPTIONS: Mapping[str, Any] = {
    "aot_inductor.link_libtorch": False,
    "aot_inductor.package": True,
    "aot_inductor.package_constants_in_so": False,
    "aot_inductor.use_runtime_constant_folding": False,
    "freezing": False,
    "fx_graph_cache": False,
    # Before 2.13 a scatter of a whole number into floats gave whole numbers.
    "optimize_scatter_upon_const_tensor": torch_version() >= (2, 13),
}


@dataclass(frozen=True)
class Generation:
    """A graph for which everything is set up.

    Attributes:
        code: is filled by ``run``.
    """

    code: GeneratedCode
    _module: torch.fx.GraphModule
    _inputs: tuple[Any, ...]
    _options: Mapping[str, Any]

    def run(self) -> GeneratedCode:
        """Generate; what is raised is about the graph, or about code of a plugin's that runs."""
        forget_pending_sizes(self._inputs)
        torch._inductor.aot_compile(self._module, self._inputs, options=self._options)
        return self.code


def generate(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    options: Mapping[str, Any],
    environment: AbstractContextManager[None],
    torch_device: str = "cpu",
) -> GeneratedCode:
    """Generate the code of one graph.

    Args:
        module: unlifted graph module; its parameters and buffers become constants.
        inputs: example inputs, fake tensors allowed.
        options: Inductor options of device, plugins and user; they win over ``BASE_OPTIONS``.
        environment: patches for the device and target.
        torch_device: where the program runs; anything but the CPU with an index. Module and inputs
            are on the CPU and are placed there.

    Returns:
        Sources and constants.
    """
    with generation(module, inputs, options, environment, torch_device) as prepared:
        return prepared.run()


@contextmanager
def generation(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    options: Mapping[str, Any],
    environment: AbstractContextManager[None],
    torch_device: str = "cpu",
) -> Iterator[Generation]:
    """Set everything up for one graph; what is raised before the block is about the installation.

    Args:
        module: as for ``generate``; so are the others.
        inputs: example inputs.
        options: Inductor options.
        environment: patches for the device and target.
        torch_device: where the program runs.
    """
    warn_if_untested()
    with ExitStack() as stack:
        stack.enter_context(inductor_lock)
        stack.enter_context(torch.no_grad())
        stack.enter_context(_no_advice())
        stack.enter_context(checked_counts())
        stack.enter_context(own_folders())
        stack.enter_context(no_repro())
        stack.enter_context(one_compiler())
        stack.enter_context(short_operands())
        stack.enter_context(steady_array_names())
        stack.enter_context(math_attention())
        stack.enter_context(row_major_transforms())
        stack.enter_context(stored_values())
        stack.enter_context(complete_matches())
        stack.enter_context(kept_operands())
        stack.enter_context(kept_order())
        stack.enter_context(known_truths())
        stack.enter_context(unknown_ranges())
        stack.enter_context(indices_from_zero())
        stack.enter_context(scalar_constants())
        stack.enter_context(symbolic_inputs())
        stack.enter_context(size_checks())
        stack.enter_context(environment)
        sites = stack.enter_context(kernel_sites())
        if torch_device == "cpu":
            code = stack.enter_context(captured_code(sites=sites))
        else:
            placement = Placement(module, inputs, torch.device(torch_device))
            stack.enter_context(placed_constants(placement))
            stack.enter_context(channels_last_weights(placement))
            code = stack.enter_context(captured_code(placement.real, sites))
            inputs = placement.inputs
        yield Generation(code, module, tuple(inputs), {**BASE_OPTIONS, **options})


@contextmanager
def _no_advice() -> Iterator[None]:
    """Inductor warns of its own choices; where warnings are errors, that would end it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"torch\._inductor\.")
        yield


def forget_pending_sizes(inputs: Sequence[Any]) -> None:
    """Sizes that were made as others traced the program; Inductor would miss them in this graph."""
    mode = detect_fake_mode(inputs)
    if mode is not None and mode.shape_env is not None:
        mode.shape_env.pending_fresh_unbacked_symbols.clear()


def shims_called(code: GeneratedCode) -> frozenset[str]:
    """C shims that appear as calls in the generated sources, PyTorch's names."""
    return calls_in(code.wrapper) | calls_in(code.kernels)
