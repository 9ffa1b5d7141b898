"""Write src/runner/kernel_signatures.inc: what the kernels in executorch's wheel take.

Run it for a new executorch: ``python native/tools/make_kernel_signatures.py``. The operators are
those of the wheel's lists (``kernels/**/*.yaml``), their signatures torch's, or the lists' own; the
table below has those that ExecuTorch's runtime brings itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import executorch
import torch
import yaml

TARGET = Path(__file__).parents[1] / "src" / "runner" / "kernel_signatures.inc"
LISTS = (
    "portable/functions.yaml",
    "portable/custom_ops.yaml",
    "portable/et_copy_ops.yaml",
    "quantized/quantized.yaml",
)

TOP = """\
// What kernels take. Written by native/tools/make_kernel_signatures.py.
//   T tensor   I int   B bool   D float   S int, float or bool   C string
//   E list of tensors   G of tensors that may be missing   L of ints   F of floats   V of bools
// In small letters: or nothing. P: a float if another argument is one, otherwise an int.
"""

LETTERS = {
    "Tensor": "T",
    "int": "I",
    "bool": "B",
    "float": "D",
    "number": "S",
    "str": "C",
    "List[Tensor]": "E",
    "List[Optional[Tensor]]": "G",
    "List[int]": "L",
    "List[float]": "F",
    "List[bool]": "V",
}

RUNTIME = {
    **{f"executorch_prim::{op}.Scalar": "SSP" for op in ("add", "sub", "mul")},
    **{f"executorch_prim::sym_{op}.Scalar": "SSP" for op in ("max", "min")},
    **{f"executorch_prim::{op}.Scalar": "SSB" for op in ("eq", "gt", "lt", "ge", "le")},
    **{f"executorch_prim::{op}.Scalar": "SI" for op in ("ceil", "round", "trunc", "sym_int")},
    "executorch_prim::neg.Scalar": "SP",
    "executorch_prim::floordiv.Scalar": "SSP",
    "executorch_prim::floordiv.int": "III",
    "executorch_prim::mod.Scalar": "SSP",
    "executorch_prim::mod.int": "III",
    "executorch_prim::truediv.Scalar": "SSD",
    "executorch_prim::sym_float.Scalar": "SD",
    "executorch_prim::sym_not.Scalar": "BB",
    "executorch_prim::sym_ite.Scalar": "BSSS",
    "executorch_prim::et_copy_index.tensor": "TTI",
    "executorch_prim::et_view.default": "TLT",
    "aten::sym_size.int": "TII",
    "aten::sym_numel": "TI",
    "aten::_local_scalar_dense": "TS",
}


def letter(argument: torch.Argument) -> str:
    """Return the letter of an argument."""
    optional = re.fullmatch(r"Optional\[(.*)\]", str(argument.type))
    found = LETTERS[optional[1] if optional else str(argument.type)]
    return found.lower() if optional else found


def signatures() -> Iterator[tuple[str, str]]:
    """Yield the full names of operators and what they take."""
    yield from RUNTIME.items()
    for name in LISTS:
        for entry in yaml.safe_load((Path(executorch.__path__[0]) / "kernels" / name).read_text()):
            if "op" in entry:
                namespace, _, rest = entry["op"].rpartition("::")
                base, _, overload = rest.partition(".")
                packet = getattr(getattr(torch.ops, namespace or "aten"), base)
                schema = getattr(packet, overload or "default")._schema
            else:
                schema = torch._C.parse_schema(entry["func"])
            full = schema.name if "::" in schema.name else f"aten::{schema.name}"
            overload = f".{schema.overload_name}" if schema.overload_name else ""
            # What an operator without an out argument returns goes to the argument behind its own.
            has_out = any(argument.is_out for argument in schema.arguments)
            taken = [*schema.arguments, *([] if has_out else schema.returns)]
            yield full + overload, "".join(map(letter, taken))


def text() -> str:
    """Return the file, which is sorted by the names."""
    taken = sorted(dict(signatures()).items())
    return TOP + "".join(f'AOTIP_SIGNATURE("{op}", "{letters}")\n' for op, letters in taken)


def main() -> None:
    """Write the file."""
    lines = (
        f'AOTIP_SIGNATURE("{op}", "{taken}")\n' for op, taken in sorted(dict(signatures()).items())
    )
    TARGET.write_text(TOP + "".join(lines))


if __name__ == "__main__":
    main()
