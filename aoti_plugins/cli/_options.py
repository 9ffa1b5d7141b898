"""Options of several commands, and how ``--option name=value`` is read for a partitioner."""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import click

from aoti_plugins.cuda.driver_library import open_driver
from aoti_plugins.errors import LoweringError

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

PATH = click.Path(path_type=Path)
"""The type of options and arguments that are paths."""

program_argument = click.argument("program", type=PATH)

data_option = click.option(
    "--data",
    "data_files",
    multiple=True,
    type=PATH,
    help="A .ptd file with weights of the program; may be repeated.",
)

tokenizer_option = click.option(
    "--tokenizer",
    type=PATH,
    help="A tokenizer.json.  [default: what export wrote beside the program]",
)

template_option = click.option(
    "--template",
    type=PATH,
    help="A chat template in Jinja.  [default: what export wrote beside the program]",
)


def _read_adapters(
    context: click.Context, parameter: click.Parameter, texts: Sequence[str]
) -> dict[str, Path]:
    """``NAME=FOLDER``, or a folder whose last part is the name."""
    found: dict[str, Path] = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        path = Path(folder if equals else text)
        name = name if equals else path.name
        if not name or name in found or str(path) in ("", "."):
            raise click.BadParameter(f"{text!r}: expected NAME=FOLDER, each name once")
        found[name] = path
    return found


adapter_option = click.option(
    "--adapter",
    "adapters",
    multiple=True,
    metavar="NAME=FOLDER",
    callback=_read_adapters,
    help="An adapter (LoRA) that peft wrote, for a program that was exported with --lora-rank.",
)


def together(*options: Decorator) -> Decorator:
    """Several options as one decorator, in the order in which the help lists them."""

    def give(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return give


def number_option(
    *names: str, default: int, least: int = 0, most: int | None = None, help: str | None = None
) -> Decorator:
    """An option that is a number, from the least to the most; its default is shown."""
    numbers = click.IntRange(least, most)
    return click.option(*names, type=numbers, default=default, show_default=True, help=help)


device_option = click.option(
    "--device", default="cpu", show_default=True, help="Device to lower for."
)

partitioner_option = click.option(
    "--option",
    "option_texts",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the device's partitioner, such as target, targets, external_data, "
    "debug_info, keep_sources, share_state, allow_missing_kernels, for cuda also max_autotune, "
    "tuning, save_tuning, cuda_graphs, target_device, for mps minimum_macos, gpu_cores, "
    "codesign_identity; may be repeated.",
)

exclude_option = click.option(
    "--exclude",
    multiple=True,
    metavar="OP",
    help="An op that stays outside the delegate, such as aten.cumsum.default; may be repeated.",
)

method_option = click.option(
    "--method", "method_name", help="Method to run.  [default: forward, or the only one]"
)

input_option = click.option(
    "-i",
    "--input",
    "sources",
    multiple=True,
    metavar="[NAME=]FILE|NUMBER",
    help="An input: .npy, .npz or .pt (several values each are taken in order), a number, true, "
    "false or none; may be repeated. By name, in any order, where the program says names: "
    "x=x.npy.  [default: random inputs]",
)

random_seed_option = click.option(
    "--random-seed", default=0, show_default=True, help="Seed of random inputs."
)

generator_options = together(data_option, tokenizer_option, adapter_option)
"""Of commands that generate text with a program."""

call_options = together(data_option, method_option, input_option, random_seed_option)
"""Of commands that call a method of a program."""

device_options = together(device_option, partitioner_option, exclude_option)
"""Of commands that say what to lower for, and how."""

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def partitioner_for(device: str) -> Callable[..., Any]:
    """Return the partitioner class of a device.

    Raises:
        LoweringError: there is no such device.
    """
    from aoti_plugins.plugin_system.devices import device_names, installed_device

    if device not in device_names():
        raise LoweringError(
            f"cannot lower for device {device!r}; there are: {', '.join(device_names())}"
        )
    return installed_device(device).partitioner()


def device_of_this_machine() -> str:
    """Name the fastest device that programs can run on here."""
    if sys.platform == "darwin":
        return "mps"
    return "cuda" if _nvidia_gpus() else "cpu"


def _nvidia_gpus() -> int:
    count, driver = ctypes.c_int(), open_driver()
    if driver is None:
        return 0
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return 0 if failed else count.value


def parse_options(texts: Iterable[str], partitioner: Callable[..., Any]) -> dict[str, Any]:
    """Parse options against the partitioner's signature.

    Raises:
        LoweringError: an unknown name, a repeated one, or a value that does not parse; names what
            is known.
    """
    known = option_defaults(partitioner)
    result: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in known:
            raise LoweringError(
                f"--option {text}: expected name=value with a name of: {', '.join(sorted(known))}"
            )
        if name in result:
            raise LoweringError(f"--option {text}: {name} is given twice")
        result[name] = _parse(text, value.strip(), known[name])
    return result


def lowering_options(
    texts: Iterable[str], exclude: Sequence[str], partitioner: Callable[..., Any]
) -> dict[str, Any]:
    """Options of ``--option`` and ``--exclude`` together; see ``parse_options``."""
    options = parse_options(texts, partitioner)
    if exclude:
        options["exclude"] = (*options.get("exclude", ()), *exclude)
    return options


def option_defaults(partitioner: Callable[..., Any]) -> dict[str, Any]:
    """The options of a partitioner, and what each is where it is not given."""
    parameters = inspect.signature(partitioner).parameters.values()
    return {one.name: one.default for one in parameters if one.name != "compile_specs"}


def _parse(text: str, value: str, default: Any) -> Any:
    """Read a value as what the option's default is; a text where it may be more than a bool."""
    if isinstance(default, bool):
        if value.lower() in _BOOLEANS:
            return _BOOLEANS[value.lower()]
        if text.startswith("external"):
            return value
        raise LoweringError(f"--option {text}: expected true or false, found {value!r}")
    if isinstance(default, (tuple, list)):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(default, (int, float)):
        try:
            return type(default)(value)
        except ValueError as error:
            raise LoweringError(f"--option {text}: expected a number, found {value!r}") from error
    return value
