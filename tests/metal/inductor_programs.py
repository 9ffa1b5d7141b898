"""What Inductor makes of a module for Apple GPUs: kernels, and the wrapper that launches them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from metal_library import Library
from support import lower

_SOURCE = re.compile(r'const char\* (\w+)_source = \(R"MTL\((.*?)\)MTL"\)', re.DOTALL)
_ARRAY = re.compile(r"int64_t (int_array_\d+)\[\] = \{([^}]*)\}")
_EMPTY = re.compile(
    r"aoti_torch_empty_strided\(\d+, (\w+), (\w+), cached_torch_dtype_(\w+),.*&(\w+)_handle\)"
)
_LAUNCH = re.compile(r"auto (\w+)_lambda_\d+ = ")
_ARGUMENT = re.compile(r"aoti_torch_mps_set_arg_tensor\(handle, (\d+), (\w+)\)")
_SIZES = re.compile(r"uint64_t \w+_(threads|group_size)_array\[\] = \{(.*)\};")
_SINGLE = re.compile(r"aoti_torch_mps_dispatch_single\(handle, (.*)\);")
_INPUT = re.compile(r"auto (\w+) = std::move\(inputs\[(\d+)\]\)")
_OUTPUT = re.compile(r"output_handles\[(\d+)\] = (\w+)\.release\(\)")
# Calls that the interpreter below does not know.
_UNKNOWN = re.compile(
    r"aoti_torch_mps_\w*(?:_out|convolution|attention)\(|reinterpret_tensor_wrapper"
)
# Where a kernel tells of an index out of range.
_FAULT_INDEX = 30
_FAULT = f"[[buffer({_FAULT_INDEX})]]"


class _CapturedError(Exception):
    """Ends the lowering where the generated code is there."""


@dataclass
class Program:
    """A wrapper, read line by line instead of being compiled."""

    wrapper: str

    @property
    def sources(self) -> dict[str, str]:
        """The kernels, by the name of their library."""
        return dict(_SOURCE.findall(self.wrapper))

    def run(
        self,
        module: torch.nn.Module,
        inputs: tuple[torch.Tensor, ...],
        compiled: Callable[[str], Library],
    ) -> list[torch.Tensor]:
        """Do what the wrapper says, with kernels on the host."""
        assert not _UNKNOWN.search(self.wrapper), "the wrapper calls more than its own kernels"
        tensors = {n.replace(".", "_"): t.detach() for n, t in module.state_dict().items()}
        arrays: dict[str, list[int]] = {}
        launch: dict[str, Any] = {}
        outputs: dict[int, torch.Tensor] = {}
        for line in self.wrapper.splitlines():
            if match := _INPUT.search(line):
                tensors[match[1]] = inputs[int(match[2])]
            elif match := _ARRAY.search(line):
                arrays[match[1]] = _numbers(match[2])
            elif match := _EMPTY.search(line):
                dtype = getattr(torch, match[3])
                empty = torch.empty_strided(arrays[match[1]], arrays[match[2]], dtype=dtype)
                tensors[match[4]] = empty.fill_(float("nan") if dtype.is_floating_point else 99)
            elif match := _LAUNCH.search(line):
                launch = {"library": match[1], "arguments": {}}
            elif match := _ARGUMENT.search(line):
                launch["arguments"][int(match[1])] = tensors[match[2]]
            elif match := _SIZES.search(line):
                launch[match[1]] = _numbers(match[2])
            elif match := _SINGLE.search(line):
                launch["threads"] = _numbers(match[1])
            elif match := _OUTPUT.search(line):
                outputs[int(match[1])] = tensors[match[2]]
            if "aoti_torch_mps_dispatch" in line:
                source = self.sources[launch["library"]]
                arguments = [launch["arguments"][i] for i in sorted(launch["arguments"])]
                fault = torch.zeros(1, dtype=torch.int32)
                if _FAULT in source:  # bound as native/src/mps/driver/kernel.h does
                    arguments += [None] * (_FAULT_INDEX - len(arguments)) + [fault]
                kernel = compiled(source)["generated_kernel"]
                kernel(arguments, launch["threads"], launch.get("group_size"))
                assert not fault, "an index was out of range"
        return [outputs[i] for i in sorted(outputs)]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"(?<!\w)(\d+)L*", text)]


def generate(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> Program:
    """Lower a module up to the code that Inductor generates."""
    import aoti_plugins.mps.lowering as mps
    from aoti_plugins import LoweringError, MpsPartitioner

    wrappers: list[str] = []

    def capture(code: Any, *_: Any) -> None:
        wrappers.append(code.wrapper)
        raise _CapturedError

    with mock.patch.object(mps, "build_dylib", capture):
        try:
            lower(module, inputs, partitioner=MpsPartitioner())
        except LoweringError as error:
            if not isinstance(error.__cause__, _CapturedError):
                raise
    (wrapper,) = wrappers
    return Program(wrapper)
